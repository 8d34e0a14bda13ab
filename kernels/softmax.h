// Softmax and its kin. The kernels stand in softmax.py.
//
// Matrices have element type float, float16 or bfloat16 and any row stride; the arithmetic is fp32. `out` may be `x`
// itself, and must not overlap it otherwise. A matrix without rows or columns launches nothing. The first launch for a
// number of columns and a type tunes on a GPU. Throw LaunchError for shapes that do not fit, and what Kernel::launch
// throws.
//
// Traffic: each reads the matrix once and writes it once, 2 rows cols sizeof(T) bytes (a row of more than 16384
// elements may be read a second time, from a cache). As separate steps softmax moves (8 rows cols + 4 rows) sizeof(T).
#pragma once

#include "kernels/matrix.h"

namespace tegula::kernels {

namespace detail {
void softmax(Device& device, const char* name, AnyMatrix out, AnyMatrix x, float scale, AnyVector bias, bool plus_one,
             StreamHandle stream);
}

/// out[r, c] = exp(x[r, c] - m[r]) / sum over c of exp(x[r, c] - m[r]), where m[r] is the largest x[r, c].
///
/// Relative error below 1e-5 in float, plus the rounding to T. A row in pieces keeps a running maximum and a sum
/// relative to it: Milakov, Gimelshein: Online normalizer calculation for softmax, 2018.
template <Floating T>
void softmax(Device& device, Matrix<T> out, MatrixIn<T> x, StreamHandle stream = nullptr) {
  detail::softmax(device, "softmax", out, x, 1, {}, false, stream);
}

/// out[r, c] = softmax(x)[r, c] * scale + bias[c]. `bias` has x.cols elements.
template <Floating T>
void softmax_scale_bias(Device& device, Matrix<T> out, MatrixIn<T> x, float scale, VectorIn<T> bias,
                        StreamHandle stream = nullptr) {
  detail::softmax(device, "softmax_scale_bias", out, x, scale, bias, false, stream);
}

/// out[r, c] = (exp(x[r, c]) + 1) / sum over c of (exp(x[r, c]) + 1). No maximum is subtracted, since 1 would have to
/// be scaled as well: x above 88 overflows.
template <Floating T>
void exp_normalize(Device& device, Matrix<T> out, MatrixIn<T> x, StreamHandle stream = nullptr) {
  detail::softmax(device, "exp_normalize", out, x, 1, {}, true, stream);
}

}  // namespace tegula::kernels
