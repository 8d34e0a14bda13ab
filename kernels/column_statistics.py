"""Variances and means of columns, and the first places of their largest or smallest elements.

As reduce_columns of reduce.py: `outer` matrices of rows x cols, cols results each; PARTS programs share the rows of COLS columns, and the
one that comes last puts together what they leave, in order. Arithmetic is fp32. A program goes over its rows once, and adds up their
distances from the mean of its first ones and the squares of these: Chan et al., Algorithms for computing the sample variance, 1983.
"""

import triton
import triton.language as tl

from reduce import (NOWHERE, column_configs, columns_of_program, deep, first_extremes, first_larger, first_smaller, first_so_far,
                    fitting_columns, height, is_last, is_tall, neutral)
from tiles import add_pairs


def configs():
    """Those of reduce_columns with 32 elements a thread at most, which are kept twice."""
    return [c for c in column_configs() if c.kwargs["ROWS"] * c.kwargs["COLS"] <= 1024 * c.num_warps]


def configs_of_extremes():
    """Those that load a step ahead: ptxas sends off a step's own loads one after the other, between their comparisons."""
    return [c for c in configs() if c.kwargs["STAGES"] == 2 or c.kwargs["ROWS"] <= 2]


@triton.jit
def moments(x_ptr, x_stride_1, rows, cols, col, ROWS: tl.constexpr):
    """Number, mean, and squared differences from it of columns whose rows are one tile."""
    row = tl.arange(0, ROWS)[:, None]
    x = tl.load(x_ptr + row.to(tl.int64) * x_stride_1 + col, mask=(row < rows) & (col < cols), other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / rows
    left = tl.where(row < rows, x - mean[None, :], 0.0)
    return tl.full(mean.shape, rows.to(tl.float32), tl.float32), mean, tl.sum(left * left, axis=0)


@triton.jit
def moments_about(reference, distances, squares, count):
    """Mean and squared differences from it of `count` elements, of their distances from a number and their squares, all added up."""
    offset = distances / count
    squares -= offset * distances
    return reference + offset, tl.where(squares < 0, 0.0, squares)  # a NaN stays


@triton.jit
def moments_of_part(x_ptr, x_stride_1, rows, cols, col, part, parts, ROWS: tl.constexpr, COLS: tl.constexpr, STAGES: tl.constexpr):
    """The same of a program's part of the rows: of distances from the mean of its first tile."""
    row = tl.arange(0, ROWS)[:, None]
    left = rows - part * ROWS
    x_ptrs = x_ptr + (part * ROWS + row).to(tl.int64) * x_stride_1 + col
    x = tl.load(x_ptrs, mask=(row < left) & (col < cols), other=0.0).to(tl.float32)
    reference = tl.sum(x, axis=0) / tl.minimum(left, ROWS)
    distances = tl.where(row < left, x - reference[None, :], 0.0)
    squares = distances * distances
    for first in tl.range(parts * ROWS, left, parts * ROWS, num_stages=STAGES):
        x_ptrs += (parts * ROWS).to(tl.int64) * x_stride_1
        x = tl.load(x_ptrs, mask=(row < left - first) & (col < cols), other=0.0).to(tl.float32)
        distance = tl.where(row < left - first, x - reference[None, :], 0.0)
        distances += distance
        squares += distance * distance
    whole = rows // (parts * ROWS)
    count = (whole * ROWS + tl.minimum(tl.maximum(rows - (whole * parts + part) * ROWS, 0), ROWS)).to(tl.float32)
    distances, squares = tl.reduce((distances, squares), 0, add_pairs)
    mean, squares = moments_about(reference, distances, squares, count)
    return tl.full(mean.shape, count, tl.float32), mean, squares


@triton.autotune(configs=configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting_columns})
@triton.heuristics({"HEIGHT": height, "WHOLE": is_tall, "DEEP": deep})
@triton.jit
def column_variance(out_ptr, mean_ptr, x_ptr, out_stride, mean_stride, x_stride, x_stride_1, outer, rows, cols, correction, rows_class,
                    partials_ptr, counters_ptr, ROWS: tl.constexpr, COLS: tl.constexpr, PROGRAMS: tl.constexpr, STAGES: tl.constexpr,
                    HEIGHT: tl.constexpr, WHOLE: tl.constexpr, DEEP: tl.constexpr):
    group, matrix, col = columns_of_program(outer, cols, COLS)
    part = tl.program_id(1)
    parts = 1 if WHOLE else tl.num_programs(1)
    x_ptr += matrix * x_stride
    if WHOLE:
        n, mean, squares = moments(x_ptr, x_stride_1, rows, cols, col, HEIGHT)
    else:
        n, mean, squares = moments_of_part(x_ptr, x_stride_1, rows, cols, col, part, parts, HEIGHT, COLS, STAGES)
    last = True
    if parts > 1:
        lane = tl.arange(0, COLS)
        left = partials_ptr + group.to(tl.int64) * parts * (3 * COLS) + lane
        tl.store(left + (3 * part) * COLS, n)
        tl.store(left + (3 * part + 1) * COLS, mean)
        tl.store(left + (3 * part + 2) * COLS, squares)
        last = is_last(counters_ptr, group, parts)
        if last:
            # Of all means from this program's.
            reference = mean[None, :]
            distances = tl.zeros([DEEP, COLS], tl.float32)
            squares_of_all = tl.zeros([DEEP, COLS], tl.float32)
            for first in range(0, parts, DEEP):
                other = (first + tl.arange(0, DEEP))[:, None]
                at = left[None, :] + other * (3 * COLS)
                n_more = tl.load(at, mask=other < parts, other=0.0, cache_modifier=".cg")
                distance = tl.load(at + COLS, mask=other < parts, other=0.0, cache_modifier=".cg") - reference
                squares_more = tl.load(at + 2 * COLS, mask=other < parts, other=0.0, cache_modifier=".cg")
                distances += n_more * distance
                squares_of_all += squares_more + n_more * distance * distance
            distances_of_all, squares = tl.reduce((distances, squares_of_all), 0, add_pairs)
            mean, squares = moments_about(mean, distances_of_all, squares, rows.to(tl.float32))
    if last:
        variance = squares / tl.maximum(rows - correction, 0)
        tl.store(out_ptr + matrix * out_stride + col, variance[None, :].to(out_ptr.dtype.element_ty), mask=col < cols)
        if mean_ptr is not None:
            tl.store(mean_ptr + matrix * mean_stride + col, mean[None, :].to(mean_ptr.dtype.element_ty), mask=col < cols)


