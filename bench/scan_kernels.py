"""Scans and sorting of rows, one text for Tegula and Triton: what scans.py times."""

import triton
import triton.language as tl


@triton.jit
def cumsum(out, x, cols, BLOCK: tl.constexpr):
    """Running sums of a row, a row a program."""
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + row * cols + c, mask=c < cols, other=0.0)
    tl.store(out + row * cols + c, tl.cumsum(v, axis=0), mask=c < cols)


@triton.jit
def cumsum_pieces(out, x, cols, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """Likewise in pieces of a row, for rows of any length."""
    row = tl.program_id(0).to(tl.int64)
    before = 0.0
    for start in tl.range(0, cols, BLOCK, num_stages=STAGES):
        c = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * cols + c, mask=c < cols, other=0.0)
        tl.store(out + row * cols + c, before + tl.cumsum(v, axis=0), mask=c < cols)
        before += tl.sum(v, axis=0)


@triton.jit
def sort(out, x, cols: tl.constexpr):
    """A row in ascending order, a row a program."""
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, cols)
    tl.store(out + row * cols + c, tl.sort(tl.load(x + row * cols + c)))


@triton.jit
def topk(out, x, cols: tl.constexpr, K: tl.constexpr):
    """The K largest of a row in descending order, a row a program."""
    row = tl.program_id(0).to(tl.int64)
    v = tl.load(x + row * cols + tl.arange(0, cols))
    tl.store(out + row * K + tl.arange(0, K), tl.topk(v, K))
