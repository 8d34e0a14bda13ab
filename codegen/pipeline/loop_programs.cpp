// Has blocks take one program of the launch after the other.
//
//   i = program_id; j = program_id {axis 1}          for p = first to all step at_a_time:
//   q = load Q(i, j)                                   i = p % programs; j = p / programs
//   for k: ... dot q, load K(j, k) ...          ->     q = load Q(i, j)
//   store O(i, j), ...                                 for k: ... dot q, load K(j, k) ...
//                                                      store O(i, j), ...
//
// The launch starts as many blocks as run at a time, and passes the numbers of programs. A program whose copies are
// issued by warps of their own (`partition`) then begins under the end of the one before: its first tiles are copied
// during the other's last products and stores. Otherwise a multiprocessor that has room for one program alone waits for
// the first copies of each. (Measured on an H200, attention of 128 elements a head: 0.86 of the time for 1024 keys,
// 0.93 for 2048, 0.95 for 4096. Where two programs share a multiprocessor they hide that wait from each other, and the
// loop lost 6 %.)
//
// A GPU starts the next program wherever one has ended. Here blocks take equally many programs, so these must take
// equally long: no loop of theirs depends on the program.
#include <algorithm>
#include <unordered_set>
#include <vector>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/launch_values.h"
#include "codegen/analysis/program_order.h"
#include "codegen/analysis/shared_plan.h"
#include "codegen/ir/builder.h"
#include "codegen/ir/flow.h"
#include "codegen/passes/passes.h"
#include "codegen/pipeline/bulk_copies.h"
#include "codegen/pipeline/loop_stages.h"
#include "codegen/pipeline/partition.h"
#include "codegen/pipeline/schedule.h"
#include "codegen/target/target.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int kAxes = 3;

// Ops that tell who their program is, by the number of its block.
bool names_its_program(const Op& op) {
  return op.opcode == Opcode::DevicePrint || op.opcode == Opcode::DeviceAssert || op.opcode == Opcode::Watch ||
         (op.opcode == Opcode::ProgramId && op.get(attr::reverse)) ||
         (op.opcode == Opcode::NumPrograms && op.get(attr::of_launch));
}

bool programs_take_equally_long(const Func& func) {
  const AxisAnalysis axis(func);
  const CostInputs inputs;
  const LaunchValues values(func, axis, inputs);
  bool equal = true;
  walk(func.body, [&](const Op& op) {
    if (op.opcode == Opcode::While || op.opcode == Opcode::If || names_its_program(op)) equal = false;
    if (op.opcode != Opcode::For) return;
    for (const Value* bound : ForLoop(op).bounds()) equal &= !values.depends_on_program(bound);
  });
  return equal;
}

// The function's loop with products, if there is one and it stands in nothing else; null otherwise.
Op* only_loop_of_products(Func& func) {
  Op* found = nullptr;
  bool only = true;
  walk(func.body, [&](Op& op) {
    if (is_product(op)) only &= op.parent != &func.body && (!found || op.parent->parent == found);
    if (is_product(op) && only) found = op.parent->parent;
  });
  return only && found && found->opcode == Opcode::For && found->parent == &func.body ? found : nullptr;
}

// Whether warps of their own will issue the loop's copies, and, unless it is asked for, a multiprocessor has room for
// one program then.
bool pays(Func& func, Op& loop, const Target& target, bool asked) {
  const int64_t stages = stages_of(loop, func);
  if (stages < 2 || warp_specialize_of(loop, func) == 1) return false;
  LoopSchedule schedule = schedule_of(loop);
  if (schedule.copies.empty() || !schedule.product || !schedule.indices.empty()) return false;
  BulkForm form(func, schedule.copies);
  if (!form.why_not().empty()) return false;
  ScratchSizes sizes;
  const auto [slots, is_alone] = Partition(func, target, sizes).expect(loop, schedule, stages);
  form.undo(schedule.copies);
  return slots && (asked || is_alone);
}

class ProgramLoop {
 public:
  explicit ProgramLoop(Func& func) : func_(func) { build_.set_loc(func.loc); }

