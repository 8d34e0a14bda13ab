// Distances in memory between the elements of a tile, for elements that are neither consecutive nor equal too.
#pragma once

#include <functional>
#include <vector>

#include "codegen/analysis/axis_info.h"

namespace tegula {

using AxisInfoOf = std::function<const AxisInfo&(const ir::Value*)>;

/// The longest known run along the axis. `step`: the distance of consecutive elements (axis_facts::step).
AxisInfo::Run longest_run(const AxisInfo& info, size_t axis, int64_t step);

/// Runs of an op's result that its contiguity and constancy do not imply; empty if there are none.
std::vector<AxisInfo::Run> strided_runs(const ir::Op& op, const AxisInfoOf& info);

/// The runs that hold for both.
std::vector<AxisInfo::Run> common_runs(const AxisInfo& a, const AxisInfo& b, int64_t step);

/// The number of elements of `bytes` bytes along the axis that one aligned access can cover (at most 16 bytes), given
/// the facts about the pointers and about the mask (null: none).
int access_width(const AxisInfo& pointers, int64_t bytes, const AxisInfo* mask, size_t axis);

}  // namespace tegula
