#!/bin/sh
# check_documented.sh PREFIX: fails unless every header that an installed page includes is installed.
set -eu
include=$1/include
pages=$1/share/doc/tegula
headers=$(grep -rhoE '#include <(tegula|dsl|kernels|runtime|codegen)/[^>]+>' "$pages" | sed 's/.*<\(.*\)>/\1/' | sort -u)
[ -n "$headers" ] || { echo "no page in $pages includes a header"; exit 1; }
status=0
for header in $headers; do
  [ -e "$include/$header" ] || [ -e "$include/tegula/$header" ] || { echo "<$header> is documented but not installed"; status=1; }
done
echo "$headers"
exit $status
