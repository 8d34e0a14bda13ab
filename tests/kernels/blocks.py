"""Matrix products and attention through block pointers."""

import triton
import triton.language as tl


@triton.jit
def matmul(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    row, col = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    a = tl.make_block_ptr(a_ptr, (M, K), (stride_am, stride_ak), (row, 0), (BLOCK_M, BLOCK_K), (1, 0))
    b = tl.make_block_ptr(b_ptr, (K, N), (stride_bk, stride_bn), (0, col), (BLOCK_K, BLOCK_N), (1, 0))
    c = tl.make_block_ptr(c_ptr, (M, N), (stride_cm, stride_cn), (row, col), (BLOCK_M, BLOCK_N), (1, 0))
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        x = tl.load(a, boundary_check=(0, 1), padding_option="zero")
        y = tl.load(b, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(x, y, acc)
        a = tl.advance(a, (0, BLOCK_K))
        b = tl.advance(b, (BLOCK_K, 0))
    tl.store(c, acc.to(c_ptr.dtype.element_ty), boundary_check=(0, 1))


@triton.jit
def attention(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, queries, keys,
    ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr,
):
    """Softmax(q k^T scale) v; the block pointer of k is one to columns."""
    row = tl.program_id(0) * ROWS
    q_block = tl.make_block_ptr(q_ptr, (queries, DEPTH), (DEPTH, 1), (row, 0), (ROWS, DEPTH), (1, 0))
    k_block = tl.make_block_ptr(k_ptr, (DEPTH, keys), (1, DEPTH), (0, 0), (DEPTH, COLS), (0, 1))
    v_block = tl.make_block_ptr(v_ptr, (keys, DEPTH), (DEPTH, 1), (0, 0), (COLS, DEPTH), (1, 0))
    out_block = tl.make_block_ptr(out_ptr, (queries, DEPTH), (DEPTH, 1), (row, 0), (ROWS, DEPTH), (1, 0))
    largest = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, DEPTH), tl.float32)
    q = tl.load(q_block, boundary_check=(0,))
    for start in range(0, keys, COLS):
        k = tl.load(k_block, boundary_check=(1,))
        scores = tl.dot(q, k) * scale
        scores = tl.where((start + tl.arange(0, COLS) < keys)[None, :], scores, float("-inf"))
        now = tl.maximum(largest, tl.max(scores, 1))
        weights = tl.exp(scores - now[:, None])
        fade = tl.exp(largest - now)
        v = tl.load(v_block, boundary_check=(0,))
        acc = tl.dot(weights.to(v.dtype), v, acc * fade[:, None])
        total = total * fade + tl.sum(weights, 1)
        largest = now
        k_block = tl.advance(k_block, (0, COLS))
        v_block = tl.advance(v_block, (COLS, 0))
    tl.store(out_block, (acc / total[:, None]).to(out_ptr.dtype.element_ty), boundary_check=(0,))
