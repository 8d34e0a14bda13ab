"""C[i] = epilogue(A[i] B[i] + bias) for each i of a batch: A is batch x M x K, B batch x K x N, C batch x M x N.

Elements of A and B may lie any strides apart, along the batch too: views and transposes need no copy, and a stride of 0 has one
matrix stand for all. (Where rows begin at odd addresses the library multiplies copies that are aligned, if that takes less time.)
`bias` has N elements or is None. Sums and epilogue are fp32, rounded once to C's type. The tiles are those of gemm.py, for all
products together.
"""

import triton
import triton.language as tl

from gemm import corner, even, multiply, once, place
from gemm_tiles import best_extent, in_turns, row_class, stages_of, step_along
from tiles import activate, inside


def tile(m, n, k, warps, stages, programs=0, swap=False, turns=False, blocks=1):
    how = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "PROGRAMS": programs, "SWAP": swap, "TURNS": turns}
    return triton.Config(how, num_warps=warps, num_stages=stages, num_ctas=blocks)


def configs():
    found = []
    for m, n, k, warps, stages in [(128, 256, 64, 8, 3), (256, 128, 64, 8, 3), (128, 192, 64, 8, 4), (128, 128, 64, 4, 3), (128, 128, 64, 8, 4),
                                   (128, 128, 32, 4, 4), (128, 64, 64, 4, 4), (64, 256, 64, 4, 3), (64, 128, 64, 4, 4), (64, 64, 64, 4, 4),
                                   (64, 64, 128, 4, 3), (128, 32, 64, 4, 4), (64, 32, 64, 4, 4), (32, 32, 64, 1, 3), (16, 32, 32, 1, 3)]:
        found.append(tile(m, n, k, warps, stages))
    # Programs that go on from tile to tile: where K is short, most of a tile's time is that of its ends.
    for m, n, warps, stages, programs in [(128, 256, 8, 3, 1), (256, 128, 8, 3, 1), (128, 192, 8, 4, 1), (128, 128, 8, 4, 1),
                                          (128, 128, 4, 2, 2), (64, 256, 4, 2, 2), (128, 64, 4, 3, 2), (64, 128, 4, 3, 2),
                                          (64, 64, 4, 4, 3)]:
        found.append(tile(m, n, 64, warps, stages, programs))
    # Few rows: the transposed product, whose instructions take any number of rows.
    for m in [16, 32, 48]:
        for n, k, stages in [(64, 64, 6), (64, 128, 4), (128, 64, 4)]:
            found.append(tile(m, n, k, 4, stages, 0, True))
            found.append(tile(m, n, k, 4, stages, 2, True))
    return found


