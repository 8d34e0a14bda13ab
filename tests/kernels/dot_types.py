"""Matrix products of every type and extent."""

import triton
import triton.language as tl


@triton.jit
def product(
    a_ptr, b_ptr, c_ptr, BATCH: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, OUT: tl.constexpr,
    PRECISION: tl.constexpr = "ieee",
):
    """c[i] = a[i] b[i] + c[i] for BATCH matrices."""
    i = tl.arange(0, BATCH)[:, None, None]
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, K)
    a = tl.load(a_ptr + i * M * K + m[None, :, None] * K + k[None, None, :])
    b = tl.load(b_ptr + i * K * N + k[None, :, None] * N + n[None, None, :])
    c_ptrs = c_ptr + i * M * N + m[None, :, None] * N + n[None, None, :]
    tl.store(c_ptrs, tl.dot(a, b, tl.load(c_ptrs), input_precision=PRECISION, out_dtype=OUT))


@triton.jit
def long_product(
    a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BLOCK_K: tl.constexpr, ZERO: tl.constexpr,
    PRECISION: tl.constexpr = "ieee",
):
    """c = a b in a loop over K; b is transposed in memory."""
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((M, N), ZERO)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + m[:, None] * K + (start + k)[None, :])
        b = tl.load(b_ptr + n[:, None] * K + (start + k)[None, :])
        acc = tl.dot(a, b.T, acc, input_precision=PRECISION, out_dtype=ZERO)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc)


@triton.jit
def added_products(a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BLOCK_K: tl.constexpr, OUT: tl.constexpr):
    """c = a b, b transposed in memory: products of OUT are added to the sums one by one."""
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((M, N), OUT)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + m[:, None] * K + (start + k)[None, :])
        b = tl.load(b_ptr + n[:, None] * K + (start + k)[None, :])
        acc += tl.dot(a, b.T, out_dtype=OUT)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc)


@triton.jit
def float8_sums(
    a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BLOCK_K: tl.constexpr, ADD: tl.constexpr, LIMIT: tl.constexpr,
):
    """c = a b of float8, b transposed in memory: the sums of a dot are carried on, added if ADD, or promoted by LIMIT."""
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((M, N), tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + m[:, None] * K + (start + k)[None, :])
        b = tl.load(b_ptr + n[:, None] * K + (start + k)[None, :])
        if ADD:
            acc += tl.dot(a, b.T)
        else:
            acc = tl.dot(a, b.T, acc, max_num_imprecise_acc=LIMIT)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc)


@triton.jit
def scaled_blocks(
    a_ptr, b_ptr, a_scale_ptr, b_scale_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """c = a b, b transposed in memory; a has a scale for BLOCK_K elements along K, b for GROUP x BLOCK_K."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (m % M)[:, None] * K + k[None, :]
    b_ptrs = b_ptr + (n % N)[None, :] * K + k[:, None]
    a_scale_ptrs = a_scale_ptr + m % M * tl.cdiv(K, BLOCK_K)
    b_scale_ptrs = b_scale_ptr + n % N // GROUP * tl.cdiv(K, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for i in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=k[None, :] < K - i * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < K - i * BLOCK_K, other=0.0)
        acc += tl.dot(a, b) * tl.load(a_scale_ptrs + i)[:, None] * tl.load(b_scale_ptrs + i)[None, :]
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def begun_sums(x_ptr, y_ptr, begin_ptr, out_ptr, K, FORM: tl.constexpr):
    """Products that begin with a constant, with a number or a row that elements share, or all with the same sums."""
    m, n, k = tl.arange(0, 128), tl.arange(0, 64), tl.arange(0, 64)
    highest = tl.zeros((128, 64), tl.float32)
    begin = tl.load(begin_ptr + m[:, None] * 64 + n[None, :])
    for i in range(0, K, 64):
        x = tl.load(x_ptr + m[:, None] * K + (i + k)[None, :])
        y = tl.load(y_ptr + (i + k)[:, None] * 64 + n[None, :])
        if FORM == "constant":
            begin = tl.full((128, 64), 1.5, tl.float32)
        elif FORM == "number":
            begin = tl.zeros((128, 64), tl.float32) + tl.load(begin_ptr + i)
        elif FORM == "row":
            begin = tl.broadcast_to(tl.load(begin_ptr + i + n)[None, :], (128, 64))
        highest = tl.maximum(highest, tl.dot(x, y, begin))
    tl.store(out_ptr + m[:, None] * 64 + n[None, :], highest)
