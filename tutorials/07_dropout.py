"""Dropout: with a mask that is stored, and with one that the backward pass computes again."""

import triton
import triton.language as tl


@triton.jit
def kept(offsets, p, seed):
    """Whether each element is kept: it follows from the seed and the element's place alone."""
    return tl.rand(seed, offsets) >= p


@triton.jit
def dropout(out_ptr, x_ptr, n, p, seed, BLOCK: tl.constexpr):
    """x / (1 - p) where an element is kept, else 0. Its own gradient: of dy it makes dx."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, tl.where(kept(offsets, p, seed), x / (1 - p), 0.0), mask=offsets < n)


@triton.jit
def dropout_and_mask(out_ptr, mask_ptr, x_ptr, n, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    keep = kept(offsets, p, seed)
    tl.store(out_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=offsets < n)
    tl.store(mask_ptr + offsets, keep.to(tl.int8), mask=offsets < n)


@triton.jit
def backward_by_mask(dx_ptr, mask_ptr, dy_ptr, n, p, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.load(mask_ptr + offsets, mask=offsets < n, other=0)
    dy = tl.load(dy_ptr + offsets, mask=offsets < n)
    tl.store(dx_ptr + offsets, tl.where(keep != 0, dy / (1 - p), 0.0), mask=offsets < n)
