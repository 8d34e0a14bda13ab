"""Running sums and products along the rows of a matrix.

A program takes ROWS whole rows, or with PIECE > 0 one row, PIECE elements at a time, and goes on with the sum or product of
what came before; loads run STAGES ahead. Of few wide rows the blocks of a cluster (num_ctas) take a part each: first its sum or
product, then, from those of the parts before, what it runs through. Or (CHAIN) each program takes a piece, tells the others its sum or
product, and waits until those of the pieces before are told. The arithmetic is fp32.
"""

import triton
import triton.language as tl

from row_pieces import end_of_program, list_of_pieces, tell, told
from tiles import NARROW, NARROW_TILES, extent, inside, shares_pieces


LINE = tl.constexpr(16)  # elements that a thread scans


def configs():
    found = []
    for piece, warps in [(4096, 8), (4096, 4), (2048, 4), (8192, 8), (8192, 16), (16384, 16), (16384, 32), (1024, 4), (1024, 2),
                         (512, 2)]:
        for stages in [1, 3]:
            found.append(triton.Config({"ROWS": 1, "PIECE": piece, "STAGES": stages, "CHAIN": 0}, num_warps=warps))
    for rows in [1, 2, 4, 8, 16, 32, 64]:
        for warps in [4, 8, 2, 1, 16]:
            found.append(triton.Config({"ROWS": rows, "PIECE": 0, "STAGES": 1, "CHAIN": 0}, num_warps=warps))
    for rows, warps in [tile for tile in NARROW_TILES if tile[0] > 64]:
        found.append(triton.Config({"ROWS": rows, "PIECE": 0, "STAGES": 1, "CHAIN": 0}, num_warps=warps))
    for piece, warps in [(4096, 4), (4096, 8), (8192, 8), (16384, 16), (8192, 16), (16384, 32)]:
        found.append(triton.Config({"ROWS": 1, "PIECE": piece, "STAGES": 1, "CHAIN": 1}, num_warps=warps))
    for blocks, warps, piece in [(16, 8, 4096), (16, 16, 8192), (16, 16, 16384), (16, 32, 16384), (8, 8, 4096), (4, 8, 4096)]:
        parts = {"ROWS": 1, "PIECE": piece, "STAGES": 1, "CHAIN": 0}
        found.append(triton.Config(parts, num_warps=warps, num_ctas=blocks))
    return found


def fitting(configs, named_args, **kwargs):
    """Whole rows where a thread has 4 to 32 elements of them; pieces that a row fills to more than a half, loads ahead where it
    has several. A program for each piece where rows are few."""
    cols = named_args["cols"]
    size = named_args["x_ptr"].element_size()
    kept = []
    for config in configs:
        rows = config.kwargs["ROWS"]
        piece = config.kwargs["PIECE"]
        if config.kwargs["CHAIN"] == 1:
            if shares_pieces(2 * piece, named_args) and cols <= 1024 * piece:
                kept.append(config)
        elif config.num_ctas > 1:
            if shares_pieces(1024 * config.num_ctas, named_args):
                kept.append(config)
        elif piece == 0:
            each = rows * extent(cols, size, config.num_warps, rows) / (32 * config.num_warps)
            if each <= 32 and (each >= 4 or rows * config.num_warps == 1) and (rows <= 64 or cols <= NARROW):
                kept.append(config)
        elif piece < 2 * cols and (config.kwargs["STAGES"] == 1 or piece < cols):
            kept.append(config)
    return kept


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit
def scanned(x, axis: tl.constexpr, KIND: tl.constexpr):
    if KIND == "sum":
        return tl.cumsum(x, axis=axis)
    else:
        return tl.cumprod(x, axis=axis)


@triton.jit
def neutral(KIND: tl.constexpr):
    return 0.0 if KIND == "sum" else 1.0


@triton.jit
def joined(a, b, KIND: tl.constexpr):
    return a + b if KIND == "sum" else a * b


@triton.jit
def total_of(x, axis: tl.constexpr, KIND: tl.constexpr):
    if KIND == "sum":
        return tl.sum(x, axis=axis)
    else:
        return tl.reduce(x, axis, multiply)


@triton.jit
def before_parts(of_parts, KIND: tl.constexpr, PARTS: tl.constexpr):
    """What comes before each part, by the sums or products of all."""
    part = tl.arange(0, PARTS)
    comes_before = part[None, :] < part[:, None]
    return total_of(tl.where(comes_before, of_parts[None, :], neutral(KIND)), 1, KIND)


