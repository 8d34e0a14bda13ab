// Elementwise work in one pass. The kernels stand in elementwise.py and rope.py.
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

/// out[r, c] = activation(gate[r, c]) * up[r, c], as swiglu() otherwise: GeGLU with Activation::Gelu.
template <Floating T>
void glu(Device& device, Matrix<T> out, MatrixIn<T> gate, MatrixIn<T> up, Activation activation,
         StreamHandle stream = nullptr) {
  run<EntryId::glu>(device, stream, out, gate, up, activation);
}

/// The gradients of glu(): dgate = dout up activation'(gate), dup = dout activation(gate). Each may be an input itself.
///
/// Traffic: 5 rows cols sizeof(T) bytes.
template <Floating T>
void glu_backward(Device& device, Matrix<T> dgate, Matrix<T> dup, MatrixIn<T> dout, MatrixIn<T> gate, MatrixIn<T> up,
                  Activation activation = Activation::Silu, StreamHandle stream = nullptr) {
  run<EntryId::glu_backward>(device, stream, dgate, dup, dout, gate, up, activation);
}

/// out[r, c] = x[r, c] / (1 - p), or 0 with probability p: element n = r cols + c by number n % 4 of Philox for the
/// seed and the counter n / 4. Applied to the gradient of out it gives that of x, so that no mask is stored.
///
/// Salmon et al.: Parallel Random Numbers: As Easy as 1, 2, 3, 2011.
template <Floating T>
void dropout(Device& device, Matrix<T> out, MatrixIn<T> x, float p, int64_t seed, StreamHandle stream = nullptr) {
  run<EntryId::dropout>(device, stream, out, x, p, seed);
}

struct RopeOptions {
  Tensor position = {};      ///< int32 or int64, one a token; none: token t has position t
  bool interleaved = false;  ///< the pairs are elements 2 i and 2 i + 1, not i and half + i
  bool backward = false;     ///< by the opposite angles: of the gradient
};

/// Rotary embedding: pairs (a, b) of each head become (a cos - b sin, b cos + a sin), by cos and sin[position, i] of
/// positions x half elements (of out's type or float); elements after the first 2 half of a head stay. `out` and `x`
/// are tokens x heads x size with any strides, and may be the same. A position beyond the tables gives NaN.
///
/// Su et al.: RoFormer: Enhanced Transformer with Rotary Position Embedding, 2021.
inline void rope(Device& device, const Tensor& out, const Tensor& x, const Tensor& cos, const Tensor& sin,
                 const RopeOptions& options = {}, StreamHandle stream = nullptr) {
  run<EntryId::rope>(device, stream, out, x, cos, sin, options.position, options.interleaved, options.backward);
}

}  // namespace tegula::kernels
