"""Running sums and products along the rows of a matrix.

A program takes ROWS whole rows, or with PIECE > 0 one row, PIECE elements at a time, and goes on with the sum or product of
what came before; loads run STAGES ahead. Of few wide rows the blocks of a cluster (num_ctas) take a part each: first its sum or
product, then, from those of the parts before, what it runs through. Or (CHAIN) each program takes a piece, tells the others its sum or
product, and waits until those of the pieces before are told. Meanwhile it scans its piece (CHAIN 1), or does so behind that (2), which takes
fewer registers: more programs run at a time. The arithmetic is fp32, of integers that of the result's type.
"""

import triton
import triton.language as tl

from row_pieces import MOST_BEFORE, ROWS_OF_CLASS, end_of_program, list_of_pieces, tell, told, words_of_number
from tiles import NARROW, NARROW_TILES, begin_aligned, extent, inside, piece_mask, shares_pieces

# Pieces that have programs of their own: elements, warps, registers a thread at most, CHAIN.
PIECES = [(8192, 8, 64, 2), (4096, 4, 64, 2), (16384, 16, 64, 2), (8192, 8, 80, 2), (16384, 16, None, 2), (4096, 4, 128, 2), (4096, 8, 80, 2),
          (8192, 8, 128, 2), (32768, 32, 64, 2), (8192, 8, None, 1), (4096, 4, None, 1), (2048, 4, None, 1), (2048, 2, None, 1)]
MOST_EARLY = 264  # programs that scan their piece while they wait: where all run at a time
LEAST_PIECE = 4096  # elements; pieces of so many have words in all launches of several rows (launch_rules.cpp has the same)
MOST_OF_CLUSTER = 524288  # elements of a row


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
    for piece, warps, limit, chain in PIECES:
        found.append(triton.Config({"ROWS": 1, "PIECE": piece, "STAGES": 1, "CHAIN": chain}, num_warps=warps, maxnreg=limit))
    for blocks, warps, piece in [(16, 8, 4096), (16, 16, 8192), (16, 16, 16384), (16, 32, 16384), (8, 8, 4096), (4, 8, 4096)]:
        parts = {"ROWS": 1, "PIECE": piece, "STAGES": 1, "CHAIN": 0}
        found.append(triton.Config(parts, num_warps=warps, num_ctas=blocks))
    return found


