"""C = activation(A B + bias) for float8 operands with scales, which stand for A times its scales and B times its scales.

A is M x K, B is K x N, both float8 of either kind; `bias` has N elements or is None. Scales are fp32, and each operand has

    one (strides of None),
    one for each row of A and column of B (a stride along K of None), or
    BLOCKS: one for 1 x 128 elements of A, one for 128 x 128 of B: of A by row and block of K, of B by block of columns
    and block of K.

Scales of the first two kinds are applied to the sums; where there are blocks, the sums of 128 products are scaled and added
up in fp32. Hopper's tensor cores keep about 14 bits of sums of float8: PROMOTE has the sums of each K-step added to others in fp32,
as those of blocks are. Without it all of K is summed in few bits, which is faster.

`m_class` stands for M where tuning tells problems apart. SWAP has the transposed product computed, B^T A^T, whose instructions take any
number of rows of A.
"""

import triton
import triton.language as tl

from gemm import corner, even, load_step, operands, place
from gemm_tiles import row_class
from tiles import activate

# Elements along K, and columns of B, that share a scale.
SCALED = tl.constexpr(128)


def tile(m, n, k, warps, stages, group=8, programs=0, swap=False, blocks=1):
    """A configuration. `blocks` of a cluster divide the tile, each with as many warps and stages."""
    how = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": group, "PROGRAMS": programs, "SWAP": swap}
    return triton.Config(how, num_warps=warps, num_stages=stages, num_ctas=blocks)


def configs():
    found = []
    for programs in [1, 0]:
        for group in [8, 16]:
            found.append(tile(256, 128, 128, 8, 4, group, programs))
            found.append(tile(128, 256, 128, 8, 4, group, programs))
        found.append(tile(256, 128, 128, 8, 3, 8, programs))
        found.append(tile(128, 192, 128, 8, 5, 8, programs))
        found.append(tile(128, 160, 128, 8, 5, 8, programs))
        found.append(tile(128, 128, 128, 8, 5, 8, programs))
    # Two blocks, each of which brings half of B's columns, or A's rows, for both.
    for m, n, stages in [(512, 128, 3), (256, 256, 3), (256, 256, 4), (256, 192, 4)]:
        found.append(tile(m, n, 128, 8, stages, 8, 1, False, 2))
    for m, n, k, warps, stages in [(128, 128, 128, 4, 4), (64, 128, 128, 4, 6), (64, 128, 128, 4, 8), (128, 64, 128, 4, 6), (64, 256, 128, 4, 4), (64, 64, 128, 4, 8), (64, 32, 128, 4, 8), (64, 128, 64, 4, 8),
                                   (64, 64, 64, 4, 8), (32, 32, 64, 2, 4), (32, 64, 128, 4, 4)]:
        found.append(tile(m, n, k, warps, stages))
    for m in [16, 32, 48]:
        for n, stages in [(64, 8), (128, 6)]:
            found.append(tile(m, n, 128, 4, stages, 8, 0, True))
    return found


def fitting(configs, named_args, **kwargs):
    """Tiles of a few rows for few rows, of at most twice the matrix for others, large ones for large matrices."""
    M = named_args["M"]
    N = named_args["N"]
    rows = row_class(M)
    kept = []
    for config in configs:
        m = config.kwargs["BLOCK_M"]
        n = config.kwargs["BLOCK_N"]
        if n > max(32, triton.next_power_of_2(N)):
            continue
        if rows <= 64:
            if m == rows or (m == 64 and not config.kwargs["SWAP"]):
                kept.append(config)
        elif M * N >= 4194304:
            if m * n >= 16384:
                kept.append(config)
        elif m <= rows and m >= 32 and config.kwargs["PROGRAMS"] == 0 and not config.kwargs["SWAP"]:
            kept.append(config)
    if len(kept) == 0:
        kept = [tile(32, 32, 64, 2, 4)]
    return kept


@triton.jit
def dot(a, b, acc, SWAP: tl.constexpr, PROMOTE: tl.constexpr):
    """acc + a b, or its transpose."""
    LIMIT: tl.constexpr = a.shape[1] if PROMOTE else None
    if SWAP:
        return tl.dot(tl.trans(b), tl.trans(a), acc, max_num_imprecise_acc=LIMIT)
    else:
        return tl.dot(a, b, acc, max_num_imprecise_acc=LIMIT)


@triton.jit
def outer(x, y, SWAP: tl.constexpr):
    """x[i] y[j] for element (i, j) of the sums."""
    if SWAP:
        return y[:, None] * x[None, :]
    else:
        return x[:, None] * y[None, :]


@triton.jit
def scale_sums(acc, ptr, first, at, stride, mask, AXIS: tl.constexpr):
    """The sums times one scale, or times those of the rows (AXIS 0) or columns (AXIS 1) of the tile."""
    if stride is None:
        return acc * tl.load(ptr)
    else:
        return acc * tl.expand_dims(tl.load(ptr + first * stride + at * stride, mask=mask, other=0.0), 1 - AXIS)


