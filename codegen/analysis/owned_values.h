// Values that only the owners of their elements make use of.
#pragma once

#include <unordered_set>

#include "codegen/ir/ir.h"

namespace tegula {

class OwnedValues {
 public:
  /// Analyses a laid-out function, which must outlive the analysis.
  explicit OwnedValues(const ir::Func& func);

  /// Whether nothing depends on the copies of the value's elements in threads that do not own them.
  bool contains(const ir::Value* value) const { return !escaping_.contains(value); }

 private:
  std::unordered_set<const ir::Value*> escaping_;
};

}  // namespace tegula
