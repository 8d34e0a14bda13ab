"""Softmax along the rows of a matrix, as five kernels and as one.

A row lies `cols` elements after the one before it. Each program works on one row, the fused kernel's on ROWS of them.
"""

import triton
import triton.language as tl


@triton.jit
def load_row(x_ptr, cols, BLOCK: tl.constexpr, other: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    return tl.load(x_ptr + tl.program_id(0) * cols + offsets, mask=offsets < cols, other=other)


@triton.jit
def store_row(out_ptr, row, cols, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.program_id(0) * cols + offsets, row, mask=offsets < cols)


# ---- The naive way: each step is a kernel of its own. The row is one tile: BLOCK is the power of two at or above
# `cols`.


@triton.jit
def row_max(out_ptr, x_ptr, cols, BLOCK: tl.constexpr):
    x = load_row(x_ptr, cols, BLOCK, float("-inf"))
    tl.store(out_ptr + tl.program_id(0), tl.max(x, axis=0))


@triton.jit
def subtract(out_ptr, x_ptr, max_ptr, cols, BLOCK: tl.constexpr):
    x = load_row(x_ptr, cols, BLOCK, 0.0)
    store_row(out_ptr, x - tl.load(max_ptr + tl.program_id(0)), cols, BLOCK)


@triton.jit
def exponential(out_ptr, x_ptr, cols, BLOCK: tl.constexpr):
    store_row(out_ptr, tl.exp(load_row(x_ptr, cols, BLOCK, 0.0)), cols, BLOCK)


@triton.jit
def row_sum(out_ptr, x_ptr, cols, BLOCK: tl.constexpr):
    x = load_row(x_ptr, cols, BLOCK, 0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x, axis=0))


@triton.jit
def divide(out_ptr, x_ptr, sum_ptr, cols, BLOCK: tl.constexpr):
    x = load_row(x_ptr, cols, BLOCK, 0.0)
    store_row(out_ptr, x / tl.load(sum_ptr + tl.program_id(0)), cols, BLOCK)


# ---- The fused way: rows stay on the chip between the steps.


@triton.jit
def softmax_of_tile(out_ptr, x_ptr, rows, cols, ROWS: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    """ROWS rows in one tile. To start a program takes time: a short row alone is too little work for one."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.arange(0, BLOCK_SIZE)[None, :]
    inside = (row < rows) & (col < cols)
    x = tl.load(x_ptr + row * cols + col, mask=inside, other=float("-inf"))
    numerator = tl.exp(x - tl.max(x, axis=1)[:, None])
    tl.store(out_ptr + row * cols + col, numerator / tl.sum(numerator, axis=1)[:, None], mask=inside)


@triton.jit
def softmax_of_long_row(out_ptr, x_ptr, cols, BLOCK_SIZE: tl.constexpr):
    """A long row in one tile, whose loads take a while: exponentials are taken as elements arrive, relative to the
    largest of four neighbours, and are scaled when the largest of the row is known."""
    row = tl.program_id(0) * cols
    col = tl.arange(0, BLOCK_SIZE // 4)[:, None] * 4 + tl.arange(0, 4)[None, :]
    x = tl.load(x_ptr + row + col, mask=col < cols, other=float("-inf"))
    top = tl.maximum(tl.max(x, axis=1), -1e38)
    numerator = tl.exp(x - top[:, None])
    scale = tl.exp(top - tl.max(top, axis=0))
    factor = scale * (1.0 / tl.sum(tl.sum(numerator, axis=1) * scale, axis=0))
    tl.store(out_ptr + row + col, numerator * factor[:, None], mask=col < cols)


@triton.jit
def softmax_in_pieces(out_ptr, x_ptr, cols, BLOCK_SIZE: tl.constexpr):
    """The row in tiles of BLOCK_SIZE: the first pass finds the maximum and the sum together, the second divides.

    Each place of the tile keeps the largest value that it has seen, and its sum relative to that; when a larger value
    comes, the sum is scaled down. The second pass finds the row in a cache.
    """
    row = tl.program_id(0) * cols
    offsets = tl.arange(0, BLOCK_SIZE)
    top = tl.full([BLOCK_SIZE], -1e38, tl.float32)
    total = tl.zeros([BLOCK_SIZE], tl.float32)
    for start in tl.range(0, cols, BLOCK_SIZE, num_stages=3):
        x = tl.load(x_ptr + row + start + offsets, mask=start + offsets < cols, other=float("-inf"))
        higher = tl.maximum(top, x)
        total = total * tl.exp(top - higher) + tl.exp(x - higher)
        top = higher
    row_top = tl.max(top, axis=0)
    factor = 1.0 / tl.sum(total * tl.exp(top - row_top), axis=0)
    for start in tl.range(0, cols, BLOCK_SIZE, num_stages=3):
        mask = start + offsets < cols
        x = tl.load(x_ptr + row + start + offsets, mask=mask, other=float("-inf"))
        tl.store(out_ptr + row + start + offsets, tl.exp(x - row_top) * factor, mask=mask)


def fitting(configs, named_args, **kwargs):
    """Tiles no larger than the rows ask for, with 4 to 64 elements a thread (or a single warp)."""
    block = triton.next_power_of_2(named_args["cols"])
    kept = []
    for config in configs:
        size = config.kwargs["BLOCK_SIZE"]
        rows = config.kwargs["ROWS"]
        threads = 32 * config.num_warps
        if size <= max(block, 256) and rows * size <= 64 * threads and (rows * size >= 4 * threads or config.num_warps == 1):
            if rows > 1:
                if size >= block and rows * size <= 8192:
                    kept.append(config)
            elif size >= block or 4096 <= size <= 8192:
                kept.append(config)
    return kept


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_SIZE": 256 * 2**i, "ROWS": rows}, num_warps=warps)
        for i in range(8)
        for rows in (1, 4, 16)
        for warps in (4, 8, 16, 32, 2, 1)
    ],
    key=["cols"],
    prune_configs_by={"early_config_prune": fitting},
)
@triton.heuristics({"WHOLE": lambda args: args["BLOCK_SIZE"] >= args["cols"]})
@triton.jit
def softmax(out_ptr, x_ptr, rows, cols, ROWS: tl.constexpr, BLOCK_SIZE: tl.constexpr, WHOLE: tl.constexpr):
    if WHOLE and ROWS == 1 and BLOCK_SIZE >= 8192:
        softmax_of_long_row(out_ptr, x_ptr, cols, BLOCK_SIZE)
    elif WHOLE:
        softmax_of_tile(out_ptr, x_ptr, rows, cols, ROWS, BLOCK_SIZE)
    else:
        softmax_in_pieces(out_ptr, x_ptr, cols, BLOCK_SIZE)
