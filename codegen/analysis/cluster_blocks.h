// What the blocks of a cluster, which run a program together, do alike and what each does for itself.
#pragma once

#include "codegen/ir/ir.h"

namespace tegula {

/// Whether each block works on parts of tiles of its own, as the pass divide_blocks arranges it.
bool is_divided(const ir::Func& func);

/// Whether all blocks have the same number there: it follows by pure ops and loops from parameters and the program's
/// indices, and not from the number of a block.
bool same_in_blocks(const ir::Value* scalar);
/// Likewise for how often and whether the op runs.
bool runs_alike_in_blocks(const ir::Op& op);

/// Whether a thread of another block may wait for the op, or it for one, so that all threads of the cluster must come
/// to it: barriers, exchanges, and atomic operations whose results all blocks want.
bool meets_other_blocks(const ir::Op& op, const std::unordered_map<const ir::Value*, int>& uses);

}  // namespace tegula
