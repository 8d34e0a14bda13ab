"""The kernel whose first call first_call.cpp times. A row lies `..._stride` elements after the one before it."""

import triton
import triton.language as tl


@triton.jit
def softmax_row(out_ptr, x_ptr, out_stride, x_stride, cols, BLOCK: tl.constexpr):
    """One program a row, fp32 arithmetic; BLOCK is the power of two at or above `cols`."""
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < cols
    x = tl.load(x_ptr + row * x_stride + offsets, mask=mask, other=float("-inf")).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    y = numerator / tl.sum(numerator, axis=0)
    tl.store(out_ptr + row * out_stride + offsets, y.to(out_ptr.dtype.element_ty), mask=mask)
