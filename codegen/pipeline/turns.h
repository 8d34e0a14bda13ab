// Two warpgroups that take turns at the tensor cores.
#pragma once

#include "codegen/ir/ir.h"

namespace tegula {

/// Lets two warpgroups take turns in the loops with two products whose operands copy_warps bring: one multiplies while
/// the other one computes what comes between the products. A loop of one iteration has no turns.
void take_turns(ir::Func& func);

}  // namespace tegula
