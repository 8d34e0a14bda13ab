// Constants that grow by the same from one copy of unrolled statements to the next.
#pragma once

#include <cstddef>
#include <optional>

#include "codegen/ir/ir.h"

namespace tegula {

/// What constants of the type grow by, if `second` follows `first`; nullopt where such do not grow.
std::optional<ir::Attr> step_between(const ir::Attr& first, const ir::Attr& second, Elem elem);

/// Whether the constant is `copies` steps from `first`, and a loop computes it without rounding.
bool has_grown(const ir::Attr& constant, const ir::Attr& first, const ir::Attr& step, size_t copies, Elem elem);

}  // namespace tegula
