// Loads what is used after a reduction there, where registers are short.
//
//   w = load(p); s = reduce(x); y = x * s * cast(w)      ->      s = reduce(x); w = load(p); y = x * s * cast(w)
//
// Programs whose registers suffice load as early as the text says, so that all their loads are on their way together.
// Where a thread's registers bound how many programs run at a time, values that are held for later are in the way. A
// value that is loaded where it is used goes into the result piece by piece, and other programs hide the wait for it.
//
// A load moves with the ops that do nothing but convert or reshape what it gives, within its block, and over no write
// to memory that it may read. Loops are left as they are: before one, a load is made once for all iterations; in one,
// each iteration would wait for memory twice, which more programs do not make up for (gradients of norms took 1.3 times
// the time). That goes for loops whose registers are estimated not to suffice, too: of 870 kernels three were, of which
// the assembler spilled none for two, early or late, and more for the third with its loads late.
#include <algorithm>
#include <optional>
#include <unordered_set>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/pointer_base.h"
#include "codegen/analysis/register_pressure.h"
#include "codegen/analysis/shared_plan.h"
#include "codegen/passes/layout_rules.h"
#include "codegen/passes/passes.h"

namespace tegula {

using namespace ir;

namespace {

/// Sinking pays if this many times as many programs run at a time; less gains nothing, as measured.
constexpr double kManyMore = 1.5;

using Position = std::list<std::unique_ptr<Op>>::iterator;

/// A load with the ops that depend on it alone, and the op that they must precede.
struct Sinkable {
  std::vector<Position> ops;
  Op* user;
};

class LoadSinker {
 public:
  LoadSinker(Func& func, const Target& target) : func_(func), target_(target) {}

  void run() {
    std::vector<Sinkable> found;
    find(func_.body, found);
    if (found.empty() || !registers_are_short(found)) return;
    for (const Sinkable& sinkable : found) sink(sinkable);
  }

 private:
  void find(Block& block, std::vector<Sinkable>& found) const {
    for (auto op = block.ops.begin(); op != block.ops.end(); ++op) {
      if (!(*op)->info().isolates() && !(*op)->info().loops())
        for (auto& region : (*op)->regions) find(*region, found);
      if ((*op)->opcode == Opcode::Load && (*op)->result()->type.is_tile() && !(*op)->get(attr::volatile_))
        if (auto sinkable = follow(block, op)) found.push_back(std::move(*sinkable));
    }
  }

  /// The load at `first` and its dependents, up to the first op that needs more than them, if the program waits for
  /// something on the way.
  std::optional<Sinkable> follow(Block& block, Position first) const {
    Sinkable out{{first}, nullptr};
    std::unordered_set<const Value*> made{(*first)->result()};
    std::vector<const Value*> written;
    bool waits = false;
    for (auto op = std::next(first); op != block.ops.end(); ++op) {
      if (uses(**op, made)) {
        if (!follows_from(**op, made)) {
          out.user = op->get();
          break;
        }
        out.ops.push_back(op);
        made.insert((*op)->result());
        continue;
      }
      if (orders_memory(**op, written)) return std::nullopt;
      waits |= (*op)->info().combines() || (*op)->has(Control);
    }
    if (!out.user || !waits || !no_alias((*first)->operand(0), written)) return std::nullopt;
    return out;
  }

  static bool uses(const Op& op, const std::unordered_set<const Value*>& values) {
    auto used = [&](const Op& user) {
      return std::any_of(user.operands.begin(), user.operands.end(),
                         [&](const Value* v) { return values.contains(v); });
    };
    bool found = used(op);
    for (const auto& region : op.regions) walk(*region, [&](const Op& inner) { found |= used(inner); });
    return found;
  }

  /// Whether the op makes one value of these alone, within each thread.
  bool follows_from(const Op& op, const std::unordered_set<const Value*>& values) const {
    if (!op.has(Pure) || op.results.size() != 1 || !op.regions.empty() || scratch_bytes(op) > 0) return false;
    return std::all_of(op.operands.begin(), op.operands.end(), [&](const Value* v) {
      return !v || v->type.is_scalar() || values.contains(v) || (v->def && is_layout_free(*v->def));
    });
  }

  /// Whether many more programs run at a time, or fewer registers are spilled, if the loads are where they are used.
  bool registers_are_short(const std::vector<Sinkable>& found) const {
    const AxisAnalysis axis(func_);
    const CostInputs inputs;
    const LaunchValues values(func_, axis, inputs);
    std::unordered_set<const Value*> sunk;
    for (const Sinkable& sinkable : found)
      for (Position op : sinkable.ops) sunk.insert((*op)->result());
    RegisterPressure pressure(func_, axis, values);
    const int early = pressure.peak().words, late = pressure.peak_without(sunk).words;
    if (early > register_limit(func_, target_)) return late < early;
    return programs(late) >= kManyMore * programs(early);
  }

  /// How many programs with so many registers a thread an SM runs at a time.
  double programs(int registers) const {
    const int64_t warps = func_.num_warps(), allocated = (registers + 7) / 8 * 8;
    return double(std::min(target_.registers_per_sm / (32 * warps * allocated), target_.programs_of(warps)));
  }

  static void sink(const Sinkable& sinkable) {
    auto& ops = sinkable.user->parent->ops;
    const auto user = std::find_if(ops.begin(), ops.end(), [&](const auto& op) { return op.get() == sinkable.user; });
    for (Position op : sinkable.ops) ops.splice(user, ops, op);
  }

  Func& func_;
  const Target& target_;
};

}  // namespace

void passes::sink_loads(Func& func, PassContext& context) { LoadSinker(func, context.target).run(); }

}  // namespace tegula
