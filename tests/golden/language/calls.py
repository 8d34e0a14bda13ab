"""Calls of functions."""
import triton
import triton.language as tl


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def apply(f, x, y=1, *, scale: tl.constexpr = 2):
    return f(x, y) * scale


@triton.jit
def functions(x, B: tl.constexpr):
    i = tl.arange(0, B)
    m = tl.reduce(i, 0, larger)
    tl.store(x + i, apply(larger, i) + apply(f=larger, y=m, x=i, scale=1))


# check functions x=*i32 B=64


@triton.jit
def methods(x, y):
    i = tl.arange(0, 16)[:, None]
    j = tl.arange(0, 32)[None, :]
    v = tl.load(x + i * 32 + j).to(tl.float32)
    tl.store(y + tl.arange(0, 16), v.sum(1).to(y.dtype.element_ty))
    tl.store(x + j.T * 16 + i.T, v.T)


# check methods x=*f16 y=*bf16


@triton.jit
def builtins(x, n):
    a = min(n, 4, 7)
    b = max(a, min(3, 2))
    tl.store(x, abs(b) + abs(-3) + int(2.5) + float(n))


# check builtins x=*f32 n=i32