@triton.jit
def row_in_parts(out_row, x_row, cols, KIND: tl.constexpr, PARTS: tl.constexpr, PIECE: tl.constexpr, HELD: tl.constexpr):
    """With HELD a part is one piece, which stays in registers; else the parts are read twice."""
    none: tl.constexpr = neutral(KIND)
    width = PIECE if HELD else tl.cdiv(tl.cdiv(cols, PARTS), PIECE) * PIECE
    first = tl.arange(0, PARTS)[:, None] * width + tl.arange(0, PIECE)[None, :]
    if HELD:
        x = tl.load(x_row + first, mask=first < cols, other=none).to(tl.float32)
        before = before_parts(total_of(x, 1, KIND), KIND, PARTS)
        y = joined(before[:, None], scanned(x, 1, KIND), KIND)
        tl.store(out_row + first, y.to(out_row.dtype.element_ty), mask=first < cols)
    else:
        totals = tl.full([PARTS, PIECE], none, tl.float32)
        for start in range(0, width, PIECE):
            col = first + start
            totals = joined(totals, tl.load(x_row + col, mask=col < cols, other=none).to(tl.float32), KIND)
        before = before_parts(total_of(totals, 1, KIND), KIND, PARTS)
        for start in range(0, width, PIECE):
            col = first + start
            x = tl.load(x_row + col, mask=col < cols, other=none).to(tl.float32)
            y = joined(before[:, None], scanned(x, 1, KIND), KIND)
            before = joined(before, total_of(x, 1, KIND), KIND)
            tl.store(out_row + col, y.to(out_row.dtype.element_ty), mask=col < cols)


@triton.jit
def chained_piece(out_ptr, x_ptr, out_stride, x_stride, rows, cols, counters_ptr, KIND: tl.constexpr, PIECE: tl.constexpr,
                  LIST: tl.constexpr):
    """A piece of a row: each program waits for those of the pieces before."""
    pieces = tl.cdiv(cols, PIECE)
    number = tl.atomic_add(counters_ptr, 1, sem="relaxed")
    row = number // pieces
    piece = number % pieces
    lines = tl.arange(0, PIECE // LINE)
    col = piece * PIECE + lines[:, None] * LINE + tl.arange(0, LINE)[None, :]
    x = tl.load(x_ptr + row.to(tl.int64) * x_stride + col, mask=col < cols, other=neutral(KIND)).to(tl.float32)
    of_lines = scanned(total_of(x, 1, KIND), 0, KIND)
    tell(counters_ptr, number, tl.sum(tl.where(lines == PIECE // LINE - 1, of_lines, 0.0), axis=0))
    before = tl.where(lines > 0, tl.gather(of_lines, tl.maximum(lines - 1, 0), 0), neutral(KIND))
    of_pieces = total_of(told(counters_ptr, row * pieces, piece, neutral(KIND), LIST), 0, KIND)
    before = joined(of_pieces, before, KIND)
    y = joined(before[:, None], scanned(x, 1, KIND), KIND)
    tl.store(out_ptr + row.to(tl.int64) * out_stride + col, y.to(out_ptr.dtype.element_ty), mask=col < cols)
    end_of_program(counters_ptr, rows * pieces, rows * pieces)


@triton.autotune(configs=configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting})
@triton.heuristics({
    "BLOCK": lambda args: extent(args["cols"], args["x_ptr"].element_size(), args["num_warps"], args["ROWS"]),
    "EVEN": lambda args: args["BLOCK"] == args["cols"] and args["rows"] % args["ROWS"] == 0,
    "LIST": lambda args: list_of_pieces(1, args) if args["CHAIN"] == 1 else 0,
    "PARTS": lambda args: args["num_ctas"],
    "HELD": lambda args: args["num_ctas"] > 1 and args["cols"] <= args["num_ctas"] * args["PIECE"],
})
@triton.jit
def scan_rows(out_ptr, x_ptr, out_stride, x_stride, rows, cols, rows_class, counters_ptr, KIND: tl.constexpr, ROWS: tl.constexpr,
              PIECE: tl.constexpr, STAGES: tl.constexpr, CHAIN: tl.constexpr, LIST: tl.constexpr, BLOCK: tl.constexpr,
              EVEN: tl.constexpr, PARTS: tl.constexpr, HELD: tl.constexpr):
    none: tl.constexpr = neutral(KIND)
    if LIST > 0:
        chained_piece(out_ptr, x_ptr, out_stride, x_stride, rows, cols, counters_ptr, KIND, PIECE, LIST)
    elif PIECE == 0:
        row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
        col = tl.arange(0, BLOCK)[None, :]
        mask = inside(row, rows, EVEN) & inside(col, cols, EVEN)
        x = tl.load(x_ptr + row.to(tl.int64) * x_stride + col, mask=mask, other=none).to(tl.float32)
        y = scanned(x, 1, KIND)
        tl.store(out_ptr + row.to(tl.int64) * out_stride + col, y.to(out_ptr.dtype.element_ty), mask=mask)
    else:
        x_row = x_ptr + tl.program_id(0).to(tl.int64) * x_stride
        out_row = out_ptr + tl.program_id(0).to(tl.int64) * out_stride
        if PARTS > 1:
            row_in_parts(out_row, x_row, cols, KIND, PARTS, PIECE, HELD)
        else:
            before = none
            for start in tl.range(0, cols, PIECE, num_stages=STAGES):
                col = start + tl.arange(0, PIECE)
                mask = col < cols
                x = tl.load(x_row + col, mask=mask, other=none).to(tl.float32)
                y = joined(before, scanned(x, 0, KIND), KIND)
                before = joined(before, total_of(x, 0, KIND), KIND)
                tl.store(out_row + col, y.to(out_ptr.dtype.element_ty), mask=mask)
