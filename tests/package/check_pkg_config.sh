#!/bin/sh
# check_pkg_config.sh PREFIX FOLDER: programs in C and C++ find the libraries by pkg-config, without a warning.
# Leaves with status 77 if pkg-config is not there.
set -eu
command -v pkg-config > /dev/null || exit 77
prefix=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder"
cd "$folder"
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig:$prefix/lib64/pkgconfig"
cat > a.c << 'END'
#include <stdio.h>
#include <tegula/tegula_runtime.h>
int main(void) {
  tegula_package* package;
  return tegula_package_read("nowhere.tgp", &package) ? puts(tegula_last_error()), 0 : 1;
}
END
cat > b.cpp << 'END'
#include <dsl/tegula.h>
#include <runtime/package/package.h>
int main() { return tegula::Program::parse("").kernels().size(); }
END
for name in tegula-runtime tegula; do
  cc -std=c99 -Wall -Wextra -Werror a.c $(pkg-config --cflags --libs $name) -o a
  LD_LIBRARY_PATH=$(pkg-config --variable=libdir $name) ./a
done
c++ -std=c++20 -Wall -Wextra -Werror b.cpp $(pkg-config --cflags --libs tegula) -o b
LD_LIBRARY_PATH=$(pkg-config --variable=libdir tegula) ./b
