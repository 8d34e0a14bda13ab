"""Long straight code: unrolled steps and sorts."""

import triton
import triton.language as tl


@triton.jit
def sinkhorn(out, x, ROWS: tl.constexpr, N: tl.constexpr, STEPS: tl.constexpr):
    """Alternate normalisation of the rows and columns of small matrices, a fixed number of unrolled steps."""
    which = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = which[:, None, None] * N * N + tl.arange(0, N)[None, :, None] * N + tl.arange(0, N)[None, None, :]
    m = tl.exp(tl.load(x + at))
    for _ in tl.static_range(STEPS):
        m = m / (tl.sum(m, axis=2)[:, :, None] + 1e-6)
        m = m / (tl.sum(m, axis=1)[:, None, :] + 1e-6)
    tl.store(out + at, m)


@triton.jit
def top_values(out, index, x, cols, K: tl.constexpr, BLOCK: tl.constexpr):
    """K times the largest element is taken and struck out."""
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    v = tl.load(x + row * cols + col, mask=col < cols, other=float("-inf")).to(tl.float32)
    for k in tl.static_range(K):
        best, at = tl.max(v, axis=0, return_indices=True)
        tl.store(out + row * K + k, best)
        tl.store(index + row * K + k, at)
        v = tl.where(col == at, float("-inf"), v)


@triton.jit
def sort_rows(out, x, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    at = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None] * cols + tl.arange(0, BLOCK)[None, :]
    tl.store(out + at, tl.sort(tl.load(x + at)))


@triton.jit
def short_convolution(out, x, w, cache, length, D, W: tl.constexpr, T: tl.constexpr, BLOCK: tl.constexpr):
    """A causal convolution of W taps over T steps, unrolled, with its state kept."""
    d = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = d < D
    s0 = tl.load(cache + d * W + 0, mask=ok, other=0.0).to(tl.float32)
    s1 = tl.load(cache + d * W + 1, mask=ok, other=0.0).to(tl.float32)
    s2 = tl.load(cache + d * W + 2, mask=ok, other=0.0).to(tl.float32)
    w0 = tl.load(w + d * W + 0, mask=ok, other=0.0).to(tl.float32)
    w1 = tl.load(w + d * W + 1, mask=ok, other=0.0).to(tl.float32)
    w2 = tl.load(w + d * W + 2, mask=ok, other=0.0).to(tl.float32)
    w3 = tl.load(w + d * W + 3, mask=ok, other=0.0).to(tl.float32)
    for t in tl.static_range(T):
        v = tl.load(x + t * D + d, mask=ok & (t < length), other=0.0).to(tl.float32)
        y = s0 * w0 + s1 * w1 + s2 * w2 + v * w3
        y = y * tl.sigmoid(y)
        tl.store(out + t * D + d, y, mask=ok & (t < length))
        s0 = s1
        s1 = s2
        s2 = v
    tl.store(cache + d * W + 0, s0, mask=ok)
    tl.store(cache + d * W + 1, s1, mask=ok)
    tl.store(cache + d * W + 2, s2, mask=ok)


@triton.jit
def product_backward(dx, dh0, dy, x, h, g, T, D: tl.constexpr, BT: tl.constexpr):
    """Unrolled steps of a recurrence, backward, with a tile of D x D as the state."""
    i = tl.arange(0, D)
    at = i[:, None] * D + i[None, :]
    s = tl.load(h + at)
    acc = tl.zeros([D, D], dtype=tl.float32)
    for t in tl.static_range(BT - 1, -1, -1):
        bx = tl.load(x + t * D + i)
        by = tl.load(dy + t * D + i)
        bg = tl.exp(tl.load(g + t * D + i))
        acc += by[:, None] * bx[None, :]
        tl.store(dx + t * D + i, tl.sum(acc * s, 0))
        s = s * bg[:, None] - by[:, None] * bx[None, :]
        acc = acc * bg[:, None]
    tl.store(dh0 + at, acc)
