"""Softmax and its kin along the rows of a matrix.

A row of `cols` elements lies `out_stride` and `x_stride` elements after the one before it. Whatever the element types,
the arithmetic is fp32. A program takes ROWS rows at a time: the next ones of its share (STAGES > 0, loads running that
far ahead), or the only ones it has (STAGES = 0). Rows are kept in registers between the steps; with PIECE > 0 a row is
taken in pieces of so many elements instead, and read twice, the second time from a cache. Wide rows, and pieces of
few rows, are divided over the blocks of a cluster (num_ctas). With ROWS 0 each piece of few rows has a program of its own
(row_pieces.py), which keeps it in registers, or with STAGES 0 two of them, of which the second one reads it again.

EVICTION is the priority of what is read in the caches. `rows_class` tells tuning few rows from many.
"""

import triton
import triton.language as tl

from row_pieces import (begin_piece, end_of_piece, end_of_program, is_last_piece, is_left, kept_pieces, number_of_row, numbers_of_pieces,
                        read_twice_configs, set_back, shared_configs, tell_piece, tell_row, told_of_row, words_read_twice)
from tiles import (aligned_elements, begin_aligned, columns, extent, fitting_rows, in_line, inside,
                   piece_mask, row_configs, row_max, row_sum, to_row, unit_of_rows, warp_maxima, warp_sums)

# Registers a thread at most, by warps: fewer of them, and more programs run at a time.
LIMITS = {1: [None], 2: [None], 4: [None], 8: [None, 80, 64], 16: [None, 40, 64], 32: [None, 32]}
LIMITS_OF_TWO = {1: [None], 2: [None], 4: [None], 8: [None], 16: [None], 32: [None]}
MOST_STAGES = {1: 3, 2: 3, 4: 3, 8: 3, 16: 3, 32: 3}
LOWEST = tl.constexpr(-3.4028234663852886e38)  # of fp32, above -infinity


def unit(args):
    """UNIT of aligned_elements(). A bias is loaded once for all rows, whose columns then have the same places."""
    if args["bias_ptr"] is not None:
        return 1
    size = min(args["x_ptr"].element_size(), args["out_ptr"].element_size())
    return unit_of_rows(args["cols"], size, args["x_stride"], args["out_stride"])


def configs():
    return row_configs(LIMITS, LIMITS_OF_TWO, MOST_STAGES) + shared_configs() + read_twice_configs()


def fitting(configs, named_args, **kwargs):
    return fitting_rows(configs, named_args, unit(named_args))


@triton.jit
def load_scores(x_ptr, mask_ptr, at, mask_row, row, col, cols, queries, mask, CAUSAL: tl.constexpr,
                EVICTION: tl.constexpr = ""):
    """x in fp32; -inf where a mask is 0, and with CAUSAL behind the column that belongs to the row's query."""
    seen = mask
    if CAUSAL:
        seen = seen & (col <= row % queries + (cols - queries))
    if mask_ptr is not None:
        seen = seen & (tl.load(mask_ptr + mask_row + col, mask=seen, other=0) != 0)
    return tl.load(x_ptr + at, mask=seen, other=float("-inf"), eviction_policy=EVICTION).to(tl.float32)


@triton.jit
def exp_from(x, high):
    """exp(x - high). The difference comes first: next to `high` it is exact, however far from 0 that is."""
    return tl.exp2((x - high) * 1.4426950408889634)


@triton.jit
def join_rows(top, total, other_top, other_total):
    """Of two parts of a row: the greatest x, and the sum of exponentials relative to it."""
    higher = tl.maximum(top, other_top)
    return higher, total * exp_from(top, higher) + other_total * exp_from(other_top, higher)


@triton.jit
def divided_row(x, KIND: tl.constexpr):
    """Each warp has exponentials of its own; then all exchange their greatest x and their sums, at once."""
    top = tl.maximum(warp_maxima(x), LOWEST)
    below = x - to_row(top)  # once: log_softmax takes it from here too
    numerator = exp_from(below, 0.0)
    row_top, total = tl.reduce((in_line(top), in_line(warp_sums(numerator))), 0, join_rows)
    if KIND == "log_softmax":
        return below - to_row((row_top - top) + tl.log(total))
    else:
        return numerator * to_row(exp_from(top, row_top) / total)


