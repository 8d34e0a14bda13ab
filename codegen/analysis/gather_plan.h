// How a gather fetches its elements: by shuffles within a warp if the axis lies in registers and lanes, otherwise
// through shared memory.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "codegen/ir/ir.h"

namespace tegula {

/// How the bits of an index select the lane that holds the element and the register of that lane.
struct GatherPlan {
  std::vector<std::pair<int, int>> lane_bits;  ///< bit of the lane, bit of the index; the others are the asking lane's
  std::vector<int> choice_bits;                ///< bits of the index that choose, the lowest first
  /// For each register of the result, the source registers that may hold its element, one for each value of the
  /// selecting bits.
  std::vector<std::vector<int>> candidates;
};

/// The plan; nullopt if the gather goes through shared memory, because the elements are spread over warps or over so
/// many registers that their shuffles would cost more.
std::optional<GatherPlan> plan_gather(const ir::Op& op);

}  // namespace tegula
