// What the expression of a scalar integer says of its size.
#pragma once

#include <cstdint>
#include <optional>

#include "codegen/ir/ir.h"

namespace tegula {

/// Bounds of a scalar integer; nullopt on a side of which the expression says nothing. Sums do not overflow.
struct IntegerBounds {
  std::optional<int64_t> least, most;
};
IntegerBounds integer_bounds(const ir::Value* v);

/// The most iterations that a `for` can have; nullopt where its bounds do not say.
std::optional<int64_t> most_trips(const ir::Op& loop);

}  // namespace tegula
