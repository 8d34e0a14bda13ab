"""Kernels as tutorials of Triton write them: what rows.py and gemm.py let Triton choose from."""

import triton
import triton.language as tl


@triton.jit
def softmax(out, x, out_stride, x_stride, rows, cols, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """A row at a time, the next ones of this program's share prefetched."""
    c = tl.arange(0, BLOCK)
    for r in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        v = tl.load(x + r * x_stride + c, mask=c < cols, other=-float("inf")).to(tl.float32)
        e = tl.exp(v - tl.max(v, axis=0))
        tl.store(out + r * out_stride + c, (e / tl.sum(e, axis=0)).to(out.dtype.element_ty), mask=c < cols)


@triton.jit
def norm(out, x, residual, weight, bias, cols, eps, BLOCK: tl.constexpr, RESIDUAL: tl.constexpr, SILU: tl.constexpr,
         CENTER: tl.constexpr):
    """RMSNorm or LayerNorm, a row a program."""
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    m = c < cols
    v = tl.load(x + row * cols + c, mask=m, other=0.0).to(tl.float32)
    if RESIDUAL:
        v += tl.load(residual + row * cols + c, mask=m, other=0.0).to(tl.float32)
    if CENTER:
        v = tl.where(m, v - tl.sum(v, axis=0) / cols, 0.0)
    y = v * (1.0 / tl.sqrt(tl.sum(v * v, axis=0) / cols + eps)) * tl.load(weight + c, mask=m, other=0.0).to(tl.float32)
    if CENTER:
        y += tl.load(bias + c, mask=m, other=0.0).to(tl.float32)
    if SILU:
        y = y * tl.sigmoid(y)
    tl.store(out + row * cols + c, y.to(out.dtype.element_ty), mask=m)


@triton.jit
def swiglu(out, gate, up, count, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    m = i < count
    g = tl.load(gate + i, mask=m).to(tl.float32)
    u = tl.load(up + i, mask=m)
    tl.store(out + i, (g * tl.sigmoid(g)).to(u.dtype) * u, mask=m)


@triton.jit
def gelu(x, FORM: tl.constexpr):
    """The tanh form of GELU; nothing if FORM is "none"."""
    if FORM == "exp":
        u = 0.7978845608028654 * (x + 0.044715 * x * x * x)
        x = 0.5 * x * (1.0 + (1.0 - 2.0 / (tl.exp(2.0 * u) + 1.0)))
    if FORM == "sigmoid":
        x = x * tl.sigmoid(x * (1.5957691216057308 + 0.07135481627260025 * x * x))
    if FORM == "approx":
        u = x * (0.7978845608028654 + 0.035677408136300125 * x * x)
        t = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [u], dtype=tl.float32, is_pure=True, pack=1)
        x = 0.5 * x * (1.0 + t)
    return x


@triton.jit
def gemm_tile(t, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):
    """Row and column of tile number t in groups of GROUP_M rows."""
    tiles_m = tl.cdiv(M, BLOCK_M)
    per_group = GROUP_M * tl.cdiv(N, BLOCK_N)
    first = (t // per_group) * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    return first + (t % per_group) % height, (t % per_group) // height


@triton.jit
def gemm_pointers(c, a, b, M, N, K, stride_a, stride_b, stride_c, FORM: tl.constexpr, BLOCK_M: tl.constexpr,
                  BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr, EVEN_K: tl.constexpr):
    """Rows and columns beyond the matrix wrap around, so that only K needs a mask."""
    m, n = gemm_tile(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    row = (m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    col = (n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    depth = tl.arange(0, BLOCK_K)
    a_ptrs = a + row[:, None] * stride_a + depth[None, :]
    b_ptrs = b + depth[:, None] * stride_b + col[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        if EVEN_K:
            x = tl.load(a_ptrs)
            y = tl.load(b_ptrs)
        else:
            x = tl.load(a_ptrs, mask=depth[None, :] < K - k * BLOCK_K, other=0.0)
            y = tl.load(b_ptrs, mask=depth[:, None] < K - k * BLOCK_K, other=0.0)
        acc = tl.dot(x, y, acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * stride_b
    acc = gelu(acc, FORM)
    row = m * BLOCK_M + tl.arange(0, BLOCK_M)
    col = n * BLOCK_N + tl.arange(0, BLOCK_N)
    tl.store(c + row[:, None] * stride_c + col[None, :], acc.to(c.dtype.element_ty), mask=(row[:, None] < M) & (col[None, :] < N))


@triton.jit
def gemm_descriptors(c, a, b, M, N, K, FORM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                     BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr, SMS: tl.constexpr, SPECIALISE: tl.constexpr):
    """Tensor descriptors (bulk copies), and as many programs as the GPU has SMs, each with its share of the tiles."""
    for t in tl.range(tl.program_id(0), tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N), SMS, flatten=True, warp_specialize=SPECIALISE):
        m, n = gemm_tile(t, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(tl.cdiv(K, BLOCK_K)):
            x = a.load([m * BLOCK_M, k * BLOCK_K])
            y = b.load([k * BLOCK_K, n * BLOCK_N])
            acc = tl.dot(x, y, acc)
        c.store([m * BLOCK_M, n * BLOCK_N], gelu(acc, FORM).to(c.dtype))


@triton.jit
def gemm_descriptors_transposed(c, a, b, M, N, K, FORM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                                BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr, SMS: tl.constexpr, SPECIALISE: tl.constexpr):
    """Likewise of a copy of B as N x K, the layout that suits it best."""
    for t in tl.range(tl.program_id(0), tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N), SMS, flatten=True, warp_specialize=SPECIALISE):
        m, n = gemm_tile(t, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(tl.cdiv(K, BLOCK_K)):
            x = a.load([m * BLOCK_M, k * BLOCK_K])
            y = b.load([n * BLOCK_N, k * BLOCK_K])
            acc = tl.dot(x, y.T, acc)
        c.store([m * BLOCK_M, n * BLOCK_N], gelu(acc, FORM).to(c.dtype))


def int4_configs():
    found = []
    for n, k, splits, warps, stages in [(8, 1024, 1, 4, 3), (4, 1024, 1, 4, 3), (4, 2048, 1, 4, 2), (8, 512, 2, 4, 3), (16, 512, 4, 4, 3),
                                        (2, 2048, 1, 4, 2), (4, 512, 1, 2, 3), (2, 1024, 1, 2, 3), (1, 2048, 1, 2, 3)]:
        found.append(triton.Config({"N_TILE": n, "K_TILE": k, "SPLITS": splits}, num_warps=warps, num_stages=stages))
    return found


@triton.autotune(configs=int4_configs(), key=["N", "K"], reset_to_zero=["out"])
@triton.jit
def int4_row(out, a, w, scales, N, K, GROUP: tl.constexpr, N_TILE: tl.constexpr, K_TILE: tl.constexpr, SPLITS: tl.constexpr):
    """A row times weights of 4 bits, -8 to 7, two in a byte. out: fp32; with several SPLITS it is zero before."""
    row = tl.program_id(0) * N_TILE + tl.arange(0, N_TILE)
    acc = tl.zeros([N_TILE, K_TILE // 2], tl.float32)
    for step in range(tl.program_id(1), K // K_TILE, SPLITS):
        at = step * (K_TILE // 2) + tl.arange(0, K_TILE // 2)
        pair = tl.load(w + row[:, None] * (K // 2) + at[None, :]).to(tl.int32)
        scale = tl.load(scales + row[:, None] * (K // GROUP) + (2 * at // GROUP)[None, :]).to(tl.float32)
        even = tl.load(a + 2 * at).to(tl.float32)[None, :]
        odd = tl.load(a + 2 * at + 1).to(tl.float32)[None, :]
        acc += ((((pair & 15) ^ 8) - 8).to(tl.float32) * even + (((pair >> 4) ^ 8) - 8).to(tl.float32) * odd) * scale
    total = tl.sum(acc, axis=1)
    if SPLITS == 1:
        tl.store(out + row, total)
    else:
        tl.atomic_add(out + row, total)
