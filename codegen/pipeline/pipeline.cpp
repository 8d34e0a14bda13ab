// Software pipelining: ops of a loop move between iterations, so that loads, copies and products run beside each other.
//
// For each loop with num_stages beyond 1: `schedule` says what may run ahead, `fit` how many iterations ahead shared
// memory and registers allow, `expand` writes it down. Barriers come later (insert_barriers). Loops that use shared
// memory at a time share it: two slots are left for each place of those that come later.
//
// Copies: one barrier an iteration suffices, after the wait: there all threads are done with the slot that was read in
// the iteration before, which is the one that is written next. Where the loop does nothing but sum up one product that
// runs beside the program, its sums stay in flight until the next one has begun; then a slot may be read one iteration
// longer, and there is one slot more. If fewer programs would have room so, there is not: copies begin when the product
// of the iteration before is over, after a barrier of their own.
//
// Where such a loop stands in another one, as in a persistent program, the last iterations copy what the next one of
// the loop around begins with (OuterIterations): copies are under way during its epilogue, and slots and tokens go from
// one to the next. The inner loop then has as many iterations as copies run ahead at least, the last of them on zeros.
//
// Where the program's warps would wait for each other for long, warps of their own issue a loop's copies (`partition`).
//
// Afterwards the loop's number of stages is 1. Runs after layout assignment, since then shared memory and registers are
// known.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/cluster_blocks.h"
#include "codegen/analysis/equal_elements.h"
#include "codegen/analysis/integer_bounds.h"
#include "codegen/analysis/occupancy.h"
#include "codegen/analysis/shared_plan.h"
#include "codegen/ir/flow.h"
#include "codegen/passes/passes.h"
#include "codegen/pipeline/bulk_copies.h"
#include "codegen/pipeline/copied_loads.h"
#include "codegen/pipeline/edit.h"
#include "codegen/pipeline/expand.h"
#include "codegen/pipeline/fit.h"
#include "codegen/pipeline/late_reads.h"
#include "codegen/pipeline/loop_stages.h"
#include "codegen/pipeline/own_copies.h"
#include "codegen/pipeline/partition.h"
#include "codegen/pipeline/schedule.h"
#include "codegen/pipeline/waves.h"

namespace tegula {

using namespace ir;

namespace {

std::string no_copy_warps(const std::string& why) { return "no warps of their own copy: " + why; }

class LoopPipeliner {
 public:
  /// `later`: copies and stores of loops that are still to be pipelined. `never_negative`: the loop's number.
  LoopPipeliner(Op& loop, Func& func, PassContext& context, ScratchSizes& sizes, Partition& partition, bool may_join,
                bool never_negative, std::vector<Op*> later)
      : loop_(loop),
        func_(func),
        context_(context),
        sizes_(sizes),
        partition_(partition),
        may_join_(may_join),
        is_short_(is_short(loop)),
        asked_(is_short_ ? func.num_stages() : stages_of(loop, func)),
        stages_(asked_),
        later_(std::move(later)),
        never_negative_(never_negative) {}

  void run() {
    LoopSchedule schedule = schedule_of(loop_);
    if (is_short_) return run_short(schedule);
    const bool all = loop_.has(attr::num_stages);
    if (schedule.product) multiply_in_waves(loop_, *schedule.product);
    if (!schedule.indices.empty()) run_indices_ahead(schedule);
    if (all && copy_ahead(schedule)) schedule = schedule_of(loop_);
    const bool loads = !schedule.loads.empty();
    int ahead = run_loads_ahead(schedule, all);
    const bool copies = !schedule.copies.empty();
    Op* product = schedule.stores.empty() ? product_of_iteration(loop_) : nullptr;
    if (ahead > 0) expand_loads(loop_, schedule.loads, never_negative_, ahead, product);
    if (!schedule.product) schedule.stores.clear();
    if (copies)
      ahead = pipeline_copies(schedule);
    else if (loop_.get(attr::warp_specialize) >= 2)
      context_.transfers.push_back({loop_.loc, no_copy_warps("it copies nothing to shared memory"), ""});
    if (!schedule.stores.empty() && fit_slots(func_, sizes_, context_.target, {schedule.stores, later_}, 2) == 2)
      expand_stores(loop_, schedule.stores, *schedule.product);
    if ((copies || (loads && all)) && ahead + 1 < asked_) note_fewer_stages({loop_.loc, int(asked_), ahead + 1});
  }

