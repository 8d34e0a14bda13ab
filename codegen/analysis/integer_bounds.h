// What the expression of an integer says of its size.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/ir/ir.h"

namespace tegula {

/// Bounds of a scalar integer; nullopt on a side of which the expression says nothing. Sums do not overflow.
struct IntegerBounds {
  std::optional<int64_t> least, most;
};
IntegerBounds integer_bounds(const ir::Value* v);

/// Whether a mask's expression says that it is false for all elements whose coordinates are these or larger: of columns
/// behind a row's end that is known when the kernel is compiled.
bool is_false_from(const ir::Value* mask, const std::vector<int32_t>& at);

/// The most iterations that a `for` can have; nullopt where its bounds do not say.
std::optional<int64_t> most_trips(const ir::Op& loop);

}  // namespace tegula
