"""Softmax along the rows of a matrix, in the three ways that are fast for one shape or another.

An ordinary Triton file: bench/softmax.py compiles the same text with Triton and with Tegula. A row of `cols` elements
lies `out_stride` and `x_stride` elements after the one before it; BLOCK is the power of two at or above `cols`. Whatever
the element type, the arithmetic is fp32.
"""

import triton
import triton.language as tl


@triton.jit
def softmax_row(out_ptr, x_ptr, out_stride, x_stride, cols, BLOCK: tl.constexpr):
    """One program a row."""
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < cols
    x = tl.load(x_ptr + row * x_stride + offsets, mask=mask, other=float("-inf")).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    y = numerator / tl.sum(numerator, axis=0)
    tl.store(out_ptr + row * out_stride + offsets, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def softmax_persistent(out_ptr, x_ptr, out_stride, x_stride, rows, cols, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """As many programs as the GPU runs at a time; each takes a row after another and loads ahead of its work."""
    offsets = tl.arange(0, BLOCK)
    mask = offsets < cols
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        x = tl.load(x_ptr + row * x_stride + offsets, mask=mask, other=float("-inf")).to(tl.float32)
        numerator = tl.exp(x - tl.max(x, axis=0))
        y = numerator / tl.sum(numerator, axis=0)
        tl.store(out_ptr + row * out_stride + offsets, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def softmax_rows(out_ptr, x_ptr, out_stride, x_stride, rows, cols, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """ROWS rows a program, for short rows."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, BLOCK)
    mask = (row[:, None] < rows) & (col[None, :] < cols)
    x = tl.load(x_ptr + row[:, None] * x_stride + col[None, :], mask=mask, other=float("-inf")).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=1)[:, None])
    y = numerator / tl.sum(numerator, axis=1)[:, None]
    tl.store(out_ptr + row[:, None] * out_stride + col[None, :], y.to(out_ptr.dtype.element_ty), mask=mask)