 private:
  // The loads of a short loop run ahead if all of them can be copies, which take no registers; small ones do then, too.
  void run_short(LoopSchedule& schedule) {
    const auto small = std::stable_partition(schedule.loads.begin(), schedule.loads.end(),
                                             [](const Op* load) { return !is_small_load(*load); });
    std::vector<Op*> ahead(small, schedule.loads.end());
    schedule.loads.erase(small, schedule.loads.end());
    const int64_t programs = std::max<int64_t>(1, programs_by_registers(func_, context_.target, live_registers(func_)));
    if (schedule.loads.empty() || !schedule.indices.empty() || !copy_loads(schedule, schedule.loads, programs)) {
      context_.transfers.push_back({loop_.loc, "loads of the iteration itself, as the loop has four at most", ""});
      return;
    }
    if (!ahead.empty()) expand_loads(loop_, ahead, never_negative_, 1);
    pipeline_copies(schedule);
  }

  // Once for each loop of the text, however often it was inlined.
  void note_fewer_stages(const FewerStages& loop) {
    auto& all = context_.fewer_stages;
    if (std::find(all.begin(), all.end(), loop) == all.end()) all.push_back(loop);
  }

  // Where registers hold fewer iterations of loads than the user asks for, copies into shared memory run ahead in their
  // place, if there is room.
  bool copy_ahead(const LoopSchedule& schedule) {
    if (!schedule.copies.empty() || !schedule.indices.empty() || schedule.loads.empty() || has_product(loop_))
      return false;
    std::vector<Op*> loads = schedule.loads;
    const int64_t wanted = wanted_ahead(loads, true);
    if (fit_loads(func_, context_.target, loop_, loads, wanted, true) >= wanted) return false;
    std::vector<Op*> tiles = schedule.loads;
    std::erase_if(tiles, [](const Op* load) { return is_small_load(*load); });
    if (tiles.empty() || !may_be_own_copies(func_, context_.target, loop_, tiles, wanted)) return false;
    make_own_copies(loop_, func_, tiles);
    return true;
  }

  // Loads indices one iteration ahead of the loads that use them; leaves them in place if registers do not allow that.
  void run_indices_ahead(LoopSchedule& schedule) {
    const int ahead = fit_loads(func_, context_.target, loop_, schedule.indices, stages_, true);
    if (ahead > 0) expand_loads(loop_, schedule.indices, never_negative_, ahead);
    if (ahead > 1) stages_ = std::min<int64_t>(stages_, ahead);
    LoopSources sources(loop_, int(stages_ - 1));
    auto waits = [&](const Op* load) {
      return std::any_of(load->operands.begin(), load->operands.end(), [&](const Value* v) {
        return v && !v->type.is_place() && sources.of(v) == LoopSources::Source::Other;
      });
    };
    std::erase_if(schedule.loads, waits);
    std::erase_if(schedule.copies, waits);
  }

  // How many iterations ahead those of the loads are that stay in registers. Beside products they are copied to places
  // where registers do not hold them, or only those of the next iteration, from which operands are stored an iteration
  // ahead, or where they take more than a few and the loop does not say itself how many iterations are under way.
  int run_loads_ahead(LoopSchedule& schedule, bool all) {
    const std::vector<Op*> loads = schedule.loads;
    const int64_t wanted = wanted_ahead(loads, all);
    auto fit = [&] {
      return fit_loads(func_, context_.target, loop_, schedule.loads, wanted_ahead(schedule.loads, all), all);
    };
    int ahead = fit();
    if (loads.empty() || warp_specialize_of(loop_, func_) > 1 || !has_product(loop_)) return ahead;
    const int64_t needed = std::min<int64_t>(wanted, schedule.product && !schedule.stores.empty() ? 2 : 1);
    int64_t held = 0;  // bytes a thread
    for (const Op* load : schedule.loads) held += is_small_load(*load) ? 0 : ahead * register_bytes(*load);
    constexpr int64_t kFew = 64;
    std::vector<Op*> left = loads;
    if (ahead >= needed && (all || held <= kFew)) {
      std::erase_if(left, [&](Op* load) { return std::ranges::find(schedule.loads, load) != schedule.loads.end(); });
      leave_common(left, schedule.loads);
    }
    constexpr int64_t kPrograms = 2;
    if (left.empty() || !copy_loads(schedule, left, kPrograms)) return ahead;
    schedule.loads = loads;
    std::erase_if(schedule.loads, [&](Op* load) { return copied_loads_->replaced(load); });
    return fit();
  }

