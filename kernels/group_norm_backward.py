"""The gradient of group_norm over groups of channels of images, batch x channels x spatial.

    n = (x - mean) r, r = 1 / sqrt(variance + eps), g = dy weight[c]:  dx = r (g - mean(g) - n mean(g n))
    dweight[c] = sum of dy n, dbias[c] = sum of dy, over all images and space

Means are those of a group of an image; the arithmetic is fp32. A program takes a group, as tiles of channels by space: with BLOCK = 0 as one,
which stays in registers, of a cluster if it is large; else BLOCK elements at a time, which are read twice. Then sums are those of the
distances d = x - shift from the mean of the first piece:

    sum(dy n) = r (sum(dy d) - mean(d) sum(dy)),  variance = mean(d d) - mean(d)^2

The first piece is part of the group, so that mean(d)^2 is at most the number of pieces times the variance.
"""

import triton
import triton.language as tl

from tiles import add_pairs, extent

# Blocks and warps of each for groups that stay in registers.
WHOLE_GROUPS = [(1, 1), (1, 2), (1, 4), (1, 8), (1, 16), (2, 8), (2, 16), (4, 8), (4, 16), (8, 8), (8, 16), (16, 8), (16, 16)]
# Elements of a piece, warps and blocks.
PIECES = [(1024, 4, 1), (2048, 4, 1), (4096, 8, 1), (8192, 16, 1), (16384, 16, 2), (32768, 16, 4), (65536, 16, 8)]


def configs():
    whole = [triton.Config({"BLOCK": 0}, num_warps=warps, num_ctas=blocks) for blocks, warps in WHOLE_GROUPS]
    return whole + [triton.Config({"BLOCK": block}, num_warps=warps, num_ctas=blocks) for block, warps, blocks in PIECES]


