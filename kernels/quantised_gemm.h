// Products with weights of 8 or 4 bits. The kernel stands in quantised_gemm.py, whose head says what weights stand for.
#pragma once

#include "kernels/activation.h"
#include "kernels/entry.h"

namespace tegula::kernels {

/// What a uint8_t of weights holds two of, the first one in the low half: -8 to 7, 0 to 15, or a sign and one of 0,
/// 0.5, 1, 1.5, 2, 3, 4, 6.
enum class PackedWeights { Int4, UInt4, E2M1 };
/// Columns of weights that share a scale.
enum class WeightGroup { All, Of32, Of64, Of128 };

struct QuantisedGemmOptions {
  Tensor zeros = {};  ///< as scales, of int8_t, uint8_t, float, float16 or bfloat16: what integers are less first
  Tensor bias = {};   ///< one element a column of c, of any of the library's types
  Activation epilogue = Activation::None;
  PackedWeights packed = PackedWeights::Int4;
  WeightGroup group = WeightGroup::All;
};

/// c = activation(a w^T + bias), w[n, k] = (b[n, k] - zeros[n, g]) * scales[n, g] with g = k / group: for c of M x N, a
/// of M x K (float16 or bfloat16), weights b of N x K in int8_t, float8e4nv, float8e5, or N x K / 2 in uint8_t, and
/// scales of N x K / group (N x 1 for all columns) in float, float16, bfloat16, or uint8_t: exponents of 2 plus 127.
/// What quantise_rows() and quantise_groups() make of weights is such.
///
/// Weights become numbers of a's type on their way to the tensor cores. Sums of a group are scaled in fp32: the error
/// is that of gemm() with exact weights, but for e2m1, zeros that are no integers, and with bfloat16 differences from
/// zeros beyond 256, which are rounded to a's type, and where scales of groups are of a's type (or, with bfloat16,
/// exponents): weights in groups of 32 and 64, unless a is one row, and in groups of 128, if a has more than 64, are
/// scaled first and rounded to a's type. Of rows of a with elements that are not finite nothing is said but that their
/// results are not, or NaN. For so many rows that it takes less time, weights become a matrix of a's type in the
/// stream's workspace first, of 256 MB at most at a time; results are the same but for the order of sums. Throws
/// LaunchError for operands that do not fit, and what Kernel::launch throws. Traffic: the weights and scales once, M K
/// elements read, M N written. Few rows are bound by the weights' way from memory. Frantar et al.: Marlin, 2024.
template <Floating Out, Floating In, Element Weight, Element Scale>
void quantised_gemm(Device& device, Matrix<Out> c, Matrix<In> a, Matrix<Weight> b, Matrix<Scale> scales,
                    const QuantisedGemmOptions& options = {}, StreamHandle stream = nullptr) {
  run<EntryId::quantised_gemm>(device, stream, c, a, b, scales, options.zeros, options.bias, options.epilogue,
                               options.packed, options.group);
}

}  // namespace tegula::kernels
