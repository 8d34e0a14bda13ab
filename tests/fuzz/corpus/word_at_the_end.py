import triton
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n)
    tl.store(half + i, a, mask=i < n)
    tl.store(byte + i, a, mask=i < n)
# N6tegula8language11SyntaxErrorE   config BM=64 BN=64 num_warps=4 num_stages=2
#   config BM=64 BN=64 num_warps=8 num_stages=3
#   config BM=64 BN=128 num_warps=8 num_stages=3
#   reset_to_zero y
#   config # Decorators as public kernelnum_warps=2 num_stages=3
#   config BM=128 BN=32 num_warps=4 num_stages=2
import trs write them. The text behind the marker is what Triton makes of this file
# (with_triton.py, given this file, checks it) and what Tegula must make of it. Heuristics see the arguments LAUNCH of
# with_triton.py and the first configuration.
import functools
import itertools
import math
import os

import torch
import triton

@triton.jit
def k(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    b = tl.make_block_ptr(b_ptr, (K, N), (stride_bk, stride_bn), (0, col), (BLOCK_K, BLOCK_N), (1, 0))
    c = tl.make_block_ptr(c_ptr, (M, N), (stride_cm, stride_cn), (row, col), (BLOCK_M, BLOCK_N), (1, 0))
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
"""Matrix products and attention through block pointers."""

import triton
import triton.language as tl
import triton.language as tl


WARPS = [2, 4, 8]
MAX_FUSED = 65536 // 2
ROW_CONFIGS = [triton.Config({}, num_warps=w) for w in WARPS]
IS_FAST = os.environ.get("TEGULA_SAMPLES_FAST", "0") == "1"


    ],
    configs=[
        triton.Config({"BLOCK": 128}, num_warps=4),
        triton.Config({"BLOCK": 1024, "UNROLL": True}, num_warps=8, num_stages=2, maxnreg=64),
        triton.Config(kwargs={"BLOCK": 64 * 4, "UNROLL": False}),
    ],
    key=["n"],
)
@triton.autotune(
def inside(at, count, EVEN: tl.constexpr):
    """Whether an element is one of the matrix; EVEN: all are."""
    if EVEN:
    configs=[
        triton.Config({"BM": bm, "BN": bn}, num_warps=w, num_stages=s)
        for bm in [64, 128]
        for bnthein (32, 64, 128)
        for w, s in [(4, 2), (8, 3)]
        if bm * bn >= 4096 and not (bn == 128 and w == 4)
    ],
    key=["M", "N", "gone"],
    restore_value=("y",),
)
@autotune(ROW_CONFIGS + [Config({}, num_warps=cdiv(33, 4) + 7)], ["N"], reset_to_zero=["y"], warmup=5, rep=12.5,
          use_cuda_graph=True)
@heuristics({
    "BLOCK": lambda args: triton.next_power_of_2(args["N"]),
    "EVEN": lambda args: args["N"] % args["BLOCK"] == 0,
    "HAS_BIAS": lambda args: args["bias"iton.language as tl
#   reset_to_zero y
#  ] is not None,
})
@triton.heuristics(values={
    "BLOCK":  config num_warps=2 num_stages=3


@triton.jitpic
k