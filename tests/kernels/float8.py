"""Kernels on float8."""

import triton
import triton.language as tl


@triton.jit
def convert(x_ptr, out_ptr, n, TYPE: tl.constexpr, BLOCK: tl.constexpr):
    """out = x as another type."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x.to(TYPE, fp_downcast_rounding=None), mask=i < n)


@triton.jit
def scale(out_ptr, x_ptr, factor: tl.float32, n, BLOCK: tl.constexpr):
    """out = x, what is above 3 times the factor."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=2.0).to(tl.float32)
    x = tl.where(x > 3.0, x * factor, x)
    tl.store(out_ptr + i, x, mask=i < n)


@triton.jit
def bits(out_ptr, byte_ptr, largest_ptr, sum_ptr, x_ptr, BLOCK: tl.constexpr):
    """x as bytes, with other signs, its largest element and its sum."""
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(byte_ptr + i, x.to(tl.uint8, bitcast=True))
    flipped = x.to(tl.int8, bitcast=True) ^ -128
    full = tl.full((BLOCK,), 1000.0, tl.float8e4nv)
    y = tl.where(i < 8, flipped.to(tl.float8e4nv, bitcast=True), full)
    tl.store(out_ptr + i, tl.where(i < 16, y, tl.zeros((BLOCK,), tl.float8e4nv)))
    tl.store(largest_ptr, tl.max(x, 0))
    tl.store(sum_ptr, tl.sum(x, 0, dtype=tl.float32))
