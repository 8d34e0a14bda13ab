#include "codegen/pipeline/fit.h"

#include <algorithm>

#include "codegen/analysis/register_pressure.h"
#include "codegen/analysis/shared_plan.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int64_t kBudget = 256;  // bytes a thread for all loads in flight of one loop
constexpr int64_t kMaxAhead = 7;  // iterations, as each adds its loads before the loop
// Around a product registers are scarce: they also hold what the loop carries and, as measured, about as much as four
// times the loads of one iteration (as loaded, as operands in two forms, their addresses), and kOverhead.
constexpr int64_t kCopiesForProduct = 4;
constexpr int64_t kOverhead = 64;  // bytes a thread

int64_t bytes_per_thread(const Type& type) { return held_elements(type) * std::max(1, type.bits() / 8); }

int64_t bytes_of(const std::vector<Op*>& loads) {
  int64_t bytes = 0;
  for (const Op* load : loads) bytes += bytes_per_thread(load->result()->type);
  return bytes;
}

std::vector<Op*> allocs_of(const std::vector<Op*>& stores) {
  std::vector<Op*> allocs;
  for (const Op* store : stores) allocs.push_back(const_cast<Op*>(alloc_of(store->operand(1))));
  return allocs;
}

int64_t bytes_with(Func& func, const std::vector<Op*>& allocs, int64_t slots) {
  std::vector<int64_t> before;
  for (Op* alloc : allocs) {
    before.push_back(alloc->get(attr::slots));
    alloc->set(attr::slots, slots);
  }
  const int64_t bytes = plan_shared(func).bytes;
  for (size_t i = 0; i < allocs.size(); ++i) allocs[i]->set(attr::slots, before[i]);
  return bytes;
}

bool fits(Func& func, const Target& target, const std::vector<Op*>& allocs, int64_t slots) {
  return bytes_with(func, allocs, slots) <= target.shared_per_program;
}

// Moves the op before another one.
void move_before(Op& op, Op& where) {
  auto& from = op.parent->ops;
  auto& to = where.parent->ops;
  auto at = std::find_if(from.begin(), from.end(), [&](auto& o) { return o.get() == &op; });
  auto before = std::find_if(to.begin(), to.end(), [&](auto& o) { return o.get() == &where; });
  to.splice(before, from, at);
  op.parent = where.parent;
}

}  // namespace

int64_t fit_slots(Func& func, const Target& target, const std::vector<Op*>& stores, int64_t wanted) {
  const std::vector<Op*> allocs = allocs_of(stores);
  int64_t slots = wanted;
  while (slots > 1 && !fits(func, target, allocs, slots)) --slots;
  return slots;
}

int64_t shared_bytes_with(Func& func, const std::vector<Op*>& stores, int64_t slots) {
  return bytes_with(func, allocs_of(stores), slots);
}

bool fits_around(Func& func, const Target& target, const std::vector<Op*>& stores, int64_t slots, Op& outer) {
  const std::vector<Op*> allocs = allocs_of(stores);
  std::vector<Op*> followers;
  for (Op* alloc : allocs) {
    auto& ops = alloc->parent->ops;
    auto at = std::find_if(ops.begin(), ops.end(), [&](auto& op) { return op.get() == alloc; });
    followers.push_back(std::next(at)->get());
    move_before(*alloc, outer);
  }
  const bool good = fits(func, target, allocs, slots);
  for (size_t i = allocs.size(); i-- > 0;) move_before(*allocs[i], *followers[i]);
  return good;
}

int fit_loads(const Func& func, const Target& target, const Op& loop, std::vector<Op*>& loads, int64_t wanted,
              bool all) {
  int64_t budget = kBudget;
  if (!all) {
    int64_t free = 4 * register_limit(func, target) - kOverhead - kCopiesForProduct * bytes_of(loads);
    for (const auto& carried : loop.results)
      if (!carried->type.pointer && !carried->type.is_token()) free -= bytes_per_thread(carried->type);
    budget = std::min(budget, free);
  }
  int64_t ahead = std::min(wanted, kMaxAhead);
  while (ahead > 1 && bytes_of(loads) * ahead > budget) --ahead;
  while (!loads.empty() && bytes_of(loads) * ahead > budget) loads.pop_back();
  return loads.empty() ? 0 : int(ahead);
}

}  // namespace tegula
