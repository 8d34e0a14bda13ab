"""Softmax along the rows of a matrix, in the ways that are fast for one shape or another.

A row of `cols` elements lies `out_stride` and `x_stride` elements after the one before it; BLOCK is the power of two at or
above `cols`. The arithmetic is fp32 whatever the element types.

Which one: `softmax_rows` up to about 2048 columns, `softmax` from 256 on, `softmax_persistent` for 2-byte elements from
about 16384 columns on, where a row takes so many registers that one program at a time computes while nothing is loaded.
"""

import triton
import triton.language as tl


@triton.jit
def normalised(x, axis: tl.constexpr):
    e = tl.exp(x - tl.max(x, axis=axis, keep_dims=True))
    return e / tl.sum(e, axis=axis, keep_dims=True)


@triton.autotune(configs=[triton.Config({}, num_warps=w, maxnreg=r)
                          for w, r in ((1, None), (2, None), (4, None), (8, None), (8, 80), (16, None), (16, 40), (16, 64),
                                       (32, None), (32, 32))],
                 key=["cols", "BLOCK"])
@triton.jit
def softmax(out_ptr, x_ptr, out_stride, x_stride, cols, BLOCK: tl.constexpr):
    """One program a row."""
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK)
    mask = col < cols
    x = tl.load(x_ptr + row * x_stride + col, mask=mask, other=float("-inf")).to(tl.float32)
    tl.store(out_ptr + row * out_stride + col, normalised(x, 0).to(out_ptr.dtype.element_ty), mask=mask)


@triton.autotune(configs=[triton.Config({"ROWS": r}, num_warps=w) for w in (1, 2, 4, 8, 16) for r in (2, 4, 8, 16)],
                 key=["cols", "BLOCK"])
@triton.jit
def softmax_rows(out_ptr, x_ptr, out_stride, x_stride, rows, cols, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """ROWS rows a program."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, BLOCK)
    mask = (row[:, None] < rows) & (col[None, :] < cols)
    x = tl.load(x_ptr + row[:, None] * x_stride + col[None, :], mask=mask, other=float("-inf")).to(tl.float32)
    tl.store(out_ptr + row[:, None] * out_stride + col[None, :], normalised(x, 1).to(out_ptr.dtype.element_ty), mask=mask)


@triton.autotune(configs=[triton.Config({"STAGES": s}, num_warps=w, maxnreg=r)
                          for s in (1, 2, 3) for w, r in ((4, None), (8, None), (16, None), (16, 64), (32, None))],
                 key=["cols", "BLOCK"])
@triton.jit
def softmax_persistent(out_ptr, x_ptr, out_stride, x_stride, rows, cols, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """As many programs as the GPU runs at a time; each takes a row after another and loads ahead of its work."""
    col = tl.arange(0, BLOCK)
    mask = col < cols
    for r in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        row = r.to(tl.int64)
        x = tl.load(x_ptr + row * x_stride + col, mask=mask, other=float("-inf")).to(tl.float32)
        tl.store(out_ptr + row * out_stride + col, normalised(x, 0).to(out_ptr.dtype.element_ty), mask=mask)
