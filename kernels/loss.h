// Losses over rows, with their gradients in place of what they are of. The kernels stand in cross_entropy.py and
// divergence.py; linear_cross_entropy() takes those of gemm.py too.
//
// Matrices have element type float, float16 or bfloat16 and any row stride; the arithmetic is fp32. A matrix without
// rows launches nothing. The first launch for a number of columns and a type tunes on a GPU (which restores what is
// written in place). Throw LaunchError for operands that do not fit, and what Kernel::launch throws.
#pragma once

#include "kernels/entry.h"

namespace tegula::kernels {

struct CrossEntropyOptions {
  Vector<float> lse = {};  ///< written: log(sum over c of exp(z[r, c])), 0 for rows that are ignored
  int64_t ignore = -100;   ///< rows with this target have the loss 0 and the gradient 0
  float smoothing = 0;     ///< of labels, 0 to 1
  float z_loss = 0;        ///< factor of lse^2
  float cap = 0;           ///< z = cap * tanh(logits / cap); 0: z = logits
  float factor = 1;        ///< of losses and gradients: the incoming gradient, for example
  bool mean = false;       ///< losses and gradients are divided by the number of rows that are not ignored
  bool gradient = true;    ///< false: the logits stay as they are
};

/// losses[r] = (1 - smoothing) (lse - z[r, t]) + smoothing (lse - mean over c of z[r, c]) + z_loss lse^2, with t =
/// targets[r] (int32_t or int64_t) and lse = log(sum over c of exp(z[r, c])), in float; the gradient of their sum takes
/// the place of the logits. A target that is neither `ignore` nor a column makes its row NaN.
///
/// Error of a loss below 1e-5 of lse. Traffic: 2 rows cols sizeof(T) bytes, with no second tensor of the logits' size
/// (rows too wide for registers are read again, from a cache). Milakov, Gimelshein: Online normalizer calculation for
/// softmax, 2018; Hsu et al.: Liger Kernel, 2024.
template <Floating T, std::signed_integral Index>
void cross_entropy(Device& device, Vector<float> losses, Matrix<T> logits, Vector<Index> targets,
                   const CrossEntropyOptions& options = {}, StreamHandle stream = nullptr) {
  run<EntryId::cross_entropy>(device, stream, losses, logits, targets, options.lse, options.ignore, options.smoothing,
                              options.z_loss, options.cap, options.factor, options.mean, options.gradient);
}

struct LinearCrossEntropyOptions {
  Vector<float> lse = {};  ///< these as those of CrossEntropyOptions
  int64_t ignore = -100;
  float smoothing = 0, z_loss = 0, cap = 0, factor = 1;
  bool mean = false;
  bool accumulate = false;  ///< the gradient of weight is added to what stands in dweight
};

/// The losses of cross_entropy() on the logits x weight^T, for x of rows x K and weight of vocabulary x K (float16 or
/// bfloat16), without all of these: `logits`, any number of rows x vocabulary, has room for so many rows of them, which
/// are worked on at a time. dx and dweight, the gradients of x and weight, may be {}; without both nothing but losses
/// is computed. dweight is of x's type or float; in x's type it is rounded once for each part of the rows.
///
/// Throws LaunchError for operands that do not fit, and what Kernel::launch throws. Work: three products; traffic of
/// each part of the rows: weight twice, dweight twice, 6 times its logits. Hsu et al.: Liger Kernel, 2024.
template <Floating T, std::signed_integral Index>
void linear_cross_entropy(Device& device, Vector<float> losses, const Tensor& dx, const Tensor& dweight, Matrix<T> x,
                          MatrixIn<T> weight, Vector<Index> targets, Matrix<std::remove_const_t<T>> logits,
                          const LinearCrossEntropyOptions& options = {}, StreamHandle stream = nullptr) {
  run<EntryId::linear_cross_entropy>(device, stream, losses, dx, dweight, x, weight, targets, logits, options.lse,
                                     options.ignore, options.smoothing, options.z_loss, options.cap, options.factor,
                                     options.mean, options.accumulate);
}

/// losses[r] = factor * sum over c of exp(t) (t - x), the Kullback-Leibler divergence of rows of log-probabilities x =
/// input[r, c] from t = target[r, c]; with `gradient` that of the input takes its place. Terms with exp(t) = 0 are 0.
///
/// Traffic: 3 rows cols sizeof(T) bytes.
template <Floating T>
void kl_divergence(Device& device, Vector<float> losses, Matrix<T> input, MatrixIn<T> target, float factor = 1,
                   bool gradient = true, StreamHandle stream = nullptr) {
  run<EntryId::kl_divergence>(device, stream, losses, input, target, 0.5, factor, gradient);
}

/// losses[r] = factor * sum over c of beta exp(t) (t - m) + (1 - beta) exp(x) (x - m), m = log(beta exp(t) + (1 - beta)
/// exp(x)): the Jensen-Shannon divergence with weight beta, as kl_divergence() otherwise. Agarwal et al.: On-Policy
/// Distillation of Language Models, 2024.
template <Floating T>
void js_divergence(Device& device, Vector<float> losses, Matrix<T> input, MatrixIn<T> target, float beta = 0.5f,
                   float factor = 1, bool gradient = true, StreamHandle stream = nullptr) {
  run<EntryId::js_divergence>(device, stream, losses, input, target, beta, factor, gradient);
}

}  // namespace tegula::kernels
