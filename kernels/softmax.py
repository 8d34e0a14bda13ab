"""Softmax and its kin along the rows of a matrix.

A row of `cols` elements lies `out_stride` and `x_stride` elements after the one before it. Whatever the element types,
the arithmetic is fp32. A program takes ROWS rows at a time: the next ones of its share (STAGES > 0, loads running that
far ahead), or the only ones it has (STAGES = 0). Rows are kept in registers between the steps; with PIECE > 0 a row is
taken in pieces of so many elements instead, and read twice, the second time from a cache.

EVICTION is the priority of what is read in the caches. `rows_class` tells tuning few rows from many.
"""

import triton
import triton.language as tl

WARPS = [4, 8, 16, 32, 2, 1]
# Registers a thread at most, by warps: fewer of them, and more programs run at a time.
LIMITS = {1: [None], 2: [None], 4: [None], 8: [None, 80, 64], 16: [None, 40, 64], 32: [None, 32]}


def configs():
    found = []
    for warps in WARPS:
        for limit in LIMITS[warps]:
            for eviction in ["", "evict_last"]:
                whole = {"ROWS": 1, "STAGES": 0, "PIECE": 0, "EVICTION": eviction}
                found.append(triton.Config(whole, num_warps=warps, maxnreg=limit))
        for stages in [1, 2, 3]:
            found.append(triton.Config({"ROWS": 1, "STAGES": stages, "PIECE": 0, "EVICTION": ""}, num_warps=warps))
    for rows in [2, 4, 8, 16, 32]:
        for warps in WARPS:
            found.append(triton.Config({"ROWS": rows, "STAGES": 0, "PIECE": 0, "EVICTION": ""}, num_warps=warps))
    for piece in [4096, 8192]:
        for warps in WARPS:
            found.append(triton.Config({"ROWS": 1, "STAGES": 3, "PIECE": piece, "EVICTION": ""}, num_warps=warps))
    return found


