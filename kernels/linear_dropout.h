// dropout(activation(a b + bias)) on a product's epilogue, and its gradient.
#pragma once

#include "kernels/entry.h"
#include "kernels/gemm.h"

namespace tegula::kernels {

struct LinearDropoutOptions {
  Tensor bias = {};  ///< one element a column of out, of a's type
  Activation activation = Activation::Gelu;
  bool transpose_a = false;  ///< a is given as K x M
  bool transpose_b = true;   ///< b is given as N x K, as the weights of a linear layer are
};

/// out = dropout(activation(hidden)), hidden = a b + bias, in one launch: each element is 0 with probability p, else
/// divided by 1 - p, as Philox decides by seed and place; the same ones as dropout() of equal shape and seed drops. No
/// mask is stored. `hidden` is written if given, for the gradient. Shapes and types as for gemm(); hidden has out's.
///
/// Traffic: M K + K N + M N elements, and M N for hidden.
template <Floating Out, Floating In>
void linear_dropout(Device& device, Matrix<Out> out, Matrix<std::type_identity_t<Out>> hidden, Matrix<In> a,
                    MatrixIn<In> b, float p, int64_t seed, const LinearDropoutOptions& options = {},
                    StreamHandle stream = nullptr) {
  run<EntryId::linear_dropout>(device, stream, out, hidden, a, b, p, seed, options.bias, options.activation,
                               options.transpose_a, options.transpose_b);
}

/// The gradient of hidden: dout * activation'(hidden) / (1 - p), or 0 where the element was dropped. Those of a, b and
/// the bias are products of it, and reduce_columns(). `dhidden` may be dout or hidden itself.
///
/// Traffic: 3 M N elements.
template <Floating T>
void linear_dropout_backward(Device& device, Matrix<T> dhidden, MatrixIn<T> dout, MatrixIn<T> hidden, float p,
                             int64_t seed, Activation activation = Activation::Gelu, StreamHandle stream = nullptr) {
  run<EntryId::linear_dropout_backward>(device, stream, dhidden, dout, hidden, p, seed, activation);
}

}  // namespace tegula::kernels
