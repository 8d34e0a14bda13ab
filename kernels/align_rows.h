// Copies of matrices whose rows begin at multiples of 16 bytes, which bulk copies ask for. Not for users.
#pragma once

#include <span>

#include "dsl/kernel.h"
#include "kernels/matrix.h"

namespace tegula::kernels::detail {

/// The largest power of two up to 16 that the address of each row is a multiple of.
int64_t row_alignment(const AnyMatrix& m);

/// Bytes that the copy of a matrix takes.
int64_t aligned_bytes(const AnyMatrix& m);

/// Copies one or two matrices of one element type into memory at `address`, a multiple of 16, which has aligned_bytes()
/// for each; the matrices then are their copies. Throws what Kernel::launch throws.
void align_rows(Device& device, std::span<AnyMatrix* const> matrices, uint64_t address, StreamHandle stream);

}  // namespace tegula::kernels::detail
