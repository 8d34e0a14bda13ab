// The order in which a layout holds the elements along one dimension of a tile.
#pragma once

#include <optional>
#include <vector>

#include "codegen/layout/linear_layout.h"

namespace tegula {

/// The bits of an input that move along tile dimension `axis`.
std::vector<int> bits_along(const LinearLayout& layout, Dim in, int axis);

/// Consecutive elements lie in a run of a thread's registers, the runs of lanes side by side, those of warps behind
/// them, and all that again in further registers: element number ((round * warps + warp) * lanes + lane) * run +
/// register.
struct AxisOrder {
  int run = 1;                 ///< elements
  std::vector<int> lane_bits;  ///< of the lane's number along the axis, lowest first
  std::vector<int> warp_bits;  ///< of the warp's
  int rounds = 1;
};
/// Nullopt where elements come in another order.
std::optional<AxisOrder> axis_order(const LinearLayout& layout, int axis);

}  // namespace tegula
