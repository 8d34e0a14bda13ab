// In which order programs of a launch may run.
#pragma once

#include "codegen/ir/ir.h"

namespace tegula {

/// Whether they may begin in any order, and one behind the other. Programs of a launch have no order, but those that
/// wait for what others store rely on that earlier ones have begun: not kernels that order memory or use results of
/// atomic operations. Nor clusters, and kernels with assembly that has effects or names a special register, as that of
/// its program's number.
bool programs_have_no_order(const ir::Func& func);

}  // namespace tegula
