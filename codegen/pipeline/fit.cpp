#include "codegen/pipeline/fit.h"

#include <algorithm>
#include <list>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/equal_elements.h"
#include "codegen/analysis/launch_values.h"
#include "codegen/analysis/occupancy.h"
#include "codegen/analysis/register_pressure.h"
#include "codegen/pipeline/edit.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int64_t kBudget = 256;  // bytes a thread for all loads in flight of one loop
constexpr int64_t kMaxAhead = 7;  // iterations, as each adds its loads before the loop
constexpr int64_t kLeastSlots = 2;
constexpr int64_t kBarrierRoom = 1024;  // what barriers of slots take at most, and push the next place on by
// Around a product registers are scarce: they also hold what the loop carries and, as measured, about as much as four
// times the loads of one iteration (as loaded, as operands in two forms, their addresses), and kOverhead.
constexpr int64_t kCopiesForProduct = 4;
constexpr int64_t kOverhead = 64;  // bytes a thread
// What loads take however many registers are live. More is spilled as it comes, one load after the other.
constexpr int64_t kAlways = 32;  // bytes a thread

int64_t bytes_per_thread(const Type& type) { return held_elements(type) * std::max(1, type.bits() / 8); }

int64_t bytes_of(const std::vector<Op*>& loads) {
  int64_t bytes = 0;
  for (const Op* load : loads) bytes += loaded_elements(*load) * std::max(1, load->result()->type.bits() / 8);
  return bytes;
}

// The bytes of the registers that hold the loads of one iteration.
int64_t register_bytes_of(const std::vector<Op*>& loads) {
  int64_t bytes = 0;
  for (const Op* load : loads) bytes += register_bytes(*load);
  return bytes;
}

std::vector<Op*> allocs_of(const std::vector<Op*>& stores) {
  std::vector<Op*> allocs;
  for (const Op* store : stores) allocs.push_back(const_cast<Op*>(alloc_of(store->operand(1))));
  return allocs;
}

// The slots of some shared_allocs while it is tried what fits.
class TriedSlots {
 public:
  TriedSlots(const std::vector<Op*>& stores, int64_t slots) : allocs_(allocs_of(stores)) {
    for (Op* alloc : allocs_) before_.push_back(alloc->get(attr::slots));
    for (Op* alloc : allocs_) alloc->set(attr::slots, slots);
  }
  ~TriedSlots() {
    for (size_t i = allocs_.size(); i-- > 0;) allocs_[i]->set(attr::slots, before_[i]);
  }

 private:
  std::vector<Op*> allocs_;
  std::vector<int64_t> before_;
};

bool fits(SharedNeeds& needs, const Target& target, const Stores& stores, int64_t slots) {
  const TriedSlots others(stores.others, kLeastSlots), own(stores.own, slots);
  return needs.bytes() + (stores.barriers ? kBarrierRoom : 0) <= target.shared_per_program;
}

// Removes loads that all programs have in common, unless all are: caches have these, so that the wait is short.
void leave_common(const Func& func, std::vector<Op*>& loads) {
  std::vector<Op*> own = loads;
  erase_common(func, own);
  if (!own.empty()) loads = std::move(own);
}

}  // namespace

void erase_common(const Func& func, std::vector<Op*>& loads) {
  const AxisAnalysis axis(func);
  const CostInputs inputs;
  const LaunchValues values(func, axis, inputs);
  std::erase_if(loads, [&](const Op* load) { return !values.depends_on_program(load->operand(0)); });
}

int64_t fit_slots(const Func& func, ScratchSizes& sizes, const Target& target, Stores stores, int64_t wanted) {
  SharedNeeds needs(func, sizes);
  if (!fits(needs, target, stores, kLeastSlots)) stores.others.clear();
  int64_t slots = wanted;
  while (slots > 1 && !fits(needs, target, stores, slots)) --slots;
  return slots;
}

int64_t shared_bytes_with(const Func& func, ScratchSizes& sizes, const std::vector<Slots>& slots) {
  std::list<TriedSlots> tried;
  for (const auto& [stores, count] : slots) tried.emplace_back(stores, count);
  return SharedNeeds(func, sizes).bytes();
}

bool fits_around(const Func& func, ScratchSizes& sizes, const Target& target, const Stores& stores, int64_t slots,
                 Op& outer) {
  const std::vector<Op*> allocs = allocs_of(stores.own);
  std::vector<Op*> followers;
  for (Op* alloc : allocs) {
    auto& ops = alloc->parent->ops;
    auto at = std::find_if(ops.begin(), ops.end(), [&](auto& op) { return op.get() == alloc; });
    followers.push_back(std::next(at)->get());
    move_before(*alloc, outer);
  }
  SharedNeeds needs(func, sizes);
  const bool good = fits(needs, target, stores, slots);
  for (size_t i = allocs.size(); i-- > 0;) move_before(*allocs[i], *followers[i]);
  return good;
}

int fit_loads(const Func& func, const Target& target, const Op& loop, std::vector<Op*>& loads, int64_t wanted,
              bool all) {
  int64_t budget = kBudget;
  // A limit of registers is there for many programs at a time, which have loads in flight, too: a quarter of it.
  if (func.maxnreg()) budget = std::min<int64_t>(budget, func.maxnreg());
  int64_t ahead = std::min(wanted, kMaxAhead);
  if (!all && !loads.empty()) {
    const int64_t limit = register_limit(func, target);
    int64_t free = 4 * limit - kOverhead - kCopiesForProduct * bytes_of(loads);
    for (const auto& carried : loop.results)
      if (!carried->type.pointer && !carried->type.is_token()) free -= bytes_per_thread(carried->type);
    // However many registers are live, so much is free.
    if (register_bytes_of(loads) * ahead <= std::min({budget, free, kAlways})) return int(ahead);
    const int64_t live = live_registers(func);
    // The assembler keeps some of what is live only in part at a time, so a little more than the limit may be live.
    // Where far fewer registers are live than there is room for, loads may take more of them.
    if (4 * live > 5 * limit) free = std::min(free, kAlways);
    free = std::max(free, 4 * (limit * 4 / 5 - live));
    budget = std::min(budget, free);
  }
  if (register_bytes_of(loads) * ahead > budget) leave_common(func, loads);
  while (ahead > 1 && register_bytes_of(loads) * ahead > budget) --ahead;
  while (!loads.empty() && register_bytes_of(loads) * ahead > budget) loads.pop_back();
  return loads.empty() ? 0 : int(ahead);
}

}  // namespace tegula