def extent(cols, size, warps, rows):
    """Elements of a tile's row: the extent q * 2^k, q at most 15, nearest above `cols` that the warps of a row share evenly in
    accesses of 8 or 16 bytes (of one element where rows begin anywhere)."""
    shared = 32 * max(1, warps // rows) * (8 // size if cols % 16 == 0 else 1)
    count = triton.cdiv(cols, shared)
    step = 1
    while count > 15 * step:
        step *= 2
    return min(triton.cdiv(count, step) * step * shared, triton.next_power_of_2(cols))


def fitting(configs, named_args, **kwargs):
    """Whole rows where a thread has 4 to 64 of their elements, pieces where there are four or more.

    What a thread holds at a time (a row and those loaded ahead) has to fit its registers.
    """
    cols = named_args["cols"]
    size = named_args["x_ptr"].element_size()
    kept = []
    for config in configs:
        rows = config.kwargs["ROWS"]
        block = extent(cols, size, config.num_warps, rows)
        stages = config.kwargs["STAGES"]
        piece = config.kwargs["PIECE"]
        threads = 32 * config.num_warps
        registers = min(200, 52000 // threads)
        if config.maxnreg is not None:
            registers = config.maxnreg * 4 // 5
        if piece > 0:
            if cols >= 4 * piece and 8 * threads <= piece <= 16 * threads:
                kept.append(config)
        elif rows * block <= 64 * threads and (rows * block >= 4 * threads or config.num_warps == 1):
            ahead = max(stages - 1, 0)
            fits = rows * block * (4 + ahead * size) <= 4 * registers * threads
            if fits and (rows == 1 or rows * block <= 8192):
                kept.append(config)
    return kept


@triton.jit
def numerators(x, mask, PLUS_ONE: tl.constexpr):
    if PLUS_ONE:
        return tl.where(mask, tl.exp(x) + 1.0, 0.0)
    else:
        return tl.exp(x - tl.max(x, axis=1)[:, None])


@triton.jit
def whole_rows(out_ptr, x_ptr, bias, tile, out_stride, x_stride, rows, cols, scale, AFFINE: tl.constexpr,
               PLUS_ONE: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, EVICTION: tl.constexpr):
    row = (tile * ROWS + tl.arange(0, ROWS))[:, None]
    col = tl.arange(0, BLOCK)[None, :]
    mask = col < cols
    if ROWS > 1:
        mask = mask & (row < rows)
    row = row.to(tl.int64)
    x = tl.load(x_ptr + row * x_stride + col, mask=mask, other=float("-inf"), eviction_policy=EVICTION).to(tl.float32)
    numerator = numerators(x, mask, PLUS_ONE)
    y = numerator / tl.sum(numerator, axis=1)[:, None]
    if AFFINE:
        y = y * scale + bias
    tl.store(out_ptr + row * out_stride + col, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def row_in_pieces(out_ptr, x_ptr, bias_ptr, out_stride, x_stride, cols, scale, PLUS_ONE: tl.constexpr,
                  WIDTH: tl.constexpr, PIECE: tl.constexpr, STAGES: tl.constexpr):
    """The first pass keeps a maximum, and a sum relative to it, for each WIDTH elements, which are one thread's."""
    LOG2_E: tl.constexpr = 1.4426950408889634
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * x_stride
    out_row = out_ptr + row * out_stride
    offsets = tl.arange(0, PIECE // WIDTH)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    top = tl.full([PIECE // WIDTH], -1e38, tl.float32)
    total = tl.zeros([PIECE // WIDTH], tl.float32)
    for start in tl.range(0, cols, PIECE, num_stages=STAGES):
        mask = start + offsets < cols
        x = tl.load(x_row + start + offsets, mask=mask, other=float("-inf")).to(tl.float32) * LOG2_E
        if PLUS_ONE:
            total += tl.sum(tl.where(mask, tl.exp2(x) + 1.0, 0.0), axis=1)
        else:
            higher = tl.maximum(top, tl.max(x, axis=1))
            total = total * tl.exp2(top - higher) + tl.sum(tl.exp2(x - higher[:, None]), axis=1)
            top = higher
    row_top = tl.max(top, axis=0)
    if PLUS_ONE:
        factor = 1.0 / tl.sum(total, axis=0)
    else:
        factor = 1.0 / tl.sum(total * tl.exp2(top - row_top), axis=0)
    for start in tl.range(0, cols, PIECE, num_stages=STAGES):
        mask = start + offsets < cols
        x = tl.load(x_row + start + offsets, mask=mask, other=float("-inf")).to(tl.float32) * LOG2_E
        if PLUS_ONE:
            y = (tl.exp2(x) + 1.0) * factor
        else:
            y = tl.exp2(x - row_top) * factor
        if bias_ptr is not None:
            y = y * scale + tl.load(bias_ptr + start + offsets, mask=mask, other=0.0).to(tl.float32)
        tl.store(out_row + start + offsets, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.autotune(configs=configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting})
@triton.heuristics({
    "BLOCK": lambda args: extent(args["cols"], args["x_ptr"].element_size(), args["num_warps"], args["ROWS"]),
    "WIDTH": lambda args: 16 // args["x_ptr"].element_size(),
})
@triton.jit
def softmax(out_ptr, x_ptr, bias_ptr, out_stride, x_stride, rows, cols, scale, rows_class, BLOCK: tl.constexpr,
            WIDTH: tl.constexpr, ROWS: tl.constexpr, STAGES: tl.constexpr, PIECE: tl.constexpr,
            EVICTION: tl.constexpr, PLUS_ONE: tl.constexpr = False):
    """softmax(x), with a bias softmax(x) * scale + bias; with PLUS_ONE the exponentials are exp(x) + 1 instead."""
    if PIECE > 0:
        row_in_pieces(out_ptr, x_ptr, bias_ptr, out_stride, x_stride, cols, scale, PLUS_ONE, WIDTH, PIECE, STAGES)
    else:
        AFFINE: tl.constexpr = bias_ptr is not None
        bias = 0.0
        if AFFINE:
            col = tl.arange(0, BLOCK)[None, :]
            bias = tl.load(bias_ptr + col, mask=col < cols, other=0.0).to(tl.float32)
        if STAGES == 0:
            whole_rows(out_ptr, x_ptr, bias, tl.program_id(0), out_stride, x_stride, rows, cols, scale, AFFINE, PLUS_ONE,
                       BLOCK, ROWS, EVICTION)
        else:
            for tile in tl.range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0), num_stages=STAGES):
                whole_rows(out_ptr, x_ptr, bias, tile, out_stride, x_stride, rows, cols, scale, AFFINE, PLUS_ONE, BLOCK,
                           ROWS, EVICTION)
