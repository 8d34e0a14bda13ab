// Software pipelining: ops of a loop move between iterations, so that loads, copies and products run beside each other.
//
// For each loop with num_stages beyond 1: `schedule` says what may run ahead, `fit` how many iterations ahead shared
// memory and registers allow, `expand` writes it down. Barriers come later (insert_barriers).
//
// Copies: one barrier an iteration suffices, behind the wait: there all threads are done with the slot that was read in
// the iteration before, which is the one that is written next. Where the loop does nothing but sum up one product that
// runs beside the program, its sums stay in flight until the next one has begun; then a slot may be read one iteration
// longer, and there is one slot more.
//
// Where such a loop stands in another one, as in a persistent program, the last iterations copy what the next one of
// the loop around begins with (OuterIterations): copies are under way during its epilogue, and slots and tokens go from
// one to the next. The inner loop then has as many iterations as copies run ahead at least, the last of them on zeros.
//
// Where the program's warps would wait for each other for long, warps of their own issue a loop's copies (`partition`).
//
// Afterwards the loop's number of stages is 1. Runs behind layouts, since then shared memory and registers are known.
#include <algorithm>
#include <optional>
#include <unordered_set>

#include "codegen/analysis/axis_info.h"
#include "codegen/ir/flow.h"
#include "codegen/passes/passes.h"
#include "codegen/pipeline/expand.h"
#include "codegen/pipeline/fit.h"
#include "codegen/pipeline/loop_stages.h"
#include "codegen/pipeline/partition.h"
#include "codegen/pipeline/schedule.h"

namespace tegula {

using namespace ir;

namespace {

class LoopPipeliner {
 public:
  LoopPipeliner(Op& loop, Func& func, const PassContext& context, bool may_join)
      : loop_(loop), func_(func), context_(context), may_join_(may_join), stages_(stages_of(loop, func)) {}

  void run() {
    LoopSchedule schedule = schedule_of(loop_);
    never_negative_ = AxisAnalysis(func_).info(ForLoop(loop_).induction()).non_negative;
    const bool all = loop_.has(attr::num_stages);
    if (const int ahead = fit_loads(func_, context_.target, loop_, schedule.loads, stages_ - 1, all); ahead > 0)
      expand_loads(loop_, schedule.loads, never_negative_, ahead);
    partitioned_ = wants_copy_warps(schedule) && partition(func_, context_.target, loop_, schedule, stages_);
    if (!schedule.copies.empty() && !partitioned_) expand(schedule);
    if (!schedule.stores.empty() && schedule.product && fit_slots(func_, context_.target, schedule.stores, 2) == 2)
      expand_stores(loop_, schedule.stores, *schedule.product);
  }

  bool partitioned() const { return partitioned_; }

 private:
  bool wants_copy_warps(const LoopSchedule& schedule) {
    if (schedule.copies.empty()) return false;
    if (const int option = func_.warp_specialize()) return option == 2;
    return pays_to_partition(func_, context_.target, schedule, stages_);
  }

  // Takes copies out of the body, with what commits them and waits for them.
  void detach(const std::vector<Op*>& copies) {
    for (const Op* copy : copies) {
      auto& ops = loop_.regions[0]->ops;
      auto at = std::find_if(ops.begin(), ops.end(), [&](auto& op) { return op.get() == copy; });
      detached_.push_back(std::move(*at));
      auto commit = ops.erase(at);
      auto wait = std::next(commit);
      ops.erase(commit, std::next(wait));
    }
  }

  void expand(const LoopSchedule& schedule) {
    const int64_t most = fit_slots(func_, context_.target, schedule.copies, stages_ + 1);
    if (most < 2) return;
    const bool sums_up = schedule.sums_up && schedule.stores.empty() && most >= 3;
    const int64_t extra = sums_up ? 2 : 1;
    const int ahead = int(std::min(stages_ - 1, most - extra));
    LoopSources sources(loop_);
    std::unique_ptr<OuterIterations> outer;
    if (may_join_) outer = OuterIterations::of(loop_, schedule.copies, sources, ahead);
    if (outer && !fits_around(func_, context_.target, schedule.copies, ahead + extra, outer->loop())) outer.reset();
    detach(schedule.copies);
    expand_copies(loop_, {schedule.copies, ahead, ahead + extra, never_negative_, context_.completion, outer.get(),
                          schedule.product});
    if (!sums_up) return;
    if (outer) begin_with_product(loop_, *schedule.product);
    keep_in_flight(loop_, *schedule.product);
  }

  Op& loop_;
  Func& func_;
  const PassContext& context_;
  const bool may_join_;
  const int64_t stages_;
  bool never_negative_ = false, partitioned_ = false;
  std::vector<std::unique_ptr<Op>> detached_;
};

}  // namespace

void passes::pipeline(Func& func, PassContext& context) {
  std::vector<Op*> loops;
  std::unordered_set<const Op*> unpipelined;  // by the user's word
  walk(func.body, [&](Op& op) {
    if (op.opcode != Opcode::For) return;
    if (stages_of(op, func) > 1) loops.push_back(&op);
    if (op.has(attr::num_stages) && op.get(attr::num_stages) <= 1) unpipelined.insert(&op);
  });
  bool partitioned = false;
  for (Op* loop : loops) {
    LoopPipeliner pipeliner(*loop, func, context, !unpipelined.contains(loop->parent->parent));
    pipeliner.run();
    partitioned |= pipeliner.partitioned();
    loop->set(attr::num_stages, 1);
  }
  if (partitioned) balance_groups(func, context.target);
  if (!loops.empty()) canonicalize(func, context);
}

}  // namespace tegula
