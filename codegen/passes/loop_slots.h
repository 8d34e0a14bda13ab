// Places in shared memory that the iterations of a loop take in turn.
#pragma once

#include "codegen/ir/builder.h"

namespace tegula {

/// Makes the For loop carry one more value; the caller appends what the body yields for it. Returns the body's.
ir::Value* carry(ir::Op& loop, ir::Value* init);

/// Room for `slots` tiles of the type of `tile`, whose elements along the axis `contiguous` are to lie side by side
/// (-1: as those that are put there do).
ir::Value* alloc_place(ir::Builder& builder, const ir::Type& tile, int64_t slots, int contiguous = -1);
/// The place number `index` of a shared_alloc.
ir::Value* slot_of(ir::Builder& builder, ir::Value* buffer, ir::Value* index);
/// A carried number that is `first` in the first iteration and moves on, round and round, by one of `slots` in each.
ir::Value* rotate(ir::Op& loop, int64_t first, int64_t slots);

}  // namespace tegula
