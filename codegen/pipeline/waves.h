// Products whose sums are used up piece by piece.
#pragma once

#include "codegen/ir/ir.h"

namespace tegula {

/// Lets the loop's product go in waves (mma_start's attribute) where each iteration has sums of its own that take more
/// registers than one instruction's and go into nothing but elementwise ops, as sums of blocks with scales do:
///
///   s = dot(a, b); acc += s * scale[:, None]
///
/// Then only the sums of one wave are there at a time beside acc.
void multiply_in_waves(ir::Op& loop, ir::Op& product);

/// The product of the loop if it is the only one, runs beside the program and begins with sums of its own, which so are
/// there within the iteration; else null.
ir::Op* product_of_iteration(ir::Op& loop);

}  // namespace tegula