@triton.jit
def whole_rows(out_ptr, x_ptr, mask_ptr, bias, tile, out_stride, x_stride, mask_stride, rows, cols, mask_rows, queries,
               scale, AFFINE: tl.constexpr, KIND: tl.constexpr, CAUSAL: tl.constexpr, BLOCK: tl.constexpr,
               ROWS: tl.constexpr, PARTS: tl.constexpr, WARPS: tl.constexpr, EVICTION: tl.constexpr,
               EVEN: tl.constexpr, UNIT: tl.constexpr):
    row, at, col, mask = aligned_elements(tile, x_stride, rows, cols, BLOCK, ROWS, PARTS, WARPS, EVEN, UNIT)
    mask_row = 0
    if mask_ptr is not None:
        mask_row = (row % mask_rows).to(tl.int64) * mask_stride
    x = load_scores(x_ptr, mask_ptr, at, mask_row, row, col, cols, queries, mask, CAUSAL, EVICTION)
    if KIND == "exp_normalize":
        numerator = tl.where(mask, tl.exp(x) + 1.0, 0.0)
        y = numerator / row_sum(numerator, PARTS)
    elif PARTS > 1:
        y = divided_row(x, KIND)
    else:
        x = x - row_max(x, PARTS)
        numerator = tl.exp(x)
        if KIND == "log_softmax":
            y = x - tl.log(row_sum(numerator, PARTS))
        else:
            y = numerator / row_sum(numerator, PARTS)
    if AFFINE:
        y = y * scale + bias
    if UNIT == 1:
        at = row.to(tl.int64) * out_stride + col
    tl.store(out_ptr + at, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def row_in_pieces(out_ptr, x_ptr, mask_ptr, bias_ptr, out_stride, x_stride, mask_stride, cols, mask_rows, queries, scale,
                  KIND: tl.constexpr, CAUSAL: tl.constexpr, WIDTH: tl.constexpr, PIECE: tl.constexpr,
                  STAGES: tl.constexpr, UNIT: tl.constexpr):
    """The first pass keeps a maximum, and a sum relative to it, for each WIDTH elements, which are one thread's."""
    row = tl.program_id(0)
    x_row, before = begin_aligned(row.to(tl.int64) * x_stride, UNIT)
    out_row = out_ptr + begin_aligned(row.to(tl.int64) * out_stride, UNIT)[0]
    mask_row = 0
    if mask_ptr is not None:
        mask_row = (row % mask_rows).to(tl.int64) * mask_stride
    offsets = tl.arange(0, PIECE // WIDTH)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    top = tl.full([PIECE // WIDTH], LOWEST, tl.float32)
    total = tl.zeros([PIECE // WIDTH], tl.float32)
    for start in tl.range(0, cols + before, PIECE, num_stages=STAGES):
        at = start + offsets
        mask = piece_mask(at, before, cols, UNIT)
        x = load_scores(x_ptr, mask_ptr, x_row + at, mask_row, row, at - before, cols, queries, mask, CAUSAL)
        if KIND == "exp_normalize":
            total += tl.sum(tl.where(mask, exp_from(x, 0.0) + 1.0, 0.0), axis=1)
        else:
            higher = tl.maximum(top, tl.max(x, axis=1))
            total = total * exp_from(top, higher) + tl.sum(exp_from(x, higher[:, None]), axis=1)
            top = higher
    row_top = tl.max(top, axis=0)
    if KIND == "exp_normalize":
        row_sum = tl.sum(total, axis=0)
    else:
        row_sum = tl.sum(total * exp_from(top, row_top), axis=0)
    for start in tl.range(0, cols + before, PIECE, num_stages=STAGES):
        at = start + offsets
        mask = piece_mask(at, before, cols, UNIT)
        x = load_scores(x_ptr, mask_ptr, x_row + at, mask_row, row, at - before, cols, queries, mask, CAUSAL)
        if KIND == "exp_normalize":
            y = (exp_from(x, 0.0) + 1.0) * (1.0 / row_sum)
        elif KIND == "log_softmax":
            y = (x - row_top) - tl.log(row_sum)
        else:
            y = exp_from(x, row_top) * (1.0 / row_sum)
        if bias_ptr is not None:
            y = y * scale + tl.load(bias_ptr + at, mask=mask, other=0.0).to(tl.float32)
        tl.store(out_row + at, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def load_piece(x_ptr, mask_ptr, row, piece, x_stride, mask_stride, cols, mask_rows, queries, CAUSAL: tl.constexpr,
               PIECE: tl.constexpr, UNIT: tl.constexpr):
    """Elements of a piece, where they stand behind the beginning of the tile's row, and which of them the matrix has."""
    x_row, before = begin_aligned(row.to(tl.int64) * x_stride, UNIT)
    mask_row = 0
    if mask_ptr is not None:
        mask_row = (row % mask_rows).to(tl.int64) * mask_stride
    at = piece * PIECE + tl.arange(0, PIECE)
    mask = piece_mask(at, before, cols, UNIT)
    x = load_scores(x_ptr, mask_ptr, x_row + at, mask_row, row, at - before, cols, queries, mask, CAUSAL)
    return x, at, mask


@triton.jit
def sums_of_piece(x, mask, KIND: tl.constexpr):
    """The greatest x of a piece, and the sum of exponentials relative to it."""
    if KIND == "exp_normalize":
        return 0.0, tl.sum(tl.where(mask, exp_from(x, 0.0) + 1.0, 0.0), axis=0)
    else:
        high = tl.maximum(tl.max(x, axis=0), LOWEST)
        return high, tl.sum(exp_from(x, high), axis=0)


@triton.jit
def sums_of_row(high, total, pieces, LIST: tl.constexpr):
    """The same of a row, by those of its pieces."""
    there = tl.arange(0, LIST) < pieces
    row_high = tl.max(tl.where(there, high, float("-inf")), axis=0)
    return row_high, tl.sum(tl.where(there, total * exp_from(high, row_high), 0.0), axis=0)


@triton.jit
def finish_piece(out_ptr, bias_ptr, x, at, mask, row, out_stride, scale, row_high, row_total, KIND: tl.constexpr, UNIT: tl.constexpr):
    if KIND == "exp_normalize":
        y = (exp_from(x, 0.0) + 1.0) * (1.0 / row_total)
    elif KIND == "log_softmax":
        y = (x - row_high) - tl.log2(row_total) * 0.6931471805599453
    else:
        y = exp_from(x, row_high) * (1.0 / row_total)
    if bias_ptr is not None:
        y = y * scale + tl.load(bias_ptr + at, mask=mask, other=0.0).to(tl.float32)
    out_row = begin_aligned(row.to(tl.int64) * out_stride, UNIT)[0]
    tl.store(out_ptr + out_row + at, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def shared_row(out_ptr, x_ptr, mask_ptr, bias_ptr, out_stride, x_stride, mask_stride, rows, cols, mask_rows, queries, scale,
               counters_ptr, KIND: tl.constexpr, CAUSAL: tl.constexpr, PIECE: tl.constexpr, LIST: tl.constexpr, UNIT: tl.constexpr):
    """A piece of a row that programs share, and for the last program the pieces that others have left."""
    pieces = tl.num_programs(0) // rows
    row, piece = begin_piece(counters_ptr, pieces, 2)
    x, at, mask = load_piece(x_ptr, mask_ptr, row, piece, x_stride, mask_stride, cols, mask_rows, queries, CAUSAL, PIECE, UNIT)
    high, total = sums_of_piece(x, mask, KIND)
    tell_piece(counters_ptr, row, piece, pieces, high, total, 0.0, 0.0, 0.0, 2)
    done, highs, totals, _, _, _ = told_of_row(counters_ptr, row, pieces, 2, LIST)
    ended = end_of_piece(counters_ptr, row, piece, pieces, done, 2)
    if done:
        row_high, row_total = sums_of_row(highs, totals, pieces, LIST)
        finish_piece(out_ptr, bias_ptr, x, at, mask, row, out_stride, scale, row_high, row_total, KIND, UNIT)
    if ended > 1:
        for number in range(rows * pieces):
            row = number // pieces
            if is_left(counters_ptr, row, number % pieces, pieces, 2):
                x, at, mask = load_piece(x_ptr, mask_ptr, row, number % pieces, x_stride, mask_stride, cols, mask_rows, queries,
                                         CAUSAL, PIECE, UNIT)
                _, highs, totals, _, _, _ = told_of_row(counters_ptr, row, pieces, 2, LIST)
                row_high, row_total = sums_of_row(highs, totals, pieces, LIST)
                finish_piece(out_ptr, bias_ptr, x, at, mask, row, out_stride, scale, row_high, row_total, KIND, UNIT)
    if ended > 0:
        set_back(counters_ptr, rows, pieces, 2)


@triton.jit
def row_read_twice(out_ptr, x_ptr, mask_ptr, bias_ptr, out_stride, x_stride, mask_stride, rows, cols, mask_rows, queries, scale,
                   counters_ptr, KIND: tl.constexpr, CAUSAL: tl.constexpr, PIECE: tl.constexpr, LIST: tl.constexpr, UNIT: tl.constexpr):
    """The programs that begin first tell what they find of a piece each, the others wait for what is told of a row. These take the pieces in
    the other direction, as the last ones are still in the cache."""
    pieces = tl.num_programs(0) // (2 * rows)
    number = tl.atomic_add(counters_ptr, 1, sem="relaxed")
    if number < rows * pieces:
        row = number // pieces
        piece = number % pieces
        x, at, mask = load_piece(x_ptr, mask_ptr, row, piece, x_stride, mask_stride, cols, mask_rows, queries, CAUSAL, PIECE, UNIT)
        high, total = sums_of_piece(x, mask, KIND)
        if is_last_piece(counters_ptr, row, piece, pieces, high, total, 0.0, 2):
            highs, totals, _ = numbers_of_pieces(counters_ptr, row, pieces, 2, LIST)
            row_high, row_total = sums_of_row(highs, totals, pieces, LIST)
            tell_row(counters_ptr, row, pieces, row_high, row_total, 0.0, 2)
    else:
        number = 2 * rows * pieces - 1 - number
        row = number // pieces
        x, at, mask = load_piece(x_ptr, mask_ptr, row, number % pieces, x_stride, mask_stride, cols, mask_rows, queries, CAUSAL, PIECE, UNIT)
        row_high = number_of_row(counters_ptr, row, pieces, 0, 2)
        row_total = number_of_row(counters_ptr, row, pieces, 1, 2)
        finish_piece(out_ptr, bias_ptr, x, at, mask, row, out_stride, scale, row_high, row_total, KIND, UNIT)
    end_of_program(counters_ptr, tl.num_programs(0), words_read_twice(rows, pieces, 2))


@triton.autotune(configs=configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting})
@triton.heuristics({
    "UNIT": unit,
    "BLOCK": lambda args: extent(args["cols"], args["x_ptr"].element_size(),
                                 args["num_warps"] * args["num_ctas"], args["ROWS"], args["UNIT"]),
    "WIDTH": lambda args: 16 // args["x_ptr"].element_size(),
    "EVEN": lambda args: args["BLOCK"] == args["cols"],
    "PARTS": lambda args: args["num_ctas"],
    "WARPS": lambda args: args["num_warps"],
    "LIST": kept_pieces,
})
@triton.jit
def softmax(out_ptr, x_ptr, mask_ptr, bias_ptr, out_stride, x_stride, mask_stride, rows, cols, mask_rows, queries, scale,
            rows_class, BLOCK: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, STAGES: tl.constexpr,
            PIECE: tl.constexpr, EVICTION: tl.constexpr, KIND: tl.constexpr = "softmax", CAUSAL: tl.constexpr = False,
            PARTS: tl.constexpr = 1, WARPS: tl.constexpr = 1, EVEN: tl.constexpr = False,
            UNIT: tl.constexpr = 1, LIST: tl.constexpr = 0, counters_ptr=None):
    """softmax(x), with a bias softmax(x) * scale + bias. KIND "log_softmax": its logarithm; "exp_normalize": the
    exponentials are exp(x) + 1 instead. Where mask[row % mask_rows] is 0, x counts as -inf. With CAUSAL row % queries
    is a query (queries 0: the row itself), and the last one sees all columns, each one before it one less."""
    queries = tl.where(queries > 0, queries, rows)
    if LIST > 0 and STAGES == 0:
        row_read_twice(out_ptr, x_ptr, mask_ptr, bias_ptr, out_stride, x_stride, mask_stride, rows, cols, mask_rows, queries, scale,
                       counters_ptr, KIND, CAUSAL, PIECE, LIST, UNIT)
    elif LIST > 0:
        shared_row(out_ptr, x_ptr, mask_ptr, bias_ptr, out_stride, x_stride, mask_stride, rows, cols, mask_rows, queries, scale,
                   counters_ptr, KIND, CAUSAL, PIECE, LIST, UNIT)
    elif PIECE > 0:
        row_in_pieces(out_ptr, x_ptr, mask_ptr, bias_ptr, out_stride, x_stride, mask_stride, cols, mask_rows, queries,
                      scale, KIND, CAUSAL, WIDTH, PIECE, STAGES, UNIT)
    else:
        AFFINE: tl.constexpr = bias_ptr is not None
        bias = 0.0
        if AFFINE:
            col = columns(BLOCK, PARTS, WARPS)
            bias = tl.load(bias_ptr + col, mask=inside(col, cols, EVEN), other=0.0).to(tl.float32)
        if STAGES == 0:
            whole_rows(out_ptr, x_ptr, mask_ptr, bias, tl.program_id(0), out_stride, x_stride, mask_stride, rows, cols,
                       mask_rows, queries, scale, AFFINE, KIND, CAUSAL, BLOCK, ROWS, PARTS, WARPS, EVICTION, EVEN, UNIT)
        else:
            for tile in tl.range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0), num_stages=STAGES):
                whole_rows(out_ptr, x_ptr, mask_ptr, bias, tile, out_stride, x_stride, mask_stride, rows, cols, mask_rows,
                           queries, scale, AFFINE, KIND, CAUSAL, BLOCK, ROWS, PARTS, WARPS, EVICTION, EVEN, UNIT)
