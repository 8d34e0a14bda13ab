"""Four products of one matrix with four others: a kernel for each, and one that keeps four 128x128 sums at a time."""

import triton
import triton.language as tl


@triton.jit
def product(c_ptr, a_ptr, b_ptr, N, K, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + rows[:, None] * K + start + k[None, :])
        b = tl.load(b_ptr + (start + k[:, None]) * N + cols[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc.to(tl.float16))


@triton.jit
def four_products(c0_ptr, c1_ptr, c2_ptr, c3_ptr, a_ptr, b0_ptr, b1_ptr, b2_ptr, b3_ptr, N, K, BLOCK: tl.constexpr,
                  BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, BLOCK_K)
    acc0 = tl.zeros((BLOCK, BLOCK), tl.float32)
    acc1 = tl.zeros((BLOCK, BLOCK), tl.float32)
    acc2 = tl.zeros((BLOCK, BLOCK), tl.float32)
    acc3 = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + rows[:, None] * K + start + k[None, :])
        at = (start + k[:, None]) * N + cols[None, :]
        acc0 = tl.dot(a, tl.load(b0_ptr + at), acc0)
        acc1 = tl.dot(a, tl.load(b1_ptr + at), acc1)
        acc2 = tl.dot(a, tl.load(b2_ptr + at), acc2)
        acc3 = tl.dot(a, tl.load(b3_ptr + at), acc3)
    out = rows[:, None] * N + cols[None, :]
    tl.store(c0_ptr + out, acc0.to(tl.float16))
    tl.store(c1_ptr + out, acc1.to(tl.float16))
    tl.store(c2_ptr + out, acc2.to(tl.float16))
    tl.store(c3_ptr + out, acc3.to(tl.float16))
