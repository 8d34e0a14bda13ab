// RMSNorm, LayerNorm and the norm by length with what stands around them, and their gradients. The kernels stand in
// norm.py and norm_backward.py.
//
// Matrices have element type float, float16 or bfloat16 and any row stride; the arithmetic is fp32. `out` may be `x` or
// the residual itself, and `sum` may too, but not both the same; they must not overlap otherwise. A matrix without rows
// or columns launches nothing. The first launch for a number of columns and a type tunes on a GPU. Throw LaunchError
// for shapes that do not fit, and what Kernel::launch throws.
//
// Traffic in units of rows cols sizeof(T) bytes: 2, and 1 more for a residual, and 1 more for `sum` (a row of more than
// 16384 elements may be read again, from a cache). As separate kernels LayerNorm moves 7, a residual 3 more, SiLU 2
// more.
#pragma once

#include "kernels/entry.h"

namespace tegula::kernels {

/// What a norm may take in beside its matrix.
template <Floating T>
struct NormOptions {
  float eps = 1e-6f;
  Matrix<const T> residual = {};  ///< h = x + residual is normalised instead of x
  Matrix<T> sum = {};             ///< h is written here as well, rounded to T; what is normalised is not
  Activation activation = Activation::None;
  Vector<const float> scale = {};  ///< one number that the result is divided by
  Vector<float> scales = {};  ///< written: one a row, by which the row is divided so that it fills a type of 8 bits
};

/// out[r, c] = h[r, c] / sqrt(mean over c of h[r, c]^2 + eps) * weight[c], h being x or x + residual, and its
/// activation. `weight` has x.cols elements, or is none (all ones). `Out` is T, or int8_t, float8e4nv or float8e5 for a
/// quantised result: int8 rounded to nearest even and clamped, beyond a float8 its largest number.
///
/// Relative error below 4e-6 in float, plus the rounding to T. Zhang, Sennrich: Root Mean Square Layer Normalization,
/// 2019.
template <Element Out, Floating T>
void rms_norm(Device& device, Matrix<Out> out, Matrix<T> x, VectorIn<T> weight,
              const std::type_identity_t<NormOptions<std::remove_const_t<T>>>& options = {},
              StreamHandle stream = nullptr) {
  run<EntryId::rms_norm>(device, stream, out, x, weight, options.eps, options.residual, options.sum, options.activation,
                         options.scale, options.scales);
}

/// out[r, c] = (h[r, c] - m[r]) / sqrt(v[r] + eps) * weight[c] + bias[c], where m and v are mean and variance of a row
/// of h, which is x or x + residual; and its activation. `weight` and `bias` have x.cols elements, or are none (all
/// ones, all zeros). `Out` as for rms_norm().
///
/// The variance is the mean square of what is left after the mean is subtracted. Ba, Kiros, Hinton: Layer
/// Normalization, 2016.
template <Element Out, Floating T>
void layer_norm(Device& device, Matrix<Out> out, Matrix<T> x, VectorIn<T> weight, VectorIn<T> bias,
                const std::type_identity_t<NormOptions<std::remove_const_t<T>>>& options = {},
                StreamHandle stream = nullptr) {
  run<EntryId::layer_norm>(device, stream, out, x, weight, bias, options.eps, options.residual, options.sum,
                           options.activation, options.scale, options.scales);
}

/// out[r, c] = h[r, c] / max(sqrt(sum over c of h[r, c]^2), eps). Of the options `activation` is left out.
template <Element Out, Floating T>
void l2_norm(Device& device, Matrix<Out> out, Matrix<T> x,
             const std::type_identity_t<NormOptions<std::remove_const_t<T>>>& options = {.eps = 1e-12f},
             StreamHandle stream = nullptr) {
  if (options.activation != Activation::None)
    throw LaunchError("l2_norm: has no activation; expected Activation::None");
  run<EntryId::l2_norm>(device, stream, out, x, options.eps, options.residual, options.sum, options.scale,
                        options.scales);
}

/// What the gradient of a norm may take in or leave out.
template <Floating T>
struct NormBackwardOptions {
  float eps = 1e-6f;          ///< that of the norm
  Matrix<const T> dsum = {};  ///< the gradient of the sum, which is added to dx
};

/// The gradients of rms_norm() without residual and activation: dx, and dweight unless it is none, from dy and what the
/// norm had (with a residual: the sum). With n = x r, r = 1 / sqrt(mean(x^2) + eps), g = dy weight: dx = r (g - n
/// mean(g n)), dweight[c] = sum over r of dy n. `dx` may be `dy` or `x` itself.
///
/// dweight is of type T or float, and the same in every run. Traffic: 3 rows cols sizeof(T) bytes in one launch (rows
/// that do not fit the registers are read again, from a cache). Error below 4e-6 of the largest terms, plus the
/// rounding.
template <Floating T, Floating W = T>
void rms_norm_backward(Device& device, Matrix<T> dx, Vector<W> dweight, MatrixIn<T> dy, MatrixIn<T> x,
                       VectorIn<T> weight, const std::type_identity_t<NormBackwardOptions<T>>& options = {},
                       StreamHandle stream = nullptr) {
  run<EntryId::rms_norm_backward>(device, stream, dx, dweight, dy, x, weight, options.eps, options.dsum);
}

/// The gradients of layer_norm(), as rms_norm_backward() otherwise: with n = (x - mean(x)) r, r = 1 / sqrt(variance(x)
/// + eps), g = dy weight: dx = r (g - mean(g) - n mean(g n)), dweight[c] = sum over r of dy n, dbias[c] = sum over r of
/// dy.
template <Floating T, Floating W = T>
void layer_norm_backward(Device& device, Matrix<T> dx, Vector<W> dweight, Vector<W> dbias, MatrixIn<T> dy,
                         MatrixIn<T> x, VectorIn<T> weight,
                         const std::type_identity_t<NormBackwardOptions<T>>& options = {},
                         StreamHandle stream = nullptr) {
  run<EntryId::layer_norm_backward>(device, stream, dx, dweight, dbias, dy, x, weight, options.eps, options.dsum);
}

/// What batch_norm() may leave out.
struct ChannelNormOptions {
  Tensor weight = {}, bias = {};  ///< one element a channel
  float eps = 1e-5f;
  Activation activation = Activation::None;
};

struct GroupNormOptions {
  Tensor weight = {}, bias = {};  ///< one element a channel
  float eps = 1e-5f;
  Activation activation = Activation::None;
  Tensor residual = {};  ///< of x's shape, added to x first
  Tensor sum = {};       ///< of x's shape: what x and residual are together; may be x or residual itself
  Tensor scale = {};     ///< one number of fp32 that the result is divided by
  Tensor scales = {};    ///< written: batch x groups of fp32, by which groups are divided to fill a type of 8 bits
};

/// out[n, c, s] = (h[n, c, s] - m) / sqrt(v + eps) * weight[c] + bias[c], h = x + residual, and its activation, with
/// mean m and variance v of the channels of c's group in image n, over all of space. `out` and `x` are batch x channels
/// x spatial, elements of space side by side; the channels are divided into `groups` of equally many. Elements of `out`
/// are of x's type, or int8, float8e4nv or float8e5 for a quantised result as rms_norm() has it. Wu, He: Group
/// Normalization, 2018.
inline void group_norm(Device& device, const Tensor& out, const Tensor& x, int64_t groups,
                       const GroupNormOptions& options = {}, StreamHandle stream = nullptr) {
  run<EntryId::group_norm>(device, stream, out, x, groups, options.weight, options.bias, options.eps,
                           options.activation, options.residual, options.sum, options.scale, options.scales);
}

/// The gradient of x in l2_norm() without residual: dx = r (dy - y sum(dy y)) with y = x r, r = 1 / max(|x|, eps), and
/// r dy where |x| is below eps. `dx` may be `dy` or `x` itself. Traffic: 3 rows cols sizeof(T) bytes.
template <Floating T>
void l2_norm_backward(Device& device, Matrix<T> dx, MatrixIn<T> dy, MatrixIn<T> x, float eps = 1e-12f,
                      StreamHandle stream = nullptr) {
  run<EntryId::l2_norm_backward>(device, stream, dx, dy, x, eps);
}

/// The gradients of group_norm() without activation, in one launch: dx, and dweight and dbias unless they are {}, which
/// are sums over all images in their order. Shapes as there. Traffic: 3 elements for each of x; a group is read again
/// from a cache.
inline void group_norm_backward(Device& device, const Tensor& dx, const Tensor& dweight, const Tensor& dbias,
                                const Tensor& dy, const Tensor& x, int64_t groups, const Tensor& weight = {},
                                float eps = 1e-5f, StreamHandle stream = nullptr) {
  run<EntryId::group_norm_backward>(device, stream, dx, dweight, dbias, dy, x, groups, weight, eps);
}

/// out[n, c, s] = (x[n, c, s] - mean[c]) / sqrt(variance[c] + eps) * weight[c] + bias[c], and its activation. Shapes as
/// for group_norm(). Traffic: 2 elements for each of x. Ioffe, Szegedy: Batch Normalization, 2015.
inline void batch_norm(Device& device, const Tensor& out, const Tensor& x, const Tensor& mean, const Tensor& variance,
                       const ChannelNormOptions& options = {}, StreamHandle stream = nullptr) {
  run<EntryId::batch_norm>(device, stream, out, x, mean, variance, options.weight, options.bias, options.eps,
                           options.activation);
}

}  // namespace tegula::kernels
