// What a mask says of the numbers that it was made from.
#pragma once

#include <optional>
#include <unordered_map>

#include "codegen/analysis/axis_runs.h"

namespace tegula {

/// Least values of integer tiles in those elements where a mask is true. A tile that is broadcast to the mask's shape
/// counts by its own elements.
class MaskBounds {
 public:
  MaskBounds(const ir::Value* mask, const AxisInfoOf& info);

  bool empty() const { return least_.empty(); }
  /// Whether the value is no less than 0 where the mask is true: a tile of the mask, or such a tile plus a constant.
  bool non_negative(const ir::Value* value) const;

 private:
  void collect(const ir::Value* mask);
  void at_least(const ir::Value* x, const ir::Value* bound, int64_t more);

  const AxisInfoOf& info_;
  std::unordered_map<const ir::Value*, int64_t> least_;
};

}  // namespace tegula
