"""Gradients of norms without weights of columns: of l2_norm along rows, and of group_norm over groups of channels of images.

    l2_norm:     y = x r, r = 1 / max(|x|, eps):  dx = r (dy - y sum(dy y)), or dy / eps where |x| is below eps
    group_norm:  n = (x - mean) r, r = 1 / sqrt(variance + eps), g = dy weight[c]:  dx = r (g - mean(g) - n mean(g n))
                 dweight[c] = sum of dy n, dbias[c] = sum of dy, over all images and space

Means are those of a group of an image. The arithmetic is fp32.
"""

import triton
import triton.language as tl

from channel_norm import configs as channel_configs
from channel_norm import fitting_groups, statistics
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


@triton.jit
def load_weight(weight_ptr, channel, mask):
    if weight_ptr is not None:
        return tl.load(weight_ptr + channel, mask=mask, other=0.0).to(tl.float32)
    else:
        return 1.0


@triton.jit
def add_images(out_ptr, sums, channel, batch, channels):
    """out[channel] = the sum over all images, in their order."""
    if out_ptr is not None:
        total = 0.0
        for image in range(0, batch):
            total += tl.load(sums + image.to(tl.int64) * channels + channel, cache_modifier=".cg")
        tl.store(out_ptr + channel, total.to(out_ptr.dtype.element_ty))


@triton.autotune(configs=channel_configs(), key=["channels", "spatial", "groups"], prune_configs_by={"early_config_prune": fitting_groups})
@triton.jit
def group_norm_backward(dx_ptr, dweight_ptr, dbias_ptr, dy_ptr, x_ptr, weight_ptr, dx_stride, dx_stride_1, dy_stride, dy_stride_1, x_stride,
                        x_stride_1, batch, channels, spatial, groups, eps, partials_ptr, counters_ptr, BLOCK: tl.constexpr):
    """A program takes a group of an image. It leaves the sums of each channel, and the last one of the group's programs adds up those
    of all images in their order, so that gradients are the same in every run; it sets the group's counter back."""
    each = channels // groups
    group = tl.program_id(0) % groups
    image = (tl.program_id(0) // groups).to(tl.int64)
    first = group * each
    x_group = x_ptr + image * x_stride
    dy_group = dy_ptr + image * dy_stride
    dx_group = dx_ptr + image * dx_stride
    mean, factor = statistics(x_group, None, first, each, spatial, x_stride_1, 0, eps, BLOCK)
    weight_sums = partials_ptr
    bias_sums = partials_ptr + batch.to(tl.int64) * channels
    of_g = 0.0
    of_gn = 0.0
    for channel in range(first, first + each):
        with_n = tl.zeros([BLOCK], tl.float32)
        alone = tl.zeros([BLOCK], tl.float32)
        for start in range(0, spatial, BLOCK):
            at = start + tl.arange(0, BLOCK)
            row = channel.to(tl.int64)
            x, dy = load_pair(x_group + row * x_stride_1, dy_group + row * dy_stride_1, at, at < spatial)
            with_n += dy * (x - mean) * factor
            alone += dy
        of_weight = tl.sum(with_n, axis=0)
        of_bias = tl.sum(alone, axis=0)
        tl.store(weight_sums + image * channels + channel, of_weight)
        tl.store(bias_sums + image * channels + channel, of_bias)
        weight = load_weight(weight_ptr, channel, channel < channels)
        of_g += weight * of_bias
        of_gn += weight * of_weight
    elements = each * spatial
    of_g = of_g / elements
    of_gn = of_gn / elements
    for start in range(0, elements, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = at < elements
        channel = first + at // spatial
        row = channel.to(tl.int64)
        x, dy = load_pair(x_group + row * x_stride_1, dy_group + row * dy_stride_1, at % spatial, mask)
        n = (x - mean) * factor
        dx = factor * (dy * load_weight(weight_ptr, channel, mask) - of_g - n * of_gn)
        tl.store(dx_group + row * dx_stride_1 + at % spatial, dx.to(dx_ptr.dtype.element_ty), mask=mask)
    if dweight_ptr is not None or dbias_ptr is not None:
        tl.debug_barrier()
        if tl.atomic_add(counters_ptr + group, 1) == batch - 1:
            for channel in range(first, first + each):
                add_images(dweight_ptr, weight_sums, channel, batch, channels)
                add_images(dbias_ptr, bias_sums, channel, batch, channels)
            tl.store(counters_ptr + group, 0)
