"""Elementwise work on matrices in one pass: affine maps with an activation, gated units, dropout.

A row of `cols` elements lies `..._stride` elements after the one before it. Whatever the element types, the arithmetic
is fp32. A program takes a tile of ROWS rows and COLS columns, so that what belongs to a column is loaded once for ROWS
rows. Where no matrix has gaps between its rows it takes a run of ROWS * COLS elements instead, wherever rows end.

`rows_class` tells tuning few rows from many.
"""

import triton
import triton.language as tl

from tiles import NARROW_TILES, activate, mostly_filled, slope


def configs():
    found = []
    for rows, cols in [(1, 1024), (1, 512), (1, 2048), (1, 4096), (4, 1024), (2, 2048), (8, 512), (16, 64), (32, 32)]:
        for warps in [4, 8, 2]:
            for eviction in ["", "evict_last"]:
                found.append(triton.Config({"ROWS": rows, "COLS": cols, "EVICTION": eviction}, num_warps=warps))
    for cols in [1, 2, 4, 8, 16]:
        for rows, warps in NARROW_TILES:
            found.append(triton.Config({"ROWS": rows, "COLS": cols, "EVICTION": ""}, num_warps=warps))
    for cols in [24, 40, 48]:
        for rows, warps in [(16, 2), (32, 2), (32, 4), (64, 4), (128, 4), (128, 8)]:
            found.append(triton.Config({"ROWS": rows, "COLS": cols, "EVICTION": ""}, num_warps=warps))
    return found


def without_gaps(args):
    """Whether the rows of all matrices follow each other without gaps."""
    cols = args["cols"]
    for name in ["out_stride", "x_stride", "gate_stride", "up_stride", "dgate_stride", "dup_stride", "dout_stride",
                 "hidden_stride", "dhidden_stride"]:
        if name in args and args[name] != cols:
            return False
    return True


def fits(config):
    """Whether a thread has 4 to 32 elements of a tile."""
    return 4 <= config.kwargs["ROWS"] * config.kwargs["COLS"] / (32 * config.num_warps) <= 32


def fitting(configs, named_args, **kwargs):
    """Tiles that are filled to more than a half, of odd widths for rows that they hold whole."""
    cols = named_args["cols"]
    kept = []
    for config in configs:
        width = config.kwargs["COLS"]
        if fits(config) and mostly_filled(cols, width) and (width >= cols or width % 32 == 0):
            kept.append(config)
    return kept


def fitting_runs(configs, named_args, **kwargs):
    """Runs of elements where matrices have no gaps, else such tiles."""
    if without_gaps(named_args):
        return [c for c in configs if fits(c) and c.kwargs["ROWS"] == 1]
    return fitting(configs, named_args)


def is_even(args):
    """Whether tiles or runs end where the matrix does."""
    if without_gaps(args):
        return args["rows"] * args["cols"] % (args["ROWS"] * args["COLS"]) == 0
    return args["rows"] % args["ROWS"] == 0 and args["cols"] % args["COLS"] == 0


def wraps(args):
    """WRAP of columns_of_run()."""
    cols = args["cols"]
    return 0 if cols % 8 == 0 else 1 if cols > 8 else 2


