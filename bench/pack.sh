#!/usr/bin/env bash
# Packs what was built, so that it runs on a machine without LLVM or a compiler.
#
#   bench/pack.sh [BUILD [ARCHIVE]]     default: build/release, .dist/tegula.tar.xz
#
# The archive holds stripped copies of the libraries, the tegula command, the tests (and what they load), the tutorials
# and the bench programs in the build folder's structure, and the places of the sources and of the build. bench/run_gpu.sh takes it.
# Fails if a program needs a library beyond the C and C++ run time, or if the archive is too large to carry.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=${1:-build/release}
archive=${2:-.dist/tegula.tar.xz}
limit=$((40 << 20))
allowed='^(libtegula(_runtime)?\.so\.[0-9]+|libc\.so\.6|libm\.so\.6|libstdc\+\+\.so\.6|libgcc_s\.so\.1|libz\.so\.1|ld-linux.*|libdl\.so\.2|libpthread\.so\.0)$'

fail() { printf 'pack: %s\n' "$*" >&2; exit 1; }

[ -f "$build/libtegula.so" ] || fail "there is no libtegula.so in '$build': build first"

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
root=$stage/tegula
mkdir -p "$root"
libraries=()
for name in libtegula libtegula_runtime; do
  cp "$(readlink -f "$build/$name.so")" "$root/$name.so.0"
  ln -s "$name.so.0" "$root/$name.so"
  libraries+=("$root/$name.so.0")
done

programs=()
for file in "$build"/tegula "$build"/tests/*_test "$build"/tests/libtorn_down.so "$build"/tutorials/[0-9]* "$build"/bench/*; do
  if [ -f "$file" ] && [ -x "$file" ] && [ "$(head -c 4 "$file" | tail -c 3)" = ELF ]; then
    relative=${file#"$build"/}
    mkdir -p "$root/$(dirname "$relative")"
    cp "$file" "$root/$relative"
    programs+=("$root/$relative")
  fi
done
[ ${#programs[@]} -gt 0 ] || fail "there are no programs in '$build'"
strip --strip-unneeded "${libraries[@]}" "${programs[@]}"
sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$build/CMakeCache.txt" >"$root/SOURCE_DIR"
sed -n 's/^CMAKE_CACHEFILE_DIR:INTERNAL=//p' "$build/CMakeCache.txt" >"$root/BUILD_DIR"

for file in "${libraries[@]}" "${programs[@]}"; do
  while read -r needed; do
    [[ $needed =~ $allowed ]] || fail "'${file#"$root"/}' needs $needed, which the other machine may not have"
  done < <(objdump -p "$file" | awk '$1 == "NEEDED" { print $2 }')
  missing=$(LD_LIBRARY_PATH=$root ldd "$file" | grep 'not found' || true)
  [ -z "$missing" ] || fail "'${file#"$root"/}' does not find: $missing"
done
newest=$(objdump -T "${libraries[@]}" "${programs[@]}" | grep -oE '\((GLIBC|GLIBCXX|CXXABI)_[0-9.]+\)' | tr -d '()' |
  sort -uV | awk -F_ '{ last[$1] = $2 } END { for (name in last) printf " %s_%s", name, last[name] }')

mkdir -p "$(dirname "$archive")"
tar -C "$stage" -cf - tegula | xz -T0 -3 >"$archive.part"
bytes=$(stat -c %s "$archive.part")
[ "$bytes" -le "$limit" ] || fail "the archive has $bytes bytes, more than $limit"
mv "$archive.part" "$archive"
printf '%s: %d programs and the libraries, %d KiB; needs at most%s\n' "$archive" ${#programs[@]} $((bytes >> 10)) "$newest"
