"""Sums over shares of K: each program of a tile leaves those of its share in memory, and adds up parts of all."""

import triton
import triton.language as tl


@triton.jit
def wait_for_shares(share, splits, counters, PARTS: tl.constexpr):
    """Tells the tile's other programs that this one's sums have been left, and waits for theirs. Whether it did not wait, as some
    program of the tile had not begun: then the parts of this one, whose numbers are its share's modulo `splits`, are noted as
    left undone. counters: programs of the tile that have begun, times 65536, and that have left their sums; the parts left
    undone, as bits; programs that did not wait, times 65536, and that are done."""
    tl.debug_barrier()
    seen = tl.atomic_add(counters, 1) + 1
    alone = seen // 65536 < splits
    if alone:
        part = tl.arange(0, PARTS)
        tl.atomic_or(counters + 1, tl.sum(tl.where(part % splits == share, 1 << part, 0), axis=0))
    else:
        while seen % 65536 < splits:
            seen = tl.atomic_add(counters, 0, sem="acquire")
    return alone


@triton.jit
def hand_over(acc, share, splits, partials, counters, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, PARTS: tl.constexpr):
    """Leaves the sums of a share of K row by row, and waits for the other shares; whether it did not, as wait_for_shares()."""
    row = tl.arange(0, BLOCK_M)
    col = tl.arange(0, BLOCK_N)
    tl.store(partials + share * (BLOCK_M * BLOCK_N) + row[:, None] * BLOCK_N + col[None, :], acc)
    return wait_for_shares(share, splits, counters, PARTS)


@triton.jit
def leave(alone, splits, counters):
    """Gives the parts left undone, as bits, to the last program of a tile; it leaves the counters at zero."""
    if alone:
        done = tl.atomic_add(counters + 2, 65537) + 65537
    else:
        done = tl.atomic_add(counters + 2, 1, sem="relaxed") + 1
    undone = 0
    if done % 65536 == splits:
        if done > 65536:
            tl.atomic_add(counters, 0)  # acquires what was handed over
            undone = tl.atomic_xchg(counters + 1, 0)
        tl.atomic_xchg(counters, 0, sem="relaxed")
        tl.atomic_xchg(counters + 2, 0, sem="relaxed")
    return undone


@triton.jit
def load_shares(partials, first, end, row, AHEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """The sums of some rows over AHEAD shares from `first` on; zeros from share `end` on."""
    share = first + tl.arange(0, AHEAD)
    col = tl.arange(0, BLOCK_N)
    there = partials + share[:, None, None] * (BLOCK_M * BLOCK_N) + row[None, :, None] * BLOCK_N + col[None, None, :]
    given = tl.broadcast_to((share < end)[:, None, None], there.shape)
    return tl.load(there, mask=given, other=0.0, cache_modifier=".cg")


@triton.jit
def add_shares(acc, first, partials, splits, row, AHEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Adds the sums of some rows over the shares from `first` on, in an order that is the same in every run."""
    for begin in range(first, splits, AHEAD):
        acc += tl.sum(load_shares(partials, begin, splits, row, AHEAD, BLOCK_M, BLOCK_N), axis=0)
    return acc
