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

# The archive, in a program of C alone.
static=$(pkg-config --static --libs tegula-runtime | tr ' ' '\n' | grep -v -e -ltegula_runtime -e '^-L')
cc -std=c99 -Wall -Wextra -Werror a.c $(pkg-config --cflags tegula-runtime) \
  "$(pkg-config --variable=libdir tegula-runtime)/libtegula_runtime.a" $static -o static
./static

# The tutorials, from where they are installed, as README.md says.
docs=$prefix/share/doc/tegula
here=$PWD
cd "$docs"
tutorial() { c++ -std=c++20 -I. -DTEGULA_TUTORIALS='"tutorials"' "tutorials/$1.cpp" $(pkg-config --cflags --libs tegula) $2; }
tutorial 01_vector_add "-o $here/tutorial"
TEGULA_DEVICE=emulator LD_LIBRARY_PATH=$(pkg-config --variable=libdir tegula) "$here/tutorial"
tutorial 05_roofline -fsyntax-only
cd "$here"

# The program of docs/packages.md, on the emulator as the page says.
[ -x "$prefix/bin/tegula" ] || exit 0
awk '/^```python$/ { on = 1; next } /^```$/ { if (on) exit } on' "$docs/README.md" > softmax.py
awk '/^```c$/ { on = 1; next } /^```$/ { if (on) exit } on' "$docs/docs/packages.md" > app.c
"$prefix/bin/tegula" build softmax.py::softmax --arg out_ptr='*f32' --arg x_ptr='*f32' --arg cols=i32 --constexpr BLOCK=1024 \
  --target sm_90a --emulator -o app.tgp --header app.h --object app.o
cc -std=c99 -Wall -Wextra -Werror app.c app.o $(pkg-config --cflags --libs tegula-runtime) -o app
sed -e 's|tegula_device_cuda(0, &device)|tegula_device_default(\&device)|' \
  -e 's|#include "app.h"|#include <tegula/tegula.h>\n#include "app.h"|' app.c > emulated.c
cc -std=c99 -Wall -Wextra -Werror emulated.c app.o $(pkg-config --cflags --libs tegula) -o emulated
test "$(TEGULA_DEVICE=emulator LD_LIBRARY_PATH=$(pkg-config --variable=libdir tegula) ./emulated)" = 0.01
