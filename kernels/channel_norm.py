"""Norms of images, batch x channels x spatial: over groups of channels, and by statistics that are known.

    group_norm:  y = (h - mean) / sqrt(variance + eps) over the channels of a group and all of space, h = x + residual
    batch_norm:  y = (x - mean[c]) / sqrt(variance[c] + eps)
    out = activation(y * weight[c] + bias[c])    (each may be None, as residual may); sum = h, if given

The result of group_norm may be quantised: divided by scale[0], or by a scale for each group, which is written to scales.

The arithmetic is fp32. A program of group_norm takes a group of an image, BLOCK elements at a time, and reads it again for
each step, from a cache; one of batch_norm takes BLOCK elements wherever channels end, or where these have gaps between
them BLOCK elements of a channel of an image. Wu, He: Group Normalization, 2018;
Ioffe, Szegedy: Batch Normalization, 2015.
"""

import triton
import triton.language as tl

from tiles import activate, divide, quantised, row_scale


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
    return found


def fitting_groups(configs, named_args, **kwargs):
    """Blocks that a group, or the first 4096 elements of it, fills to more than a half."""
    elements = named_args["channels"] // named_args["groups"] * named_args["spatial"]
    kept = [c for c in configs if c.kwargs["BLOCK"] < 2 * elements]
    if len(kept) == 0:
        return [c for c in configs if c.kwargs["BLOCK"] == 64]
    return kept


def without_gaps(args):
    """Whether channels and images follow each other without gaps, and channels are no shorter than a vector."""
    for name in ["x_stride", "out_stride"]:
        if args[name + "_1"] != args["spatial"] or args[name] != args["channels"] * args["spatial"]:
            return False
    return args["spatial"] >= 8


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


@triton.autotune(configs=group_configs(), key=["channels", "spatial", "groups"], prune_configs_by={"early_config_prune": fitting_groups})
@triton.jit
def group_norm(out_ptr, x_ptr, residual_ptr, sum_ptr, weight_ptr, bias_ptr, out_stride, out_stride_1, x_stride, x_stride_1,
               residual_stride, residual_stride_1, sum_stride, sum_stride_1, scale_ptr, scales_ptr, scales_stride, batch, channels,
               spatial, groups, eps, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr):
    each = channels // groups
    first = tl.program_id(0) % groups * each
    image = (tl.program_id(0) // groups).to(tl.int64)
    x_group = x_ptr + image * x_stride
    residual_group = residual_ptr
    if residual_ptr is not None:
        residual_group = residual_ptr + image * residual_stride
    out_group = out_ptr + image * out_stride
    elements = each * spatial
    mean, factor = statistics(x_group, residual_group, first, each, spatial, x_stride_1, residual_stride_1, eps, BLOCK)
    scale = 1.0
    if scales_ptr is not None:
        magnitude = tl.zeros([BLOCK], tl.float32)
        for start in range(0, elements, BLOCK):
            at = start + tl.arange(0, BLOCK)
            mask = at < elements
            channel = first + at // spatial
            x = load_of_group(x_group, residual_group, channel, at % spatial, x_stride_1, residual_stride_1, mask)
            y = divide(finish((x - mean) * factor, weight_ptr, bias_ptr, channel, mask, ACTIVATION), scale_ptr)
            magnitude = tl.maximum(magnitude, tl.where(mask, tl.abs(y), 0.0))
        scale = row_scale(tl.max(magnitude, axis=0), out_ptr.dtype.element_ty)
        tl.store(scales_ptr + image * scales_stride + tl.program_id(0) % groups, scale)
    for start in range(0, elements, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = at < elements
        channel = first + at // spatial
        x = load_of_group(x_group, residual_group, channel, at % spatial, x_stride_1, residual_stride_1, mask)
        if sum_ptr is not None:  # which may be x or residual itself, and is read no more
            place = image * sum_stride + channel.to(tl.int64) * sum_stride_1 + at % spatial
            tl.store(sum_ptr + place, x.to(sum_ptr.dtype.element_ty), mask=mask)
        y = divide(finish((x - mean) * factor, weight_ptr, bias_ptr, channel, mask, ACTIVATION), scale_ptr)
        if scales_ptr is not None:
            y = tl.where(scale > 0, y / scale, 0.0)
        tl.store(out_group + channel.to(tl.int64) * out_stride_1 + at % spatial, quantised(y, out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def of_channels(values_ptr, channel, next, crosses):
    """values[channel] for a row of elements each, values[next] of those that lie in the next one."""
    here, there = tl.load(values_ptr + channel).to(tl.float32), tl.load(values_ptr + next).to(tl.float32)
    return tl.where(crosses, there[:, None], here[:, None])


@triton.jit
def normalise_run(out_ptr, x_ptr, mean_ptr, variance_ptr, weight_ptr, bias_ptr, first, mask, channels, spatial, eps,
                  ACTIVATION: tl.constexpr, BLOCK: tl.constexpr):
    """BLOCK elements from `first` on, eight of them a row: these lie in two channels at most."""
    each = tl.arange(0, BLOCK // 8) * 8
    place = (first % spatial).to(tl.int32) + each
    channel = ((first // spatial % channels).to(tl.int32) + place // spatial) % channels
    next = tl.where(channel + 1 == channels, 0, channel + 1)
    crosses = (place % spatial)[:, None] + tl.arange(0, 8)[None, :] >= spatial
    at = first + (each[:, None] + tl.arange(0, 8)[None, :])
    x = tl.load(x_ptr + at, mask=mask).to(tl.float32)
    variance = of_channels(variance_ptr, channel, next, crosses)
    y = (x - of_channels(mean_ptr, channel, next, crosses)) * tl.rsqrt(variance + eps)
    if weight_ptr is not None:
        y *= of_channels(weight_ptr, channel, next, crosses)
    if bias_ptr is not None:
        y += of_channels(bias_ptr, channel, next, crosses)
    tl.store(out_ptr + at, activate(y, ACTIVATION).to(out_ptr.dtype.element_ty), mask=mask)


@triton.autotune(configs=configs(), key=["spatial"], prune_configs_by={"early_config_prune": fitting_channels})
@triton.heuristics({"RUNS": without_gaps})
@triton.jit
def batch_norm(out_ptr, x_ptr, mean_ptr, variance_ptr, weight_ptr, bias_ptr, out_stride, out_stride_1, x_stride, x_stride_1,
               batch, channels, spatial, eps, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr, RUNS: tl.constexpr):
    if RUNS:
        first = tl.program_id(0).to(tl.int64) * BLOCK
        left = batch.to(tl.int64) * channels * spatial - first
        if left >= BLOCK:
            normalise_run(out_ptr, x_ptr, mean_ptr, variance_ptr, weight_ptr, bias_ptr, first, None, channels, spatial, eps,
                          ACTIVATION, BLOCK)
        else:
            inside = tl.reshape(tl.arange(0, BLOCK), [BLOCK // 8, 8]) < left
            normalise_run(out_ptr, x_ptr, mean_ptr, variance_ptr, weight_ptr, bias_ptr, first, inside, channels, spatial, eps,
                          ACTIVATION, BLOCK)
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
