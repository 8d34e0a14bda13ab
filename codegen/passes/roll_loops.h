// Turns statements that a text has unrolled back into loops.
#pragma once

#include "codegen/ir/ir.h"

namespace tegula {

/// The pass roll_loops, which front ends call themselves: thousands of unrolled iterations are long, and every later
/// step takes time in proportion.
void roll_loops(ir::Func& func);

}  // namespace tegula
