"""C = epilogue(A B + bias): the matrix product with what follows it applied to the accumulator, before the one store.

A is M x K, B is K x N, C is M x N, `bias` has N elements or is None. Element (i, j) of A lies i * stride_am + j *
stride_ak elements from its start; likewise for B and C, so that a transposed matrix needs no copy. The accumulator is
fp32, and so is the epilogue's arithmetic; the result is rounded once, to C's type.

EPILOGUE is a function of the accumulator's tile that gives one of its shape: one of those below, passed as Triton passes
it or by its name. `m_class` stands for M where tuning tells problems apart: M itself would have each number of tokens
tuned anew.

A product with few tiles leaves most of the GPU idle. With PARTS its tiles are divided along K: `splits` programs work on
a tile, each on a share of K, and leave their sums in `partials_ptr`. Whoever has seen all programs of its tile start
waits for them and then adds up its parts of the tile (PARTS, or somewhat fewer), SHARES shares at a time, in an order that is
fixed: results are the same in every run. What others left undone, as they did not see all start, is done by the program that leaves last; so nobody waits for
a program that has not begun. `partials_ptr` has room for a tile of 128 x 256 fp32 on each multiprocessor (132 if there are fewer), and
`counters_ptr` for four int32 a tile, which are zero before and after each launch; with None for both no tile is divided.

With SHARES above 1 the shares of a tile are products of a batch, one for each block of a cluster of as many blocks
(num_ctas), which add up their sums through each other's shared memory: also in the order of the shares.

Where the tiles are more than the programs that run at a time but do not fill the last round of these, STREAM has the
programs share the last two rounds evenly, so that one goes on in the midst of a tile where another one has stopped.
"""

import triton
import triton.language as tl

from gemm_tiles import PROCESSORS, configs, fitting
from shares import leave, wait_for_shares
from tiles import inside

# ---- Epilogues.


@triton.jit
def none(acc):
    return acc


@triton.jit
def relu(acc):
    return tl.where(acc < 0, 0.0, acc)


@triton.jit
def leaky_relu(acc):
    return tl.where(acc < 0, 0.01 * acc, acc)


@triton.jit
def silu(acc):
    return acc * tl.sigmoid(acc)


@triton.jit
def gelu(acc):
    """x P(X < x) of a normal X, by the error function."""
    return 0.5 * acc * (1.0 + tl.erf(acc * 0.7071067811865476))


@triton.jit
def gelu_tanh(acc):
    """The approximation 0.5 x (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x^3), which is x sigmoid(2 u)."""
    return acc * tl.sigmoid(acc * (1.5957691216057308 + 0.07135481627260025 * acc * acc))


@triton.jit
def gelu_tanh_fast(acc):
    """Likewise by the hardware's tanh, which is 5e-4 off at most: enough for results of 16 bits."""
    half = 0.5 * acc
    return half + half * tl.tanh(acc * (0.7978845608028654 + 0.035677408136300125 * acc * acc), approx=True)


# ---- The choice of a configuration.


def even(extent, block):
    return lambda args: args[extent] % args[block] == 0


def once(batch=None):
    """The option program_loop: none where each tile has a multiprocessor for itself anyway, so that all of the shared memory is free
    for results behind the product's loop."""
    return lambda args: 1 if (args[batch] if batch else 1) * triton.cdiv(args["M"], args["BLOCK_M"]) * triton.cdiv(
        args["N"], args["BLOCK_N"]) <= PROCESSORS else 0


# ---- The kernel.


@triton.jit
def place(program, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):
    """The tile of that number, as row and column of tiles: GROUP_M rows of tiles are gone through column by column, so that
    programs that run at a time share rows of A and columns of B in the L2 cache."""
    tiles_m = tl.cdiv(M, BLOCK_M)
    group = GROUP_M * tl.cdiv(N, BLOCK_N)
    first = program // group * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    return first + program % group % height, program % group // height


