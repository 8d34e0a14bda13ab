"""Norms of images, batch x channels x spatial: over groups of channels, and by statistics that are known.

    group_norm:  y = (h - mean) / sqrt(variance + eps) over the channels of a group and all of space, h = x + residual
    batch_norm:  y = (x - mean[c]) / sqrt(variance[c] + eps)
    out = activation(y * weight[c] + bias[c])    (each may be None, as residual may); sum = h, if given

The result of group_norm may be quantised: divided by scale[0], or by a scale for each group, which is written to scales.

The arithmetic is fp32. A program of group_norm takes a group of an image: with BLOCK = 0 all of it, which stays in
registers, of a cluster if it is large; else BLOCK elements at a time, which are read again for each step, from a cache.
One of batch_norm takes BLOCK elements wherever channels end, or where these have gaps between them BLOCK elements of a
channel of an image. Wu, He: Group Normalization, 2018;
Ioffe, Szegedy: Batch Normalization, 2015.
"""

import triton
import triton.language as tl

from tiles import activate, columns, divide, extent, quantised, row_max, row_scale, row_sum

# Blocks and warps of each, and registers a thread at most, for groups that stay in registers.
WHOLE_GROUPS = [(1, 4, None), (1, 8, None), (1, 16, 64), (1, 2, None), (2, 16, 64), (4, 8, None), (4, 16, 64), (8, 8, None), (8, 16, 64),
                (16, 16, 64)]


def configs():
    found = []
    for block, warps in [(1024, 4), (2048, 4), (4096, 8), (8192, 16), (256, 2), (64, 1)]:
        found.append(triton.Config({"BLOCK": block}, num_warps=warps))
    return found


def group_configs():
    """With clusters for large groups: as few are under way at a time as the second-level cache keeps."""
    found = configs()
    for block, warps, blocks in [(65536, 16, 8), (32768, 8, 8), (32768, 16, 4), (16384, 16, 2)]:
        found.append(triton.Config({"BLOCK": block}, num_warps=warps, num_ctas=blocks))
    for blocks, warps, limit in WHOLE_GROUPS:
        found.append(triton.Config({"BLOCK": 0}, num_warps=warps, num_ctas=blocks, maxnreg=limit))
    return found


def elements_of_group(args):
    return args["channels"] // args["groups"] * args["spatial"]


def width_of_group(args, blocks, warps):
    """Elements of a tile that holds a group."""
    return extent(elements_of_group(args), args["x_ptr"].element_size(), warps * blocks, 1)


def fitting_groups(configs, named_args, **kwargs):
    """Blocks that a group, or the first 4096 elements of it, fills to more than a half, and tiles of groups that leave a thread
    4 to 32 elements."""
    kept = []
    for config in configs:
        threads = 32 * config.num_warps * config.num_ctas
        width = width_of_group(named_args, config.num_ctas, config.num_warps)
        if config.kwargs["BLOCK"] == 0:
            if 4 * threads <= width <= 32 * threads:
                kept.append(config)
        elif config.kwargs["BLOCK"] < 2 * elements_of_group(named_args):
            kept.append(config)
    if len(kept) == 0:
        return [c for c in configs if c.kwargs["BLOCK"] == 64]
    return kept


def without_gaps(args):
    """Whether channels and images follow each other without gaps, and channels are no shorter than a vector."""
    for name in ["x_stride", "out_stride"]:
        if args[name + "_1"] != args["spatial"] or args[name] != args["channels"] * args["spatial"]:
            return False
    return args["spatial"] >= 8


def elements_of_vector(args):
    """Those of an access of 16 bytes, of which no more than two channels have some."""
    return 16 // args["x_ptr"].element_size()


def fitting_channels(configs, named_args, **kwargs):
    if without_gaps(named_args):
        return [c for c in configs if c.kwargs["BLOCK"] >= 8 * 32 * c.num_warps]
    kept = [c for c in configs if c.kwargs["BLOCK"] < 2 * named_args["spatial"]]
    if len(kept) == 0:
        return configs[-1:]
    return kept