def tells_pieces(config, named_args):
    """Whether a configuration may have a program for each piece of few wide rows. There are words for all launches of its class: those of
    several rows have no more elements than there are words for pieces of LEAST_PIECE."""
    piece = config.kwargs["PIECE"]
    element = named_args["out_ptr"].dtype
    held = piece * max(1, named_args["out_ptr"].element_size() // 4) // (32 * config.num_warps)  # words of a thread
    if config.maxnreg is not None and not 2 * held <= config.maxnreg <= 3 * held:
        return False
    if config.kwargs["CHAIN"] == 1 and named_args["rows"] * triton.cdiv(named_args["cols"], piece) > MOST_EARLY:
        return False
    rows = named_args["rows"] if piece >= LEAST_PIECE else ROWS_OF_CLASS * named_args["rows"]
    return shares_pieces(2 * piece, named_args) and list_of_pieces(element, rows, named_args["cols"] + MOST_BEFORE, piece, config.num_warps) > 0


def unit_of_pieces(args):
    """Elements of 16 bytes of x, if pieces begin at multiples of so many, as rows do not, alike in both matrices; else 1."""
    stride = args["x_stride"]
    return 16 // args["x_ptr"].element_size() if stride % 16 != 0 and stride == args["out_stride"] else 1


def fitting(configs, named_args, **kwargs):
    """Whole rows where a thread has 4 to 32 elements of them; pieces that a row fills to more than a half, loads ahead where it
    has several. Few rows: a program for each piece; a program, or a cluster, for each of very few wide ones takes much longer."""
    cols = named_args["cols"]
    size = named_args["x_ptr"].element_size()
    kept = [config for config in configs if config.kwargs["CHAIN"] > 0 and tells_pieces(config, named_args)]
    very_few = named_args["rows_class"] <= -2 and len(kept) > 0
    for config in configs:
        rows = config.kwargs["ROWS"]
        piece = config.kwargs["PIECE"]
        if config.kwargs["CHAIN"] > 0:
            continue
        if config.num_ctas > 1:
            if shares_pieces(1024 * config.num_ctas, named_args) and not (very_few and cols > MOST_OF_CLUSTER):
                kept.append(config)
        elif piece == 0:
            each = rows * extent(cols, size, config.num_warps, rows) / (32 * config.num_warps)
            if each <= 32 and (each >= 4 or rows * config.num_warps == 1) and (rows <= 64 or cols <= NARROW):
                kept.append(config)
        elif piece < 2 * cols and (config.kwargs["STAGES"] == 1 or piece < cols) and not very_few:
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
    return 0 if KIND == "sum" else 1


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
def row_in_parts(out_row, x_row, cols, NUMBER: tl.constexpr, KIND: tl.constexpr, PARTS: tl.constexpr, PIECE: tl.constexpr,
                 HELD: tl.constexpr):
    """With HELD a part is one piece, which stays in registers; else the parts are read twice."""
    none: tl.constexpr = neutral(KIND)
    width = PIECE if HELD else tl.cdiv(tl.cdiv(cols, PARTS), PIECE) * PIECE
    first = tl.arange(0, PARTS)[:, None] * width + tl.arange(0, PIECE)[None, :]
    if HELD:
        x = tl.load(x_row + first, mask=first < cols, other=none).to(NUMBER)
        before = before_parts(total_of(x, 1, KIND), KIND, PARTS)
        y = joined(before[:, None], scanned(x, 1, KIND), KIND)
        tl.store(out_row + first, y.to(out_row.dtype.element_ty), mask=first < cols)
    else:
        totals = tl.full([PARTS, PIECE], none, NUMBER)
        for start in range(0, width, PIECE):
            col = first + start
            totals = joined(totals, tl.load(x_row + col, mask=col < cols, other=none).to(NUMBER), KIND)
        before = before_parts(total_of(totals, 1, KIND), KIND, PARTS)
        for start in range(0, width, PIECE):
            col = first + start
            x = tl.load(x_row + col, mask=col < cols, other=none).to(NUMBER)
            y = joined(before[:, None], scanned(x, 1, KIND), KIND)
            before = joined(before, total_of(x, 1, KIND), KIND)
            tl.store(out_row + col, y.to(out_row.dtype.element_ty), mask=col < cols)


@triton.jit
def chained_piece(out_ptr, x_ptr, out_stride, x_stride, rows, cols, counters_ptr, NUMBER: tl.constexpr, KIND: tl.constexpr,
                  PIECE: tl.constexpr, CHAIN: tl.constexpr, LIST: tl.constexpr, UNIT: tl.constexpr):
    """A piece of a row: each program waits for those of the pieces before. The last one of LIST pieces tells what they have together, so that
    programs read few numbers of long rows."""
    pieces = tl.cdiv(cols + (MOST_BEFORE if UNIT > 1 else 0), PIECE)
    groups = tl.cdiv(pieces, LIST)
    number = tl.atomic_add(counters_ptr, 1, sem="relaxed")
    row = number // pieces
    piece = number % pieces
    group = piece // LIST
    of_row = rows * pieces + row * groups  # where the row's groups begin
    none = tl.full((), neutral(KIND), NUMBER)
    x_row, before = begin_aligned(row.to(tl.int64) * x_stride, UNIT)
    out_row, before = begin_aligned(row.to(tl.int64) * out_stride, UNIT)
    at = piece * PIECE + tl.arange(0, PIECE)
    mask = piece_mask(at, before, cols, UNIT)
    x = tl.load(x_ptr + x_row + at, mask=mask, other=neutral(KIND), eviction_policy="evict_first").to(NUMBER)
    total = total_of(x, 0, KIND)
    tell(counters_ptr, number, total)
    if CHAIN == 1:
        y = scanned(x, 0, KIND)
    of_pieces, of_groups = told(counters_ptr, row * pieces + group * LIST, piece % LIST, of_row, group, none, LIST)
    if piece % LIST == LIST - 1:
        tell(counters_ptr, of_row + group, joined(total_of(of_pieces, 0, KIND), total, KIND))
    of_others = total_of(joined(of_groups, of_pieces, KIND), 0, KIND)
    if CHAIN == 2:
        y = scanned(x, 0, KIND)
    y = joined(of_others, y, KIND).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + out_row + at, y, mask=mask, cache_modifier=".cs")
    end_of_program(counters_ptr, rows * pieces, rows * (pieces + groups) * words_of_number(NUMBER))


