"""Rows of a matrix, and tiles of single elements."""

import triton
import triton.language as tl


@triton.jit
def softmax(out, x, stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    mask = c < cols
    v = tl.load(x + row * stride + c, mask=mask, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * stride + c, e / tl.sum(e, axis=0), mask=mask)


@triton.jit
def layer_norm_backward(dx, dw, db, dy, x, w, mean, rstd, rows, cols, stride, rows_each, BLOCK: tl.constexpr):
    """dx of each row; dw and db of a program's rows together."""
    program = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    mask = c < cols
    weight = tl.load(w + c, mask=mask, other=0.0).to(tl.float32)
    dw_sum = tl.zeros((BLOCK,), tl.float32)
    db_sum = tl.zeros((BLOCK,), tl.float32)
    for row in range(program * rows_each, min((program + 1) * rows_each, rows)):
        v = tl.load(x + row * stride + c, mask=mask, other=0.0).to(tl.float32)
        g = tl.load(dy + row * stride + c, mask=mask, other=0.0).to(tl.float32)
        r = tl.load(rstd + row)
        normal = (v - tl.load(mean + row)) * r
        wg = weight * g
        c1 = tl.sum(normal * wg, axis=0) / cols
        c2 = tl.sum(wg, axis=0) / cols
        tl.store(dx + row * stride + c, (wg - (normal * c1 + c2)) * r, mask=mask)
        dw_sum += g * normal
        db_sum += g
    tl.store(dw + program * cols + c, dw_sum, mask=mask)
    tl.store(db + program * cols + c, db_sum, mask=mask)


@triton.jit
def group_norm(out, x, w, b, mean, rstd, channels, pixels, eps, BLOCK_C: tl.constexpr, BLOCK_P: tl.constexpr):
    group = tl.program_id(0)
    c = tl.arange(0, BLOCK_C)
    total = tl.zeros((BLOCK_C, BLOCK_P), tl.float32)
    squares = tl.zeros((BLOCK_C, BLOCK_P), tl.float32)
    base = group * channels * pixels
    for first in range(0, pixels, BLOCK_P):
        p = first + tl.arange(0, BLOCK_P)
        mask = (c[:, None] < channels) & (p[None, :] < pixels)
        v = tl.load(x + base + c[:, None] * pixels + p[None, :], mask=mask, other=0.0).to(tl.float32)
        total += v
        squares += v * v
    m = tl.sum(tl.sum(total, axis=1), axis=0) / (channels * pixels)
    r = tl.rsqrt(tl.sum(tl.sum(squares, axis=1), axis=0) / (channels * pixels) - m * m + eps)
    tl.store(mean + group, m)
    tl.store(rstd + group, r)
    weight = tl.load(w + group * channels + c, mask=c < channels)
    bias = tl.load(b + group * channels + c, mask=c < channels)
    for first in range(0, pixels, BLOCK_P):
        p = first + tl.arange(0, BLOCK_P)
        mask = (c[:, None] < channels) & (p[None, :] < pixels)
        at = base + c[:, None] * pixels + p[None, :]
        v = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
        tl.store(out + at, (v - m) * r * weight[:, None] + bias[:, None], mask=mask)


@triton.jit
def cross_entropy(loss, dx, x, target, stride, cols, smoothing, BLOCK: tl.constexpr):
    """The loss of a row of logits, and its gradient."""
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(target + row)
    largest = -float("inf")
    total = 0.0
    for first in range(0, cols, BLOCK):
        c = first + tl.arange(0, BLOCK)
        v = tl.load(x + row * stride + c, mask=c < cols, other=-float("inf")).to(tl.float32)
        new = tl.maximum(largest, tl.max(v, axis=0))
        total = total * tl.exp(largest - new) + tl.sum(tl.exp(v - new), axis=0)
        largest = new
    tl.store(loss + row, largest + tl.log(total) - tl.load(x + row * stride + label).to(tl.float32))
    for first in range(0, cols, BLOCK):
        c = first + tl.arange(0, BLOCK)
        v = tl.load(x + row * stride + c, mask=c < cols, other=-float("inf")).to(tl.float32)
        p = tl.exp(v - largest) / total - smoothing / cols
        tl.store(dx + row * stride + c, tl.where(c == label, p - (1.0 - smoothing), p), mask=c < cols)


@triton.jit
def gelu_backward(dx, dy, x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    v = tl.load(x + i, mask=mask).to(tl.float32)
    g = tl.load(dy + i, mask=mask).to(tl.float32)
    cdf = 0.5 * (1.0 + tl.erf(v * 0.7071067811865476))
    pdf = 0.3989422804014327 * tl.exp(-0.5 * v * v)
    tl.store(dx + i, g * (cdf + v * pdf), mask=mask)


@triton.jit
def sine(out, x, n, BLOCK: tl.constexpr):
    """A function that is long for each element."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.sin(tl.load(x + i, mask=i < n)), mask=i < n)


@triton.jit
def adam(p, g, m, v, n, lr, beta1, beta2, eps, decay, step1, step2, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    grad = tl.load(g + i, mask=mask, other=0.0).to(tl.float32)
    param = tl.load(p + i, mask=mask, other=0.0).to(tl.float32)
    first = beta1 * tl.load(m + i, mask=mask, other=0.0) + (1 - beta1) * grad
    second = beta2 * tl.load(v + i, mask=mask, other=0.0) + (1 - beta2) * grad * grad
    param = param * (1 - lr * decay) - lr * (first / step1) / (tl.sqrt(second / step2) + eps)
    tl.store(p + i, param.to(p.dtype.element_ty), mask=mask)
    tl.store(m + i, first, mask=mask)
    tl.store(v + i, second, mask=mask)


@triton.jit
def quantize_groups(out, scales, x, cols, stride, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    """Rows to 8 bits with a scale for each group of columns."""
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    mask = c < cols
    v = tl.load(x + row * stride + c, mask=mask, other=0.0).to(tl.float32)
    groups = tl.reshape(v, (BLOCK // GROUP, GROUP))
    scale = tl.maximum(tl.max(tl.abs(groups), axis=1), 1e-10) / 127.0
    q = tl.reshape(groups / scale[:, None], (BLOCK,))
    tl.store(out + row * stride + c, q.to(tl.int8), mask=mask)
    g = tl.arange(0, BLOCK // GROUP)
    tl.store(scales + row * (BLOCK // GROUP) + g, scale)


@triton.jit
def unpack_nibbles(out, packed, scales, zeros, words, group, BLOCK: tl.constexpr):
    """4-bit weights to 16 bits, eight in a word."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    word = tl.load(packed + i, mask=i < words, other=0)
    for nibble in tl.static_range(8):
        at = i * 8 + nibble
        s = tl.load(scales + at // group, mask=i < words, other=1.0)
        z = tl.load(zeros + at // group, mask=i < words, other=0)
        v = ((word >> (4 * nibble)) & 15) - z
        tl.store(out + at, v.to(tl.float32) * s, mask=i < words)


@triton.jit
def hash_bits(out, n, seed, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    """Integer arithmetic alone, long for each element."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = i.to(tl.uint32)
    b = (i * 0 + seed).to(tl.uint32)
    for _ in tl.static_range(ROUNDS):
        a = (a ^ (a >> 16)) * 0x85EBCA6B
        b = (b ^ (a >> 13)) * 0xC2B2AE35 + a
    tl.store(out + i, a ^ b, mask=i < n)
