// Barriers in shared memory (mbarriers): for copies to complete on, and between copy_warps and the program.
#pragma once

#include "codegen/ir/builder.h"

namespace tegula {

/// Creates `slots` barriers at the position of `build`, one for each slot of what they guard. `arrivals` arrivals
/// complete a phase; 0: one of each thread.
ir::Value* make_barriers(ir::Builder& build, int64_t slots, int64_t arrivals);
/// The same at the beginning of the function.
ir::Value* alloc_barriers(ir::Func& func, int64_t slots, int64_t arrivals);

}  // namespace tegula
