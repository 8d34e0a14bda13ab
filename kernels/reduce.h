// Reductions along rows and columns, and scans. The kernels stand in reduce.py, column_statistics.py and scan.py.
//
// Matrices have element type float, float16 or bfloat16 and any row stride; the arithmetic is fp32, in an order that
// does not depend on the run. A NaN is the maximum and minimum of whatever it stands among. The first launch for a
// number of columns and a type tunes on a GPU. Throw LaunchError for operands that do not fit, and what Kernel::launch
// throws.
//
// Traffic: rows cols sizeof(T) bytes (the variance of a row of more than some thousand elements reads it again, from a
// cache).
#pragma once

#include "kernels/entry.h"

namespace tegula::kernels {

enum class Reduction { Sum, Mean, Max, Min };
enum class Extreme { Max, Min };
enum class Scan { Sum, Product };

/// out[r] = the sum, mean, maximum or minimum over c of x[r, c]. `Out`: T or float.
template <Floating Out, Floating T>
void reduce_rows(Device& device, Vector<Out> out, Matrix<T> x, Reduction kind, StreamHandle stream = nullptr) {
  run<EntryId::reduce_rows>(device, stream, out, x, kind);
}

/// out[c] = the sum, mean, maximum or minimum over r of x[r, c]. `Out`: T or float. Through
/// run<EntryId::reduce_columns> x may be a Tensor of outer x rows x cols, and out one of outer x cols: a reduction over
/// an axis in the middle.
///
/// Programs share the rows of some columns; the last of them puts their results together, in order.
template <Floating Out, Floating T>
void reduce_columns(Device& device, Vector<Out> out, Matrix<T> x, Reduction kind, StreamHandle stream = nullptr) {
  run<EntryId::reduce_columns>(device, stream, out, x, kind);
}

/// out[0] = the sum, mean, maximum or minimum of all elements of a contiguous tensor, in one launch.
inline void reduce_all(Device& device, const Tensor& out, const Tensor& x, Reduction kind,
                       StreamHandle stream = nullptr) {
  run<EntryId::reduce_all>(device, stream, out, x, kind);
}

/// index[r] = the smallest c with the largest (smallest) x[r, c], or with the first NaN; out[r] = that element, if
/// given.
template <std::signed_integral Index, Floating T>
void arg_extreme(Device& device, Vector<Index> index, Matrix<T> x, Extreme kind = Extreme::Max, Vector<float> out = {},
                 StreamHandle stream = nullptr) {
  run<EntryId::arg_extreme>(device, stream, index, x, kind, out);
}

/// index[c] = the smallest r with the largest (smallest) x[r, c], or with the first NaN; out[c] = that element, if
/// given. Like reduce_columns() otherwise.
template <std::signed_integral Index, Floating T>
void arg_extreme_columns(Device& device, Vector<Index> index, Matrix<T> x, Extreme kind = Extreme::Max,
                         Vector<float> out = {}, StreamHandle stream = nullptr) {
  run<EntryId::arg_extreme_columns>(device, stream, index, x, kind, out);
}

/// out[r] = sum over c of (x[r, c] - m)^2 / (cols - correction), m the mean of the row, written to `mean` if given.
template <Floating Out, Floating T>
void variance(Device& device, Vector<Out> out, Matrix<T> x, int64_t correction = 1, Vector<float> mean = {},
              StreamHandle stream = nullptr) {
  run<EntryId::variance>(device, stream, out, x, correction, mean);
}

/// out[c] = sum over r of (x[r, c] - m)^2 / (rows - correction), m the mean of the column, written to `mean` if given.
/// Like reduce_columns() otherwise.
template <Floating Out, Floating T>
void variance_columns(Device& device, Vector<Out> out, Matrix<T> x, int64_t correction = 1, Vector<float> mean = {},
                      StreamHandle stream = nullptr) {
  run<EntryId::variance_columns>(device, stream, out, x, correction, mean);
}

/// out[r, c] = the sum or product of x[r, 0] to x[r, c]. `Out`: T or float; `out` may be x itself. Integers (T: int32_t
/// or int64_t, `Out`: T or int64_t) are added and multiplied as those of type Out, and wrap around.
///
/// Traffic: 2 rows cols sizeof(T) bytes.
template <class Out, class T>
requires((Floating<Out> && Floating<T>) || (std::signed_integral<Out> && std::signed_integral<T>)) void scan_rows(
    Device& device, Matrix<Out> out, Matrix<T> x, Scan kind = Scan::Sum, StreamHandle stream = nullptr) {
  run<EntryId::scan_rows>(device, stream, out, x, kind);
}

}  // namespace tegula::kernels
