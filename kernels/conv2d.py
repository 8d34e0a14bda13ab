"""Convolution of images as a product, whose left operand is never there: out = epilogue(conv(x, w) + bias).

x is batch x height x width x channels, w out_channels x kernel_height x kernel_width x group_channels, out batch x out_height x
out_width x out_channels, elements of a pixel side by side (what other libraries call channels-last). With G groups, output channels
are divided into G parts, each of which sees channels / G = group_channels channels of x. Pixels outside of x are zeros. A tile wider
than a group takes GROUPS of them, by a matrix of weights that is zero outside of the groups' blocks.

Rows of the product are the pixels of `out`, its columns the output channels of a group, and K goes over kernel rows, kernel columns
and the CHANNELS that the tile sees. The kernel's size and CHANNELS are compiled in. A K-step takes BLOCK_K channels of one place of
the kernel; of fewer channels it takes BLOCK_K elements of K anywhere, whose places follow from their numbers. Which places of the kernel
lie in the image is known for each pixel before the loop, a bit each. A kernel of one place without padding and strides sees
the pixels of `x` in their order: LINEAR_X, where these lie at equal distances. LINEAR_OUT says so of the result.

SWAP has the transposed product computed, channels by pixels: its instructions take any number of pixels, and read few channels' weights
once for more of them.

A convolution with few tiles leaves most of the GPU idle. With SHARES its tiles are divided along K among so many programs, which add
up their sums as those of gemm.py's divided products do, in an order that is fixed.
Chetlur et al.: cuDNN, 2014.
"""

import triton
import triton.language as tl

from gemm import stretch
from shares import add_shares, hand_over, leave
from gemm_tiles import PROCESSORS
from tiles import activate


def tile(m, n, k, warps, stages, shares=0, swap=False):
    blocks = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "SHARES": shares, "SWAP": swap}
    return triton.Config(blocks, num_warps=warps, num_stages=stages)


def configs():
    found = []
    for m, n, k, warps, stages in [(128, 256, 64, 8, 3), (256, 128, 64, 8, 3), (128, 128, 64, 8, 4), (128, 128, 64, 4, 3), (128, 128, 32, 4, 4),
                                   (128, 64, 64, 4, 4), (256, 64, 64, 8, 4), (64, 64, 64, 4, 4), (64, 128, 64, 4, 4), (64, 64, 32, 4, 4),
                                   (128, 64, 32, 4, 4), (128, 32, 32, 4, 4), (128, 32, 64, 4, 5), (256, 32, 64, 8, 4),
                                   (128, 64, 64, 4, 6), (256, 64, 64, 8, 3), (128, 128, 64, 8, 3), (128, 96, 64, 4, 4), (256, 96, 64, 8, 3),
                                   (128, 192, 64, 8, 4), (64, 32, 32, 2, 4), (128, 16, 32, 4, 4), (16, 16, 32, 1, 2)]:
        found.append(tile(m, n, k, warps, stages))
    for m, n, warps, stages in [(256, 64, 4, 4), (256, 64, 8, 4), (224, 64, 4, 4), (208, 64, 4, 4), (192, 64, 4, 4), (160, 64, 4, 4),
                                (256, 128, 8, 3), (224, 128, 8, 3), (208, 128, 8, 4), (192, 128, 8, 4), (160, 128, 8, 4), (144, 128, 8, 4)]:
        found.append(tile(m, n, 64, warps, stages, 0, True))
    return found


def fitting(configs, named_args, **kwargs):
    """Tiles at most twice as wide as a group's channels, or with several small groups."""
    columns = named_args["out_channels"] // named_args["groups"]
    widest = max(columns, min(64, named_args["out_channels"]))
    pixels = named_args["batch"] * named_args["out_height"] * named_args["out_width"]
    kept = []
    for config in configs:
        n = config.kwargs["BLOCK_N"]
        m = config.kwargs["BLOCK_M"]
        if n < 2 * max(16, widest) and (m < 2 * max(16, pixels) or m == 64):
            if config.kwargs["BLOCK_K"] <= max(64, triton.next_power_of_2(named_args["group_channels"])):
                kept.append(config)
    for config in list(kept):
        kept += divided(config, pixels, named_args)
    return kept if len(kept) > 0 else configs[-1:]


