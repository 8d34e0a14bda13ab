"""The gradient of l2_norm along rows: y = x r, r = 1 / max(|x|, eps): dx = r (dy - y sum(dy y)), or dy / eps where |x| is below eps.
The arithmetic is fp32.
"""

import triton
import triton.language as tl

from softmax_backward import configs as row_configs
from softmax_backward import fitting as fitting_rows
from tiles import extent


@triton.jit
def load_pair(x_row, dy_row, col, mask):
    x = tl.load(x_row + col, mask=mask, other=0.0).to(tl.float32)
    dy = tl.load(dy_row + col, mask=mask, other=0.0).to(tl.float32)
    return x, dy


@triton.jit
def l2_gradient(x, dy, squares, products, eps):
    """`squares` and `products`: the sums of x x and of dy x over the row."""
    norm = tl.sqrt(squares)
    r = 1.0 / tl.maximum(norm, eps)
    along = tl.where(norm > eps, products * r * r, 0.0)
    return r * (dy - x * along)


@triton.autotune(configs=row_configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting_rows})
@triton.heuristics({"BLOCK": lambda args: extent(args["cols"], args["dx_ptr"].element_size(), args["num_warps"] * args["num_ctas"], args["ROWS"])})
@triton.jit
def l2_norm_backward(dx_ptr, dy_ptr, x_ptr, dx_stride, dy_stride, x_stride, rows, cols, eps, rows_class, ROWS: tl.constexpr,
                     PIECE: tl.constexpr, BLOCK: tl.constexpr):
    """A program takes ROWS rows, which stay in registers, or with PIECE > 0 one row in pieces, which are read twice."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    x_row = x_ptr + row.to(tl.int64) * x_stride
    dy_row = dy_ptr + row.to(tl.int64) * dy_stride
    dx_row = dx_ptr + row.to(tl.int64) * dx_stride
    if PIECE > 0:
        squares = tl.zeros([1, PIECE], tl.float32)
        products = tl.zeros([1, PIECE], tl.float32)
        for start in range(0, cols, PIECE):
            col = start + tl.arange(0, PIECE)[None, :]
            x, dy = load_pair(x_row, dy_row, col, col < cols)
            squares += x * x
            products += dy * x
        squares = tl.sum(squares, axis=1)[:, None]
        products = tl.sum(products, axis=1)[:, None]
        for start in range(0, cols, PIECE):
            col = start + tl.arange(0, PIECE)[None, :]
            x, dy = load_pair(x_row, dy_row, col, col < cols)
            dx = l2_gradient(x, dy, squares, products, eps)
            tl.store(dx_row + col, dx.to(dx_ptr.dtype.element_ty), mask=col < cols)
    else:
        col = tl.arange(0, BLOCK)[None, :]
        mask = (row < rows) & (col < cols)
        x, dy = load_pair(x_row, dy_row, col, mask)
        dx = l2_gradient(x, dy, tl.sum(x * x, axis=1)[:, None], tl.sum(dy * x, axis=1)[:, None], eps)
        tl.store(dx_row + col, dx.to(dx_ptr.dtype.element_ty), mask=mask)
