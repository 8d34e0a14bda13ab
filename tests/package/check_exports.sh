#!/bin/sh
# check_exports.sh LIBRARY: what a shared library shows to others is Tegula's own: not one symbol of LLVM (weak ones
# included), Boost, fmt, zstd or zlib, which a program may bring in another version.
set -eu
# Names with parameters of class type in templates stay as they are where binutils cannot take them apart.
library=$1
symbols=$(nm --dynamic --defined-only --demangle "$library")
foreign=$(printf '%s\n' "$symbols" | cut -d' ' -f3- |
  grep -vE '^(tegula::|tegula_|_Z[[:alnum:]_]*6tegula|(typeinfo|typeinfo name|vtable|VTT|guard variable|non-virtual thunk|virtual thunk|construction vtable|covariant return thunk)( to| for)? tegula::)' || true)
if [ -n "$foreign" ]; then
  echo "$library exports symbols that are not Tegula's:"
  printf '%s\n' "$foreign" | head -20
  exit 1
fi
printf '%s\n' "$symbols" | grep -q ' tegula::' || { echo "$library exports nothing of Tegula"; exit 1; }
# Nor may it lean on a shared library that a machine without development packages lacks.
needed=$(readelf --dynamic "$library" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p')
for name in $needed; do
  case $name in
    libc.so.6 | libm.so.6 | libdl.so.2 | libpthread.so.0 | librt.so.1 | ld-linux-x86-64.so.2 | libstdc++.so.6 | \
      libgcc_s.so.1 | libtegula_runtime.so.* | libasan.so.* | libubsan.so.*) ;;
    *) echo "$library needs $name at run time"; exit 1 ;;
  esac
done
echo "$(printf '%s\n' "$symbols" | wc -l) symbols exported, all Tegula's; needs" $needed
