// Bounds that a mask implies for the values it was computed from.
#pragma once

#include <optional>
#include <unordered_map>

#include "codegen/analysis/axis_runs.h"

namespace tegula {

/// Lower bounds of integers where a mask is true. A tile that is broadcast to the mask's shape is bounded by its own
/// elements, and a mask that was computed once for a whole tile bounds the scalars that it was computed from.
class MaskBounds {
 public:
  MaskBounds(const ir::Value* mask, const AxisInfoOf& info);

  bool empty() const { return least_.empty(); }
  /// Whether the value is not negative wherever the mask is true, as far as its expression tells: sums of what the mask
  /// bounds, constants and what is never negative. Signed ones of 32 bits and more are presumed not to overflow.
  bool non_negative(const ir::Value* value) const;

 private:
  // A number as another one plus a constant.
  struct Sum {
    const ir::Value* of;
    int64_t added;
  };

  void collect(const ir::Value* mask);
  void at_least(const ir::Value* x, const ir::Value* bound, int64_t more);
  Sum without_constants(const ir::Value* x) const;
  std::optional<int64_t> least(const ir::Value* x, int depth) const;

  const AxisInfoOf& info_;
  std::unordered_map<const ir::Value*, int64_t> least_;
};

}  // namespace tegula
