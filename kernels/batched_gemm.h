// Products of many matrices at a time. The kernel stands in batched_gemm.py.
#pragma once

#include "kernels/activation.h"
#include "kernels/entry.h"

namespace tegula::kernels {

struct BatchedGemmOptions {
  Tensor bias = {};  ///< one element a column of c, of any of the library's types
  Activation epilogue = Activation::None;
};

/// c[i] = activation(a[i] b[i] + bias) for c of batch x M x N, a of batch x M x K and b of batch x K x N. a and b have
/// element type float16 or bfloat16 and any strides: a view, a transpose, or one matrix for all i (a stride of 0) costs
/// no copy. c may have any of the library's types; elements of its rows lie side by side.
///
/// Sums are fp32, rounded once to c's type. Throws LaunchError for operands that do not fit, and what Kernel::launch
/// throws. Traffic: batch (M K + K N) elements read, batch M N written.
inline void batched_gemm(Device& device, const Tensor& c, const Tensor& a, const Tensor& b,
                         const BatchedGemmOptions& options = {}, StreamHandle stream = nullptr) {
  run<EntryId::batched_gemm>(device, stream, c, a, b, options.bias, options.epilogue);
}

}  // namespace tegula::kernels
