"""Running sums and products along the rows of a matrix.

A program takes a row, BLOCK elements at a time, and goes on with the sum or product of what came before; loads run
STAGES ahead. The arithmetic is fp32.
"""

import triton
import triton.language as tl


def configs():
    found = []
    for block, warps in [(4096, 8), (4096, 4), (2048, 4), (8192, 8), (8192, 16), (16384, 16), (16384, 32), (1024, 4), (1024, 2),
                         (512, 2), (256, 1), (64, 1)]:
        for stages in [1, 3]:
            found.append(triton.Config({"BLOCK": block, "STAGES": stages}, num_warps=warps))
    return found


def fitting(configs, named_args, **kwargs):
    """Blocks that a row fills to more than a half; loads run ahead where it has several."""
    cols = named_args["cols"]
    kept = [c for c in configs if c.kwargs["BLOCK"] < 2 * cols and (c.kwargs["STAGES"] == 1 or c.kwargs["BLOCK"] < cols)]
    if len(kept) == 0:
        return [c for c in configs if c.kwargs["BLOCK"] == 64 and c.kwargs["STAGES"] == 1]
    return kept


@triton.jit
def multiply(a, b):
    return a * b


@triton.autotune(configs=configs(), key=["cols"], prune_configs_by={"early_config_prune": fitting})
@triton.jit
def scan_rows(out_ptr, x_ptr, out_stride, x_stride, rows, cols, KIND: tl.constexpr, BLOCK: tl.constexpr,
              STAGES: tl.constexpr):
    x_row = x_ptr + tl.program_id(0).to(tl.int64) * x_stride
    out_row = out_ptr + tl.program_id(0).to(tl.int64) * out_stride
    if KIND == "sum":
        before = 0.0
    else:
        before = 1.0
    for start in tl.range(0, cols, BLOCK, num_stages=STAGES):
        col = start + tl.arange(0, BLOCK)
        mask = col < cols
        if KIND == "sum":
            x = tl.load(x_row + col, mask=mask, other=0.0).to(tl.float32)
            y = before + tl.cumsum(x, axis=0)
            before += tl.sum(x, axis=0)
        else:
            x = tl.load(x_row + col, mask=mask, other=1.0).to(tl.float32)
            y = before * tl.cumprod(x, axis=0)
            before *= tl.reduce(x, 0, multiply)
        tl.store(out_row + col, y.to(out_ptr.dtype.element_ty), mask=mask)
