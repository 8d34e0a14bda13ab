"""RMSNorm and LayerNorm along the rows of a matrix, with what often stands around them in one pass.

    h = x + residual            (residual may be None; h is written to sum_ptr unless that is None)
    RMSNorm:    y = h / sqrt(mean(h * h) + eps)
    LayerNorm:  y = (h - mean(h)) / sqrt(mean((h - mean(h))**2) + eps)
    L2:         y = h / max(sqrt(sum(h * h)), eps)
    out = y * weight + bias     (each may be None), then the activation

The result may be quantised: divided by scale[0], or by a scale for each row, which is written to scales.

A row of `cols` elements lies `..._stride` elements after the one before it. Whatever the element types, the arithmetic
is fp32, h included. A program takes ROWS rows at a time: the next ones of its share (STAGES > 0, loads running that far
ahead, weights loaded once), or the only ones it has (STAGES = 0). Rows are kept in registers between the steps; with
PIECE > 0 a row is taken in pieces of so many elements instead, and read again for each step, from a cache. Wide rows, and
pieces of few rows, are divided over the blocks of a cluster (num_ctas). With ROWS 0 each piece of few rows has a program of
its own (row_pieces.py), which keeps it in registers, or with STAGES 0 two of them, of which the second one reads it again.

EVICTION is the priority of what is read in the caches. `rows_class` tells tuning few rows from many.
"""

import triton
import triton.language as tl

from row_pieces import (begin_piece, end_of_piece, end_of_program, is_last_piece, is_left, kept_pieces, number_of_row, numbers_of_pieces,
                        read_twice_configs, set_back, shared_configs, tell_piece, tell_row, told_of_row, words_read_twice)
from tiles import (activate, add_pairs, aligned_elements, begin_aligned, columns, divide, divide_rows, extent, fitting_rows, in_line,
                   inside, load_vector, middle_of_five, piece_mask, quantised, row_configs, row_scale, row_sum, sampled, unit_of_rows,
                   united, warp_sums, without_negative)

# Registers a thread at most, by warps: fewer of them, and more programs run at a time.
LIMITS = {1: [None], 2: [None], 4: [None, 128], 8: [None, 80, 64], 16: [None, 40, 64], 32: [None, 32]}
# Likewise where a program takes two rows, which share the weights.
LIMITS_OF_TWO = {1: [None], 2: [None], 4: [128], 8: [64], 16: [None], 32: [None]}
MOST_STAGES = {1: 3, 2: 3, 4: 3, 8: 3, 16: 3, 32: 2}


def unit(args):
    """UNIT of aligned_elements(). Weights are loaded once for all rows, whose columns then have the same places."""
    if args["weight_ptr"] is not None or args["bias_ptr"] is not None:
        return 1
    size = min(args["x_ptr"].element_size(), args["out_ptr"].element_size())
    strides = [args["x_stride"], args["out_stride"]]
    for name in ["residual", "sum"]:
        if args[name + "_ptr"] is not None:
            strides.append(args[name + "_stride"])
    return unit_of_rows(args["cols"], size, *strides)


def configs():
    return row_configs(LIMITS, LIMITS_OF_TWO, MOST_STAGES) + shared_configs() + read_twice_configs()


def fitting(configs, named_args, **kwargs):
    """fitting_rows(); the weights for several rows may lie in shared memory. A scale for each row takes a second exchange."""
    kept = fitting_rows(configs, named_args)
    return [config for config in kept if config.kwargs["ROWS"] > 0 or named_args["scales_ptr"] is None]


@triton.jit
def load_sum(x_ptr, residual_ptr, at, residual_at, mask, EVICTION: tl.constexpr = ""):
    h = tl.load(x_ptr + at, mask=mask, other=0.0, eviction_policy=EVICTION).to(tl.float32)
    if residual_ptr is not None:
        h += tl.load(residual_ptr + residual_at, mask=mask, other=0.0, eviction_policy=EVICTION).to(tl.float32)
    return h


@triton.jit
def place(at, row, col, stride, UNIT: tl.constexpr):
    """Where a matrix has the elements that x has at `at`: with UNIT > 1 there as well (aligned_elements())."""
    if UNIT > 1:
        return at
    else:
        return row * stride + col


