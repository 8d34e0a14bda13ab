"""C = epilogue(A W^T + bias) for weights W of 8 or 4 bits with scales, which become numbers of A's type on the way to the tensor
cores: W is never there in 16 bits (very many rows of A take another way, by spread_weights.py).

A is M x K, float16 or bfloat16; W is N x K, as the weights of linear layers are, of int8 or float8, or two numbers of 4 bits in a
uint8, the first one in the low half: PACKED = int4, -8 to 7; uint4, 0 to 15; e2m1, a sign and one of 0, 0.5, 1, 1.5, 2, 3, 4, 6.
W[n, k] stands for (w - zeros[n, g]) * scales[n, g], g = k // GROUP, or g = 0 for GROUP = 0; `zeros` may be None. Scales of uint8
are exponents of 2 plus 127. The products of a group are summed up and then scaled, in fp32: weights are not rounded (where the warps
divide the tile, zeros are, to A's type, in which integers up to 128 are exact). Groups of 32 and 64 whose scales are of A's type
(SCALED) are too short for that: their weights are scaled on the way, and are then what weights of 16 bits would be; so are those of any
groups for more than 64 rows of A, whose sums take the registers that a group's would.

The transposed product W A^T is computed, whose instructions take 8 rows of A and more, and W from registers: where warpgroups multiply, and the
sums of groups are not scaled, W comes to shared memory as it is, and each thread reads and converts the two elements at a time that it multiplies
(BYTES). For up to 64 rows a thread may take its part of W from memory in pieces of 16 bytes and have the tensor cores' operand in its
registers: K is counted in the order that makes it so. Then the warps divide the K-steps into SHARES (0: they divide the tile), and add up their
sums at the end. Zeros are taken from the sums there, as that many sums of A: rows of A that are not finite give NaN. One row of A may be multiplied
without tensor cores (BLOCK_M = 1 without SHARES): a thread has a piece of 16 bytes of each of BLOCK_N rows of W, and no thread waits for another
before the sums are complete. Where tiles are few, several programs share the K-steps of a tile. The last one that is done adds up their sums; where they are
many (TOGETHER), they hand them over to each other as those of gemm.py do, and add up a part of its rows each. It is done in order, so that
results are the same in every run.
"""

import triton
import triton.language as tl

from gemm import add_shares, as_tile, in_order, load_shares, places
from shares import leave, wait_for_shares
from gemm_tiles import PROCESSORS, clusters_at_once, height_of, row_class
from quantised_weights import column_ptrs, has_fractions, load_factors, load_numbers, load_weights, plain_weights, scaled_weights, unit
from tiles import activate


# ---- Configurations.


