"""RMSNorm and LayerNorm along the rows of a matrix, with what often stands beside them in one pass over memory.

A row of `cols` elements lies `x_stride`, `residual_stride` and `out_stride` elements after the one before it. The
arithmetic is fp32 whatever the element types. One program takes one row, held in registers: BLOCK is the power of two at
or above `cols`. Everything that a program reads is loaded before the first reduction, so that all of it is under way
together.
"""

import triton
import triton.language as tl

CONFIGS = [triton.Config({}, num_warps=w) for w in (1, 2, 4, 8, 16, 32)]


@triton.jit
def load_row(x_ptr, residual_ptr, x_stride, residual_stride, cols, BLOCK: tl.constexpr, RESIDUAL: tl.constexpr):
    """A row in fp32, with the residual's row added."""
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK)
    mask = col < cols
    x = tl.load(x_ptr + row * x_stride + col, mask=mask, other=0.0).to(tl.float32)
    if RESIDUAL:
        x += tl.load(residual_ptr + row * residual_stride + col, mask=mask, other=0.0).to(tl.float32)
    return x


@triton.jit
def store_row(out_ptr, y, out_stride, cols, BLOCK: tl.constexpr, SILU: tl.constexpr):
    """Writes a row, through SiLU if asked for."""
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK)
    if SILU:
        y = y * tl.sigmoid(y)
    tl.store(out_ptr + row * out_stride + col, y.to(out_ptr.dtype.element_ty), mask=col < cols)


@triton.autotune(configs=CONFIGS, key=["cols", "BLOCK", "RESIDUAL", "SILU"])
@triton.jit
def rms_norm(out_ptr, x_ptr, residual_ptr, weight_ptr, out_stride, x_stride, residual_stride, cols, eps,
             BLOCK: tl.constexpr, RESIDUAL: tl.constexpr = False, SILU: tl.constexpr = False):
    """out = f(v / sqrt(mean(v^2) + eps) * weight), v = x or x + residual, f = identity or SiLU."""
    col = tl.arange(0, BLOCK)
    mask = col < cols
    v = load_row(x_ptr, residual_ptr, x_stride, residual_stride, cols, BLOCK, RESIDUAL)
    weight = tl.load(weight_ptr + col, mask=mask, other=0.0)
    scale = tl.rsqrt(tl.sum(v * v, axis=0) / cols + eps)
    store_row(out_ptr, v * scale * weight.to(tl.float32), out_stride, cols, BLOCK, SILU)


@triton.autotune(configs=CONFIGS, key=["cols", "BLOCK", "RESIDUAL", "SILU"])
@triton.jit
def layer_norm(out_ptr, x_ptr, residual_ptr, weight_ptr, bias_ptr, out_stride, x_stride, residual_stride, cols, eps,
               BLOCK: tl.constexpr, RESIDUAL: tl.constexpr = False, SILU: tl.constexpr = False):
    """out = f((v - mean(v)) / sqrt(var(v) + eps) * weight + bias), v = x or x + residual, f = identity or SiLU."""
    col = tl.arange(0, BLOCK)
    mask = col < cols
    v = load_row(x_ptr, residual_ptr, x_stride, residual_stride, cols, BLOCK, RESIDUAL)
    weight = tl.load(weight_ptr + col, mask=mask, other=0.0)
    bias = tl.load(bias_ptr + col, mask=mask, other=0.0)
    v = tl.where(mask, v - tl.sum(v, axis=0) / cols, 0.0)
    scale = tl.rsqrt(tl.sum(v * v, axis=0) / cols + eps)
    store_row(out_ptr, v * scale * weight.to(tl.float32) + bias.to(tl.float32), out_stride, cols, BLOCK, SILU)
