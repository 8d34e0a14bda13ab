// The order in which a layout holds the elements along one dimension of a tile.
#pragma once

#include <optional>
#include <vector>

#include "codegen/layout/linear_layout.h"

namespace tegula {

/// The bits of the input `in` that move along tile dimension `axis`.
std::vector<int> bits_along(const LinearLayout& layout, Dim in, int axis);

/// The order of elements along a dimension: consecutive elements lie in a run of a thread's registers, then in the next
/// lane, then in the next warp, and the whole repeats in further registers (rounds). The number of an element is
/// ((round * warps + warp) * lanes + lane) * run + register.
struct AxisOrder {
  int run = 1;                 ///< elements
  std::vector<int> lane_bits;  ///< of the lane's number along the axis, lowest first
  std::vector<int> warp_bits;  ///< of the warp's
  int rounds = 1;
};
/// The order of the layout along `axis`; nullopt if its elements are in any other order.
std::optional<AxisOrder> axis_order(const LinearLayout& layout, int axis);

}  // namespace tegula
