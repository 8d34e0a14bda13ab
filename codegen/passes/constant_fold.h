// Evaluation of elementwise ops on constants.
#pragma once

#include <optional>
#include <vector>

#include "codegen/ir/ir.h"

namespace tegula {

/// The attribute `value` of the constant that `v` is; null if it is none, or null itself.
const ir::Attr* constant_of(const ir::Value* v);

/// `value` as an integer of this element type: wrapped to its width, sign- or zero-extended to 64 bits.
int64_t wrap_integer(uint64_t value, Elem elem);
/// `value` rounded to nearest even in this floating-point type; every NaN becomes the one quiet NaN.
double round_float(double value, Elem elem);

/// The value of `op`, elementwise with one result, for these constant operands (the attribute `value` of constants), as
/// the op table defines it. Nullopt where the table does not define the result (division by zero, a shift by the width
/// or more, a float converted to an integer that cannot hold it) or only to an approximation.
std::optional<ir::Attr> fold_elementwise(const ir::Op& op, const std::vector<const ir::Attr*>& operands);

}  // namespace tegula
