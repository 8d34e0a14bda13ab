// Where ops keep their scratch in shared memory, and which barriers that takes.
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "codegen/ir/ir.h"

namespace tegula {

/// What an asynchronous copy of a thread moves at least; fewer bytes are copied at once.
inline constexpr int kLeastCopyBytes = 4;

/// Bytes of one place in shared memory for a tile of this type.
int64_t place_bytes(const ir::Type& type);

/// Bytes of shared memory that lowering `op` needs for exchanging data between warps; 0 for most ops.
int64_t scratch_bytes(const ir::Op& op, int num_warps);

/// An op that needs scratch writes it, waits at a barrier, then reads it. Ops get areas of their own while these are
/// small, so that most need no second barrier; `barrier_before` holds the ops whose area may still be read by a slower
/// thread when they are reached (found by walking the program, loops until nothing changes).
///
/// A shared_alloc has its room from there to its last use, or to the waits for all copies into it and for all dots that
/// read it that follow in its block; scratch that is used meanwhile lies elsewhere. A shared_store into its only place
/// may need a barrier before it too; where places are taken in turn, who made them so sees to that.
struct SharedPlan {
  int64_t bytes = 0;
  std::unordered_map<const ir::Op*, int64_t> offset;
  std::unordered_set<const ir::Op*> barrier_before;
};

SharedPlan plan_shared(const ir::Func& func);

}  // namespace tegula