@triton.jit
def corner(tile_m, tile_n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Row and column of a tile's first element. Its address may lie beyond 2^31 elements; within the tile 32 bits do."""
    return (tile_m * BLOCK_M).to(tl.int64), (tile_n * BLOCK_N).to(tl.int64)


@triton.jit
def operands(tile_m, tile_n, a_ptr, b_ptr, M, N, stride_am, stride_ak, stride_bk, stride_bn, BLOCK_M: tl.constexpr,
             BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EVEN_M: tl.constexpr, EVEN_N: tl.constexpr):
    """Pointers to the first K-step of a tile's operands, and which rows of A and columns of B there are."""
    first_row, first_col = corner(tile_m, tile_n, BLOCK_M, BLOCK_N)
    row = tl.arange(0, BLOCK_M)
    col = tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    row_mask = inside(tile_m * BLOCK_M + row, M, EVEN_M)
    col_mask = inside(tile_n * BLOCK_N + col, N, EVEN_N)
    a_ptrs = a_ptr + first_row * stride_am + row[:, None] * stride_am + depth[None, :] * stride_ak
    b_ptrs = b_ptr + first_col * stride_bn + depth[:, None] * stride_bk + col[None, :] * stride_bn
    return a_ptrs, b_ptrs, row_mask, col_mask


@triton.jit
def load_step(a_ptrs, b_ptrs, row_mask, col_mask, left, BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr):
    """A K-step of both operands, with zeros where they end; `left` elements of K are not yet multiplied."""
    depth_mask = inside(tl.arange(0, BLOCK_K), left, EVEN_K)
    a = tl.load(a_ptrs, mask=row_mask[:, None] & depth_mask[None, :], other=0.0)
    b = tl.load(b_ptrs, mask=depth_mask[:, None] & col_mask[None, :], other=0.0)
    return a, b


@triton.jit
def stretch(share, shares, steps):
    """The first step of a share, and the one behind its last: of as many in each, or one more in the first ones."""
    begin = share * (steps // shares) + min(share, steps % shares)
    return begin, begin + steps // shares + (share < steps % shares)


@triton.jit
def multiply(acc, tile_m, tile_n, begin, end, a_ptr, b_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
             BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SWAP: tl.constexpr, EVEN_M: tl.constexpr,
             EVEN_N: tl.constexpr, EVEN_K: tl.constexpr):
    """Adds the products of the K-steps from `begin` to `end` to the sums of a tile of C. SWAP: as the transposed tile's,
    B^T A^T."""
    a_ptrs, b_ptrs, row_mask, col_mask = operands(tile_m, tile_n, a_ptr, b_ptr, M, N, stride_am, stride_ak, stride_bk, stride_bn,
                                                  BLOCK_M, BLOCK_N, BLOCK_K, EVEN_M, EVEN_N)
    first_depth = tl.cast(begin, tl.int64) * BLOCK_K
    a_ptrs += first_depth * stride_ak
    b_ptrs += first_depth * stride_bk
    if SWAP:
        acc = tl.trans(acc)
    for k in range(begin, end):
        a, b = load_step(a_ptrs, b_ptrs, row_mask, col_mask, K - k * BLOCK_K, BLOCK_K, EVEN_K)
        if SWAP:
            acc = tl.dot(tl.trans(b), tl.trans(a), acc)
        else:
            acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    if SWAP:
        acc = tl.trans(acc)
    return acc


@triton.jit
def finish(acc, tile_m, tile_n, row, col, c_ptr, bias_ptr, M, N, stride_cm, stride_cn, EPILOGUE: tl.constexpr, BLOCK_M: tl.constexpr,
           BLOCK_N: tl.constexpr, EVEN_M: tl.constexpr, EVEN_N: tl.constexpr):
    """Stores the rows `row` and columns `col` of a tile of C, whose sums `acc` holds."""
    first_row, first_col = corner(tile_m, tile_n, BLOCK_M, BLOCK_N)
    row_mask = inside(tile_m * BLOCK_M + row, M, EVEN_M)
    col_mask = inside(tile_n * BLOCK_N + col, N, EVEN_N)
    if bias_ptr is not None:
        acc += tl.load(bias_ptr + first_col + col, mask=col_mask, other=0.0).to(tl.float32)[None, :]
    result = EPILOGUE(acc)
    tl.static_assert(result.shape == acc.shape,
                     f"EPILOGUE {EPILOGUE} gives a tile of shape {result.shape}, expected acc's: {acc.shape}")
    c_ptrs = c_ptr + first_row * stride_cm + first_col * stride_cn + row[:, None] * stride_cm + col[None, :] * stride_cn
    tl.store(c_ptrs, result.to(c_ptr.dtype.element_ty), mask=row_mask[:, None] & col_mask[None, :])


@triton.jit
def in_order(acc, SWAP: tl.constexpr):
    """The sums of a tile, or of the transposed one with SWAP, in the order in which threads of tensor cores' products have them,
    so that they are stored as they are: in a row, blocks of 16 x 8, those of eight columns side by side, and in each block
    the four sums of a thread. Tiles of more than 128 rows, which the blocks of a cluster share, have several such rows."""
    if SWAP:
        acc = tl.trans(acc)
    ROWS: tl.constexpr = acc.shape[0]
    COLS: tl.constexpr = acc.shape[1]
    HEIGHT: tl.constexpr = min(ROWS, 128)
    blocks = tl.reshape(acc, (ROWS // HEIGHT, HEIGHT // 16, 2, 8, COLS // 8, 4, 2))
    return tl.reshape(tl.permute(blocks, (0, 4, 1, 3, 5, 2, 6)), (ROWS // HEIGHT, HEIGHT * COLS))


@triton.jit
def as_tile(sums, ROWS: tl.constexpr, SWAP: tl.constexpr):
    """The tile of so many rows, transposed with SWAP, whose sums in_order() has."""
    HEIGHT: tl.constexpr = min(ROWS, 128)
    COLS: tl.constexpr = sums.shape[1] // HEIGHT
    blocks = tl.reshape(sums, (ROWS // HEIGHT, COLS // 8, HEIGHT // 16, 8, 4, 2, 2))
    acc = tl.reshape(tl.permute(blocks, (0, 2, 5, 3, 1, 4, 6)), (ROWS, COLS))
    if SWAP:
        acc = tl.trans(acc)
    return acc


@triton.jit
def places(PART: tl.constexpr, COLS: tl.constexpr, ROWS: tl.constexpr):
    """Where the first PART of COLS sums of each row of in_order() lie."""
    return tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, PART)[None, :]


@triton.jit
def load_shares(partials, first, end, part, AHEAD: tl.constexpr, PART: tl.constexpr, COLS: tl.constexpr, ROWS: tl.constexpr):
    """A part of a tile's sums over AHEAD shares from `first` on; zeros from share `end` on."""
    share = first + tl.arange(0, AHEAD)
    there = partials + share[:, None, None] * (ROWS * COLS) + part * PART + places(PART, COLS, ROWS)[None, :, :]
    given = tl.broadcast_to((share < end)[:, None, None], there.shape)
    if COLS % PART != 0:
        given = given & (part * PART + tl.arange(0, PART) < COLS)[None, None, :]
    return tl.load(there, mask=given, other=0.0, cache_modifier=".cg")


@triton.jit
def add_shares(sums, first, partials, splits, part, AHEAD: tl.constexpr, PART: tl.constexpr, COLS: tl.constexpr, ROWS: tl.constexpr):
    """Adds a part of the sums over the shares from `first` on, in an order that is the same in every run."""
    for begin in range(first, splits, AHEAD):
        sums += tl.sum(load_shares(partials, begin, splits, part, AHEAD, PART, COLS, ROWS), axis=0)
    return sums


@triton.jit
def finish_part(sums, part, tile_m, tile_n, c_ptr, bias_ptr, M, N, stride_cm, stride_cn, EPILOGUE: tl.constexpr,
                BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, SWAP: tl.constexpr, EVEN_M: tl.constexpr, EVEN_N: tl.constexpr):
    """Stores a part of a tile: some of its columns, or rows with SWAP. The last part may reach beyond the tile."""
    OTHER: tl.constexpr = BLOCK_N if SWAP else BLOCK_M
    ALONG: tl.constexpr = BLOCK_M if SWAP else BLOCK_N
    EXTENT: tl.constexpr = sums.shape[0] * sums.shape[1] // OTHER
    acc = as_tile(sums, OTHER, SWAP)
    at = part * EXTENT + tl.arange(0, EXTENT)
    if ALONG % EXTENT == 0:
        if SWAP:
            finish(acc, tile_m, tile_n, at, tl.arange(0, BLOCK_N), c_ptr, bias_ptr, M, N, stride_cm, stride_cn, EPILOGUE, BLOCK_M, BLOCK_N,
                   EVEN_M, EVEN_N)
        else:
            finish(acc, tile_m, tile_n, tl.arange(0, BLOCK_M), at, c_ptr, bias_ptr, M, N, stride_cm, stride_cn, EPILOGUE, BLOCK_M, BLOCK_N,
                   EVEN_M, EVEN_N)
    elif SWAP:
        finish(acc, tile_m, tile_n, at, tl.arange(0, BLOCK_N), c_ptr, bias_ptr, min(M, (tile_m + 1) * BLOCK_M), N, stride_cm, stride_cn,
               EPILOGUE, BLOCK_M, BLOCK_N, False, EVEN_N)
    else:
        finish(acc, tile_m, tile_n, tl.arange(0, BLOCK_M), at, c_ptr, bias_ptr, M, min(N, (tile_n + 1) * BLOCK_N), stride_cm, stride_cn,
               EPILOGUE, BLOCK_M, BLOCK_N, EVEN_M, False)


@triton.jit
def sum_part(part, tile_m, tile_n, partials, splits, c_ptr, bias_ptr, M, N, stride_cm, stride_cn, EPILOGUE: tl.constexpr,
             BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, SWAP: tl.constexpr, AHEAD: tl.constexpr, PART: tl.constexpr,
             EVEN_M: tl.constexpr, EVEN_N: tl.constexpr):
    """Stores a part of a tile, summed over all shares."""
    ROWS: tl.constexpr = tl.cdiv(BLOCK_N if SWAP else BLOCK_M, 128)
    sums = tl.zeros((ROWS, PART), dtype=tl.float32)
    sums = add_shares(sums, 0, partials, splits, part, AHEAD, PART, BLOCK_M * BLOCK_N // ROWS, ROWS)
    finish_part(sums, part, tile_m, tile_n, c_ptr, bias_ptr, M, N, stride_cm, stride_cn, EPILOGUE, BLOCK_M, BLOCK_N, SWAP, EVEN_M, EVEN_N)


@triton.jit
def add_up(sums, splits, partials, counters):
    """Adds the sums of a share of K to those of the shares that came before, in no given order. Whether all are there now:
    then the counters are at zero again. counters: shares that came; whether the first one's sums are there; shares that
    are there."""
    there = partials + places(sums.shape[1], sums.shape[1], sums.shape[0])
    if tl.atomic_add(counters, 1, sem="relaxed") == 0:
        tl.store(there, sums)
        tl.debug_barrier()
        tl.atomic_xchg(counters + 1, 1)
    else:
        while tl.atomic_add(counters + 1, 0) == 0:
            pass
        tl.atomic_add(there, sums, sem="relaxed")
        tl.debug_barrier()
    complete = tl.atomic_add(counters + 2, 1) == splits - 1
    if complete:
        for i in tl.static_range(0, 3):
            tl.store(counters + i, 0)
    return complete


@triton.jit
def divided_product(c_ptr, a_ptr, b_ptr, bias_ptr, partials_ptr, counters_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
                    stride_cm, stride_cn, EPILOGUE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                    BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr, PARTS: tl.constexpr, AHEAD: tl.constexpr, SWAP: tl.constexpr,
                    EVEN_M: tl.constexpr, EVEN_N: tl.constexpr, EVEN_K: tl.constexpr, ATOMIC: tl.constexpr):
    """A share of one tile of C: as many programs as are launched for each tile divide K."""
    tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    splits = tl.num_programs(0) // tiles
    share = tl.program_id(0) // tiles
    program = tl.program_id(0) % tiles
    counters = counters_ptr + 4 * program
    if not ATOMIC:
        tl.atomic_add(counters, 65536, sem="relaxed")
    tile_m, tile_n = place(program, M, N, BLOCK_M, BLOCK_N, GROUP_M)
    begin, end = stretch(share, splits, tl.cdiv(K, BLOCK_K))
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    acc = multiply(acc, tile_m, tile_n, begin, end, a_ptr, b_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
                   BLOCK_M, BLOCK_N, BLOCK_K, SWAP, EVEN_M, EVEN_N, EVEN_K)

    TILE: tl.constexpr = BLOCK_M * BLOCK_N
    # Parts of so many groups of eight columns, or rows with SWAP, none of which is empty.
    GROUPS: tl.constexpr = (BLOCK_M if SWAP else BLOCK_N) // 8
    GROUPS_OF_PART: tl.constexpr = tl.cdiv(GROUPS, PARTS)
    COUNT: tl.constexpr = tl.cdiv(GROUPS, GROUPS_OF_PART)
    ROWS: tl.constexpr = tl.cdiv(BLOCK_N if SWAP else BLOCK_M, 128)
    COLS: tl.constexpr = TILE // ROWS
    PART: tl.constexpr = 8 * GROUPS_OF_PART * ((BLOCK_N if SWAP else BLOCK_M) // ROWS)
    if ATOMIC:
        partials = partials_ptr + program.to(tl.int64) * TILE
        if add_up(in_order(acc, SWAP), splits, partials, counters):
            for part in range(0, COUNT):
                sum_part(part, tile_m, tile_n, partials, 1, c_ptr, bias_ptr, M, N, stride_cm, stride_cn, EPILOGUE, BLOCK_M, BLOCK_N, SWAP, 1,
                         PART, EVEN_M, EVEN_N)
    else:
        partials = partials_ptr + (program * splits).to(tl.int64) * TILE
        tl.store(partials + share * TILE + places(COLS, COLS, ROWS), in_order(acc, SWAP))
        alone = wait_for_shares(share, splits, counters, COUNT)
        # This program's parts; the sums of the first one are under way while it leaves.
        waited = (share < COUNT) & (not alone)
        shares = load_shares(partials, 0, splits if waited else 0, share, AHEAD, PART, COLS, ROWS)
        undone = leave(alone, splits, counters)
        if waited:
            sums = add_shares(tl.sum(shares, axis=0) + 0.0, AHEAD, partials, splits, share, AHEAD, PART, COLS, ROWS)
            finish_part(sums, share, tile_m, tile_n, c_ptr, bias_ptr, M, N, stride_cm, stride_cn, EPILOGUE, BLOCK_M, BLOCK_N, SWAP,
                        EVEN_M, EVEN_N)
            for part in range(share + splits, COUNT, splits):
                sum_part(part, tile_m, tile_n, partials, splits, c_ptr, bias_ptr, M, N, stride_cm, stride_cn, EPILOGUE, BLOCK_M, BLOCK_N,
                         SWAP, AHEAD, PART, EVEN_M, EVEN_N)
        # What others left undone.
        for part in range(0, COUNT if undone != 0 else 0):
            if (undone >> part) % 2 != 0:
                sum_part(part, tile_m, tile_n, partials, splits, c_ptr, bias_ptr, M, N, stride_cm, stride_cn, EPILOGUE, BLOCK_M, BLOCK_N,
                         SWAP, AHEAD, PART, EVEN_M, EVEN_N)


@triton.jit
def product(program, c_ptr, a_ptr, b_ptr, bias_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
            EPILOGUE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
            SWAP: tl.constexpr, EVEN_M: tl.constexpr, EVEN_N: tl.constexpr, EVEN_K: tl.constexpr):
    """One tile of C."""
    tile_m, tile_n = place(program, M, N, BLOCK_M, BLOCK_N, GROUP_M)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    acc = multiply(acc, tile_m, tile_n, 0, tl.cdiv(K, BLOCK_K), a_ptr, b_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
                   BLOCK_M, BLOCK_N, BLOCK_K, SWAP, EVEN_M, EVEN_N, EVEN_K)
    finish(acc, tile_m, tile_n, tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), c_ptr, bias_ptr, M, N, stride_cm, stride_cn, EPILOGUE,
           BLOCK_M, BLOCK_N, EVEN_M, EVEN_N)


@triton.jit
def shared_product(c_ptr, a_ptr, b_ptr, bias_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                   EPILOGUE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
                   SHARES: tl.constexpr, SWAP: tl.constexpr, EVEN_M: tl.constexpr, EVEN_N: tl.constexpr):
    """One tile of C, of SHARES products that each take as many K-steps. (Bulk copies take a share's first column from the
    mask.)"""
    tile_m, tile_n = place(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    first_row, first_col = corner(tile_m, tile_n, BLOCK_M, BLOCK_N)
    row = tl.arange(0, BLOCK_M)
    col = tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    row_mask = inside(tile_m * BLOCK_M + row, M, EVEN_M)
    col_mask = inside(tile_n * BLOCK_N + col, N, EVEN_N)
    steps = tl.cdiv(K, BLOCK_K * SHARES)
    begin = tl.arange(0, SHARES) * (steps * BLOCK_K)

    first_depth = begin.to(tl.int64)[:, None, None]
    a_ptrs = a_ptr + first_row * stride_am + first_depth * stride_ak + row[None, :, None] * stride_am + depth[None, None, :] * stride_ak
    b_ptrs = b_ptr + first_col * stride_bn + first_depth * stride_bk + depth[None, :, None] * stride_bk + col[None, None, :] * stride_bn
    acc = tl.zeros((SHARES, BLOCK_N, BLOCK_M) if SWAP else (SHARES, BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, steps):
        depth_mask = begin[:, None] + k * BLOCK_K + depth[None, :] < K
        a = tl.load(a_ptrs, mask=row_mask[None, :, None] & depth_mask[:, None, :], other=0.0)
        b = tl.load(b_ptrs, mask=depth_mask[:, :, None] & col_mask[None, None, :], other=0.0)
        if SWAP:
            acc = tl.dot(tl.permute(b, (0, 2, 1)), tl.permute(a, (0, 2, 1)), acc)
        else:
            acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    total = tl.sum(acc, axis=0)
    if SWAP:
        total = tl.trans(total)
    finish(total, tile_m, tile_n, row, col, c_ptr, bias_ptr, M, N, stride_cm, stride_cn, EPILOGUE, BLOCK_M, BLOCK_N, EVEN_M, EVEN_N)


@triton.jit
def streamed_product(c_ptr, a_ptr, b_ptr, bias_ptr, partials_ptr, counters_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
                     stride_cm, stride_cn, EPILOGUE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                     BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr, SWAP: tl.constexpr, EVEN_M: tl.constexpr,
                     EVEN_N: tl.constexpr, EVEN_K: tl.constexpr):
    """An equal share of the K-steps of all tiles, of which there is one at least for each program. Whole tiles are dealt
    out in rounds, until there are less than two left for each program. Of these the programs have one stretch each: it
    ends within a tile as a rule, and the next program's begins there. The sums of such a beginning are left first of all,
    and what goes on from them comes last; so nobody waits for long, and none but the program before is waited for."""
    program = tl.program_id(0)
    programs = tl.num_programs(0)
    tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    steps = tl.cdiv(K, BLOCK_K)
    rounds = max(tiles // programs - 1, 0)
    dealt = rounds * programs
    first, last = stretch(program, programs, (tiles - dealt) * steps)
    top = (last - 1) // steps
    row = tl.arange(0, BLOCK_M)
    col = tl.arange(0, BLOCK_N)
    sums = partials_ptr + program.to(tl.int64) * (BLOCK_M * BLOCK_N) + row[:, None] * BLOCK_N + col[None, :]
    for turn in range(0, rounds + top - first // steps + 1):
        whole = (turn > 0) & (turn <= rounds)
        tile = top if turn == 0 else top + rounds - turn
        begin = 0 if whole else max(first - tile * steps, 0)
        end = steps if whole else min(last - tile * steps, steps)
        tile_m, tile_n = place((turn - 1) * programs + program if whole else dealt + tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        if begin > 0:
            while tl.atomic_add(counters_ptr + program - 1, 0) == 0:
                pass
            tl.store(counters_ptr + program - 1, 0)
        # No branch here: an assembler that sees sums come together from two branches has products wait for each other.
        begun = tl.full(sums.shape, begin > 0, tl.int1)
        acc = tl.load(sums - BLOCK_M * BLOCK_N, mask=begun, other=0.0, cache_modifier=".cg")
        acc = multiply(acc, tile_m, tile_n, begin, end, a_ptr, b_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
                       BLOCK_M, BLOCK_N, BLOCK_K, SWAP, EVEN_M, EVEN_N, EVEN_K)
        if end < steps:
            tl.store(sums, acc)
            tl.debug_barrier()
            tl.atomic_xchg(counters_ptr + program, 1)
        else:
            finish(acc, tile_m, tile_n, row, col, c_ptr, bias_ptr, M, N, stride_cm, stride_cn, EPILOGUE, BLOCK_M, BLOCK_N, EVEN_M,
                   EVEN_N)


@triton.autotune(configs=configs(), key=["m_class", "N", "K"], warmup=2, rep=10,
                 prune_configs_by={"early_config_prune": fitting, "top_k": 6, "within": 1.06})
@triton.heuristics({
    "EVEN_M": even("M", "BLOCK_M"),
    "EVEN_N": even("N", "BLOCK_N"),
    "EVEN_K": even("K", "BLOCK_K"),
    "program_loop": once(),
})
@triton.jit
def gemm(c_ptr, a_ptr, b_ptr, bias_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn, m_class,
         partials_ptr, counters_ptr, EPILOGUE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
         GROUP_M: tl.constexpr, PROGRAMS: tl.constexpr, PARTS: tl.constexpr, SWAP: tl.constexpr, EVEN_M: tl.constexpr,
         EVEN_N: tl.constexpr, EVEN_K: tl.constexpr, STREAM: tl.constexpr = False, ATOMIC: tl.constexpr = False,
         SHARES: tl.constexpr = 1, TURNS: tl.constexpr = False):
    """PARTS above 0: every tile of C is divided among as many programs as make about PROGRAMS for each multiprocessor, which load the
    sums of SHARES of them at a time; ATOMIC: whose sums are added up as they come, so that results differ in the last bits from run to run. STREAM: PROGRAMS
    programs for each multiprocessor share all K-steps evenly. SHARES above 1 otherwise: a program a tile of C, whose blocks share K.
    Otherwise a program a tile of C if PROGRAMS is 0, else PROGRAMS programs for each multiprocessor, and each goes on from
    tile to tile: the next one's operands are on their way while the epilogue of the one before runs; TURNS: two groups of warps
    take the tiles in turns."""
    if PARTS > 0:
        divided_product(c_ptr, a_ptr, b_ptr, bias_ptr, partials_ptr, counters_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
                        stride_cm, stride_cn, EPILOGUE, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, PARTS, SHARES, SWAP, EVEN_M, EVEN_N, EVEN_K, ATOMIC)
    elif STREAM:
        streamed_product(c_ptr, a_ptr, b_ptr, bias_ptr, partials_ptr, counters_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
                         stride_cm, stride_cn, EPILOGUE, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, SWAP, EVEN_M, EVEN_N, EVEN_K)
    elif SHARES > 1:
        shared_product(c_ptr, a_ptr, b_ptr, bias_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn, EPILOGUE,
                       BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, SHARES, SWAP, EVEN_M, EVEN_N)
    elif PROGRAMS == 0:
        product(tl.program_id(0), c_ptr, a_ptr, b_ptr, bias_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                EPILOGUE, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, SWAP, EVEN_M, EVEN_N, EVEN_K)
    else:
        for program in tl.range(tl.program_id(0), tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N), tl.num_programs(0),
                                warp_specialize=True if TURNS else None):
            product(program, c_ptr, a_ptr, b_ptr, bias_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                    EPILOGUE, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, SWAP, EVEN_M, EVEN_N, EVEN_K)
