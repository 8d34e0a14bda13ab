"""Three chains of operations along the rows of a matrix: each step as a kernel of its own, then the chain as one.

A row lies `cols` elements after the one before it. Each program works on one row, which fits in one tile: BLOCK follows
from `cols`, and the tuner picks the number of warps.
"""

import triton
import triton.language as tl

CONFIGS = [triton.Config({}, num_warps=warps) for warps in (4, 8, 16, 2, 1, 32)]


def block(args):
    return triton.next_power_of_2(args["cols"])


@triton.jit
def load_row(x_ptr, cols, BLOCK: tl.constexpr, other: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    return tl.load(x_ptr + tl.program_id(0) * cols + offsets, mask=offsets < cols, other=other)


@triton.jit
def load_vector(x_ptr, cols, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    return tl.load(x_ptr + offsets, mask=offsets < cols, other=0.0)


@triton.jit
def store_row(out_ptr, row, cols, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.program_id(0) * cols + offsets, row, mask=offsets < cols)


# ---- Steps: kernels as an array library has them. Each reads what the one before it has written.


@triton.autotune(configs=CONFIGS, key=["cols"])
@triton.heuristics({"BLOCK": block})
@triton.jit
def add(out_ptr, x_ptr, y_ptr, cols, BLOCK: tl.constexpr):
    store_row(out_ptr, load_row(x_ptr, cols, BLOCK, 0.0) + load_row(y_ptr, cols, BLOCK, 0.0), cols, BLOCK)


@triton.autotune(configs=CONFIGS, key=["cols"])
@triton.heuristics({"BLOCK": block})
@triton.jit
def rms_norm(out_ptr, x_ptr, weight_ptr, cols, eps, BLOCK: tl.constexpr):
    x = load_row(x_ptr, cols, BLOCK, 0.0)
    y = x * tl.rsqrt(tl.sum(x * x, axis=0) / cols + eps)
    store_row(out_ptr, y * load_vector(weight_ptr, cols, BLOCK), cols, BLOCK)


@triton.autotune(configs=CONFIGS, key=["cols"])
@triton.heuristics({"BLOCK": block})
@triton.jit
def silu(out_ptr, x_ptr, cols, BLOCK: tl.constexpr):
    x = load_row(x_ptr, cols, BLOCK, 0.0)
    store_row(out_ptr, x * tl.sigmoid(x), cols, BLOCK)


@triton.autotune(configs=CONFIGS, key=["cols"])
@triton.heuristics({"BLOCK": block})
@triton.jit
def exponential(out_ptr, x_ptr, cols, BLOCK: tl.constexpr):
    store_row(out_ptr, tl.exp(load_row(x_ptr, cols, BLOCK, 0.0)), cols, BLOCK)


@triton.autotune(configs=CONFIGS, key=["cols"])
@triton.heuristics({"BLOCK": block})
@triton.jit
def add_one(out_ptr, x_ptr, cols, BLOCK: tl.constexpr):
    store_row(out_ptr, load_row(x_ptr, cols, BLOCK, 0.0) + 1.0, cols, BLOCK)


@triton.autotune(configs=CONFIGS, key=["cols"])
@triton.heuristics({"BLOCK": block})
@triton.jit
def row_sum(out_ptr, x_ptr, cols, BLOCK: tl.constexpr):
    tl.store(out_ptr + tl.program_id(0), tl.sum(load_row(x_ptr, cols, BLOCK, 0.0), axis=0))


@triton.autotune(configs=CONFIGS, key=["cols"])
@triton.heuristics({"BLOCK": block})
@triton.jit
def row_max(out_ptr, x_ptr, cols, BLOCK: tl.constexpr):
    tl.store(out_ptr + tl.program_id(0), tl.max(load_row(x_ptr, cols, BLOCK, float("-inf")), axis=0))


@triton.autotune(configs=CONFIGS, key=["cols"])
@triton.heuristics({"BLOCK": block})
@triton.jit
def subtract(out_ptr, x_ptr, column_ptr, cols, BLOCK: tl.constexpr):
    store_row(out_ptr, load_row(x_ptr, cols, BLOCK, 0.0) - tl.load(column_ptr + tl.program_id(0)), cols, BLOCK)


@triton.autotune(configs=CONFIGS, key=["cols"])
@triton.heuristics({"BLOCK": block})
@triton.jit
def divide(out_ptr, x_ptr, column_ptr, cols, BLOCK: tl.constexpr):
    store_row(out_ptr, load_row(x_ptr, cols, BLOCK, 0.0) / tl.load(column_ptr + tl.program_id(0)), cols, BLOCK)


@triton.autotune(configs=CONFIGS, key=["cols"])
@triton.heuristics({"BLOCK": block})
@triton.jit
def multiply(out_ptr, x_ptr, scale, cols, BLOCK: tl.constexpr):
    store_row(out_ptr, load_row(x_ptr, cols, BLOCK, 0.0) * scale, cols, BLOCK)


@triton.autotune(configs=CONFIGS, key=["cols"])
@triton.heuristics({"BLOCK": block})
@triton.jit
def add_vector(out_ptr, x_ptr, bias_ptr, cols, BLOCK: tl.constexpr):
    store_row(out_ptr, load_row(x_ptr, cols, BLOCK, 0.0) + load_vector(bias_ptr, cols, BLOCK), cols, BLOCK)


# ---- Fusions: the row stays on the chip from the first step to the last. All loads come before the first reduction, so
# that they are under way together.


@triton.autotune(configs=CONFIGS, key=["cols"])
@triton.heuristics({"BLOCK": block})
@triton.jit
def residual_rms_norm_silu(out_ptr, x_ptr, residual_ptr, weight_ptr, cols, eps, BLOCK: tl.constexpr):
    h = load_row(x_ptr, cols, BLOCK, 0.0) + load_row(residual_ptr, cols, BLOCK, 0.0)
    weight = load_vector(weight_ptr, cols, BLOCK)
    y = h * tl.rsqrt(tl.sum(h * h, axis=0) / cols + eps) * weight
    store_row(out_ptr, y * tl.sigmoid(y), cols, BLOCK)


@triton.autotune(configs=CONFIGS, key=["cols"])
@triton.heuristics({"BLOCK": block})
@triton.jit
def exp_normalize(out_ptr, x_ptr, cols, BLOCK: tl.constexpr):
    # Beyond the end of the row exp(-inf) + 1 is 1, which must not count.
    numerator = tl.exp(load_row(x_ptr, cols, BLOCK, float("-inf"))) + 1.0
    numerator = tl.where(tl.arange(0, BLOCK) < cols, numerator, 0.0)
    store_row(out_ptr, numerator / tl.sum(numerator, axis=0), cols, BLOCK)


@triton.autotune(configs=CONFIGS, key=["cols"])
@triton.heuristics({"BLOCK": block})
@triton.jit
def softmax_scale_bias(out_ptr, x_ptr, scale, bias_ptr, cols, BLOCK: tl.constexpr):
    x = load_row(x_ptr, cols, BLOCK, float("-inf"))
    bias = load_vector(bias_ptr, cols, BLOCK)
    numerator = tl.exp(x - tl.max(x, axis=0))
    store_row(out_ptr, numerator * (scale / tl.sum(numerator, axis=0)) + bias, cols, BLOCK)
