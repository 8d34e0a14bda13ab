"""Copies of one or two matrices whose rows begin at multiples of 16 bytes, as bulk copies and wide loads ask for.

A row of the copy has a multiple of ALIGN elements, of which those behind the matrix's are not written. The first programs
copy `a`, BLOCK_ROWS x BLOCK_COLS elements each, the others `b`. Nothing is specialised by sizes: code for one type serves
all.
"""

import triton
import triton.language as tl


@triton.jit
def copy_tile(program, to_ptr, from_ptr, rows, cols, to_stride, from_stride, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr):
    tiles = tl.cdiv(cols, BLOCK_COLS)
    row = program // tiles * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    col = program % tiles * BLOCK_COLS + tl.arange(0, BLOCK_COLS)
    mask = (row < rows)[:, None] & (col < cols)[None, :]
    x = tl.load(from_ptr + row.to(tl.int64)[:, None] * from_stride + col[None, :], mask=mask)
    tl.store(to_ptr + row.to(tl.int64)[:, None] * to_stride + col[None, :], x, mask=mask)


@triton.jit(do_not_specialize=["a_rows", "a_cols", "a_units", "a_stride", "b_rows", "b_cols", "b_units", "b_stride"])
def align_rows(a_to, a_from, a_rows, a_cols, a_units, a_stride, b_to, b_from, b_rows, b_cols, b_units, b_stride, ALIGN: tl.constexpr,
               BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr):
    """*_units: the distance of the copy's rows, in ALIGN elements."""
    program = tl.program_id(0)
    of_a = tl.cdiv(a_rows, BLOCK_ROWS) * tl.cdiv(a_cols, BLOCK_COLS)
    if program < of_a:
        copy_tile(program, a_to, a_from, a_rows, a_cols, a_units * ALIGN, a_stride, BLOCK_ROWS, BLOCK_COLS)
    else:
        copy_tile(program - of_a, b_to, b_from, b_rows, b_cols, b_units * ALIGN, b_stride, BLOCK_ROWS, BLOCK_COLS)
