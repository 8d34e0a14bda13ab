"""Rows too wide for one program's registers: softmax by one program a row and by many, and cross entropy in place."""

import triton
import triton.language as tl


@triton.jit
def join(top, total, other_top, other_total):
    """The largest element and the sum of exp(x - largest), of two pieces of a row. The order is free."""
    largest = tl.maximum(top, other_top)
    return largest, total * tl.exp(top - largest) + other_total * tl.exp(other_top - largest)


@triton.jit
def piece_of(x_ptr, first, last, BLOCK: tl.constexpr):
    """Largest element and sum of x_ptr[first:last], each element read once."""
    offsets = tl.arange(0, BLOCK)
    top = tl.full((BLOCK,), -1e38, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in tl.range(first, last, BLOCK, num_stages=3):
        x = tl.load(x_ptr + start + offsets, mask=start + offsets < last, other=float("-inf")).to(tl.float32)
        largest = tl.maximum(top, x)
        total = total * tl.exp(top - largest) + tl.exp(x - largest)
        top = largest
    return tl.reduce((top, total), 0, join)


@triton.jit
def softmax(out_ptr, x_ptr, cols, BLOCK: tl.constexpr):
    """One program a row, which it reads twice: for the sum, and for the result."""
    row = tl.program_id(0).to(tl.int64) * cols
    top, total = piece_of(x_ptr + row, 0, cols, BLOCK)
    for start in tl.range(0, cols, BLOCK, num_stages=3):
        offsets = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + offsets, mask=offsets < cols)
        tl.store(out_ptr + row + offsets, tl.exp(x - top) / total, mask=offsets < cols)


@triton.jit
def softmax_sums(tops_ptr, totals_ptr, x_ptr, cols, piece, BLOCK: tl.constexpr):
    """First stage: program (p, r) looks at piece p of row r."""
    p, pieces, r = tl.program_id(0), tl.num_programs(0), tl.program_id(1)
    first = p * piece
    top, total = piece_of(x_ptr + r.to(tl.int64) * cols, first, min(first + piece, cols), BLOCK)
    tl.store(tops_ptr + r * pieces + p, top)
    tl.store(totals_ptr + r * pieces + p, total)


@triton.jit
def softmax_result(out_ptr, tops_ptr, totals_ptr, x_ptr, cols, piece, PIECES: tl.constexpr, BLOCK: tl.constexpr):
    """Second stage: the same programs join what all have found, and write their piece."""
    p, pieces, r = tl.program_id(0), tl.num_programs(0), tl.program_id(1)
    others = tl.arange(0, PIECES)
    tops = tl.load(tops_ptr + r * pieces + others, mask=others < pieces, other=-1e38)
    totals = tl.load(totals_ptr + r * pieces + others, mask=others < pieces, other=0.0)
    top, total = tl.reduce((tops, totals), 0, join)
    row = r.to(tl.int64) * cols
    last = min(p * piece + piece, cols)
    for start in tl.range(p * piece, last, BLOCK, num_stages=3):
        offsets = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + offsets, mask=offsets < last)
        tl.store(out_ptr + row + offsets, tl.exp(x - top) / total, mask=offsets < last)


@triton.jit
def cross_entropy(losses_ptr, logits_ptr, targets_ptr, cols, BLOCK: tl.constexpr):
    """log(sum(exp(x))) - x[target] of each row, and its gradient, softmax(x) - [c == target], in place of the logits."""
    r = tl.program_id(0)
    row = r.to(tl.int64) * cols
    target = tl.load(targets_ptr + r)
    of_target = tl.load(logits_ptr + row + target).to(tl.float32)
    top, total = piece_of(logits_ptr + row, 0, cols, BLOCK)
    tl.store(losses_ptr + r, tl.log(total) + top - of_target)
    for start in tl.range(0, cols, BLOCK, num_stages=3):
        offsets = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + row + offsets, mask=offsets < cols)
        gradient = tl.exp(x - top) / total - tl.where(offsets == target, 1.0, 0.0)
        tl.store(logits_ptr + row + offsets, gradient, mask=offsets < cols)
