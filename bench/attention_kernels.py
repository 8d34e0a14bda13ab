"""Attention as users write it, forward and backward, for bench/attention.py: one text for Triton and for Tegula."""

import triton
import triton.language as tl


@triton.jit
def step(acc, l_i, m_i, q, k_base, v_base, start_n, offs_m, qk_scale, S, MASKED: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr, V_BY_KEYS: tl.constexpr):
    offs_n = start_n + tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, D)
    k = tl.load(k_base + offs_n[None, :] * D + offs_d[:, None])
    qk = tl.dot(q, k)
    if MASKED:
        qk = qk * qk_scale + tl.where(offs_m[:, None] >= offs_n[None, :], 0, -1.0e6)
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.math.exp2(qk - m_ij[:, None])
    else:
        m_ij = tl.maximum(m_i, tl.max(qk, 1) * qk_scale)
        p = tl.math.exp2(qk * qk_scale - m_ij[:, None])
    alpha = tl.math.exp2(m_i - m_ij)
    l_i = l_i * alpha + tl.sum(p, 1)
    acc = acc * alpha[:, None]
    if V_BY_KEYS:
        v = tl.load(v_base + offs_n[:, None] + offs_d[None, :] * S)
    else:
        v = tl.load(v_base + offs_n[:, None] * D + offs_d[None, :])
    acc = tl.dot(p.to(v.dtype), v, acc)
    return acc, l_i, m_ij


@triton.jit
def forward(out, lse, Q, K, V, scale, S, D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, V_BY_KEYS: tl.constexpr = False):
    """out[h] = softmax(scale Q[h] K[h]^T) V[h] for each head h, all (heads, S, D); lse: base-2 logarithms of the sums.
    V_BY_KEYS: V is (heads, D, S), as products of fp8 read it."""
    start_m = tl.program_id(0)
    base = tl.program_id(1).to(tl.int64) * S * D
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D)
    q = tl.load(Q + base + offs_m[:, None] * D + offs_d[None, :])
    m_i = tl.full([BLOCK_M], -float("inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    qk_scale = scale * 1.44269504
    whole = start_m * BLOCK_M if CAUSAL else S
    for start_n in range(0, whole, BLOCK_N):
        acc, l_i, m_i = step(acc, l_i, m_i, q, K + base, V + base, start_n, offs_m, qk_scale, S, False, BLOCK_N, D, V_BY_KEYS)
    if CAUSAL:
        for start_n in range(whole, whole + BLOCK_M, BLOCK_N):
            acc, l_i, m_i = step(acc, l_i, m_i, q, K + base, V + base, start_n, offs_m, qk_scale, S, True, BLOCK_N, D, V_BY_KEYS)
    acc = acc / l_i[:, None]
    tl.store(lse + tl.program_id(1) * S + offs_m, m_i + tl.math.log2(l_i))
    tl.store(out + base + offs_m[:, None] * D + offs_d[None, :], acc.to(out.dtype.element_ty))


@triton.jit
def backward_dkdv(DK, DV, Q, K, V, DO, lse, delta, scale, S, D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Gradients of K and V: a program has BLOCK_N rows of them. delta: sums of out * DO along rows."""
    start_n = tl.program_id(0) * BLOCK_N
    base = tl.program_id(1).to(tl.int64) * S * D
    rows = tl.program_id(1) * S
    offs_n = start_n + tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, D)
    k = tl.load(K + base + offs_n[:, None] * D + offs_d[None, :])
    v = tl.load(V + base + offs_n[:, None] * D + offs_d[None, :])
    dk = tl.zeros([BLOCK_N, D], tl.float32)
    dv = tl.zeros([BLOCK_N, D], tl.float32)
    qk_scale = scale * 1.44269504
    first = start_n // BLOCK_M * BLOCK_M if CAUSAL else 0
    for start_m in range(first, S, BLOCK_M):
        offs_m = start_m + tl.arange(0, BLOCK_M)
        q_t = tl.load(Q + base + offs_m[None, :] * D + offs_d[:, None])
        m = tl.load(lse + rows + offs_m)
        p_t = tl.math.exp2(tl.dot(k, q_t) * qk_scale - m[None, :])
        if CAUSAL:
            p_t = tl.where(offs_m[None, :] >= offs_n[:, None], p_t, 0.0)
        do = tl.load(DO + base + offs_m[:, None] * D + offs_d[None, :])
        dv = tl.dot(p_t.to(do.dtype), do, dv)
        di = tl.load(delta + rows + offs_m)
        ds_t = p_t * (tl.dot(v, tl.trans(do)) - di[None, :])
        dk = tl.dot(ds_t.to(do.dtype), tl.trans(q_t), dk)
    tl.store(DV + base + offs_n[:, None] * D + offs_d[None, :], dv.to(DV.dtype.element_ty))
    tl.store(DK + base + offs_n[:, None] * D + offs_d[None, :], (dk * scale).to(DK.dtype.element_ty))


@triton.jit
def backward_dq(DQ, Q, K, V, DO, lse, delta, scale, S, D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Gradient of Q: a program has BLOCK_M rows of it."""
    start_m = tl.program_id(0) * BLOCK_M
    base = tl.program_id(1).to(tl.int64) * S * D
    rows = tl.program_id(1) * S
    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D)
    q = tl.load(Q + base + offs_m[:, None] * D + offs_d[None, :])
    do = tl.load(DO + base + offs_m[:, None] * D + offs_d[None, :])
    m = tl.load(lse + rows + offs_m)
    di = tl.load(delta + rows + offs_m)
    dq = tl.zeros([BLOCK_M, D], tl.float32)
    qk_scale = scale * 1.44269504
    last = start_m + BLOCK_M if CAUSAL else S
    for start_n in range(0, last, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)
        k_t = tl.load(K + base + offs_n[None, :] * D + offs_d[:, None])
        v_t = tl.load(V + base + offs_n[None, :] * D + offs_d[:, None])
        p = tl.math.exp2(tl.dot(q, k_t) * qk_scale - m[:, None])
        if CAUSAL:
            p = tl.where(offs_m[:, None] >= offs_n[None, :], p, 0.0)
        ds = p * (tl.dot(do, v_t) - di[:, None])
        dq = tl.dot(ds.to(k_t.dtype), tl.trans(k_t), dq)
    tl.store(DQ + base + offs_m[:, None] * D + offs_d[None, :], (dq * scale).to(DQ.dtype.element_ty))
