"""Tiles whose extents are not powers of two."""

import triton
import triton.language as tl


@triton.jit
def statistics(x_ptr, softmax_ptr, transposed_ptr, columns_ptr, numbers_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Softmax of the rows of an M x N matrix, as it is and transposed; sums of its columns; its sum, the place of the
    largest element of x and the sum of every third of a tile."""
    rows = tl.arange(0, BM)
    cols = tl.arange(0, BN)
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    x = tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=inside, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=1)[:, None])
    y = tl.where(inside, e / tl.sum(e, axis=1)[:, None], 0.0)
    tl.store(softmax_ptr + rows[:, None] * N + cols[None, :], y, mask=inside)
    tl.store(transposed_ptr + cols[:, None] * M + rows[None, :], tl.trans(y), mask=tl.trans(inside))
    tl.store(columns_ptr + cols, tl.sum(y, axis=0), mask=cols < N)
    tl.store(numbers_ptr, tl.sum(y))
    tl.store(numbers_ptr + 1, tl.argmax(x, axis=None).to(tl.float32))
    thirds = tl.sum(tl.reshape(y, (3, BM * BN // 3)), axis=1)
    tl.store(numbers_ptr + 2 + tl.arange(0, 3), thirds)


@triton.jit
def slanted(x_ptr, y_ptr, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Of row i the first i n elements; rows lie 17 elements apart, each an element behind a multiple of 16."""
    i = tl.arange(0, ROWS)[:, None]
    j = tl.arange(0, COLUMNS)[None, :]
    tl.store(y_ptr + i * COLUMNS + j, tl.load(x_ptr + i * 17 + j, mask=j < i * n, other=-1))


@triton.jit
def shapes(x_ptr, y_ptr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    """x as A x B x C, its dimensions permuted, another shape, times a broadcast row; in order again."""
    x = tl.load(x_ptr + tl.arange(0, A * B * C))
    t = tl.permute(tl.reshape(x, (A, B, C)), (2, 0, 1))
    u = tl.reshape(t, (C * A, B)) * 2 + tl.arange(0, B)[None, :]
    y = tl.permute(tl.reshape(u, (C, A, B)), (1, 2, 0))
    tl.store(y_ptr + tl.arange(0, A * B * C), tl.ravel(y))


@triton.jit
def product(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])
    tl.store(c_ptr + m[:, None] * N + n[None, :], tl.dot(a, b))
