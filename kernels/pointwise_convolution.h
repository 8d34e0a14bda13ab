// Convolutions whose kernel has one place, as products. Not for users.
#pragma once

#include "kernels/entry.h"

namespace tegula::kernels::detail {

/// Runs a call of conv2d as a product of gemm, if the result's pixels are those of x in their order, at equal
/// distances; false: they are not.
bool convolve_as_product(Device& device, const BoundCall& call, StreamHandle stream);

}  // namespace tegula::kernels::detail
