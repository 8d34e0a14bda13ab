// How far apart in memory the elements of a tile lie, also those that are neither consecutive nor equal.
#pragma once

#include <functional>
#include <vector>

#include "codegen/analysis/axis_info.h"

namespace tegula {

using AxisInfoOf = std::function<const AxisInfo&(const ir::Value*)>;

/// The longest run that is known along the axis. `step`: the distance of consecutive elements.
AxisInfo::Run longest_run(const AxisInfo& info, size_t axis, int64_t step);

/// Runs of an op's result beyond those that its contiguity and constancy tell of; empty: none.
std::vector<AxisInfo::Run> strided_runs(const ir::Op& op, const AxisInfoOf& info);

/// What holds for both.
std::vector<AxisInfo::Run> common_runs(const AxisInfo& a, const AxisInfo& b, int64_t step);

/// Elements of `bytes` bytes along the axis that one aligned access can cover (at most 16 bytes), by what is known of
/// the pointers and of the mask (null: none).
int access_width(const AxisInfo& pointers, int64_t bytes, const AxisInfo* mask, size_t axis);

}  // namespace tegula
