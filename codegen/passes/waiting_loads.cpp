// Has loops that wait for another program load anew each time.
//
//   while tl.load(flag) == 0: pass          the load becomes a volatile one
//
// A while loop that writes nothing and loads from the same place in each iteration waits for another program to store
// there, or asks for a number that stays what it is, such as a bound. Plain loads of it are taken to be the same each
// time: later passes and LLVM make them once ahead of the loop, or take the loop away since it has no effect, which is
// why this pass comes first. Triton, whose loads are assembler text, makes them each time. (Loops that write keep their
// loads: LLVM does not know what stores and barriers, which are assembler text here too, do to memory.)
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
      walk(*region, [&](Op& op) {
        inside_.insert(&op);
        for (const auto& nested : op.regions)
          for (const auto& arg : nested->args) arguments_.insert(arg.get());
        if (op.opcode == Opcode::For) bounds_[ForLoop(op).induction()] = ForLoop(op).bounds();
        if (op.opcode == Opcode::Load) loads_.push_back(&op);
        writes_ |= op.has(Writes);
      });
    for (size_t i = 0; i < loop_.num_tested(); ++i) next_[loop_.tested(i)] = loop_.next(i);
    for (size_t k = 0; k < loop_.num_passed(); ++k) passed_[loop_.taken(k)] = loop_.passed(k);
  }

  /// The loads that are of the same place in each iteration; none if the loop writes.
  std::vector<Op*> loads() {
    if (writes_) return {};
    std::erase_if(loads_, [&](const Op* load) { return !all_fixed(load->operands); });
    return loads_;
  }

 private:
  /// Whether the value is the same in each iteration, from some one on (in a loop within: the same in turn).
  bool is_fixed(const Value* v) {
    if (const auto [at, fresh] = fixed_.try_emplace(v, false); !fresh) return at->second;  // while under way: no
    return fixed_[v] = find_fixed(v);
  }
  bool all_fixed(const std::vector<Value*>& values) {
    return std::all_of(values.begin(), values.end(), [&](const Value* v) { return !v || is_fixed(v); });
  }

  bool find_fixed(const Value* v) {
    if (const auto taken = passed_.find(v); taken != passed_.end()) return is_fixed(taken->second);
    if (const auto tested = next_.find(v); tested != next_.end()) {
      const Value* next = tested->second;
      for (auto at = passed_.find(next); at != passed_.end(); at = passed_.find(next)) next = at->second;
      return next == v || is_fixed(next);
    }
    if (const auto counted = bounds_.find(v); counted != bounds_.end()) return all_fixed(counted->second);
    if (arguments_.contains(v)) return false;
    if (!v->def || !inside_.contains(v->def)) return true;
    return v->def->has(Pure) && all_fixed(v->def->operands);
  }

  const WhileLoop loop_;
  bool writes_ = false;
  std::vector<Op*> loads_;
  std::unordered_set<const Op*> inside_;                          ///< ops of its regions, and of those within
  std::unordered_set<const Value*> arguments_;                    ///< of regions within
  std::unordered_map<const Value*, const Value*> next_, passed_;  ///< what the test, and the body, get
  std::unordered_map<const Value*, std::vector<Value*>> bounds_;  ///< of what loops within count
  std::unordered_map<const Value*, bool> fixed_;
};

}  // namespace

void passes::waiting_loads(Func& func, PassContext&) {
  walk(func.body, [](Op& op) {
    if (op.opcode != Opcode::While) return;
    for (Op* load : WaitingLoop(op).loads()) load->set(attr::volatile_, true);
  });
}

}  // namespace tegula
