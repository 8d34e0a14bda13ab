// Loads come ahead of computation that they do not follow from.
//
//   x = load(p); y = exp(x); z = load(q); ... y * z      ->      x = load(p); z = load(q); y = exp(x); ... y * z
//
// A text loads where it uses; the assembler keeps that order, so that a thread would wait for one load before the next
// one is on its way. Loads move up with what they follow from, over nothing but computation within threads and
// conversions of layouts: not over reductions, other effects or loops, and not where the registers that they take cost
// many programs that run at a time. Programs with products are ordered by use of their own accord.
#include <algorithm>
#include <list>
#include <unordered_set>
#include <vector>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/register_pressure.h"
#include "codegen/passes/passes.h"

namespace tegula {

using namespace ir;

namespace {

/// Loads are not moved together if keeping them apart lets this many times as many programs run at a time.
constexpr double kManyMore = 1.5;

using Ops = std::list<std::unique_ptr<Op>>;
using Position = Ops::iterator;  // stays that of its op wherever that goes

class LoadRaiser {
 public:
  LoadRaiser(Func& func, const Target& target) : func_(func), target_(target) {}

  void run() {
    bool has_products = false;
    walk(func_.body, [&](const Op& op) { has_products |= is_product(op); });
    if (has_products) return;
    find(func_.body);
    if (moved_.empty()) return;
    // What is known of values does not depend on the order of ops.
    const AxisAnalysis axis(func_);
    const CostInputs inputs;
    const LaunchValues values(func_, axis, inputs);
    const double before = programs(axis, values);
    for (Moved& moved : moved_) moved.raise();
    if (before >= kManyMore * programs(axis, values))
      for (Moved& moved : moved_) moved.put_back();
  }

 private:
  /// Ops between two that loads do not pass, in both orders: in `raised` the loads and what they depend on come first.
  struct Moved {
    Ops* block;
    Position end;  ///< the first op after them
    std::vector<Position> as_written, raised;

    void raise() { put(raised); }
    void put_back() { put(as_written); }
    void put(const std::vector<Position>& order) {
      for (Position op : order) block->splice(end, *block, op);
    }
  };

  void find(Block& block) {
    std::vector<Position> segment;
    for (Position op = block.ops.begin(); op != block.ops.end(); ++op) {
      if (!(*op)->info().isolates())
        for (auto& region : (*op)->regions) find(*region);
      if (is_passed(**op) || is_raised(**op)) {
        segment.push_back(op);
        continue;
      }
      add(block, segment, op);
      segment.clear();
    }
    add(block, segment, block.ops.end());
  }

  static bool is_raised(const Op& op) { return op.opcode == Opcode::Load && !op.get(attr::volatile_); }
  static bool is_passed(const Op& op) { return op.has(Pure) && op.regions.empty(); }

  void add(Block& block, const std::vector<Position>& segment, Position end) {
    std::unordered_set<const Op*> early;
    for (auto at = segment.rbegin(); at != segment.rend(); ++at) {
      const Op& op = ***at;
      if (is_raised(op)) early.insert(&op);
      if (early.contains(&op))
        for (const Value* operand : op.operands)
          if (operand && operand->def) early.insert(operand->def);
    }
    std::vector<Position> raised = segment;
    std::stable_partition(raised.begin(), raised.end(), [&](Position op) { return early.contains(op->get()); });
    if (passes_work(segment, early)) moved_.push_back({&block.ops, end, segment, std::move(raised)});
  }

  /// Whether a load follows work that it does not depend on; constants, indices and casts do not count as work.
  static bool passes_work(const std::vector<Position>& segment, const std::unordered_set<const Op*>& early) {
    bool work = false;
    for (const Position at : segment) {
      const Op& op = **at;
      if (work && is_raised(op)) return true;
      const Type* type = op.results.empty() ? nullptr : &op.result()->type;
      work |= !early.contains(&op) && type && type->is_tile() && type->is_float() && op.has(Elementwise) &&
              op.opcode != Opcode::Cast;
    }
    return false;
  }

  /// How many programs an SM runs at a time.
  double programs(const AxisAnalysis& axis, const LaunchValues& values) const {
    const int words = RegisterPressure(func_, axis, values).peak().words;
    const int64_t warps = func_.num_warps(), allocated = std::max<int64_t>(1, (words + 7) / 8) * 8;
    if (words > register_limit(func_, target_)) return 0;
    return double(std::min(target_.registers_per_sm / (32 * warps * allocated), target_.programs_of(warps)));
  }

  Func& func_;
  const Target& target_;
  std::vector<Moved> moved_;
};

}  // namespace

void passes::raise_loads(Func& func, PassContext& context) { LoadRaiser(func, context.target).run(); }

}  // namespace tegula
