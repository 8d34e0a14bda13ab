// Products whose first operand each iteration computes in registers.
#pragma once

#include <vector>

#include "codegen/ir/ir.h"
#include "codegen/pipeline/copy_nest.h"

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

/// What an iteration of such a loop reads of these places, which are filled together, the iteration before reads, while
/// its product is under way:
///
///                                          if there is a first iteration: phase_wait; r = shared_read; phase_arrive
///   for ..                                 for .., r
///     phase_wait full[slot]                  s = mma_start f(r), b, s ..
///     r = shared_read place[slot]    ->      if there is a next iteration:
///     phase_arrive empty[slot]                 phase_wait full[next slot]
///     s = mma_start f(r), b, s ..              r = shared_read place[next slot]
///     s = mma_wait s                           phase_arrive empty[next slot]
///                                            s = mma_wait s
///
/// and so is what follows from the reads alone. So neither the wait for the copy nor that for shared memory, nor most
/// of what makes fragments of bytes, comes between two products. Changes nothing for long products, where anything else
/// uses the places, where fragments are not computed with other values too, or where a thread's `registers` do not hold
/// as much.
void read_ahead(ir::Op& loop, const ir::Op& product, const std::vector<const ir::Value*>& places, const Fill& fill,
                const Turn& turn, int64_t registers);

}  // namespace tegula
