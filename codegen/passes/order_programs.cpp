// Lets programs that have more to multiply than others begin first.
//
//   i = program_id; for 0 to (i + 1) * 128: ... dot ...     ->     i = program_id {reverse}; ...
//
// A GPU starts programs in the order of their numbers, axis 0 first, and the last ones run while multiprocessors have
// nothing left to take: these had better be short ones. Where the iterations of a loop with products grow with the
// number of a program along axis 0, as those of causal attention do, programs of up to eight numbers along axis 1
// (heads) begin together, the long ones first. (Measured on an H200: of 64 heads of 2048 rows that takes 0.91 of the
// time; all heads together lose more by the cache than they gain.)
#include <unordered_map>
#include <vector>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/program_order.h"
#include "codegen/ir/flow.h"
#include "codegen/passes/passes.h"
#include "codegen/product/plan.h"

namespace tegula {

using namespace ir;

namespace {

// How a value changes from program to program along axis 0 of the grid.
enum class Trend { Same, Grows, Falls, Unknown };

Trend joined(Trend a, Trend b) { return a == Trend::Same || a == b ? b : b == Trend::Same ? a : Trend::Unknown; }
Trend negated(Trend t) { return t == Trend::Grows ? Trend::Falls : t == Trend::Falls ? Trend::Grows : t; }

class Trends {
 public:
  explicit Trends(const Func& func) : func_(func), axes_(func) {}

  Trend of(const Value* v) {
    if (!v->def) return v->block == &func_.body ? Trend::Same : Trend::Unknown;
    auto [at, is_new] = known_.try_emplace(v, Trend::Unknown);
    if (!is_new) return at->second;
    const Trend trend = compute(*v->def);
    return known_[v] = trend;
  }

 private:
  Trend compute(const Op& op) {
    if (op.opcode == Opcode::ProgramId && op.get(attr::axis) == 0) return Trend::Grows;
    Trend all = Trend::Same;
    for (const Value* v : op.operands)
      if (v) all = joined(all, of(v));
    switch (op.opcode) {
      case Opcode::Add:
      case Opcode::Cast:
      case Opcode::Hint:
      case Opcode::Maximum:
      case Opcode::Minimum:
        return all;
      case Opcode::Sub:
        return joined(of(op.operand(0)), negated(of(op.operand(1))));
      case Opcode::Mul:
        return scaled(op.operand(0), op.operand(1));
      case Opcode::Div:
        return of(op.operand(1)) == Trend::Same ? scaled(op.operand(0), op.operand(1)) : Trend::Unknown;
      default:
        return all == Trend::Same && op.has(Pure) && op.regions.empty() ? Trend::Same : Trend::Unknown;
    }
  }

  // a * b and a / b change as the operand that changes, if the other one stays the same and is not negative.
  Trend scaled(const Value* a, const Value* b) {
    if (of(a) == Trend::Same && of(b) == Trend::Same) return Trend::Same;
    if (of(a) == Trend::Same) std::swap(a, b);
    return of(b) == Trend::Same && axes_.info(b).non_negative ? of(a) : Trend::Unknown;
  }

  const Func& func_;
  const AxisAnalysis axes_;
  std::unordered_map<const Value*, Trend> known_;
};

// Collects the outermost loops with products.
void find_loops(const Block& block, std::vector<const Op*>& loops) {
  for (const auto& op : block.ops) {
    bool multiplies = false;
    for (const auto& region : op->regions)
      walk(*region, [&](const Op& inner) { multiplies |= inner.opcode == Opcode::Dot; });
    if (multiplies && op->opcode == Opcode::For)
      loops.push_back(op.get());
    else
      for (const auto& region : op->regions) find_loops(*region, loops);
  }
}

}  // namespace

void passes::order_programs(Func& func, PassContext& context) {
  std::vector<const Op*> loops;
  find_loops(func.body, loops);
  if (loops.empty() || !programs_have_no_order(func)) return;
  Trends trends(func);
  bool grows = false, falls = false;
  for (const Op* op : loops) {
    const ForLoop loop(*op);
    const Trend iterations = joined(trends.of(loop.upper()), negated(trends.of(loop.lower())));
    grows |= iterations == Trend::Grows;
    falls |= iterations == Trend::Falls;
  }
  if (!grows || falls) return;
  context.transfers.push_back(
      {loops[0]->loc, "programs of eight numbers along axis 1 begin together, the longest first", ""});
  walk(func.body, [&](Op& op) {
    if (op.opcode == Opcode::ProgramId && op.get(attr::axis) < 2) op.set(attr::reverse, true);
  });
}

}  // namespace tegula
