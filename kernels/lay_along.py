"""Copies of one or two matrices, or batches of them, for products: rows along K that begin at multiples of 16 bytes, as bulk copies and
wide loads ask for.

A row of a copy has a multiple of ALIGN elements; those behind the matrix's own are zeros, which add nothing to a product.
*_ACROSS: the matrix has its elements side by side along the other axis, so that the copy is its transpose. The first
programs copy `a`, BLOCK elements along either axis each, the others `b`. Nothing is specialised by sizes: code for one type
serves all.
"""

import triton
import triton.language as tl


@triton.jit
def copy_tile(program, to_ptr, from_ptr, rows, depth, width, stride, ACROSS: tl.constexpr, BLOCK: tl.constexpr):
    tiles = tl.cdiv(width, BLOCK)
    row = program // tiles * BLOCK + tl.arange(0, BLOCK)
    col = program % tiles * BLOCK + tl.arange(0, BLOCK)
    if ACROSS:
        there = from_ptr + row[:, None] + col.to(tl.int64)[None, :] * stride
    else:
        there = from_ptr + row.to(tl.int64)[:, None] * stride + col[None, :]
    x = tl.load(there, mask=(row < rows)[:, None] & (col < depth)[None, :], other=0.0)
    tl.store(to_ptr + row.to(tl.int64)[:, None] * width + col[None, :], x, mask=(row < rows)[:, None] & (col < width)[None, :])


@triton.jit
def copy_tile_of_batch(program, to_ptr, from_ptr, rows, depth, width, batch_stride, stride, ACROSS: tl.constexpr, BLOCK: tl.constexpr):
    """The matrices of a copy lie behind each other."""
    tiles = tl.cdiv(rows, BLOCK) * tl.cdiv(width, BLOCK)
    matrix = (program // tiles).to(tl.int64)
    copy_tile(program % tiles, to_ptr + matrix * rows * width, from_ptr + matrix * batch_stride, rows, depth, width, stride, ACROSS, BLOCK)


@triton.jit(do_not_specialize=["a_batch", "a_rows", "a_batch_stride", "a_stride", "b_rows", "b_batch_stride", "b_stride", "depth", "units"])
def lay_along(a_to, a_from, a_batch, a_rows, a_batch_stride, a_stride, b_to, b_from, b_rows, b_batch_stride, b_stride, depth, units,
              A_ACROSS: tl.constexpr, B_ACROSS: tl.constexpr, ALIGN: tl.constexpr, BLOCK: tl.constexpr):
    """depth: K; units: the elements of a copy's row, in units of ALIGN. A matrix without rows is none."""
    program = tl.program_id(0)
    width = units * ALIGN
    of_a = a_batch * tl.cdiv(a_rows, BLOCK) * tl.cdiv(width, BLOCK)
    if program < of_a:
        copy_tile_of_batch(program, a_to, a_from, a_rows, depth, width, a_batch_stride, a_stride, A_ACROSS, BLOCK)
    else:
        copy_tile_of_batch(program - of_a, b_to, b_from, b_rows, depth, width, b_batch_stride, b_stride, B_ACROSS, BLOCK)
