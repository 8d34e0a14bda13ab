// Where a mask changes along an axis, and how wide an access may therefore be.
#pragma once

#include "codegen/analysis/axis_runs.h"

namespace tegula {

/// Whether the mask, in each aligned group of `group` elements along the axis, is true for at most one run of
/// neighbours: if it is true for the first and the last element of the group, it is true for all of them. This holds
/// for comparisons of consecutive numbers with a bound, and for the conjunction of such masks.
bool is_one_run(const ir::Value* mask, size_t axis, int64_t group, const AxisInfoOf& info);

/// The number of elements of `bytes` bytes along the axis that one access of a load or store can cover. An access may
/// be wider than the groups in which the mask (null: none) is constant if the mask is true for one run: where the mask
/// ends within an access, its elements are accessed one by one.
int masked_access_width(const AxisInfo& pointers, int64_t bytes, const ir::Value* mask, size_t axis,
                        const AxisInfoOf& info);

}  // namespace tegula
