"""Small kernels over the values and types of expressions, for bench/compare_triton.py.

An ordinary Triton file: the same text is compiled by Triton and by Tegula. A kernel gives its results to `emit`, which
writes a number for the element type and then the values, widened to 64 bits (floats as the bits of their float64):
the type of an expression is compared as well as its values. A slot has 1 + N places of `out`.
"""

import triton
import triton.language as tl

SEVEN = tl.constexpr(7)
HALF = tl.constexpr(0.5)


@triton.jit
def emit(out, slot, x, N: tl.constexpr):
    t: tl.constexpr = x.dtype
    code: tl.constexpr = ((t == tl.int1) * 1 + (t == tl.int8) * 2 + (t == tl.int16) * 3 + (t == tl.int32) * 4 +
                          (t == tl.int64) * 5 + (t == tl.uint8) * 6 + (t == tl.uint16) * 7 + (t == tl.uint32) * 8 +
                          (t == tl.uint64) * 9 + (t == tl.float16) * 10 + (t == tl.bfloat16) * 11 +
                          (t == tl.float32) * 12 + (t == tl.float64) * 13)
    row = out + slot * (N + 1)
    i = tl.arange(0, N)
    tl.store(row, code)
    if t.is_floating():
        tl.store(row + 1 + i, x.to(tl.float64).to(tl.int64, bitcast=True))
    else:
        tl.store(row + 1 + i, x.to(tl.int64))


# ------------------------------------------------------------------------------------------------- pairs of types