@triton.jit
def store_sum(sum_ptr, at, h, mask):
    if sum_ptr is not None:
        tl.store(sum_ptr + at, h.to(sum_ptr.dtype.element_ty), mask=mask)


@triton.jit
def finish(y, weight, bias, WEIGHT: tl.constexpr, BIAS: tl.constexpr, ACTIVATION: tl.constexpr):
    if WEIGHT:
        y = y * weight.to(tl.float32)
    if BIAS:
        y = y + bias.to(tl.float32)
    return activate(y, ACTIVATION)


@triton.jit
def row_factor(squares, cols, eps, L2: tl.constexpr):
    if L2:
        return 1.0 / tl.maximum(tl.sqrt(squares), eps)
    else:
        return tl.rsqrt(squares / cols + eps)


@triton.jit
def moments_about(reference, h, mask):
    """Distances of a divided row's elements from a number, with their sum and that of their squares: one exchange."""
    distance = tl.where(mask, h - reference, 0.0)
    total, squares = tl.reduce((in_line(warp_sums(distance)), in_line(warp_sums(distance * distance))), 0, add_pairs)
    return distance, total, squares


@triton.jit
def element(x_ptr, residual_ptr, x_row, residual_row, col):
    h = tl.load(x_ptr + x_row + col).to(tl.float32)
    if residual_ptr is not None:
        h += tl.load(residual_ptr + residual_row + col).to(tl.float32)
    return h


@triton.jit
def reference_of(x_ptr, residual_ptr, x_row, residual_row, cols):
    """A number near the mean of a row."""
    return middle_of_five(element(x_ptr, residual_ptr, x_row, residual_row, sampled(0, cols)),
                          element(x_ptr, residual_ptr, x_row, residual_row, sampled(1, cols)),
                          element(x_ptr, residual_ptr, x_row, residual_row, sampled(2, cols)),
                          element(x_ptr, residual_ptr, x_row, residual_row, sampled(3, cols)),
                          element(x_ptr, residual_ptr, x_row, residual_row, sampled(4, cols)))


