// How a gather finds its elements: within a warp by shuffles, where the axis lies in registers and lanes, else by way
// of shared memory.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "codegen/ir/ir.h"

namespace tegula {

/// Bits of an index are bits of the lane that holds the element and bits that choose among registers of that lane.
struct GatherPlan {
  std::vector<std::pair<int, int>> lane_bits;  ///< bit of the lane, bit of the index; the others are the asking lane's
  std::vector<int> choice_bits;                ///< bits of the index that choose, the lowest first
  /// For each register of the result the source's that may hold its element, one for each value of the choice.
  std::vector<std::vector<int>> candidates;
};

/// None: the gather goes through shared memory, as what it looks up is spread over warps, or over so many registers
/// that their shuffles would cost more.
std::optional<GatherPlan> plan_gather(const ir::Op& op);

}  // namespace tegula
