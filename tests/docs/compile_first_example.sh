#!/bin/sh
# compile_first_example.sh SOURCES PAGE COMPILER [FLAG...]: the first C++ block of a page is a file that compiles.
set -eu
sources=$1 page=$2
shift 2
block=$(awk '/^```cpp$/ { on = 1; next } /^```$/ { if (on) exit } on' "$sources/$page")
printf '%s\n' "$block" | "$@" -std=c++20 -fsyntax-only -Wall -Wextra -DFMT_HEADER_ONLY -I"$sources" -x c++ -
echo "$(printf '%s\n' "$block" | wc -l) lines of $page compile"