@triton.constexpr_function
def slices(rows):
    """Into how many slices of K a product of so many rows of A is divided: tensor cores multiply eight rows."""
    return max(1, 8 // rows)


def tile(m, n, k, warps, stages, programs, shares=0, maxnreg=None, blocks=1):
    how = {"BLOCK_M": m, "BLOCK_N": n, "STEP": k, "PROGRAMS": programs, "STAGES": stages, "SHARES": shares}
    return triton.Config(how, num_warps=warps, num_stages=stages, maxnreg=maxnreg, num_ctas=blocks)


def configs():
    found = []
    for n, k, warps, stages in [(8, 2048, 2, 3), (8, 2048, 2, 2), (4, 1024, 1, 3), (4, 2048, 2, 2), (8, 1024, 1, 3), (8, 512, 1, 1),
                                (2, 1024, 2, 1), (2, 2048, 4, 1), (8, 2048, 4, 1), (4, 512, 1, 1), (4, 1024, 2, 1), (1, 64, 1, 1)]:
        found.append(tile(1, n, k, warps, stages, 4))
    for m, n, shares, stages, maxnreg in SHARED_SLICES:
        found.append(tile(m, n, 128 * shares * slices(m), shares, stages, 0, shares, maxnreg))
    for m in [8, 16]:
        for n, shares, products, stages, programs, maxnreg in SHARED:
            found.append(tile(m, n, 128 * products * shares, shares, stages, programs, shares, maxnreg))
        for n in [16, 32]:
            found.append(tile(m, n, 128, 1, 1, 16, 1))
    for m in [32, 64]:
        for n, shares, products, stages, programs in SHARED_BY_MORE_ROWS:
            found.append(tile(m, n, 128 * products * shares, shares, stages, programs, shares))
    for m in [16, 32, 48, 64]:
        for n, k, warps, programs in [(64, 128, 4, 4), (64, 128, 4, 2), (64, 256, 4, 2), (128, 128, 4, 2), (128, 128, 8, 2), (64, 64, 4, 4),
                                      (32, 128, 2, 8), (16, 128, 1, 16), (128, 256, 8, 1)]:
            for stages in [4, 3, 6]:
                found.append(tile(m, n, k, warps, stages, programs))
        found.append(tile(m, 128, 128, 8, 3, 1))
        found.append(tile(m, 128, 256, 8, 8, 1))
    found.append(tile(16, 16, 64, 1, 3, 2))
    return found


# Rows of A, of W, warps that divide K, stages, registers: of fewer than eight rows of A.
SHARED_SLICES = [(1, 4, 1, 2, 128), (1, 4, 2, 2, None), (1, 4, 2, 3, None), (1, 4, 4, 2, 128), (1, 8, 1, 2, None), (1, 8, 2, 2, 128),
                 (2, 8, 4, 2, 128), (2, 8, 2, 2, None), (2, 8, 4, 3, None), (2, 16, 2, 2, None), (2, 16, 4, 2, None), (4, 16, 4, 2, 128), (4, 16, 2, 2, None),
                 (4, 8, 4, 3, None), (4, 16, 8, 2, None)]
# Rows of W, warps that divide K, products of each that follow each other, stages, programs, registers.
SHARED = [(16, 8, 2, 1, 0, None), (16, 4, 4, 1, 0, None), (16, 4, 7, 1, 0, None), (16, 8, 1, 2, 0, 96), (32, 4, 1, 2, 0, 128),
          (32, 4, 2, 1, 0, None), (32, 4, 2, 2, 0, None), (32, 4, 4, 1, 0, None), (32, 8, 1, 1, 0, None), (32, 8, 1, 2, 0, None),
          (32, 8, 2, 1, 0, None), (32, 8, 2, 2, 0, None), (32, 16, 1, 1, 0, None), (32, 16, 1, 2, 0, 128), (64, 4, 1, 2, 0, None),
          (16, 8, 2, 2, 0, 128), (16, 8, 2, 2, 0, 96), (16, 4, 2, 2, 0, 128), (32, 8, 1, 3, 0, None),
          (16, 8, 2, 1, 4, None), (16, 4, 2, 1, 8, None), (32, 4, 1, 2, 4, 128), (32, 8, 1, 2, 4, None), (32, 4, 1, 3, 4, None),
          (64, 1, 1, 2, 8, None)]
# Likewise for 17 to 64 rows of A.
SHARED_BY_MORE_ROWS = [(16, 4, 1, 1, 0), (16, 8, 1, 1, 0), (32, 4, 1, 1, 0), (32, 8, 1, 1, 0), (32, 8, 1, 2, 0), (64, 4, 1, 1, 0), (64, 8, 1, 1, 0),
                       (32, 4, 2, 1, 0), (32, 4, 1, 1, 4), (64, 4, 1, 1, 4)]


# With weights that come to shared memory as they are: rows of W, K-step, warps, programs, blocks of a cluster, each of which has some of W's rows.
IN_BYTES = [(64, 64, 4, 0, 1), (64, 128, 4, 0, 1), (64, 64, 4, 1, 1), (64, 128, 4, 1, 1), (128, 64, 8, 0, 1), (128, 128, 8, 0, 1),
             (128, 64, 8, 1, 1), (128, 128, 8, 1, 1), (128, 64, 4, 0, 1), (256, 64, 8, 0, 1), (128, 64, 4, 0, 2), (128, 64, 4, 1, 2),
             (128, 128, 4, 1, 2), (256, 64, 8, 0, 2), (256, 128, 8, 0, 2), (256, 64, 8, 1, 2), (512, 64, 8, 0, 4)]
ROOM = 230000  # in shared memory, for operands and results
MOST_SUMS = 5120  # of a warp
LEFT_SUMS = 32768  # for which each program that shares a tile has room in memory
MOST = 12  # of these are timed


def stages_of(m, n, k, programs, blocks):
    """Of the stages that there is room for one is of the product under way."""
    results = 2 * m * n if programs == 0 and blocks == 1 else 0
    return min(6, (ROOM - results) // (k * (2 * m + n // blocks)) - 1)


def expected(m, n, k, warps, programs, blocks, M, N, K, packed):
    """Cycles of such a product, about, as fitted to measurements on an H200: in a K-step those of the tensor cores and those in which warps convert
    weights, of which most are at the same time. Very many where no programs share a tile that could."""
    wide = n // blocks
    tiles = triton.cdiv(M, m) * triton.cdiv(N, n)
    at_once = clusters_at_once(blocks)
    splits = max(1, min(at_once // tiles, K // 128)) if programs > 0 else 1
    if splits == 1 and programs > 0:
        return 1e15
    multiply = m * wide * 0.034
    convert = (5 if packed else 3.2) * wide * (1 if warps == 4 else 0.87) * (0.9 if k > 64 else 1)
    step = max(multiply, convert) + 0.3 * min(multiply, convert)
    ends = 11000 + (2000 + 0.4 * m * wide + 150 * splits if splits > 1 else 0)
    return triton.cdiv(tiles * splits, at_once) * (triton.cdiv(K, 64 * splits) * step + 5000) + ends - 5000


def heights(M, k):
    """Rows of A of tiles that divide M rows evenly; up to 64 rows all of a class. Multiples of 16 and 32 take fewer registers than others of 8."""
    if M <= 64:
        return [height_of(row_class(M), 8, k)]
    found = []
    for parts in range(triton.cdiv(M, 320), triton.cdiv(M, 72) + 1):
        rows = max(72, triton.cdiv(M, parts))
        for step in [8, 16, 32]:
            height = height_of(rows, step, k)
            if height not in found and 4 * height < 5 * rows + 16 and (height <= 256 or (height % 16 == 0 and height <= 320)):
                found.append(height)
    return found


def least(found, count):
    """Of pairs of a time and a configuration so many of the least times."""
    most = max(sorted([time for time, config in found])[:count])
    return [one for one in found if one[0] <= most]


def in_bytes(named_args):
    """Tiles whose weights come to shared memory as they are, of as many rows of A as suit the matrix: those that are expected to take the least
    time."""
    packed = named_args["b_ptr"].dtype == tl.uint8
    M = named_args["M"]
    N = named_args["N"]
    K = named_args["K"]
    scaled = have_scales_of_a(named_args)
    found = []
    for n, k, warps, programs, blocks in IN_BYTES:
        if n > triton.next_power_of_2(N) or k > K:
            continue
        of_width = []
        for m in heights(M, k):
            stages = stages_of(m, n, k, programs, blocks)
            sums = m * n // blocks
            if stages < 2 or sums > MOST_SUMS * warps or (programs > 0 and sums > LEFT_SUMS):
                continue
            if scaled or (blocks == 1 and sums <= 4096 * warps):  # registers for a group's sums, too
                time = expected(m, n, k, warps, programs, blocks, M, N, K, packed)
                of_width.append((time, tile(m, n, k, warps, stages, programs, blocks=blocks)))
        if len(of_width) > 0:
            found += least(of_width, 3)
    return [config for time, config in least(found, MOST)] if len(found) > 0 else []


def fills(config, named_args):
    """Whether no block is twice as large as the weights, no warp's share of K is empty, and several programs share a tile where that
    is what the configuration is for."""
    n = config.kwargs["BLOCK_N"]
    programs = config.kwargs["PROGRAMS"]
    if n >= 2 * max(16, named_args["N"]) or (config.kwargs["SHARES"] > 1 and config.kwargs["STEP"] > 2 * named_args["K"]):
        return False
    return programs == 0 or 2 * triton.cdiv(named_args["N"], n) <= programs * PROCESSORS


def whole(configs, named_args):
    """Those whose steps divide K, if they are most: loads without masks take fewer instructions."""
    kept = [c for c in configs if named_args["K"] % c.kwargs["STEP"] == 0]
    return kept if 2 * len(kept) > len(configs) else configs


def fitting(configs, named_args, **kwargs):
    """Tiles that hold all rows of A, or of many rows those that are expected to take the least time; of one row and small groups those
    without tensor cores."""
    m = named_args["M"]
    few = []
    if m == 1 and named_args["GROUP"] in [32, 64]:
        # A thread's piece of W lies in one group.
        rows = [c for c in configs if c.kwargs["BLOCK_M"] == 1 and c.kwargs["SHARES"] == 0]
        few = [c for c in rows if c.kwargs["STEP"] < 2 * named_args["K"]]
        if len(few) == 0:
            few = rows[-1:]
    elif m <= 64:
        rows = [1, 2, 4, 8] if m == 1 else [2, 8] if m == 2 else [4, 8] if m <= 4 else [8] if m <= 8 else [16] if m <= 16 else [32] if m <= 32 else [64]
        shares = [c for c in configs if c.kwargs["BLOCK_M"] in rows and c.kwargs["SHARES"] > 0]
        few = whole([c for c in shares if fills(c, named_args)], named_args)
    if len(few) > 0 and m <= 16:
        return few
    kept = few
    by_bytes = m > 64 or (m > 16 and have_scales_of_a(named_args) and named_args["GROUP"] in [0, 32, 64])
    if by_bytes:
        kept = kept + in_bytes(named_args)
    rows = row_class(m)
    for config in configs:
        m = config.kwargs["BLOCK_M"]
        if config.kwargs["SHARES"] > 0 or config.kwargs["BLOCK_N"] > triton.next_power_of_2(named_args["N"]) or config.kwargs["STEP"] > named_args["K"]:
            continue
        if m == rows and not (by_bytes and config.num_warps >= 4):
            kept.append(config)
    return kept if len(kept) > 0 else configs[-1:]


# ---- The product.


@triton.jit
def rows_within(row, count, REPEAT: tl.constexpr):
    """Rows, and which of them are there. With REPEAT rows behind the last one are the last one again, whose products go nowhere:
    loads without masks take fewer instructions, where rows need not follow each other as bulk copies have them."""
    if REPEAT:
        return tl.minimum(row, count - 1), tl.full(row.shape, True, tl.int1)
    else:
        return row, row < count


@triton.jit
def in_fragments(x, FOUR_BITS: tl.constexpr):
    """Columns of x in an order in which each piece of 16 bytes of a row of weights is what a thread holds of a tensor core's operand:
    the K-steps' order does not matter as long as both operands have it."""
    R: tl.constexpr = x.shape[0]
    K: tl.constexpr = x.shape[1]
    if FOUR_BITS:
        WORDS: tl.constexpr = min(4, K // 32)
        return tl.reshape(tl.permute(tl.reshape(x, [R, K // (32 * WORDS), 4, WORDS, 2, 4]), [0, 1, 3, 5, 2, 4]), [R, K])
    else:
        PAIRS: tl.constexpr = min(8, K // 8)
        return tl.reshape(tl.permute(tl.reshape(x, [R, K // (8 * PAIRS), 4, PAIRS, 2]), [0, 1, 3, 2, 4]), [R, K])


@triton.jit
def multiply(acc, begin, end, row, first_col, a_ptr, b_ptr, scales_ptr, zeros_ptr, M, N, K, a_stride, b_stride, scales_stride, zeros_stride,
             PACKED: tl.constexpr, GROUP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
             STAGES: tl.constexpr, EVEN_K: tl.constexpr, SCALED: tl.constexpr, BYTES: tl.constexpr):
    """Adds the products of the K-steps from `begin` to `end` to the sums of a tile, BLOCK_N rows of W x BLOCK_M rows of A."""
    TYPE: tl.constexpr = a_ptr.dtype.element_ty
    FRACTIONS: tl.constexpr = has_fractions(zeros_ptr)
    row, row_there = rows_within(row, N, False)
    col, col_there = rows_within(first_col + tl.arange(0, BLOCK_M), M, False)
    depth = tl.arange(0, BLOCK_K)
    row_mask = row_there[:, None]
    col_mask = col_there[:, None]
    a_ptrs = a_ptr + col[:, None].to(tl.int64) * a_stride + depth[None, :] + tl.cast(begin, tl.int64) * BLOCK_K
    b_row = b_ptr + row[:, None].to(tl.int64) * b_stride
    zero = tl.zeros([BLOCK_N, 1], tl.float32)
    if zeros_ptr is not None and GROUP == 0:
        zero = load_numbers(column_ptrs(zeros_ptr, row, 0, zeros_stride), row_there)[:, None].to(tl.float32)
    scales_row = column_ptrs(scales_ptr, row, 0, scales_stride)[:, None]
    zeros_row = zeros_ptr
    if zeros_ptr is not None:
        zeros_row = column_ptrs(zeros_ptr, row, 0, zeros_stride)[:, None]
    for step in tl.range(begin, end, num_stages=STAGES):
        a = tl.load(a_ptrs, mask=col_mask if EVEN_K else col_mask & (depth < K - step * BLOCK_K)[None, :], other=0.0)
        if SCALED:
            first = step * BLOCK_K
            b = scaled_weights(b_row, scales_row, zeros_row, first, K - first, row_mask, PACKED, TYPE, GROUP, BLOCK_K, EVEN_K, BYTES)
            acc = tl.dot(b, tl.trans(a), acc)
        elif GROUP > 0:
            scale = load_factors(column_ptrs(scales_ptr, row, step, scales_stride), row_there)
            if zeros_ptr is not None:
                zero = load_numbers(column_ptrs(zeros_ptr, row, step, zeros_stride), row_there)[:, None].to(tl.float32)
            b = load_weights(b_row, step * BLOCK_K, K, row_mask, zero, PACKED, TYPE, BLOCK_K, EVEN_K, FRACTIONS)
            acc += tl.dot(b, tl.trans(a)) * scale[:, None]
        else:
            b = load_weights(b_row, step * BLOCK_K, K, row_mask, zero, PACKED, TYPE, BLOCK_K, EVEN_K, FRACTIONS, BYTES, zeros_ptr is not None)
            acc = tl.dot(b, tl.trans(a), acc)
        a_ptrs += BLOCK_K
    if GROUP == 0:
        acc *= load_factors(column_ptrs(scales_ptr, row, 0, scales_stride), row_there)[:, None]
    return acc


@triton.jit
def multiply_shares(begin, end, row, first_col, a_ptr, b_ptr, scales_ptr, zeros_ptr, M, N, K, a_stride, b_stride, scales_stride, zeros_stride,
                    PACKED: tl.constexpr, GROUP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                    STEP: tl.constexpr, SHARES: tl.constexpr, STAGES: tl.constexpr, EVEN_K: tl.constexpr, EVEN_BLOCKS: tl.constexpr,
                    SCALED: tl.constexpr):
    """The same with STEP / BLOCK_K products at a time, a batch whose sums are added up at the end: every SHARES of them are of as many
    warps, each of which has its operands in its registers as they come from memory, and PER products that follow each other along K.

    Of fewer than eight rows of A each product is of SLICES slices of K: slice i of a row of W is a row of one operand, slice j of a row of A
    a column of the other, and the sums are those of i = j. So no two threads of a warp load the same elements, and a warp's loads of W lie
    side by side.

    sum((w - zero) a) = sum(w a) - zero sum(a): zeros are no matter of the weights. Sums of A are products, too, of a
    matrix of ones, once for all rows of W.

    EVEN_BLOCKS: no product has columns behind K and before: a load of 16 bytes is there or is not, and takes one instruction."""
    TYPE: tl.constexpr = a_ptr.dtype.element_ty
    ELEMENT: tl.constexpr = b_ptr.dtype.element_ty
    FOUR_BITS: tl.constexpr = ELEMENT == tl.uint8
    UNIT: tl.constexpr = 1.0 if SCALED else unit(ELEMENT, PACKED, TYPE)
    SLICES: tl.constexpr = slices(BLOCK_M)
    COLS: tl.constexpr = BLOCK_M * SLICES
    BATCH: tl.constexpr = STEP // (BLOCK_K * SLICES)
    PER: tl.constexpr = BATCH // SHARES
    TALL: tl.constexpr = BLOCK_N * SLICES
    ROWS: tl.constexpr = BATCH * TALL
    LESS: tl.constexpr = not SCALED and zeros_ptr is not None
    BY_GROUP: tl.constexpr = GROUP > 0 and not SCALED
    row, row_there = rows_within(row, N, True)
    col, col_there = rows_within(first_col + tl.arange(0, BLOCK_M), M, True)
    number = tl.arange(0, BATCH)
    depth = tl.arange(0, BLOCK_K)
    part = (number % SHARES * PER + number // SHARES)[:, None] * SLICES + tl.arange(0, SLICES)[None, :]
    first = part * BLOCK_K  # BATCH x SLICES
    a_ptrs = a_ptr + col.to(tl.int64)[None, :, None, None] * a_stride + first[:, None, :, None] + depth + tl.cast(begin, tl.int64) * STEP
    a_ptrs = tl.reshape(a_ptrs, [BATCH, COLS, BLOCK_K])
    b_row = b_ptr + row.to(tl.int64)[None, :, None] * b_stride + (first // 2 if FOUR_BITS else first)[:, None, :]
    b_row = tl.reshape(b_row, [ROWS, 1])
    left = tl.reshape(tl.broadcast_to(K - first[:, None, :], [BATCH, BLOCK_N, SLICES]), [ROWS, 1])
    a_left = tl.reshape(tl.broadcast_to(K - first[:, None, :], [BATCH, BLOCK_M, SLICES]), [BATCH, COLS, 1])
    of_share = tl.reshape(tl.broadcast_to((PER * SLICES * tl.arange(0, SHARES))[:, None, None] + tl.arange(0, SLICES), [SHARES, BLOCK_N, SLICES]),
                          [1, SHARES, TALL])  # the first group along K
    then = (SLICES * tl.arange(0, PER))[:, None, None]
    tall_row = tl.reshape(tl.broadcast_to(row[:, None], [BLOCK_N, SLICES]), [TALL])
    scale = tl.zeros([BATCH, TALL], tl.float32)
    less = tl.zeros([BATCH, TALL], tl.float32)
    ones = tl.full([BATCH, 16, BLOCK_K], UNIT, TYPE)
    acc = tl.zeros([BATCH, TALL, COLS], tl.float32)
    sums = tl.zeros([BATCH, 16, COLS], tl.float32)
    # Scales of a share begin where its first columns do.
    first_group = tl.reshape(tl.broadcast_to((first // GROUP if SCALED else first)[:, None, :], [BATCH, BLOCK_N, SLICES]), [ROWS])
    each_row = tl.reshape(tl.broadcast_to(tall_row[None, :], [BATCH, TALL]), [ROWS])
    scales_row = column_ptrs(scales_ptr, each_row, first_group, scales_stride)[:, None]
    zeros_row = zeros_ptr
    if zeros_ptr is not None:
        zeros_row = column_ptrs(zeros_ptr, each_row, first_group, zeros_stride)[:, None]
    for step in tl.range(begin, end, num_stages=STAGES):
        there = tl.full([ROWS, 1], True, tl.int1) if EVEN_K else left > step * STEP
        if SCALED:
            b = scaled_weights(b_row, scales_row, zeros_row, step * STEP, left - step * STEP, there, PACKED, TYPE, GROUP, BLOCK_K, EVEN_BLOCKS)
        else:
            b = plain_weights(b_row, step * STEP, left - step * STEP, there, PACKED, TYPE, BLOCK_K, EVEN_BLOCKS)
        if BY_GROUP:
            group = step * (BATCH * SLICES) + of_share
            known = tl.full([PER, SHARES, TALL], True, tl.int1) if EVEN_K else tl.broadcast_to((group + then) * GROUP < K, [PER, SHARES, TALL])
            scale = tl.reshape(load_factors(column_ptrs(scales_ptr, tall_row[None, None, :], group, scales_stride, then), known), [BATCH, TALL])
            if zeros_ptr is not None:
                zero = load_numbers(column_ptrs(zeros_ptr, tall_row[None, None, :], group, zeros_stride, then), known).to(tl.float32)
                less = tl.reshape(zero, [BATCH, TALL])
        if EVEN_K:
            a = tl.load(a_ptrs)
        elif EVEN_BLOCKS:
            a = tl.load(a_ptrs, mask=a_left > step * STEP, other=0.0)
        else:
            a = tl.load(a_ptrs, mask=depth < a_left - step * STEP, other=0.0)
        b = tl.reshape(in_fragments(b, FOUR_BITS), [BATCH, TALL, BLOCK_K])
        a = tl.reshape(in_fragments(tl.reshape(a, [BATCH * COLS, BLOCK_K]), FOUR_BITS), [BATCH, COLS, BLOCK_K])
        a = tl.trans(a, (0, 2, 1))
        if BY_GROUP:
            products = tl.dot(b, a)
            if LESS:
                products -= less[:, :, None] * for_all_rows(tl.dot(ones, a), TALL)
            acc += products * scale[:, :, None]
        else:
            acc = tl.dot(b, a, acc)
            if LESS:
                sums = tl.dot(ones, a, sums)
        a_ptrs += STEP
    if GROUP == 0 and LESS:
        zero = load_numbers(column_ptrs(zeros_ptr, tall_row, 0, zeros_stride), True).to(tl.float32)
        less = tl.broadcast_to(zero[None, :], [BATCH, TALL])
        acc -= less[:, :, None] * for_all_rows(sums, TALL)
    if SLICES > 1:
        same = tl.arange(0, SLICES)[:, None] == tl.arange(0, SLICES)[None, :]
        acc = tl.reshape(acc, [BATCH, BLOCK_N, SLICES, BLOCK_M, SLICES])
        acc = tl.sum(tl.sum(tl.where(same[None, None, :, None, :], acc, 0.0), axis=4), axis=2)
    acc = tl.sum(tl.sum(tl.reshape(acc, [PER, SHARES, BLOCK_N, BLOCK_M]), axis=0), axis=0)
    if GROUP == 0:
        acc *= load_factors(column_ptrs(scales_ptr, row, 0, scales_stride), row_there)[:, None]
    return acc * (1 / UNIT)


@triton.jit
def for_all_rows(x, ROWS: tl.constexpr):
    """The first row of each matrix, which all of its 16 rows are, ROWS times, a multiple of 16."""
    BATCH: tl.constexpr = x.shape[0]
    M: tl.constexpr = x.shape[2]
    return tl.reshape(tl.broadcast_to(x[:, None, :, :], [BATCH, ROWS // 16, 16, M]), [BATCH, ROWS, M])


@triton.jit
def multiply_row(begin, end, row, col, a_ptr, b_ptr, scales_ptr, zeros_ptr, M, N, K, a_stride, b_stride, scales_stride, zeros_stride,
                 PACKED: tl.constexpr, GROUP: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, STAGES: tl.constexpr,
                 EVEN_K: tl.constexpr):
    """The products of the steps from `begin` to `end` of BLOCK_N rows of W and one row of A, as a column. PIECE elements of a row are
    16 bytes, which a thread has, and are of one group."""
    FOUR_BITS: tl.constexpr = b_ptr.dtype.element_ty == tl.uint8
    PIECE: tl.constexpr = 32 if FOUR_BITS else 16
    TYPE: tl.constexpr = tl.float16 if FOUR_BITS else tl.float32  # any of 4 bits is exact
    row, row_there = rows_within(row, N, True)
    row_mask = row_there[:, None]
    b_row = b_ptr + row[:, None].to(tl.int64) * b_stride
    a_row = a_ptr + tl.cast(col, tl.int64) * a_stride
    none = tl.zeros([BLOCK_N, 1], tl.float32)
    sums = tl.zeros([BLOCK_N, BLOCK_K // PIECE], tl.float32)
    for step in tl.range(begin, end, num_stages=STAGES):
        first = step * BLOCK_K
        at = first + tl.arange(0, BLOCK_K)
        a = tl.load(a_row + at, mask=at < K, other=0.0).to(tl.float32)
        w = load_weights(b_row, first, K, row_mask, none, PACKED, TYPE, BLOCK_K, EVEN_K, False).to(tl.float32)
        products = tl.sum(tl.reshape(w * a[None, :], [BLOCK_N, BLOCK_K // PIECE, PIECE]), axis=2)
        piece = step * (BLOCK_K // PIECE) + tl.arange(0, BLOCK_K // PIECE)
        group = piece * PIECE // GROUP if GROUP > 0 else piece * 0
        there = row_mask & (piece * PIECE < K)[None, :]
        if zeros_ptr is not None:
            zero = tl.load(zeros_ptr + row[:, None].to(tl.int64) * zeros_stride + group[None, :], mask=there, other=0).to(tl.float32)
            products -= zero * tl.sum(tl.reshape(a, [BLOCK_K // PIECE, PIECE]), axis=1)[None, :]
        if GROUP > 0:
            scale = tl.load(scales_ptr + row[:, None].to(tl.int64) * scales_stride + group[None, :], mask=there, other=0)
            if scales_ptr.dtype.element_ty == tl.uint8:
                products *= power_of_two(scale.to(tl.int32))
            else:
                products *= scale.to(tl.float32)
        sums += products
    acc = tl.sum(sums, axis=1)[:, None]
    if GROUP == 0:
        acc *= load_factors(column_ptrs(scales_ptr, row, 0, scales_stride), row_there)[:, None]
    return acc


@triton.jit
def finish(acc, row, col, out_ptr, bias_ptr, M, N, out_stride, EPILOGUE: tl.constexpr):
    if bias_ptr is not None:
        acc += tl.load(bias_ptr + row, mask=row < N, other=0.0).to(tl.float32)[:, None]
    there = out_ptr + col[:, None].to(tl.int64) * out_stride + row[None, :]
    result = activate(acc, EPILOGUE).to(out_ptr.dtype.element_ty)
    tl.store(there, tl.trans(result), mask=(col < M)[:, None] & (row < N)[None, :])


def have_scales_of_a(args):
    """Whether there is one scale a row, or the others are numbers of A's type."""
    scales = args["scales_ptr"].dtype
    return args["GROUP"] == 0 or scales == args["a_ptr"].dtype or (scales == tl.uint8 and args["a_ptr"].dtype == tl.bfloat16)


def are_scaled(args):
    """Whether weights are scaled before they are multiplied: those of short groups, and of any in products of many rows, with scales that are
    numbers of A's type."""
    short = args["GROUP"] in [32, 64] and (args["BLOCK_M"] > 1 or args["SHARES"] > 0)
    return have_scales_of_a(args) and (short or (args["GROUP"] > 0 and args["BLOCK_M"] > 64))


def are_in_bytes(args):
    """Whether weights come to shared memory as they are: where warpgroups multiply more than 16 rows of A, but those of groups whose sums are
    scaled."""
    by_group = args["GROUP"] > 0 and not are_scaled(args)
    return args["SHARES"] == 0 and args["num_warps"] % 4 == 0 and args["BLOCK_M"] > 16 and not by_group


@triton.constexpr_function
def is_of_blocks(rows, cols):
    """Whether a tile consists of the blocks of 16 x 8 that tensor cores add up."""
    return rows % 16 == 0 and cols % 8 == 0


@triton.jit
def in_line(acc):
    """The sums of a tile as they are left in memory, 128 of its rows in a row, in the order of the registers that have them."""
    if is_of_blocks(acc.shape[0], acc.shape[1]):
        return in_order(acc, False)
    else:
        return tl.reshape(acc, [1, acc.shape[0] * acc.shape[1]])


@triton.jit
def sum_part(part, first_row, first_col, partials, splits, out_ptr, bias_ptr, M, N, out_stride, EPILOGUE: tl.constexpr, BLOCK_M: tl.constexpr,
             BLOCK_N: tl.constexpr, EXTENT: tl.constexpr):
    """Stores a part of a tile, EXTENT rows of A, summed over all shares."""
    LINES: tl.constexpr = tl.cdiv(BLOCK_N, 128)
    PART: tl.constexpr = EXTENT * (BLOCK_N // LINES)
    LINE: tl.constexpr = BLOCK_M * BLOCK_N // LINES
    AHEAD: tl.constexpr = max(1, min(16, 16384 // (LINES * PART)))
    # The first shares ahead of the loop, whose sums are in the order of what is loaded then.
    sums = tl.sum(load_shares(partials, 0, splits, part, AHEAD, PART, LINE, LINES), axis=0) + 0.0
    sums = add_shares(sums, AHEAD, partials, splits, part, AHEAD, PART, LINE, LINES)
    acc = as_tile(sums, BLOCK_N, False) if is_of_blocks(BLOCK_N, EXTENT) else tl.reshape(sums, [BLOCK_N, EXTENT])
    last = min(M, first_col + BLOCK_M)
    finish(acc, first_row + tl.arange(0, BLOCK_N), first_col + part * EXTENT + tl.arange(0, EXTENT), out_ptr, bias_ptr, last, N, out_stride, EPILOGUE)


def columns_at_once(args):
    """Columns of weights in a product: those of a group, or of any number of groups that are scaled before or without tensor cores."""
    if args["GROUP"] > 0 and (args["BLOCK_M"] > 1 or args["SHARES"] > 0) and not are_scaled(args):
        return args["GROUP"]
    return min(args["STEP"] // (args["SHARES"] * slices(args["BLOCK_M"])), 128) if args["SHARES"] > 0 else args["STEP"]


def are_many(args):
    """Whether more than eight programs share a tile, or several a large one, or what they leave is more than one of them adds up in good time."""
    tiles = triton.cdiv(args["N"], args["BLOCK_N"]) * triton.cdiv(args["M"], args["BLOCK_M"])
    steps = triton.cdiv(args["K"], args["STEP"] if args["SHARES"] > 0 else columns_at_once(args))
    splits = min(args["PROGRAMS"] * clusters_at_once(args["num_ctas"]) // max(1, tiles), steps)
    sums = args["BLOCK_M"] * args["BLOCK_N"]
    return splits > (8 if sums < 16384 else 1) or splits * sums > 42000


@triton.autotune(configs=configs(), key=["m_class", "N", "K", "GROUP"], prune_configs_by={"early_config_prune": fitting, "top_k": 32})
@triton.heuristics({
    "SCALED": are_scaled,
    "TOGETHER": are_many,
    "BYTES": are_in_bytes,
    "BLOCK_K": lambda args: columns_at_once(args),
    "EVEN_K": lambda args: args["K"] % (args["STEP"] if args["SHARES"] > 0 else columns_at_once(args)) == 0,
    "EVEN_BLOCKS": lambda args: args["K"] % columns_at_once(args) == 0,
})
@triton.jit
def quantised_gemm(out_ptr, a_ptr, b_ptr, scales_ptr, zeros_ptr, bias_ptr, M, N, K, out_stride, a_stride, b_stride, scales_stride,
                   zeros_stride, m_class, partials_ptr, counters_ptr, EPILOGUE: tl.constexpr, PACKED: tl.constexpr, GROUP: tl.constexpr,
                   BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, STEP: tl.constexpr, PROGRAMS: tl.constexpr, STAGES: tl.constexpr, SHARES: tl.constexpr,
                   BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr, EVEN_BLOCKS: tl.constexpr, SCALED: tl.constexpr, TOGETHER: tl.constexpr,
                   BYTES: tl.constexpr):
    """About PROGRAMS programs a multiprocessor, a multiple of the number of tiles; 0: one a tile. They leave the tile's counters at zero.
    Where SHARES divide K, BLOCK_M is M at least."""
    PARTS: tl.constexpr = 16
    tiles_m = 1 if SHARES > 0 else tl.cdiv(M, BLOCK_M)
    splits = 1
    share = 0
    program = tl.program_id(0)
    steps = tl.cdiv(K, STEP if SHARES > 0 else BLOCK_K)
    begin = 0
    end = steps
    if PROGRAMS > 0:
        splits = tl.num_programs(0) // (tiles_m * tl.cdiv(N, BLOCK_N))
        share = program % splits
        program = program // splits
        begin = share * (steps // splits) + min(share, steps % splits)
        end = begin + steps // splits + (share < steps % splits)
    counters = counters_ptr + 4 * program
    if TOGETHER:
        if splits > 1:
            tl.atomic_add(counters, 65536, sem="relaxed")
    first_row = program // tiles_m * BLOCK_N
    row = first_row + tl.arange(0, BLOCK_N)
    first_col = program % tiles_m * BLOCK_M
    col = first_col + tl.arange(0, BLOCK_M)
    if BLOCK_M == 1 and SHARES == 0:
        acc = multiply_row(begin, end, row, first_col, a_ptr, b_ptr, scales_ptr, zeros_ptr, M, N, K, a_stride, b_stride, scales_stride,
                           zeros_stride, PACKED, GROUP, BLOCK_N, BLOCK_K, STAGES, EVEN_K)
    elif SHARES > 0:
        acc = multiply_shares(begin, end, row, first_col, a_ptr, b_ptr, scales_ptr, zeros_ptr, M, N, K, a_stride, b_stride, scales_stride,
                              zeros_stride, PACKED, GROUP, BLOCK_M, BLOCK_N, BLOCK_K, STEP, SHARES, STAGES, EVEN_K, EVEN_BLOCKS, SCALED)
    else:
        acc = multiply(tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32), begin, end, row, first_col, a_ptr, b_ptr, scales_ptr, zeros_ptr, M, N,
                       K, a_stride, b_stride, scales_stride, zeros_stride, PACKED, GROUP, BLOCK_M, BLOCK_N, BLOCK_K, STAGES, EVEN_K, SCALED,
                       BYTES)
    if splits == 1:
        finish(acc, row, col, out_ptr, bias_ptr, M, N, out_stride, EPILOGUE)
    else:
        TILE: tl.constexpr = BLOCK_N * BLOCK_M
        partials = partials_ptr + (program * splits).to(tl.int64) * TILE
        if TOGETHER:
            # Parts of so many groups of eight rows of A, none of which is empty.
            EXTENT: tl.constexpr = 8 * tl.cdiv(BLOCK_M // 8, PARTS) if is_of_blocks(BLOCK_N, BLOCK_M) else BLOCK_M
            COUNT: tl.constexpr = tl.cdiv(BLOCK_M, EXTENT)
            LINES: tl.constexpr = tl.cdiv(BLOCK_N, 128)
            tl.store(partials + share * TILE + places(TILE // LINES, TILE // LINES, LINES), in_line(acc))
            alone = wait_for_shares(share, splits, counters, COUNT)
            for part in range(share, 0 if alone else COUNT, splits):
                sum_part(part, first_row, first_col, partials, splits, out_ptr, bias_ptr, M, N, out_stride, EPILOGUE, BLOCK_M, BLOCK_N, EXTENT)
            undone = leave(alone, splits, counters)
            for part in range(0, COUNT if undone != 0 else 0):
                if (undone >> part) % 2 != 0:
                    sum_part(part, first_row, first_col, partials, splits, out_ptr, bias_ptr, M, N, out_stride, EPILOGUE, BLOCK_M, BLOCK_N, EXTENT)
        else:
            place = tl.arange(0, BLOCK_N)[:, None] + tl.arange(0, BLOCK_M)[None, :] * BLOCK_N
            used = (col < M)[None, :]
            tl.store(partials + share * TILE + place, acc, mask=used)
            tl.debug_barrier()
            if tl.atomic_add(counters, 1) == splits - 1:
                acc = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
                for other in range(0, splits):
                    acc += tl.load(partials + other * TILE + place, mask=used, other=0.0, cache_modifier=".cg")
                finish(acc, row, col, out_ptr, bias_ptr, M, N, out_stride, EPILOGUE)
                tl.store(counters, 0)
