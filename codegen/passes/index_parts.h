// Index arithmetic of tiles of which a program computes one part at a time, or one part alone.
#pragma once

#include <functional>

#include "codegen/ir/builder.h"

namespace tegula {

/// Gives each user of what follows from arange, constants and scalars one of its own, so that rows and columns that
/// begin with the same arange part. False where that would take too many.
bool part_users(ir::Func& func);

/// An arange whose result has the shape of a part by now begins that of the part: the number from which it counts, a
/// scalar, is what `begin` makes.
void begin_range(ir::Func& func, ir::Op& arange, const std::function<ir::Value*(ir::Builder&)>& begin);

/// What a hint promises of runs along the axis that are longer than a part holds of its part.
void weaken_hint(ir::Op& hint, size_t axis);
/// What a hint promises of all elements along the axis says little of one.
void drop_hint(ir::Op& hint, size_t axis);

}  // namespace tegula
