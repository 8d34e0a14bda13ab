// Bounds of integers, from the expressions that compute them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/ir/ir.h"

namespace tegula {

/// Bounds of a scalar integer; nullopt on a side that the expression does not bound. Sums of signed integers are
/// presumed not to overflow.
struct IntegerBounds {
  std::optional<int64_t> least, most;
};
IntegerBounds integer_bounds(const ir::Value* v);

/// Whether the mask's expression implies that the mask is false for all elements with these coordinates or larger ones:
/// for example columns beyond a row's end that is known at compile time.
bool is_false_from(const ir::Value* mask, const Coordinates& at);

/// An upper bound on the iterations of a `for`; nullopt if its bounds imply none.
std::optional<int64_t> most_trips(const ir::Op& loop);

}  // namespace tegula
