"""Without argument types: what depends on them is taken to be right."""
import triton
import triton.language as tl


@triton.jit
def helper(a, FLAG: tl.constexpr):
    if FLAG:
        y = a
    elif a is None:
        raise ValueError("no")
    else:
        tl.static_assert(False, "never")
        y = a + wrng  # error: unknown name 'wrng'
    return y


@triton.jit
def kernel(x, n, B: tl.constexpr, STEPS: tl.constexpr):
    p = tl.program_id(0)
    i = p * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    if p > n:
        return
    if STEPS == 1:
        q = 5
    else:
        q = tl.arange(0, 8)
    for s in tl.static_range(STEPS):
        v = v + s
    for s in range(n):
        v += p
    while n > 0:
        n -= helper(v, True)
    r, t = helper(x, B)
    w = tl.arange(0, 8) + tl.arange(0, 16) + q  # error: 
    tl.store(x + i, v, mask=i < n, msk=1)  # error: msk


@triton.jit
def flags(x, n, FLAG: tl.constexpr):
    if FLAG:
        a = tl.program_id(0)
        if a > n:
            return
    if FLAG:
        tl.store(x, a)
    tl.store(x, b)  # error: unknown name 'b'


@triton.jit
def second(x):
    return y  # error: unknown name 'y'


# check all
