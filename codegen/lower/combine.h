// What the lowering of reductions and scans has in common: both combine elements along an axis by a region.
#pragma once

#include "codegen/lower/lowering.h"

namespace tegula::lower {

/// One element of each operand.
using Group = llvm::SmallVector<llvm::Value*, 2>;

class Combining {
 public:
  Combining(Lowering& l, const ir::Op& op)
      : l_(l),
        op_(op),
        in_(op.operand(0)->type),
        layout_(*in_.layout),
        axis_(int(op.get(ir::attr::axis))),
        along_(tile_dim(axis_)) {}

 protected:
  /// The register part of an element's coordinates along the other axes.
  using Key = LinearLayout::Basis;
  Key key_of_operand(int r) const;

  /// Applies the region to two groups.
  Group combine(const Group& a, const Group& b);
  /// a where the condition holds (null: everywhere), else b.
  Group choose(llvm::Value* condition, const Group& a, const Group& b);
  Group operands_of_register(int r) const;

  bool moves_along_axis(Dim dim, int bit) const { return layout_.basis(dim, bit, along_) != 0; }
  /// The number formed by these bits of the thread's index, the lowest one first.
  llvm::Value* bits_of(llvm::Value* index, const std::vector<int>& bits);
  llvm::Value* bits_of_thread(const std::vector<int>& bits) { return bits_of(l_.thread(), bits); }
  /// Whether the thread's index has these bits of `mask`; null where there are none to compare.
  llvm::Value* is_thread(uint32_t mask, uint32_t bits);
  /// The row-major index, among the elements along the other axes, of this thread's element with that register part.
  llvm::Value* element_index(const Key& key);

  // Partial results in shared memory, `partials` side by side for each element along the other axes.
  static int64_t element_bytes(const ir::Value* x) { return std::max(1, x->type.bits() / 8); }
  /// The address at which the partial results of each operand begin.
  std::vector<int64_t> areas(int64_t partials) const;
  llvm::Value* address(int64_t area, llvm::Value* index, int64_t bytes);
  /// How many partial results one access may cover.
  int partials_together(int partials) const;

  // Or lane by lane: vectors of some of a thread's elements along the other axes, those of the lanes side by side.
  /// Bits of the thread's index that tell its elements from those of others, which `idle` bits do not.
  std::vector<int> own_bits(uint32_t idle) const;
  /// How many of a thread's `elements` a vector of operand i has.
  size_t vector_width(size_t i, size_t elements) const;
  /// Where the vector of operand i stands that begins with the thread's element number `first` of `elements`, in the
  /// row with that number; a row has all elements of all threads.
  llvm::Value* place_of_vector(int64_t area, size_t i, size_t elements, size_t first, llvm::Value* row,
                               const std::vector<int>& own);

  Lowering& l_;
  const ir::Op& op_;
  const ir::Type& in_;
  const LinearLayout& layout_;
  int axis_;
  Dim along_;
};

}  // namespace tegula::lower
