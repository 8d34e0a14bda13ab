"""Cross entropy of rows of logits with its gradient, which takes the place of the logits, in one launch.

With z = logits, or cap * tanh(logits / cap), and lse = log(sum(exp(z))) of a row with the target t:

    loss = (1 - smoothing) * (lse - z[t]) + smoothing * (lse - mean(z)) + z_loss * lse * lse
    gradient = (1 + 2 * z_loss * lse) * exp(z - lse) - (1 - smoothing) * [c == t] - smoothing / cols,
               times 1 - (z / cap)**2 where logits are capped

both times `factor`, and with MEAN divided by the number of rows whose target is not `ignore`: of these, or, if they are part of
several, of the `counted_rows` targets at `counted_ptr`. Such rows have the loss 0
and the gradient 0. A target that is neither `ignore` nor a column makes its row NaN.

A program takes every num_programs(0)-th row, or group of ROWS short rows. With PIECE 0 rows are kept in registers, by one
program or by a cluster of them, read once and written once. Else a row is taken in pieces of PIECE elements, by a cluster
where rows are few, and read twice, the second time from the
second-level cache. Milakov, Gimelshein: Online normalizer calculation for softmax, 2018; Hsu et al.: Liger Kernel, 2024
(the gradient in place of the logits).
"""

import triton
import triton.language as tl

from tiles import (NARROW, NARROW_TILES, SHARED_PIECES, aligned_elements, begin_aligned, extent, in_line,
                   piece_mask, row_max, row_sum, shares_pieces, to_row, unit_of_rows, warp_maxima, warp_sums)


LOG2_E = tl.constexpr(1.4426950408889634)
LOWEST = tl.constexpr(-3.4028234663852886e38)  # of fp32, above -infinity
FAR = tl.constexpr(2.0**30)  # numbers of fp32 from here on differ by 64 or more
# Blocks of a cluster, warps of each, PROGRAMS, STAGES and registers a thread at most.
CLUSTERS = [(1, 16, 1, 2, None), (1, 8, 2, 2, 128), (2, 16, 1, 2, None), (2, 16, 2, 1, 64), (2, 8, 2, 2, 128),
            (2, 8, 3, 1, 80), (4, 16, 1, 2, None), (4, 16, 2, 1, 64), (4, 8, 3, 1, 80), (8, 16, 1, 2, None),
            (8, 16, 2, 1, 64), (8, 8, 2, 1, 128), (8, 8, 3, 1, 80), (16, 16, 2, 1, 64), (16, 8, 3, 1, 80),
            (16, 8, 2, 2, 128), (16, 16, 1, 2, None)]


