// Two groups of warps that run a program: each takes every other iteration of its loop over tiles.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/ir/ir.h"
#include "codegen/pipeline/copy_nest.h"

namespace tegula {

/// The reason why two groups of warps cannot take the iterations of the outermost loop of `nest` in turns, whose inner
/// loop is to be divided between the program and copy_warps; empty if they can. Only the outer loop may write to
/// memory, its iterations must be independent, and the inner loop must have the same number of iterations in each of
/// them.
std::string why_not_in_turns(const ir::Func& func, const std::vector<ir::Op*>& nest);

/// The bytes of shared memory that each of the two groups needs for itself, outside of its turn to store.
int64_t bytes_of_each_group(const std::vector<ir::Op*>& nest);

/// Lets two groups of warps run the program, which is divided: copy_warps fill the slots for all iterations of the
/// outer loop, and `turn` is the innermost loop's. Each group goes through the slots of its own iterations:
///
///   for tile = first, end, step       group 0: tile = first, first + 2 step, ..      group 1: tile = first + step, ..
///     for k = ..                        turn_wait                                      ..
///       use place[slot]         ->      for k = .. use place[slot]                     turn_wait
///     store                             turn_pass                                      for k = .. use place[slot]
///                                       store (in turns, too)                          turn_pass
///                                       slot += slots of the other group's tile        ..
///
/// So what one of them computes and stores is under the products of the other one.
void take_tiles_in_turns(ir::Func& func, ir::Op& copy_warps, const std::vector<ir::Op*>& nest, const Turn& turn,
                         int64_t slots);

}  // namespace tegula
