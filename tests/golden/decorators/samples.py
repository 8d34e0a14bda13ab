# Decorators as public kernels write them. The text behind the marker is what Triton makes of this file
# (with_triton.py, given this file, checks it) and what Tegula must make of it. Heuristics see the arguments LAUNCH of
# with_triton.py and the first configuration.
import functools
import itertools
import math
import os

import torch
import triton
import triton.language as tl
from triton import Config, autotune, cdiv, heuristics

WARPS = [2, 4, 8]
MAX_FUSED = 65536 // 2
ROW_CONFIGS = [triton.Config({}, num_warps=w) for w in WARPS]
IS_FAST = os.environ.get("TEGULA_SAMPLES_FAST", "0") == "1"


def is_cuda():
    return triton.runtime.driver.active.get_current_target().backend == "cuda"


# Inline list.
@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 128}, num_warps=4),
        triton.Config({"BLOCK": 1024, "UNROLL": True}, num_warps=8, num_stages=2, maxnreg=64),
        triton.Config(kwargs={"BLOCK": 64 * 4, "UNROLL": False}),
    ],
    key=["n"],
)
@triton.jit
def inline_list(x, n, BLOCK: tl.constexpr, UNROLL: tl.constexpr = False):
    pass


# A comprehension with several loops and a condition; key names that are no arguments.
@triton.autotune(
    configs=[
        triton.Config({"BM": bm, "BN": bn}, num_warps=w, num_stages=s)
        for bm in [64, 128]
        for bn in (32, 64, 128)
        for w, s in [(4, 2), (8, 3)]
        if bm * bn >= 4096 and not (bn == 128 and w == 4)
    ],
    key=["M", "N", "gone"],
    restore_value=("y",),
)
@triton.jit
def comprehension(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    pass


# A list of the module, joined with another; @heuristics below.
@autotune(ROW_CONFIGS + [Config({}, num_warps=cdiv(33, 4) + 7)], ["N"], reset_to_zero=["y"], warmup=5, rep=12.5,
          use_cuda_graph=True)
@heuristics({
    "BLOCK": lambda args: triton.next_power_of_2(args["N"]),
    "EVEN": lambda args: args["N"] % args["BLOCK"] == 0,
    "HAS_BIAS": lambda args: args["bias"] is not None,
})
@triton.jit
def named_list(x, y, bias, N, BLOCK: tl.constexpr, EVEN: tl.constexpr, HAS_BIAS: tl.constexpr):
    pass


# A function with statements.
def get_configs():
    configs = []
    for bm, bk in itertools.product([32, 64], [32, 64]):
        stages = [2, 3] if is_cuda() else [1]
        for s in stages:
            if bm == 64 and bk == 64 and s == 3:
                continue
            configs.append(triton.Config({"BM": bm, "BK": bk, "GROUP": 8}, num_stages=s, num_warps=4 if bm == 32 else 8))
    configs += [triton.Config(dict(BM=2 ** 7, BK=1 << 6, GROUP=max(1, int(math.log2(16)))), num_warps=8)]
    return configs


@triton.autotune(configs=get_configs() if not IS_FAST else get_configs()[:1], key=["M", "N", "K"])
@triton.heuristics({"EVEN_K": lambda a: a["K"] % (a["BK"] * 2) == 0})
@triton.jit
def function_configs(x, M, N, K, BM: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, EVEN_K: tl.constexpr):
    pass


# Heuristics above and below the tuner, functions among them.
def pick_block(args):
    n = args["n"]
    if n > 4096:
        return 4096
    block = 1
    while block < n:
        block *= 2
    return block


@triton.heuristics(values={
    "BLOCK": pick_block,
    "VEC": lambda args: 16 // args["x"].element_size() if args["x"].data_ptr() % 16 == 0 else 1,
    "num_warps": lambda args: min(max(triton.cdiv(args["BLOCK"], 256), 1), 8),
})
@triton.heuristics({
    "HALF": lambda args: args["x"].dtype == torch.float16 or args["x"].dtype == torch.bfloat16,
    "WIDE": lambda args: args["y"].dtype in [torch.float64, torch.int64],
    "ROUND": lambda args: 2 if args["causal"] and args["eps"] < 1e-3 else (0 if args.get("n") is None else 1),
    "NAME": lambda args: "small" if args["BLOCK"] <= 2048 else "large",
})
@triton.jit
def stacked(x, y, n, causal, eps, BLOCK: tl.constexpr, VEC: tl.constexpr, HALF: tl.constexpr, WIDE: tl.constexpr,
            ROUND: tl.constexpr, NAME: tl.constexpr):
    pass


# Pruning by a Python function.
def prune(configs, named_args, **kwargs):
    n = named_args["n"]
    kept = []
    for config in configs:
        block = config.kwargs["BLOCK"]
        if block > n * 2 or block * 2 < n:
            continue
        if config.num_warps * 32 > block:
            continue
        kept.append(config)
    if not kept:
        return [configs[0]]
    return kept


@triton.autotune(configs=[triton.Config({"BLOCK": 2 ** i}, num_warps=w) for i in range(8, 13) for w in (4, 16)],
                 key=[], prune_configs_by={"early_config_prune": prune})
@triton.jit
def pruned(x, n, BLOCK: tl.constexpr):
    pass


# Nothing to tune.
@triton.autotune(configs=[], key=["n"])
@triton.jit
def empty(x, n):
    pass


@triton.jit
def plain(x, n, BLOCK: tl.constexpr):
    pass

# ---- expected
# kernel inline_list
#   key n
#   config BLOCK=128 num_warps=4 num_stages=3
#   config BLOCK=1024 UNROLL=True num_warps=8 num_stages=2 maxnreg=64
#   config BLOCK=256 UNROLL=False num_warps=4 num_stages=3
# kernel comprehension
#   key M N
#   restore_value y
#   config BM=64 BN=64 num_warps=4 num_stages=2
#   config BM=64 BN=64 num_warps=8 num_stages=3
#   config BM=64 BN=128 num_warps=8 num_stages=3
#   config BM=128 BN=32 num_warps=4 num_stages=2
#   config BM=128 BN=32 num_warps=8 num_stages=3
#   config BM=128 BN=64 num_warps=4 num_stages=2
#   config BM=128 BN=64 num_warps=8 num_stages=3
#   config BM=128 BN=128 num_warps=8 num_stages=3
# kernel named_list
#   key N
#   reset_to_zero y
#   config num_warps=2 num_stages=3
#   config num_warps=4 num_stages=3
#   config num_warps=8 num_stages=3
#   config num_warps=16 num_stages=3
#   heuristic BLOCK=512
#   heuristic EVEN=True
#   heuristic HAS_BIAS=False
# kernel function_configs
#   key M N K
#   config BK=32 BM=32 GROUP=8 num_warps=4 num_stages=2
#   config BK=32 BM=32 GROUP=8 num_warps=4 num_stages=3
#   config BK=64 BM=32 GROUP=8 num_warps=4 num_stages=2
#   config BK=64 BM=32 GROUP=8 num_warps=4 num_stages=3
#   config BK=32 BM=64 GROUP=8 num_warps=8 num_stages=2
#   config BK=32 BM=64 GROUP=8 num_warps=8 num_stages=3
#   config BK=64 BM=64 GROUP=8 num_warps=8 num_stages=2
#   config BK=64 BM=128 GROUP=4 num_warps=8 num_stages=3
#   heuristic EVEN_K=True
# kernel stacked
#   heuristic BLOCK=1024
#   heuristic VEC=8
#   heuristic num_warps=4
#   heuristic HALF=True
#   heuristic WIDE=False
#   heuristic ROUND=2
#   heuristic NAME="small"
# kernel pruned
#   key
#   config BLOCK=256 num_warps=4 num_stages=3
#   config BLOCK=256 num_warps=16 num_stages=3
#   config BLOCK=512 num_warps=4 num_stages=3
#   config BLOCK=512 num_warps=16 num_stages=3
#   config BLOCK=1024 num_warps=4 num_stages=3
#   config BLOCK=1024 num_warps=16 num_stages=3
#   config BLOCK=2048 num_warps=4 num_stages=3
#   config BLOCK=2048 num_warps=16 num_stages=3
#   config BLOCK=4096 num_warps=4 num_stages=3
#   config BLOCK=4096 num_warps=16 num_stages=3
#   kept BLOCK=512 num_warps=4 num_stages=3
#   kept BLOCK=512 num_warps=16 num_stages=3
#   kept BLOCK=1024 num_warps=4 num_stages=3
#   kept BLOCK=1024 num_warps=16 num_stages=3
# kernel empty
#   key n
#   config num_warps=4 num_stages=3
# kernel plain
