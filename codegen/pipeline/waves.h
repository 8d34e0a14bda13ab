// Products whose sums are consumed wave by wave.
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

/// The product of the loop if it is the only one, runs beside the program and has initial sums that are defined within
/// the iteration; otherwise null.
ir::Op* product_of_iteration(ir::Op& loop);

}  // namespace tegula
