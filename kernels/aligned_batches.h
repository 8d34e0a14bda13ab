// Batches of products whose operands' rows begin at odd addresses. Not for users.
#pragma once

#include "kernels/entry.h"

namespace tegula::kernels::detail {

/// Runs a call of batched_gemm on copies of operands that are aligned, where these take less time than they save;
/// false: there are none.
bool multiply_aligned_copies(Device& device, const BoundCall& call, StreamHandle stream);

}  // namespace tegula::kernels::detail
