// Has loops that wait for another program load anew each time.
//
//   while tl.load(flag) == 0: pass          the load becomes a volatile one
//
// A while loop that writes nothing, and whose condition stays what it is unless memory changes, waits for memory to
// change. Plain loads of it are taken to be the same each time: later passes and LLVM make them once ahead of the loop,
// or take the loop away since it has no effect, which is why this pass comes first. Triton, whose loads are assembler
// text, makes them each time. A loop whose condition depends on something else that changes, such as a counter, does
// not wait: its loads stay as they are.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "codegen/ir/flow.h"
#include "codegen/passes/passes.h"

namespace tegula {

using namespace ir;

namespace {

class WaitingLoop {
 public:
  explicit WaitingLoop(const Op& loop) : loop_(loop) {
    for (const auto& region : loop.regions)
      for (const auto& op : region->ops) inside_.insert(op.get());
    for (size_t i = 0; i < loop_.num_tested(); ++i) next_[loop_.tested(i)] = loop_.next(i);
    for (size_t k = 0; k < loop_.num_passed(); ++k) passed_[loop_.taken(k)] = loop_.passed(k);
  }

  /// The loads that the condition follows from; none if it follows from more than them and what the loop never changes.
  std::vector<Op*> loads() {
    if (!is_fixed(loop_.condition())) loads_.clear();
    return loads_;
  }

 private:
  /// Whether the value is, from some iteration on, the same each time as long as memory is.
  bool is_fixed(Value* v) {
    if (const auto [at, fresh] = fixed_.try_emplace(v, false); !fresh) return at->second;  // while under way: no
    return fixed_[v] = find_fixed(v);
  }

  bool find_fixed(Value* v) {
    if (const auto taken = passed_.find(v); taken != passed_.end()) return is_fixed(taken->second);
    if (const auto tested = next_.find(v); tested != next_.end()) {
      Value* next = tested->second;
      for (auto at = passed_.find(next); at != passed_.end(); at = passed_.find(next)) next = at->second;
      return next == v || is_fixed(next);
    }
    if (!v->def || !inside_.contains(v->def)) return true;
    Op& op = *v->def;
    const bool loads = op.opcode == Opcode::Load;
    if (!loads && !op.has(Pure)) return false;
    if (!std::all_of(op.operands.begin(), op.operands.end(), [&](Value* x) { return !x || is_fixed(x); })) return false;
    if (loads) loads_.push_back(&op);
    return true;
  }

  const WhileLoop loop_;
  std::unordered_set<const Op*> inside_;                    ///< ops of its regions
  std::unordered_map<const Value*, Value*> next_, passed_;  ///< what the test, and the body, get
  std::unordered_map<const Value*, bool> fixed_;
  std::vector<Op*> loads_;
};

// Beyond that, what orders memory already keeps the loads of a loop in it.
bool writes_nothing(const Op& loop) {
  bool writes = false;
  for (const auto& region : loop.regions) walk(*region, [&](const Op& op) { writes |= op.has(Writes); });
  return !writes;
}

}  // namespace

void passes::waiting_loads(Func& func, PassContext&) {
  walk(func.body, [](Op& op) {
    if (op.opcode != Opcode::While || !writes_nothing(op)) return;
    for (Op* load : WaitingLoop(op).loads()) load->set(attr::volatile_, true);
  });
}

}  // namespace tegula
