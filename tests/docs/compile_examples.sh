#!/bin/sh
# compile_examples.sh SOURCES PAGE COMPILER [FLAG...]: the C++ blocks of a page, one after another, are the body of a
# function that compiles; their #include lines stand before it.
set -eu
sources=$1 page=$2
shift 2
blocks=$(awk '/^```cpp$/ { on = 1; next } /^```$/ { on = 0 } on' "$sources/$page")
{
  printf '%s\n' "$blocks" | grep '^#include'
  echo 'void page() {'
  printf '%s\n' "$blocks" | grep -v '^#include'
  echo '}'
} | "$@" -std=c++20 -fsyntax-only -Wall -Wextra -DFMT_HEADER_ONLY -I"$sources" -x c++ -
echo "$(printf '%s\n' "$blocks" | wc -l) lines of $page compile"
