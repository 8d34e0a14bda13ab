// Where ops have their room in shared memory.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "codegen/ir/ir.h"

namespace tegula {

/// What an asynchronous copy of a thread moves at least; fewer bytes are copied at once.
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

/// Bytes of an element where another block of the cluster stores it, one by one.
int64_t bytes_in_other_block(const ir::Type& type);

/// How many areas an op takes in turn that exchanges data between the blocks of a cluster: two in a loop.
int exchange_slots(const ir::Op& op);

/// The shared_alloc that a place belongs to.
const ir::Op* alloc_of(const ir::Value* place);

/// Where ops have their room in shared memory: an op that needs scratch, and a shared_alloc. A shared_alloc has it from
/// there to its last use and to the waits that complete the copies into it and the products that read it; the whole of
/// a loop in which uses or waits follow to which it is from outside. Rooms that are not needed at a time share memory:
/// each takes the first gap that is large enough. Scratch lies behind the places in use, in areas of its own while
/// these are small, so that most ops need no second barrier. Where other blocks of a cluster write to it, it is nobody
/// else's from the program's begin to its end. Where groups of warps run the program (groups_of), what copy_warps use
/// comes first, and what is used in a group's turn to store; it is common to all groups. What lies behind it each group
/// has of its own.
struct SharedPlan {
  int64_t bytes = 0;         ///< for all groups
  int64_t common_bytes = 0;  ///< where there are several groups; offsets from here on are those of the first one
  int64_t group_bytes = 0;   ///< from what one group has of its own to that of the next one
  std::unordered_map<const ir::Op*, int64_t> offset, size;
  std::unordered_set<const ir::Op*> across;  ///< ops that exchange data between the blocks of a cluster
};

SharedPlan plan_shared(const ir::Func& func);

/// What a function needs, to ask while slots are tried.
class SharedNeeds {
 public:
  /// The function must outlive it, and only the slots of its shared_allocs may change.
  SharedNeeds(const ir::Func& func, ScratchSizes& sizes);
  ~SharedNeeds();
  /// What plan_shared() says, with the slots that there are now.
  int64_t bytes();

 private:
  struct Found;
  friend SharedPlan plan_shared(const ir::Func& func);
  std::unique_ptr<Found> found_;
};

/// What the shared_allocs of a function need, laid out or not, with nothing for scratch.
int64_t bytes_of_places(const ir::Func& func);

}  // namespace tegula
