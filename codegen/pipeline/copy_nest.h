// The region of copy_warps: the loops that copy, computed anew from the function's parameters.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "codegen/ir/builder.h"
#include "codegen/pipeline/loop_values.h"

namespace tegula {

/// The slot that is next and the number modulo 2 of its barriers' phase, carried by loops.
struct Turn {
  ir::Value *slot, *phase;
};
/// Lets the loops, of which each holds the next one, carry a turn; the innermost one moves it on. `zero` is 0 before
/// them.
Turn carry_turn(const std::vector<ir::Op*>& nest, ir::Value* zero, int64_t slots);
/// Lets a loop go on with the turn of another one, which stands before it in its block.
Turn go_on_with_turn(const Turn& before, ir::Op& loop, int64_t slots);

/// Copies of a loop that go into slots of one number at a time. `full`: barriers, one a slot, that are passed once they
/// are over; `empty`: once the program has read them.
struct Fill {
  std::vector<ir::Op*> copies;  ///< async_copy or bulk_copy
  ir::Value *full, *empty;
  bool multicast = false;  ///< blocks of a cluster copy some of it for each other
};

/// Writes the region.
class CopyNest {
 public:
  static constexpr int kWarps = 4;  ///< registers change hands among four at least

  explicit CopyNest(ir::Func& func) : func_(func) {}

  /// Adds the loop that copies what `nest`'s last loop does, in loops as those of the nest around it, of which each
  /// holds the next one. False, with nothing changed: the copies cannot be computed there. Bulk copies are issued by
  /// one thread, async_copies by all threads, for a nest of one loop; all loops have the one kind or all the other one.
  /// `before`: a loop that was added, whose slots this one goes on to fill; null: its slots are its own.
  bool add(const std::vector<ir::Op*>& nest, const std::vector<Fill>& fills, int64_t slots, const ir::Op* before);

  /// Adds copies to a loop of the nest of one that was added, `nest`'s last one, ahead of the loops within. One thread
  /// issues them. False as above.
  bool add_ahead(const std::vector<ir::Op*>& nest, const Fill& fill, int64_t slots);

  /// At the end waits until the slots that a loop was added for, the last one to fill them, are empty again.
  void wait_for_readers(const ir::Op& loop, const std::vector<Fill>& fills, int64_t slots);

  /// Null before a loop was added.
  ir::Op* copy_warps() const { return copy_warps_; }

 private:
  // Copies under way: their token, the barrier that is to know when they are over, and whether there are any.
  struct Issued {
    ir::Value *token, *full, *exists;
  };
  // A loop of the program, and the one that copies for it; none for the function's body.
  struct Level {
    ir::Op *loop, *copying;
    ir::Builder build;  // before the next level's loop
  };
  // What the copying loop yields in this place is what stands for `next`.
  struct Pending {
    size_t level, operand;
    const ir::Value* next;
  };

  bool can_compute(const std::vector<ir::Op*>& nest, const std::vector<Fill>& fills) const;
  void forget_from(const ir::Op& op);
  void issue_in_nest(const std::vector<ir::Op*>& nest, const std::vector<Fill>& fills, int64_t slots,
                     const ir::Op* before);
  bool can_follow(const ir::Value* v, const std::vector<ir::Op*>& nest, std::set<const ir::Value*>& seen) const;
  void open(const std::vector<ir::Op*>& nest, bool one_thread);
  void open_loop(ir::Op& loop);
  void close();
  void issue_by_threads(const std::vector<Fill>& fills, const Turn& turn);
  Issued issue(const Fill& fill, const Turn& turn, const Issued& before);
  void issue_in_bulk(const std::vector<Fill>& fills, const Turn& turn);
  void give_up();

  ir::Value* follow(const ir::Value* v);
  ir::Value* follow_carried(const ir::Value* v, size_t level);
  size_t level_of(const ir::Value* v) const;
  LayoutRef spread(const LayoutRef& layout);

  ir::Func& func_;
  ir::Op* copy_warps_ = nullptr;
  std::map<const ir::Op*, ir::Op*> copying_;  // for loops of the program
  std::map<const ir::Op*, Turn> turns_;       // of the loops that copy for these
  std::vector<Level> levels_;                 // of the nest at hand, the function's body first
  std::vector<Pending> pending_;
  ir::ValueMap known_;
  std::map<LayoutRef, LayoutRef> layouts_;
  bool exchanges_ = false;  // threads of copy_warps would have to
};

}  // namespace tegula