def adapted(batch, M, N, row_step, column_step):
    """Tiles whose rows, or columns, are as many as suit the matrices: one at a time, and by programs that go on."""
    found = []
    for width, warps, most, at_once in [(64, 4, 128, 2), (128, 8, 256, 1)]:
        if width < 2 * N:
            rows = best_extent(N, M, width, 56, 24, 1, batch, most, row_step)
            stages = stages_of(rows, width)
            found.append(tile(rows, width, 64, warps, stages, 0, True))
            found.append(tile(rows, width, 64, warps, max(2, stages // at_once), at_once, True))
        if width < 2 * M:
            columns = best_extent(M, N, width, 48, 24, 1, batch, most, column_step)
            stages = stages_of(width, columns)
            found.append(tile(width, columns, 64, warps, stages))
            found.append(tile(width, columns, 64, warps, max(2, stages // at_once), at_once))
    # What fewer blocks read, or two or four for each other.
    if N > 128:
        rows = best_extent(N, M, 256, 64, 24, 1, batch, 160, row_step)
        found.append(tile(rows, 256, 64, 8, stages_of(rows, 256), 0, True))
    for blocks in [2, 4]:
        if N > 64 * blocks:
            rows = best_extent(N, M, 128 * blocks, 64, 8, blocks, batch, 256, row_step)
            found.append(tile(rows, 128 * blocks, 64, 8, stages_of(rows, 128, 10, 256 * rows), 1, True, blocks=blocks))
    if M > 128:
        columns = best_extent(M, N, 256, 64, 8, 2, batch, 256, column_step)
        found.append(tile(256, columns, 64, 8, stages_of(128, columns, 10, 256 * columns), 1, blocks=2))
    for rows, columns, stages, swap, blocks in in_turns(M, N, row_step, column_step, batch):
        found.append(tile(rows, columns, 64, 4, stages, 1, swap, True, blocks))
    return found


def fitting(configs, named_args, **kwargs):
    """Tiles at most twice as large as a matrix, and that hold few rows whole."""
    M = named_args["M"]
    N = named_args["N"]
    rows = row_class(M)
    kept = []
    for config in configs:
        m = config.kwargs["BLOCK_M"]
        n = config.kwargs["BLOCK_N"]
        if n <= max(32, triton.next_power_of_2(N)) and config.kwargs["BLOCK_K"] <= max(32, triton.next_power_of_2(named_args["K"])):
            if m == rows if rows <= 48 else m <= rows and m >= 64:
                kept.append(config)
    if rows > 48 and N >= 48:
        kept += adapted(named_args["batch"], M, N, step_along(named_args["a_stride_1"]), step_along(named_args["b_stride_2"]))
    return kept if len(kept) > 0 else [tile(16, 32, 32, 1, 3)]


@triton.jit
def product(program, out_ptr, a_ptr, b_ptr, bias_ptr, M, N, K, out_stride, out_stride_1, a_stride, a_stride_1, a_stride_2, b_stride,
            b_stride_1, b_stride_2, EPILOGUE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
            SWAP: tl.constexpr, EVEN_M: tl.constexpr, EVEN_N: tl.constexpr, EVEN_K: tl.constexpr):
    """One tile of one product."""
    tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    matrix = (program // tiles).to(tl.int64)
    tile_m, tile_n = place(program % tiles, M, N, BLOCK_M, BLOCK_N, 8)
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


@triton.autotune(configs=configs(), key=["m_class", "batch_class", "N", "K"], prune_configs_by={"early_config_prune": fitting, "top_k": 10})
@triton.heuristics({
    "EVEN_M": even("M", "BLOCK_M"),
    "EVEN_N": even("N", "BLOCK_N"),
    "EVEN_K": even("K", "BLOCK_K"),
    "program_loop": once("batch"),
})
@triton.jit
def batched_gemm(out_ptr, a_ptr, b_ptr, bias_ptr, batch, M, N, K, out_stride, out_stride_1, a_stride, a_stride_1, a_stride_2, b_stride,
                 b_stride_1, b_stride_2, m_class, batch_class, EPILOGUE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                 BLOCK_K: tl.constexpr, PROGRAMS: tl.constexpr, SWAP: tl.constexpr, EVEN_M: tl.constexpr, EVEN_N: tl.constexpr,
                 EVEN_K: tl.constexpr, TURNS: tl.constexpr = False):
    """A program a tile if PROGRAMS is 0, else PROGRAMS programs for each multiprocessor, which go on from tile to tile; TURNS: two
    groups of warps take the tiles in turns."""
    if PROGRAMS == 0:
        product(tl.program_id(0), out_ptr, a_ptr, b_ptr, bias_ptr, M, N, K, out_stride, out_stride_1, a_stride, a_stride_1, a_stride_2,
                b_stride, b_stride_1, b_stride_2, EPILOGUE, BLOCK_M, BLOCK_N, BLOCK_K, SWAP, EVEN_M, EVEN_N, EVEN_K)
    else:
        for program in tl.range(tl.program_id(0), batch * tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N), tl.num_programs(0),
                                warp_specialize=True if TURNS else None):
            product(program, out_ptr, a_ptr, b_ptr, bias_ptr, M, N, K, out_stride, out_stride_1, a_stride, a_stride_1, a_stride_2,
                    b_stride, b_stride_1, b_stride_2, EPILOGUE, BLOCK_M, BLOCK_N, BLOCK_K, SWAP, EVEN_M, EVEN_N, EVEN_K)
