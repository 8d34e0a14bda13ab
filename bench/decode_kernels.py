"""Attention of one new token of each sequence, for bench/decode.py: one text for Triton and for Tegula."""

import triton
import triton.language as tl


@triton.jit
def decode(part, lse, Q, K, V, table, lengths, scale, q_stride, q_stride_1, k_stride, k_stride_1, k_stride_2, v_stride, v_stride_1,
           v_stride_2, table_stride, splits, GROUP: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, BLOCK_N: tl.constexpr):
    """A program has the GROUP query heads of one head of keys, and one of `splits` shares of a sequence's keys. These are
    pages x PAGE x heads x D with the pages of sequence b in table[b], or with PAGE = 0 sequences x tokens x heads x D.
    part: (sequences, heads of queries, splits, D); lse: base-2 logarithms of the sums."""
    HEADS: tl.constexpr = 16
    b = tl.program_id(0)
    head = tl.program_id(1)
    split = tl.program_id(2)
    length = tl.load(lengths + b)
    share = tl.cdiv(tl.cdiv(length, splits), BLOCK_N) * BLOCK_N
    first = split * share
    end = tl.minimum(length, first + share)
    h = tl.arange(0, HEADS)
    d = tl.arange(0, D)
    q = tl.load(Q + b * q_stride + (head * GROUP + h)[:, None] * q_stride_1 + d[None, :], mask=(h < GROUP)[:, None], other=0.0)
    largest = tl.full([HEADS], -float("inf"), tl.float32)
    total = tl.zeros([HEADS], tl.float32)
    acc = tl.zeros([HEADS, D], tl.float32)
    for start in range(first, end, BLOCK_N):
        token = start + tl.arange(0, BLOCK_N)
        there = token < end
        if PAGE > 0:
            page = tl.load(table + b * table_stride + token // PAGE, mask=there, other=0).to(tl.int64)
            k_row = page * k_stride + token % PAGE * k_stride_1
            v_row = page * v_stride + token % PAGE * v_stride_1
        else:
            k_row = b.to(tl.int64) * k_stride + token * k_stride_1
            v_row = b.to(tl.int64) * v_stride + token * v_stride_1
        k = tl.load(K + head * k_stride_2 + k_row[None, :] + d[:, None], mask=there[None, :], other=0.0)
        scores = tl.where(there[None, :], tl.dot(q, k) * (scale * 1.44269504), -1.0e30)
        larger = tl.maximum(largest, tl.max(scores, 1))
        p = tl.math.exp2(scores - larger[:, None])
        factor = tl.math.exp2(largest - larger)
        total = total * factor + tl.sum(p, 1)
        v = tl.load(V + head * v_stride_2 + v_row[:, None] + d[None, :], mask=there[:, None], other=0.0)
        acc = acc * factor[:, None] + tl.dot(p.to(v.dtype), v)
        largest = larger
    row = ((b * tl.num_programs(1) + head) * GROUP + h) * splits + split
    total = tl.maximum(total, 1e-30)
    tl.store(part + row[:, None] * D + d[None, :], acc / total[:, None], mask=(h < GROUP)[:, None])
    tl.store(lse + row, largest + tl.math.log2(total), mask=h < GROUP)


@triton.jit
def combine(out, part, lse, splits, D: tl.constexpr, SPLITS: tl.constexpr):
    """The shares of a sequence and a head of queries, put together."""
    row = tl.program_id(0)
    split = tl.arange(0, SPLITS)
    d = tl.arange(0, D)
    sums = tl.load(lse + row * splits + split, mask=split < splits, other=-float("inf"))
    weight = tl.math.exp2(sums - tl.max(sums, 0))
    x = tl.load(part + (row * splits + split)[:, None] * D + d[None, :], mask=(split < splits)[:, None], other=0.0)
    y = tl.sum(x * weight[:, None], 0) / tl.sum(weight, 0)
    tl.store(out + row * D + d, y.to(out.dtype.element_ty))
