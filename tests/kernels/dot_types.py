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
        acc = tl.dot(a, b.T, acc, input_precision=PRECISION)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc)