@triton.jit
def whole_rows(out_ptr, x_ptr, residual_ptr, sum_ptr, scale_ptr, scales_ptr, weight, bias, tile, out_stride, x_stride,
               residual_stride, sum_stride, rows, cols, eps, CENTER: tl.constexpr, WEIGHT: tl.constexpr,
               BIAS: tl.constexpr, ACTIVATION: tl.constexpr, L2: tl.constexpr, BLOCK: tl.constexpr,
               ROWS: tl.constexpr, PARTS: tl.constexpr, WARPS: tl.constexpr, EVICTION: tl.constexpr,
               EVEN: tl.constexpr, UNIT: tl.constexpr):
    row, at, col, mask = aligned_elements(tile, x_stride, rows, cols, BLOCK, ROWS, PARTS, WARPS, EVEN, UNIT)
    row = row.to(tl.int64)
    h = load_sum(x_ptr, residual_ptr, at, place(at, row, col, residual_stride, UNIT), mask, EVICTION)
    if BLOCK * ROWS < 32 * WARPS:
        # Several threads load an element, one of which stores, and that may be to where it was loaded from.
        tl.debug_barrier()
    sum_at = place(at, row, col, sum_stride, UNIT)
    if CENTER and PARTS > 1:
        # All blocks read a few elements: the sum, which may take their place, is stored behind the exchange.
        reference = reference_of(x_ptr, residual_ptr, row * x_stride, row * residual_stride, cols)
        distance, total, squares = moments_about(reference, h, mask)
        store_sum(sum_ptr, sum_at, h, mask)
        offset = total / cols
        factor = row_factor(without_negative(squares - offset * total), cols, eps, L2)
        y = distance * factor - offset * factor
    else:
        store_sum(sum_ptr, sum_at, h, mask)
        if CENTER:
            h = tl.where(mask, h - row_sum(h, PARTS) / cols, 0.0)
        y = h * row_factor(row_sum(h * h, PARTS), cols, eps, L2)
    y = divide(finish(y, weight, bias, WEIGHT, BIAS, ACTIVATION), scale_ptr)
    y = divide_rows(y, row, rows, mask, scales_ptr, out_ptr.dtype.element_ty, PARTS)
    tl.store(out_ptr + place(at, row, col, out_stride, UNIT), quantised(y, out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def row_in_pieces(out_ptr, x_ptr, residual_ptr, sum_ptr, scale_ptr, scales_ptr, weight_ptr, bias_ptr, out_stride,
                  x_stride, residual_stride, sum_stride, cols, eps, CENTER: tl.constexpr, ACTIVATION: tl.constexpr,
                  L2: tl.constexpr, PIECE: tl.constexpr, STAGES: tl.constexpr, UNIT: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_row, before = begin_aligned(row * x_stride, UNIT)
    residual_row = begin_aligned(row * residual_stride, UNIT)[0]
    sum_row = begin_aligned(row * sum_stride, UNIT)[0]
    out_row = begin_aligned(row * out_stride, UNIT)[0]
    mean = 0.0
    squares = tl.zeros([PIECE], tl.float32)
    if CENTER:
        # Each element corrects the mean and the squared differences of those before it at its place in the pieces.
        place = tl.arange(0, PIECE)
        means = tl.zeros([PIECE], tl.float32)
        number = 0.0
        for start in tl.range(0, before + cols, PIECE, num_stages=STAGES):
            at = start + place
            mask = piece_mask(at, before, cols, UNIT)
            h = load_sum(x_ptr, residual_ptr, x_row + at, residual_row + at, mask)
            number += 1.0
            share = 1.0 / number
            if UNIT > 1:
                share = tl.where(place < before, 1.0 / tl.maximum(number - 1.0, 1.0), share)
            apart = tl.where(mask, h - means, 0.0)
            means += apart * share
            squares += apart * tl.where(mask, h - means, 0.0)
        count = (before + cols - place + PIECE - 1) // PIECE
        if UNIT > 1:
            count -= (place < before).to(tl.int32)
        _, mean, total = tl.reduce((count.to(tl.float32), means, squares), 0, united)
    else:
        for start in tl.range(0, before + cols, PIECE, num_stages=STAGES):
            at = start + tl.arange(0, PIECE)
            h = load_sum(x_ptr, residual_ptr, x_row + at, residual_row + at, piece_mask(at, before, cols, UNIT))
            squares += h * h
        total = tl.sum(squares, axis=0)
    factor = row_factor(total, cols, eps, L2)
    scale = 1.0
    if scales_ptr is not None:
        magnitude = tl.zeros([PIECE], tl.float32)
        for start in tl.range(0, before + cols, PIECE, num_stages=STAGES):
            at = start + tl.arange(0, PIECE)
            mask = piece_mask(at, before, cols, UNIT)
            h = load_sum(x_ptr, residual_ptr, x_row + at, residual_row + at, mask)
            weight = load_vector(weight_ptr, at, mask)
            bias = load_vector(bias_ptr, at, mask)
            y = finish((h - mean) * factor, weight, bias, weight_ptr is not None, bias_ptr is not None, ACTIVATION)
            y = divide(y, scale_ptr)
            magnitude = tl.maximum(magnitude, tl.where(mask, tl.abs(y), 0.0))
        scale = row_scale(tl.max(magnitude, axis=0), out_ptr.dtype.element_ty)
        tl.store(scales_ptr + row, scale)
    for start in tl.range(0, before + cols, PIECE, num_stages=STAGES):
        at = start + tl.arange(0, PIECE)
        mask = piece_mask(at, before, cols, UNIT)
        h = load_sum(x_ptr, residual_ptr, x_row + at, residual_row + at, mask)
        store_sum(sum_ptr, sum_row + at, h, mask)
        if CENTER:
            h = h - mean
        weight = load_vector(weight_ptr, at, mask)
        bias = load_vector(bias_ptr, at, mask)
        y = divide(finish(h * factor, weight, bias, weight_ptr is not None, bias_ptr is not None, ACTIVATION), scale_ptr)
        if scales_ptr is not None:
            y = tl.where(scale > 0, y / scale, 0.0)
        tl.store(out_ptr + out_row + at, quantised(y, out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def load_piece(x_ptr, residual_ptr, row, piece, x_stride, residual_stride, cols, PIECE: tl.constexpr, UNIT: tl.constexpr):
    """Elements of a piece, where they stand behind the beginning of the tile's row, and which of them the matrix has."""
    x_row, before = begin_aligned(row.to(tl.int64) * x_stride, UNIT)
    residual_row = begin_aligned(row.to(tl.int64) * residual_stride, UNIT)[0]
    at = piece * PIECE + tl.arange(0, PIECE)
    mask = piece_mask(at, before, cols, UNIT)
    return load_sum(x_ptr, residual_ptr, x_row + at, residual_row + at, mask), at, mask


@triton.jit
def elements_of_pieces(row, x_stride, cols, piece, PIECE: tl.constexpr, UNIT: tl.constexpr):
    """How many elements of the row each piece has."""
    before = begin_aligned(row.to(tl.int64) * x_stride, UNIT)[1]
    first = tl.maximum(piece * PIECE, before)
    return tl.maximum(tl.minimum((piece + 1) * PIECE, before + cols) - first, 0).to(tl.float32)


@triton.jit
def moments_of_piece(h, mask, count, CENTER: tl.constexpr):
    """A piece's mean, what rounding took from it, and the sum of squared distances from it; without CENTER the sum of squares."""
    if CENTER:
        count = tl.maximum(count, 1.0)
        mean = tl.sum(h, axis=0) / count
        distance = tl.where(mask, h - mean, 0.0)
        total, squares = tl.reduce((distance, distance * distance), 0, add_pairs)
        return mean, total / count, squares - total / count * total
    else:
        return tl.sum(h * h, axis=0), 0.0, 0.0


@triton.jit
def moments_of_row(x, y, z, row, pieces, x_stride, cols, CENTER: tl.constexpr, PIECE: tl.constexpr, LIST: tl.constexpr,
                   UNIT: tl.constexpr):
    """The mean, as a sum of two numbers, and the sum of squared distances from it, of what moments_of_piece() says of a row's pieces (Chan
    et al., Updating formulae, 1979)."""
    piece = tl.arange(0, LIST)
    if CENTER:
        count = tl.where(piece < pieces, elements_of_pieces(row, x_stride, cols, piece, PIECE, UNIT), 0.0)
        x = tl.where(piece < pieces, x, 0.0)
        reference = tl.sum(x * count, axis=0) / cols
        mean = tl.where(piece < pieces, (x - reference) + y, 0.0)
        offset = tl.sum(mean * count, axis=0) / cols
        apart = mean - offset
        return reference, offset, tl.sum(tl.where(piece < pieces, z + apart * apart * count, 0.0), axis=0)
    else:
        return 0.0, 0.0, tl.sum(tl.where(piece < pieces, x, 0.0), axis=0)


@triton.jit
def finish_piece(out_ptr, sum_ptr, scale_ptr, h, weight, bias, at, mask, row, out_stride, sum_stride, cols, eps, reference, offset,
                 squares, CENTER: tl.constexpr, WEIGHT: tl.constexpr, BIAS: tl.constexpr, ACTIVATION: tl.constexpr, L2: tl.constexpr,
                 UNIT: tl.constexpr):
    row = row.to(tl.int64)
    store_sum(sum_ptr, begin_aligned(row * sum_stride, UNIT)[0] + at, h, mask)
    if CENTER:
        h = (h - reference) - offset
    y = h * row_factor(squares, cols, eps, L2)
    y = divide(finish(y, weight, bias, WEIGHT, BIAS, ACTIVATION), scale_ptr)
    tl.store(out_ptr + begin_aligned(row * out_stride, UNIT)[0] + at, quantised(y, out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def shared_row(out_ptr, x_ptr, residual_ptr, sum_ptr, scale_ptr, weight_ptr, bias_ptr, out_stride, x_stride, residual_stride,
               sum_stride, rows, cols, eps, counters_ptr, CENTER: tl.constexpr, ACTIVATION: tl.constexpr, L2: tl.constexpr,
               PIECE: tl.constexpr, LIST: tl.constexpr, UNIT: tl.constexpr):
    """A piece of a row that programs share, and for the last program the pieces that others have left."""
    NUMBERS: tl.constexpr = 3 if CENTER else 1
    WEIGHT: tl.constexpr = weight_ptr is not None
    BIAS: tl.constexpr = bias_ptr is not None
    EARLY: tl.constexpr = PIECE <= 16384  # registers hold the weights, too, while the program waits
    pieces = tl.num_programs(0) // rows
    row, piece = begin_piece(counters_ptr, pieces, NUMBERS)
    h, at, mask = load_piece(x_ptr, residual_ptr, row, piece, x_stride, residual_stride, cols, PIECE, UNIT)
    if EARLY:
        weight = load_vector(weight_ptr, at, mask)
        bias = load_vector(bias_ptr, at, mask)
    x, y, z = moments_of_piece(h, mask, elements_of_pieces(row, x_stride, cols, piece, PIECE, UNIT), CENTER)
    tell_piece(counters_ptr, row, piece, pieces, x, y, z, 0.0, 0.0, NUMBERS)
    done, xs, ys, zs, _, _ = told_of_row(counters_ptr, row, pieces, NUMBERS, LIST)
    ended = end_of_piece(counters_ptr, row, piece, pieces, done, NUMBERS)
    if done:
        if not EARLY:
            weight = load_vector(weight_ptr, at, mask)
            bias = load_vector(bias_ptr, at, mask)
        reference, offset, squares = moments_of_row(xs, ys, zs, row, pieces, x_stride, cols, CENTER, PIECE, LIST, UNIT)
        finish_piece(out_ptr, sum_ptr, scale_ptr, h, weight, bias, at, mask, row, out_stride, sum_stride, cols, eps, reference, offset,
                     squares, CENTER, WEIGHT, BIAS, ACTIVATION, L2, UNIT)
    if ended > 1:
        for number in range(rows * pieces):
            row = number // pieces
            if is_left(counters_ptr, row, number % pieces, pieces, NUMBERS):
                h, at, mask = load_piece(x_ptr, residual_ptr, row, number % pieces, x_stride, residual_stride, cols, PIECE, UNIT)
                weight = load_vector(weight_ptr, at, mask)
                bias = load_vector(bias_ptr, at, mask)
                _, xs, ys, zs, _, _ = told_of_row(counters_ptr, row, pieces, NUMBERS, LIST)
                reference, offset, squares = moments_of_row(xs, ys, zs, row, pieces, x_stride, cols, CENTER, PIECE, LIST, UNIT)
                finish_piece(out_ptr, sum_ptr, scale_ptr, h, weight, bias, at, mask, row, out_stride, sum_stride, cols, eps, reference,
                             offset, squares, CENTER, WEIGHT, BIAS, ACTIVATION, L2, UNIT)
    if ended > 0:
        set_back(counters_ptr, rows, pieces, NUMBERS)


@triton.jit
def row_read_twice(out_ptr, x_ptr, residual_ptr, sum_ptr, scale_ptr, weight_ptr, bias_ptr, out_stride, x_stride, residual_stride,
                   sum_stride, rows, cols, eps, counters_ptr, CENTER: tl.constexpr, ACTIVATION: tl.constexpr, L2: tl.constexpr,
                   PIECE: tl.constexpr, LIST: tl.constexpr, UNIT: tl.constexpr):
    """The programs that begin first tell what they find of a piece each, the others wait for what is told of a row. These take the pieces in
    the other direction, as the last ones are still in the cache."""
    NUMBERS: tl.constexpr = 3 if CENTER else 1
    pieces = tl.num_programs(0) // (2 * rows)
    number = tl.atomic_add(counters_ptr, 1, sem="relaxed")
    if number < rows * pieces:
        row = number // pieces
        piece = number % pieces
        h, at, mask = load_piece(x_ptr, residual_ptr, row, piece, x_stride, residual_stride, cols, PIECE, UNIT)
        x, y, z = moments_of_piece(h, mask, elements_of_pieces(row, x_stride, cols, piece, PIECE, UNIT), CENTER)
        if is_last_piece(counters_ptr, row, piece, pieces, x, y, z, NUMBERS):
            xs, ys, zs = numbers_of_pieces(counters_ptr, row, pieces, NUMBERS, LIST)
            reference, offset, squares = moments_of_row(xs, ys, zs, row, pieces, x_stride, cols, CENTER, PIECE, LIST, UNIT)
            tell_row(counters_ptr, row, pieces, squares, reference, offset, NUMBERS)
    else:
        number = 2 * rows * pieces - 1 - number
        row = number // pieces
        h, at, mask = load_piece(x_ptr, residual_ptr, row, number % pieces, x_stride, residual_stride, cols, PIECE, UNIT)
        weight = load_vector(weight_ptr, at, mask)
        bias = load_vector(bias_ptr, at, mask)
        squares = number_of_row(counters_ptr, row, pieces, 0, NUMBERS)
        reference = 0.0
        offset = 0.0
        if CENTER:
            reference = number_of_row(counters_ptr, row, pieces, 1, NUMBERS)
            offset = number_of_row(counters_ptr, row, pieces, 2, NUMBERS)
        finish_piece(out_ptr, sum_ptr, scale_ptr, h, weight, bias, at, mask, row, out_stride, sum_stride, cols, eps, reference, offset,
                     squares, CENTER, weight_ptr is not None, bias_ptr is not None, ACTIVATION, L2, UNIT)
    end_of_program(counters_ptr, tl.num_programs(0), words_read_twice(rows, pieces, NUMBERS))


@triton.autotune(configs=configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting})
@triton.heuristics({
    "UNIT": unit,
    "BLOCK": lambda args: extent(args["cols"], args["x_ptr"].element_size(),
                                 args["num_warps"] * args["num_ctas"], args["ROWS"], args["UNIT"]),
    "EVEN": lambda args: args["BLOCK"] == args["cols"],
    "PARTS": lambda args: args["num_ctas"],
    "WARPS": lambda args: args["num_warps"],
    "LIST": kept_pieces,
})
@triton.jit
def norm(out_ptr, x_ptr, residual_ptr, sum_ptr, scale_ptr, scales_ptr, weight_ptr, bias_ptr, out_stride, x_stride,
         residual_stride, sum_stride, rows, cols, eps, rows_class, CENTER: tl.constexpr, ACTIVATION: tl.constexpr,
         BLOCK: tl.constexpr, ROWS: tl.constexpr, STAGES: tl.constexpr, PIECE: tl.constexpr, EVICTION: tl.constexpr,
         EVEN: tl.constexpr, L2: tl.constexpr = False, PARTS: tl.constexpr = 1, WARPS: tl.constexpr = 1,
         UNIT: tl.constexpr = 1, LIST: tl.constexpr = 0, counters_ptr=None):
    """RMSNorm, with CENTER LayerNorm, with L2 the norm by length."""
    if LIST > 0 and STAGES == 0:
        row_read_twice(out_ptr, x_ptr, residual_ptr, sum_ptr, scale_ptr, weight_ptr, bias_ptr, out_stride, x_stride, residual_stride,
                       sum_stride, rows, cols, eps, counters_ptr, CENTER, ACTIVATION, L2, PIECE, LIST, UNIT)
    elif LIST > 0:
        shared_row(out_ptr, x_ptr, residual_ptr, sum_ptr, scale_ptr, weight_ptr, bias_ptr, out_stride, x_stride, residual_stride,
                   sum_stride, rows, cols, eps, counters_ptr, CENTER, ACTIVATION, L2, PIECE, LIST, UNIT)
    elif PIECE > 0:
        row_in_pieces(out_ptr, x_ptr, residual_ptr, sum_ptr, scale_ptr, scales_ptr, weight_ptr, bias_ptr, out_stride,
                      x_stride, residual_stride, sum_stride, cols, eps, CENTER, ACTIVATION, L2, PIECE, STAGES, UNIT)
    else:
        col = columns(BLOCK, PARTS, WARPS)
        mask = inside(col, cols, EVEN)
        weight = load_vector(weight_ptr, col, mask)
        bias = load_vector(bias_ptr, col, mask)
        WEIGHT: tl.constexpr = weight_ptr is not None
        BIAS: tl.constexpr = bias_ptr is not None
        if STAGES == 0:
            whole_rows(out_ptr, x_ptr, residual_ptr, sum_ptr, scale_ptr, scales_ptr, weight, bias, tl.program_id(0),
                       out_stride, x_stride, residual_stride, sum_stride, rows, cols, eps, CENTER, WEIGHT, BIAS,
                       ACTIVATION, L2, BLOCK, ROWS, PARTS, WARPS, EVICTION, EVEN, UNIT)
        else:
            for tile in tl.range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0), num_stages=STAGES):
                whole_rows(out_ptr, x_ptr, residual_ptr, sum_ptr, scale_ptr, scales_ptr, weight, bias, tile, out_stride,
                           x_stride, residual_stride, sum_stride, rows, cols, eps, CENTER, WEIGHT, BIAS, ACTIVATION, L2,
                           BLOCK, ROWS, PARTS, WARPS, EVICTION, EVEN, UNIT)
