"""Cross entropy of rows of logits with its gradient, which takes the place of the logits, in one launch.

With z = logits, or cap * tanh(logits / cap), and lse = log(sum(exp(z))) of a row with the target t:

    loss = (1 - smoothing) * (lse - z[t]) + smoothing * (lse - mean(z)) + z_loss * lse * lse
    gradient = (1 + 2 * z_loss * lse) * exp(z - lse) - (1 - smoothing) * [c == t] - smoothing / cols,
               times 1 - (z / cap)**2 where logits are capped

both times `factor`, and with MEAN divided by the number of rows whose target is not `ignore`: of these, or, if they are part of
several, of the `counted_rows` targets at `counted_ptr`. Such rows have the loss 0
and the gradient 0. A target that is neither `ignore` nor a column makes its row NaN.

A program takes every num_programs(0)-th row. With PIECE 0 the row is kept in registers, by one program or by a cluster of
them, read once and written once. Else it is taken in pieces of PIECE elements and read twice, the second time from the
second-level cache. Milakov, Gimelshein: Online normalizer calculation for softmax, 2018; Hsu et al.: Liger Kernel, 2024
(the gradient in place of the logits).
"""

import triton
import triton.language as tl

from tiles import extent


def configs():
    found = []
    for warps in [16, 32, 8, 4]:
        for programs in [1, 2, 4]:
            if warps * programs <= 64:
                found.append(triton.Config({"PIECE": 0, "PROGRAMS": programs, "STAGES": 1}, num_warps=warps))
    for blocks, warps, limit in [(2, 8, None), (2, 16, None), (2, 16, 64), (2, 32, None), (4, 8, None), (4, 16, None), (4, 32, None),
                                 (8, 8, None), (8, 16, None), (8, 16, 64), (16, 8, None), (16, 16, None), (16, 16, 64)]:
        for programs in [1, 2, 4]:
            if warps * programs <= 64:
                how = {"PIECE": 0, "PROGRAMS": programs, "STAGES": 1}
                found.append(triton.Config(how, num_warps=warps, maxnreg=limit, num_ctas=blocks))
    for warps, programs, piece in [(32, 1, 8192), (16, 1, 4096), (16, 2, 4096), (32, 1, 16384), (16, 1, 8192), (16, 2, 8192),
                                   (32, 2, 8192), (8, 4, 2048), (8, 2, 4096), (32, 1, 32768), (4, 4, 1024)]:
        for stages in [1, 2, 3]:
            if stages * piece <= 1024 * warps:
                how = {"PIECE": piece, "PROGRAMS": programs, "STAGES": stages}
                found.append(triton.Config(how, num_warps=warps))
    return found