@triton.jit
def finish(y, weight_ptr, bias_ptr, channel, mask, ACTIVATION: tl.constexpr):
    if weight_ptr is not None:
        y = y * tl.load(weight_ptr + channel, mask=mask, other=0.0).to(tl.float32)
    if bias_ptr is not None:
        y = y + tl.load(bias_ptr + channel, mask=mask, other=0.0).to(tl.float32)
    return activate(y, ACTIVATION)


@triton.jit
def load_of_group(x_group, residual_group, channel, at, x_stride, residual_stride, mask):
    """Elements x + residual of channels, each at its place in space."""
    x = tl.load(x_group + channel.to(tl.int64) * x_stride + at, mask=mask, other=0.0).to(tl.float32)
    if residual_group is not None:
        x += tl.load(residual_group + channel.to(tl.int64) * residual_stride + at, mask=mask, other=0.0).to(tl.float32)
    return x


@triton.jit
def statistics(x_group, residual_group, first, each, spatial, x_stride, residual_stride, eps, BLOCK: tl.constexpr):
    """Mean and 1 / sqrt(variance + eps) of a group."""
    elements = each * spatial
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, elements, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += load_of_group(x_group, residual_group, first + at // spatial, at % spatial, x_stride, residual_stride, at < elements)
    mean = tl.sum(total, axis=0) / elements
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, elements, BLOCK):
        at = start + tl.arange(0, BLOCK)
        left = load_of_group(x_group, residual_group, first + at // spatial, at % spatial, x_stride, residual_stride, at < elements) - mean
        squares += tl.where(at < elements, left * left, 0.0)
    return mean, tl.rsqrt(tl.sum(squares, axis=0) / elements + eps)


@triton.jit
def place_in_group(channel, at, stride):
    return channel.to(tl.int64) * stride + at


@triton.jit
def whole_group(out_group, x_group, residual_group, sum_ptr, weight_ptr, bias_ptr, out_stride, x_stride, residual_stride, sum_begin,
                sum_stride, scale_ptr, scales_ptr, scales_at, first, elements, spatial, eps, ACTIVATION: tl.constexpr,
                WIDTH: tl.constexpr, PARTS: tl.constexpr, WARPS: tl.constexpr):
    at = columns(WIDTH, PARTS, WARPS)
    mask = at < elements
    channel = first + at // spatial
    x = load_of_group(x_group, residual_group, channel, at % spatial, x_stride, residual_stride, mask)
    mean = row_sum(x, PARTS) / elements
    if sum_ptr is not None:  # which may be x or residual itself; all of these have been read
        tl.store(sum_ptr + sum_begin + place_in_group(channel, at % spatial, sum_stride), x.to(sum_ptr.dtype.element_ty), mask=mask)
    left = tl.where(mask, x - mean, 0.0)
    factor = tl.rsqrt(row_sum(left * left, PARTS) / elements + eps)
    y = divide(finish(left * factor, weight_ptr, bias_ptr, channel, mask, ACTIVATION), scale_ptr)
    if scales_ptr is not None:
        magnitude = row_max(tl.where(mask, tl.abs(y), 0.0), PARTS)
        if PARTS == 1:
            magnitude = tl.max(magnitude)
        scale = row_scale(magnitude, out_group.dtype.element_ty)
        tl.store(scales_ptr + scales_at, scale)
        y = tl.where(scale > 0, y / scale, 0.0)
    tl.store(out_group + place_in_group(channel, at % spatial, out_stride), quantised(y, out_group.dtype.element_ty), mask=mask)


@triton.jit
def group_in_pieces(out_group, x_group, residual_group, sum_ptr, weight_ptr, bias_ptr, out_stride, x_stride, residual_stride,
                    sum_begin, sum_stride, scale_ptr, scales_ptr, scales_at, first, each, spatial, eps, ACTIVATION: tl.constexpr,
                    BLOCK: tl.constexpr):
    elements = each * spatial
    mean, factor = statistics(x_group, residual_group, first, each, spatial, x_stride, residual_stride, eps, BLOCK)
    scale = 1.0
    if scales_ptr is not None:
        magnitude = tl.zeros([BLOCK], tl.float32)
        for start in range(0, elements, BLOCK):
            at = start + tl.arange(0, BLOCK)
            mask = at < elements
            channel = first + at // spatial
            x = load_of_group(x_group, residual_group, channel, at % spatial, x_stride, residual_stride, mask)
            y = divide(finish((x - mean) * factor, weight_ptr, bias_ptr, channel, mask, ACTIVATION), scale_ptr)
            magnitude = tl.maximum(magnitude, tl.where(mask, tl.abs(y), 0.0))
        scale = row_scale(tl.max(magnitude, axis=0), out_group.dtype.element_ty)
        tl.store(scales_ptr + scales_at, scale)
    for start in range(0, elements, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = at < elements
        channel = first + at // spatial
        x = load_of_group(x_group, residual_group, channel, at % spatial, x_stride, residual_stride, mask)
        if sum_ptr is not None:  # which may be x or residual itself, and is read no more
            tl.store(sum_ptr + sum_begin + place_in_group(channel, at % spatial, sum_stride), x.to(sum_ptr.dtype.element_ty), mask=mask)
        y = divide(finish((x - mean) * factor, weight_ptr, bias_ptr, channel, mask, ACTIVATION), scale_ptr)
        if scales_ptr is not None:
            y = tl.where(scale > 0, y / scale, 0.0)
        tl.store(out_group + place_in_group(channel, at % spatial, out_stride), quantised(y, out_group.dtype.element_ty), mask=mask)


@triton.autotune(configs=group_configs(), key=["channels", "spatial", "groups"], prune_configs_by={"early_config_prune": fitting_groups})
@triton.heuristics({
    "WIDTH": lambda args: width_of_group(args, args["num_ctas"], args["num_warps"]),
    "PARTS": lambda args: args["num_ctas"],
    "WARPS": lambda args: args["num_warps"],
})
@triton.jit
def group_norm(out_ptr, x_ptr, residual_ptr, sum_ptr, weight_ptr, bias_ptr, out_stride, out_stride_1, x_stride, x_stride_1,
               residual_stride, residual_stride_1, sum_stride, sum_stride_1, scale_ptr, scales_ptr, scales_stride, batch, channels,
               spatial, groups, eps, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr, PARTS: tl.constexpr = 1,
               WARPS: tl.constexpr = 1):
    each = channels // groups
    first = tl.program_id(0) % groups * each
    image = (tl.program_id(0) // groups).to(tl.int64)
    x_group = x_ptr + image * x_stride
    residual_group = residual_ptr
    if residual_ptr is not None:
        residual_group = residual_ptr + image * residual_stride
    out_group = out_ptr + image * out_stride
    if BLOCK == 0:
        whole_group(out_group, x_group, residual_group, sum_ptr, weight_ptr, bias_ptr, out_stride_1, x_stride_1, residual_stride_1,
                    image * sum_stride, sum_stride_1, scale_ptr, scales_ptr, image * scales_stride + tl.program_id(0) % groups, first,
                    each * spatial, spatial, eps, ACTIVATION, WIDTH, PARTS, WARPS)
    else:
        group_in_pieces(out_group, x_group, residual_group, sum_ptr, weight_ptr, bias_ptr, out_stride_1, x_stride_1, residual_stride_1,
                        image * sum_stride, sum_stride_1, scale_ptr, scales_ptr, image * scales_stride + tl.program_id(0) % groups,
                        first, each, spatial, eps, ACTIVATION, BLOCK)


@triton.jit
def of_channels(values_ptr, channel, next, crosses):
    """values[channel] for a row of elements each, values[next] of those that lie in the next one; crosses None: none does."""
    here = tl.load(values_ptr + channel).to(tl.float32)[:, None]
    if crosses is None:
        return here
    else:
        there = tl.load(values_ptr + next).to(tl.float32)
        return tl.where(crosses, there[:, None], here)


@triton.jit
def normalise_run(out_ptr, x_ptr, mean_ptr, variance_ptr, weight_ptr, bias_ptr, first, mask, channels, spatial, eps,
                  ACTIVATION: tl.constexpr, BLOCK: tl.constexpr, VECTOR: tl.constexpr, CROSSES: tl.constexpr):
    """BLOCK elements from `first` on, VECTOR of them a row: these lie in two channels at most, without CROSSES in one."""
    each = tl.arange(0, BLOCK // VECTOR) * VECTOR
    place = (first % spatial).to(tl.int32) + each
    channel = ((first // spatial % channels).to(tl.int32) + place // spatial) % channels
    next = tl.where(channel + 1 == channels, 0, channel + 1)
    crosses = None
    if CROSSES:
        crosses = (place % spatial)[:, None] + tl.arange(0, VECTOR)[None, :] >= spatial
    at = first + (each[:, None] + tl.arange(0, VECTOR)[None, :])
    x = tl.load(x_ptr + at, mask=mask).to(tl.float32)
    variance = of_channels(variance_ptr, channel, next, crosses)
    y = (x - of_channels(mean_ptr, channel, next, crosses)) * tl.rsqrt(variance + eps)
    if weight_ptr is not None:
        y *= of_channels(weight_ptr, channel, next, crosses)
    if bias_ptr is not None:
        y += of_channels(bias_ptr, channel, next, crosses)
    tl.store(out_ptr + at, activate(y, ACTIVATION).to(out_ptr.dtype.element_ty), mask=mask)


@triton.autotune(configs=configs(), key=["spatial"], prune_configs_by={"early_config_prune": fitting_channels})
@triton.heuristics({
    "RUNS": without_gaps,
    "VECTOR": elements_of_vector,
    "CROSSES": lambda args: args["spatial"] % elements_of_vector(args) != 0,
    "WIDE": lambda args: args["batch"] * args["channels"] * args["spatial"] > 2**31 - 2**16,
})
@triton.jit
def batch_norm(out_ptr, x_ptr, mean_ptr, variance_ptr, weight_ptr, bias_ptr, out_stride, out_stride_1, x_stride, x_stride_1,
               batch, channels, spatial, eps, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr, RUNS: tl.constexpr,
               VECTOR: tl.constexpr, CROSSES: tl.constexpr, WIDE: tl.constexpr):
    if RUNS:
        # Divisions of 64 bits take longer than all else that a program does ahead of its loads.
        integer: tl.constexpr = tl.int64 if WIDE else tl.int32
        first = tl.program_id(0).to(integer) * BLOCK
        left = batch.to(integer) * channels * spatial - first
        if left >= BLOCK:
            normalise_run(out_ptr, x_ptr, mean_ptr, variance_ptr, weight_ptr, bias_ptr, first, None, channels, spatial, eps,
                          ACTIVATION, BLOCK, VECTOR, CROSSES)
        else:
            inside = tl.reshape(tl.arange(0, BLOCK), [BLOCK // VECTOR, VECTOR]) < left
            normalise_run(out_ptr, x_ptr, mean_ptr, variance_ptr, weight_ptr, bias_ptr, first, inside, channels, spatial, eps,
                          ACTIVATION, BLOCK, VECTOR, CROSSES)
    else:
        pieces = tl.cdiv(spatial, BLOCK)
        row = tl.program_id(0) // pieces
        channel = row % channels
        at = tl.program_id(0) % pieces * BLOCK + tl.arange(0, BLOCK)
        image = (row // channels).to(tl.int64)
        x = tl.load(x_ptr + image * x_stride + channel.to(tl.int64) * x_stride_1 + at, mask=at < spatial, other=0.0)
        factor = tl.rsqrt(tl.load(variance_ptr + channel).to(tl.float32) + eps)
        y = (x.to(tl.float32) - tl.load(mean_ptr + channel).to(tl.float32)) * factor
        y = finish(y, weight_ptr, bias_ptr, channel, channel < channels, ACTIVATION)
        out = out_ptr + image * out_stride + channel.to(tl.int64) * out_stride_1
        tl.store(out + at, y.to(out_ptr.dtype.element_ty), mask=at < spatial)
