// Products of many rows with weights of few bits: by way of weights of 16 bits. Not for users.
#pragma once

#include "kernels/entry.h"

namespace tegula::kernels::detail {

/// Bytes of weights of 16 bits that are there at a time.
constexpr int64_t kMostSpread = int64_t(1) << 28;

/// Whether the scales of a call's weights are of a's type (or, with bfloat16, exponents): what is scaled by them and
/// rounded to a's type is what weights of 16 bits would be.
bool has_scales_of_a(const BoundCall& call);

/// Whether multiply_spread_weights() gives what quantised_gemm() says of its results.
bool can_spread_weights(const BoundCall& call);

/// c = activation(a w^T + bias) of a call of quantised_gemm(): weights of a's type are made in the stream's workspace,
/// those of as many columns of c at a time as take `most_bytes`, and multiplied as gemm() does. Weights with one scale
/// a row are made without it, and the fp32 sums are scaled. Throws what Kernel::launch throws.
void multiply_spread_weights(Device& device, const BoundCall& call, StreamHandle stream,
                             int64_t most_bytes = kMostSpread);

/// Runs a call that takes less time so than by weights that become numbers on their way to the tensor cores; false: it
/// does not.
bool spread_weights(Device& device, const BoundCall& call, StreamHandle stream);

}  // namespace tegula::kernels::detail
