// Bounds that a mask implies for the values it was computed from.
#pragma once

#include <optional>
#include <unordered_map>

#include "codegen/analysis/axis_runs.h"

namespace tegula {

/// Lower bounds of integer tiles in those elements where a mask is true. A tile that is broadcast to the mask's shape
/// is bounded by its own elements.
class MaskBounds {
 public:
  MaskBounds(const ir::Value* mask, const AxisInfoOf& info);

  bool empty() const { return least_.empty(); }
  /// Whether the value is not negative wherever the mask is true. The value is a tile that the mask was computed from,
  /// or such a tile plus a constant.
  bool non_negative(const ir::Value* value) const;

 private:
  void collect(const ir::Value* mask);
  void at_least(const ir::Value* x, const ir::Value* bound, int64_t more);

  const AxisInfoOf& info_;
  std::unordered_map<const ir::Value*, int64_t> least_;
};

}  // namespace tegula
