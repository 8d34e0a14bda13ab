#!/usr/bin/env bash
# How long tuning takes, as a whole process: 30 configurations of softmax, 4096 x 4096 fp32, and 24 of a matrix product,
# 4096^3 in fp16.
#
#   bench/tuning_time.sh [TEGULA [softmax|gemm ...]]     the command; default: build/release/tegula, both
#
# Three processes each that find nothing in the cache, then one that finds all: it must time none.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tegula=${1:-build/release/tegula}
shift || true
export TEGULA_CACHE_DIR CUDA_CACHE_DISABLE=1
TEGULA_CACHE_DIR=$(mktemp -d)
trap 'rm -rf "$TEGULA_CACHE_DIR"' EXIT

softmax=(kernels/softmax.py::softmax --grid rows --random x_ptr=f32[4096,4096] --zeros out_ptr=f32[4096,4096]
  --arg mask_ptr=None --arg bias_ptr=None --arg out_stride=4096 --arg x_stride=4096 --arg mask_stride=0 --arg rows=4096
  --arg cols=4096 --arg mask_rows=1 --arg queries=0 --arg scale=1.0
  --arg rows_class=2 --key cols --space ROWS=1 --space STAGES=0 --space PIECE=0 --space EVICTION=evict_last --space num_warps=1..32
  --space maxnreg=32,40,64,128,255)
gemm=(kernels/gemm.py::gemm --grid 'cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N)' --random a_ptr=f16[4096,4096]
  --random b_ptr=f16[4096,4096] --zeros c_ptr=f16[4096,4096] --arg bias_ptr=None --arg M=4096 --arg N=4096 --arg K=4096
  --arg stride_am=4096 --arg stride_ak=1 --arg stride_bk=4096 --arg stride_bn=1 --arg stride_cm=4096 --arg stride_cn=1
  --arg m_class=4096 --arg partials_ptr=None --arg counters_ptr=None --constexpr PARTS=0 --constexpr SWAP=False --constexpr EPILOGUE=none --key M --space BLOCK_M=64..256 --space BLOCK_N=128..256 --space BLOCK_K=64
  --space GROUP_M=8 --constexpr PROGRAMS=0 --space num_warps=4..8 --space num_stages=3,4)

tune() { # tune ARGUMENTS...
  local start=${EPOCHREALTIME/./} text
  text=$("$tegula" tune "$@" 2>&1)
  printf '%s; whole process, data made and copied: %d ms\n' "$(grep 'candidates timed' <<<"$text")" \
    $(((${EPOCHREALTIME/./} - start) / 1000))
}

[ $# -gt 0 ] || set -- softmax gemm
for kernel in "$@"; do
  declare -n arguments=$kernel
  for _ in 1 2 3; do
    rm -rf "${TEGULA_CACHE_DIR:?}"/*
    echo "$kernel, empty cache: $(tune "${arguments[@]}")"
  done
  last=$(tune "${arguments[@]}")
  echo "$kernel, warm cache:  $last"
  grep -q '^0 of ' <<<"$last"
done