  // Removes loads that all programs have in common and that leave the registers to others, `held`: caches have these.
  // Where they are most of what a program reads, they are copied all the same.
  void leave_common(std::vector<Op*>& loads, std::vector<Op*> held) const {
    constexpr int64_t kMost = 2;  // times what a program alone reads; measured up to here
    auto bytes = [](const std::vector<Op*>& of) {
      int64_t sum = 0;
      for (const Op* load : of) sum += bytes_of(load);
      return sum;
    };
    std::vector<Op*> own = loads;
    erase_common(func_, own), erase_common(func_, held);
    if (bytes(loads) - bytes(own) <= kMost * bytes(held)) loads = std::move(own);
  }

  // Has these loads copied to places, if there is room; fewer programs than `most_programs` that could run at a time
  // must not be the price; where copies save a short loop's waits, a third of them may. Few slots do. Where not all
  // have room, the largest ones stay loads, unless the loop is short.
  bool copy_loads(LoopSchedule& schedule, std::vector<Op*> loads, int64_t most_programs) {
    Stores stores{schedule.copies, later_, true};
    stores.others.insert(stores.others.end(), schedule.stores.begin(), schedule.stores.end());
    constexpr int64_t kBarriers = 1024;
    auto programs = [&](int64_t slots) {
      const int64_t bytes =
          shared_bytes_with(func_, sizes_, {{stores.own, slots}, {schedule.stores, 2}, {later_, asked_}});
      return std::clamp<int64_t>(programs_by_room(func_, context_.target, bytes + kBarriers), 1, most_programs);
    };
    const int64_t before =
        programs(std::max<int64_t>(1, fit_slots(func_, sizes_, context_.target, stores, stages_ + 1)));
    const int64_t least = is_short_ ? before - before / 3 : before;
    const size_t all = loads.size();
    loads = CopiedLoads::copyable(func_, context_.target, loads);
    for (; !loads.empty() && (!is_short_ || loads.size() == all);
         loads.erase(std::ranges::max_element(loads, {}, bytes_of))) {
      copied_loads_.emplace(loop_, loads);
      const std::vector<Op*>& copies = copied_loads_->copies();
      stores.own = schedule.copies;
      stores.own.insert(stores.own.end(), copies.begin(), copies.end());
      int64_t slots = fit_slots(func_, sizes_, context_.target, stores, stages_);
      if (const auto trips = most_trips(loop_)) slots = std::min(slots, std::max<int64_t>(2, *trips));
      while (slots > 1 && programs(slots) < least) --slots;
      if (slots >= 2) {
        copied_loads_->keep();
        few_slots_ = slots < stages_;
        stages_ = slots;
        schedule.copies = std::move(stores.own);
        return true;
      }
      copied_loads_->undo();
      copied_loads_.reset();
    }
    return false;
  }

  static int64_t bytes_of(const Op* load) {
    return load->result()->type.num_elements() * load->result()->type.bits() / 8;
  }

  // Small loads need not run as far ahead as copies.
  int64_t wanted_ahead(const std::vector<Op*>& loads, bool all) const {
    const bool small =
        !all && std::all_of(loads.begin(), loads.end(), [](const Op* load) { return is_small_load(*load); });
    return std::min<int64_t>(stages_ - 1, small ? 2 : stages_);
  }

  // Has warps of their own copy, if the option says so or it pays: the slots of each place, or 0.
  int64_t divide(const LoopSchedule& schedule) {
    const int64_t option = warp_specialize_of(loop_, func_);
    if (option == 1 || copied_loads_ || is_own_copy(*schedule.copies[0])) return 0;
    Division division = partition_.divide(loop_, schedule, stages_, option);
    why_not_divided_ = option >= 2 ? std::move(division.why_not) : "";
    return division.slots;
  }