@triton.autotune(configs=configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting})
@triton.heuristics({
    "BLOCK": lambda args: extent(args["cols"], args["x_ptr"].element_size(), args["num_warps"], args["ROWS"]),
    "EVEN": lambda args: args["BLOCK"] == args["cols"] and args["rows"] % args["ROWS"] == 0,
    "UNIT": unit_of_pieces,
    "LIST": lambda args: list_of_pieces(args["out_ptr"].dtype, args["rows"], args["cols"] + (MOST_BEFORE if unit_of_pieces(args) > 1 else 0),
                                        args["PIECE"], args["num_warps"]) if args["CHAIN"] > 0 else 0,
    "PARTS": lambda args: args["num_ctas"],
    "HELD": lambda args: args["num_ctas"] > 1 and args["cols"] <= args["num_ctas"] * args["PIECE"],
})
@triton.jit
def scan_rows(out_ptr, x_ptr, out_stride, x_stride, rows, cols, rows_class, counters_ptr, KIND: tl.constexpr, ROWS: tl.constexpr,
              PIECE: tl.constexpr, STAGES: tl.constexpr, CHAIN: tl.constexpr, UNIT: tl.constexpr, LIST: tl.constexpr, BLOCK: tl.constexpr,
              EVEN: tl.constexpr, PARTS: tl.constexpr, HELD: tl.constexpr):
    none: tl.constexpr = neutral(KIND)
    NUMBER: tl.constexpr = tl.float32 if out_ptr.dtype.element_ty.is_floating() else out_ptr.dtype.element_ty
    if LIST > 0:
        chained_piece(out_ptr, x_ptr, out_stride, x_stride, rows, cols, counters_ptr, NUMBER, KIND, PIECE, CHAIN, LIST, UNIT)
    elif PIECE == 0:
        row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
        col = tl.arange(0, BLOCK)[None, :]
        mask = inside(row, rows, EVEN) & inside(col, cols, EVEN)
        x = tl.load(x_ptr + row.to(tl.int64) * x_stride + col, mask=mask, other=none).to(NUMBER)
        y = scanned(x, 1, KIND)
        tl.store(out_ptr + row.to(tl.int64) * out_stride + col, y.to(out_ptr.dtype.element_ty), mask=mask)
    else:
        x_row = x_ptr + tl.program_id(0).to(tl.int64) * x_stride
        out_row = out_ptr + tl.program_id(0).to(tl.int64) * out_stride
        if PARTS > 1:
            row_in_parts(out_row, x_row, cols, NUMBER, KIND, PARTS, PIECE, HELD)
        else:
            before = tl.full((), none, NUMBER)
            for start in tl.range(0, cols, PIECE, num_stages=STAGES):
                col = start + tl.arange(0, PIECE)
                mask = col < cols
                x = tl.load(x_row + col, mask=mask, other=none).to(NUMBER)
                y = joined(before, scanned(x, 0, KIND), KIND)
                before = joined(before, total_of(x, 0, KIND), KIND)
                tl.store(out_row + col, y.to(out_ptr.dtype.element_ty), mask=mask)
