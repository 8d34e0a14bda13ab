// Barriers in shared memory that copies complete on, and that copy_warps and the program pass on their own.
#pragma once

#include "codegen/ir/builder.h"

namespace tegula {

/// So many, one for each slot of what they are for, at `build`; `arrivals` end a phase, 0: one of each thread.
ir::Value* make_barriers(ir::Builder& build, int64_t slots, int64_t arrivals);
/// Likewise, one for each slot of what they are for, at the function's begin; `arrivals` end a phase.
ir::Value* alloc_barriers(ir::Func& func, int64_t slots, int64_t arrivals);

}  // namespace tegula
