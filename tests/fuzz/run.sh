#!/usr/bin/env bash
# Fuzzes the front end with libFuzzer: tests/fuzz/run.sh FUZZER [SECONDS [SEED]], 60 unless told, with another seed each
# time unless told. ./dev fuzz builds the fuzzer and calls this.
# New inputs go to build/fuzz/corpus, what crashes or takes too long to build/fuzz/found. Exits with 0 if nothing was
# found.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

fuzzer=${1:?the program front_end_fuzzer}
seconds=${2:-60}
seed=${3:-0}  # 0: one that libFuzzer chooses

# Those of a short run take a quarter of it, some 8 KB a second.
some=()
[ "$seconds" -ge 600 ] || some=($((seconds * 2000)) "$seed")
python3 tests/fuzz/seeds.py build/fuzz/seeds "${some[@]}"
mkdir -p build/fuzz/corpus build/fuzz/found
exec "$fuzzer" -seed="$seed" -max_total_time="$seconds" -max_len=4096 -timeout=20 -rss_limit_mb=4096 \
  -dict=tests/fuzz/words.dict -artifact_prefix=build/fuzz/found/ build/fuzz/corpus tests/fuzz/corpus build/fuzz/seeds