def divided(config, pixels, named_args):
    """The configuration with its tiles divided: by as many programs as multiprocessors have room for, or half as many."""
    m = config.kwargs["BLOCK_M"]
    n = config.kwargs["BLOCK_N"]
    k = config.kwargs["BLOCK_K"]
    tiles = triton.cdiv(pixels, m) * triton.cdiv(named_args["out_channels"], n)
    steps = named_args["kernel_height"] * named_args["kernel_width"] * named_args["group_channels"] // k
    if named_args["groups"] > 1 or m < 64 or n < 32:
        return []
    found = []
    for shares in [2, 3, 4, 6, 8, 16]:
        if tiles * shares <= PROCESSORS and steps >= 4 * shares and m % (4 * shares) == 0:
            found.append(tile(m, n, k, config.num_warps, config.num_stages, shares, config.kwargs["SWAP"]))
    return found[-2:]


def groups_of(args):
    """Those of a tile."""
    columns = args["out_channels"] // args["groups"]
    return max(1, args["BLOCK_N"] // columns) if args["groups"] > 1 else 1


def is_linear(images, rows, pixels, height, width):
    """Whether all pixels lie at equal distances."""
    return (rows == width * pixels or height == 1) and images == height * width * pixels


def sees_pixels_in_order(args):
    one = args["kernel_height"] == 1 and args["kernel_width"] == 1 and args["stride_h"] == 1 and args["stride_w"] == 1
    inside = args["padding_h"] == 0 and args["padding_w"] == 0
    return one and inside and is_linear(args["x_stride"], args["x_stride_1"], args["x_stride_2"], args["height"], args["width"])


@triton.jit
def places_inside(y, x, height, width, dilation_h, dilation_w, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    """For each pixel whose first place of the kernel is y, x: bit r * WIDTH + s tells whether place r, s lies in the image."""
    TYPE: tl.constexpr = tl.int32 if HEIGHT * WIDTH <= 32 else tl.int64
    rows = tl.zeros_like(y).to(TYPE)
    columns = tl.zeros_like(x).to(TYPE)
    for r in range(0, HEIGHT):
        at = y + r * dilation_h
        rows |= ((at >= 0) & (at < height)).to(TYPE) << r * WIDTH
    for s in range(0, WIDTH):
        at = x + s * dilation_w
        columns |= ((at >= 0) & (at < width)).to(TYPE) << s
    return rows * columns  # a copy of `columns` for each row inside


@triton.jit
def load_step(step, y, x, inside, corner, w_row, col, height, width, there, row_mask, col_mask, x_stride_1, x_stride_2, w_stride_1,
              w_stride_2, dilation_h, dilation_w, BLOCK_K: tl.constexpr, CHANNELS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
              GROUPS: tl.constexpr, COLUMNS: tl.constexpr, LINEAR_X: tl.constexpr):
    """A's and B's elements of a K-step: pixels x BLOCK_K and BLOCK_K x channels. y, x, `inside` and `corner`: where the kernel's first place
    lies in the image, which places lie in it, and the first one's address, for each pixel. `there` of CHANNELS exist."""
    depth = tl.arange(0, BLOCK_K)
    if CHANNELS < BLOCK_K:
        k = step * BLOCK_K + depth
        channel = k % CHANNELS
        place = k // CHANNELS
        in_kernel = place < HEIGHT * WIDTH
        r = place // WIDTH
        s = place % WIDTH
        at = (r * dilation_h).to(tl.int64) * x_stride_1 + (s * dilation_w).to(tl.int64) * x_stride_2 + channel
        a_ptrs = corner[:, None] + at[None, :]
        r, s, place = r[None, :], s[None, :], place[None, :]
        w_offset = (r * w_stride_1 + s * w_stride_2).trans(1, 0)
    else:
        STEPS: tl.constexpr = tl.cdiv(CHANNELS, BLOCK_K)
        first = (step if HEIGHT * WIDTH == 1 else step % STEPS) * BLOCK_K
        channel = first + depth
        in_kernel = channel < (CHANNELS if CHANNELS % BLOCK_K > 0 else STEPS * BLOCK_K)
        place = 0 if HEIGHT * WIDTH == 1 else step // STEPS
        r = place // WIDTH
        s = place % WIDTH
        at = tl.cast(r * dilation_h, tl.int64) * x_stride_1 + tl.cast(s * dilation_w, tl.int64) * x_stride_2
        a_ptrs = (corner[:, None] + depth[None, :]) + (at + first)  # what changes from step to step is a number
        w_offset = r * w_stride_1 + s * w_stride_2
    if LINEAR_X:
        in_image = row_mask[:, None]
    elif HEIGHT * WIDTH <= 64:
        in_image = (inside[:, None] >> place & 1) != 0  # row_mask among it
    else:
        place_y = y[:, None] + r * dilation_h
        place_x = x[:, None] + s * dilation_w
        in_image = row_mask[:, None] & (place_y >= 0) & (place_y < height) & (place_x >= 0) & (place_x < width)
    of_group = in_kernel[:, None] & col_mask[None, :]
    if GROUPS > 1:
        DEPTH: tl.constexpr = CHANNELS // GROUPS
        in_kernel &= channel < there
        of_group &= (channel // DEPTH)[:, None] == (col // COLUMNS)[None, :]
        channel = channel % DEPTH
    a = tl.load(a_ptrs, mask=in_image & in_kernel[None, :], other=0.0)
    b = tl.load(w_row[None, :] + (w_offset + channel[:, None]), mask=of_group, other=0.0)
    return a, b


@triton.jit
def store_pixels(acc, pixel, channel, col_mask, out_ptr, bias_ptr, batch, out_height, out_width, out_stride, out_stride_1, out_stride_2,
                 EPILOGUE: tl.constexpr, LINEAR_OUT: tl.constexpr):
    """The epilogue of some pixels' sums."""
    size = out_height * out_width
    if bias_ptr is not None:
        acc += tl.load(bias_ptr + channel, mask=col_mask, other=0.0).to(tl.float32)[None, :]
    if LINEAR_OUT:
        out_row = out_ptr + pixel.to(tl.int64) * out_stride_2
    else:
        y = (pixel % size // out_width).to(tl.int64)
        x = (pixel % out_width).to(tl.int64)
        out_row = out_ptr + (pixel // size).to(tl.int64) * out_stride + y * out_stride_1 + x * out_stride_2
    result = activate(acc, EPILOGUE).to(out_ptr.dtype.element_ty)
    tl.store(out_row[:, None] + channel[None, :], result, mask=(pixel < batch * size)[:, None] & col_mask[None, :])


@triton.jit
def store_part(part, first_pixel, partials, channel, col_mask, out_ptr, bias_ptr, batch, out_height, out_width, out_stride, out_stride_1,
               out_stride_2, EPILOGUE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, SHARES: tl.constexpr,
               LINEAR_OUT: tl.constexpr, ROWS: tl.constexpr):
    """A part of a tile's pixels, whose sums are those of all shares."""
    row = part * ROWS + tl.arange(0, ROWS)
    AHEAD: tl.constexpr = min(SHARES, max(1, 8192 // (ROWS * BLOCK_N)))
    acc = add_shares(tl.zeros((ROWS, BLOCK_N), dtype=tl.float32), 0, partials, SHARES, row, AHEAD, BLOCK_M, BLOCK_N)
    store_pixels(acc, first_pixel + row, channel, col_mask, out_ptr, bias_ptr, batch, out_height, out_width, out_stride, out_stride_1,
                 out_stride_2, EPILOGUE, LINEAR_OUT)


@triton.jit
def store_share(acc, share, first_pixel, partials, counters, channel, col_mask, out_ptr, bias_ptr, batch, out_height, out_width, out_stride,
                out_stride_1, out_stride_2, EPILOGUE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, SHARES: tl.constexpr,
                LINEAR_OUT: tl.constexpr):
    """Hands over the sums of a share of K, and stores the part of the tile's pixels that is this program's; the last program those too
    that others left undone."""
    ROWS: tl.constexpr = BLOCK_M // SHARES
    alone = hand_over(acc, share, SHARES, partials, counters, BLOCK_M, BLOCK_N, SHARES)
    if not alone:
        store_part(share, first_pixel, partials, channel, col_mask, out_ptr, bias_ptr, batch, out_height, out_width, out_stride,
                   out_stride_1, out_stride_2, EPILOGUE, BLOCK_M, BLOCK_N, SHARES, LINEAR_OUT, ROWS)
    undone = leave(alone, SHARES, counters)
    for part in range(0, SHARES if undone != 0 else 0):
        if (undone >> part) % 2 != 0:
            store_part(part, first_pixel, partials, channel, col_mask, out_ptr, bias_ptr, batch, out_height, out_width, out_stride,
                       out_stride_1, out_stride_2, EPILOGUE, BLOCK_M, BLOCK_N, SHARES, LINEAR_OUT, ROWS)


@triton.autotune(configs=configs(), key=["batch", "out_height", "out_width", "out_channels", "group_channels", "groups", "kernel_height",
                      "kernel_width"],
                 prune_configs_by={"early_config_prune": fitting, "top_k": 12})
@triton.heuristics({
    "GROUPS": groups_of,
    "COLUMNS": lambda args: args["out_channels"] // args["groups"] if groups_of(args) > 1 else 0,
    "CHANNELS": lambda args: groups_of(args) * args["group_channels"],
    "HEIGHT": lambda args: args["kernel_height"],
    "WIDTH": lambda args: args["kernel_width"],
    "LINEAR_X": lambda args: sees_pixels_in_order(args),
    "LINEAR_OUT": lambda args: is_linear(args["out_stride"], args["out_stride_1"], args["out_stride_2"], args["out_height"], args["out_width"]),
})
@triton.jit
def conv2d(out_ptr, x_ptr, w_ptr, bias_ptr, batch, height, width, out_height, out_width, out_channels, kernel_height, kernel_width,
           group_channels, out_stride, out_stride_1, out_stride_2, x_stride, x_stride_1, x_stride_2, w_stride, w_stride_1, w_stride_2,
           stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w, groups, partials_ptr, counters_ptr,
           EPILOGUE: tl.constexpr,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SHARES: tl.constexpr, SWAP: tl.constexpr,
           GROUPS: tl.constexpr, COLUMNS: tl.constexpr, CHANNELS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
           LINEAR_X: tl.constexpr, LINEAR_OUT: tl.constexpr):
    """A program takes BLOCK_M pixels and BLOCK_N output channels of a group, or all of several; of SHARES that divide K each the
    pixels of a part."""
    columns = out_channels // groups * GROUPS
    tiles_n = tl.cdiv(columns, BLOCK_N) * tl.cdiv(groups, GROUPS)
    size = out_height * out_width
    tiles = tl.cdiv(batch * size, BLOCK_M) * tiles_n
    program = tl.program_id(0) % tiles
    group = 0 if groups == 1 else program % tiles_n // tl.cdiv(columns, BLOCK_N)
    col = program % tl.cdiv(columns, BLOCK_N) * BLOCK_N + tl.arange(0, BLOCK_N)
    first_pixel = program // tiles_n * BLOCK_M
    pixel = first_pixel + tl.arange(0, BLOCK_M)
    row_mask = pixel < batch * size
    col_mask = col < columns
    if GROUPS > 1:
        col_mask &= group * columns + col < out_channels
    image = (pixel // size).to(tl.int64)
    y = pixel % size // out_width
    x = pixel % out_width

    channel = group * columns + col
    first_y = y * stride_h - padding_h
    first_x = x * stride_w - padding_w
    if LINEAR_X:
        corner = x_ptr + pixel.to(tl.int64) * x_stride_2 + group * CHANNELS
    else:
        corner = x_ptr + image * x_stride + first_y.to(tl.int64) * x_stride_1 + first_x.to(tl.int64) * x_stride_2 + group * CHANNELS
    w_row = w_ptr + channel.to(tl.int64) * w_stride
    there = groups * group_channels - group * CHANNELS
    inside = first_x
    if HEIGHT * WIDTH <= 64 and not LINEAR_X:
        inside = places_inside(first_y, first_x, height, width, dilation_h, dilation_w, HEIGHT, WIDTH)
        inside = tl.where(row_mask, inside, 0)
    STEPS: tl.constexpr = tl.cdiv(HEIGHT * WIDTH * CHANNELS, BLOCK_K) if CHANNELS < BLOCK_K else HEIGHT * WIDTH * tl.cdiv(CHANNELS, BLOCK_K)
    begin = 0
    end = STEPS
    if SHARES > 0:
        share = tl.program_id(0) // tiles
        counters = counters_ptr + 4 * program
        partials = partials_ptr + (program * SHARES).to(tl.int64) * (BLOCK_M * BLOCK_N)
        tl.atomic_add(counters, 65536, sem="relaxed")
        begin, end = stretch(share, SHARES, STEPS)
    acc = tl.zeros((BLOCK_N, BLOCK_M) if SWAP else (BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(begin, end):
        a, b = load_step(step, first_y, first_x, inside, corner, w_row, col, height, width, there, row_mask, col_mask, x_stride_1, x_stride_2,
                         w_stride_1, w_stride_2, dilation_h, dilation_w, BLOCK_K, CHANNELS, HEIGHT, WIDTH, GROUPS, COLUMNS, LINEAR_X)
        if SWAP:
            acc = tl.dot(tl.trans(b), tl.trans(a), acc)
        else:
            acc = tl.dot(a, b, acc)
    if SWAP:
        acc = tl.trans(acc)
    if SHARES == 0:
        store_pixels(acc, pixel, channel, col_mask, out_ptr, bias_ptr, batch, out_height, out_width, out_stride, out_stride_1, out_stride_2,
                     EPILOGUE, LINEAR_OUT)
    else:
        store_share(acc, share, first_pixel, partials, counters, channel, col_mask, out_ptr, bias_ptr, batch, out_height, out_width,
                    out_stride, out_stride_1, out_stride_2, EPILOGUE, BLOCK_M, BLOCK_N, SHARES, LINEAR_OUT)
