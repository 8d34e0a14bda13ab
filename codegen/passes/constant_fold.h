// What an elementwise op gives for constant operands.
#pragma once

#include <optional>
#include <vector>

#include "codegen/ir/ir.h"

namespace tegula {

/// `value` as an integer of this element type: wrapped to its width, sign- or zero-extended to 64 bits.
int64_t wrap_integer(uint64_t value, Elem elem);
/// `value` rounded to nearest even in this floating-point type; every NaN becomes the one quiet NaN.
double round_float(double value, Elem elem);

/// The value of `op`, elementwise with one result, if its operands are these constants (the attribute `value` of
/// constant ops), as the op table says. Nothing where the result is not fixed by it (division by zero, shift by the
/// width or more, float to an integer that cannot hold it) or an approximation.
std::optional<ir::Attr> fold_elementwise(const ir::Op& op, const std::vector<const ir::Attr*>& operands);

}  // namespace tegula
