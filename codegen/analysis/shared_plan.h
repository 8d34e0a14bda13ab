// Where ops have their room in shared memory.
#pragma once

#include <unordered_map>

#include "codegen/ir/ir.h"

namespace tegula {

/// What an asynchronous copy of a thread moves at least; fewer bytes are copied at once.
inline constexpr int kLeastCopyBytes = 4;

/// Bytes of one place in shared memory for a tile of this type.
int64_t place_bytes(const ir::Type& type);

/// Bytes of shared memory that lowering `op` needs for exchanging data between warps; 0 for most ops.
int64_t scratch_bytes(const ir::Op& op, int num_warps);

/// The shared_alloc that a place belongs to.
const ir::Op* alloc_of(const ir::Value* place);

/// Where ops have their room in shared memory: an op that needs scratch, and a shared_alloc from there to its last use,
/// or to the waits for all copies into it and for all products that read it that follow in its block. Ops get areas of
/// their own while these are small, so that most need no second barrier; scratch that is used while places are lies
/// elsewhere.
struct SharedPlan {
  int64_t bytes = 0;
  std::unordered_map<const ir::Op*, int64_t> offset, size;
};

SharedPlan plan_shared(const ir::Func& func);

}  // namespace tegula