@triton.jit
def place(rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr, EVEN: tl.constexpr):
    """Rows, columns and mask of this program's tile."""
    pieces = tl.cdiv(cols, COLS)
    tile = tl.program_id(0)
    row = (tile // pieces * ROWS + tl.arange(0, ROWS))[:, None]
    col = (tile % pieces * COLS + tl.arange(0, COLS))[None, :]
    if EVEN:
        mask = tl.full([ROWS, COLS], True, tl.int1)
    else:
        mask = (row < rows) & (col < cols)
    return row.to(tl.int64), col, mask


@triton.jit
def run(COUNT: tl.constexpr):
    """Elements of this program's run of COUNT, eight of them a row."""
    local = tl.arange(0, COUNT // 8)[:, None] * 8 + tl.arange(0, 8)[None, :]
    return tl.program_id(0).to(tl.int64) * COUNT + local


@triton.jit
def is_whole(rows, cols, COUNT: tl.constexpr, EVEN: tl.constexpr):
    """Whether this program's run lies inside the matrix. Its accesses are vectors then, whatever the number of elements."""
    return EVEN or (tl.program_id(0) + 1).to(tl.int64) * COUNT <= rows.to(tl.int64) * cols


@triton.jit
def columns_of_run(cols, COUNT: tl.constexpr, WRAP: tl.constexpr):
    """Columns of the run's elements. Eight of them, a row of the tile, end WRAP rows of the matrix: 0, 1, or 2 for more."""
    first = (tl.program_id(0).to(tl.int64) * COUNT % cols).to(tl.int32)
    begin = tl.arange(0, COUNT // 8)[:, None] * 8
    at = tl.arange(0, 8)[None, :]
    if WRAP == 2:
        col = (first + begin + at) % cols
    else:
        col = (first + begin) % cols + at
    if WRAP == 1:
        col = tl.where(col >= cols, col - cols, col)
    return col


@triton.jit
def affine_elements(out_ptr, x_ptr, bias_ptr, scale_ptr, offset_ptr, out_at, x_at, col, mask, col_mask,
                    ACTIVATION: tl.constexpr, EVICTION: tl.constexpr):
    y = tl.load(x_ptr + x_at, mask=mask, eviction_policy=EVICTION).to(tl.float32)
    if bias_ptr is not None:
        y += tl.load(bias_ptr + col, mask=col_mask).to(tl.float32)
    if scale_ptr is not None:
        y *= tl.load(scale_ptr + col, mask=col_mask).to(tl.float32)
    if offset_ptr is not None:
        y += tl.load(offset_ptr + col, mask=col_mask).to(tl.float32)
    y = activate(y, ACTIVATION)
    tl.store(out_ptr + out_at, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.autotune(configs=configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting_runs})
@triton.heuristics({"EVEN": is_even, "RUNS": without_gaps, "WRAP": wraps})
@triton.jit
def affine(out_ptr, x_ptr, bias_ptr, scale_ptr, offset_ptr, out_stride, x_stride, rows, cols, rows_class,
           ACTIVATION: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, EVICTION: tl.constexpr,
           EVEN: tl.constexpr, RUNS: tl.constexpr, WRAP: tl.constexpr):
    """activation((x + bias) * scale + offset); bias, scale and offset have an element a column, and may be None."""
    if RUNS:
        at = run(ROWS * COLS)
        col = columns_of_run(cols, ROWS * COLS, WRAP)
        if is_whole(rows, cols, ROWS * COLS, EVEN):
            affine_elements(out_ptr, x_ptr, bias_ptr, scale_ptr, offset_ptr, at, at, col, None, None, ACTIVATION, EVICTION)
        else:
            affine_elements(out_ptr, x_ptr, bias_ptr, scale_ptr, offset_ptr, at, at, col, at < rows.to(tl.int64) * cols, None,
                            ACTIVATION, EVICTION)
    else:
        row, col, mask = place(rows, cols, ROWS, COLS, EVEN)
        affine_elements(out_ptr, x_ptr, bias_ptr, scale_ptr, offset_ptr, row * out_stride + col, row * x_stride + col, col, mask,
                        col < cols, ACTIVATION, EVICTION)


@triton.jit
def glu_elements(out_ptr, gate_ptr, up_ptr, out_at, gate_at, up_at, mask, ACTIVATION: tl.constexpr, EVICTION: tl.constexpr):
    gate = tl.load(gate_ptr + gate_at, mask=mask, eviction_policy=EVICTION).to(tl.float32)
    up = tl.load(up_ptr + up_at, mask=mask, eviction_policy=EVICTION).to(tl.float32)
    y = activate(gate, ACTIVATION) * up
    tl.store(out_ptr + out_at, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.autotune(configs=configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting_runs})
@triton.heuristics({"EVEN": is_even, "RUNS": without_gaps})
@triton.jit
def glu(out_ptr, gate_ptr, up_ptr, out_stride, gate_stride, up_stride, rows, cols, rows_class, ACTIVATION: tl.constexpr,
        ROWS: tl.constexpr, COLS: tl.constexpr, EVICTION: tl.constexpr, EVEN: tl.constexpr, RUNS: tl.constexpr):
    """activation(gate) * up."""
    if RUNS:
        at = run(ROWS * COLS)
        if is_whole(rows, cols, ROWS * COLS, EVEN):
            glu_elements(out_ptr, gate_ptr, up_ptr, at, at, at, None, ACTIVATION, EVICTION)
        else:
            glu_elements(out_ptr, gate_ptr, up_ptr, at, at, at, at < rows.to(tl.int64) * cols, ACTIVATION, EVICTION)
    else:
        row, col, mask = place(rows, cols, ROWS, COLS, EVEN)
        glu_elements(out_ptr, gate_ptr, up_ptr, row * out_stride + col, row * gate_stride + col, row * up_stride + col, mask,
                     ACTIVATION, EVICTION)


@triton.jit
def glu_gradients(dgate_ptr, dup_ptr, dout_ptr, gate_ptr, up_ptr, dgate_at, dup_at, dout_at, gate_at, up_at, mask,
                  ACTIVATION: tl.constexpr, EVICTION: tl.constexpr):
    dout = tl.load(dout_ptr + dout_at, mask=mask, eviction_policy=EVICTION).to(tl.float32)
    gate = tl.load(gate_ptr + gate_at, mask=mask, eviction_policy=EVICTION).to(tl.float32)
    up = tl.load(up_ptr + up_at, mask=mask, eviction_policy=EVICTION).to(tl.float32)
    dgate = dout * up * slope(gate, ACTIVATION)
    dup = dout * activate(gate, ACTIVATION)
    tl.store(dgate_ptr + dgate_at, dgate.to(dgate_ptr.dtype.element_ty), mask=mask)
    tl.store(dup_ptr + dup_at, dup.to(dup_ptr.dtype.element_ty), mask=mask)


@triton.autotune(configs=configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting_runs})
@triton.heuristics({"EVEN": is_even, "RUNS": without_gaps})
@triton.jit
def glu_backward(dgate_ptr, dup_ptr, dout_ptr, gate_ptr, up_ptr, dgate_stride, dup_stride, dout_stride, gate_stride, up_stride,
                 rows, cols, rows_class, ACTIVATION: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
                 EVICTION: tl.constexpr, EVEN: tl.constexpr, RUNS: tl.constexpr):
    """dgate = dout * up * activation'(gate), dup = dout * activation(gate)."""
    if RUNS:
        at = run(ROWS * COLS)
        if is_whole(rows, cols, ROWS * COLS, EVEN):
            glu_gradients(dgate_ptr, dup_ptr, dout_ptr, gate_ptr, up_ptr, at, at, at, at, at, None, ACTIVATION, EVICTION)
        else:
            glu_gradients(dgate_ptr, dup_ptr, dout_ptr, gate_ptr, up_ptr, at, at, at, at, at, at < rows.to(tl.int64) * cols,
                          ACTIVATION, EVICTION)
    else:
        row, col, mask = place(rows, cols, ROWS, COLS, EVEN)
        glu_gradients(dgate_ptr, dup_ptr, dout_ptr, gate_ptr, up_ptr, row * dgate_stride + col, row * dup_stride + col,
                      row * dout_stride + col, row * gate_stride + col, row * up_stride + col, mask, ACTIVATION, EVICTION)


@triton.jit
def random_of_run(seed, COUNT: tl.constexpr):
    """The random numbers of the elements of this program's run, of four by one round of the generator. That of element
    number n is the one numbered n % 4 of tl.rand4x(seed, n // 4). Salmon et al.: Parallel Random Numbers: As Easy as 1, 2, 3,
    2011."""
    fours = tl.arange(0, COUNT // 8)[:, None] * 2 + tl.arange(0, 2)[None, :]
    a, b, c, d = tl.rand4x(seed, tl.program_id(0).to(tl.int64) * (COUNT // 4) + fours)
    return tl.reshape(tl.join(tl.join(a, c), tl.join(b, d)), [COUNT // 8, 8])


@triton.jit
def random_of(seed, number):
    """The same of elements by their numbers."""
    a, b, c, d = tl.rand4x(seed, number // 4)
    place = number % 4
    return tl.where(place < 2, tl.where(place == 0, a, b), tl.where(place == 2, c, d))


@triton.jit
def dropped(out_ptr, x_ptr, hidden_ptr, out_at, x_at, hidden_at, random, mask, p, ACTIVATION: tl.constexpr,
            EVICTION: tl.constexpr):
    """x / (1 - p), times activation'(hidden) if there is such, or 0 with probability p. What is random follows from seed and
    element alone, so that the same call on a gradient drops the same elements."""
    x = tl.load(x_ptr + x_at, mask=mask, eviction_policy=EVICTION).to(tl.float32)
    if hidden_ptr is not None:
        x *= slope(tl.load(hidden_ptr + hidden_at, mask=mask, eviction_policy=EVICTION).to(tl.float32), ACTIVATION)
    tl.store(out_ptr + out_at, tl.where(random >= p, x / (1.0 - p), 0.0).to(out_ptr.dtype.element_ty), mask=mask)


@triton.autotune(configs=configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting_runs})
@triton.heuristics({"EVEN": is_even, "RUNS": without_gaps})
@triton.jit
def dropout(out_ptr, x_ptr, out_stride, x_stride, rows, cols, p, seed, rows_class, ROWS: tl.constexpr, COLS: tl.constexpr,
            EVICTION: tl.constexpr, EVEN: tl.constexpr, RUNS: tl.constexpr):
    """The number of an element is row * cols + column."""
    if RUNS:
        at = run(ROWS * COLS)
        random = random_of_run(seed, ROWS * COLS)
        if is_whole(rows, cols, ROWS * COLS, EVEN):
            dropped(out_ptr, x_ptr, None, at, at, None, random, None, p, "none", EVICTION)
        else:
            dropped(out_ptr, x_ptr, None, at, at, None, random, at < rows.to(tl.int64) * cols, p, "none", EVICTION)
    else:
        row, col, mask = place(rows, cols, ROWS, COLS, EVEN)
        dropped(out_ptr, x_ptr, None, row * out_stride + col, row * x_stride + col, None, random_of(seed, row * cols + col), mask, p,
                "none", EVICTION)


@triton.autotune(configs=configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting_runs})
@triton.heuristics({"EVEN": is_even, "RUNS": without_gaps})
@triton.jit
def dropout_backward(dhidden_ptr, dout_ptr, hidden_ptr, dhidden_stride, dout_stride, hidden_stride, rows, cols, p, seed,
                     rows_class, ACTIVATION: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, EVICTION: tl.constexpr,
                     EVEN: tl.constexpr, RUNS: tl.constexpr):
    """The gradient of hidden in dropout(activation(hidden)), whose mask is made again."""
    if RUNS:
        at = run(ROWS * COLS)
        random = random_of_run(seed, ROWS * COLS)
        if is_whole(rows, cols, ROWS * COLS, EVEN):
            dropped(dhidden_ptr, dout_ptr, hidden_ptr, at, at, at, random, None, p, ACTIVATION, EVICTION)
        else:
            dropped(dhidden_ptr, dout_ptr, hidden_ptr, at, at, at, random, at < rows.to(tl.int64) * cols, p, ACTIVATION,
                    EVICTION)
    else:
        row, col, mask = place(rows, cols, ROWS, COLS, EVEN)
        dropped(dhidden_ptr, dout_ptr, hidden_ptr, row * dhidden_stride + col, row * dout_stride + col,
                row * hidden_stride + col, random_of(seed, row * cols + col), mask, p, ACTIVATION, EVICTION)
