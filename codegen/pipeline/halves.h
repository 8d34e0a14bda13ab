// Products whose first operand each iteration computes in registers.
#pragma once

#include "codegen/ir/ir.h"

namespace tegula {

/// Whether the product, by fragments in registers, can be two that follow each other along K.
bool divides_along_depth(const ir::Op& product);

/// Divides the product of a loop whose sums are kept in flight (keep_in_flight), and which are waited for at its end,
/// into two along K, in turns:
///
///                                          s = mma_start a, b, s {first half of K}
///   s = mma_start a, b, s           ->     s = mma_wait s {pending = 1}     the second half of the iteration before
///   s = mma_wait s {pending = 1}           s = mma_start a, b, s {second half of K}
///                                          s = mma_wait s {pending = 1}     the first half
///
/// So each half of the fragments is computed in registers that no product reads any more, while the other half is
/// multiplied.
void multiply_in_halves(ir::Op& loop, ir::Op& product);

}  // namespace tegula
