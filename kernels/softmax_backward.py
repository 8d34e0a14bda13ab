"""Gradients of softmax and log_softmax along the rows of a matrix, from their results.

    softmax:      dx = out * (dout - sum(dout * out))
    log_softmax:  dx = dout - exp(out) * sum(dout)

A program takes ROWS rows, which stay in registers, or with PIECE > 0 one row in pieces, which are read twice. Few wide
rows, or their pieces, are divided over the blocks of a cluster (num_ctas), or with ROWS 0 each piece has a program of its own
(row_pieces.py), which keeps it in registers.
"""

import triton
import triton.language as tl

from row_pieces import KEPT_PIECES, begin_piece, end_of_piece, is_left, keeps_pieces, kept_pieces, set_back, tell_piece, told_of_row
from tiles import NARROW, NARROW_TILES, SHARED_PIECES, extent, shares_pieces


def configs():
    found = []
    for warps in [4, 8, 16, 32, 2, 1]:
        for rows in [1, 2, 4, 8, 16]:
            found.append(triton.Config({"ROWS": rows, "PIECE": 0}, num_warps=warps))
    for rows, warps in NARROW_TILES:
        found.append(triton.Config({"ROWS": rows, "PIECE": 0}, num_warps=warps))
    for warps, piece in [(8, 4096), (16, 8192), (16, 4096), (32, 8192)]:
        found.append(triton.Config({"ROWS": 1, "PIECE": piece}, num_warps=warps))
    for blocks, warps in [(16, 16), (16, 8), (8, 8), (4, 8), (2, 8)]:
        found.append(triton.Config({"ROWS": 1, "PIECE": 0}, num_warps=warps, num_ctas=blocks))
    for blocks, warps, piece in SHARED_PIECES:
        found.append(triton.Config({"ROWS": 1, "PIECE": piece}, num_warps=warps, num_ctas=blocks))
    for warps, piece, limit in KEPT_PIECES:
        if piece <= 768 * warps or (warps == 8 and limit is None):
            found.append(triton.Config({"ROWS": 0, "PIECE": piece}, num_warps=warps, maxnreg=limit))
    return found


