"""Products whose operands are computed, or loaded other than by aligned copies."""

import triton
import triton.language as tl


@triton.jit
def flash_attention(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, queries, keys, stride_row,
    ROWS: tl.constexpr, KEYS: tl.constexpr, DEPTH: tl.constexpr, CAUSAL: tl.constexpr,
):
    """Softmax(q k^T scale) v, with the softmax of each row made up block by block of keys."""
    first = tl.program_id(0) * ROWS
    rows = first + tl.arange(0, ROWS)
    columns = tl.arange(0, KEYS)
    depth = tl.arange(0, DEPTH)
    q = tl.load(q_ptr + rows[:, None] * stride_row + depth[None, :], mask=rows[:, None] < queries, other=0.0)
    highest = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, DEPTH), tl.float32)
    end = tl.minimum(first + ROWS, keys) if CAUSAL else keys
    for start in range(0, end, KEYS):
        at = start + columns
        k = tl.load(k_ptr + at[:, None] * stride_row + depth[None, :], mask=at[:, None] < keys, other=0.0)
        scores = tl.dot(q, k.T) * (scale * 1.44269504)
        seen = at[None, :] < keys
        if CAUSAL:
            seen = seen & (at[None, :] <= rows[:, None])
        scores = tl.where(seen, scores, float("-inf"))
        higher = tl.maximum(highest, tl.max(scores, axis=1))
        weights = tl.exp2(scores - higher[:, None])
        faded = tl.exp2(highest - higher)
        total = total * faded + tl.sum(weights, axis=1)
        acc = acc * faded[:, None]
        v = tl.load(v_ptr + at[:, None] * stride_row + depth[None, :], mask=at[:, None] < keys, other=0.0)
        acc = tl.dot(weights.to(v.dtype), v, acc)
        highest = higher
    out = acc / total[:, None]
    tl.store(out_ptr + rows[:, None] * DEPTH + depth[None, :], out, mask=rows[:, None] < queries)


@triton.jit
def summed_products(
    a_ptr, b_ptr, c_ptr, bias_ptr, out_ptr, between_ptr, behind_ptr, steps,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
):
    """sum_i relu(a b_i^T + bias_i) c_i; the sums over rows of what is between the products, and of the result so far."""
    rows, columns, depth = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + rows[:, None] * K + depth[None, :])
    acc = tl.zeros((M, K), tl.float32)
    between = tl.zeros((N,), tl.float32)
    behind = tl.zeros((K,), tl.float32)
    for i in range(steps):
        at = i * N + columns
        b = tl.load(b_ptr + at[:, None] * K + depth[None, :])
        x = tl.maximum(tl.dot(a, b.T) + tl.load(bias_ptr + at)[None, :], 0.0)
        between += tl.sum(x, axis=0)
        c = tl.load(c_ptr + at[:, None] * K + depth[None, :])
        acc = tl.dot(x.to(c.dtype), c, acc)
        behind += tl.sum(acc, axis=0)
    tl.store(out_ptr + rows[:, None] * K + depth[None, :], acc)
    tl.store(between_ptr + columns, between)
    tl.store(behind_ptr + depth, behind)


@triton.jit
def paged_product(a_ptr, b_ptr, pages_ptr, c_ptr, steps, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """a b, where block i of K rows of b is the one that pages_ptr[i] names."""
    rows, columns, depth = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    acc = tl.zeros((M, N), tl.float32)
    for i in range(steps):
        page = tl.load(pages_ptr + i)
        a = tl.load(a_ptr + rows[:, None] * (K * steps) + (i * K + depth)[None, :])
        b = tl.load(b_ptr + (page * K + depth)[:, None] * N + columns[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc)


@triton.jit
def permuted_product(a_ptr, b_ptr, c_ptr, steps, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """a b, where row k of each block of b is row (5 k) % K in memory: threads exchange what they point to."""
    rows, columns, depth = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    acc = tl.zeros((M, N), tl.float32)
    for i in range(steps):
        a = tl.load(a_ptr + rows[:, None] * (K * steps) + (i * K + depth)[None, :])
        at = i * K + tl.gather(depth, depth * 5 % K, 0)
        b = tl.load(b_ptr + at[:, None] * N + columns[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc)


@triton.jit
def triangle_products(a_ptr, b_ptr, c_ptr, d_ptr, M: tl.constexpr, N: tl.constexpr):
    """c: the lower triangle of b b^T; d: the upper triangle of a, which lies in columns, times b."""
    at, columns = tl.arange(0, M), tl.arange(0, N)
    a = tl.load(a_ptr + at[:, None] + at[None, :] * M)
    a = tl.where(at[:, None] <= at[None, :], a, 0)
    b = tl.load(b_ptr + at[:, None] * N + columns[None, :])
    c = tl.dot(b, tl.trans(b))
    tl.store(c_ptr + at[:, None] * M + at[None, :], tl.where(at[:, None] >= at[None, :], c, 0))
    tl.store(d_ptr + at[:, None] * N + columns[None, :], tl.dot(a, b))


@triton.jit
def scaled(
    a_ptr, b_ptr, a_scale_ptr, b_scale_ptr, c_ptr, M, N, K, stride_am, stride_bk,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, TYPE: tl.constexpr,
):
    """(a * a_scale[k]) (b * b_scale[n]): both operands are scaled, in TYPE, before they are multiplied."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    b_scale = tl.load(b_scale_ptr + columns, mask=columns < N, other=0.0)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        at = k + depth
        a_scale = tl.load(a_scale_ptr + at, mask=at < K, other=0.0)
        a = tl.load(a_ptr + rows[:, None] * stride_am + at[None, :], mask=(rows[:, None] < M) & (at[None, :] < K), other=0)
        b = tl.load(b_ptr + at[:, None] * stride_bk + columns[None, :], mask=(at[:, None] < K) & (columns[None, :] < N), other=0)
        left = (a.to(tl.float32) * a_scale[None, :]).to(TYPE)
        right = (b.to(tl.float32) * b_scale[None, :]).to(TYPE)
        acc = tl.dot(left, right, acc)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc, mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def masked_by_sums(a, b, out, depth, N: tl.constexpr = 128, K: tl.constexpr = 128):
    i = tl.arange(0, 64)
    j = tl.arange(0, N)
    k = tl.arange(0, K)
    a_ptrs = a + i[:, None] * depth + k[None, :]
    b_ptrs = b + k[:, None] * N + j[None, :]
    acc = tl.zeros((64, N), tl.float32)
    for step in range(0, depth, K):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        a_ptrs += K
        b_ptrs += K * N
    tl.store(out + i[:, None] * N + j[None, :], acc, mask=acc < 1e30)


@triton.jit
def widened(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_bn, TYPE: tl.constexpr, TURNED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """a b, of both as TYPE. TURNED: b is transposed behind the load."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * stride_am + depth[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    if TURNED:
        b_ptrs = b_ptr + columns[:, None] * stride_bn + depth[None, :] * stride_bk
    else:
        b_ptrs = b_ptr + depth[:, None] * stride_bk + columns[None, :] * stride_bn
    for k in range(0, K, BLOCK_K):
        left = depth < K - k
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & left[None, :], other=0)
        if TURNED:
            b = tl.load(b_ptrs, mask=(columns[:, None] < N) & left[None, :], other=0).to(TYPE).T
        else:
            b = tl.load(b_ptrs, mask=left[:, None] & (columns[None, :] < N), other=0).to(TYPE)
        acc = tl.dot(a.to(TYPE), b, acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * stride_bk
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc, mask=(rows[:, None] < M) & (columns[None, :] < N))
