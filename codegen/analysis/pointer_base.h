// Which memory a pointer may reach.
#pragma once

#include "codegen/ir/ir.h"

namespace tegula {

/// The parameter that a pointer, scalar or tile, is computed from; null if that is not one single parameter. Pointers
/// of different parameters are taken not to overlap.
const ir::Value* pointer_base(const ir::Value* pointer);

/// Whether the memory that `pointer` may reach overlaps none of `written`, bases of pointers.
bool no_alias(const ir::Value* pointer, const std::vector<const ir::Value*>& written);

/// Whether the op, regions included, orders memory beyond the dependences of loads: barriers, volatile accesses,
/// atomics that are not relaxed. If not, `written` receives the bases of what it writes (null: unknown).
bool orders_memory(const ir::Op& op, std::vector<const ir::Value*>& written);
/// The same for all ops of a block.
bool orders_memory(const ir::Block& block, std::vector<const ir::Value*>& written);

/// The bases of everything that the function writes; null stands for an unknown one.
std::vector<const ir::Value*> written_by(const ir::Func& func);
/// Whether the loop may read what an operation before it orders, for example what it has acquired from other programs.
bool follows_order(const ir::Op& loop);

}  // namespace tegula