@triton.jit
def pair(out, at, x, y, N: tl.constexpr, BOTH_INT: tl.constexpr, DIVIDE: tl.constexpr):
    emit(out, at + 0, x + y, N)
    emit(out, at + 1, x - y, N)
    emit(out, at + 2, x * y, N)
    emit(out, at + 3, x < y, N)
    emit(out, at + 4, x <= y, N)
    emit(out, at + 5, x > y, N)
    emit(out, at + 6, x >= y, N)
    emit(out, at + 7, x == y, N)
    emit(out, at + 8, x != y, N)
    emit(out, at + 9, tl.where(x == y, x, y), N)
    emit(out, at + 10, tl.minimum(x, y), N)
    emit(out, at + 11, tl.maximum(x, y), N)
    if DIVIDE:
        emit(out, at + 12, x / y, N)
        if not BOTH_INT:
            emit(out, at + 13, x % y, N)
    if BOTH_INT:
        if DIVIDE:
            emit(out, at + 13, x % y, N)
            emit(out, at + 14, x // y, N)
        emit(out, at + 15, x & y, N)
        emit(out, at + 16, x | y, N)
        emit(out, at + 17, x ^ y, N)


@triton.jit
def pair_tiles(out, x_ptr, y_ptr, N: tl.constexpr, BOTH_INT: tl.constexpr, DIVIDE: tl.constexpr):
    i = tl.arange(0, N)
    pair(out, 0, tl.load(x_ptr + i), tl.load(y_ptr + i), N, BOTH_INT, DIVIDE)


@triton.jit
def pair_tile_and_loaded_scalar(out, x_ptr, y_ptr, N: tl.constexpr, BOTH_INT: tl.constexpr, DIVIDE: tl.constexpr):
    i = tl.arange(0, N)
    pair(out, 0, tl.load(x_ptr + i), tl.load(y_ptr + 3), N, BOTH_INT, DIVIDE)


@triton.jit
def tile_and_argument(out, x_ptr, s, N: tl.constexpr, BOTH_INT: tl.constexpr, DIVIDE: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    pair(out, 0, x, s, N, BOTH_INT, DIVIDE)
    emit(out, 18, s + x, N)
    emit(out, 19, s - x, N)
    emit(out, 20, s * x, N)


@triton.jit
def arguments(out, a, b, N: tl.constexpr):
    emit(out, 0, a + b, N)
    emit(out, 1, a * 2, N)
    emit(out, 2, a - 1.5, N)
    emit(out, 3, b - 3, N)
    emit(out, 4, a / 3, N)
    emit(out, 5, b * a, N)
    emit(out, 6, a // 3, N)
    emit(out, 7, a % 3, N)
    emit(out, 8, -a, N)
    emit(out, 9, a < b, N)
    emit(out, 10, tl.zeros((N, ), dtype=tl.float16) + a, N)
    emit(out, 11, tl.zeros((N, ), dtype=tl.float16) + b, N)
    emit(out, 12, tl.zeros((N, ), dtype=tl.int8) + a, N)
    emit(out, 13, tl.zeros((N, ), dtype=tl.int64) + b, N)


@triton.jit
def literals(out, x_ptr, N: tl.constexpr, INT: tl.constexpr, SIGNED: tl.constexpr, BOOL: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    emit(out, 0, x + 1, N)
    emit(out, 1, 1 - x, N)
    emit(out, 2, x * 1.5, N)
    emit(out, 3, 2.5 - x, N)
    emit(out, 4, x == 1, N)
    emit(out, 5, x > 0, N)
    emit(out, 6, 0.5 < x, N)
    emit(out, 7, x + True, N)
    emit(out, 8, tl.where(x > 0, x, 0), N)
    emit(out, 9, tl.where(x > 0, x, 0.0), N)
    emit(out, 10, tl.where(x > 0, 1, 0), N)
    emit(out, 11, tl.where(x > 0, 1.0, 0), N)
    emit(out, 12, tl.where(x > 0, float("inf"), x), N)
    emit(out, 13, tl.minimum(x, 1), N)
    emit(out, 14, tl.maximum(x, 0.5), N)
    emit(out, 15, x / 2.0, N)
    emit(out, 16, x * 1e-50, N)
    if not BOOL:
        emit(out, 17, x * 3, N)
        emit(out, 18, x + 100, N)
        emit(out, 19, x - 7, N)
        emit(out, 20, tl.maximum(7, x), N)
        emit(out, 21, x >= 100, N)
        emit(out, 22, -x, N)
        emit(out, 23, tl.abs(x), N)
    if SIGNED:
        emit(out, 24, x / 3, N)
        emit(out, 25, x % 7, N)
        emit(out, 26, x + (-3), N)
        emit(out, 27, x % -7, N)
        emit(out, 28, x < -1, N)
    if INT:
        emit(out, 29, ~x, N)
        emit(out, 30, x & 1, N)
        emit(out, 31, x | 1, N)
        emit(out, 32, x ^ 1, N)
        if SIGNED:
            emit(out, 33, x // 3, N)
            emit(out, 34, x // -3, N)
            emit(out, 35, 100 // tl.maximum(x, 1), N)
        if not BOOL:
            emit(out, 36, x >> 1, N)
            emit(out, 37, x << 2, N)
            emit(out, 38, x >> 5, N)


@triton.jit
def wide_literals(out, x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    n = tl.sum(x, 0)
    emit(out, 0, x.to(tl.int64) + 4294967296, N)
    emit(out, 1, x.to(tl.uint32) + 4294967295, N)
    emit(out, 2, x.to(tl.float32) + 16777217, N)
    emit(out, 3, x.to(tl.int64) * 9223372036854775807, N)
    emit(out, 4, x.to(tl.int64) - 9223372036854775807, N)
    emit(out, 5, n + 0x7fffffff, N)
    emit(out, 6, x.to(tl.uint64) + 9223372036854775807, N)
    emit(out, 7, tl.full((N, ), 3000000000, tl.uint32), N)
    emit(out, 8, tl.full((N, ), -1, tl.int64), N)
    emit(out, 9, tl.full((N, ), 1.1, tl.float64), N)
    emit(out, 10, x.to(tl.float64) * 1.1, N)
    emit(out, 11, x.to(tl.float64) + 1e300, N)
    emit(out, 12, x.to(tl.float32) * 1.1, N)
    emit(out, 13, x.to(tl.float16) * 1.1, N)
    emit(out, 14, x.to(tl.bfloat16) * 1.1, N)


# ---------------------------------------------------------------------------------------------- integers and casts


@triton.jit
def shifts(out, x_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    emit(out, 0, x >> y, N)
    emit(out, 1, x << y, N)
    emit(out, 2, 1 << y, N)
    emit(out, 3, x >> 3, N)
    emit(out, 4, 100 >> y, N)


@triton.jit
def casts(out, x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    emit(out, 0, x.to(tl.int1), N)
    emit(out, 1, x.to(tl.int8), N)
    emit(out, 2, x.to(tl.int16), N)
    emit(out, 3, x.to(tl.int32), N)
    emit(out, 4, x.to(tl.int64), N)
    emit(out, 5, x.to(tl.float16), N)
    emit(out, 6, x.to(tl.bfloat16), N)
    emit(out, 7, x.to(tl.float32), N)
    emit(out, 8, x.to(tl.float64), N)
    emit(out, 9, tl.cast(x, tl.float16).to(tl.bfloat16), N)
    emit(out, 10, tl.cast(x, tl.bfloat16).to(tl.float16), N)


@triton.jit
def casts_unsigned(out, x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    emit(out, 0, x.to(tl.uint8), N)
    emit(out, 1, x.to(tl.uint16), N)
    emit(out, 2, x.to(tl.uint32), N)
    emit(out, 3, x.to(tl.uint64), N)


@triton.jit
def float_casts(out, x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    emit(out, 0, x.to(tl.float16), N)
    emit(out, 1, x.to(tl.bfloat16), N)
    emit(out, 2, x.to(tl.float32), N)
    emit(out, 3, x.to(tl.float64), N)
    emit(out, 4, x.to(tl.int1), N)
    emit(out, 5, x.to(tl.float16) + x.to(tl.bfloat16), N)
    emit(out, 6, x.to(tl.float16) * x.to(tl.float16), N)
    emit(out, 7, x.to(tl.bfloat16) * 1.01, N)
    emit(out, 8, x.to(tl.bfloat16) - x.to(tl.float16), N)


@triton.jit
def float_to_int_limits(out, x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    emit(out, 0, x.to(tl.int32), N)
    emit(out, 1, x.to(tl.int64), N)
    emit(out, 2, x.to(tl.uint32), N)
    emit(out, 3, x.to(tl.uint64), N)


@triton.jit
def bitcasts(out, x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    emit(out, 0, x.to(tl.int32, bitcast=True), N)
    emit(out, 1, x.to(tl.uint32, bitcast=True) >> 3, N)
    emit(out, 2, (x.to(tl.int32, bitcast=True) & 0x7fffffff).to(tl.float32, bitcast=True), N)
    emit(out, 3, x.to(tl.float16).to(tl.int16, bitcast=True), N)
    emit(out, 4, x.to(tl.bfloat16).to(tl.uint16, bitcast=True), N)
    emit(out, 5, x.to(tl.float16, fp_downcast_rounding="rtz"), N)
    emit(out, 6, x.to(tl.bfloat16, fp_downcast_rounding="rtz"), N)


@triton.jit
def store_converts(i8, u8, i32, f16, bf16, f32, f64, b, x_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(i8 + i, x)
    tl.store(u8 + i, x + 100.0)
    tl.store(i32 + i, x)
    tl.store(f16 + i, x)
    tl.store(bf16 + i, x)
    tl.store(f32 + i, x)
    tl.store(f64 + i, x)
    tl.store(b + i, x > 0)


@triton.jit
def bools(out, b_ptr, c_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    b = tl.load(b_ptr + i)
    c = tl.load(c_ptr + i)
    emit(out, 0, b, N)
    emit(out, 1, b & c, N)
    emit(out, 2, b | ~c, N)
    emit(out, 3, b ^ c, N)
    emit(out, 4, ~b, N)
    emit(out, 5, b.to(tl.int32), N)
    emit(out, 6, b.to(tl.float32), N)
    emit(out, 7, b == c, N)
    emit(out, 8, b < c, N)
    emit(out, 9, tl.where(b, c, True), N)
    emit(out, 10, tl.where(b, 1.0, 2.0), N)
    emit(out, 11, b * c, N)
    emit(out, 12, b.to(tl.int8), N)
    emit(out, 13, b & (i < 5), N)
    emit(out, 14, tl.sum(b, 0), N)
    emit(out, 15, tl.max(b, 0), N)
    emit(out, 16, tl.xor_sum(b, 0), N)
    tl.store(c_ptr + i, b & ~c)


@triton.jit
def bool_words(out, b_ptr, c_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    b = tl.load(b_ptr + i)
    c = tl.load(c_ptr + i)
    emit(out, 0, b and c, N)
    emit(out, 1, b or c, N)
    emit(out, 2, not c, N)
    emit(out, 3, b and not c or i > 20, N)
    emit(out, 4, i < n and i > 3, N)
    emit(out, 5, n > 2 and n < 5, N)
    emit(out, 6, not n > 2, N)
    emit(out, 7, (n > 2) + (n > 3), N)
    emit(out, 8, tl.where(not (n > 2), b, c), N)


# ------------------------------------------------------------------------------------------------------ reductions


@triton.jit
def reductions(out, x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    emit(out, 0, tl.sum(x, 0), N)
    emit(out, 1, tl.max(x, 0), N)
    emit(out, 2, tl.min(x, 0), N)
    emit(out, 3, tl.argmax(x, 0), N)
    emit(out, 4, tl.argmin(x, 0), N)
    emit(out, 5, tl.sum(x, axis=0, keep_dims=True), N)
    value, index = tl.max(x, 0, return_indices=True)
    emit(out, 6, value, N)
    emit(out, 7, index, N)
    value, index = tl.min(x, 0, return_indices=True)
    emit(out, 8, value, N)
    emit(out, 9, index, N)
    emit(out, 10, tl.sum(x), N)
    emit(out, 11, x.max(), N)
    emit(out, 12, tl.sum(x, 0, dtype=tl.int64), N)
    emit(out, 13, tl.sum(x, 0, dtype=tl.float32), N)


@triton.jit
def product(a, b):
    return a * b


@triton.jit
def first_moments(n, m, k, l):
    return n + k, m + l


@triton.jit
def reductions_of_ints(out, x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    emit(out, 0, tl.xor_sum(x, 0), N)
    emit(out, 1, tl.reduce(x | 1, 0, product), N)
    n, m = tl.reduce((x, x * x), 0, first_moments)
    emit(out, 2, n, N)
    emit(out, 3, m, N)


@triton.jit
def reduce_rank2(out, x_ptr, A: tl.constexpr, B: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, A)[:, None] * B + tl.arange(0, B)[None, :])
    emit(out, 0, tl.broadcast_to(tl.sum(x, 0, keep_dims=True), (A, B)).reshape(A * B), A * B)
    emit(out, 1, tl.broadcast_to(tl.sum(x, 1, keep_dims=True), (A, B)).reshape(A * B), A * B)
    emit(out, 2, tl.broadcast_to(tl.max(x, 0)[None, :], (A, B)).reshape(A * B), A * B)
    emit(out, 3, tl.broadcast_to(tl.argmin(x, 1)[:, None], (A, B)).reshape(A * B), A * B)
    emit(out, 4, tl.sum(x), A * B)
    emit(out, 5, tl.broadcast_to(tl.max(x, -1, keep_dims=True), (A, B)).reshape(A * B), A * B)
    emit(out, 6, tl.broadcast_to(tl.argmax(x, 0, keep_dims=True), (A, B)).reshape(A * B), A * B)
    emit(out, 7, tl.sum(x, keep_dims=True).reshape(1), A * B)
    emit(out, 8, tl.sum(tl.sum(x, 1), 0), A * B)
    emit(out, 9, tl.max(x), A * B)


@triton.jit
def reduce_rank3(out, x_ptr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    x = tl.load(x_ptr + (tl.arange(0, A)[:, None, None] * B + tl.arange(0, B)[None, :, None]) * C +
                tl.arange(0, C)[None, None, :])
    emit(out, 0, tl.broadcast_to(tl.sum(x, 0)[None, :, :], (A, B, C)).reshape(A * B * C), A * B * C)
    emit(out, 1, tl.broadcast_to(tl.sum(x, 1)[:, None, :], (A, B, C)).reshape(A * B * C), A * B * C)
    emit(out, 2, tl.broadcast_to(tl.sum(x, 2)[:, :, None], (A, B, C)).reshape(A * B * C), A * B * C)
    emit(out, 3, tl.broadcast_to(tl.min(x, 1, keep_dims=True), (A, B, C)).reshape(A * B * C), A * B * C)
    emit(out, 4, tl.broadcast_to(tl.argmax(x, 2, keep_dims=True), (A, B, C)).reshape(A * B * C), A * B * C)
    emit(out, 5, tl.broadcast_to(tl.sum(tl.max(x, 2), 0)[None, :, None], (A, B, C)).reshape(A * B * C), A * B * C)


# ------------------------------------------------------------------------------------------------------- functions


@triton.jit
def nan_rules(out, x_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    emit(out, 0, tl.minimum(x, y), N)
    emit(out, 1, tl.maximum(x, y), N)
    emit(out, 2, tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL), N)
    emit(out, 3, tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL), N)
    emit(out, 4, x == y, N)
    emit(out, 5, x != y, N)
    emit(out, 6, x < y, N)
    emit(out, 7, x >= y, N)
    emit(out, 8, x == x, N)
    emit(out, 9, tl.clamp(x, -1.0, 2.0), N)
    emit(out, 10, tl.max(x, 0), N)
    emit(out, 11, tl.min(y, 0), N)
    emit(out, 12, tl.abs(x), N)
    emit(out, 13, x.to(tl.int1), N)


@triton.jit
def math_functions(out, x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    positive = tl.abs(x) + 0.125
    emit(out, 0, tl.exp(x), N)
    emit(out, 1, tl.exp2(x), N)
    emit(out, 2, tl.log(positive), N)
    emit(out, 3, tl.log2(positive), N)
    emit(out, 4, tl.sqrt(positive), N)
    emit(out, 5, tl.rsqrt(positive), N)
    emit(out, 6, tl.sin(x), N)
    emit(out, 7, tl.cos(x), N)
    emit(out, 8, tl.erf(x), N)
    emit(out, 9, tl.floor(x), N)
    emit(out, 10, tl.ceil(x), N)
    emit(out, 11, tl.abs(x), N)
    emit(out, 12, tl.fma(x, x, 1.0), N)
    emit(out, 13, tl.sigmoid(x), N)
    emit(out, 14, tl.fdiv(x, positive), N)
    emit(out, 15, tl.softmax(x), N)
    emit(out, 16, x.exp().sum(0), N)
    emit(out, 17, tl.clamp(x, -0.5, 0.75), N)
    emit(out, 18, 1 / positive, N)


@triton.jit
def math_single(out, x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    positive = tl.abs(x) + 0.125
    emit(out, 0, tl.sqrt_rn(positive), N)
    emit(out, 1, tl.div_rn(x, positive), N)
    emit(out, 2, tl.fdiv(x, positive, ieee_rounding=True), N)
    emit(out, 3, tl.fma(x, 2.0, x), N)


@triton.jit
def math_half(out, x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    emit(out, 0, tl.abs(x), N)
    emit(out, 1, tl.exp(x.to(tl.float32)).to(x.dtype), N)
    emit(out, 2, tl.fma(x, x, x), N)
    emit(out, 3, x * x + x, N)
    emit(out, 4, x / (x * x + 1), N)
    emit(out, 5, tl.clamp(x, -0.5, 0.75), N)
    emit(out, 6, -x, N)
    emit(out, 7, x / 3, N)
    emit(out, 8, x % 0.75, N)


@triton.jit
def math_integers(out, x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    emit(out, 0, tl.abs(x), N)
    emit(out, 1, tl.umulhi(x, x), N)
    emit(out, 2, tl.cdiv(x, 7), N)
    emit(out, 3, -x, N)
    emit(out, 4, ~x, N)


@triton.jit
def ceiling_division(out, n, m, N: tl.constexpr, K: tl.constexpr):
    emit(out, 0, tl.cdiv(n, 4), N)
    emit(out, 1, tl.cdiv(n, m), N)
    emit(out, 2, tl.zeros((N, ), tl.int32) + tl.cdiv(K, 4), N)
    emit(out, 3, tl.cdiv(tl.arange(0, N), m), N)
    emit(out, 4, (n + K - 1) // K * K, N)
    emit(out, 5, min(n, m), N)
    emit(out, 6, max(n, 3), N)


# --------------------------------------------------------------------------------------------------- shapes, masks


@triton.jit
def broadcasting(out, x_ptr, A: tl.constexpr, B: tl.constexpr):
    a = tl.load(x_ptr + tl.arange(0, A))
    b = tl.load(x_ptr + tl.arange(0, B))
    m = tl.load(x_ptr + tl.arange(0, A)[:, None] * B + tl.arange(0, B)[None, :])
    emit(out, 0, (a[:, None] * b[None, :]).reshape(A * B), A * B)
    emit(out, 1, (m + b).reshape(A * B), A * B)
    emit(out, 2, (b - m).reshape(A * B), A * B)
    emit(out, 3, tl.where(m > 0, a[:, None], b).reshape(A * B), A * B)
    emit(out, 4, (m * 2 + tl.sum(a, 0)).reshape(A * B), A * B)
    emit(out, 5, tl.where(tl.sum(a, 0) > 0, m, 1).reshape(A * B), A * B)
    c, d = tl.broadcast(a[:, None], b[None, :])
    emit(out, 6, (c - d).reshape(A * B), A * B)
    emit(out, 7, tl.broadcast_to(a[:, None], A, B).reshape(A * B), A * B)
    emit(out, 8, tl.maximum(a[:, None], b).reshape(A * B), A * B)
    emit(out, 9, (m[:, None, :] + a[None, :, None] * 0 + m[:, None, :]).sum(1).reshape(A * B), A * B)


@triton.jit
def shapes(out, x_ptr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    N: tl.constexpr = A * B * C
    flat = tl.load(x_ptr + tl.arange(0, N))
    x = flat.reshape(A, B, C)
    emit(out, 0, x.permute(2, 0, 1).reshape(N), N)
    emit(out, 1, tl.permute(x, (1, 0, 2)).reshape(N), N)
    emit(out, 2, tl.trans(x, 0, 2, 1).reshape(N), N)
    emit(out, 3, flat.reshape((A * B, C)).trans().reshape(N), N)
    emit(out, 4, tl.reshape(flat, (A, B * C)).T.reshape(N), N)
    emit(out, 5, tl.ravel(x), N)
    emit(out, 6, tl.sum(x.trans(2, 1, 0), 0).reshape(A * B), A * B)
    emit(out, 7, tl.expand_dims(flat, 0).reshape(N), N)
    emit(out, 8, tl.zeros_like(x).reshape(N) + 1, N)
    emit(out, 9, flat[:, None].reshape(N) + flat[None, :].reshape(N), N)
    emit(out, 10, tl.reshape(flat, (B, A * C)).sum(1)[:, None].broadcast_to(B, A * C).reshape(N), N)


@triton.jit
def masks(out, y_ptr, x_ptr, n, N: tl.constexpr, FLOAT: tl.constexpr):
    i = tl.arange(0, N)
    emit(out, 0, tl.load(x_ptr + i, mask=i < n, other=0), N)
    emit(out, 1, tl.load(x_ptr + i, mask=i < n, other=1.0), N)
    emit(out, 2, tl.load(x_ptr + i, mask=(i >= 2) & (i < n), other=tl.load(x_ptr)), N)
    emit(out, 3, tl.load(x_ptr + i, i < n, i), N)
    emit(out, 4, tl.load(x_ptr + n, mask=n < N, other=1), N)
    emit(out, 5, tl.load(x_ptr + n, mask=n > N, other=1), N)
    emit(out, 6, tl.load(x_ptr + (n - 1 - i), mask=i < n, other=1), N)
    emit(out, 7, tl.load(x_ptr + i % n), N)
    if FLOAT:
        emit(out, 8, tl.load(x_ptr + i, mask=i < n, other=-float("inf")), N)
    tl.store(y_ptr + i, i, mask=(i % 3 == 0) & (i < n))


@triton.jit
def softmax_rank2(out, x_ptr, A: tl.constexpr, B: tl.constexpr):
    N: tl.constexpr = A * B
    x = tl.load(x_ptr + tl.arange(0, A)[:, None] * B + tl.arange(0, B))
    emit(out, 0, tl.softmax(x).reshape(N), N)
    emit(out, 1, tl.softmax(x, 0).reshape(N), N)
    emit(out, 2, tl.softmax(x, 1, keep_dims=True).reshape(N), N)
    e = tl.exp(x - tl.max(x, 1)[:, None])
    emit(out, 3, (e / tl.sum(e, 1)[:, None]).reshape(N), N)
    emit(out, 4, x.sigmoid().reshape(N), N)


@triton.jit
def ties(out, x_ptr, A: tl.constexpr, B: tl.constexpr):
    N: tl.constexpr = A * B
    x = tl.load(x_ptr + tl.arange(0, A)[:, None] * B + tl.arange(0, B))
    emit(out, 0, tl.broadcast_to(tl.argmax(x, 1, keep_dims=True), A, B).reshape(N), N)
    emit(out, 1, tl.broadcast_to(tl.argmin(x, 0, keep_dims=True), A, B).reshape(N), N)
    value, index = tl.max(x, 0, return_indices=True, keep_dims=True)
    emit(out, 2, tl.broadcast_to(value, A, B).reshape(N), N)
    emit(out, 3, tl.broadcast_to(index, A, B).reshape(N), N)
    emit(out, 4, tl.argmax(x.reshape(N), 0), N)
    emit(out, 5, tl.argmin(tl.where(x > 2, 1, 0).reshape(N), 0), N)
    emit(out, 6, tl.argmax((x == tl.max(x)).reshape(N).to(tl.int32), axis=0), N)
