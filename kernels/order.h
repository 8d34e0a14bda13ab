// Rows in order, rows of tables by indices, and counts. The kernels stand in order.py and indexed.py.
//
// Matrices have element type float, float16 or bfloat16 and any row stride. Indices are int32_t or int64_t and lie on
// the device. The first launch for a number of columns and a type tunes on a GPU. Throw LaunchError for operands that
// do not fit, and what Kernel::launch throws.
#pragma once

#include "kernels/entry.h"

namespace tegula::kernels {

/// Each row in ascending or descending order; index[r, i] = where values[r, i] stood in row r of x, if given. Equal
/// elements keep their order, and a NaN counts as the largest. `values` may be x itself.
/// Rows of up to 8192 elements that are sorted without `index` have -0 before 0, and all NaNs become the same one. So
/// do the NaNs of rows of more than 16384 elements (8192 on GPUs with less than 163 KB of shared memory a block), which
/// are sorted by digits of 8 bits, in three launches each, through lists in memory.
///
/// Traffic: 2 rows cols sizeof(T) bytes, and the index.
template <Floating T, std::signed_integral Index = int64_t>
void sort_rows(Device& device, Matrix<T> values, Matrix<Index> index, MatrixIn<T> x, bool descending = false,
               StreamHandle stream = nullptr) {
  run<EntryId::sort_rows>(device, stream, values, index, x, descending);
}

/// The k = values.cols largest elements of each row in descending order (or the smallest ones in ascending order), and
/// where they stood, if index is given. Of equal elements the first ones are taken, and a NaN counts as the largest.
/// Rows may have any width; k is 4096 at most for rows of more than 8192 elements.
///
/// Traffic: rows cols sizeof(T) bytes.
template <Floating T, std::signed_integral Index = int64_t>
void topk_rows(Device& device, Matrix<T> values, Matrix<Index> index, MatrixIn<T> x, bool largest = true,
               StreamHandle stream = nullptr) {
  run<EntryId::topk_rows>(device, stream, values, index, x, largest);
}

/// out[t] = table[index[t]]; a row of NaN where the table has no such row.
///
/// Traffic: 2 rows cols sizeof(T) bytes.
template <Floating T, std::signed_integral Index>
void embedding(Device& device, Matrix<T> out, MatrixIn<T> table, Vector<Index> index, StreamHandle stream = nullptr) {
  run<EntryId::embedding>(device, stream, out, table, index);
}

/// dtable[i] = the sum of dout[t] over all t with index[t] = i, in fp32; rows that no index names stay as they are.
/// With `accumulate` the sum is added to what stands there. No atomics: the same in every run. Indices outside of the
/// table are left out. `Out`: T or float.
///
/// Where the table has few rows, one launch finds and adds those of each index, in an order that its configuration
/// determines. Otherwise more than 1024 rows are sorted by their indices first, in launches of their own.
///
/// Traffic: dout once, and the rows that are named.
template <Floating Out, Floating T, std::signed_integral Index>
void embedding_backward(Device& device, Matrix<Out> dtable, Matrix<T> dout, Vector<Index> index,
                        bool accumulate = false, StreamHandle stream = nullptr) {
  run<EntryId::embedding_backward>(device, stream, dtable, dout, index, accumulate);
}

/// table[index[t]] += x[t], in any order. Indices outside of the table are left out. Up to 2^24 elements of x are added
/// by atomics of the table's type, but where from 2^20 elements on 32 rows or more share an index; others are added up
/// in fp32, as in embedding_backward.
template <Floating Out, Floating T, std::signed_integral Index>
void index_add(Device& device, Matrix<Out> table, Matrix<T> x, Vector<Index> index, StreamHandle stream = nullptr) {
  run<EntryId::index_add>(device, stream, table, x, index);
}

/// counts[b] += how many x lie in part b of equal parts of [low, high]; `high` itself belongs to the last part, and
/// what lies outside, or is NaN, is not counted. At most 4096 parts.
///
/// Traffic: rows cols sizeof(T) bytes.
template <Floating T>
void histogram(Device& device, Vector<int32_t> counts, Matrix<T> x, float low, float high,
               StreamHandle stream = nullptr) {
  run<EntryId::histogram>(device, stream, counts, x, low, high);
}

}  // namespace tegula::kernels
