"""Sums, means, maxima and minima along the rows or the columns of matrices.

reduce_columns takes `outer` matrices of rows x cols, one behind the other, to cols results each. A program takes COLS columns
and a share of the rows, ROWS at a time (0: all of few ones); num_programs(1) programs share the columns' rows. Each leaves its
results as a row of partials, and the one that comes last puts them together in the order of the shares: results are the same in
every run. counters: an int32 for each group of COLS columns, zero before and after each launch.

reduce_rows takes each row to one result, and with INDEX to the first place where it stands. Few wide rows are divided
over the blocks of clusters. Arithmetic is fp32; a NaN is the maximum and minimum of whatever it stands among.

reduce_all takes all elements to one result: each program leaves that of its blocks, and the last one puts them together.
"""

import triton
import triton.language as tl

from tiles import NARROW, SHARED_PIECES, mostly_filled, shares_pieces, united


@triton.jit
def larger(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def smaller(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def combined(a, b, KIND: tl.constexpr):
    if KIND == "max":
        return larger(a, b)
    elif KIND == "min":
        return smaller(a, b)
    else:
        return a + b


@triton.jit
def reduced(x, axis: tl.constexpr, KIND: tl.constexpr):
    if KIND == "max":
        return tl.reduce(x, axis, larger)
    elif KIND == "min":
        return tl.reduce(x, axis, smaller)
    else:
        return tl.sum(x, axis=axis)


@triton.jit
def neutral(KIND: tl.constexpr):
    if KIND == "max":
        return float("-inf")
    elif KIND == "min":
        return float("inf")
    else:
        return 0.0


MOST_ROWS = 16  # of a tile of all rows


def column_configs():
    found = []
    for rows, cols, warps in [(16, 256, 4), (8, 512, 4), (32, 128, 4), (32, 256, 8), (16, 512, 8), (64, 128, 8),
                              (64, 64, 4), (8, 256, 4), (128, 32, 4), (32, 512, 8), (64, 256, 8), (16, 128, 4), (4, 1024, 8)]:
        for programs in [2, 4, 8]:
            for stages in [1, 2]:
                how = {"ROWS": rows, "COLS": cols, "PROGRAMS": programs, "STAGES": stages}
                found.append(triton.Config(how, num_warps=warps))
    for rows, cols, warps in [(128, 64, 4), (128, 64, 8), (256, 64, 8), (256, 32, 4), (256, 32, 8), (128, 128, 8), (64, 64, 8),
                              (64, 32, 4)]:
        for programs in [2, 1]:
            for stages in [1, 2]:
                how = {"ROWS": rows, "COLS": cols, "PROGRAMS": programs, "STAGES": stages}
                found.append(triton.Config(how, num_warps=warps))
    for rows, cols, warps in [(128, 64, 16), (64, 64, 16), (64, 128, 16), (32, 128, 16), (128, 32, 8), (128, 32, 16), (256, 32, 16)]:
        for stages in [1, 2]:
            how = {"ROWS": rows, "COLS": cols, "PROGRAMS": 2, "STAGES": stages}
            found.append(triton.Config(how, num_warps=warps))
    for rows, warps, programs in [(256, 8, 1), (256, 8, 2), (128, 4, 1), (128, 4, 2), (128, 4, 4)]:
        for stages in [1, 2]:
            how = {"ROWS": rows, "COLS": 24, "PROGRAMS": programs, "STAGES": stages}
            found.append(triton.Config(how, num_warps=warps))
    for rows, cols, warps in [(1, 1024, 4), (2, 1024, 4), (1, 2048, 8), (0, 256, 2), (0, 256, 4), (0, 512, 4), (0, 512, 8),
                              (0, 1024, 8), (0, 2048, 8)]:  # few rows
        how = {"ROWS": rows, "COLS": cols, "PROGRAMS": 8, "STAGES": 1}
        found.append(triton.Config(how, num_warps=warps))
    for cols in [1, 2, 4, 8, 16]:
        for elements, warps, programs in [(4096, 4, 2), (2048, 4, 4), (8192, 8, 1), (8192, 8, 2), (4096, 8, 2)]:
            for stages in [1, 2]:
                how = {"ROWS": elements // cols, "COLS": cols, "PROGRAMS": programs, "STAGES": stages}
                found.append(triton.Config(how, num_warps=warps))
    return found


def fitting_columns(configs, named_args, **kwargs):
    """Groups of columns, and of rows, that are filled to more than a half; of few rows tiles of all of them, of 32 elements a thread at
    most."""
    rows = named_args["rows"]
    filled = [c for c in configs if mostly_filled(named_args["cols"], c.kwargs["COLS"])]
    kept = []
    for config in filled:
        if config.kwargs["ROWS"] > 0:
            fits = config.kwargs["ROWS"] < 2 * rows
        else:
            fits = 0 < rows <= MOST_ROWS and rows * config.kwargs["COLS"] <= 1024 * config.num_warps
        if fits:
            kept.append(config)
    return kept if len(kept) > 0 else filled[:1]


def height(args):
    """HEIGHT: rows of a tile; with ROWS 0 all of few ones."""
    return args["ROWS"] if args["ROWS"] > 0 else min(max(args["rows"], 1), MOST_ROWS)


def is_tall(args):
    """Whether all rows are one tile."""
    return args["rows"] <= height(args)


@triton.jit
def columns_of_program(outer, cols, COLS: tl.constexpr):
    """The number of the program's group of columns among those of all matrices, its matrix, and its columns. Of one matrix nothing is
    divided, which takes as long as a load."""
    group = tl.program_id(0)
    matrix = 0
    first = group
    if outer != 1:
        groups = tl.cdiv(cols, COLS)
        matrix = group // groups
        first = group % groups
    return group, tl.cast(matrix, tl.int64), (first * COLS + tl.arange(0, COLS))[None, :]


@triton.jit
def is_last(counters_ptr, group, parts):
    """Whether the other programs of the group have left their results. Sets the counter back for the last one."""
    tl.debug_barrier()
    last = tl.atomic_add(counters_ptr + group, 1) == parts - 1
    if last:
        tl.store(counters_ptr + group, 0)
    return last


def deep(args):
    """Partial results of columns that the last program puts together at a time: more where few columns have many of them."""
    return max(args["ROWS"], 8) if args["cols"] <= 4 * args["COLS"] else 8


@triton.autotune(configs=column_configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting_columns})
@triton.heuristics({"HEIGHT": height, "WHOLE": is_tall, "DEEP": deep})
@triton.jit
def reduce_columns(out_ptr, x_ptr, out_stride, x_stride, x_stride_1, outer, rows, cols, rows_class, partials_ptr,
                   counters_ptr, KIND: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, PROGRAMS: tl.constexpr,
                   STAGES: tl.constexpr, HEIGHT: tl.constexpr, WHOLE: tl.constexpr, DEEP: tl.constexpr):
    group, matrix, col = columns_of_program(outer, cols, COLS)
    part = tl.program_id(1)
    parts = 1 if WHOLE else tl.num_programs(1)
    x_ptr += matrix * x_stride
    none: tl.constexpr = neutral(KIND)
    row = (part * HEIGHT + tl.arange(0, HEIGHT))[:, None]
    if WHOLE:
        mask = (row < rows) & (col < cols)
        acc = tl.load(x_ptr + row.to(tl.int64) * x_stride_1 + col, mask=mask, other=none).to(tl.float32)
    else:
        acc = tl.full([HEIGHT, COLS], none, tl.float32)
        for first in tl.range(part * HEIGHT, rows, parts * HEIGHT, num_stages=STAGES):
            row = (first + tl.arange(0, HEIGHT))[:, None]
            x = tl.load(x_ptr + row.to(tl.int64) * x_stride_1 + col, mask=(row < rows) & (col < cols), other=none)
            acc = combined(acc, x.to(tl.float32), KIND)
    result = reduced(acc, 0, KIND)[None, :]
    last = True
    if parts > 1:
        place = partials_ptr + group.to(tl.int64) * parts * COLS + tl.arange(0, COLS)[None, :]
        tl.store(place + part * COLS, result)
        last = is_last(counters_ptr, group, parts)
        if last:
            result = tl.full([1, COLS], none, tl.float32)
            for first in range(0, parts, DEEP):
                other = first + tl.arange(0, DEEP)[:, None]
                share = tl.load(place + other * COLS, mask=other < parts, other=none, cache_modifier=".cg")
                result = combined(result, reduced(share, 0, KIND)[None, :], KIND)
    if last:
        if KIND == "mean":
            result = result / rows
        tl.store(out_ptr + matrix * out_stride + col, result.to(out_ptr.dtype.element_ty), mask=col < cols)


MOST_PARTS = tl.constexpr(1024)  # of a row, at most
NOWHERE = tl.constexpr(2147483647)


@triton.jit
def part_of_rows(rows, ROWS: tl.constexpr, WIDTH: tl.constexpr, PROGRAMS: tl.constexpr):
    """The program's tile of rows, and where its first piece of them begins and the next one after it: with PROGRAMS the programs of a
    row (PROGRAMS a multiprocessor at most in all) take every n-th one."""
    if PROGRAMS > 0:
        return tl.program_id(0) % rows, tl.program_id(0) // rows * WIDTH, tl.num_programs(0) // rows * WIDTH
    else:
        return tl.program_id(0), 0, WIDTH


def row_configs():
    found = []
    for rows, cols, warps in [(1, 1024, 4), (1, 2048, 4), (1, 4096, 8), (1, 8192, 8), (2, 1024, 4), (4, 512, 4), (8, 256, 4),
                              (16, 128, 4), (32, 64, 4), (1, 512, 2), (1, 4096, 4), (1, 8192, 16), (1, 1024, 1), (1, 1024, 2),
                              (1, 512, 1), (1, 2048, 2), (4, 1024, 4), (4, 128, 1), (32, 128, 8)]:
        for stages in [1, 3]:
            found.append(triton.Config({"ROWS": rows, "WIDTH": cols, "STAGES": stages, "PROGRAMS": 0}, num_warps=warps))
    for cols in [1, 2, 4, 8, 16, 32]:
        for elements, warps in [(1024, 4), (512, 4), (2048, 4), (4096, 4), (2048, 8), (4096, 8), (256, 2)]:
            narrow = {"ROWS": elements // cols, "WIDTH": cols, "STAGES": 1, "PROGRAMS": 0}
            found.append(triton.Config(narrow, num_warps=warps))
    for rows, warps in [(512, 4), (1024, 4), (256, 4), (128, 4), (1024, 8)]:  # a thread goes along rows of its own
        for stages in [1, 3]:
            found.append(triton.Config({"ROWS": rows, "WIDTH": 1, "STAGES": stages, "PROGRAMS": 0}, num_warps=warps))
    for cols, warps, programs in [(2048, 4, 4), (4096, 8, 2), (4096, 4, 2), (8192, 8, 1), (1024, 4, 4)]:
        for stages in [1, 3]:
            shared = {"ROWS": 1, "WIDTH": cols, "STAGES": stages, "PROGRAMS": programs}
            found.append(triton.Config(shared, num_warps=warps))
    for blocks, warps, cols in SHARED_PIECES + [(8, 8, 16384), (4, 8, 8192)]:
        divided = {"ROWS": 1, "WIDTH": cols, "STAGES": 2, "PROGRAMS": 0}
        found.append(triton.Config(divided, num_warps=warps, num_ctas=blocks))
    return found


def fitting_rows(configs, named_args, **kwargs):
    """Pieces that a row fills to more than a half; several programs or a cluster a row where rows are few."""
    kept = []
    for config in configs:
        width = config.kwargs["WIDTH"]
        if config.kwargs["PROGRAMS"] > 0:
            if named_args["rows_class"] == 0 and named_args["cols"] >= 4 * width:
                kept.append(config)
        elif config.num_ctas > 1:
            if shares_pieces(width // 2, named_args):
                kept.append(config)
        elif mostly_filled(named_args["cols"], width) or width == 1 and named_args["cols"] <= NARROW:
            kept.append(config)
    return kept


@triton.jit
def first_of(value_a, index_a, value_b, index_b, SIGN: tl.constexpr):
    """The one that is larger (SIGN 1) or smaller (-1), of equal ones the first; a NaN before all."""
    a_is_nan = value_a != value_a
    b_is_nan = value_b != value_b
    better = (value_a * SIGN > value_b * SIGN) | (a_is_nan & (b_is_nan == 0))
    equal = (value_a == value_b) | (a_is_nan & b_is_nan)
    take_a = better | (equal & (index_a < index_b))
    return tl.where(take_a, value_a, value_b), tl.where(take_a, index_a, index_b)


@triton.jit
def first_larger(value_a, index_a, value_b, index_b):
    return first_of(value_a, index_a, value_b, index_b, 1)


@triton.jit
def first_smaller(value_a, index_a, value_b, index_b):
    return first_of(value_a, index_a, value_b, index_b, -1)


@triton.jit
def first_extremes(value, place, axis: tl.constexpr, KIND: tl.constexpr):
    if KIND == "max":
        return tl.reduce((value, place), axis, first_larger)
    else:
        return tl.reduce((value, place), axis, first_smaller)


@triton.jit
def first_so_far(value, place, x, at, KIND: tl.constexpr):
    """The same for places `at` that lie behind `place`: of equal ones, and of NaNs, the former stays."""
    if KIND == "max":
        taken = ~(x <= value) & (value == value)
    else:
        taken = ~(x >= value) & (value == value)
    return tl.where(taken, x, value), tl.where(taken, at, place)


def is_whole(args):
    """Whether a row is one piece."""
    return args["cols"] <= args["WIDTH"]


@triton.autotune(configs=row_configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting_rows})
@triton.heuristics({"WHOLE": is_whole})
@triton.jit
def reduce_rows(out_ptr, index_ptr, x_ptr, x_stride, rows, cols, rows_class, partials_ptr, counters_ptr, KIND: tl.constexpr,
                ROWS: tl.constexpr, WIDTH: tl.constexpr, STAGES: tl.constexpr, PROGRAMS: tl.constexpr, WHOLE: tl.constexpr):
    tile, begin, step = part_of_rows(rows, ROWS, WIDTH, PROGRAMS)
    row = (tile * ROWS + tl.arange(0, ROWS))[:, None]
    x_row = x_ptr + row.to(tl.int64) * x_stride
    none: tl.constexpr = neutral(KIND)
    at = tl.broadcast_to(begin + tl.arange(0, WIDTH)[None, :], [ROWS, WIDTH])
    if WHOLE:
        acc = tl.load(x_row + at, mask=(row < rows) & (at < cols), other=none).to(tl.float32)
    else:
        acc = tl.full([ROWS, WIDTH], none, tl.float32)
        for first in tl.range(begin, cols, step, num_stages=STAGES):
            col = first + tl.arange(0, WIDTH)[None, :]
            mask = (row < rows) & (col < cols)
            x = tl.load(x_row + col, mask=mask, other=none).to(tl.float32)
            if index_ptr is not None:
                acc, at = first_so_far(acc, at, x, tl.broadcast_to(col, [ROWS, WIDTH]), KIND)
            else:
                acc = combined(acc, x, KIND)
    if index_ptr is not None:
        result, found = first_extremes(acc, at, 1, KIND)
    else:
        result = reduced(acc, 1, KIND)
    there = row < rows
    if PROGRAMS > 0:
        parts = tl.num_programs(0) // rows
        left = partials_ptr + tile * parts * 2
        part = begin // WIDTH
        tl.store(left + part + tl.arange(0, 1), result)
        if index_ptr is not None:
            tl.store(left + parts + part + tl.arange(0, 1), found.to(tl.float32, bitcast=True))
        last = is_last(counters_ptr, tile, parts)
        there = there & last
        if last:
            other = tl.arange(0, MOST_PARTS)[None, :]
            of_parts = tl.load(left + other, mask=other < parts, other=none, cache_modifier=".cg")
            if index_ptr is not None:
                places = tl.load(left + parts + other, mask=other < parts, other=0.0, cache_modifier=".cg").to(tl.int32, bitcast=True)
                result, found = first_extremes(of_parts, tl.where(other < parts, places, NOWHERE), 1, KIND)
            else:
                result = reduced(of_parts, 1, KIND)
    if index_ptr is not None:
        tl.store(index_ptr + row, found[:, None].to(index_ptr.dtype.element_ty), mask=there)
    if KIND == "mean":
        result = result / cols
    if out_ptr is not None:
        tl.store(out_ptr + row, result[:, None].to(out_ptr.dtype.element_ty), mask=there)


@triton.autotune(configs=row_configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting_rows})
@triton.heuristics({"WHOLE": is_whole})
@triton.jit
def row_variance(out_ptr, mean_ptr, x_ptr, x_stride, rows, cols, correction, rows_class, partials_ptr, counters_ptr,
                 ROWS: tl.constexpr, WIDTH: tl.constexpr, STAGES: tl.constexpr, PROGRAMS: tl.constexpr, WHOLE: tl.constexpr):
    """Variance of each row, and its mean. Of a row in one piece (WHOLE) the mean square of what is left after the mean is
    subtracted; of others each element corrects the mean and the squared differences of those before it at its place, and
    the places are put together, so that rows are read once."""
    tile, begin, step = part_of_rows(rows, ROWS, WIDTH, PROGRAMS)
    row = (tile * ROWS + tl.arange(0, ROWS))[:, None]
    x_row = x_ptr + row.to(tl.int64) * x_stride
    col = tl.arange(0, WIDTH)[None, :]
    there = row < rows
    if WHOLE:
        mask = (row < rows) & (col < cols)
        x = tl.load(x_row + col, mask=mask, other=0.0).to(tl.float32)
        mean = (tl.sum(x, axis=1) / cols)[:, None]
        left = tl.where(mask, x - mean, 0.0)
        squares = tl.sum(left * left, axis=1)[:, None]
    else:
        means = tl.zeros([ROWS, WIDTH], tl.float32)
        squares = tl.zeros([ROWS, WIDTH], tl.float32)
        count = 0.0
        for first in tl.range(begin, cols, step, num_stages=STAGES):
            mask = (row < rows) & (first + col < cols)
            x = tl.load(x_row + first + col, mask=mask, other=0.0).to(tl.float32)
            count += 1.0
            before = tl.where(mask, x - means, 0.0)
            means += before * (1.0 / count)
            squares += before * tl.where(mask, x - means, 0.0)
        counts = tl.broadcast_to(tl.maximum(cols - begin - col + step - 1, 0) // step, [ROWS, WIDTH]).to(tl.float32)
        number, mean, squares = tl.reduce((counts, means, squares), 1, united)
        if PROGRAMS > 0:
            parts = tl.num_programs(0) // rows
            left = partials_ptr + tile * parts * 3
            mine = begin // WIDTH + tl.arange(0, 1)
            tl.store(left + mine, number)
            tl.store(left + parts + mine, mean)
            tl.store(left + 2 * parts + mine, squares)
            last = is_last(counters_ptr, tile, parts)
            there = there & last
            if last:
                other = tl.arange(0, MOST_PARTS)[None, :]
                numbers = tl.load(left + other, mask=other < parts, other=0.0, cache_modifier=".cg")
                of_parts = tl.load(left + parts + other, mask=other < parts, other=0.0, cache_modifier=".cg")
                squares_of_parts = tl.load(left + 2 * parts + other, mask=other < parts, other=0.0, cache_modifier=".cg")
                number, mean, squares = tl.reduce((numbers, of_parts, squares_of_parts), 1, united)
        mean = mean[:, None]
        squares = squares[:, None]
    variance = squares / tl.maximum(cols - correction, 0)
    tl.store(out_ptr + row, variance.to(out_ptr.dtype.element_ty), mask=there)
    if mean_ptr is not None:
        tl.store(mean_ptr + row, mean.to(mean_ptr.dtype.element_ty), mask=there)


@triton.jit
def reduce_all(out_ptr, x_ptr, elements, partials_ptr, counters_ptr, KIND: tl.constexpr, BLOCK: tl.constexpr = 4096):
    """A program takes every num_programs(0)-th block; there are no more than BLOCK of them. The counter is zero before and after."""
    none: tl.constexpr = neutral(KIND)
    acc = tl.full([BLOCK], none, tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(elements, BLOCK), tl.num_programs(0)):
        at = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        acc = combined(acc, tl.load(x_ptr + at, mask=at < elements, other=none).to(tl.float32), KIND)
    programs = tl.num_programs(0)
    tl.store(partials_ptr + tl.program_id(0), reduced(acc, 0, KIND))
    if tl.atomic_add(counters_ptr, 1) == programs - 1:
        at = tl.arange(0, BLOCK)
        result = reduced(tl.load(partials_ptr + at, mask=at < programs, other=none, cache_modifier=".cg"), 0, KIND)
        if KIND == "mean":
            result = result / elements
        tl.store(out_ptr, result.to(out_ptr.dtype.element_ty))
        tl.store(counters_ptr, 0)
