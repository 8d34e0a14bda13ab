"""Sums of the rows that share an index, in the order of the rows: the same in every run.

The rows' numbers are sorted by index, some bits at a time from the lowest on: programs count the digits of a block each
(count_digits), and move their rows behind those that come before them (move_rows), which keeps the order of equal digits.
Parts of equally many sorted rows are then added up (add_segments). A segment, the rows of one index, that lies in one part is
done by then; of others each part leaves what it has, and the part in which a segment begins adds these (join_segments).

Indices outside of the table count as one behind its end, whose segment is left out.
"""

import triton
import triton.language as tl

from order import digits_in_order
from tiles import add_pairs


@triton.jit
def load_key(keys_ptr, at, mask, table_rows):
    """The key of a row, from the indices as they are given or from sorted keys."""
    key = tl.load(keys_ptr + at, mask=mask, other=0)
    return tl.where((key >= 0) & (key < table_rows), key, table_rows).to(tl.int32)


def sort_configs():
    return [triton.Config({}, num_warps=warps) for warps in [8, 16, 4]]


def block_of_rows(args):
    """Rows that a program sorts: every program reads the counts of all blocks."""
    return 1024 if args["rows"] <= 131072 else 4096


@triton.autotune(configs=sort_configs(), key=[])
@triton.heuristics({"BLOCK": block_of_rows})
@triton.jit
def count_digits(counts_ptr, keys_ptr, rows, table_rows, shift, BLOCK: tl.constexpr, DIGITS: tl.constexpr):
    """counts[block][digit] = how many keys of a block of rows have a digit."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = load_key(keys_ptr, at, at < rows, table_rows)
    counts = tl.histogram((key >> shift) & (DIGITS - 1), DIGITS, mask=at < rows)
    tl.store(counts_ptr + tl.program_id(0) * DIGITS + tl.arange(0, DIGITS), counts)


def counts_at_once(args):
    """DEEP: blocks whose counts are loaded together, so that one latency does for most launches."""
    return 8 if args["rows"] <= 8 * block_of_rows(args) else 32


@triton.autotune(configs=sort_configs(), key=[])
@triton.heuristics({"BLOCK": block_of_rows, "DEEP": counts_at_once})
@triton.jit
def move_rows(sorted_keys_ptr, sorted_rows_ptr, keys_ptr, rows_ptr, counts_ptr, rows, table_rows, shift, BLOCK: tl.constexpr,
              DIGITS: tl.constexpr, DEEP: tl.constexpr):
    """Moves the rows of a block to their places in the order of a digit. Without rows_ptr they stand in their order yet."""
    block = tl.program_id(0)
    first = block * BLOCK
    number = tl.arange(0, BLOCK)
    there = first + number < rows
    key = load_key(keys_ptr, first + number, there, table_rows)
    if rows_ptr is not None:
        row = tl.load(rows_ptr + first + number, mask=there, other=0)
    else:
        row = first + number
    digits = tl.arange(0, DIGITS)
    of_others = tl.zeros([DIGITS], tl.int32)  # of all blocks but this one
    ahead = tl.zeros([DIGITS], tl.int32)
    for start in range(0, tl.num_programs(0), DEEP):
        other = start + tl.arange(0, DEEP)[:, None]
        is_other = (other < tl.num_programs(0)) & (other != block)
        counts = tl.load(counts_ptr + other * DIGITS + digits[None, :], mask=is_other, other=0)
        all, before = tl.reduce((counts, tl.where(other < block, counts, 0)), 0, add_pairs)
        of_others += all
        ahead += before
    # Where the rows of a digit go, less their number among the sorted rows of the block: that of the other blocks' smaller digits, and
    # of the same one ahead.
    target = tl.cumsum(of_others, axis=0) - of_others + ahead
    # What stands behind the end comes last: no other number is as high.
    digit = tl.where(there, (key >> shift) & (DIGITS - 1), DIGITS - 1)
    ordered = digits_in_order(digit, number)
    at = ordered & 0xFFFF
    place = tl.gather(target, ordered >> 16, 0) + number
    mask = first + at < rows
    tl.store(sorted_keys_ptr + place, tl.gather(key, at, 0), mask=mask)
    tl.store(sorted_rows_ptr + place, tl.gather(row, at, 0), mask=mask)


@triton.jit
def add_within(key_a, sum_a, key_b, sum_b):
    return key_b, tl.where(key_a == key_b, sum_a + sum_b, sum_b)


@triton.jit
def store_total(table_ptr, at, total, mask, ACCUMULATE: tl.constexpr):
    if ACCUMULATE:
        total += tl.load(table_ptr + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(table_ptr + at, total.to(table_ptr.dtype.element_ty), mask=mask)


def configs():
    """Four columns of all rows a thread: it adds up rows without an exchange."""
    return [triton.Config({"COLS": 128 * warps}, num_warps=warps) for warps in [1, 2, 4]]


def fitting(configs, named_args, **kwargs):
    kept = [c for c in configs if c.kwargs["COLS"] < 2 * named_args["cols"]]
    return kept if len(kept) > 0 else configs[:1]


@triton.autotune(configs=configs(), key=["cols"], restore_value=["table_ptr"], prune_configs_by={"early_config_prune": fitting})
@triton.jit
def add_segments(table_ptr, partials_ptr, x_ptr, sorted_keys_ptr, sorted_rows_ptr, table_stride, x_stride, rows, cols,
                 table_rows, ACCUMULATE: tl.constexpr, PART: tl.constexpr, COLS: tl.constexpr):
    """Sums of the segments of PART sorted rows each. What belongs to a segment that began in an earlier part is the first of
    the part's two rows of partials, what belongs to one that begins here and goes on the second."""
    pieces = tl.cdiv(cols, COLS)
    part = tl.program_id(0) // pieces
    at = part * PART + tl.arange(0, PART)
    last = tl.minimum(part * PART + PART, rows) - 1
    key = tl.load(sorted_keys_ptr + at, mask=at < rows, other=table_rows)
    next = tl.load(sorted_keys_ptr + at + 1, mask=at + 1 < rows, other=-1)
    row = tl.load(sorted_rows_ptr + at, mask=at < rows, other=0)
    earlier = tl.load(sorted_keys_ptr + part * PART - 1, mask=part > 0, other=-1)
    col = (tl.program_id(0) % pieces * COLS + tl.arange(0, COLS))[None, :]
    mask = (key < table_rows)[:, None] & (col < cols)
    x = tl.load(x_ptr + row.to(tl.int64)[:, None] * x_stride + col, mask=mask, other=0.0).to(tl.float32)
    _, sums = tl.associative_scan((tl.broadcast_to(key[:, None], [PART, COLS]), x), 0, add_within)
    begun = key == earlier
    goes_on = (at == last) & (next == key)
    ends = (next != key) | (at == last)
    done = ends & (not begun) & (not goes_on)
    store_total(table_ptr, key.to(tl.int64)[:, None] * table_stride + col, sums, mask & done[:, None], ACCUMULATE)
    place = (part * 2 + tl.where(begun, 0, 1)).to(tl.int64)[:, None] * cols + col
    tl.store(partials_ptr + place, sums, mask=mask & (ends & (begun | goes_on))[:, None])


