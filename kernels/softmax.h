// Softmax and its kin, and their gradients. The kernels stand in softmax.py and softmax_backward.py.
//
// Matrices have element type float, float16 or bfloat16 and any row stride; the arithmetic is fp32. `out` may be `x`
// itself, and must not overlap it otherwise. A matrix without rows or columns launches nothing. The first launch for a
// number of columns and a type tunes on a GPU. Throw LaunchError for shapes that do not fit, and what Kernel::launch
// throws.
//
// Traffic: each reads the matrix once and writes it once, 2 rows cols sizeof(T) bytes (a row of more than 16384
// elements may be read a second time, from a cache). As separate steps softmax moves (8 rows cols + 4 rows) sizeof(T).
#pragma once

#include "kernels/entry.h"

namespace tegula::kernels {

/// What softmax may leave out.
struct SoftmaxOptions {
  /// int1, int8 or uint8, `mask_rows` x cols: where mask[r % mask_rows, c] is 0, x[r, c] counts as -infinity.
  Tensor mask = {};
  /// Row r is query r % queries (queries 0: query r), which sees the columns up to its own: the last query sees all of
  /// them, each one before it one less. Other x count as -infinity.
  bool causal = false;
  int64_t queries = 0;
};

/// out[r, c] = exp(x[r, c] - m[r]) / sum over c of exp(x[r, c] - m[r]), where m[r] is the largest x[r, c].
///
/// A row without any x above -infinity, or with an infinite or undefined one, is NaN. Relative error below 1e-5 in
/// float, plus the rounding to T. A row in pieces keeps a running maximum and a sum relative to it: Milakov,
/// Gimelshein: Online normalizer calculation for softmax, 2018.
template <Floating T>
void softmax(Device& device, Matrix<T> out, MatrixIn<T> x, const SoftmaxOptions& options = {},
             StreamHandle stream = nullptr) {
  run<EntryId::softmax>(device, stream, out, x, options.mask, options.causal, options.queries);
}
/// out = log(softmax(x)), computed as x[r, c] - m[r] - log(sum over c of exp(x[r, c] - m[r])).
///
/// Error below 1e-5 of the larger one of the result and 1, plus the rounding to T.
template <Floating T>
void log_softmax(Device& device, Matrix<T> out, MatrixIn<T> x, const SoftmaxOptions& options = {},
                 StreamHandle stream = nullptr) {
  run<EntryId::log_softmax>(device, stream, out, x, options.mask, options.causal, options.queries);
}

/// out[r, c] = softmax(x)[r, c] * scale + bias[c]. `bias` has x.cols elements.
template <Floating T>
void softmax_scale_bias(Device& device, Matrix<T> out, MatrixIn<T> x, float scale, VectorIn<T> bias,
                        StreamHandle stream = nullptr) {
  run<EntryId::softmax_scale_bias>(device, stream, out, x, scale, bias);
}

/// out[r, c] = (exp(x[r, c]) + 1) / sum over c of (exp(x[r, c]) + 1). No maximum is subtracted, since 1 would have to
/// be scaled as well: x above 88 overflows.
template <Floating T>
void exp_normalize(Device& device, Matrix<T> out, MatrixIn<T> x, StreamHandle stream = nullptr) {
  run<EntryId::exp_normalize>(device, stream, out, x);
}

/// dx = out (dout - sum over c of dout out), the gradient of x in out = softmax(x). `dx` may be `dout` or `out` itself.
///
/// Traffic: 3 rows cols sizeof(T) bytes.
template <Floating T>
void softmax_backward(Device& device, Matrix<T> dx, MatrixIn<T> dout, MatrixIn<T> out, StreamHandle stream = nullptr) {
  run<EntryId::softmax_backward>(device, stream, dx, dout, out);
}

/// dx = dout - exp(out) sum over c of dout, the gradient of x in out = log_softmax(x); as softmax_backward() otherwise.
template <Floating T>
void log_softmax_backward(Device& device, Matrix<T> dx, MatrixIn<T> dout, MatrixIn<T> out,
                          StreamHandle stream = nullptr) {
  run<EntryId::log_softmax_backward>(device, stream, dx, dout, out);
}

}  // namespace tegula::kernels
