#!/bin/sh
# check_deb.sh BUILD FOLDER: makes the Debian package of a build in the folder (not compressed, which takes most of the
# time), unpacks it there, and runs what is in it.
set -eu
build=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder"
(cd "$build" && cpack -G DEB -D CPACK_DEBIAN_COMPRESSION_TYPE=none -B "$folder" > "$folder/log" 2>&1) || { cat "$folder/log"; exit 1; }
package=$(echo "$folder"/*.deb)

depends=$(dpkg-deb --field "$package" Depends)
echo "depends on: $depends"
for library in libc6 libstdc++6; do
  case $depends in
    *"$library (>= "*) ;;
    *) echo "no version of $library is asked for"; exit 1 ;;
  esac
done
others=$(echo "$depends" | tr ',' '\n' | grep -vE '^ *(libc6|libstdc\+\+6|libgcc-s1)( |$)' || true)
[ -z "$others" ] || { echo "other packages are asked for: $others"; exit 1; }
! dpkg-deb --contents "$package" | grep -E '__pycache__|\.pyc' || { echo "compiled Python is in the package"; exit 1; }

dpkg-deb --extract "$package" "$folder/root"
unset TEGULA_LIBRARY LD_LIBRARY_PATH PYTHONPATH
"$folder/root/usr/bin/tegula" --version
PYTHONPATH=$folder/root/usr/share/tegula/python PYTHONDONTWRITEBYTECODE=1 python3 -c '
import os, sys, tegula
source = "import triton\nimport triton.language as tl\n\n@triton.jit\ndef k(x):\n    tl.store(x, 1.0)\n"
path = os.path.join(sys.argv[1], "k.py")
open(path, "w").write(source)
print(tegula.load(path).k)
' "$folder"
