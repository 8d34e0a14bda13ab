"""Rows of any width in order, each shared by many programs.

The elements become keys, whose unsigned order is the one wanted, and are moved by one digit after the other, the lowest first:
programs count the digits of a piece of a row each (count_digits), sum up where those of each piece go (add_counts), and move
them there (move_keys), which keeps the order of equal digits. Lists of keys, and of the columns that they had, lie between
two digits; the first digit has the elements themselves instead, and the last one leaves elements and columns.
"""

import triton
import triton.language as tl

from order import digits_in_order, elements_of, ranks_of

DIGITS = tl.constexpr(256)
NEGATIVE_ZERO = tl.constexpr(-0x80000000)  # set in the column of a -0, which has the key of 0


@triton.jit
def highest_rank(ELEMENT: tl.constexpr):
    return 0x7FFF if ELEMENT.primitive_bitwidth == 16 else 0x7FFFFFFF


@triton.jit
def column_of(x, col):
    """The column, with the sign of a zero."""
    if x.dtype.primitive_bitwidth == 16:
        negative = x.to(tl.int16, bitcast=True) < 0
    else:
        negative = x.to(tl.int32, bitcast=True) < 0
    return tl.where((x == 0) & negative, col | NEGATIVE_ZERO, col)


@triton.jit
def digit_of(key, shift):
    return (key >> shift) & (DIGITS - 1)


@triton.autotune(configs=[triton.Config({}, num_warps=8)], key=[])
@triton.jit
def count_digits(counts_ptr, keys_ptr, x_ptr, x_stride, cols, shift, DESCENDING: tl.constexpr, PIECE: tl.constexpr):
    """counts[row][piece][digit] = how many keys of a piece of a row have a digit; the keys are those of x, if it is given."""
    pieces = tl.cdiv(cols, PIECE)
    row = (tl.program_id(0) // pieces).to(tl.int64)
    col = tl.program_id(0) % pieces * PIECE + tl.arange(0, PIECE)
    if x_ptr is not None:
        x = tl.load(x_ptr + row * x_stride + col, mask=col < cols, other=0.0)
        key = ranks_of(x, DESCENDING) ^ highest_rank(x.dtype)
    else:
        key = tl.load(keys_ptr + row * cols + col, mask=col < cols, other=0)
    counts = tl.histogram(digit_of(key, shift), DIGITS, mask=col < cols)
    tl.store(counts_ptr + tl.program_id(0).to(tl.int64) * DIGITS + tl.arange(0, DIGITS), counts)


@triton.autotune(configs=[triton.Config({}, num_warps=4), triton.Config({}, num_warps=8)], key=["pieces"])
@triton.heuristics({"DEEP": lambda args: 16 if args["PARTS"] == 1 else 64})
@triton.jit
def add_counts(starts_ptr, counts_ptr, pieces, PARTS: tl.constexpr, DEEP: tl.constexpr):
    """starts[row][piece][digit] = the place in the row of the first key of a piece with a digit. A program has one of PARTS parts of a row's
    digits, and looks at the counts of all."""
    row = tl.program_id(0) // PARTS
    part = tl.program_id(0) % PARTS
    row_counts = counts_ptr + row.to(tl.int64) * pieces * DIGITS
    row_starts = starts_ptr + row.to(tl.int64) * pieces * DIGITS
    digit = tl.arange(0, DIGITS)
    total = tl.zeros([DEEP, DIGITS], tl.int32)
    for first in range(0, pieces, DEEP):
        piece = first + tl.arange(0, DEEP)[:, None]
        total += tl.load(row_counts + piece.to(tl.int64) * DIGITS + digit[None, :], mask=piece < pieces, other=0)
    of_all = tl.sum(total, axis=0)
    own_digit = part * (DIGITS // PARTS) + tl.arange(0, DIGITS // PARTS)
    start = tl.cumsum(of_all, axis=0) - of_all
    if PARTS > 1:
        start = tl.gather(start, own_digit, 0)
    for first in range(0, pieces, PARTS * DEEP):
        piece = first + tl.arange(0, PARTS * DEEP)[:, None]
        at = piece.to(tl.int64) * DIGITS + own_digit[None, :]
        counts = tl.load(row_counts + at, mask=piece < pieces, other=0)
        tl.store(row_starts + at, start[None, :] + tl.cumsum(counts, axis=0) - counts, mask=piece < pieces)
        start += tl.sum(counts, axis=0)


def moving_configs():
    """With few registers, for several programs at a time."""
    return [triton.Config({}, num_warps=warps, maxnreg=limit)
            for warps, limit in [(16, 64), (8, 96), (8, 80), (16, 40), (8, 128), (16, 80), (4, 128)]]


@triton.autotune(configs=moving_configs(), key=[])
@triton.jit
def move_keys(moved_keys_ptr, moved_cols_ptr, values_ptr, index_ptr, counts_ptr, starts_ptr, keys_ptr, cols_ptr, x_ptr, values_stride,
              index_stride, x_stride, cols, shift, DESCENDING: tl.constexpr, PIECE: tl.constexpr):
    """Moves the keys of a piece of a row, or those of x if it is given, to their places in the order of a digit; to values
    and index, if values is given."""
    pieces = tl.cdiv(cols, PIECE)
    row = (tl.program_id(0) // pieces).to(tl.int64)
    first = tl.program_id(0) % pieces * PIECE
    number = tl.arange(0, PIECE)
    if x_ptr is not None:
        x = tl.load(x_ptr + row * x_stride + first + number, mask=first + number < cols, other=0.0)
        key = ranks_of(x, DESCENDING) ^ highest_rank(x.dtype)
        col = column_of(x, first + number)
    else:
        key = tl.load(keys_ptr + row * cols + first + number, mask=first + number < cols, other=0)
        col = tl.load(cols_ptr + row * cols + first + number, mask=first + number < cols, other=0)
    # What stands behind the end comes last: no other number is as high.
    digit = tl.where(first + number < cols, digit_of(key, shift), DIGITS - 1)
    ordered = digits_in_order(digit, number)
    from_number = ordered & 0xFFFF
    digit = ordered >> 16
    of_piece = tl.program_id(0).to(tl.int64) * DIGITS + tl.arange(0, DIGITS)
    counts = tl.load(counts_ptr + of_piece)
    starts = tl.load(starts_ptr + of_piece)
    # Less the number of the digit's first key among the sorted ones of the piece.
    place = tl.gather(starts - (tl.cumsum(counts, axis=0) - counts), digit, 0) + number
    key = tl.gather(key, from_number, 0)
    col = tl.gather(col, from_number, 0)
    mask = first + number < cols
    if values_ptr is not None:
        x = elements_of(key ^ highest_rank(values_ptr.dtype.element_ty), values_ptr.dtype.element_ty, DESCENDING)
        x = tl.where((x == 0) & (col < 0), -0.0, x).to(values_ptr.dtype.element_ty)
        tl.store(values_ptr + row * values_stride + place, x, mask=mask)
        if index_ptr is not None:
            tl.store(index_ptr + row * index_stride + place, (col & ~NEGATIVE_ZERO).to(index_ptr.dtype.element_ty), mask=mask)
    else:
        tl.store(moved_keys_ptr + row * cols + place, key, mask=mask)
        tl.store(moved_cols_ptr + row * cols + place, col, mask=mask)
