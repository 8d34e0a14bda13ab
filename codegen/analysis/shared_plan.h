// Allocation of shared memory to ops.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "codegen/ir/ir.h"

namespace tegula {

/// The fewest bytes that an asynchronous copy of a thread moves; smaller elements are copied synchronously.
inline constexpr int kLeastCopyBytes = 4;

/// Bytes of one place in shared memory for a tile of this type.
int64_t place_bytes(const ir::Type& type);

/// Bytes of shared memory that lowering `op` needs for exchanging data between warps or blocks; 0 for most ops.
int64_t scratch_bytes(const ir::Op& op);

/// scratch_bytes() for who plans a function again and again while it changes: what conversions between layouts need is
/// found once for all those of the same layouts.
class ScratchSizes {
 public:
  int64_t bytes(const ir::Op& op);

 private:
  // All that the scratch of a conversion follows from. The layouts are kept, so that no other ones are there instead.
  using Conversion = std::tuple<ir::Opcode, LayoutRef, LayoutRef, int, ir::Attrs>;
  std::map<Conversion, int64_t> known_;
};

/// Bytes that an element takes where another block of the cluster stores it, each element by itself.
int64_t bytes_in_other_block(const ir::Type& type);

/// The number of scratch areas between which an op alternates that exchanges data between the blocks of a cluster: two
/// in a loop, otherwise one.
int exchange_slots(const ir::Op& op);

/// The shared_alloc that a place belongs to.
const ir::Op* alloc_of(const ir::Value* place);

/// Where in shared memory each shared_alloc and each op with scratch has its memory. A shared_alloc is live from its
/// position to its last use and to the waits that complete the copies into it and the products that read it; if a loop
/// that it lies outside of uses it or waits for it, throughout that loop. Allocations that are not live at the same
/// time share memory (first fit). Scratch lies after the live allocations, in separate areas while these are small, so
/// that most ops need no second barrier. Scratch that other blocks of a cluster write to is reserved throughout the
/// program. If several groups of warps run the program (groups_of), the memory of copy_warps and of what a group does
/// in its turn to store comes first and is common to all groups; each group has its own copy of what lies after it.
struct SharedPlan {
  int64_t bytes = 0;         ///< for all groups
  int64_t common_bytes = 0;  ///< where there are several groups; offsets from here on are those of the first one
  int64_t group_bytes = 0;   ///< from what one group has of its own to that of the next one
  std::unordered_map<const ir::Op*, int64_t> offset, size;
  std::unordered_set<const ir::Op*> across;  ///< ops that exchange data between the blocks of a cluster
};

SharedPlan plan_shared(const ir::Func& func);

/// The shared memory that a function needs, for callers that try different numbers of slots.
class SharedNeeds {
 public:
  /// The function must outlive it, and only the slots of its shared_allocs may change.
  SharedNeeds(const ir::Func& func, ScratchSizes& sizes);
  ~SharedNeeds();
  /// The bytes that plan_shared() would allocate with the current slots.
  int64_t bytes();

 private:
  struct Found;
  friend SharedPlan plan_shared(const ir::Func& func);
  std::unique_ptr<Found> found_;
};

/// The bytes of all shared_allocs of a function, laid out or not, without scratch.
int64_t bytes_of_places(const ir::Func& func);

}  // namespace tegula
