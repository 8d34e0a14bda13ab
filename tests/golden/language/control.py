"""Branches, loops and early returns."""
import triton
import triton.language as tl


@triton.jit
def merge(x, n):
    a = 1
    b = tl.load(x)
    if n > 0:
        a = 2
        t = b
    elif n < -5:
        a = n
        t = b * 2
    else:
        b = b + 1
        t = b * 3
    tl.store(x, b * a + t)


# check merge x=*f32 n=i32


@triton.jit
def early(x, n, P):
    i = tl.program_id(0)
    if P is not None and i == 0:
        return
    if i >= n:
        return
    tl.store(x + i, i)


# check early x=*i32 n=i32 P=None
# check early x=*i32 n=i32 P=*i32


@triton.jit
def either(a, b, FLIP: tl.constexpr):
    if FLIP:
        return b, a
    if a < 0:
        return -a, b
    elif b < 0:
        b = -b
    return a, b


@triton.jit
def helpers(x, n):
    p, q = either(n, n + 1, FLIP=False)
    r, s = either(p, q, True)
    tl.store(x, r - s)


# check helpers x=*i32 n=i32


@triton.jit
def loops(x, n, m):
    acc = 0.0
    count = 0
    first = (0, 1)
    for i in tl.range(0, n, 4, num_stages=3):
        v = tl.load(x + i)
        acc += v
        count = count + 1
        first = (first[1], first[0] + i)
        for j in range(m, 0, -1):
            acc = acc * 2
    for k in tl.static_range(2):
        acc += k
    tl.store(x, acc + count + first[0])


# check loops x=*f32 n=i32 m=i64


@triton.jit
def whiles(x, n):
    i = 0
    while i < n:
        if tl.load(x + i) > 0:
            i += 2
        else:
            i += 1
    while False:
        nothing()
    tl.store(x, i)


# check whiles x=*i32 n=i32


@triton.jit
def dead_assignment(x, n, B, HAS: tl.constexpr):
    b = B
    for i in range(n):
        if HAS and i > 0:
            b = tl.load(x)
        tl.store(x + i, i)


# check dead_assignment x=*i32 n=i32 B=None HAS=False
