"""out = norm(h) * weight + shift along the rows of h = A B + bias + residual: a linear layer with the norm behind it, in one kernel.

A is M x K, B is K x N; element (i, j) of A lies i * stride_am + j * stride_ak elements from its start, likewise for B. `bias`,
`weight` and `shift` have N elements, `residual` is M x N; each may be None. h is fp32, and is written to sum_ptr too unless that is
None. RMSNorm divides by sqrt(mean(h * h) + eps); LayerNorm (CENTER) subtracts the mean first.

A program has BLOCK_M whole rows, whose columns the blocks of its cluster share: each multiplies its part, and they exchange the sums of
their rows, which is one number a row.
"""

import triton
import triton.language as tl

from gemm import corner, even, multiply
from norm import finish, row_factor, store_sum
from tiles import inside, load_vector


def configs():
    found = []
    for blocks in [1, 2, 4, 8, 16]:
        for m, k, warps, stages in [(128, 64, 8, 3), (64, 64, 8, 2), (64, 64, 4, 3), (64, 64, 4, 2)]:
            found.append(triton.Config({"BLOCK_M": m, "BLOCK_K": k}, num_warps=warps, num_stages=stages, num_ctas=blocks))
    found.append(triton.Config({"BLOCK_M": 16, "BLOCK_K": 32}, num_warps=4, num_stages=2, num_ctas=1))
    return found


def width(N, blocks):
    """Columns of a block: all blocks together have N and few more, and a tile has 1 to 15 times a power of two."""
    columns = triton.cdiv(N, 16 * blocks)
    unit = 16
    while columns > 15:
        columns = triton.cdiv(columns, 2)
        unit = 2 * unit
    return max(columns, 1) * unit


def fitting(configs, named_args, **kwargs):
    """Clusters whose threads hold 32 to 128 sums, and whose operands fit the shared memory."""
    N = named_args["N"]
    kept = []
    for config in configs:
        m = config.kwargs["BLOCK_M"]
        k = config.kwargs["BLOCK_K"]
        columns = width(N, config.num_ctas)
        sums = m * columns // (32 * config.num_warps)
        if 32 <= sums and sums <= 128 and columns % 32 == 0 and 2 * k * (m + columns) * config.num_stages <= 220000:
            kept.append(config)
    return kept if len(kept) > 0 else configs[-1:]


@triton.autotune(configs=configs(), key=["m_class", "N", "K"], prune_configs_by={"early_config_prune": fitting})
@triton.heuristics({
    "BLOCK_N": lambda args: args["num_ctas"] * width(args["N"], args["num_ctas"]),
    "EVEN_M": even("M", "BLOCK_M"),
    "EVEN_N": lambda args: args["N"] == args["num_ctas"] * width(args["N"], args["num_ctas"]),
    "EVEN_K": even("K", "BLOCK_K"),
})
@triton.jit
def linear_norm(out_ptr, sum_ptr, a_ptr, b_ptr, bias_ptr, residual_ptr, weight_ptr, shift_ptr, M, N, K, out_stride, sum_stride, stride_am,
                stride_ak, stride_bk, stride_bn, residual_stride, eps, m_class, CENTER: tl.constexpr, ACTIVATION: tl.constexpr,
                BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_N: tl.constexpr, EVEN_M: tl.constexpr, EVEN_N: tl.constexpr,
                EVEN_K: tl.constexpr):
    tile = tl.program_id(0)
    acc = multiply(tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32), tile, 0, 0, tl.cdiv(K, BLOCK_K), a_ptr, b_ptr, M, N, K, stride_am,
                   stride_ak, stride_bk, stride_bn, BLOCK_M, BLOCK_N, BLOCK_K, False, EVEN_M, EVEN_N, EVEN_K)
    first_row, _ = corner(tile, 0, BLOCK_M, BLOCK_N)
    row = tl.arange(0, BLOCK_M)
    col = tl.arange(0, BLOCK_N)
    col_mask = inside(col, N, EVEN_N)[None, :]
    mask = inside(tile * BLOCK_M + row, M, EVEN_M)[:, None] & col_mask
    if bias_ptr is not None:
        acc += load_vector(bias_ptr, col[None, :], col_mask).to(tl.float32)
    if residual_ptr is not None:
        there = residual_ptr + first_row * residual_stride + row[:, None] * residual_stride + col[None, :]
        acc += tl.load(there, mask=mask, other=0.0).to(tl.float32)
    h = acc if EVEN_N else tl.where(col_mask, acc, 0.0)
    store_sum(sum_ptr, first_row * sum_stride + row[:, None] * sum_stride + col[None, :], h, mask)
    if CENTER:
        h = h - (tl.sum(h, axis=1) / N)[:, None]
        if not EVEN_N:
            h = tl.where(col_mask, h, 0.0)
    factor = row_factor(tl.sum(h * h, axis=1), N, eps, False)
    weight = load_vector(weight_ptr, col[None, :], col_mask)
    shift = load_vector(shift_ptr, col[None, :], col_mask)
    y = finish(h * factor[:, None], weight, shift, weight_ptr is not None, shift_ptr is not None, ACTIVATION)
    tl.store(out_ptr + first_row * out_stride + row[:, None] * out_stride + col[None, :], y.to(out_ptr.dtype.element_ty), mask=mask)
