"""Gradients of RMSNorm and LayerNorm along the rows of a matrix, those of weight and bias in the same launch.

With n = (h - mean(h)) * r, r = 1 / sqrt(variance(h) + eps) (RMSNorm: mean 0, the mean square), and g = dy * weight:

    dx = r * (g - mean(g) - n * mean(g * n))        (RMSNorm: without mean(g)), plus dsum, what came by the residual
    dweight = sum over rows of dy * n,  dbias = sum over rows of dy

Mean and r are computed again from h, which is read anyway. Where a row lies in several warps, its sums are those of
distances from one of its elements, so that mean, r, mean(g) and mean(g * n) take one exchange. A program takes every
num_programs(0)-th tile of ROWS rows, the loads of the next STAGES - 1 ahead, and keeps sums of dweight and dbias for
its rows in registers; it leaves them as a row of partials. With RELOAD it reads rows again, from the first-level cache,
once their sums are known, which leaves registers for wider ones. With PIECE > 0 a row is taken in pieces of so many
elements, twice, by a cluster where rows are few, and the sums stand in the row of partials, where the second-level
cache keeps them. Programs that have seen all programs begin then wait until all are done, and each adds up its share of
the columns of the partials, in the order of the programs: results are the same in every run. Nobody waits for a program
that has not begun: the shares of those that do not wait fall to the last one. Of one row the sums are the gradients.
With ROWS 0 a program has a piece of the columns of all of a few rows, and programs tell each other sums (row_pieces.py).

counters: two int32 that are zero before and after each launch: programs that left their sums, and BEGUN times those that
began; programs that found all of them, and BEGUN times those that did not wait.
"""

import triton
import triton.language as tl

from row_pieces import begin_row, end_of_piece, is_left, kept_pieces, keeps_pieces, set_back, tell_piece, told_of_row
from tiles import (NARROW, NARROW_TILES, SHARED_PIECES, add_pairs, columns, extent, in_line, inside, load_vector,
                   shares_pieces, sums_of_rows, warp_sums, without_negative)

IN_SHARED = 4  # stages from which on registers hold fewer rows than run ahead
FEW = 32  # rows whose columns are divided, at most
BEGUN = tl.constexpr(0x10000)  # in a counter of programs: one that has begun, or goes before all have begun


