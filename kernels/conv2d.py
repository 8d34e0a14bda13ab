"""Convolution of images as a product, whose left operand is never there: out = epilogue(conv(x, w) + bias).

x is batch x height x width x channels, w out_channels x kernel_height x kernel_width x group_channels, out batch x out_height x
out_width x out_channels, elements of a pixel side by side (what other libraries call channels-last). With G groups, output channels
are divided into G parts, each of which sees channels / G = group_channels channels of x. Pixels outside of x are zeros.

Rows of the product are the pixels of `out`, its columns the output channels of a group, and K goes over kernel rows, kernel columns
and channels. A K-step takes BLOCK_K channels of one place of the kernel; with FLAT, for few channels, BLOCK_K elements of K anywhere.
Chetlur et al.: cuDNN, 2014.
"""

import triton
import triton.language as tl

from tiles import activate


def tile(m, n, k, warps, stages):
    return triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}, num_warps=warps, num_stages=stages)


def configs():
    found = []
    for m, n, k, warps, stages in [(128, 256, 64, 8, 3), (256, 128, 64, 8, 3), (128, 128, 64, 8, 4), (128, 128, 64, 4, 3), (128, 128, 32, 4, 4),
                                   (128, 64, 64, 4, 4), (256, 64, 64, 8, 4), (64, 64, 64, 4, 4), (64, 128, 64, 4, 4), (64, 64, 32, 4, 4),
                                   (128, 64, 32, 4, 4), (128, 32, 32, 4, 4), (64, 32, 32, 2, 4), (128, 16, 32, 4, 4), (16, 16, 32, 1, 2)]:
        found.append(tile(m, n, k, warps, stages))
    return found


def fitting(configs, named_args, **kwargs):
    """Tiles at most twice as wide as a group's channels."""
    columns = named_args["out_channels"] // named_args["groups"]
    pixels = named_args["batch"] * named_args["out_height"] * named_args["out_width"]
    kept = []
    for config in configs:
        n = config.kwargs["BLOCK_N"]
        if n < 2 * max(16, columns) and config.kwargs["BLOCK_M"] < 2 * max(16, pixels):
            if config.kwargs["BLOCK_K"] <= max(32, triton.next_power_of_2(named_args["group_channels"])):
                kept.append(config)
    return kept if len(kept) > 0 else configs[-1:]


@triton.jit
def load_step(step, shift_y, shift_x, x_image, w_row, height, width, kernel_width, group_channels, row_mask, col_mask,
              x_stride_1, x_stride_2, w_stride_1, w_stride_2, dilation_h, dilation_w, kernel_size, BLOCK_K: tl.constexpr, FLAT: tl.constexpr):
    """A's and B's elements of a K-step: pixels x BLOCK_K and BLOCK_K x channels."""
    depth = tl.arange(0, BLOCK_K)
    if FLAT:
        k = step * BLOCK_K + depth
        channel = k % group_channels
        there = k // group_channels
        in_kernel = k < kernel_size
    else:
        steps = tl.cdiv(group_channels, BLOCK_K)
        channel = step % steps * BLOCK_K + depth
        there = step // steps
        in_kernel = channel < group_channels
    r = there // kernel_width
    s = there % kernel_width
    if FLAT:
        y = shift_y[:, None] + (r * dilation_h)[None, :]
        x = shift_x[:, None] + (s * dilation_w)[None, :]
        w_offset = r * w_stride_1 + s * w_stride_2 + channel
    else:
        y = shift_y[:, None] + r * dilation_h
        x = shift_x[:, None] + s * dilation_w
        w_offset = r * w_stride_1 + s * w_stride_2 + channel
    in_image = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    a_ptrs = x_image[:, None] + y.to(tl.int64) * x_stride_1 + x.to(tl.int64) * x_stride_2 + channel[None, :]
    a = tl.load(a_ptrs, mask=row_mask[:, None] & in_image & in_kernel[None, :], other=0.0)
    b = tl.load(w_row[None, :] + w_offset[:, None], mask=in_kernel[:, None] & col_mask[None, :], other=0.0)
    return a, b


@triton.autotune(configs=configs(), key=["batch", "out_height", "out_width", "out_channels", "group_channels", "kernel_height", "kernel_width"],
                 prune_configs_by={"early_config_prune": fitting, "top_k": 8})
@triton.heuristics({"FLAT": lambda args: args["group_channels"] < args["BLOCK_K"]})
@triton.jit
def conv2d(out_ptr, x_ptr, w_ptr, bias_ptr, batch, height, width, out_height, out_width, out_channels, kernel_height, kernel_width,
           group_channels, out_stride, out_stride_1, out_stride_2, x_stride, x_stride_1, x_stride_2, w_stride, w_stride_1, w_stride_2,
           stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w, groups, EPILOGUE: tl.constexpr,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, FLAT: tl.constexpr):
    """A program takes BLOCK_M pixels and BLOCK_N output channels of a group."""
    columns = out_channels // groups
    tiles_n = tl.cdiv(columns, BLOCK_N)
    group = tl.program_id(0) % (tiles_n * groups) // tiles_n
    col = tl.program_id(0) % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
    pixel = tl.program_id(0) // (tiles_n * groups) * BLOCK_M + tl.arange(0, BLOCK_M)
    size = out_height * out_width
    row_mask = pixel < batch * size
    col_mask = col < columns
    image = (pixel // size).to(tl.int64)
    y = pixel % size // out_width
    x = pixel % out_width

    channel = group * columns + col
    x_image = x_ptr + image * x_stride + group * group_channels
    w_row = w_ptr + channel.to(tl.int64) * w_stride
    kernel_size = kernel_height * kernel_width * group_channels
    if FLAT:
        steps = tl.cdiv(kernel_size, BLOCK_K)
    else:
        steps = kernel_height * kernel_width * tl.cdiv(group_channels, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(0, steps):
        a, b = load_step(step, y * stride_h - padding_h, x * stride_w - padding_w, x_image, w_row, height, width, kernel_width,
                         group_channels, row_mask, col_mask, x_stride_1, x_stride_2, w_stride_1, w_stride_2, dilation_h, dilation_w,
                         kernel_size, BLOCK_K, FLAT)
        acc = tl.dot(a, b, acc)
    if bias_ptr is not None:
        acc += tl.load(bias_ptr + channel, mask=col_mask, other=0.0).to(tl.float32)[None, :]
    there = out_ptr + image * out_stride + y.to(tl.int64) * out_stride_1 + x.to(tl.int64) * out_stride_2
    result = activate(acc, EPILOGUE).to(out_ptr.dtype.element_ty)
    tl.store(there[:, None] + channel[None, :], result, mask=row_mask[:, None] & col_mask[None, :])