def channels_of_group(args):
    return triton.next_power_of_2(args["channels"] // args["groups"])


def space_at_once(args):
    """Elements of a channel in a tile."""
    warps = args["num_warps"] * args["num_ctas"]
    whole = extent(args["spatial"], args["x_ptr"].element_size(), warps, channels_of_group(args))
    return whole if args["BLOCK"] == 0 else min(triton.next_power_of_2(whole), args["BLOCK"])


def channels_at_once(args):
    whole = channels_of_group(args)
    return whole if args["BLOCK"] == 0 else min(whole, args["BLOCK"] // space_at_once(args))


def fitting(configs, named_args, **kwargs):
    """Tiles of whole groups that leave a thread 2 to 32 elements of each matrix, and pieces of larger groups."""
    kept = []
    for config in configs:
        args = {"num_warps": config.num_warps, "num_ctas": config.num_ctas, **config.kwargs, **named_args}
        threads = 32 * config.num_warps * config.num_ctas
        elements = channels_of_group(args) * named_args["spatial"]
        if config.kwargs["BLOCK"] == 0:
            if 2 * threads <= channels_at_once(args) * space_at_once(args) <= 32 * threads:
                kept.append(config)
        elif config.kwargs["BLOCK"] < elements:
            kept.append(config)
    return kept if len(kept) > 0 else configs[:1]


@triton.jit
def load_pair(x_group, dy_group, channel, at, x_stride, dy_stride, mask):
    """Elements of x and dy in fp32, 0 where there is none: channels down, space across."""
    x = tl.load(x_group + channel.to(tl.int64) * x_stride + at, mask=mask, other=0.0).to(tl.float32)
    dy = tl.load(dy_group + channel.to(tl.int64) * dy_stride + at, mask=mask, other=0.0).to(tl.float32)
    return x, dy


@triton.jit
def load_weights(weight_ptr, channel, there):
    """Weights of channels; 1 without any."""
    if weight_ptr is not None:
        return tl.load(weight_ptr + channel, mask=there, other=0.0).to(tl.float32)
    else:
        return tl.where(there, 1.0, 0.0)


@triton.jit
def sums_of_both(x, y, AXIS: tl.constexpr):
    """The sums of two tiles of one shape along an axis: the warps meet once for both."""
    return tl.reduce((x, y), AXIS, add_pairs)


@triton.jit
def store_gradient(dx_group, dx_stride, channel, at, mask, n, dy, weight, factor, mean_g, mean_gn):
    dx = factor * (dy * weight - mean_g - n * mean_gn)
    tl.store(dx_group + channel.to(tl.int64) * dx_stride + at, dx.to(dx_group.dtype.element_ty), mask=mask)


@triton.jit
def whole_group(dx_group, dy_group, x_group, weight_ptr, weight_sums, bias_sums, dx_stride, dy_stride, x_stride, first, each, spatial, eps,
                CHANNELS: tl.constexpr, SPACE: tl.constexpr):
    """Stores dx of a group, and the sums of its channels over space."""
    number = tl.arange(0, CHANNELS)
    at = tl.arange(0, SPACE)[None, :]
    there = number < each
    channel = (first + number)[:, None]
    mask = there[:, None] & (at < spatial)
    x, dy = load_pair(x_group, dy_group, channel, at, x_stride, dy_stride, mask)
    elements = each * spatial
    mean = tl.sum(tl.sum(x, axis=1), axis=0) / elements
    d = tl.where(mask, x - mean, 0.0)
    squares, with_d = sums_of_both(d * d, dy * d, 1)
    factor = tl.rsqrt(tl.sum(squares, axis=0) / elements + eps)
    of_weight = with_d * factor
    of_bias = tl.sum(dy, axis=1)
    tl.store(weight_sums + first + number, of_weight, mask=there)
    tl.store(bias_sums + first + number, of_bias, mask=there)
    weight = load_weights(weight_ptr, first + number, there)
    of_g, of_gn = sums_of_both(weight * of_bias, weight * of_weight, 0)
    store_gradient(dx_group, dx_stride, channel, at, mask, d * factor, dy, weight[:, None], factor, of_g / elements, of_gn / elements)


@triton.jit
def group_in_pieces(dx_group, dy_group, x_group, weight_ptr, weight_sums, bias_sums, dx_stride, dy_stride, x_stride, first, each, spatial, eps,
                    CHANNELS: tl.constexpr, SPACE: tl.constexpr):
    """The same. Sums of dy d stand where those of dy n come to stand."""
    number = tl.arange(0, CHANNELS)
    space = tl.arange(0, SPACE)[None, :]
    elements = each * spatial
    mask = (number < each)[:, None] & (space < spatial)
    begin = tl.load(x_group + (first + number)[:, None].to(tl.int64) * x_stride + space, mask=mask, other=0.0).to(tl.float32)
    shift = tl.sum(tl.sum(begin, axis=1), axis=0) / (min(CHANNELS, each) * min(SPACE, spatial))
    total = tl.zeros([CHANNELS], tl.float32)
    squares = tl.zeros([CHANNELS], tl.float32)
    of_g = tl.zeros([CHANNELS], tl.float32)
    of_gd = tl.zeros([CHANNELS], tl.float32)
    for begun in range(0, each, CHANNELS):
        there = begun + number < each
        channel = first + begun + number
        sums = tl.zeros([CHANNELS, SPACE], tl.float32)
        sums_of_squares = tl.zeros([CHANNELS, SPACE], tl.float32)
        alone = tl.zeros([CHANNELS, SPACE], tl.float32)
        with_d = tl.zeros([CHANNELS, SPACE], tl.float32)
        for start in range(0, spatial, SPACE):
            mask = there[:, None] & (start + space < spatial)
            x, dy = load_pair(x_group, dy_group, channel[:, None], start + space, x_stride, dy_stride, mask)
            d = tl.where(mask, x - shift, 0.0)
            sums += d
            sums_of_squares += d * d
            alone += dy
            with_d += dy * d
        of_bias, of_d = sums_of_both(alone, with_d, 1)
        tl.store(weight_sums + channel, of_d, mask=there)
        tl.store(bias_sums + channel, of_bias, mask=there)
        weight = load_weights(weight_ptr, channel, there)
        of_g += weight * of_bias
        of_gd += weight * of_d
        more, more_squares = sums_of_both(sums, sums_of_squares, 1)
        total += more
        squares += more_squares
    total, squares = sums_of_both(total, squares, 0)
    mean = total / elements
    factor = tl.rsqrt(tl.maximum(squares / elements - mean * mean, 0.0) + eps)
    mean_g, mean_gd = sums_of_both(of_g, of_gd, 0)
    mean_g = mean_g / elements
    mean_gn = (mean_gd / elements - mean * mean_g) * factor
    tl.debug_barrier()
    for begun in range(0, each, CHANNELS):
        there = begun + number < each
        channel = first + begun + number
        of_d = tl.load(weight_sums + channel, mask=there, other=0.0)
        of_bias = tl.load(bias_sums + channel, mask=there, other=0.0)
        tl.debug_barrier()
        tl.store(weight_sums + channel, (of_d - mean * of_bias) * factor, mask=there)
        weight = load_weights(weight_ptr, channel, there)[:, None]
        for start in range(0, spatial, SPACE):
            mask = there[:, None] & (start + space < spatial)
            x, dy = load_pair(x_group, dy_group, channel[:, None], start + space, x_stride, dy_stride, mask)
            n = (x - (shift + mean)) * factor
            store_gradient(dx_group, dx_stride, channel[:, None], start + space, mask, n, dy, weight, factor, mean_g, mean_gn)


@triton.jit
def add_images(out_ptr, sums, channel, there, batch, channels, IMAGES: tl.constexpr):
    """out[channel] = the sum over all images, in an order that follows from their number."""
    if out_ptr is not None:
        total = tl.zeros([IMAGES, channel.shape[0]], tl.float32)
        for start in range(0, batch, IMAGES):
            image = (start + tl.arange(0, IMAGES))[:, None]
            place = sums + image.to(tl.int64) * channels + channel[None, :]
            total += tl.load(place, mask=there[None, :] & (image < batch), other=0.0, cache_modifier=".cg")
        tl.store(out_ptr + channel, tl.sum(total, axis=0).to(out_ptr.dtype.element_ty), mask=there)


@triton.autotune(configs=configs(), key=["channels", "spatial", "groups"], prune_configs_by={"early_config_prune": fitting})
@triton.heuristics({"CHANNELS": channels_at_once, "SPACE": space_at_once})
@triton.jit
def group_norm_backward(dx_ptr, dweight_ptr, dbias_ptr, dy_ptr, x_ptr, weight_ptr, dx_stride, dx_stride_1, dy_stride, dy_stride_1, x_stride,
                        x_stride_1, batch, channels, spatial, groups, eps, partials_ptr, counters_ptr, BLOCK: tl.constexpr,
                        CHANNELS: tl.constexpr, SPACE: tl.constexpr):
    """A program leaves the sums of each channel, and the last one of the group's programs adds up those of all images, so that
    gradients are the same in every run; it sets the group's counter back."""
    each = channels // groups
    group = tl.program_id(0) % groups
    image = (tl.program_id(0) // groups).to(tl.int64)
    first = group * each
    weight_sums = partials_ptr
    bias_sums = partials_ptr + batch.to(tl.int64) * channels
    of_image = image * channels
    if BLOCK == 0:
        whole_group(dx_ptr + image * dx_stride, dy_ptr + image * dy_stride, x_ptr + image * x_stride, weight_ptr, weight_sums + of_image,
                    bias_sums + of_image, dx_stride_1, dy_stride_1, x_stride_1, first, each, spatial, eps, CHANNELS, SPACE)
    else:
        group_in_pieces(dx_ptr + image * dx_stride, dy_ptr + image * dy_stride, x_ptr + image * x_stride, weight_ptr, weight_sums + of_image,
                        bias_sums + of_image, dx_stride_1, dy_stride_1, x_stride_1, first, each, spatial, eps, CHANNELS, SPACE)
    if dweight_ptr is not None or dbias_ptr is not None:
        tl.debug_barrier()
        if tl.atomic_add(counters_ptr + group, 1) == batch - 1:
            for begun in range(0, each, CHANNELS):
                number = begun + tl.arange(0, CHANNELS)
                add_images(dweight_ptr, weight_sums, first + number, number < each, batch, channels, 32)
                add_images(dbias_ptr, bias_sums, first + number, number < each, batch, channels, 32)
            tl.store(counters_ptr + group, 0)
