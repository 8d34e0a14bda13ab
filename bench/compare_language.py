"""Small kernels over control flow, helpers, compile-time values and memory, for bench/compare_triton.py.

An ordinary Triton file, as compare_values.py is, where `emit` is described.
"""

import triton
import triton.language as tl
from compare_values import HALF, SEVEN, emit

# --------------------------------------------------------------------------------------------------------- control


@triton.jit
def nothing(x):
    """Returns nothing."""
    x + 1


@triton.jit
def swapped(pair_of_values, scale=0.5, shift=0):
    a, b = pair_of_values
    return b * scale + shift, a


@triton.jit
def apply(f: tl.constexpr, x):
    return f(x)


@triton.jit
def language(out, x_ptr, n, N: tl.constexpr, NOTHING: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    emit(out, 0, x + SEVEN, N)
    emit(out, 1, x * HALF, N)
    a = n + 1
    b = n
    emit(out, 2, i * a + b, N)
    emit(out, 3, i + 0x1F + 0b101 + 1_000, N)
    emit(out, 4, (x + 1e-3) * 2.5e2, N)
    emit(out, 5, tl.where(i == 2, float("nan"), x), N)
    nothing(x)
    c, d = swapped((x, i))
    emit(out, 6, c, N)
    emit(out, 7, d, N)
    emit(out, 8, apply(halves, x), N)
    if NOTHING is None:
        emit(out, 9, -x, N)
    else:
        emit(out, 9, NOTHING, N)
    e = (i
         + n *
         2)
    emit(out, 10, e, N)
    f: tl.float32 = 3
    emit(out, 11, x + f, N)
    if not NOTHING:
        g = 1.5
    else:
        g = 2
    emit(out, 12, i * g, N)
    h = x
    for k in tl.static_range(1, 4):
        if k % 2 == 1:
            h = h * k
    emit(out, 13, h, N)
    emit(out, 14, -2**2 + i, N)
    emit(out, 15, i - -3 % 5 * 2 // 3, N)
    emit(out, 16, (n + 1) * 2 % 5 + i, N)
    emit(out, 17, i & 3 | 4 ^ 1, N)
    emit(out, 18, 1 + 2 << 1 | i, N)
    emit(out, 19, -x + -(-x) * 2, N)
    emit(out, 20, (i < 5) == (i > 2), N)
    emit(out, 21, tl.zeros([N], dtype=x.dtype) + tl.full([N], 2, x.dtype), N)
    emit(out, 22, x.to(out.dtype.element_ty), N)
    emit(out, 23, i + (n if n > 3 else -n) * (1 if NOTHING is None else 2), N)
    emit(out, 24, n * 1.0 + i, N)
    emit(out, 25, i * n * 1000000000 * 7, N)


@triton.jit
def clipped(x, low: tl.constexpr = -1, high=1):
    return tl.minimum(tl.maximum(x, low), high)


@triton.jit
def halves(x):
    if x.dtype.is_floating():
        return x * 0.5
    else:
        return x // 2


@triton.jit
def sign_or_zero(n):
    if n > 0:
        return 1
    elif n < 0:
        return -1
    return 0


@triton.jit
def two_results(x, y=2):
    return x + y, x - y


@triton.jit
def helpers(out, x_ptr, n, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    emit(out, 0, clipped(x), N)
    emit(out, 1, clipped(x, high=2.5), N)
    emit(out, 2, halves(x), N)
    emit(out, 3, halves(n), N)
    emit(out, 4, sign_or_zero(n) + x, N)
    a, b = two_results(x)
    emit(out, 5, a * b, N)
    a, b = two_results(n, 3)
    emit(out, 6, a * b, N)
    a, b = b, a
    emit(out, 7, a - b, N)
    t = two_results(x, 1)
    emit(out, 8, t[0] + t[1], N)


@triton.jit
def loops(out, x_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    count = 0
    total = 0.0
    acc = tl.zeros((N, ), dtype=tl.float32)
    for k in range(n):
        count += k
        total += k * 0.5
        acc += x * k
    emit(out, 0, tl.zeros((N, ), tl.int32) + count, N)
    emit(out, 1, tl.zeros((N, ), tl.float32) + total, N)
    emit(out, 2, acc, N)
    last = 100
    for k in range(10, 0, -3):
        last = last - k
    emit(out, 3, last + i, N)
    even = 0
    for k in range(0, n, 2):
        for j in range(k):
            even += j
    emit(out, 4, even + i, N)
    for k in tl.static_range(3):
        acc += k + 1
    emit(out, 5, acc, N)
    a = n
    b = 48
    while b != 0:
        a, b = b, a % b
    emit(out, 6, a + i, N)
    steps = 0
    while steps * steps < n:
        steps += 1
    emit(out, 7, steps + i, N)
    lo = 1
    for k in range(n, 5):
        lo = k + 7
    emit(out, 8, lo + i, N)
    p = x_ptr
    s = tl.zeros((N, ), dtype=x_ptr.dtype.element_ty)
    for k in range(3):
        s += tl.load(p + i)
        p += 1
    emit(out, 9, s, N)


@triton.jit
def plain_locals(out, x_ptr, n, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    four = 4
    half = 0.5
    yes = True
    emit(out, 0, x * four, N)
    emit(out, 1, x * half, N)
    emit(out, 2, x + yes, N)
    four += 1
    emit(out, 3, x + four, N)
    if n > 3:
        k = 2
    else:
        k = 5
    emit(out, 4, x + k, N)
    if n > 300:
        y = x * 2
    else:
        y = x
    emit(out, 5, y, N)
    scale = 3
    for _ in range(2):
        scale = scale * 2
    emit(out, 6, x + scale, N)
    z = x
    if n > 2 and n < 100:
        z = z + 1
        if n % 2 == 0:
            z = z + 1
    elif n == 1:
        z = z - 1
    emit(out, 7, z, N)
    emit(out, 8, x + (1 if n > 3 else 2), N)
    emit(out, 9, x * (2 if N > 3 else 2.5), N)
    w = x if n > 2 else x * 2
    emit(out, 10, w, N)
    emit(out, 11, x if N == 3 else x + 3, N)
    m = n
    m *= 3
    m -= 1
    m //= 2
    emit(out, 12, x + m, N)
    m = m << 2
    m |= 1
    m ^= 7
    m %= 100
    emit(out, 13, x + m, N)
    q = n
    q += 0.5
    emit(out, 14, x + q, N)
    emit(out, 15, x + (n > 2), N)
    emit(out, 16, x * (0 < n), N)


@triton.jit
def early_return(out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    if tl.program_id(0) == 1:
        return
    if n > 5:
        emit(out, tl.program_id(0), i * 2, N)
        return
    emit(out, tl.program_id(0), i, N)


@triton.jit
def compile_time(out, N: tl.constexpr, K: tl.constexpr, X: tl.constexpr, FLAG: tl.constexpr, T: tl.constexpr):
    i = tl.arange(0, N)
    A: tl.constexpr = -7 // 2
    B: tl.constexpr = -7 % 3
    C: tl.constexpr = 7 / 2
    D: tl.constexpr = (K * 2 + 1) // 3 if FLAG else 0
    E: tl.constexpr = 2**10 - (1 << 4)
    tl.static_assert(A == -4)
    tl.static_assert(B == 2)
    tl.static_assert(C == 3.5)
    tl.static_assert(N & (N - 1) == 0, "a power of two")
    tl.static_assert(triton.cdiv(K, 4) * 4 >= K and K > 0)
    tl.static_assert(not (K == 3 or K == 2))
    tl.static_assert(X * 2 == 0.5)
    tl.static_assert(triton.next_power_of_2(K) >= K)
    tl.static_assert(1 < K and K is not None)
    tl.static_assert(i.shape[0] == N and i.dtype == tl.int32 and len(i.shape) == 1)
    tl.static_assert(T == tl.float16 and T.primitive_bitwidth == 16)
    emit(out, 0, i + A, N)
    emit(out, 1, i + B, N)
    emit(out, 2, i * C, N)
    emit(out, 3, i + D, N)
    emit(out, 4, i + E, N)
    emit(out, 5, i * X, N)
    emit(out, 6, i.to(T), N)
    emit(out, 7, tl.full((N, ), K / 3, T), N)
    emit(out, 8, i % K, N)
    emit(out, 9, i + -7 % 4, N)
    emit(out, 10, i + (K >> 1 | 5) ^ 3, N)
    if FLAG and K > 4:
        emit(out, 11, i + 11, N)
    if T == tl.float32:
        emit(out, 12, i + undefined_name, N)
    emit(out, 13, i + int(FLAG), N)


@triton.jit
def more_control(out, x_ptr, n, wide, step, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    emit(out, 0, i + wide, N)
    last = wide
    for k in range(wide - 4, wide):
        last += k
    emit(out, 1, i + last, N)
    visits = i * 0
    for k in range(2, n, step):
        visits = visits * 10 + k
    emit(out, 2, visits, N)
    for k in range(n, 2, -2):
        visits += k
    emit(out, 3, visits, N)
    total = 0.0
    largest = float("-inf")
    for k in tl.range(0, n):
        v = tl.load(x_ptr + k)
        total += v
        largest = max(largest, v)
    emit(out, 4, total + x, N)
    emit(out, 5, largest + x, N)
    y = i
    y = y * 1.5
    y += n
    emit(out, 6, y, N)
    y = y.to(tl.int32)
    y //= 2
    emit(out, 7, y, N)
    found = -1
    k = 0
    while k < n and found < 0:
        if k * k > 20:
            found = k
        k += 1
    emit(out, 8, found + i * k, N)
    t = (x, n, 5)
    a, b, c = t
    emit(out, 9, a * b + c, N)
    emit(out, 10, tl.where(n > 2, x, 0.0), N)
    emit(out, 11, tl.where(i % 3, x, 1), N)
    parity = n % 2 == 0
    if parity:
        z = x + 1
    else:
        z = x - 1
    emit(out, 12, z, N)
    if parity and n > 4:
        emit(out, 13, x, N)
    elif n == 3:
        emit(out, 13, x * 3, N)
    else:
        pass
    u = 1
    for k in range(n):
        if k % 2 == 0:
            u = u * 3
        else:
            u += k
    emit(out, 14, u + i, N)
    acc = tl.zeros((N, ), dtype=tl.float16)
    for k in range(n):
        acc += (x * 0.25).to(tl.float16)
    emit(out, 15, acc, N)
    emit(out, 16, tl.sum(tl.where(i == n, x, 0), 0), N)
    for k in range(0):
        emit(out, 17, x, N)
    for k in tl.static_range(0, 6, 3):
        emit(out, 18 + k, x + k, N)
    emit(out, 19, tl.full((N, ), n, tl.float32) / 3, N)
    emit(out, 20, (n / 4).to(tl.int32) + i, N)
    emit(out, 22, x.to(tl.float32) * (n * 0.1), N)


@triton.jit
def rejected(out, x_ptr, f_ptr, h_ptr, u_ptr, n, CASE: tl.constexpr, N: tl.constexpr):
    """One mistake a CASE, which both compilers have to reject; CASE 0 is right."""
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    f = tl.load(f_ptr + i)
    h = tl.load(h_ptr + i)
    u = tl.load(u_ptr + i)
    if CASE == 1:
        emit(out, 0, x // u, N)
    if CASE == 2:
        emit(out, 0, x & f, N)
    if CASE == 3:
        emit(out, 0, f // f, N)
    if CASE == 4:
        emit(out, 0, u + -1, N)
    if CASE == 5:
        emit(out, 0, x.to(tl.int8) + 300, N)
    if CASE == 6:
        emit(out, 0, x + tl.arange(0, 2 * N), N)
    if CASE == 7:
        if n > 3:
            y = x
        else:
            y = f
        emit(out, 0, y, N)
    if CASE == 8:
        y = x
        for k in range(n):
            y = y * 0.5
        emit(out, 0, y, N)
    if CASE == 9:
        emit(out, 0, tl.arange(0, 24) + 1, N)
    if CASE == 10:
        emit(out, 0, x.reshape(N // 2, 4), N)
    if CASE == 11:
        emit(out, 0, tl.exp(x), N)
    if CASE == 12:
        emit(out, 0, tl.exp(h), N)
    if CASE == 13:
        tl.static_assert(N == 7)
    if CASE == 14:
        tl.store(x_ptr + 1.5, x)
    if CASE == 15:
        emit(out, 0, ~f, N)
    if CASE == 16:
        emit(out, 0, missing + x, N)
    if CASE == 17:
        y = 0
        for k in range(n):
            y += x
        emit(out, 0, y, N)
    if CASE == 18:
        emit(out, 0, x.to(tl.float32, bitcast=True) % u_ptr, N)
    if CASE == 19:
        emit(out, 0, tl.sum(x, 1), N)
    if CASE == 20:
        emit(out, 0, tl.load(x_ptr + i, other=1), N)
    if CASE == 21:
        emit(out, 0, tl.dot(h.reshape(4, 8), h.reshape(8, 4)), N)
    if CASE == 22:
        emit(out, 0, x.to(tl.float64, bitcast=True), N)
    if CASE == 23:
        emit(out, 0, x + x_ptr + x_ptr, N)
    if CASE == 24:
        emit(out, 0, tl.zeros((N, n), tl.int32), N)
    if CASE == 25:
        emit(out, 0, f.to(tl.float64, fp_downcast_rounding="rtz"), N)
    if CASE == 26:
        emit(out, 0, tl.load(f + i), N)
    if CASE == 27:
        emit(out, 0, tl.load(x_ptr), mask=i)
    if CASE == 28:
        emit(out, 0, f << 1, N)
    if CASE == 29:
        if x > 0:
            emit(out, 0, x, N)
    if CASE == 30:
        emit(out, 0, tl.trans(x.reshape(4, N // 4), 0, 0), N)
    if CASE == 31:
        emit(out, 0, tl.xor_sum(f, 0), N)
    if CASE == 32:
        emit(out, 0, x ** 2, N)
    if CASE == 33:
        tl.store(x_ptr, x)
    emit(out, 1, x, N)


# ---------------------------------------------------------------------------------------------- programs and memory


@triton.jit
def atomics(out, f32, i32, f16, x_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    emit(out, 0, tl.atomic_add(i32 + i, i + 1), N)
    tl.atomic_add(f32 + i % 4, x)
    tl.atomic_add(f32 + 8 + i, x, mask=i < 5)
    tl.atomic_add(i32 + N + i * 0, 1)
    tl.atomic_add(f16 + i, x.to(tl.float16), sem="relaxed")
    emit(out, 1, tl.atomic_add(i32 + N + 1, 5), N)


@triton.jit
def programs(out, x_ptr, n, N: tl.constexpr):
    pid = tl.program_id(0) + tl.num_programs(0) * tl.program_id(axis=1)
    i = pid * N + tl.arange(0, N)
    x = tl.load(x_ptr + i, mask=i < n, other=-1)
    emit(out, pid * 2, x * 2 + i, N)
    emit(out, pid * 2 + 1, x + tl.num_programs(1), N)


@triton.jit
def pointers(out, x_ptr, y_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    p = x_ptr + n
    q = p + i
    emit(out, 0, tl.load(q), N)
    emit(out, 1, tl.load(q - 1), N)
    emit(out, 2, tl.load(i + p), N)
    emit(out, 3, tl.load(p - n + i.to(tl.int64)), N)
    emit(out, 4, tl.load(x_ptr + i.to(tl.uint8)), N)
    emit(out, 5, tl.load(p + (i - 2).to(tl.int8)), N)
    tl.static_assert(q.dtype.element_ty == x_ptr.dtype.element_ty)
    emit(out, 6, tl.load(x_ptr.to(tl.pointer_type(tl.int32)) + i), N)
    r = tl.where(i % 2 == 0, x_ptr + i, y_ptr + i)
    emit(out, 7, tl.load(r), N)
    emit(out, 8, tl.load(q, mask=i < n, other=tl.load(y_ptr + n)), N)


@triton.jit
def dots(out, a_ptr, b_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])
    c = tl.dot(a, b)
    emit(out, 0, c.reshape(M * N), M * N)
    c += tl.dot(a, b)
    emit(out, 1, c.reshape(M * N), M * N)
    emit(out, 2, tl.dot(a, b, c).reshape(M * N), M * N)
    t = tl.load(b_ptr + n[:, None] * K + k[None, :])
    emit(out, 3, tl.dot(a, t.T, acc=tl.zeros((M, N), tl.float32)).reshape(M * N), M * N)
    emit(out, 4, tl.dot(a, b).to(a.dtype).reshape(M * N), M * N)
