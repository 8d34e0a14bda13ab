// Loops again of statements that a text unrolled.
#pragma once

#include "codegen/ir/ir.h"

namespace tegula {

/// The pass of this name, for front ends: what is unrolled thousands of times is long, and everything after them takes
/// its time.
void roll_loops(ir::Func& func);

}  // namespace tegula
