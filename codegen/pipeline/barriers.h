// Barriers in shared memory that copy_warps and the program pass on their own.
#pragma once

#include "codegen/ir/ir.h"

namespace tegula {

/// So many, one for each slot of what they are for, at the function's begin; `arrivals` end a phase.
ir::Value* alloc_barriers(ir::Func& func, int64_t slots, int64_t arrivals);

}  // namespace tegula
