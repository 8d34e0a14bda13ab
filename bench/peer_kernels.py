"""Kernels as tutorials of Triton write them: what rows.py lets Triton choose from besides the library's own texts."""

import triton
import triton.language as tl


@triton.jit
def softmax(out, x, out_stride, x_stride, rows, cols, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """A row at a time, the next ones of this program's share prefetched."""
    c = tl.arange(0, BLOCK)
    for r in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        v = tl.load(x + r * x_stride + c, mask=c < cols, other=-float("inf")).to(tl.float32)
        e = tl.exp(v - tl.max(v, axis=0))
        tl.store(out + r * out_stride + c, (e / tl.sum(e, axis=0)).to(out.dtype.element_ty), mask=c < cols)


@triton.jit
def norm(out, x, residual, weight, bias, cols, eps, BLOCK: tl.constexpr, RESIDUAL: tl.constexpr, SILU: tl.constexpr,
         CENTER: tl.constexpr):
    """RMSNorm or LayerNorm, a row a program."""
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    m = c < cols
    v = tl.load(x + row * cols + c, mask=m, other=0.0).to(tl.float32)
    if RESIDUAL:
        v += tl.load(residual + row * cols + c, mask=m, other=0.0).to(tl.float32)
    if CENTER:
        v = tl.where(m, v - tl.sum(v, axis=0) / cols, 0.0)
    y = v * (1.0 / tl.sqrt(tl.sum(v * v, axis=0) / cols + eps)) * tl.load(weight + c, mask=m, other=0.0).to(tl.float32)
    if CENTER:
        y += tl.load(bias + c, mask=m, other=0.0).to(tl.float32)
    if SILU:
        y = y * tl.sigmoid(y)
    tl.store(out + row * cols + c, y.to(out.dtype.element_ty), mask=m)


@triton.jit
def swiglu(out, gate, up, count, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    m = i < count
    g = tl.load(gate + i, mask=m).to(tl.float32)
    u = tl.load(up + i, mask=m)
    tl.store(out + i, (g * tl.sigmoid(g)).to(u.dtype) * u, mask=m)