@triton.autotune(configs=configs_of_extremes(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting_columns})
@triton.heuristics({"HEIGHT": height, "WHOLE": is_tall, "DEEP": deep})
@triton.jit
def column_extreme(index_ptr, out_ptr, x_ptr, index_stride, out_stride, x_stride, x_stride_1, outer, rows, cols, rows_class, partials_ptr,
                   counters_ptr, KIND: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, PROGRAMS: tl.constexpr,
                   STAGES: tl.constexpr, HEIGHT: tl.constexpr, WHOLE: tl.constexpr, DEEP: tl.constexpr):
    none: tl.constexpr = neutral(KIND)
    group, matrix, col = columns_of_program(outer, cols, COLS)
    part = tl.program_id(1)
    parts = 1 if WHOLE else tl.num_programs(1)
    x_ptr += matrix * x_stride
    row = (part * HEIGHT + tl.arange(0, HEIGHT))[:, None]
    place = tl.broadcast_to(row, [HEIGHT, COLS])
    if WHOLE:
        value = tl.load(x_ptr + row.to(tl.int64) * x_stride_1 + col, mask=(row < rows) & (col < cols), other=none).to(tl.float32)
    else:
        value = tl.full([HEIGHT, COLS], none, tl.float32)
        for first in tl.range(part * HEIGHT, rows, parts * HEIGHT, num_stages=STAGES):
            row = (first + tl.arange(0, HEIGHT))[:, None]
            x = tl.load(x_ptr + row.to(tl.int64) * x_stride_1 + col, mask=(row < rows) & (col < cols), other=none).to(tl.float32)
            value, place = first_so_far(value, place, x, tl.broadcast_to(row, [HEIGHT, COLS]), KIND)
    value, place = first_extremes(value, place, 0, KIND)
    last = True
    if parts > 1:
        left = partials_ptr + group.to(tl.int64) * parts * (3 * COLS) + tl.arange(0, COLS)
        tl.store(left + (3 * part) * COLS, value)
        tl.store(left + (3 * part + 1) * COLS, place.to(tl.float32, bitcast=True))
        last = is_last(counters_ptr, group, parts)
        if last:
            value = tl.full([COLS], none, tl.float32)
            place = tl.full([COLS], NOWHERE, tl.int32)
            for first in range(0, parts, DEEP):
                other = (first + tl.arange(0, DEEP))[:, None]
                at = left[None, :] + other * (3 * COLS)
                value_more = tl.load(at, mask=other < parts, other=none, cache_modifier=".cg")
                bits = tl.load(at + COLS, mask=other < parts, other=0.0, cache_modifier=".cg").to(tl.int32, bitcast=True)
                value_more, place_more = first_extremes(value_more, tl.where(other < parts, bits, NOWHERE), 0, KIND)
                if KIND == "max":
                    value, place = first_larger(value, place, value_more, place_more)
                else:
                    value, place = first_smaller(value, place, value_more, place_more)
    if last:
        tl.store(index_ptr + matrix * index_stride + col, place[None, :].to(index_ptr.dtype.element_ty), mask=col < cols)
        if out_ptr is not None:
            tl.store(out_ptr + matrix * out_stride + col, value[None, :].to(out_ptr.dtype.element_ty), mask=col < cols)
