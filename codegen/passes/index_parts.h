// Index arithmetic of tiles that are divided into parts: a program then computes one part at a time, or one part only.
#pragma once

#include <functional>

#include "codegen/ir/builder.h"

namespace tegula {

/// Duplicates values computed from arange, constants and scalars, so that users with different axes (AxisClasses) have
/// different ones: rows and columns computed from the same arange then become independent.
void part_users(ir::Func& func);

/// Makes an arange whose result type is that of a part already begin at that part, whose first number, a scalar,
/// `begin` computes.
void begin_range(ir::Func& func, ir::Op& arange, const std::function<ir::Value*(ir::Builder&)>& begin);

/// Limits a hint's promise of runs along the axis to the length of a part.
void weaken_hint(ir::Op& hint, size_t axis);
/// Drops a hint's promises about elements along axes, one of which the tile loses.
void drop_hint(ir::Op& hint);

}  // namespace tegula
