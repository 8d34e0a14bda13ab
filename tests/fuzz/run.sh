#!/usr/bin/env bash
# Fuzzes the front end with libFuzzer: tests/fuzz/run.sh [SECONDS [SEED]], 60 unless told, with another seed each time
# unless told. Builds it by clang in build/fuzz.
# New inputs go to build/fuzz/corpus, what crashes or takes too long to build/fuzz/found. Exits with 0 if nothing was
# found, with 77 if there is no clang with libFuzzer.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

seconds=${1:-60}
seed=${2:-0}  # 0: one that libFuzzer chooses
has_libfuzzer() {
  echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
    "$1" -x c++ -fsanitize=fuzzer -o /dev/null - 2>/dev/null
}
clang=$(command -v clang++-14 || command -v clang++ || true)
if [ -z "$clang" ] || ! has_libfuzzer "$clang"; then
  echo "fuzz: skipped: no clang++ with libFuzzer (Debian: clang-14, libclang-rt-14-dev)"
  exit 77
fi

optimise=-O0
[ "$seconds" -lt 600 ] || optimise=-O1
cmake -S tests/fuzz -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER="$clang" -DCMAKE_CXX_FLAGS_FUZZ=$optimise
cmake --build build/fuzz --parallel "${TEGULA_JOBS:-$(nproc)}"

# Those of a short run take a quarter of it, at -O0 some 8 KB a second.
some=()
[ "$seconds" -ge 600 ] || some=($((seconds * 2000)) "$seed")
python3 tests/fuzz/seeds.py build/fuzz/seeds "${some[@]}"
mkdir -p build/fuzz/corpus build/fuzz/found
exec build/fuzz/front_end_fuzzer -seed="$seed" -max_total_time="$seconds" -max_len=4096 -timeout=20 -rss_limit_mb=4096 \
  -dict=tests/fuzz/words.dict -artifact_prefix=build/fuzz/found/ build/fuzz/corpus tests/fuzz/corpus build/fuzz/seeds