  // How many iterations ahead the copies are: bulk copies, or copies by threads where not all can be that.
  int pipeline_copies(LoopSchedule& schedule) {
    std::string why_not = no_bulk_copies(schedule);
    if (why_not.empty()) {
      BulkForm form(func_, schedule.copies);
      why_not = form.why_not();
      if (why_not.empty()) {
        const bool multicast = std::any_of(schedule.copies.begin(), schedule.copies.end(),
                                           [](const Op* copy) { return copy->has(attr::multicast); });
        if (const int ahead = issue_copies(schedule)) {
          report_copies(
              multicast && divided_ ? "bulk copies, to all blocks of the cluster what all of them want" : "bulk copies",
              "");
          return ahead;
        }
        why_not = "no two slots of what it copies fit shared memory";
      }
      form.undo(schedule.copies);
    }
    const int ahead = issue_copies(schedule);
    report_copies(ahead ? "copies by threads" : "loads and stores", why_not);
    return ahead;
  }

  // Why bulk copies are not tried; measured for products that run beside the program alone.
  std::string no_bulk_copies(const LoopSchedule& schedule) const {
    const int option = func_.bulk_copies();
    if (is_own_copy(*schedule.copies[0])) return "each thread copies what it reads";
    if (!context_.target.has(Feature::Tma)) return fmt::format("{} has none", context_.target.name);
    if (option == 1) return "the option bulk_copies forbids it";
    if (func_.num_ctas() > 1 && !is_divided(func_)) return "each block of the cluster computes the whole program";
    if (option == 0 && !schedule.product)
      return "its products do not run beside the program (bulk_copies=2 asks for it)";
    return {};
  }

  void report_copies(const char* by, const std::string& why_not) {
    context_.transfers.push_back(
        {loop_.loc, fmt::format("{}{}", by, divided_ ? ", issued by warps of their own" : ""), why_not});
    if (!why_not_divided_.empty()) context_.transfers.push_back({loop_.loc, no_copy_warps(why_not_divided_), ""});
  }

  // Removes copies from the body, with their commits and waits.
  void detach(const std::vector<Op*>& copies) {
    for (Op* copy : copies) detached_.push_back(take_copy(*copy));
  }

  // How many iterations ahead they are; 0: nothing is changed.
  int issue_copies(const LoopSchedule& schedule) {
    const int64_t slots = divide(schedule);
    divided_ = slots > 0;
    // A sum in flight holds one slot until the next product, on another slot, has begun; where that slot would cost
    // programs, the copies wait until it is free.
    if (divided_) return std::max(1, int(slots) - (schedule.keeps_sums() ? 2 : 1));
    const bool in_bulk = schedule.copies[0]->opcode == Opcode::BulkCopy;
    Stores stores{schedule.copies, later_, in_bulk || context_.completion == Completion::Barrier};
    stores.others.insert(stores.others.end(), schedule.stores.begin(), schedule.stores.end());
    const int64_t most = fit_slots(func_, sizes_, context_.target, stores, stages_ + 1);
    if (most < 2) return 0;
    // Where the loads that are copied leave room for few slots, these are filled again once the iteration has read
    // them. All that reads them stands in its body: expand_stores, below, advances no value that is read from a place.
    const bool refills = few_slots_;
    const bool sums_up = schedule.sums_up && schedule.stores.empty() && most >= 3 && !refills;
    int64_t extra = refills ? 0 : sums_up ? 2 : 1;
    const int ahead = int(std::min(refills ? stages_ : stages_ - 1, most - extra));
    LoopSources sources(loop_, ahead);
    std::unique_ptr<OuterIterations> outer;
    if (may_join_ && !refills) outer = OuterIterations::of(loop_, schedule.copies, sources, ahead);
    if (outer && !fits_around(func_, sizes_, context_.target, stores, ahead + extra, outer->loop())) outer.reset();
    const bool waits = sums_up && !in_bulk && !outer && slot_costs_programs(schedule.copies, ahead + extra);
    if (waits) --extra;
    detach(schedule.copies);
    Op* product = schedule.product;
    Op* behind = waits ? wait_of(*product) : product;
    if (refills) behind = std::prev(loop_.regions[0]->ops.end(), 2)->get();
    expand_copies(loop_,
                  {schedule.copies, ahead, ahead + extra, never_negative_, context_.completion, outer.get(), behind});
    if (!sums_up) return ahead;
    if (outer) begin_with_product(loop_, *product);
    keep_in_flight(loop_, *product, waits);
    return ahead;
  }