@triton.jit
def join_segments(table_ptr, partials_ptr, sorted_keys_ptr, table_stride, rows, cols, table_rows, ACCUMULATE: tl.constexpr,
                  PART: tl.constexpr, COLS: tl.constexpr, DEEP: tl.constexpr = 16, SEEN: tl.constexpr = 128):
    """The sum of the segment that begins in a part and goes on in others."""
    pieces = tl.cdiv(cols, COLS)
    part = tl.program_id(0) // pieces
    last = part * PART + PART - 1
    if last + 1 < rows:
        key = tl.load(sorted_keys_ptr + last)
        begun = False
        if part > 0:
            begun = tl.load(sorted_keys_ptr + part * PART - 1) == key
        if (key == tl.load(sorted_keys_ptr + last + 1)) & (key < table_rows) & (not begun):
            parts = tl.cdiv(rows, PART)
            end = part + 1
            seen = SEEN
            while seen == SEEN:
                other = end + tl.arange(0, SEEN)
                there = tl.load(sorted_keys_ptr + other * PART, mask=other < parts, other=-1)
                seen = tl.sum((there == key).to(tl.int32))
                end += seen
            col = (tl.program_id(0) % pieces * COLS + tl.arange(0, COLS))[None, :]
            total = tl.zeros([DEEP, COLS], tl.float32)
            for first in range(part, end, DEEP):
                other = first + tl.arange(0, DEEP)[:, None]
                place = (2 * other + tl.where(other == part, 1, 0)).to(tl.int64) * cols + col
                total += tl.load(partials_ptr + place, mask=(other < end) & (col < cols), other=0.0)
            store_total(table_ptr, key.to(tl.int64) * table_stride + col, tl.sum(total, axis=0)[None, :], col < cols,
                        ACCUMULATE)
