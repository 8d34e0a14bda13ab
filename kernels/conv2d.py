"""Convolution of images as a product, whose left operand is never there: out = epilogue(conv(x, w) + bias).

x is batch x height x width x channels, w out_channels x kernel_height x kernel_width x group_channels, out batch x out_height x
out_width x out_channels, elements of a pixel side by side (what other libraries call channels-last). With G groups, output channels
are divided into G parts, each of which sees channels / G = group_channels channels of x. Pixels outside of x are zeros.

Rows of the product are the pixels of `out`, its columns the output channels of a group, and K goes over kernel rows, kernel columns
and channels. A K-step takes BLOCK_K channels of one place of the kernel. Few channels are compiled in, as CHANNELS, and the kernel's
width as WIDTH: then a K-step takes BLOCK_K elements of K anywhere, whose places follow from their numbers.
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
            if config.kwargs["BLOCK_K"] <= max(64, triton.next_power_of_2(named_args["group_channels"])):
                kept.append(config)
    return kept if len(kept) > 0 else configs[-1:]


@triton.jit
def load_step(step, y, x, corner, w_row, height, width, kernel_width, group_channels, row_mask, col_mask, x_stride_1, x_stride_2, w_stride_1,
              w_stride_2, dilation_h, dilation_w, kernel_size, BLOCK_K: tl.constexpr, CHANNELS: tl.constexpr, WIDTH: tl.constexpr):
    """A's and B's elements of a K-step: pixels x BLOCK_K and BLOCK_K x channels. y, x and `corner`: where the kernel's first place lies in
    the image and in memory, for each pixel."""
    depth = tl.arange(0, BLOCK_K)
    if CHANNELS > 0:
        k = step * BLOCK_K + depth
        channel = k % CHANNELS
        r = k // (CHANNELS * WIDTH)
        s = k // CHANNELS % WIDTH
        in_kernel = k < kernel_size
        at = (r * dilation_h).to(tl.int64) * x_stride_1 + (s * dilation_w).to(tl.int64) * x_stride_2 + channel
        a_ptrs = corner[:, None] + at[None, :]
        w_offset = r * w_stride_1 + s * w_stride_2 + channel
        place_y = y[:, None] + (r * dilation_h)[None, :]
        place_x = x[:, None] + (s * dilation_w)[None, :]
    else:
        steps = tl.cdiv(group_channels, BLOCK_K)
        channel = step % steps * BLOCK_K + depth
        in_kernel = channel < group_channels
        r = step // steps // kernel_width
        s = step // steps % kernel_width
        at = tl.cast(r * dilation_h, tl.int64) * x_stride_1 + tl.cast(s * dilation_w, tl.int64) * x_stride_2
        a_ptrs = (corner + at)[:, None] + channel[None, :]
        w_offset = r * w_stride_1 + s * w_stride_2 + channel
        place_y = (y + r * dilation_h)[:, None]
        place_x = (x + s * dilation_w)[:, None]
    in_image = (place_y >= 0) & (place_y < height) & (place_x >= 0) & (place_x < width)
    a = tl.load(a_ptrs, mask=row_mask[:, None] & in_image & in_kernel[None, :], other=0.0)
    b = tl.load(w_row[None, :] + w_offset[:, None], mask=in_kernel[:, None] & col_mask[None, :], other=0.0)
    return a, b


@triton.autotune(configs=configs(), key=["batch", "out_height", "out_width", "out_channels", "group_channels", "kernel_height", "kernel_width"],
                 prune_configs_by={"early_config_prune": fitting, "top_k": 8})
@triton.heuristics({
    "CHANNELS": lambda args: args["group_channels"] if args["group_channels"] < args["BLOCK_K"] else 0,
    "WIDTH": lambda args: args["kernel_width"] if args["group_channels"] < args["BLOCK_K"] else 0,
})
@triton.jit
def conv2d(out_ptr, x_ptr, w_ptr, bias_ptr, batch, height, width, out_height, out_width, out_channels, kernel_height, kernel_width,
           group_channels, out_stride, out_stride_1, out_stride_2, x_stride, x_stride_1, x_stride_2, w_stride, w_stride_1, w_stride_2,
           stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w, groups, EPILOGUE: tl.constexpr,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, CHANNELS: tl.constexpr, WIDTH: tl.constexpr):
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
    first_y = y * stride_h - padding_h
    first_x = x * stride_w - padding_w
    corner = x_ptr + image * x_stride + first_y.to(tl.int64) * x_stride_1 + first_x.to(tl.int64) * x_stride_2 + group * group_channels
    w_row = w_ptr + channel.to(tl.int64) * w_stride
    kernel_size = kernel_height * kernel_width * group_channels
    if CHANNELS > 0:
        steps = tl.cdiv(kernel_size, BLOCK_K)
    else:
        steps = kernel_height * kernel_width * tl.cdiv(group_channels, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(0, steps):
        a, b = load_step(step, first_y, first_x, corner, w_row, height, width, kernel_width, group_channels, row_mask, col_mask, x_stride_1,
                         x_stride_2, w_stride_1, w_stride_2, dilation_h, dilation_w, kernel_size, BLOCK_K, CHANNELS, WIDTH)
        acc = tl.dot(a, b, acc)
    if bias_ptr is not None:
        acc += tl.load(bias_ptr + channel, mask=col_mask, other=0.0).to(tl.float32)[None, :]
    there = out_ptr + image * out_stride + y.to(tl.int64) * out_stride_1 + x.to(tl.int64) * out_stride_2
    result = activate(acc, EPILOGUE).to(out_ptr.dtype.element_ty)
    tl.store(there[:, None] + channel[None, :], result, mask=row_mask[:, None] & col_mask[None, :])
