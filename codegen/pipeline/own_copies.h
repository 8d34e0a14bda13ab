// Copies of a loop's loads into shared memory, where each thread has a part of its own.
#pragma once

#include <vector>

#include "codegen/ir/ir.h"
#include "codegen/target/target.h"

namespace tegula {

/// A place with a part for each thread of a block, as large as what it holds of the tile.
ir::Type place_of_threads(const ir::Type& tile, int num_warps);

/// Whether the loop's loads may run that many iterations ahead as copies: each thread copies what it would load, 16
/// bytes at a time, and the slots leave room for what the loop takes from outside (keep_in_shared), and for as many
/// programs as registers do.
bool may_be_own_copies(const ir::Func& func, const Target& target, const ir::Op& loop,
                       const std::vector<ir::Op*>& loads, int64_t ahead);

/// Makes a copy, its commit and wait, and a read of each load of the loop.
void make_own_copies(ir::Op& loop, const ir::Func& func, const std::vector<ir::Op*>& loads);

}  // namespace tegula
