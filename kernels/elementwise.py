"""Elementwise work on matrices in one pass: affine maps with an activation, gated units, dropout.

A row of `cols` elements lies `..._stride` elements after the one before it. Whatever the element types, the arithmetic
is fp32. A program takes a tile of ROWS rows and COLS columns, so that what belongs to a column is loaded once for ROWS
rows.

`rows_class` tells tuning few rows from many.
"""

import triton
import triton.language as tl

from tiles import activate, inside, mostly_filled, slope


def configs():
    found = []
    for rows, cols in [(1, 1024), (1, 512), (1, 2048), (1, 4096), (4, 1024), (2, 2048), (8, 512), (16, 64), (32, 32)]:
        for warps in [4, 8, 2]:
            for eviction in ["", "evict_last"]:
                found.append(triton.Config({"ROWS": rows, "COLS": cols, "EVICTION": eviction}, num_warps=warps))
    return found


def fitting(configs, named_args, **kwargs):
    """Tiles that are filled to more than a half, with 4 to 32 elements a thread."""
    cols = named_args["cols"]
    kept = []
    for config in configs:
        width = config.kwargs["COLS"]
        elements = config.kwargs["ROWS"] * width / (32 * config.num_warps)
        if mostly_filled(cols, width) and 4 <= elements <= 32:
            kept.append(config)
    if len(kept) == 0:
        return [configs[-1]]
    return kept


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


@triton.autotune(configs=configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting})
@triton.heuristics({"EVEN": lambda args: args["rows"] % args["ROWS"] == 0 and args["cols"] % args["COLS"] == 0})
@triton.jit
def affine(out_ptr, x_ptr, bias_ptr, scale_ptr, offset_ptr, out_stride, x_stride, rows, cols, rows_class,
           ACTIVATION: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, EVICTION: tl.constexpr,
           EVEN: tl.constexpr):
    """activation((x + bias) * scale + offset); bias, scale and offset have an element a column, and may be None."""
    row, col, mask = place(rows, cols, ROWS, COLS, EVEN)
    y = tl.load(x_ptr + row * x_stride + col, mask=mask, eviction_policy=EVICTION).to(tl.float32)
    if bias_ptr is not None:
        y += tl.load(bias_ptr + col, mask=col < cols).to(tl.float32)
    if scale_ptr is not None:
        y *= tl.load(scale_ptr + col, mask=col < cols).to(tl.float32)
    if offset_ptr is not None:
        y += tl.load(offset_ptr + col, mask=col < cols).to(tl.float32)
    y = activate(y, ACTIVATION)
    tl.store(out_ptr + row * out_stride + col, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.autotune(configs=configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting})
@triton.heuristics({
    "EVEN": lambda args: args["rows"] % args["ROWS"] == 0 and args["cols"] % args["COLS"] == 0,
    "FLAT": lambda args: args["out_stride"] == args["cols"] and args["gate_stride"] == args["cols"] and
                         args["up_stride"] == args["cols"],
})
@triton.jit
def glu(out_ptr, gate_ptr, up_ptr, out_stride, gate_stride, up_stride, rows, cols, rows_class, ACTIVATION: tl.constexpr,
        ROWS: tl.constexpr, COLS: tl.constexpr, EVICTION: tl.constexpr, EVEN: tl.constexpr, FLAT: tl.constexpr):
    """activation(gate) * up. FLAT: the matrices have no gaps, so that a tile may be any run of their elements."""
    if FLAT:
        local = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
        gate_at = tl.program_id(0).to(tl.int64) * (ROWS * COLS) + local
        up_at = gate_at
        out_at = gate_at
        mask = inside(gate_at, rows.to(tl.int64) * cols, EVEN)
    else:
        row, col, mask = place(rows, cols, ROWS, COLS, EVEN)
        gate_at = row * gate_stride + col
        up_at = row * up_stride + col
        out_at = row * out_stride + col
    gate = tl.load(gate_ptr + gate_at, mask=mask, eviction_policy=EVICTION).to(tl.float32)
    up = tl.load(up_ptr + up_at, mask=mask, eviction_policy=EVICTION).to(tl.float32)
    y = activate(gate, ACTIVATION) * up
    tl.store(out_ptr + out_at, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.autotune(configs=configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting})
