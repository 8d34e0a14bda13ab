// Operands of wgmma in shared memory, and the descriptors by which its instructions read them.
#pragma once

#include <cstdint>

#include "codegen/layout/linear_layout.h"
#include "codegen/lower/lowering.h"

namespace tegula {

/// How an operand is found in shared memory (PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout").
struct OperandInPlace {
  bool k_major;            ///< elements along K lie side by side
  int leading_bytes;       ///< between columns of swizzle patterns: along M or N where these are contiguous
  int stride_bytes;        ///< between groups of eight rows
  int swizzle;             ///< bytes of a row of the swizzle pattern: 32, 64 or 128
  int pattern;             ///< rows (A) or columns (B) of a swizzle pattern
  int together;            ///< from any multiple of a pattern on, so many rows or columns lie at these distances
  LinearLayout to_offset;  ///< coordinates -> offset in elements
};

/// The 64-bit description of operand 0 (M x K) or 1 (K x N), which begins at a shared address.
class WgmmaDescriptor {
 public:
  /// `place`: laid out by shared_layout_for_dot_operand.
  WgmmaDescriptor(lower::Lowering& l, const ir::Value* place, int operand);

  bool k_major() const { return operand_.k_major; }
  /// Whether the columns of B can be multiplied `columns` at a time: all of them come to `extent`.
  bool can_part(int64_t columns, int64_t extent) const;

  /// Moves the beginning by the warpgroup's coordinate along `acc_axis` of the result.
  void add_group_part(const LinearLayout& acc, int acc_axis);
  /// That of the operand from (row, column) on.
  llvm::Value* at(int64_t row, int64_t column);

 private:
  llvm::Value* in_units(llvm::Value* address);
  int64_t offset(int64_t row, int64_t column) const;

  lower::Lowering& l_;
  OperandInPlace operand_;
  int bytes_;
  llvm::Value* base_;
  llvm::Value* first_ = nullptr;
};

}  // namespace tegula
