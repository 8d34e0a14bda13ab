// A linear layer with the norm of its rows after it. The kernel stands in linear_norm.py.
#pragma once

#include "kernels/entry.h"
#include "kernels/gemm.h"

namespace tegula::kernels {

template <Floating T>
struct LinearNormOptions {
  float eps = 1e-6f;
  Vector<const T> bias = {};      ///< one element a column, added to the product
  Matrix<const T> residual = {};  ///< added as well
  Matrix<T> sum = {};             ///< h is written here, rounded to T; may be the residual itself
  Activation activation = Activation::None;
  bool transpose_a = false;  ///< a is given as K x M
  bool transpose_b = true;   ///< b is given as N x K, as the weights of a linear layer are
};

/// out[r, c] = activation(h[r, c] / sqrt(mean over c of h[r, c]^2 + eps) * weight[c]), h = a b + bias + residual, for
/// out of M x N, a of M x K and b of K x N in float16 or bfloat16. `weight` has N elements, or is none (all ones).
///
/// Products of many rows, N up to 512 (without clusters, before sm_90, 256) and K up to 512 are one launch, where the
/// blocks of a cluster have whole rows. Others are two, which takes less time: then the product is rounded to T before
/// the residual is added and the norm is taken. `out` must not overlap the inputs. Throws LaunchError for operands that
/// do not fit, and what Kernel::launch throws. Traffic: that of gemm(), 2 N elements for the vectors, and M N for each
/// of residual and sum; as two kernels 2 M N more.
template <Floating T>
requires(sizeof(T) == 2) void linear_rms_norm(Device& device, Matrix<T> out, MatrixIn<T> a, MatrixIn<T> b,
                                              VectorIn<T> weight,
                                              const std::type_identity_t<LinearNormOptions<T>>& options = {},
                                              StreamHandle stream = nullptr) {
  run<EntryId::linear_rms_norm>(device, stream, out, a, b, weight, options.eps, options.bias, options.residual,
                                options.sum, options.activation, options.transpose_a, options.transpose_b);
}

/// Likewise with (h[r, c] - m[r]) / sqrt(v[r] + eps) * weight[c] + shift[c], m and v being mean and variance of a row
/// of h. `shift` has N elements, or is none (all zeros).
template <Floating T>
requires(sizeof(T) == 2) void linear_layer_norm(Device& device, Matrix<T> out, MatrixIn<T> a, MatrixIn<T> b,
                                                VectorIn<T> weight, VectorIn<T> shift,
                                                const std::type_identity_t<LinearNormOptions<T>>& options = {},
                                                StreamHandle stream = nullptr) {
  run<EntryId::linear_layer_norm>(device, stream, out, a, b, weight, shift, options.eps, options.bias, options.residual,
                                  options.sum, options.activation, options.transpose_a, options.transpose_b);
}

}  // namespace tegula::kernels
