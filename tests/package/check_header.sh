#!/bin/sh
# check_header.sh COMPILER SOURCES: fails unless what programs include is light. Headers of the standard library that take
# a compiler longer than all of Tegula's own do not belong into it, nor do other libraries' headers.
set -u
compiler=$1 sources=$2
text=$(printf '#include <dsl/tegula.h>\n' | "$compiler" -std=c++20 -E -I"$sources" -x c++ -) || exit 1
headers=$(printf '%s\n' "$text" | sed -n 's/^# [0-9]* "\(.*\)" 1.*/\1/p' | sort -u)
status=0
for name in algorithm chrono fmt/core.h fmt/format.h functional iostream map memory mutex ostream ranges sstream thread tuple unordered_map; do
  found=$(printf '%s\n' "$headers" | grep "/$name\$")
  [ -z "$found" ] || { echo "dsl/tegula.h brings in <$name>"; status=1; }
done
lines=$(printf '%s\n' "$text" | grep -c '[^[:space:]]')
echo "dsl/tegula.h: $lines lines"
[ "$lines" -le 40000 ] || { echo "more than 40000"; status=1; }
exit $status
