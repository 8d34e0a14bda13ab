// Where a mask changes along an axis, and how wide an access may therefore be.
#pragma once

#include "codegen/analysis/axis_info.h"

namespace tegula {

/// Whether the mask is true, in each aligned group of `group` elements along the axis, for one run of neighbours or for
/// none: where it is true for the first and the last one it is true for all of them. So are comparisons of consecutive
/// numbers with a bound, and what holds where several such masks do.
bool is_one_run(const ir::Value* mask, size_t axis, int64_t group, const AxisAnalysis& axes);

/// What is known of an access: of its pointers where its mask is true, and of other values everywhere.
struct KnownOfAccess {
  const AxisInfo& pointers;
  const AxisAnalysis& axes;
};

/// Elements of `bytes` bytes along the axis that one access of a load or store can cover. Where accesses in which the
/// mask (null: none) is the same throughout would be narrow, it may end within them if it is true for one run: elements
/// are then accessed one by one. Triton accesses single elements under such masks, whatever the program promises: here
/// its promises of runs count for nothing, and whether addresses are aligned is asked where that is but promised.
int masked_access_width(const KnownOfAccess& known, const KnownOfAccess& without_promises, int64_t bytes,
                        const ir::Value* mask, size_t axis);

}  // namespace tegula
