// Operands of products copied to rows along K that begin at multiples of 16 bytes. Not for users.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "dsl/kernel.h"
#include "kernels/matrix.h"

namespace tegula::kernels::detail {

/// A matrix of two bytes an element that a product reads, or the first one of a batch. `along_k`: the elements of its
/// rows follow each other along K.
struct Operand {
  AnyMatrix matrix;
  bool along_k;
  int64_t batch = 1;
  int64_t batch_stride = 0;
};

/// The largest power of two up to 16 that the address of each row is a multiple of.
int64_t row_alignment(const Operand& operand);
/// Whether all rows begin at multiples of 16 bytes and all extents along them, and along K, are multiples of 16 bytes.
bool is_aligned(const Operand& operand);

/// Elements of a row of the copies for a product of this depth; bytes of the copy of an operand, and of several.
int64_t copied_depth(int64_t depth);
int64_t copied_bytes(const Operand& operand);
int64_t copied_bytes(std::span<Operand* const> operands);
/// What copies should take of a workspace at most.
constexpr int64_t kMostCopied = 1 << 28;

/// The operands to copy ahead of products of so many operations, which then have rows along K that begin at multiples
/// of 16 bytes: all whose rows do not, if the copies take less time than they save; else none.
std::vector<Operand*> operands_to_copy(double operations, std::array<Operand, 2>& operands);

/// Copies one or two operands of one type into memory at `address`, a multiple of 16, which has copied_bytes() for
/// each; they are their copies then, which lie along K and have copied_depth() columns: zeros after their own. Throws
/// what Kernel::launch throws.
void lay_along(Device& device, std::span<Operand* const> operands, uint64_t address, StreamHandle stream);

}  // namespace tegula::kernels::detail
