#!/usr/bin/env bash
# How long tuning takes: 30 configurations of softmax, 4096 x 4096 fp32, as a whole process.
#
#   bench/tuning_time.sh [TEGULA]     the command; default: build/release/tegula
#
# Three processes that find nothing in the cache, then one that finds all: it must time none.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tegula=${1:-build/release/tegula}
export TEGULA_CACHE_DIR CUDA_CACHE_DISABLE=1
TEGULA_CACHE_DIR=$(mktemp -d)
trap 'rm -rf "$TEGULA_CACHE_DIR"' EXIT

tune() {
  local start=${EPOCHREALTIME/./} text
  text=$("$tegula" tune kernels/softmax.py::softmax --grid rows --random x_ptr=f32[4096,4096] --zeros out_ptr=f32[4096,4096] \
    --arg bias_ptr=None --arg out_stride=4096 --arg x_stride=4096 --arg rows=4096 --arg cols=4096 --arg scale=1.0 \
    --arg rows_class=2 --key cols --space ROWS=1 --space STAGES=0 --space PIECE=0 --space num_warps=1..32 \
    --space maxnreg=32,40,64,128,255 2>&1)
  printf '%s; whole process, data made and copied: %d ms\n' "$(grep 'candidates timed' <<<"$text")" \
    $(((${EPOCHREALTIME/./} - start) / 1000))
}

for _ in 1 2 3; do
  rm -rf "${TEGULA_CACHE_DIR:?}"/*
  echo "empty cache: $(tune)"
done
last=$(tune)
echo "warm cache:  $last"
grep -q '^0 of 30 ' <<<"$last"