  void write() {
    Op* end = func_.body.terminator();
    std::vector<Op*> ops;
    for (const auto& op : func_.body.ops)
      if (op.get() != end && !stays_outside(*op)) ops.push_back(op.get());
    walk(func_.body, [](Op& op) {
      if (op.opcode == Opcode::NumPrograms) op.set(attr::of_launch, true);
    });
    build_.set_before(end);
    build_.set_loc(func_.loc);
    // Blocks are numbered as programs are: where there is one for each, it takes the program of its own place.
    Value* first = nullptr;
    for (int axis = kAxes; axis-- > 0;) {
      if (first) first = build_.mul(first, build_.num_programs(axis));
      Value* along_axis = build_.program_id(axis);
      first = first ? build_.add(first, along_axis) : along_axis;
    }
    Value* blocks = product([&](int axis) { return build_.num_programs(axis); });
    Value* programs = product([&](int axis) { return of_launch(axis); });
    Op* loop = build_.create(Opcode::For, {first, programs, blocks}, {}, {{attr::num_stages, int64_t(1)}});
    Value* number = loop->regions[0]->add_arg(Type::scalar(Elem::I32));
    build_.set_end(loop->regions[0].get());
    Value* along = build_.div(number, of_launch(0));
    Value* const own[kAxes] = {build_.rem(number, of_launch(0)), build_.rem(along, of_launch(1)),
                               build_.div(along, of_launch(1))};
    Op* yield = build_.create(Opcode::Yield, {});
    for (Op* op : ops) move_before(*op, *yield);
    ValueMap known;
    walk(*loop->regions[0], [&](Op& op) {
      if (op.opcode == Opcode::ProgramId) known[op.result()] = own[op.get(attr::axis)];
    });
    replace_uses(*loop->regions[0], known);
  }

 private:
  // What programs have in common, as the bounds of their loops.
  bool stays_outside(const Op& op) {
    const auto is_known = [&](const Value* v) { return v && (!v->def || outside_.contains(v)); };
    const bool stays = op.has(Pure) && op.regions.empty() && op.results.size() == 1 && op.result()->type.is_scalar() &&
                       op.opcode != Opcode::ProgramId && std::all_of(op.operands.begin(), op.operands.end(), is_known);
    if (stays) outside_.insert(op.result());
    return stays;
  }

  Value* of_launch(int axis) {
    Value* count = build_.num_programs(axis);
    count->def->set(attr::of_launch, true);
    return count;
  }

  template <class Factor>
  Value* product(Factor factor) {
    Value* all = factor(0);
    for (int axis = 1; axis < kAxes; ++axis) all = build_.mul(all, factor(axis));
    return all;
  }

  Func& func_;
  Builder build_;
  std::unordered_set<const Value*> outside_;
};

}  // namespace

// Whether it pays still where the loop stands in one over programs, throughout which its slots have their room: what
// results take of shared memory lies beside them, not in their place.
static bool pays_in_loop(const Func& func, PassContext& context, bool asked) {
  const std::unique_ptr<Func> looped = func.clone();
  ProgramLoop(*looped).write();
  passes::canonicalize(*looped, context);
  Op* loop = nullptr;
  walk(looped->body, [&](Op& op) {
    if (is_product(op)) loop = op.parent->parent;
  });
  if (!pays(*looped, *loop, context.target, asked)) return false;
  // The pipeline may have such loads copied by threads, beside which no warps of their own copy (CopiedLoads): it alone
  // knows.
  const std::vector<Op*> loads = schedule_of(*loop).loads;
  if (warp_specialize_of(*loop, *looped) >= 2 || std::ranges::all_of(loads, [](Op* op) { return is_small_load(*op); }))
    return true;
  PassContext tried{context.target, context.diags, context.completion};
  passes::pipeline(*looped, tried);
  return copy_warps_of(*looped) != nullptr;
}

void passes::loop_programs(Func& func, PassContext& context) {
  const int option = func.program_loop();
  if (option == 1 || func.bulk_copies() == 1 || !context.target.has(Feature::Setmaxnreg)) return;
  Op* loop = only_loop_of_products(func);
  if (!loop || !programs_have_no_order(func) || !programs_take_equally_long(func)) return;
  if (!pays(func, *loop, context.target, option == 2) || !pays_in_loop(func, context, option == 2)) return;
  context.transfers.push_back({loop->loc, "programs of the launch one behind the other, as many as run at a time", ""});
  ProgramLoop(func).write();
  canonicalize(func, context);
}

}  // namespace tegula
