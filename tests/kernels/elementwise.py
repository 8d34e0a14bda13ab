"""One element in, one element out."""

import triton
import triton.language as tl


@triton.jit
def vector_add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def swiglu(gate_ptr, up_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < cols
    gate = tl.load(gate_ptr + row * cols + offsets, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + row * cols + offsets, mask=mask, other=0.0)
    tl.store(out_ptr + row * cols + offsets, (gate * tl.sigmoid(gate)).to(up.dtype) * up, mask=mask)


@triton.jit
def math(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.exp(x) + tl.log(x)
    y += tl.sin(x) * tl.cos(x)
    y += tl.erf(x) + tl.sqrt(x)
    tl.store(out_ptr + offsets, y, mask=mask)


@triton.jit
def powers(x_ptr, out_ptr, n, iterations, BLOCK: tl.constexpr, LEAKY: tl.constexpr):
    """Control flow at compile time and at run time."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    if LEAKY:
        x = tl.where(x < 0, x * 0.01, x)
    if n > 1000:
        x = x + 1.0
    else:
        x = x - 1.0
    i = 0
    while i < iterations:
        x = x * x
        i += 1
    tl.store(out_ptr + offsets, x, mask=mask)


@triton.jit
def histogram(x_ptr, counts_ptr, total_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0)
    tl.atomic_add(counts_ptr + x % BINS, 1, mask=mask)
    tl.atomic_add(total_ptr, tl.sum(tl.where(mask, x, 0), axis=0).to(tl.float32))
