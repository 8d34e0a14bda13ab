"""Softmax along the rows of a matrix, as five kernels and as one.

A row lies `cols` elements after the one before it. Each program works on one row, which fits in one tile: BLOCK is the
power of two at or above `cols`.
"""

import triton
import triton.language as tl


@triton.jit
def load_row(x_ptr, cols, BLOCK: tl.constexpr, other: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    return tl.load(x_ptr + tl.program_id(0) * cols + offsets, mask=offsets < cols, other=other)


@triton.jit
def store_row(out_ptr, row, cols, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.program_id(0) * cols + offsets, row, mask=offsets < cols)


# ---- The naive way: each step is a kernel of its own.


@triton.jit
def row_max(out_ptr, x_ptr, cols, BLOCK: tl.constexpr):
    x = load_row(x_ptr, cols, BLOCK, float("-inf"))
    tl.store(out_ptr + tl.program_id(0), tl.max(x, axis=0))


@triton.jit
def subtract(out_ptr, x_ptr, max_ptr, cols, BLOCK: tl.constexpr):
    x = load_row(x_ptr, cols, BLOCK, 0.0)
    store_row(out_ptr, x - tl.load(max_ptr + tl.program_id(0)), cols, BLOCK)


@triton.jit
def exponential(out_ptr, x_ptr, cols, BLOCK: tl.constexpr):
    store_row(out_ptr, tl.exp(load_row(x_ptr, cols, BLOCK, 0.0)), cols, BLOCK)


@triton.jit
def row_sum(out_ptr, x_ptr, cols, BLOCK: tl.constexpr):
    x = load_row(x_ptr, cols, BLOCK, 0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x, axis=0))


@triton.jit
def divide(out_ptr, x_ptr, sum_ptr, cols, BLOCK: tl.constexpr):
    x = load_row(x_ptr, cols, BLOCK, 0.0)
    store_row(out_ptr, x / tl.load(sum_ptr + tl.program_id(0)), cols, BLOCK)


# ---- The fused way: the row stays on the chip between the steps.


@triton.jit
def softmax(out_ptr, x_ptr, cols, BLOCK: tl.constexpr):
    x = load_row(x_ptr, cols, BLOCK, float("-inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    store_row(out_ptr, numerator / tl.sum(numerator, axis=0), cols, BLOCK)
