// What threads hold of a value that nothing follows from, as others write to memory what follows from theirs.
//
// Where a layout gives an element to several threads, all of them load it and compute with it, and one of them, its
// owner, stores. What the others have loaded matters if it reaches another thread, control flow, an address or a
// layout with other owners; else it may be anything. Where lanes of a warp exchange it, as in a reduction, it matters
// what any lane of the owner's warp has loaded, but still not what other warps have.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "codegen/ir/ir.h"

namespace tegula {

/// Bits of the index of a thread that tell copies of elements apart; that of their owner has zeros there. Without a
/// layout: of a scalar.
uint32_t bits_of_copies(const LinearLayout* layout, int num_warps);

class OwnedValues {
 public:
  /// Analyses a laid-out function, which must outlive the analysis.
  explicit OwnedValues(const ir::Func& func);

  /// Bits of the index of a thread: where one of these is 1, what the thread holds of the value reaches nothing.
  uint32_t unused_bits(const ir::Value* value) const;

 private:
  std::unordered_map<const ir::Value*, uint32_t> unused_;  // of values that something follows from
};

}  // namespace tegula
