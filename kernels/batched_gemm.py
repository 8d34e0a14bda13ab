"""C[i] = epilogue(A[i] B[i] + bias) for each i of a batch: A is batch x M x K, B batch x K x N, C batch x M x N.

Elements of A and B may lie any strides apart, along the batch too: views and transposes cost no copy, and a stride of 0 has one
matrix stand for all. `bias` has N elements or is None. Sums and epilogue are fp32, rounded once to C's type. The tiles are those of
gemm.py; a program takes one of one product.
"""

import triton
import triton.language as tl

from gemm import corner, even, multiply, place
from gemm_tiles import row_class
from tiles import activate, inside


def tile(m, n, k, warps, stages, swap=False):
    blocks = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "SWAP": swap}
    return triton.Config(blocks, num_warps=warps, num_stages=stages)


def configs():
    found = []
    for m, n, k, warps, stages in [(128, 256, 64, 8, 3), (256, 128, 64, 8, 3), (128, 192, 64, 8, 4), (128, 128, 64, 4, 3), (128, 128, 64, 8, 4),
                                   (128, 128, 32, 4, 4), (128, 64, 64, 4, 4), (64, 256, 64, 4, 3), (64, 128, 64, 4, 4), (64, 64, 64, 4, 4),
                                   (64, 64, 128, 4, 3), (128, 32, 64, 4, 4), (64, 32, 64, 4, 4), (32, 32, 64, 1, 3), (16, 32, 32, 1, 3)]:
        found.append(tile(m, n, k, warps, stages))
    # Few rows: the transposed product, whose instructions take any number of rows.
    for m in [16, 32, 48]:
        for n, k, stages in [(64, 64, 6), (64, 128, 4), (128, 64, 4)]:
            found.append(tile(m, n, k, 4, stages, True))
    return found


def fitting(configs, named_args, **kwargs):
    """Tiles at most twice as large as a matrix, and that hold few rows whole."""
    rows = row_class(named_args["M"])
    kept = []
    for config in configs:
        m = config.kwargs["BLOCK_M"]
        n = config.kwargs["BLOCK_N"]
        if n <= max(32, triton.next_power_of_2(named_args["N"])) and config.kwargs["BLOCK_K"] <= max(32, triton.next_power_of_2(named_args["K"])):
            if m == rows if rows <= 48 else m <= rows and m >= 64:
                kept.append(config)
    return kept if len(kept) > 0 else [tile(16, 32, 32, 1, 3)]


@triton.autotune(configs=configs(), key=["m_class", "N", "K"], prune_configs_by={"early_config_prune": fitting, "top_k": 10})
@triton.heuristics({
    "EVEN_M": even("M", "BLOCK_M"),
    "EVEN_N": even("N", "BLOCK_N"),
    "EVEN_K": even("K", "BLOCK_K"),
})
@triton.jit
def batched_gemm(out_ptr, a_ptr, b_ptr, bias_ptr, M, N, K, out_stride, out_stride_1, a_stride, a_stride_1, a_stride_2, b_stride, b_stride_1,
                 b_stride_2, m_class, EPILOGUE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                 SWAP: tl.constexpr, EVEN_M: tl.constexpr, EVEN_N: tl.constexpr, EVEN_K: tl.constexpr):
    tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    matrix = (tl.program_id(0) // tiles).to(tl.int64)
    tile_m, tile_n = place(tl.program_id(0) % tiles, M, N, BLOCK_M, BLOCK_N, 8)
    acc = multiply(tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32), tile_m, tile_n, 0, tl.cdiv(K, BLOCK_K), a_ptr + matrix * a_stride,
                   b_ptr + matrix * b_stride, M, N, K, a_stride_1, a_stride_2, b_stride_1, b_stride_2, BLOCK_M, BLOCK_N, BLOCK_K, SWAP,
                   EVEN_M, EVEN_N, EVEN_K)
    first_row, first_col = corner(tile_m, tile_n, BLOCK_M, BLOCK_N)
    row = tl.arange(0, BLOCK_M)
    col = tl.arange(0, BLOCK_N)
    row_mask = inside(tile_m * BLOCK_M + row, M, EVEN_M)
    col_mask = inside(tile_n * BLOCK_N + col, N, EVEN_N)
    if bias_ptr is not None:
        acc += tl.load(bias_ptr + first_col + col, mask=col_mask, other=0.0).to(tl.float32)[None, :]
    there = out_ptr + matrix * out_stride + first_row * out_stride_1 + first_col + row[:, None] * out_stride_1 + col[None, :]
    result = activate(acc, EPILOGUE).to(out_ptr.dtype.element_ty)
    tl.store(there, result, mask=row_mask[:, None] & col_mask[None, :])