@triton.heuristics({"EVEN": lambda args: args["rows"] % args["ROWS"] == 0 and args["cols"] % args["COLS"] == 0})
@triton.jit
def glu_backward(dgate_ptr, dup_ptr, dout_ptr, gate_ptr, up_ptr, dgate_stride, dup_stride, dout_stride, gate_stride, up_stride,
                 rows, cols, rows_class, ACTIVATION: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
                 EVICTION: tl.constexpr, EVEN: tl.constexpr):
    """dgate = dout * up * activation'(gate), dup = dout * activation(gate)."""
    row, col, mask = place(rows, cols, ROWS, COLS, EVEN)
    dout = tl.load(dout_ptr + row * dout_stride + col, mask=mask, eviction_policy=EVICTION).to(tl.float32)
    gate = tl.load(gate_ptr + row * gate_stride + col, mask=mask, eviction_policy=EVICTION).to(tl.float32)
    up = tl.load(up_ptr + row * up_stride + col, mask=mask, eviction_policy=EVICTION).to(tl.float32)
    dgate = dout * up * slope(gate, ACTIVATION)
    dup = dout * activate(gate, ACTIVATION)
    tl.store(dgate_ptr + row * dgate_stride + col, dgate.to(dgate_ptr.dtype.element_ty), mask=mask)
    tl.store(dup_ptr + row * dup_stride + col, dup.to(dup_ptr.dtype.element_ty), mask=mask)


@triton.autotune(configs=configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting})
@triton.heuristics({"EVEN": lambda args: args["rows"] % args["ROWS"] == 0 and args["cols"] % args["COLS"] == 0})
@triton.jit
def dropout(out_ptr, x_ptr, out_stride, x_stride, rows, cols, p, seed, rows_class, ROWS: tl.constexpr, COLS: tl.constexpr,
            EVICTION: tl.constexpr, EVEN: tl.constexpr):
    """x / (1 - p), or 0 with probability p. The random number of an element is tl.rand(seed, row * cols + column), so that
    the same call on a gradient drops the same elements. Salmon et al.: Parallel Random Numbers: As Easy as 1, 2, 3, 2011."""
    row, col, mask = place(rows, cols, ROWS, COLS, EVEN)
    x = tl.load(x_ptr + row * x_stride + col, mask=mask, eviction_policy=EVICTION).to(tl.float32)
    kept = tl.rand(seed, row * cols + col) >= p
    y = tl.where(kept, x / (1.0 - p), 0.0)
    tl.store(out_ptr + row * out_stride + col, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.autotune(configs=configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting})
@triton.heuristics({"EVEN": lambda args: args["rows"] % args["ROWS"] == 0 and args["cols"] % args["COLS"] == 0})
@triton.jit
def dropout_backward(dhidden_ptr, dout_ptr, hidden_ptr, dhidden_stride, dout_stride, hidden_stride, rows, cols, p, seed,
                     rows_class, ACTIVATION: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, EVICTION: tl.constexpr,
                     EVEN: tl.constexpr):
    """The gradient of hidden in dropout(activation(hidden)), whose mask is made again."""
    row, col, mask = place(rows, cols, ROWS, COLS, EVEN)
    dout = tl.load(dout_ptr + row * dout_stride + col, mask=mask, eviction_policy=EVICTION).to(tl.float32)
    hidden = tl.load(hidden_ptr + row * hidden_stride + col, mask=mask, eviction_policy=EVICTION).to(tl.float32)
    kept = tl.rand(seed, row * cols + col) >= p
    dhidden = tl.where(kept, dout * slope(hidden, ACTIVATION) / (1.0 - p), 0.0)
    tl.store(dhidden_ptr + row * dhidden_stride + col, dhidden.to(dhidden_ptr.dtype.element_ty), mask=mask)