def fitting(configs, named_args, **kwargs):
    """Whole rows where a thread has 4 to 32 elements of two of them; clusters where rows are few."""
    cols = named_args["cols"]
    size = named_args["dx_ptr"].element_size()
    kept = []
    for config in configs:
        rows = config.kwargs["ROWS"]
        piece = config.kwargs["PIECE"]
        blocks = config.num_ctas
        each = rows * extent(cols, size, config.num_warps * blocks, rows) / (32 * config.num_warps * blocks)
        if rows == 0:
            if keeps_pieces(config, named_args):
                kept.append(config)
        elif rows > 16 and cols > NARROW:
            continue
        elif piece > 0 and blocks > 1:
            if shares_pieces(piece, named_args):
                kept.append(config)
        elif blocks > 1 and (named_args["rows_class"] > 0 or cols < 2048 * blocks):
            continue
        elif piece > 0:
            if cols > 2 * piece:
                kept.append(config)
        elif (each >= 4 or config.num_warps == 1) and 2 * each + 24 <= min(200, 52000 // (32 * config.num_warps)):
            kept.append(config)
    return kept


@triton.jit
def term(dout, out, LOG: tl.constexpr):
    if LOG:
        return dout
    else:
        return dout * out


@triton.jit
def gradient(dout, out, total, LOG: tl.constexpr):
    if LOG:
        return dout - tl.exp(out) * total
    else:
        return out * (dout - total)


@triton.jit
def load_piece(dout_ptr, out_ptr, row, piece, dout_stride, out_stride, cols, PIECE: tl.constexpr):
    at = piece * PIECE + tl.arange(0, PIECE)
    row = row.to(tl.int64)
    dout = tl.load(dout_ptr + row * dout_stride + at, mask=at < cols, other=0.0).to(tl.float32)
    out = tl.load(out_ptr + row * out_stride + at, mask=at < cols, other=0.0).to(tl.float32)
    return dout, out, at


@triton.jit
def finish_piece(dx_ptr, dout, out, at, row, dx_stride, cols, totals, pieces, LOG: tl.constexpr, LIST: tl.constexpr):
    total = tl.sum(tl.where(tl.arange(0, LIST) < pieces, totals, 0.0), axis=0)
    dx = gradient(dout, out, total, LOG)
    tl.store(dx_ptr + row.to(tl.int64) * dx_stride + at, dx.to(dx_ptr.dtype.element_ty), mask=at < cols)


@triton.jit
def shared_row(dx_ptr, dout_ptr, out_ptr, dx_stride, dout_stride, out_stride, rows, cols, counters_ptr, LOG: tl.constexpr,
               PIECE: tl.constexpr, LIST: tl.constexpr):
    """A piece of a row that programs share, and for the last program the pieces that others have left."""
    pieces = tl.num_programs(0) // rows
    row, piece = begin_piece(counters_ptr, pieces, 1)
    dout, out, at = load_piece(dout_ptr, out_ptr, row, piece, dout_stride, out_stride, cols, PIECE)
    total = tl.sum(term(dout, out, LOG), axis=0)
    tell_piece(counters_ptr, row, piece, pieces, total, 0.0, 0.0, 0.0, 0.0, 1)
    done, totals, _, _, _, _ = told_of_row(counters_ptr, row, pieces, 1, LIST)
    ended = end_of_piece(counters_ptr, row, piece, pieces, done, 1)
    if done:
        finish_piece(dx_ptr, dout, out, at, row, dx_stride, cols, totals, pieces, LOG, LIST)
    if ended > 1:
        for number in range(rows * pieces):
            row = number // pieces
            if is_left(counters_ptr, row, number % pieces, pieces, 1):
                dout, out, at = load_piece(dout_ptr, out_ptr, row, number % pieces, dout_stride, out_stride, cols, PIECE)
                _, totals, _, _, _, _ = told_of_row(counters_ptr, row, pieces, 1, LIST)
                finish_piece(dx_ptr, dout, out, at, row, dx_stride, cols, totals, pieces, LOG, LIST)
    if ended > 0:
        set_back(counters_ptr, rows, pieces, 1)


@triton.autotune(configs=configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting})
@triton.heuristics({
    "BLOCK": lambda args: extent(args["cols"], args["dx_ptr"].element_size(), args["num_warps"] * args["num_ctas"], args["ROWS"]),
    "LIST": kept_pieces,
})
@triton.jit
def softmax_backward(dx_ptr, dout_ptr, out_ptr, dx_stride, dout_stride, out_stride, rows, cols, rows_class,
                     LOG: tl.constexpr, ROWS: tl.constexpr, PIECE: tl.constexpr, BLOCK: tl.constexpr, LIST: tl.constexpr = 0, counters_ptr=None):
    if LIST > 0:
        shared_row(dx_ptr, dout_ptr, out_ptr, dx_stride, dout_stride, out_stride, rows, cols, counters_ptr, LOG, PIECE, LIST)
        return
    TALL: tl.constexpr = ROWS if ROWS > 0 else 1
    row = (tl.program_id(0) * TALL + tl.arange(0, TALL))[:, None]
    inside = row < rows
    row = row.to(tl.int64)
    if PIECE > 0:
        terms = tl.zeros([1, PIECE], tl.float32)
        for start in range(0, cols, PIECE):
            col = start + tl.arange(0, PIECE)[None, :]
            dout = tl.load(dout_ptr + row * dout_stride + col, mask=col < cols, other=0.0).to(tl.float32)
            out = tl.load(out_ptr + row * out_stride + col, mask=col < cols, other=0.0).to(tl.float32)
            terms += term(dout, out, LOG)
        total = tl.sum(terms, axis=1)[:, None]
        for start in range(0, cols, PIECE):
            col = start + tl.arange(0, PIECE)[None, :]
            dout = tl.load(dout_ptr + row * dout_stride + col, mask=col < cols, other=0.0).to(tl.float32)
            out = tl.load(out_ptr + row * out_stride + col, mask=col < cols, other=0.0).to(tl.float32)
            dx = gradient(dout, out, total, LOG)
            tl.store(dx_ptr + row * dx_stride + col, dx.to(dx_ptr.dtype.element_ty), mask=col < cols)
    else:
        col = tl.arange(0, BLOCK)[None, :]
        mask = inside & (col < cols)
        dout = tl.load(dout_ptr + row * dout_stride + col, mask=mask, other=0.0).to(tl.float32)
        out = tl.load(out_ptr + row * out_stride + col, mask=mask, other=0.0).to(tl.float32)
        dx = gradient(dout, out, tl.sum(term(dout, out, LOG), axis=1)[:, None], LOG)
        tl.store(dx_ptr + row * dx_stride + col, dx.to(dx_ptr.dtype.element_ty), mask=mask)
