// Divides pipelined loops between the program's warps, which multiply, and warps that do nothing but copy.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "codegen/analysis/shared_plan.h"
#include "codegen/ir/ir.h"
#include "codegen/pipeline/copy_nest.h"
#include "codegen/pipeline/schedule.h"
#include "codegen/target/target.h"
#include "runtime/kernel_image.h"

namespace tegula {

/// Whether a loop was divided: the number of slots of each place, or 0 and the reason.
struct Division {
  int64_t slots;
  std::string why_not;
};

/// Lets warps of their own (copy_warps) issue loops' copies. Each slot has two barriers: it is full when the copies
/// into it are over, and empty when all warps have read it.
///
///   for i = ...                          for i = ...                          copy_warps:
///     async_copy a(i), place      ->       phase_wait full[slot]                for i = ...
///     use place                            use place[slot]                        phase_wait empty[slot]
///                                          phase_arrive empty[slot]               phase_arrive full[slot] {bytes}
///                                                                                 bulk_copy a, place[slot], full[slot]
///
/// One thread issues bulk copies. Where there are async_copies, the threads of those warps copy, and arrive when their
/// copies are over. Warps wait for data alone, not for each other, and issue no copies: one warpgroup multiplies while
/// another one computes. The sums of a loop that does nothing but sum up stay in flight; then a slot is empty one
/// iteration later. A loop in another one, as in a persistent program, goes on copying for the next iteration of that
/// one meanwhile; only bulk copies do.
///
/// Blocks of a cluster that want the same tile copy parts of it for each other (multicast). Such a slot is empty when
/// the warps of all blocks have read it, which arrive at the barrier of each; it is full when all bytes of the parts
/// have come. All blocks meet before the first copy; at the end each waits until all have arrived at its barriers.
class Partition {
 public:
  Partition(ir::Func& func, const Target& target, ScratchSizes& sizes)
      : func_(func), target_(target), sizes_(sizes), nest_(func) {}

  /// Divides the loop, with 2 to `wanted` slots of each place. Not, with nothing changed, where the copies do not
  /// follow from parameters and the loops' iterations, where two slots do not fit, or where warpgroups do not multiply;
  /// or where it does not pay, if `option` (warp_specialize) is 0. Of 3, or if the loop around it asks for that, two
  /// groups of warps take its tiles in turns (take_tiles_in_turns), or it is told why not. A loop after a divided one
  /// whose copies fill such places, too, goes on with its slots: copies for it begin while the program is at the one
  /// before. What the loop transposes has slots and barriers of its own then, so that warps wait for it alone.
  Division divide(ir::Op& loop, const LoopSchedule& schedule, int64_t wanted, int64_t option);

  /// What divide() will do with the function's first loop that copies, if it copies in bulk.
  struct Expected {
    int64_t slots;  ///< of each place; 0: it is not divided
    bool is_alone;  ///< a multiprocessor has room for one program then
  };
  /// Changes nothing.
  Expected expect(ir::Op& loop, const LoopSchedule& schedule, int64_t wanted);

  /// Once all loops are divided: has the copying thread bring what loops around them load for products, too, as the
  /// rows of Q of persistent attention; gives the threads of copy_warps, if there are any, fewer registers than the
  /// program's; and lets groups of warps take turns: at the tiles of a loop around, or in loops with two products.
  /// Tells what it did.
  std::vector<Transfer> balance();

 private:
  // Registers a thread, multiples of 8. The threads of the program and of copy_warps together have what the block is
  // launched with.
  struct Registers {
    int64_t at_start, program, copying;
  };
  // A place that shared_transpose fills for a product, with barriers: full, when all warps have written their part,
  // and empty, when the product is over in all of them. It has the slots of its loop's fills, and their turn.
  struct Transposed {
    ir::Value *place, *full, *empty;
  };
  // A divided loop, whose slots later loops of its block may continue to use.
  struct Divided {
    std::vector<ir::Op*> nest;
    std::vector<Fill> fills;                      // their barriers
    std::vector<std::vector<ir::Value*>> places;  // of each
    std::set<const ir::Op*> stored;               // what the program stored ahead of it
    int64_t slots;
    Turn turn;
    std::vector<Transposed> transposed;
    bool in_turns = false;  // two groups of warps take the tiles
  };

  std::string why_not_divided(const LoopSchedule& schedule, const std::vector<ir::Op*>& nest) const;
  std::vector<Fill> fills_of(ir::Op& loop, const LoopSchedule& schedule) const;
  int64_t slots_for(const LoopSchedule& schedule, int64_t wanted, const Target& room) const;
  bool pays(ir::Op& loop, const LoopSchedule& schedule, int64_t slots, bool bulk) const;
  bool can_take_turns(const std::vector<ir::Op*>& nest, bool bulk);
  int64_t make_room(const std::vector<ir::Op*>& nest, const LoopSchedule& schedule, std::vector<Fill>& fills,
                    int64_t wanted, bool bulk, bool in_turns);
  bool is_alone(const LoopSchedule& schedule, int64_t slots) const;
  int64_t programs_of(const LoopSchedule& schedule, int64_t slots) const;
  void alloc_barriers(std::vector<Fill>& fills, int64_t slots, bool bulk);
  int64_t go_on(const std::vector<ir::Op*>& nest, const LoopSchedule& schedule, std::vector<Fill>& fills);
  Turn begin_fills(const Divided& divided, bool bulk);
  void read_fills(ir::Op& loop, const LoopSchedule& schedule, const std::vector<Fill>& fills, int64_t slots,
                  const Turn& turn);
  void order_transposes(Divided& divided, ir::Op& loop);
  bool give_slots(ir::Op& transpose, Divided& divided, std::vector<Transposed>& left);
  void feed_loops_around(const std::vector<ir::Op*>& nest, std::vector<Transfer>& told);
  bool copy_ahead(const std::vector<ir::Op*>& nest, ir::Op& store);
  int64_t slots_ahead(ir::Op& alloc) const;
  Registers share_registers(int64_t copying, int64_t groups) const;
  Registers balanced_registers(bool bulk) const;
  bool copies_pass_others(const ir::Op& nest) const;

  ir::Func& func_;
  const Target& target_;
  ScratchSizes& sizes_;
  CopyNest nest_;
  std::vector<Divided> divided_;
  std::vector<Transfer> told_;
};

}  // namespace tegula
