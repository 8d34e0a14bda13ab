// Divides pipelined loops between the program's warps, which multiply, and warps that do nothing but copy.
#pragma once

#include <vector>

#include "codegen/ir/ir.h"
#include "codegen/pipeline/schedule.h"
#include "codegen/target/target.h"

namespace tegula {

/// Lets warps of their own (copy_warps) issue the loop's copies, to 2 to `wanted` slots of each place. Each slot has
/// two barriers: it is full when the copies into it are over, and empty when all warps have read it.
///
///   for i = ...                          for i = ...                          copy_warps:
///     async_copy a(i), place      ->       phase_wait full[slot]                for i = ...
///     use place                            use place[slot]                        phase_wait empty[slot]
///                                          phase_arrive empty[slot]               async_copy a(i), place[slot]
///                                                                                 async_wait those before
///                                                                                 phase_arrive full[slot before]
///
/// Warps wait for data alone, not for each other, and issue no copies: one warpgroup multiplies while another one
/// computes. False, with nothing changed, where the copies do not follow from parameters and the loop's iterations,
/// where two slots do not fit, or where warpgroups do not multiply.
bool partition(ir::Func& func, const Target& target, ir::Op& loop, const LoopSchedule& schedule, int64_t wanted);

/// Whether that is expected to be faster: where two warpgroups or more share an SM with no other program, and compute
/// between products for long; a loop that only sums up keeps the tensor cores busy by itself.
bool pays_to_partition(ir::Func& func, const Target& target, const LoopSchedule& schedule, int64_t wanted);

/// Once all loops are partitioned: gives the threads of copy_warps, if there are any, fewer registers than the
/// program's, and lets two warpgroups take turns in loops with two products.
void balance_groups(ir::Func& func, const Target& target);

}  // namespace tegula
