// Which memory a pointer may reach.
#pragma once

#include "codegen/ir/ir.h"

namespace tegula {

/// The parameter that a pointer, scalar or tile, is computed from; null if that is not one single parameter. Pointers
/// of different parameters are taken not to overlap.
const ir::Value* pointer_base(const ir::Value* pointer);

/// Whether what `pointer` reaches is none of `written`, bases of pointers.
bool apart(const ir::Value* pointer, const std::vector<const ir::Value*>& written);

/// Whether the op, regions included, orders memory other than by what loads follow from: barriers, volatile accesses,
/// atomics that are not relaxed. Otherwise `written` receives the bases of what it writes (null: unknown).
bool orders_memory(const ir::Op& op, std::vector<const ir::Value*>& written);
/// Likewise of a block.
bool orders_memory(const ir::Block& block, std::vector<const ir::Value*>& written);

/// The bases of what the function writes anywhere; null for what is not known.
std::vector<const ir::Value*> written_by(const ir::Func& func);
/// Whether what is ordered before the loop runs, acquired from other programs for one, may be what it reads.
bool follows_order(const ir::Op& loop);

}  // namespace tegula
