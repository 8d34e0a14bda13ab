"""LayerNorm forward and backward. A row lies `cols` elements after the one before it; a program holds a row at a time."""

import triton
import triton.language as tl


@triton.jit
def forward(y_ptr, mean_ptr, rstd_ptr, x_ptr, weight_ptr, bias_ptr, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < cols
    x = tl.load(x_ptr + row * cols + offsets, mask=inside, other=0.0)
    weight = tl.load(weight_ptr + offsets, mask=inside)
    bias = tl.load(bias_ptr + offsets, mask=inside)
    mean = tl.sum(x, axis=0) / cols
    centred = tl.where(inside, x - mean, 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / cols + eps)
    tl.store(y_ptr + row * cols + offsets, centred * rstd * weight + bias, mask=inside)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)


@triton.jit
def backward(dx_ptr, partial_dw_ptr, partial_db_ptr, dy_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, rows, cols,
             BLOCK: tl.constexpr):
    """dx of every row; of the gradients of weight and bias the sums over this program's rows, in a row of `partial`."""
    program = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < cols
    weight = tl.load(weight_ptr + offsets, mask=inside, other=0.0)
    dw = tl.zeros((BLOCK,), tl.float32)
    db = tl.zeros((BLOCK,), tl.float32)
    for row in range(program, rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * cols + offsets, mask=inside, other=0.0)
        dy = tl.load(dy_ptr + row * cols + offsets, mask=inside, other=0.0)
        rstd = tl.load(rstd_ptr + row)
        normal = tl.where(inside, (x - tl.load(mean_ptr + row)) * rstd, 0.0)
        scaled = dy * weight
        along = tl.sum(normal * scaled, axis=0) / cols  # what of the gradient lies along the row's two constraints
        level = tl.sum(scaled, axis=0) / cols
        tl.store(dx_ptr + row * cols + offsets, (scaled - normal * along - level) * rstd, mask=inside)
        dw += dy * normal
        db += dy
    tl.store(partial_dw_ptr + program * cols + offsets, dw, mask=inside)
    tl.store(partial_db_ptr + program * cols + offsets, db, mask=inside)


@triton.jit
def add_partials(dw_ptr, db_ptr, partial_dw_ptr, partial_db_ptr, partials, cols, ROWS: tl.constexpr,
                 BLOCK: tl.constexpr):
    """The sums over the rows of both partial matrices, in an order that is always the same."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    dw = tl.zeros((ROWS, BLOCK), tl.float32)
    db = tl.zeros((ROWS, BLOCK), tl.float32)
    for first in range(0, partials, ROWS):
        row = first + tl.arange(0, ROWS)
        inside = (row[:, None] < partials) & (offsets[None, :] < cols)
        at = row[:, None] * cols + offsets[None, :]
        dw += tl.load(partial_dw_ptr + at, mask=inside, other=0.0)
        db += tl.load(partial_db_ptr + at, mask=inside, other=0.0)
    tl.store(dw_ptr + offsets, tl.sum(dw, axis=0), mask=offsets < cols)
    tl.store(db_ptr + offsets, tl.sum(db, axis=0), mask=offsets < cols)
