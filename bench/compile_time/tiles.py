"""Two-dimensional tiles behind run-time strides: what most kernels of models spend their address arithmetic on."""

import triton
import triton.language as tl


@triton.jit
def sum_of_planes(out, x, rows, cols, stride_plane, stride_row, stride_col, COUNT: tl.constexpr, M: tl.constexpr,
                  N: tl.constexpr):
    """COUNT loads of an M x N tile and one store, all elements apart by strides."""
    r = tl.program_id(0) * M + tl.arange(0, M)
    c = tl.program_id(1) * N + tl.arange(0, N)
    mask = (r[:, None] < rows) & (c[None, :] < cols)
    at = r[:, None] * stride_row + c[None, :] * stride_col
    acc = tl.zeros((M, N), tl.float32)
    for i in tl.static_range(COUNT):
        acc += tl.load(x + i * stride_plane + at, mask=mask, other=0.0)
    tl.store(out + at, acc, mask=mask)


@triton.jit
def transpose(out, x, rows, cols, x_row, x_col, out_row, out_col, M: tl.constexpr, N: tl.constexpr):
    r = tl.program_id(0) * M + tl.arange(0, M)
    c = tl.program_id(1) * N + tl.arange(0, N)
    tile = tl.load(x + r[:, None] * x_row + c[None, :] * x_col, mask=(r[:, None] < rows) & (c[None, :] < cols))
    tl.store(out + c[:, None] * out_row + r[None, :] * out_col, tl.trans(tile),
             mask=(c[:, None] < cols) & (r[None, :] < rows))


@triton.jit
def stencil(out, x, height, width, stride_row, stride_col, RADIUS: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    """A box filter: (2 RADIUS + 1)^2 masked loads around each element."""
    r = tl.program_id(0) * M + tl.arange(0, M)
    c = tl.program_id(1) * N + tl.arange(0, N)
    acc = tl.zeros((M, N), tl.float32)
    for dr in tl.static_range(-RADIUS, RADIUS + 1):
        for dc in tl.static_range(-RADIUS, RADIUS + 1):
            row = r[:, None] + dr
            col = c[None, :] + dc
            inside = (row >= 0) & (row < height) & (col >= 0) & (col < width)
            acc += tl.load(x + row * stride_row + col * stride_col, mask=inside, other=0.0)
    tl.store(out + r[:, None] * stride_row + c[None, :] * stride_col, acc / ((2 * RADIUS + 1) * (2 * RADIUS + 1)),
             mask=(r[:, None] < height) & (c[None, :] < width))


@triton.jit
def convolution(out, x, w, channels, height, width, x_image, x_channel, x_row, x_col, w_out, w_in, w_row, w_col,
                out_image, out_channel, out_row, out_col, KERNEL: tl.constexpr, PIXELS: tl.constexpr,
                FILTERS: tl.constexpr, CHANNELS: tl.constexpr):
    """A convolution as a sum of products, one for each place of the filter."""
    image = tl.program_id(0)
    pixel = tl.program_id(1) * PIXELS + tl.arange(0, PIXELS)
    filters = tl.program_id(2) * FILTERS + tl.arange(0, FILTERS)
    row = pixel // width
    col = pixel % width
    acc = tl.zeros((PIXELS, FILTERS), tl.float32)
    for dr in range(KERNEL):
        for dc in range(KERNEL):
            for first in range(0, channels, CHANNELS):
                c = first + tl.arange(0, CHANNELS)
                inside = (row[:, None] + dr < height) & (col[:, None] + dc < width) & (c[None, :] < channels)
                a = tl.load(x + image * x_image + c[None, :] * x_channel + (row[:, None] + dr) * x_row +
                            (col[:, None] + dc) * x_col, mask=inside, other=0.0)
                b = tl.load(w + filters[None, :] * w_out + c[:, None] * w_in + dr * w_row + dc * w_col,
                            mask=c[:, None] < channels, other=0.0)
                acc = tl.dot(a, b, acc)
    tl.store(out + image * out_image + filters[None, :] * out_channel + row[:, None] * out_row + col[:, None] * out_col,
             acc.to(out.dtype.element_ty), mask=(pixel < height * width)[:, None])


@triton.jit
def gather_rows(out, table, index, rows, cols, stride_table, stride_out, M: tl.constexpr, N: tl.constexpr):
    r = tl.program_id(0) * M + tl.arange(0, M)
    c = tl.arange(0, N)
    row = tl.load(index + r, mask=r < rows, other=0).to(tl.int64)
    mask = (r[:, None] < rows) & (c[None, :] < cols)
    values = tl.load(table + row[:, None] * stride_table + c[None, :], mask=mask, other=0.0)
    tl.store(out + r[:, None] * stride_out + c[None, :], values, mask=mask)


@triton.jit
def rotary(q, k, cos, sin, tokens, stride_q, stride_k, stride_cos, HEADS: tl.constexpr, KV_HEADS: tl.constexpr,
           HALF: tl.constexpr):
    """Rotates pairs of a token's heads in place."""
    token = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, HALF)
    c = tl.load(cos + token * stride_cos + d)
    s = tl.load(sin + token * stride_cos + d)
    h = tl.arange(0, HEADS)
    at = q + token * stride_q + h[:, None] * (2 * HALF) + d[None, :]
    a = tl.load(at).to(tl.float32)
    b = tl.load(at + HALF).to(tl.float32)
    tl.store(at, (a * c[None, :] - b * s[None, :]).to(q.dtype.element_ty))
    tl.store(at + HALF, (b * c[None, :] + a * s[None, :]).to(q.dtype.element_ty))
    h = tl.arange(0, KV_HEADS)
    at = k + token * stride_k + h[:, None] * (2 * HALF) + d[None, :]
    a = tl.load(at).to(tl.float32)
    b = tl.load(at + HALF).to(tl.float32)
    tl.store(at, (a * c[None, :] - b * s[None, :]).to(k.dtype.element_ty))
    tl.store(at + HALF, (b * c[None, :] + a * s[None, :]).to(k.dtype.element_ty))


@triton.jit
def recurrence(out, x, gate, state, steps, stride_x, stride_step, stride_col, stride_state_row, stride_state_col,
               M: tl.constexpr, N: tl.constexpr):
    """A state that decays from step to step, as linear attention and state-space models carry one."""
    r = tl.program_id(0) * M + tl.arange(0, M)
    c = tl.arange(0, N)
    at = state + r[:, None] * stride_state_row + c[None, :] * stride_state_col
    s = tl.load(at).to(tl.float32)
    for t in range(steps):
        a = tl.load(x + r * stride_x + t * stride_step)
        g = tl.load(gate + t * stride_step + c * stride_col)
        s = s * tl.exp(-g)[None, :] + a[:, None] * g[None, :]
        tl.store(out + r * stride_x + t * stride_step, tl.sum(s, axis=1).to(out.dtype.element_ty))
    tl.store(at, s)
