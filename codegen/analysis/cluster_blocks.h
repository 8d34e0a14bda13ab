// Which work of a program all blocks of a cluster do alike, and which is divided between them.
#pragma once

#include "codegen/ir/ir.h"

namespace tegula {

/// Whether each block works on its own part of the tiles, as the pass divide_blocks arranges it.
bool is_divided(const ir::Func& func);

/// Whether the scalar has the same value in all blocks: it follows by pure ops and loops from parameters and program
/// indices, and not from block_id.
bool same_in_blocks(const ir::Value* scalar);
/// Whether the op runs equally often in all blocks.
bool runs_alike_in_blocks(const ir::Op& op);

/// Whether the op waits for threads of other blocks, or they for it, so that all threads of the cluster must reach it:
/// barriers, exchanges, and atomic operations and loads of owners whose results all blocks use.
bool meets_other_blocks(const ir::Op& op, const std::unordered_map<const ir::Value*, int>& uses);

}  // namespace tegula