def configs():
    found = []
    for programs, warps, limit in [(1, 8, None), (2, 8, 128), (1, 16, 128), (2, 4, None), (4, 4, 128), (4, 8, 64),
                                   (2, 16, 64), (1, 32, 64), (1, 4, None), (2, 32, 32), (3, 4, 168), (3, 8, 80)]:
        for rows in [1, 2, 4, 8, 16, 32]:
            for stages in [2, 1, 3]:
                how = {"PROGRAMS": programs, "ROWS": rows, "STAGES": stages, "RELOAD": False, "PIECE": 0}
                found.append(triton.Config(how, num_warps=warps, maxnreg=limit))
        if programs * warps >= 16:
            how = {"PROGRAMS": programs, "ROWS": 1, "STAGES": 1, "RELOAD": True, "PIECE": 0}
            found.append(triton.Config(how, num_warps=warps, maxnreg=limit))
    for rows, warps in [tile for tile in NARROW_TILES if tile[1] >= 4]:
        for programs, limit in [(16 // warps, 128), (32 // warps, 64)]:
            for stages in [2, 1]:
                how = {"PROGRAMS": programs, "ROWS": rows, "STAGES": stages, "RELOAD": False, "PIECE": 0}
                found.append(triton.Config(how, num_warps=warps, maxnreg=limit))
    for blocks, warps, limit in [(2, 8, 128), (2, 8, None), (2, 16, 128), (4, 8, 128), (4, 8, None), (4, 16, 128), (8, 8, 128),
                                 (8, 16, 128), (16, 8, 128), (16, 16, 128)]:
        for stages in [2, 1, 3]:
            how = {"PROGRAMS": 1, "ROWS": 1, "STAGES": stages, "RELOAD": False, "PIECE": 0}
            found.append(triton.Config(how, num_warps=warps, maxnreg=limit, num_ctas=blocks))
            if limit == 128 and warps == 8:
                how = {"PROGRAMS": 2, "ROWS": 1, "STAGES": stages, "RELOAD": False, "PIECE": 0}
                found.append(triton.Config(how, num_warps=warps, maxnreg=limit, num_ctas=blocks))
    # Rows run ahead in shared memory, which leaves registers for more warps.
    for blocks, programs, warps in [(1, 4, 4), (1, 2, 8), (1, 1, 16), (2, 1, 16)]:
        for rows in [1, 2, 4, 8, 16, 32] if blocks == 1 else [1]:
            how = {"PROGRAMS": programs, "ROWS": rows, "STAGES": IN_SHARED, "RELOAD": False, "PIECE": 0}
            found.append(triton.Config(how, num_warps=warps, maxnreg=128, num_ctas=blocks))
    # All programs have to run at a time, as what those leave that end before the last begins is for that one alone to add up.
    for programs, warps, piece, limit in [(1, 32, 8192, None), (1, 16, 4096, None), (1, 32, 4096, None), (2, 8, 2048, 128)]:
        how = {"PROGRAMS": programs, "ROWS": 1, "STAGES": 1, "RELOAD": False, "PIECE": piece}
        found.append(triton.Config(how, num_warps=warps, maxnreg=limit))
    for warps, piece in [(4, 1024), (4, 2048), (8, 4096), (8, 8192), (16, 8192), (16, 16384), (32, 32768)]:
        how = {"PROGRAMS": 1, "ROWS": 0, "STAGES": 1, "RELOAD": False, "PIECE": piece}
        found.append(triton.Config(how, num_warps=warps))
    for blocks, warps, piece in SHARED_PIECES:
        how = {"PROGRAMS": 1, "ROWS": 1, "STAGES": 1, "RELOAD": False, "PIECE": piece}
        found.append(triton.Config(how, num_warps=warps, num_ctas=blocks))
    return found


def fitting(configs, named_args, **kwargs):
    """Where a thread has 4 to 32 elements of a tile, and registers for its rows, weights, sums and what comes next."""
    cols = named_args["cols"]
    size = named_args["x_ptr"].element_size()
    sums = 1
    if named_args["dbias_ptr"] is not None:
        sums = 2
    kept = []
    for config in configs:
        rows = config.kwargs["ROWS"]
        threads = 32 * config.num_warps
        block = extent(cols, size, config.num_warps * config.num_ctas, rows)
        each = rows * block / (threads * config.num_ctas)
        registers = 65536 // (threads * config.kwargs["PROGRAMS"])
        ahead = config.kwargs["STAGES"] - 1 if config.kwargs["STAGES"] < IN_SHARED else 0
        needed = each * (sums + 2.5 + size / 4 * (1 + 2 * ahead)) + 24
        if config.kwargs["RELOAD"]:
            needed = each * (sums + 0.5) + 24
        if rows == 0:
            if keeps_pieces(config, named_args) and named_args["rows"] <= FEW:
                kept.append(config)
        elif config.kwargs["PIECE"] > 0 and config.num_ctas > 1:
            if shares_pieces(config.kwargs["PIECE"], named_args):
                kept.append(config)
        elif config.kwargs["PIECE"] > 0:
            if cols >= 8192:
                kept.append(config)
        elif config.num_ctas > 1 and block < 4096 * config.num_ctas // config.kwargs["PROGRAMS"]:
            continue
        elif 4 <= each <= 40 and needed <= min(registers, 255) and (rows == 1 or rows * block <= 8192) and (rows <= 32 or cols <= NARROW):
            kept.append(config)
    if len(kept) == 0:
        return [c for c in configs if c.kwargs["ROWS"] == 1 and c.kwargs["STAGES"] == 1 and c.num_warps == 4][:1]
    return kept


@triton.jit
def add_up(partials_ptr, sums, cols, col, DEEP: tl.constexpr, COLS: tl.constexpr):
    """COLS columns of the partials' rows, DEEP of them at a time, added in order."""
    total = tl.zeros([DEEP, COLS], tl.float32)
    for first in tl.range(0, sums, DEEP, num_stages=2):
        row = first + tl.arange(0, DEEP)[:, None]
        mask = (row < sums) & (col < cols)
        total += tl.load(partials_ptr + row.to(tl.int64) * cols + col, mask=mask, other=0.0, cache_modifier=".cg")
    return tl.sum(total, axis=0)[None, :]


@triton.jit
def store_columns(out_ptr, col, result, mask):
    if out_ptr is not None:
        tl.store(out_ptr + col, result.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def wait_for_all(counter_ptr, programs):
    """Until all programs have gone on; how many did not wait."""
    gone_on = tl.atomic_add(counter_ptr, 0, sem="relaxed")
    while gone_on % BEGUN + gone_on // BEGUN < programs:
        gone_on = tl.atomic_add(counter_ptr, 0, sem="relaxed")
    return gone_on // BEGUN


@triton.jit
def add_up_groups(dweight_ptr, dbias_ptr, partials_ptr, counters_ptr, rank, programs, cols, DEEP: tl.constexpr,
                  COLS: tl.constexpr):
    """A program's share: every programs-th group of columns from the rank-th on, those of dweight before those of dbias. The
    last program adds up the shares of those that did not wait, too, and sets the counters back."""
    groups = tl.cdiv(cols, COLS)
    begin = 0
    end = 2 * groups
    if dweight_ptr is None:
        begin = groups
    if dbias_ptr is None:
        end = groups
    share = rank
    shares = rank + 1
    while share < shares:
        for group in range(begin + share, end, programs):
            of_bias = group // groups
            col = group % groups * COLS + tl.arange(0, COLS)[None, :]
            result = add_up(partials_ptr + of_bias.to(tl.int64) * programs * cols, programs, cols, col, DEEP, COLS)
            store_columns(dweight_ptr, col, result, (col < cols) & (of_bias == 0))
            store_columns(dbias_ptr, col, result, (col < cols) & (of_bias == 1))
        share += 1
        if share == programs:
            share = 0
            shares = wait_for_all(counters_ptr + 1, programs)
            for i in tl.static_range(2):
                tl.atomic_xchg(counters_ptr + i, 0, sem="relaxed")


@triton.jit
def finish_columns(dweight_ptr, dbias_ptr, partials_ptr, counters_ptr, cols, COLS: tl.constexpr, WIDE: tl.constexpr,
                   EACH: tl.constexpr):
    """What follows when a program has left its sums. Those that come before all have begun do not wait, and are the first ones. Few
    programs take WIDE columns at a time, others as many as give each a group, from a quarter of COLS to 16 times as many, of about
    EACH elements of the partials at a time."""
    SUMS: tl.constexpr = (1 if dweight_ptr is not None else 0) + (1 if dbias_ptr is not None else 0)
    programs = tl.num_programs(0)
    tl.debug_barrier()
    before = tl.atomic_add(counters_ptr, 1)
    rank = before % BEGUN
    if before // BEGUN < programs:
        tl.atomic_add(counters_ptr + 1, BEGUN, sem="relaxed")
    else:
        there = rank + 1
        while there < programs:
            there = tl.atomic_add(counters_ptr, 0, sem="acquire") % BEGUN
        tl.atomic_add(counters_ptr + 1, 1, sem="relaxed")
        if programs <= 16:
            add_up_groups(dweight_ptr, dbias_ptr, partials_ptr, counters_ptr, rank, programs, cols, 1, WIDE)
        elif programs * 4 * COLS < cols * SUMS:
            add_up_groups(dweight_ptr, dbias_ptr, partials_ptr, counters_ptr, rank, programs, cols, EACH // (16 * COLS), 16 * COLS)
        elif programs * COLS < cols * SUMS:
            add_up_groups(dweight_ptr, dbias_ptr, partials_ptr, counters_ptr, rank, programs, cols, EACH // (4 * COLS), 4 * COLS)
        elif programs * COLS < 4 * cols * SUMS:
            add_up_groups(dweight_ptr, dbias_ptr, partials_ptr, counters_ptr, rank, programs, cols, 4096 // COLS, COLS)
        else:
            add_up_groups(dweight_ptr, dbias_ptr, partials_ptr, counters_ptr, rank, programs, cols, 16384 // COLS, COLS // 4)


@triton.jit
def load_rows(x_ptr, dy_ptr, weight, row, col, mask, x_stride, dy_stride, WEIGHT: tl.constexpr):
    """x, dy, and g = dy * weight."""
    x = tl.load(x_ptr + row * x_stride + col, mask=mask, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + row * dy_stride + col, mask=mask, other=0.0).to(tl.float32)
    g = dy
    if WEIGHT:
        g = dy * weight.to(tl.float32)
    return x, dy, g


@triton.jit
def store_gradient(dx_ptr, dsum_ptr, n, g, r, along, mean_g, row, col, mask, dx_stride, dsum_stride):
    """r * (g - mean_g - n * along), written so that two fused operations an element do."""
    dx = g * r - (n * (along * r) + mean_g * r)
    if dsum_ptr is not None:
        dx += tl.load(dsum_ptr + row * dsum_stride + col, mask=mask, other=0.0).to(tl.float32)
    tl.store(dx_ptr + row * dx_stride + col, dx.to(dx_ptr.dtype.element_ty), mask=mask)


@triton.jit
def add_four(a, b, c, d, e, f, g, h):
    return a + e, b + f, c + g, d + h


@triton.jit
def sums_about(x, g, PARTS: tl.constexpr):
    """The sums over rows of x, g, x * x and g * x, in one exchange."""
    if PARTS > 1:
        return tl.reduce((in_line(warp_sums(x)), in_line(warp_sums(g)), in_line(warp_sums(x * x)), in_line(warp_sums(g * x))),
                         0, add_four)
    else:
        total, total_g, squares, products = tl.reduce((x, g, x * x, g * x), 1, add_four)
        return total[:, None], total_g[:, None], squares[:, None], products[:, None]


@triton.jit
def sums_of_squares(x, g, PARTS: tl.constexpr):
    """The sums over rows of x * x and g * x."""
    if PARTS > 1:
        return tl.reduce((in_line(warp_sums(x * x)), in_line(warp_sums(g * x))), 0, add_pairs)
    else:
        return sums_of_rows(x * x, g * x)


@triton.jit
def statistics(total, total_g, squares, products, cols, eps):
    """From the sums of what sums_about() sums up, x being a row's distances from a reference: the distance of the row's mean,
    mean(g), r and mean(g * n)."""
    each = 1.0 / cols
    offset = total * each
    r = tl.rsqrt(without_negative(squares - offset * total) * each + eps)
    return offset, total_g * each, r, (products - offset * total_g) * each * r


@triton.jit
def sample_of_rows(i: tl.constexpr, x_ptr, row, x_stride, there, cols):
    """One of three elements of each row. They are an odd number of columns apart: elements far from the others that stand side by
    side, or every 2^k columns, are no two of them, or so many that they decide on the deviation."""
    col = tl.minimum(cols // 6 + i * (cols // 3 | 1), cols - 1)
    return tl.load(x_ptr + row * x_stride + col, mask=there, other=0.0).to(tl.float32)


@triton.jit
def middle_of_three(x_ptr, row, x_stride, there, cols):
    """The middle one of three samples of each row: as near to its mean as keeps the digits of moments about it."""
    a = sample_of_rows(0, x_ptr, row, x_stride, there, cols)
    b = sample_of_rows(1, x_ptr, row, x_stride, there, cols)
    c = sample_of_rows(2, x_ptr, row, x_stride, there, cols)
    return tl.maximum(tl.minimum(a, b), tl.minimum(tl.maximum(a, b), c))


@triton.jit
def whole_rows(dx_ptr, dy_ptr, x_ptr, weight_ptr, dsum_ptr, weight, row, col, mask, dx_stride, dy_stride, x_stride,
               dsum_stride, rows, cols, eps, CENTER: tl.constexpr, RELOAD: tl.constexpr, PARTS: tl.constexpr,
               SPREAD: tl.constexpr):
    """Writes dx; returns dy and n. SPREAD: rows lie in several warps, so one exchange for all sums pays."""
    WEIGHT: tl.constexpr = weight_ptr is not None
    x, dy, g = load_rows(x_ptr, dy_ptr, weight, row, col, mask, x_stride, dy_stride, WEIGHT)
    reference = 0.0
    total = 0.0
    total_g = 0.0
    if CENTER and SPREAD:
        reference = middle_of_three(x_ptr, row, x_stride, row < rows, cols)
        x = tl.where(mask, x - reference, 0.0)
        total, total_g, squares, products = sums_about(x, g, PARTS)
    else:
        if CENTER:
            total_x, total_g = sums_of_rows(x, g)
            reference = total_x / cols
            x = tl.where(mask, x - reference, 0.0)
        squares, products = sums_of_squares(x, g, PARTS)
    offset, mean_g, r, along = statistics(total, total_g, squares, products, cols, eps)
    r = tl.where(row < rows, r, 0.0)  # that of a row which is not there would be infinite where eps is 0
    if RELOAD:
        tl.debug_barrier()
        x, dy, g = load_rows(x_ptr, dy_ptr, weight, row, col, mask, x_stride, dy_stride, WEIGHT)
        if CENTER:
            x = x - reference
    n = x * r - offset * r
    store_gradient(dx_ptr, dsum_ptr, n, g, r, along, mean_g, row, col, mask, dx_stride, dsum_stride)
    return dy, n


@triton.jit
def sum_of_tile(x, PARTS: tl.constexpr):
    """The sum of a tile's rows; a divided row is the only one of its tile."""
    if PARTS > 1:
        return x
    else:
        return tl.sum(x, axis=0)[None, :]


@triton.jit
def store_sums(sums_row, out_ptr, col, sums, mask, rows):
    """Into the program's row of partials, or where there are no other rows, as the gradient itself."""
    if rows <= 1:
        tl.store(out_ptr + col, sums.to(out_ptr.dtype.element_ty), mask=mask)
    else:
        tl.store(sums_row + col, sums, mask=mask)


@triton.jit
def store_both(dweight_row, dweight_ptr, dbias_ptr, col, dweight, dbias, mask, rows, cols):
    """Likewise of weight and bias, by one store: threads need not wait between two. (Where rows
    are divided, loads would be half as wide.)"""
    if rows > 1:
        which = tl.arange(0, 2).to(tl.int64) * tl.num_programs(0) * cols
        tl.store(dweight_row + tl.expand_dims(col, -1) + which, tl.join(dweight, dbias), mask=tl.expand_dims(mask, -1))
    else:
        store_columns(dweight_ptr, col, dweight, mask)
        store_columns(dbias_ptr, col, dbias, mask)


@triton.jit
def clear(out_ptr, cols, PIECE: tl.constexpr):
    if out_ptr is not None:
        for start in range(0, cols, PIECE):
            col = start + tl.arange(0, PIECE)[None, :]
            tl.store(out_ptr + col, tl.zeros([1, PIECE], out_ptr.dtype.element_ty), mask=col < cols)


@triton.jit
def row_in_pieces(dx_ptr, dweight_ptr, dbias_ptr, dy_ptr, x_ptr, weight_ptr, dsum_ptr, dweight_row, dbias_row, row, rows,
                  is_first, dx_stride, dy_stride, x_stride, dsum_stride, cols, eps, CENTER: tl.constexpr,
                  PIECE: tl.constexpr):
    WEIGHT: tl.constexpr = weight_ptr is not None
    reference = 0.0
    if CENTER:
        reference = middle_of_three(x_ptr, row, x_stride, row >= 0, cols)
    total = tl.zeros([1, PIECE], tl.float32)
    total_g = tl.zeros([1, PIECE], tl.float32)
    squares = tl.zeros([1, PIECE], tl.float32)
    products = tl.zeros([1, PIECE], tl.float32)
    for start in range(0, cols, PIECE):
        col = start + tl.arange(0, PIECE)[None, :]
        weight = load_vector(weight_ptr, col, col < cols)
        x, dy, g = load_rows(x_ptr, dy_ptr, weight, row, col, col < cols, x_stride, dy_stride, WEIGHT)
        if CENTER:
            x = tl.where(col < cols, x - reference, 0.0)
            total += x
            total_g += g
        squares += x * x
        products += g * x
    total, total_g, squares, products = tl.reduce((total, total_g, squares, products), 1, add_four)
    offset, mean_g, r, along = statistics(total[:, None], total_g[:, None], squares[:, None], products[:, None], cols, eps)
    for start in range(0, cols, PIECE):
        col = start + tl.arange(0, PIECE)[None, :]
        mask = col < cols
        known = mask & (is_first == 0)
        weight = load_vector(weight_ptr, col, mask)
        x, dy, g = load_rows(x_ptr, dy_ptr, weight, row, col, mask, x_stride, dy_stride, WEIGHT)
        n = (x - reference) * r - offset * r
        store_gradient(dx_ptr, dsum_ptr, n, g, r, along, mean_g, row, col, mask, dx_stride, dsum_stride)
        if dweight_ptr is not None:
            before = tl.load(dweight_row + col, mask=known, other=0.0, cache_modifier=".cg")
            store_sums(dweight_row, dweight_ptr, col, before + dy * n, mask, rows)
        if dbias_ptr is not None:
            before = tl.load(dbias_row + col, mask=known, other=0.0, cache_modifier=".cg")
            store_sums(dbias_row, dbias_ptr, col, before + dy, mask, rows)


@triton.jit
def sums_of_piece(dy_ptr, x_ptr, weight, row, piece, x_stride, dy_stride, cols, CENTER: tl.constexpr, WEIGHT: tl.constexpr,
                  PIECE: tl.constexpr):
    """A reference within the piece of a row, as others may store what takes the place of theirs, and sums_about() it."""
    col = piece * PIECE + tl.arange(0, PIECE)
    x, _, g = load_rows(x_ptr, dy_ptr, weight, row, col, col < cols, x_stride, dy_stride, WEIGHT)
    reference = 0.0
    if CENTER:
        reference = middle_of_three(x_ptr + piece * PIECE, row, x_stride, row >= 0, tl.minimum(cols - piece * PIECE, PIECE))
        x = tl.where(col < cols, x - reference, 0.0)
    squares, products, total, total_g = tl.reduce((x * x, g * x, x, g), 0, add_four)
    return reference, squares, products, total, total_g


@triton.jit
def sums_of_row(squares, products, totals, totals_g, references, pieces, cols, CENTER: tl.constexpr, PIECE: tl.constexpr,
                LIST: tl.constexpr):
    """The row's mean, rounded, as its reference, and what sums_about() it would give, from the sums of the pieces about references of
    their own, which may be far from it."""
    piece = tl.arange(0, LIST)
    there = piece < pieces
    reference = 0.0
    if CENTER:
        count = tl.minimum(cols - piece * PIECE, PIECE).to(tl.float32)
        reference = tl.sum(tl.where(there, references * (count / cols) + totals / cols, 0.0), axis=0)
        distance = references - reference
        squares += distance * (2.0 * totals + count * distance)
        products += distance * totals_g
        totals += count * distance
    squares, products, total, total_g = tl.reduce((tl.where(there, squares, 0.0), tl.where(there, products, 0.0),
                                                   tl.where(there, totals, 0.0), tl.where(there, totals_g, 0.0)), 0, add_four)
    if not CENTER:
        total = 0.0
        total_g = 0.0
    return reference, squares, products, total, total_g


@triton.jit
def finish_piece(dx_ptr, dweight_ptr, dbias_ptr, dy_ptr, x_ptr, weight_ptr, dsum_ptr, piece, dx_stride, dy_stride,
                 x_stride, dsum_stride, rows, cols, eps, counters_ptr, CENTER: tl.constexpr, PIECE: tl.constexpr,
                 NUMBERS: tl.constexpr, LIST: tl.constexpr):
    """A piece of dx, of dweight and of dbias, when all programs have told their sums."""
    WEIGHT: tl.constexpr = weight_ptr is not None
    pieces = tl.num_programs(0)
    col = piece * PIECE + tl.arange(0, PIECE)
    mask = col < cols
    weight = load_vector(weight_ptr, col, mask)
    dweight = tl.zeros([PIECE], tl.float32)
    dbias = tl.zeros([PIECE], tl.float32)
    for row in range(rows):
        _, squares, products, totals, totals_g, references = told_of_row(counters_ptr, row, pieces, NUMBERS, LIST)
        reference, squares, products, total, total_g = sums_of_row(squares, products, totals, totals_g, references, pieces, cols, CENTER,
                                                                   PIECE, LIST)
        offset, mean_g, r, along = statistics(total, total_g, squares, products, cols, eps)
        x, dy, g = load_rows(x_ptr, dy_ptr, weight, row.to(tl.int64), col, mask, x_stride, dy_stride, WEIGHT)
        n = (x - reference) * r - offset * r
        store_gradient(dx_ptr, dsum_ptr, n, g, r, along, mean_g, row.to(tl.int64), col, mask, dx_stride, dsum_stride)
        dweight += dy * n
        dbias += dy
    store_columns(dweight_ptr, col, dweight, mask)
    store_columns(dbias_ptr, col, dbias, mask)


@triton.jit
def shared_rows(dx_ptr, dweight_ptr, dbias_ptr, dy_ptr, x_ptr, weight_ptr, dsum_ptr, dx_stride, dy_stride, x_stride, dsum_stride,
                rows, cols, eps, counters_ptr, CENTER: tl.constexpr, PIECE: tl.constexpr, LIST: tl.constexpr):
    """A piece of the columns of all rows, and for the last program the pieces that others have left."""
    NUMBERS: tl.constexpr = 5 if CENTER else 2
    WEIGHT: tl.constexpr = weight_ptr is not None
    piece = tl.program_id(0)
    pieces = tl.num_programs(0)
    col = piece * PIECE + tl.arange(0, PIECE)
    weight = load_vector(weight_ptr, col, col < cols)
    for row in range(rows):
        begin_row(counters_ptr, row, pieces, NUMBERS)
        reference, squares, products, total, total_g = sums_of_piece(dy_ptr, x_ptr, weight, row.to(tl.int64), piece, x_stride,
                                                                     dy_stride, cols, CENTER, WEIGHT, PIECE)
        tell_piece(counters_ptr, row, piece, pieces, squares, products, total, total_g, reference, NUMBERS)
    done = True
    for row in range(rows):
        of_row, _, _, _, _, _ = told_of_row(counters_ptr, row, pieces, NUMBERS, LIST)
        done = done & of_row
    if done:
        finish_piece(dx_ptr, dweight_ptr, dbias_ptr, dy_ptr, x_ptr, weight_ptr, dsum_ptr, piece, dx_stride, dy_stride,
                     x_stride, dsum_stride, rows, cols, eps, counters_ptr, CENTER, PIECE, NUMBERS, LIST)
    ended = end_of_piece(counters_ptr, 0, piece, pieces, done, NUMBERS)
    if ended > 1:
        for other in range(pieces):
            if is_left(counters_ptr, 0, other, pieces, NUMBERS):
                finish_piece(dx_ptr, dweight_ptr, dbias_ptr, dy_ptr, x_ptr, weight_ptr, dsum_ptr, other, dx_stride,
                             dy_stride, x_stride, dsum_stride, rows, cols, eps, counters_ptr, CENTER, PIECE, NUMBERS, LIST)
    if ended > 0:
        set_back(counters_ptr, rows, pieces, NUMBERS)


def elements_at_once(args):
    """Elements of the partials that a program loads at a time: 16 a thread, or 32 where a thread may have 128 registers. Elements of
    rows that begin anywhere have addresses of their own, which take registers."""
    each = 16
    if args["cols"] % 4 != 0:
        each = 16 if args["num_ctas"] == 1 else 8
    elif args["PROGRAMS"] * args["num_warps"] <= 16:
        each = 32
    return max(4096, each * 32 * args["num_warps"] * args["num_ctas"])


@triton.autotune(configs=configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting})
@triton.heuristics({
    "BLOCK": lambda args: extent(args["cols"], args["x_ptr"].element_size(), args["num_warps"] * args["num_ctas"], args["ROWS"]),
    "EVEN": lambda args: args["BLOCK"] == args["cols"] and args["rows"] % max(args["ROWS"], 1) == 0,
    "WIDE": lambda args: 256 * args["num_warps"] * args["num_ctas"],
    "PARTS": lambda args: args["num_ctas"],
    "WARPS": lambda args: args["num_warps"],
    "EACH": lambda args: elements_at_once(args),
    "LIST": kept_pieces,
})
@triton.jit
def norm_backward(dx_ptr, dweight_ptr, dbias_ptr, dy_ptr, x_ptr, weight_ptr, dsum_ptr, dx_stride, dy_stride, x_stride,
                  dsum_stride, rows, cols, eps, rows_class, partials_ptr, counters_ptr, CENTER: tl.constexpr,
                  BLOCK: tl.constexpr, ROWS: tl.constexpr, STAGES: tl.constexpr, PROGRAMS: tl.constexpr,
                  RELOAD: tl.constexpr, PIECE: tl.constexpr, EVEN: tl.constexpr, WIDE: tl.constexpr,
                  PARTS: tl.constexpr = 1, WARPS: tl.constexpr = 1, EACH: tl.constexpr = 4096, COLS: tl.constexpr = 32,
                  LIST: tl.constexpr = 0):
    if LIST > 0:
        shared_rows(dx_ptr, dweight_ptr, dbias_ptr, dy_ptr, x_ptr, weight_ptr, dsum_ptr, dx_stride, dy_stride, x_stride, dsum_stride,
                    rows, cols, eps, counters_ptr, CENTER, PIECE, LIST)
        return
    DWEIGHT: tl.constexpr = dweight_ptr is not None
    DBIAS: tl.constexpr = dbias_ptr is not None
    if DWEIGHT or DBIAS:
        if rows > 1:
            tl.atomic_add(counters_ptr, BEGUN, sem="relaxed")
    if PIECE > 0:
        dweight_row = partials_ptr + tl.program_id(0).to(tl.int64) * cols
        dbias_row = dweight_row + tl.num_programs(0).to(tl.int64) * cols
        for row in range(tl.program_id(0), rows, tl.num_programs(0)):
            row_in_pieces(dx_ptr, dweight_ptr, dbias_ptr, dy_ptr, x_ptr, weight_ptr, dsum_ptr, dweight_row, dbias_row,
                          row.to(tl.int64), rows, row == tl.program_id(0), dx_stride, dy_stride, x_stride, dsum_stride,
                          cols, eps, CENTER, PIECE)
        if rows == 0:
            clear(dweight_ptr, cols, PIECE)
            clear(dbias_ptr, cols, PIECE)
    else:
        SPREAD: tl.constexpr = PARTS > 1 or WARPS > ROWS
        col = columns(BLOCK, PARTS, WARPS)
        in_row = inside(col, cols, EVEN)
        weight = load_vector(weight_ptr, col, in_row)
        if ROWS > 1 and weight_ptr is not None:
            weight = weight.to(tl.float32)  # once for all rows: narrow ones leave registers for that
        dweight = tl.zeros([ROWS, BLOCK] if PARTS == 1 else col.shape, tl.float32)
        dbias = tl.zeros([ROWS, BLOCK] if PARTS == 1 else col.shape, tl.float32)
        for tile in tl.range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0), num_stages=STAGES):
            row = tile
            if PARTS == 1:
                row = (tile * ROWS + tl.arange(0, ROWS))[:, None]
            mask = in_row
            if ROWS > 1:
                mask = in_row & inside(row, rows, EVEN)
            dy, n = whole_rows(dx_ptr, dy_ptr, x_ptr, weight_ptr, dsum_ptr, weight, row.to(tl.int64), col, mask, dx_stride,
                               dy_stride, x_stride, dsum_stride, rows, cols, eps, CENTER, RELOAD, PARTS, SPREAD)
            if DWEIGHT:
                dweight += dy * n
            if DBIAS:
                dbias += dy
        dweight_row = partials_ptr + tl.program_id(0).to(tl.int64) * cols
        dbias_row = dweight_row + tl.num_programs(0).to(tl.int64) * cols
        if DWEIGHT and DBIAS and PARTS == 1:
            dweight, dbias = tl.reduce((dweight, dbias), 0, add_pairs)
            store_both(dweight_row, dweight_ptr, dbias_ptr, col, dweight[None, :], dbias[None, :], in_row, rows, cols)
        else:
            if DWEIGHT:
                store_sums(dweight_row, dweight_ptr, col, sum_of_tile(dweight, PARTS), in_row, rows)
            if DBIAS:
                store_sums(dbias_row, dbias_ptr, col, sum_of_tile(dbias, PARTS), in_row, rows)
    if (DWEIGHT or DBIAS) and rows > 1:
        finish_columns(dweight_ptr, dbias_ptr, partials_ptr, counters_ptr, cols, COLS, WIDE, EACH)
