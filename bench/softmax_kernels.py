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


@triton.jit
def softmax_online(out_ptr, x_ptr, out_stride, x_stride, cols, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
                   STAGES: tl.constexpr):
    """A row in pieces of BLOCK, read twice, the second time from a cache: few registers, so many programs at a time.

    The first pass keeps a maximum and a sum of exponentials relative to it for each WIDTH elements, which are one
    thread's.
    """
    LOG2_E: tl.constexpr = 1.4426950408889634
    row = tl.program_id(0)
    x_row = x_ptr + row * x_stride
    out_row = out_ptr + row * out_stride
    offsets = tl.arange(0, BLOCK // WIDTH)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    top = tl.full([BLOCK // WIDTH], -1e38, tl.float32)
    total = tl.zeros([BLOCK // WIDTH], tl.float32)
    for start in tl.range(0, cols, BLOCK, num_stages=STAGES):
        x = tl.load(x_row + start + offsets, mask=start + offsets < cols, other=float("-inf")).to(tl.float32) * LOG2_E
        higher = tl.maximum(top, tl.max(x, axis=1))
        total = total * tl.exp2(top - higher) + tl.sum(tl.exp2(x - higher[:, None]), axis=1)
        top = higher
    row_top = tl.max(top, axis=0)
    scale = 1.0 / tl.sum(total * tl.exp2(top - row_top), axis=0)
    for start in tl.range(0, cols, BLOCK, num_stages=STAGES):
        mask = start + offsets < cols
        x = tl.load(x_row + start + offsets, mask=mask, other=float("-inf")).to(tl.float32) * LOG2_E
        tl.store(out_row + start + offsets, (tl.exp2(x - row_top) * scale).to(out_ptr.dtype.element_ty), mask=mask)