  // Whether an SM has room for fewer programs with so many slots than with one less, though they have the registers.
  bool slot_costs_programs(const std::vector<Op*>& copies, int64_t slots) const {
    auto by_room = [&](int64_t n) {
      return programs_by_room(func_, context_.target, shared_bytes_with(func_, sizes_, copies, n));
    };
    const int64_t programs = by_room(slots);
    if (by_room(slots - 1) <= programs) return false;
    return programs_by_registers(func_, context_.target, expected_registers(func_)) > programs;
  }

  Op& loop_;
  Func& func_;
  PassContext& context_;
  ScratchSizes& sizes_;
  Partition& partition_;
  const bool may_join_;
  const bool is_short_;
  const int64_t asked_;
  int64_t stages_;
  const std::vector<Op*> later_;
  const bool never_negative_;
  bool divided_ = false;
  std::optional<CopiedLoads> copied_loads_;
  bool few_slots_ = false;       // fewer than iterations that could be under way, as copied_loads_ takes the room
  std::string why_not_divided_;  // although it was asked for
  std::vector<std::unique_ptr<Op>> detached_;
};

// The stores of the loop to places.
std::vector<Op*> stores_of(const Op& loop) {
  LoopSchedule schedule = schedule_of(loop);
  std::vector<Op*> stores = std::move(schedule.copies);
  if (schedule.product) stores.insert(stores.end(), schedule.stores.begin(), schedule.stores.end());
  return stores;
}

bool is_within(const Op& op, const Op& loop) {
  const Op* around = &op;
  while (around && around != &loop) around = around->parent->parent;
  return around != nullptr;
}

// Loops in the order in which they are pipelined, and what is found out of all of them at once: a function may have a
// hundred loops.
class Loops {
 public:
  Loops(const Func& func, std::vector<Op*> loops) : loops_(std::move(loops)) {
    if (loops_.empty()) return;
    const AxisAnalysis axis(func);
    for (const Op* loop : loops_) {
      never_negative_.push_back(axis.info(ForLoop(*loop).induction()).non_negative);
      stores_.push_back(stores_of(*loop));
    }
  }

  size_t count() const { return loops_.size(); }
  Op& operator[](size_t i) const { return *loops_[i]; }
  bool never_negative(size_t i) const { return never_negative_[i]; }

  /// What those after number i put into places.
  std::vector<Op*> stores_behind(size_t i) const {
    std::vector<Op*> stores;
    for (size_t k = i + 1; k < count(); ++k) stores.insert(stores.end(), stores_[k].begin(), stores_[k].end());
    return stores;
  }

  /// Number i is pipelined, which changes the loops within.
  void changed(size_t i) {
    for (size_t k = i + 1; k < count() && is_within(*loops_[k], *loops_[i]); ++k) stores_[k] = stores_of(*loops_[k]);
  }

 private:
  const std::vector<Op*> loops_;
  std::vector<bool> never_negative_;
  std::vector<std::vector<Op*>> stores_;
};

}  // namespace

void passes::pipeline(Func& func, PassContext& context) {
  std::vector<Op*> pipelined;
  std::unordered_set<const Op*> unpipelined;  // by the user's word
  walk(func.body, [&](Op& op) {
    if (op.opcode != Opcode::For) return;
    const int64_t stages = stages_of(op, func);
    if (stages > 1 || (func.num_stages() > 1 && is_short(op)))
      pipelined.push_back(&op);
    else if (op.get(attr::warp_specialize) >= 2 && has_product(op))
      context.transfers.push_back({op.loc, no_copy_warps(fmt::format("num_stages is {}", stages)), ""});
    if (op.has(attr::num_stages) && op.get(attr::num_stages) <= 1) unpipelined.insert(&op);
  });
  Loops loops(func, std::move(pipelined));
  ScratchSizes sizes;
  Partition partition(func, context.target, sizes);
  for (size_t i = 0; i < loops.count(); ++i) {
    Op& loop = loops[i];
    const bool may_join = !unpipelined.contains(loop.parent->parent);
    LoopPipeliner(loop, func, context, sizes, partition, may_join, loops.never_negative(i), loops.stores_behind(i))
        .run();
    loop.set(attr::num_stages, 1);
    loops.changed(i);
  }
  for (Transfer& told : partition.balance()) context.transfers.push_back(std::move(told));
  if (loops.count()) canonicalize(func, context);
  read_late(func);
}

}  // namespace tegula
