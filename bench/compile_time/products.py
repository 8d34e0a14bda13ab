"""Matrix products and attention, with run-time strides in all dimensions."""

import triton
import triton.language as tl


@triton.jit
def gelu(x):
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))


@triton.jit
def matmul(a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn, ACTIVATION: tl.constexpr,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr):
    program = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    first = program // (GROUP * tiles_n) * GROUP
    height = min(tiles_m - first, GROUP)
    tile_m = first + program % (GROUP * tiles_n) % height
    tile_n = program % (GROUP * tiles_n) // height
    rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    cols = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a + (rows[:, None] * stride_am + k[None, :] * stride_ak)
    b_ptrs = b + (k[:, None] * stride_bk + cols[None, :] * stride_bn)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_K)):
        left = K - step * BLOCK_K
        x = tl.load(a_ptrs, mask=k[None, :] < left, other=0.0)
        y = tl.load(b_ptrs, mask=k[:, None] < left, other=0.0)
        acc = tl.dot(x, y, acc)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    if ACTIVATION == "gelu":
        acc = gelu(acc)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    tl.store(c + rows[:, None] * stride_cm + cols[None, :] * stride_cn, acc.to(c.dtype.element_ty),
             mask=(rows[:, None] < M) & (cols[None, :] < N))


@triton.jit
def scaled_matmul(a, b, c, a_scales, b_scales, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                  stride_asm, stride_ask, stride_bsk, stride_bsn, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                  BLOCK_K: tl.constexpr):
    """Operands of 8 bits with a scale for each block of K."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a + rows[:, None] * stride_am + k[None, :] * stride_ak
    b_ptrs = b + k[:, None] * stride_bk + cols[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_K)):
        x = tl.load(a_ptrs, mask=k[None, :] < K - step * BLOCK_K, other=0.0)
        y = tl.load(b_ptrs, mask=k[:, None] < K - step * BLOCK_K, other=0.0)
        sa = tl.load(a_scales + rows * stride_asm + step * stride_ask, mask=rows < M, other=0.0)
        sb = tl.load(b_scales + step * stride_bsk + cols // 128 * stride_bsn)
        acc += tl.dot(x, y) * sa[:, None] * sb[None, :]
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    tl.store(c + rows[:, None] * stride_cm + cols[None, :] * stride_cn, acc.to(c.dtype.element_ty),
             mask=(rows[:, None] < M) & (cols[None, :] < N))


@triton.jit
def attention(out, lse, q, k, v, scale, q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row, o_batch,
              o_head, o_row, heads, rows, keys, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
              DEPTH: tl.constexpr):
    """Flash attention, forward."""
    head = tl.program_id(1)
    q += head // heads * q_batch + head % heads * q_head
    k += head // heads * k_batch + head % heads * k_head
    v += head // heads * v_batch + head % heads * v_head
    out += head // heads * o_batch + head % heads * o_head
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.arange(0, BLOCK_N)
    d = tl.arange(0, DEPTH)
    queries = tl.load(q + r[:, None] * q_row + d[None, :], mask=r[:, None] < rows, other=0.0)
    largest = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, DEPTH), tl.float32)
    last = min(keys, (tl.program_id(0) + 1) * BLOCK_M) if CAUSAL else keys
    for first in range(0, last, BLOCK_N):
        at = first + n
        x = tl.load(k + at[None, :] * k_row + d[:, None], mask=at[None, :] < keys, other=0.0)
        scores = tl.dot(queries, x) * (scale * 1.4426950408889634)
        keep = at[None, :] < keys
        if CAUSAL:
            keep = keep & (r[:, None] >= at[None, :])
        scores = tl.where(keep, scores, -float("inf"))
        new = tl.maximum(largest, tl.max(scores, axis=1))
        p = tl.exp2(scores - new[:, None])
        old = tl.exp2(largest - new)
        total = total * old + tl.sum(p, axis=1)
        acc = acc * old[:, None]
        y = tl.load(v + at[:, None] * v_row + d[None, :], mask=at[:, None] < keys, other=0.0)
        acc = tl.dot(p.to(y.dtype), y, acc)
        largest = new
    tl.store(out + r[:, None] * o_row + d[None, :], (acc / total[:, None]).to(out.dtype.element_ty), mask=r[:, None] < rows)
    tl.store(lse + head * rows + r, largest + tl.log2(total), mask=r < rows)


@triton.jit
def attention_backward(dq, dk, dv, q, k, v, do, lse, delta, scale, stride_head, stride_row, rows,
                       BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DEPTH: tl.constexpr):
    """dk and dv of a block of keys; dq by atomic additions."""
    head = tl.program_id(1)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    d = tl.arange(0, DEPTH)
    at = head * stride_head + n[:, None] * stride_row + d[None, :]
    keys = tl.load(k + at)
    values = tl.load(v + at)
    dk_sum = tl.zeros((BLOCK_N, DEPTH), tl.float32)
    dv_sum = tl.zeros((BLOCK_N, DEPTH), tl.float32)
    for first in range(0, rows, BLOCK_M):
        r = first + tl.arange(0, BLOCK_M)
        here = head * stride_head + r[:, None] * stride_row + d[None, :]
        queries = tl.load(q + here)
        grads = tl.load(do + here)
        p = tl.exp2(tl.dot(queries, tl.trans(keys)) * scale - tl.load(lse + head * rows + r)[:, None])
        dv_sum = tl.dot(tl.trans(p.to(grads.dtype)), grads, dv_sum)
        dp = tl.dot(grads, tl.trans(values))
        ds = (p * (dp - tl.load(delta + head * rows + r)[:, None])).to(queries.dtype)
        dk_sum = tl.dot(tl.trans(ds), queries, dk_sum)
        tl.atomic_add(dq + here, tl.dot(ds, keys) * scale)
    tl.store(dk + at, (dk_sum * scale).to(dk.dtype.element_ty))
    tl.store(dv + at, dv_sum.to(dv.dtype.element_ty))


@triton.jit
def decode(out, lse, q, cache_k, cache_v, table, lengths, scale, stride_q, stride_block, stride_slot, stride_head,
           stride_table, stride_out, HEADS: tl.constexpr, DEPTH: tl.constexpr, SLOTS: tl.constexpr):
    """One token against a paged cache, a group of heads a program."""
    sequence = tl.program_id(0)
    group = tl.program_id(1)
    h = tl.arange(0, HEADS)
    d = tl.arange(0, DEPTH)
    s = tl.arange(0, SLOTS)
    length = tl.load(lengths + sequence)
    queries = tl.load(q + sequence * stride_q + (group * HEADS + h)[:, None] * DEPTH + d[None, :])
    largest = tl.full((HEADS,), -float("inf"), tl.float32)
    total = tl.zeros((HEADS,), tl.float32)
    acc = tl.zeros((HEADS, DEPTH), tl.float32)
    for block in range(0, tl.cdiv(length, SLOTS)):
        page = tl.load(table + sequence * stride_table + block).to(tl.int64)
        at = page * stride_block + group * stride_head
        keep = block * SLOTS + s < length
        x = tl.load(cache_k + at + s[None, :] * stride_slot + d[:, None], mask=keep[None, :], other=0.0)
        scores = tl.where(keep[None, :], tl.dot(queries, x) * scale, -float("inf"))
        new = tl.maximum(largest, tl.max(scores, axis=1))
        p = tl.exp(scores - new[:, None])
        old = tl.exp(largest - new)
        y = tl.load(cache_v + at + s[:, None] * stride_slot + d[None, :], mask=keep[:, None], other=0.0)
        acc = tl.dot(p.to(y.dtype), y, acc * old[:, None])
        total = total * old + tl.sum(p, axis=1)
        largest = new
    at = (sequence * tl.num_programs(1) + group) * HEADS + h
    tl.store(out + at[:, None] * stride_out + d[None, :], acc / total[:, None])
    tl.store(lse + at, largest + tl.log(total))
