// Scalars that the host computes from a launch's arguments.
#pragma once

#include "codegen/ir/ir.h"

namespace tegula::ir {

/// Whether the value is a parameter of the function, or follows from parameters and constants by integer arithmetic on
/// scalars: constant, cast between integers, hint, add, sub, mul, div, rem, minimum, maximum, and addptr.
bool is_host_computable(const Value* v, const Func& func);

}  // namespace tegula::ir
