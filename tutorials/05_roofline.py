"""Kernels between the two roofs: the same bytes, and ever more arithmetic on them."""

import triton
import triton.language as tl


@triton.jit
def double_often(out_ptr, x_ptr, n, REPEATS: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    for _ in tl.static_range(REPEATS):
        x = x * 2.0
    tl.store(out_ptr + offsets, x, mask=offsets < n)


@triton.jit
def cosine(out_ptr, x_ptr, n, TIMES: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    for _ in tl.static_range(TIMES):
        x = tl.cos(x)
    tl.store(out_ptr + offsets, x, mask=offsets < n)