def fitting(configs, named_args, **kwargs):
    """Whole rows where a thread has 4 to 72 elements and registers for them, pieces where there are two or more."""
    cols = named_args["cols"]
    size = named_args["logits_ptr"].element_size()
    kept = []
    for config in configs:
        threads = 32 * config.num_warps
        piece = config.kwargs["PIECE"]
        if piece == 0:
            threads *= config.num_ctas
            each = extent(cols, size, config.num_warps * config.num_ctas, 1) / threads
            threads = threads // config.num_ctas
            if config.num_ctas > 1 and cols < 6144 * config.num_ctas:
                continue
            if (each >= 4 or config.num_warps == 4) and each + 32 <= min(255, 65536 // (threads * config.kwargs["PROGRAMS"])):
                kept.append(config)
        elif cols >= 2 * piece or cols > 65536:
            kept.append(config)
    return kept


@triton.jit
def load_logits(ptr, mask, cap, CAP: tl.constexpr, EVICTION: tl.constexpr):
    """z; -inf beyond the row."""
    x = tl.load(ptr, mask=mask, other=float("-inf"), eviction_policy=EVICTION).to(tl.float32)
    if CAP:
        x = tl.where(mask, cap * (2.0 * tl.sigmoid(2.0 * x / cap) - 1.0), float("-inf"))
    return x


@triton.jit
def gradient(z, col, target, lse, cols, smoothing, z_loss, factor, cap, CAP: tl.constexpr, SMOOTH: tl.constexpr,
             SQUARE: tl.constexpr):
    p = tl.exp(z - lse)
    if SQUARE:
        p = p * (1.0 + 2.0 * z_loss * lse)
    if SMOOTH:
        p = p - smoothing / cols
    p = tl.where(col == target, p - (1.0 - smoothing), p)
    if CAP:
        p = p * (1.0 - (z / cap) * (z / cap))
    return p * factor


@triton.jit
def row_loss(lse, at_target, total, cols, smoothing, z_loss, SMOOTH: tl.constexpr, SQUARE: tl.constexpr):
    loss = (1.0 - smoothing) * (lse - at_target)
    if SMOOTH:
        loss += smoothing * (lse - total / cols)
    if SQUARE:
        loss += z_loss * lse * lse
    return loss


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
def whole_row(logits_row, target, at_target, cols, cap, smoothing, z_loss, factor, BLOCK: tl.constexpr,
              CAP: tl.constexpr, SMOOTH: tl.constexpr, SQUARE: tl.constexpr, GRADIENT: tl.constexpr):
    """(loss, lse) of a row that is kept in registers."""
    col = tl.arange(0, BLOCK)
    mask = col < cols
    z = load_logits(logits_row + col, mask, cap, CAP, "")
    top = tl.max(z, axis=0)
    lse = top + tl.log(tl.sum(tl.exp(z - top), axis=0))
    total = 0.0
    if SMOOTH:
        total = tl.sum(tl.where(mask, z, 0.0), axis=0)
    if GRADIENT:
        g = gradient(z, col, target, lse, cols, smoothing, z_loss, factor, cap, CAP, SMOOTH, SQUARE)
        g = tl.where(at_target == at_target, g, float("nan"))
        tl.store(logits_row + col, g.to(logits_row.dtype.element_ty), mask=mask)
    return row_loss(lse, at_target, total, cols, smoothing, z_loss, SMOOTH, SQUARE), lse


@triton.jit
def row_in_pieces(logits_row, target, at_target, cols, cap, smoothing, z_loss, factor, PIECE: tl.constexpr,
                  STAGES: tl.constexpr, WIDTH: tl.constexpr, CAP: tl.constexpr, SMOOTH: tl.constexpr,
                  SQUARE: tl.constexpr, GRADIENT: tl.constexpr):
    """The same of one that is read twice. The first pass keeps a maximum, and a sum relative to it, for each WIDTH
    elements."""
    offsets = tl.arange(0, PIECE // WIDTH)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    tops = tl.full([PIECE // WIDTH], -1e38, tl.float32)
    sums = tl.zeros([PIECE // WIDTH], tl.float32)
    totals = tl.zeros([PIECE // WIDTH], tl.float32)
    for start in tl.range(0, cols, PIECE, num_stages=STAGES):
        col = start + offsets
        z = load_logits(logits_row + col, col < cols, cap, CAP, "evict_last")
        higher = tl.maximum(tops, tl.max(z, axis=1))
        sums = sums * tl.exp(tops - higher) + tl.sum(tl.exp(z - higher[:, None]), axis=1)
        tops = higher
        if SMOOTH:
            totals += tl.sum(tl.where(col < cols, z, 0.0), axis=1)
    top = tl.max(tops, axis=0)
    lse = top + tl.log(tl.sum(sums * tl.exp(tops - top), axis=0))
    if GRADIENT:
        for start in tl.range(0, cols, PIECE, num_stages=STAGES):
            col = start + offsets
            z = load_logits(logits_row + col, col < cols, cap, CAP, "evict_first")
            g = gradient(z, col, target, lse, cols, smoothing, z_loss, factor, cap, CAP, SMOOTH, SQUARE)
            g = tl.where(at_target == at_target, g, float("nan"))
            tl.store(logits_row + col, g.to(logits_row.dtype.element_ty), mask=col < cols)
    return row_loss(lse, at_target, tl.sum(totals, axis=0), cols, smoothing, z_loss, SMOOTH, SQUARE), lse


@triton.jit
def clear_row(logits_row, cols, BLOCK: tl.constexpr):
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        tl.store(logits_row + col, tl.zeros([BLOCK], logits_row.dtype.element_ty), mask=col < cols)


@triton.autotune(configs=configs(), key=["cols", "rows_class"], restore_value=["logits_ptr"],
                 prune_configs_by={"early_config_prune": fitting})
@triton.heuristics({
    "BLOCK": lambda args: extent(args["cols"], args["logits_ptr"].element_size(), args["num_warps"] * args["num_ctas"], 1),
    "WIDTH": lambda args: 16 // args["logits_ptr"].element_size(),
    "CAP": lambda args: args["cap"] > 0,
    "SMOOTH": lambda args: args["smoothing"] != 0,
    "SQUARE": lambda args: args["z_loss"] != 0,
})
@triton.jit
def cross_entropy(losses_ptr, logits_ptr, targets_ptr, lse_ptr, logits_stride, rows, cols, ignore, smoothing, z_loss, cap,
                  factor, rows_class, counted_ptr, counted_rows, MEAN: tl.constexpr, GRADIENT: tl.constexpr, PIECE: tl.constexpr,
                  PROGRAMS: tl.constexpr, STAGES: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr, CAP: tl.constexpr,
                  SMOOTH: tl.constexpr, SQUARE: tl.constexpr):
    if MEAN:
        if counted_ptr is not None:
            factor = factor / tl.maximum(kept_targets(counted_ptr, counted_rows, ignore), 1)
        else:
            factor = factor / tl.maximum(kept_targets(targets_ptr, rows, ignore), 1)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        logits_row = logits_ptr + row.to(tl.int64) * logits_stride
        target = tl.load(targets_ptr + row).to(tl.int64)
        loss = 0.0
        lse = 0.0
        if target == ignore:
            if GRADIENT:
                clear_row(logits_row, cols, 4096)
        else:
            is_column = (target >= 0) & (target < cols)
            at_target = load_logits(logits_row + target, is_column, cap, CAP, "")
            at_target = tl.where(is_column, at_target, float("nan"))
            if PIECE > 0:
                loss, lse = row_in_pieces(logits_row, target, at_target, cols, cap, smoothing, z_loss, factor, PIECE,
                                          STAGES, WIDTH, CAP, SMOOTH, SQUARE, GRADIENT)
            else:
                loss, lse = whole_row(logits_row, target, at_target, cols, cap, smoothing, z_loss, factor, BLOCK, CAP,
                                      SMOOTH, SQUARE, GRADIENT)
        tl.store(losses_ptr + row, loss * factor)
        if lse_ptr is not None:
            tl.store(lse_ptr + row, lse)
