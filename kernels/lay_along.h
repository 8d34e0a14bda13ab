// Operands of products copied to rows along K that begin at multiples of 16 bytes. Not for users.
#pragma once

#include <span>

#include "dsl/kernel.h"
#include "kernels/matrix.h"

namespace tegula::kernels::detail {

/// A matrix of two bytes an element that a product reads. `along_k`: the elements of its rows follow each other along
/// K.
struct Operand {
  AnyMatrix matrix;
  bool along_k;
};

/// The largest power of two up to 16 that the address of each row is a multiple of.
int64_t row_alignment(const AnyMatrix& m);
/// Whether all rows begin at multiples of 16 bytes and all extents along them, and along K, are multiples of 16 bytes.
bool is_aligned(const Operand& operand);

/// Elements of a row of the copies for a product of this depth; bytes of the copy of an operand.
int64_t copied_depth(int64_t depth);
int64_t copied_bytes(const Operand& operand);

/// Copies one or two operands of one type into memory at `address`, a multiple of 16, which has copied_bytes() for
/// each; they are their copies then, which lie along K and have copied_depth() columns: zeros behind their own. Throws
/// what Kernel::launch throws.
void lay_along(Device& device, std::span<Operand* const> operands, uint64_t address, StreamHandle stream);

}  // namespace tegula::kernels::detail