@triton.jit
def scaled_product(program, c_ptr, a_ptr, b_ptr, scale_a_ptr, scale_b_ptr, bias_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
                   stride_cm, stride_sam, stride_sak, stride_sbn, stride_sbk, ACTIVATION: tl.constexpr, BLOCKS: tl.constexpr,
                   PROMOTE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
                   SWAP: tl.constexpr, EVEN_M: tl.constexpr, EVEN_N: tl.constexpr, EVEN_K: tl.constexpr):
    """One tile of C."""
    tile_m, tile_n = place(program, M, N, BLOCK_M, BLOCK_N, GROUP_M)
    first_row, first_col = corner(tile_m, tile_n, BLOCK_M, BLOCK_N)
    row = tl.arange(0, BLOCK_M)
    col = tl.arange(0, BLOCK_N)
    a_ptrs, b_ptrs, row_mask, col_mask = operands(tile_m, tile_n, a_ptr, b_ptr, M, N, stride_am, stride_ak, stride_bk, stride_bn,
                                                  BLOCK_M, BLOCK_N, BLOCK_K, EVEN_M, EVEN_N)
    acc = tl.zeros((BLOCK_N, BLOCK_M) if SWAP else (BLOCK_M, BLOCK_N), dtype=tl.float32)
    if BLOCKS:
        scale_a_ptrs = scale_a_ptr + first_row * stride_sam + row * stride_sam
        # Columns beyond the last block are those of the last one, which leaves runs of equal scales whole.
        block = tl.minimum((tile_n * BLOCK_N + col) // SCALED, (N - 1) // SCALED)
        scale_b_ptrs = scale_b_ptr + block * stride_sbn
        # Large tiles have warps of their own copy: the others then need not wait for each other, and while some scale their
        # sums the tensor cores multiply for others.
        for k in tl.range(0, tl.cdiv(K, BLOCK_K), warp_specialize=BLOCK_M * BLOCK_N >= 16384):
            a, b = load_step(a_ptrs, b_ptrs, row_mask, col_mask, K - k * BLOCK_K, BLOCK_K, EVEN_K)
            scale_a = tl.load(scale_a_ptrs + k * BLOCK_K // SCALED * stride_sak, mask=row_mask, other=0.0)
            scale_b = tl.load(scale_b_ptrs + k * BLOCK_K // SCALED * stride_sbk)
            acc += dot(a, b, None, SWAP, False) * outer(scale_a, scale_b, SWAP)
            a_ptrs += BLOCK_K * stride_ak
            b_ptrs += BLOCK_K * stride_bk
    else:
        for k in range(0, tl.cdiv(K, BLOCK_K)):
            a, b = load_step(a_ptrs, b_ptrs, row_mask, col_mask, K - k * BLOCK_K, BLOCK_K, EVEN_K)
            acc = dot(a, b, acc, SWAP, PROMOTE)
            a_ptrs += BLOCK_K * stride_ak
            b_ptrs += BLOCK_K * stride_bk
    if SWAP:
        acc = tl.trans(acc)
    if not BLOCKS:
        acc = scale_sums(acc, scale_a_ptr, first_row, row, stride_sam, row_mask, 0)
        acc = scale_sums(acc, scale_b_ptr, first_col, col, stride_sbn, col_mask, 1)
    if bias_ptr is not None:
        acc += tl.load(bias_ptr + first_col + col, mask=col_mask, other=0.0).to(tl.float32)[None, :]
    c_ptrs = c_ptr + first_row * stride_cm + first_col + row[:, None] * stride_cm + col[None, :]
    tl.store(c_ptrs, activate(acc, ACTIVATION).to(c_ptr.dtype.element_ty), mask=row_mask[:, None] & col_mask[None, :])


@triton.autotune(configs=configs(), key=["m_class", "N", "K"], prune_configs_by={"early_config_prune": fitting, "top_k": 10})
@triton.heuristics({
    "EVEN_M": even("M", "BLOCK_M"),
    "EVEN_N": even("N", "BLOCK_N"),
    "EVEN_K": even("K", "BLOCK_K"),
})
@triton.jit
def scaled_gemm(c_ptr, a_ptr, b_ptr, scale_a_ptr, scale_b_ptr, bias_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm,
                stride_sam, stride_sak, stride_sbn, stride_sbk, m_class, ACTIVATION: tl.constexpr, BLOCKS: tl.constexpr,
                PROMOTE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
                PROGRAMS: tl.constexpr, SWAP: tl.constexpr, EVEN_M: tl.constexpr, EVEN_N: tl.constexpr, EVEN_K: tl.constexpr):
    """A program a tile of C if PROGRAMS is 0, else PROGRAMS programs for each multiprocessor, and each goes on from tile to tile."""
    if PROGRAMS == 0:
        scaled_product(tl.program_id(0), c_ptr, a_ptr, b_ptr, scale_a_ptr, scale_b_ptr, bias_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm,
                       stride_sam, stride_sak, stride_sbn, stride_sbk, ACTIVATION, BLOCKS, PROMOTE, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, SWAP, EVEN_M,
                       EVEN_N, EVEN_K)
    else:
        for program in tl.range(tl.program_id(0), tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N), tl.num_programs(0)):
            scaled_product(program, c_ptr, a_ptr, b_ptr, scale_a_ptr, scale_b_ptr, bias_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm,
                           stride_sam, stride_sak, stride_sbn, stride_sbk, ACTIVATION, BLOCKS, PROMOTE, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, SWAP, EVEN_M,
                           EVEN_N, EVEN_K)
