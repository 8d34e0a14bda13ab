"""Running sums and products along the rows of a matrix.

A program takes ROWS whole rows, or with PIECE > 0 one row, PIECE elements at a time, and goes on with the sum or product of
what came before; loads run STAGES ahead. The arithmetic is fp32.
"""

import triton
import triton.language as tl

from tiles import extent, inside


def configs():
    found = []
    for piece, warps in [(4096, 8), (4096, 4), (2048, 4), (8192, 8), (8192, 16), (16384, 16), (16384, 32), (1024, 4), (1024, 2),
                         (512, 2)]:
        for stages in [1, 3]:
            found.append(triton.Config({"ROWS": 1, "PIECE": piece, "STAGES": stages}, num_warps=warps))
    for rows in [1, 2, 4, 8, 16, 32, 64]:
        for warps in [4, 8, 2, 1, 16]:
            found.append(triton.Config({"ROWS": rows, "PIECE": 0, "STAGES": 1}, num_warps=warps))
    return found


def fitting(configs, named_args, **kwargs):
    """Whole rows where a thread has 4 to 32 elements of them; pieces that a row fills to more than a half, loads ahead where it
    has several."""
    cols = named_args["cols"]
    size = named_args["x_ptr"].element_size()
    kept = []
    for config in configs:
        rows = config.kwargs["ROWS"]
        piece = config.kwargs["PIECE"]
        if piece == 0:
            each = rows * extent(cols, size, config.num_warps, rows) / (32 * config.num_warps)
            if each <= 32 and (each >= 4 or rows * config.num_warps == 1):
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


@triton.autotune(configs=configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting})
@triton.heuristics({
    "BLOCK": lambda args: extent(args["cols"], args["x_ptr"].element_size(), args["num_warps"], args["ROWS"]),
    "EVEN": lambda args: args["BLOCK"] == args["cols"] and args["rows"] % args["ROWS"] == 0,
})
@triton.jit
def scan_rows(out_ptr, x_ptr, out_stride, x_stride, rows, cols, rows_class, KIND: tl.constexpr, ROWS: tl.constexpr,
              PIECE: tl.constexpr, STAGES: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    if KIND == "sum":
        before = 0.0
    else:
        before = 1.0
    if PIECE == 0:
        row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
        col = tl.arange(0, BLOCK)[None, :]
        mask = inside(row, rows, EVEN) & inside(col, cols, EVEN)
        x = tl.load(x_ptr + row.to(tl.int64) * x_stride + col, mask=mask, other=before).to(tl.float32)
        y = scanned(x, 1, KIND)
        tl.store(out_ptr + row.to(tl.int64) * out_stride + col, y.to(out_ptr.dtype.element_ty), mask=mask)
    else:
        x_row = x_ptr + tl.program_id(0).to(tl.int64) * x_stride
        out_row = out_ptr + tl.program_id(0).to(tl.int64) * out_stride
        for start in tl.range(0, cols, PIECE, num_stages=STAGES):
            col = start + tl.arange(0, PIECE)
            mask = col < cols
            if KIND == "sum":
                x = tl.load(x_row + col, mask=mask, other=0.0).to(tl.float32)
                y = before + scanned(x, 0, KIND)
                before += tl.sum(x, axis=0)
            else:
                x = tl.load(x_row + col, mask=mask, other=1.0).to(tl.float32)
                y = before * scanned(x, 0, KIND)
                before *= tl.reduce(x, 0, multiply)
            tl.store(out_row + col, y.to(out_ptr.dtype.element_ty), mask=mask)
