// Values that nothing follows from but what the owners of elements write to memory.
//
// Where a layout gives an element to several threads, all of them load it and compute with it, and one of them, its
// owner, stores. What the others have loaded matters if it reaches another thread, control flow, an address or a
// layout with other owners; else it may be anything.
#pragma once

#include <unordered_set>

#include "codegen/ir/ir.h"

namespace tegula {

class OwnedValues {
 public:
  /// Of a laid-out function, which must outlive it.
  explicit OwnedValues(const ir::Func& func);

  /// Whether what threads hold of the value that do not own it reaches nothing.
  bool contains(const ir::Value* value) const { return !escaping_.contains(value); }

 private:
  std::unordered_set<const ir::Value*> escaping_;
};

}  // namespace tegula
