// Builds the region of copy_warps: loops that issue copies, recomputed from the function's parameters.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "codegen/ir/builder.h"
#include "codegen/pipeline/loop_values.h"

namespace tegula {

/// The next slot and the parity of its barriers' phase, both carried by loops.
struct Turn {
  ir::Value *slot, *phase;
};
/// Makes the loops of the nest, outermost first, carry a turn, which the innermost loop advances. `first`: constants,
/// defined before them, of slot 0 and of the phase to begin with.
Turn carry_turn(const std::vector<ir::Op*>& nest, const Turn& first, int64_t slots);
/// Makes a loop continue with the turn of a loop before it in its block.
Turn go_on_with_turn(const Turn& before, ir::Op& loop, int64_t slots);

/// Copies of a loop into slots that advance together. The barriers `full`, one a slot, complete when the copies have
/// arrived, and the barriers `empty` when the program has read them.
struct Fill {
  std::vector<ir::Op*> copies;  ///< async_copy or bulk_copy
  ir::Value *full, *empty;
  bool multicast = false;       ///< blocks of a cluster copy some of it for each other
  bool empty_at_first = false;  ///< nobody arrives at `empty` before the slots have been full once
};

/// Writes the region.
class CopyNest {
 public:
  static constexpr int kWarps = 4;  ///< registers change hands among four at least

  explicit CopyNest(ir::Func& func) : func_(func) {}

  /// Whether copy_warps can compute the operands of the copies and of the enclosing loops.
  bool can_compute(const std::vector<ir::Op*>& nest, const std::vector<Fill>& fills) const;

  /// Adds loops that issue the copies of the last loop of `nest`, with the structure of the nest (outermost first).
  /// False, with nothing changed, if the copies cannot be computed there. One thread issues bulk copies; all threads
  /// issue async_copies, for a nest of one loop. All loops must have the same kind of copies. `before`: a loop added
  /// earlier whose slots this one continues to fill; null if it has slots of its own.
  bool add(const std::vector<ir::Op*>& nest, const std::vector<Fill>& fills, int64_t slots, const ir::Op* before);

  /// Adds copies, issued by one thread, to the last loop of `nest`, which belongs to a nest that was added, ahead of
  /// its inner loops. False as above.
  bool add_ahead(const std::vector<ir::Op*>& nest, const Fill& fill, int64_t slots);

  /// Appends a wait until all slots that the loop was added for are empty again; the loop must be the last one that
  /// fills them.
  void wait_for_readers(const ir::Op& loop, const std::vector<Fill>& fills, int64_t slots);

  /// The op; null before a loop was added.
  ir::Op* copy_warps() const { return copy_warps_; }

 private:
  // Copies under way: their token, the barrier to be told when they complete, and whether there are any.
  struct Issued {
    ir::Value *token, *full, *exists;
  };
  // A loop of the program and the corresponding loop of copy_warps; null for the function's body.
  struct Level {
    ir::Op *loop, *copying;
    ir::Builder build;  // before the next level's loop
  };
  // A value that the copying loop is yet to yield at this position, corresponding to `next`.
  struct Pending {
    size_t level, operand;
    const ir::Value* next;
  };

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