def configs():
    found = []
    for warps in [16, 32, 8, 4]:
        for programs in [1, 2, 4]:
            if warps * programs <= 64:
                found.append(triton.Config({"ROWS": 1, "PIECE": 0, "PROGRAMS": programs, "STAGES": 1}, num_warps=warps))
    for rows in [2, 4, 8, 16, 32, 64]:
        for warps, programs in [(4, 16), (4, 8), (8, 8), (8, 4), (2, 32), (2, 16)]:
            found.append(triton.Config({"ROWS": rows, "PIECE": 0, "PROGRAMS": programs, "STAGES": 1}, num_warps=warps))
    for rows, warps in [tile for tile in NARROW_TILES if tile[0] > 64]:
        how = {"ROWS": rows, "PIECE": 0, "PROGRAMS": 32 // warps, "STAGES": 1}
        found.append(triton.Config(how, num_warps=warps))
    for blocks, warps, programs, stages, limit in CLUSTERS:
        how = {"ROWS": 1, "PIECE": 0, "PROGRAMS": programs, "STAGES": stages}
        found.append(triton.Config(how, num_warps=warps, maxnreg=limit, num_ctas=blocks))
    for warps, programs, piece in [(32, 1, 8192), (16, 1, 4096), (16, 2, 4096), (32, 1, 16384), (16, 1, 8192), (16, 2, 8192),
                                   (32, 2, 8192), (8, 4, 2048), (8, 2, 4096), (32, 1, 32768), (4, 4, 1024)]:
        for stages in [1, 2, 3]:
            if stages * piece <= 1024 * warps:
                how = {"ROWS": 1, "PIECE": piece, "PROGRAMS": programs, "STAGES": stages}
                found.append(triton.Config(how, num_warps=warps))
    for blocks, warps, piece in SHARED_PIECES:
        how = {"ROWS": 1, "PIECE": piece, "PROGRAMS": 1, "STAGES": 2}
        found.append(triton.Config(how, num_warps=warps, num_ctas=blocks))
    return found


def fitting(configs, named_args, **kwargs):
    """Whole rows where a thread has 4 to 72 elements (of several rows to 32) and registers for them, pieces where there are two or
    more."""
    cols = named_args["cols"]
    size = named_args["logits_ptr"].element_size()
    unit = unit_of_rows(cols, size, named_args["logits_stride"])
    kept = []
    for config in configs:
        threads = 32 * config.num_warps
        piece = config.kwargs["PIECE"]
        rows = config.kwargs["ROWS"]
        if rows > 1:
            each = rows * extent(cols, size, config.num_warps, rows, unit) / threads
            if 4 <= each <= 32 and (rows <= 64 or cols <= NARROW) and each + 24 <= 65536 // (threads * config.kwargs["PROGRAMS"]):
                kept.append(config)
        elif piece == 0:
            threads *= config.num_ctas
            each = extent(cols, size, config.num_warps * config.num_ctas, 1, unit) / threads
            threads = threads // config.num_ctas
            if config.num_ctas > 1 and cols < 4096 * config.num_ctas:
                continue
            held = each * (1 + (config.kwargs["STAGES"] - 1) * size / 4)
            registers = min(255, 65536 // (threads * config.kwargs["PROGRAMS"]))
            if (each >= 4 or config.num_warps == 4) and each <= 72 and held + 24 <= registers:
                kept.append(config)
        elif config.num_ctas > 1:
            if shares_pieces(piece, named_args):
                kept.append(config)
        elif cols >= 2 * piece or cols > 65536:
            kept.append(config)
    return kept


@triton.jit
def load_logits(ptr, mask, EVICTION: tl.constexpr = ""):
    """-inf beyond the row."""
    return tl.load(ptr, mask=mask, other=float("-inf"), eviction_policy=EVICTION)


@triton.jit
def capped(x, mask, cap, CAP: tl.constexpr):
    """z of logits."""
    x = x.to(tl.float32)
    if CAP:
        x = tl.where(mask, cap * (2.0 * tl.sigmoid(2.0 * x / cap) - 1.0), float("-inf"))
    return x


@triton.jit
def gradient(p, z, col, target, lse, cols, smoothing, z_loss, factor, cap, CAP: tl.constexpr, SMOOTH: tl.constexpr,
             SQUARE: tl.constexpr):
    """p = exp(z - lse)."""
    if SQUARE:
        p = p * (1.0 + 2.0 * z_loss * lse)
    if SMOOTH:
        p = p - smoothing / cols
    p = tl.where(col == target.to(tl.int32), p - (1.0 - smoothing), p)
    if CAP:
        p = p * (1.0 - (z / cap) * (z / cap))
    return p * factor


@triton.jit
def row_loss(top, log_sum, at_target, total, cols, smoothing, z_loss, SMOOTH: tl.constexpr, SQUARE: tl.constexpr):
    """Of a row whose greatest z is `top`: log_sum = lse - top, total = the sum of all z - reference_of(at_target). Differences of z come
    first: those from 0 may be so large that they have no digits left for the loss."""
    loss = (1.0 - smoothing) * ((top - at_target) + log_sum)
    if SMOOTH:
        loss += smoothing * (((top - reference_of(at_target)) - total / cols) + log_sum)
    if SQUARE:
        loss += z_loss * (top + log_sum) * (top + log_sum)
    return loss


@triton.jit
def reference_of(at_target):
    """A number that is near the row's z where these are finite."""
    return tl.where(tl.abs(at_target) < float("inf"), at_target, 0.0)


@triton.jit
def kept_targets(targets_ptr, rows, ignore):
    """How many rows have a target that is not `ignore`."""
    found = tl.zeros([1024], tl.int32)
    for first in range(0, rows, 1024):
        row = first + tl.arange(0, 1024)
        target = tl.load(targets_ptr + row, mask=row < rows, other=ignore)
        found += (target != ignore).to(tl.int32)
    return tl.sum(found, axis=0)


@triton.jit
def powers_from(top):
    """The scale and the exponent `high` with which exp2_from() gives exp(z - top) for each z <= top, but for a factor, which comes third.
    From FAR on, numbers lie so far apart that all z below `top` give 0 with the scale 1 as well; then nothing is rounded, where the
    factor would be beyond all numbers."""
    scale = tl.where(tl.abs(top) < FAR, LOG2_E, 1.0)
    high = top * scale
    return scale, high, tl.exp2(-tl.fma(top, scale, -high))


@triton.jit
def exp2_from(z, scale, high):
    """2**(z * scale - high), whose exponent is rounded once."""
    return tl.exp2(tl.fma(z, scale, -high))


@triton.jit
def join_parts(top, total, other_top, other_total):
    """Of two parts of a row: the greatest z, and the sum of exp(z - that)."""
    higher = tl.maximum(top, other_top)
    return higher, total * tl.exp(top - higher) + other_total * tl.exp(other_top - higher)


@triton.jit
def probabilities(z, PARTS: tl.constexpr):
    """exp(z - lse) of rows, their greatest z, and how far lse = log(sum(exp(z))) lies above that."""
    if PARTS > 1:
        warp_top = tl.maximum(warp_maxima(z), LOWEST)
        scale, high, factor = powers_from(warp_top)
        numerator = exp2_from(z, to_row(scale), to_row(high))
        top, total = tl.reduce((in_line(warp_top), in_line(warp_sums(numerator) * factor)), 0, join_parts)
        p = numerator * to_row(factor * tl.exp(warp_top - top) / total)
    else:
        top = row_max(z, PARTS)
        scale, high, factor = powers_from(top)
        numerator = exp2_from(z, scale, high)
        total = row_sum(numerator, PARTS) * factor
        p = numerator * (factor / total)
    return p, top, tl.log(total)


@triton.jit
def logit_at(logits_row, target, ignore, cols, cap, CAP: tl.constexpr):
    """z at the target; NaN where that is no column."""
    is_column = (target != ignore) & (target >= 0) & (target < cols)
    z = capped(load_logits(logits_row + target, is_column), is_column, cap, CAP)
    return tl.where(is_column, z, float("nan"))


@triton.jit
def store_result(losses_ptr, lse_ptr, row, loss, lse, mask=None):
    tl.store(losses_ptr + row, loss, mask=mask)
    if lse_ptr is not None:
        tl.store(lse_ptr + row, lse, mask=mask)


@triton.jit
def whole_rows(losses_ptr, logits_ptr, targets_ptr, lse_ptr, logits_stride, rows, cols, ignore, smoothing, z_loss, cap, factor,
               ROWS: tl.constexpr, STAGES: tl.constexpr, BLOCK: tl.constexpr, PARTS: tl.constexpr, WARPS: tl.constexpr,
               EVEN: tl.constexpr, CAP: tl.constexpr, SMOOTH: tl.constexpr, SQUARE: tl.constexpr, GRADIENT: tl.constexpr,
               UNIT: tl.constexpr):
    """Rows that are kept in registers; with two stages the next ones are loaded ahead, before anything is written."""
    first = tl.program_id(0)
    if STAGES > 1:
        row, at, _, mask = aligned_elements(first, logits_stride, rows, cols, BLOCK, ROWS, PARTS, WARPS, EVEN, UNIT)
        x = load_logits(logits_ptr + at, mask & (row < rows))
    for tile in tl.range(first, tl.cdiv(rows, ROWS), tl.num_programs(0), num_stages=1):
        row, at, col, mask = aligned_elements(tile, logits_stride, rows, cols, BLOCK, ROWS, PARTS, WARPS, EVEN, UNIT)
        logits_row = logits_ptr + row.to(tl.int64) * logits_stride
        if STAGES == 1:
            x = load_logits(logits_ptr + at, mask)
        z = capped(x, mask, cap, CAP)
        if STAGES > 1:
            following, ahead, _, there = aligned_elements(tile + tl.num_programs(0), logits_stride, rows, cols, BLOCK, ROWS,
                                                          PARTS, WARPS, EVEN, UNIT)
            x = load_logits(logits_ptr + ahead, there & (following < rows))
        is_row = row < rows if ROWS > 1 else None
        target = tl.load(targets_ptr + row, mask=is_row, other=ignore if ROWS > 1 else None).to(tl.int64)
        at_target = logit_at(logits_row, target, ignore, cols, cap, CAP)
        p, top, log_sum = probabilities(z, PARTS)
        lse = top + log_sum
        total = 0.0
        if SMOOTH:
            total = row_sum(tl.where(mask, z - reference_of(at_target), 0.0), PARTS)
        keep = target != ignore
        if GRADIENT:
            scale = tl.where(at_target == at_target, factor, float("nan"))
            g = gradient(p, z, col, target, lse, cols, smoothing, z_loss, scale, cap, CAP, SMOOTH, SQUARE)
            g = tl.where(keep, g, 0.0)
            tl.store(logits_ptr + at, g.to(logits_ptr.dtype.element_ty), mask=mask)
        loss = row_loss(top, log_sum, at_target, total, cols, smoothing, z_loss, SMOOTH, SQUARE)
        store_result(losses_ptr, lse_ptr, row, tl.where(keep, loss * factor, 0.0), tl.where(keep, lse, 0.0), is_row)


@triton.jit
def row_in_pieces(logits_ptr, begin, target, at_target, cols, cap, smoothing, z_loss, factor, PIECE: tl.constexpr,
                  STAGES: tl.constexpr, WIDTH: tl.constexpr, CAP: tl.constexpr, SMOOTH: tl.constexpr,
                  SQUARE: tl.constexpr, GRADIENT: tl.constexpr, UNIT: tl.constexpr):
    """The same of one that is read twice. The first pass keeps a maximum, and a sum relative to it, for each WIDTH
    elements."""
    offsets = tl.arange(0, PIECE // WIDTH)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    first, before = begin_aligned(begin, UNIT)
    tops = tl.full([PIECE // WIDTH], LOWEST, tl.float32)
    sums = tl.zeros([PIECE // WIDTH], tl.float32)
    totals = tl.zeros([PIECE // WIDTH], tl.float32)
    for start in tl.range(0, cols + before, PIECE, num_stages=STAGES):
        col = start + offsets
        mask = piece_mask(col, before, cols, UNIT)
        z = capped(load_logits(logits_ptr + first + col, mask, "evict_last"), mask, cap, CAP)
        higher = tl.maximum(tops, tl.max(z, axis=1))
        sums = sums * tl.exp(tops - higher) + tl.sum(tl.exp(z - higher[:, None]), axis=1)
        tops = higher
        if SMOOTH:
            totals += tl.sum(tl.where(mask, z - reference_of(at_target), 0.0), axis=1)
    top = tl.max(tops, axis=0)
    row_total = tl.sum(sums * tl.exp(tops - top), axis=0)
    log_sum = tl.log(row_total)
    lse = top + log_sum
    if GRADIENT:
        to_base_2, high, power = powers_from(top)
        inverse = power / row_total
        for start in tl.range(0, cols + before, PIECE, num_stages=STAGES):
            col = start + offsets
            mask = piece_mask(col, before, cols, UNIT)
            z = capped(load_logits(logits_ptr + first + col, mask, "evict_first"), mask, cap, CAP)
            p = exp2_from(z, to_base_2, high) * inverse
            scale = tl.where(at_target == at_target, factor, float("nan"))
            g = gradient(p, z, col - before, target, lse, cols, smoothing, z_loss, scale, cap, CAP, SMOOTH, SQUARE)
            tl.store(logits_ptr + first + col, g.to(logits_ptr.dtype.element_ty), mask=mask)
    return row_loss(top, log_sum, at_target, tl.sum(totals, axis=0), cols, smoothing, z_loss, SMOOTH, SQUARE), lse


@triton.jit
def clear_row(logits_row, cols, BLOCK: tl.constexpr):
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        tl.store(logits_row + col, tl.zeros([BLOCK], logits_row.dtype.element_ty), mask=col < cols)


@triton.autotune(configs=configs(), key=["cols", "rows_class"], restore_value=["logits_ptr"],
                 prune_configs_by={"early_config_prune": fitting})
@triton.heuristics({
    "UNIT": lambda args: unit_of_rows(args["cols"], args["logits_ptr"].element_size(), args["logits_stride"]),
    "BLOCK": lambda args: extent(args["cols"], args["logits_ptr"].element_size(), args["num_warps"] * args["num_ctas"],
                                 args["ROWS"], args["UNIT"]),
    "EVEN": lambda args: args["BLOCK"] == args["cols"],
    "PARTS": lambda args: args["num_ctas"],
    "WARPS": lambda args: args["num_warps"],
    "WIDTH": lambda args: 16 // args["logits_ptr"].element_size(),
    "CAP": lambda args: args["cap"] > 0,
    "SMOOTH": lambda args: args["smoothing"] != 0,
    "SQUARE": lambda args: args["z_loss"] != 0,
})
@triton.jit
def cross_entropy(losses_ptr, logits_ptr, targets_ptr, lse_ptr, logits_stride, rows, cols, ignore, smoothing, z_loss, cap,
                  factor, rows_class, counted_ptr, counted_rows, MEAN: tl.constexpr, GRADIENT: tl.constexpr, ROWS: tl.constexpr, PIECE: tl.constexpr,
                  PROGRAMS: tl.constexpr, STAGES: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr, CAP: tl.constexpr,
                  SMOOTH: tl.constexpr, SQUARE: tl.constexpr, PARTS: tl.constexpr = 1, WARPS: tl.constexpr = 1,
                  EVEN: tl.constexpr = False, UNIT: tl.constexpr = 1):
    if MEAN:
        if counted_ptr is not None:
            factor = factor / tl.maximum(kept_targets(counted_ptr, counted_rows, ignore), 1)
        else:
            factor = factor / tl.maximum(kept_targets(targets_ptr, rows, ignore), 1)
    if PIECE == 0:
        whole_rows(losses_ptr, logits_ptr, targets_ptr, lse_ptr, logits_stride, rows, cols, ignore, smoothing, z_loss, cap,
                   factor, ROWS, STAGES, BLOCK, PARTS, WARPS, EVEN, CAP, SMOOTH, SQUARE, GRADIENT, UNIT)
    else:
        for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
            begin = row.to(tl.int64) * logits_stride
            logits_row = logits_ptr + begin
            target = tl.load(targets_ptr + row).to(tl.int64)
            loss = 0.0
            lse = 0.0
            if target != ignore:
                at_target = logit_at(logits_row, target, ignore, cols, cap, CAP)
                loss, lse = row_in_pieces(logits_ptr, begin, target, at_target, cols, cap, smoothing, z_loss, factor, PIECE,
                                          STAGES, WIDTH, CAP, SMOOTH, SQUARE, GRADIENT, UNIT)
            elif GRADIENT:
                clear_row(logits_row, cols, 4096)
            store_result(losses_ptr, lse_ptr, row, loss * factor, lse)
