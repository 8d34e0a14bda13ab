"""Rows of a table by indices: read, and their gradients; counts of integers.

Indices outside of the table give rows of NaN, and are left out where rows are added up.
"""

import triton
import triton.language as tl

from elementwise import configs, fitting, place
from tiles import block_of, count_blocks, joined


def outlasts_caches(args):
    """Whether the result leaves no room for the table in the L2 cache, if it stays there."""
    return args["rows"] * args["cols"] * args["out_ptr"].element_size() >= 1 << 26


@triton.autotune(configs=configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting})
@triton.heuristics({"STREAM": outlasts_caches})
@triton.jit
def embedding(out_ptr, table_ptr, index_ptr, out_stride, table_stride, rows, cols, table_rows, rows_class, ROWS: tl.constexpr,
              COLS: tl.constexpr, EVICTION: tl.constexpr, STREAM: tl.constexpr = False):
    row, col, mask = place(rows, cols, ROWS, COLS, False)
    index = tl.load(index_ptr + row, mask=row < rows, other=-1).to(tl.int64)
    there = mask & (index >= 0) & (index < table_rows)
    x = tl.load(table_ptr + index * table_stride + col, mask=there, other=float("nan"), eviction_policy=EVICTION)
    tl.store(out_ptr + row * out_stride + col, x, mask=mask, cache_modifier=".cs" if STREAM else "")


def backward_configs():
    return [triton.Config({"COLS": cols}, num_warps=warps) for cols, warps in [(1024, 4), (2048, 8), (512, 4), (256, 2), (64, 1)]]


def fitting_backward(configs, named_args, **kwargs):
    kept = [c for c in configs if c.kwargs["COLS"] < 2 * named_args["cols"]]
    return kept if len(kept) > 0 else configs[-1:]


@triton.autotune(configs=backward_configs(), key=["cols"], restore_value=["dtable_ptr"],
                 prune_configs_by={"early_config_prune": fitting_backward})
@triton.jit
def embedding_backward(dtable_ptr, dout_ptr, index_ptr, dtable_stride, dout_stride, rows, cols, table_rows,
                       ACCUMULATE: tl.constexpr, COLS: tl.constexpr, SEEN: tl.constexpr = 1024):
    """dtable[i] = the sum of dout[t] over all t with index[t] = i, in their order. The program of the first such t adds up
    all of them, so that the sums are the same in every run. Each program reads all indices: for few rows, most of them of
    different indices (others' sums are those of listed_sums.py, many rows' of segment_sums.py)."""
    pieces = tl.cdiv(cols, COLS)
    token = tl.program_id(0) // pieces
    col = tl.program_id(0) % pieces * COLS + tl.arange(0, COLS)
    mask = col < cols
    index = tl.load(index_ptr + token).to(tl.int64)
    before = 0
    for start in tl.range(0, token, SEEN):
        other = start + tl.arange(0, SEEN)
        before += tl.sum((tl.load(index_ptr + other, mask=other < token, other=-1).to(tl.int64) == index).to(tl.int32))
    if (before == 0) & (index >= 0) & (index < table_rows):
        total = tl.load(dout_ptr + token.to(tl.int64) * dout_stride + col, mask=mask, other=0.0).to(tl.float32)
        for start in tl.range(token + 1, rows, SEEN):
            other = start + tl.arange(0, SEEN)
            same = tl.load(index_ptr + other, mask=other < rows, other=-1).to(tl.int64) == index
            next = tl.min(tl.where(same, other, rows))
            while next < rows:
                total += tl.load(dout_ptr + next.to(tl.int64) * dout_stride + col, mask=mask, other=0.0).to(tl.float32)
                next = tl.min(tl.where(same & (other > next), other, rows))
        there = dtable_ptr + index * dtable_stride + col
        if ACCUMULATE:
            total += tl.load(there, mask=mask, other=0.0).to(tl.float32)
        tl.store(there, total.to(dtable_ptr.dtype.element_ty), mask=mask)


@triton.autotune(configs=configs(), key=["cols", "rows_class"], restore_value=["table_ptr"],
                 prune_configs_by={"early_config_prune": fitting})
@triton.jit
def index_add(table_ptr, x_ptr, index_ptr, table_stride, x_stride, rows, cols, table_rows, rows_class, ROWS: tl.constexpr,
              COLS: tl.constexpr, EVICTION: tl.constexpr):
    """table[index[t]] += x[t], by atomics."""
    row, col, mask = place(rows, cols, ROWS, COLS, False)
    index = tl.load(index_ptr + row, mask=row < rows, other=-1).to(tl.int64)
    x = tl.load(x_ptr + row * x_stride + col, mask=mask, other=0.0, eviction_policy=EVICTION)
    there = mask & (index >= 0) & (index < table_rows)
    tl.atomic_add(table_ptr + index * table_stride + col, x.to(table_ptr.dtype.element_ty), mask=there, sem="relaxed")


@triton.heuristics({"BINS": lambda args: triton.next_power_of_2(args["bins"]), "JOINED": joined})
@triton.jit
def histogram(counts_ptr, x_ptr, x_stride, rows, cols, bins, low, high, BINS: tl.constexpr, JOINED: tl.constexpr,
              BLOCK: tl.constexpr = 2048):
    """counts[b] += how many x lie in part b of `bins` equal ones of [low, high], whose end belongs to the last one."""
    total = tl.zeros([BINS], tl.int32)
    for number in range(tl.program_id(0).to(tl.int64), count_blocks(rows, cols, BLOCK, JOINED), tl.num_programs(0)):
        at, mask = block_of(number, x_ptr, x_stride, rows, cols, BLOCK, JOINED)
        x = tl.load(at, mask=mask, other=0.0).to(tl.float32)
        there = mask & (x >= low) & (x <= high)
        part = tl.floor((x - low) / (high - low) * bins)
        total += tl.histogram(tl.minimum(tl.where(there, part, 0.0).to(tl.int32), bins - 1), BINS, mask=there)
    at = tl.arange(0, BINS)
    tl.atomic_add(counts_ptr + at, total, mask=(at < bins) & (total > 0), sem="relaxed")
