// Elementwise work in one pass. The kernels stand in elementwise.py.
//
// Matrices have element type float, float16 or bfloat16 and any row stride; the arithmetic is fp32, rounded once to T.
// `out` may be an input itself, and must not overlap it otherwise. A matrix without rows or columns launches nothing.
// The first launch for a number of columns and a type tunes on a GPU. Throw LaunchError for shapes that do not fit, and
// what Kernel::launch throws.
#pragma once

#include "kernels/entry.h"

namespace tegula::kernels {

/// Vectors with one element a column; those that are none are left out.
template <Floating T>
struct AffineOptions {
  Vector<const T> bias = {};
  Vector<const T> scale = {};
  Vector<const T> offset = {};
  Activation activation = Activation::None;
};

/// out[r, c] = activation((x[r, c] + bias[c]) * scale[c] + offset[c]).
///
/// relu(x * scale + b) is {.scale = scale, .offset = b, .activation = Activation::Relu}. Traffic: 2 rows cols sizeof(T)
/// bytes, against 2 for each step as a kernel of its own.
template <Floating T>
void affine(Device& device, Matrix<T> out, MatrixIn<T> x, const std::type_identity_t<AffineOptions<T>>& options,
            StreamHandle stream = nullptr) {
  run<EntryId::affine>(device, stream, out, x, options.bias, options.scale, options.offset, options.activation);
}

/// out[r, c] = gate[r, c] * sigmoid(gate[r, c]) * up[r, c]. `gate` and `up` may be the halves of one matrix of twice as
/// many columns.
///
/// Traffic: 3 rows cols sizeof(T) bytes, against 5 as two kernels. Shazeer: GLU Variants Improve Transformer, 2020.
template <Floating T>
void swiglu(Device& device, Matrix<T> out, MatrixIn<T> gate, MatrixIn<T> up, StreamHandle stream = nullptr) {
  run<EntryId::swiglu>(device, stream, out, gate, up);
}

}  // namespace tegula::kernels
