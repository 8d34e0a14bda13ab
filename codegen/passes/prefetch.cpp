// Software pipelining of global loads, through registers or through shared memory.
//
//   for i = lower to upper step s {num_stages = 3}     q0 = load(a(lower))       where lower < upper
//     x = load(a(i))                                   q1 = load(a(lower + s))   where lower + s < upper
//     use(x)                                    ->     for i, x = q0, y = q1
//                                                        next = load(a(i + 2 s)) where i + 2 s < upper
//                                                        use(x); carry y, next
//
// A load that does nothing but feed dots, transposed or not, goes through shared memory, where the target has
// asynchronous copies:
//
//   for i = ... {num_stages = 3}                       buffer = shared_alloc {slots = 3}
//     x = load(a(i))                                   async_copy a(lower) to slot 0, commit
//     acc = dot(x, ...)                                async_copy a(lower + s) to slot 1, commit
//                                                ->    for i, read = 0, write = 2
//                                                        async_wait {pending = 1}
//                                                        async_copy a(i + 2 s) to slot write, commit
//                                                        acc = dot(shared_read slot read, ...)
//                                                        read, write each move on to the next slot, round and round
//                                                      async_wait {pending = 0}
//
// One wait an iteration suffices, since it is a barrier too: behind it all threads are done with the slot that was read
// in the iteration before, which is the one that is written next. Where the target's dots run beside the program and
// the loop does nothing but sum up one, its sums stay in flight until the next one has begun (attribute `pending` of
// the dot); then a slot may still be read one iteration longer, and there is one slot more.
//
// A load qualifies if its pointer, mask and `other` follow by pure ops from values of before the loop, the induction
// variable and carried values that only grow by an invariant step, and if no store of the loop can reach its memory:
// pointers that come from different parameters are taken not to overlap. Loops with a barrier, a volatile access or an
// atomic that orders memory are left alone. The values in flight may take kBudget bytes of registers a thread; the
// distance shrinks to fit, then the last loads stay where they are.
//
// As in Triton, a loop's own attribute num_stages goes for all its loads. Without one, the function's goes for the
// loads that feed a dot of the loop's body; a loop without a dot stays as it is. Afterwards its number
// is 1. Runs in stage Tile, after canonicalize (constants are seen) and leaves canonical text.
#include <algorithm>
#include <cmath>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/pointer_base.h"
#include "codegen/analysis/shared_plan.h"
#include "codegen/analysis/wgmma.h"
#include "codegen/ir/builder.h"
#include "codegen/passes/loop_bounds.h"
#include "codegen/passes/loop_slots.h"
#include "codegen/passes/passes.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int64_t kBudget = 256;  // bytes a thread for all loads in flight of one loop
constexpr int64_t kMaxAhead = 7;  // iterations, as each adds its loads before the loop
constexpr int kThreadsPerWarp = 32;
// Around a dot registers are scarce: they also hold what the loop carries and, as measured, about as much as four times
// the loads of one iteration (as loaded, as operands of the dot in two forms, their addresses), and kOverhead.
constexpr int64_t kCopiesForDot = 4;
constexpr int64_t kOverhead = 64;  // bytes a thread

int64_t bytes_per_thread(const Type& type, int num_warps) {
  return std::max<int64_t>(1, type.num_elements() / (kThreadsPerWarp * num_warps)) * elem_bytes(type.elem);
}

// What a thread's registers hold.
int64_t register_bytes(const Func& func, const Target& target) {
  int64_t registers = std::min<int64_t>(255, target.registers_per_sm / (kThreadsPerWarp * func.num_warps()));
  auto limit = func.attrs.find("maxnreg");
  if (limit != func.attrs.end()) registers = std::min(registers, std::get<int64_t>(limit->second));
  return 4 * registers;
}

bool is_zero(const Value* v) {
  if (!v->def) return false;
  if (v->def->opcode == Opcode::Splat) return is_zero(v->def->operands[0]);
  if (v->def->opcode != Opcode::Constant) return false;
  const Attr& value = v->def->attrs.at("value");
  if (auto* real = std::get_if<double>(&value)) return *real == 0 && !std::signbit(*real);
  auto* integer = std::get_if<int64_t>(&value);
  return integer && *integer == 0;
}

class LoopPrefetch {
 public:
  LoopPrefetch(Op& loop, Func& func, const PassContext& context)
      : loop_(loop),
        body_(*loop.regions[0]),
        func_(func),
        target_(context.target),
        shared_for_copies_(context.target.shared_per_program - context.shared_for_others),
        num_warps_(func.num_warps()) {}

  // All loads that can run ahead; without `all` those that feed a dot, as far as registers go.
  void run(int64_t num_stages, bool all) {
    axes_.emplace(func_);
    std::vector<Op*> loads = candidates();
    if (!all) {
      std::unordered_set<const Op*> feeding = feeding_dots();
      std::erase_if(loads, [&](const Op* load) { return !feeding.contains(load); });
    }
    std::vector<Op*> copied = take_copies(loads, num_stages);
    int64_t budget = kBudget;
    if (!all) {
      int64_t free = register_bytes(func_, target_) - kOverhead - kCopiesForDot * bytes_of(loads);
      for (const auto& carried : loop_.results)
        if (!carried->type.pointer) free -= bytes_per_thread(carried->type, num_warps_);
      budget = std::min(kBudget, free);
    }
    pipeline_within(budget, std::move(loads), num_stages);
    if (copied.empty()) return;
    Op* summed = summed_dot(copied);
    const int64_t room = shared_slots(copied);
    if (room < 3) summed = nullptr;
    if (summed) summed->attrs["pending"] = int64_t(1);
    const int64_t extra = summed ? 2 : 1;
    copy_ahead(copied, int(std::min(num_stages - 1, room - extra)), int(extra));
  }

 private:
  int64_t bytes_of(const std::vector<Op*>& loads) const {
    int64_t bytes = 0;
    for (Op* load : loads) bytes += bytes_per_thread(load->result()->type, num_warps_);
    return bytes;
  }

  void pipeline_within(int64_t budget, std::vector<Op*> loads, int64_t num_stages) {
    int64_t ahead = std::min(num_stages - 1, kMaxAhead);
    while (ahead > 1 && bytes_of(loads) * ahead > budget) --ahead;
    while (!loads.empty() && bytes_of(loads) * ahead > budget) loads.pop_back();
    if (!loads.empty()) pipeline(loads, int(ahead));
  }

  // ---- Which loads
  bool inside(const Value* v) const { return (v->def ? v->def->parent : v->block) == &body_; }

  // What a value of the body follows from by pure ops: nothing but values of before the loop, the iteration (the
  // induction variable and steadily growing values) too, or something else.
  enum class Source { Invariant, Iteration, Other };

  Source source(const Value* v) {
    if (!v || !inside(v)) return Source::Invariant;
    if (auto it = sources_.find(v); it != sources_.end()) return it->second;
    sources_[v] = Source::Other;  // while under way
    Source result = Source::Invariant;
    if (v->def) {
      if (!v->def->has(Pure) || !v->def->regions.empty()) result = Source::Other;
      for (const Value* operand : v->def->operands) result = std::max(result, source(operand));
    } else {
      result = v->index == 0 || growth(v) ? Source::Iteration : Source::Other;
    }
    return sources_[v] = result;
  }

  // For a carried value p whose next one is p + d with d invariant: the op that adds.
  const Op* growth(const Value* arg) {
    const Op* op = body_.terminator()->operands[arg->index - 1]->def;
    if (!op || (op->opcode != Opcode::AddPtr && !(op->opcode == Opcode::Add && op->result()->type.is_integer())))
      return nullptr;
    if (op->operands[0] == arg && source(op->operands[1]) == Source::Invariant) return op;
    if (op->opcode == Opcode::Add && op->operands[1] == arg && source(op->operands[0]) == Source::Invariant) return op;
    return nullptr;
  }

  std::vector<Op*> candidates() {
    std::vector<const Value*> written;
    if (orders_memory(body_, written)) return {};
    std::vector<Op*> loads;
    for (auto& op : body_.ops) {
      if (op->opcode != Opcode::Load) continue;
      Source of = Source::Invariant;
      for (const Value* v : op->operands) of = std::max(of, source(v));
      if (of != Source::Iteration) continue;
      if (apart(op->operands[0], written)) loads.push_back(op.get());
    }
    return loads;
  }

  // Takes out of `loads` those that go through shared memory.
  std::vector<Op*> take_copies(std::vector<Op*>& loads, int64_t num_stages) {
    std::vector<Op*> copied;
    if (!target_.has(Feature::CpAsync) || num_stages < 2) return copied;
    std::unordered_map<const Value*, std::vector<const Op*>> users;
    walk(body_, [&](const Op& op) {
      for (const Value* v : op.operands)
        if (v) users[v].push_back(&op);
    });
    // Nothing but dots take it, transposed or not.
    std::function<bool(const Value*)> only_multiplied = [&](const Value* v) {
      const std::vector<const Op*>& of = users[v];
      return !of.empty() && std::all_of(of.begin(), of.end(), [&](const Op* op) {
        return op->opcode == Opcode::Trans ? only_multiplied(op->result())
                                           : op->opcode == Opcode::Dot && v != op->operands[2];
      });
    };
    for (Op* load : loads)
      if (only_multiplied(load->result()) && copyable(*load)) copied.push_back(load);
    if (copied.empty() || shared_slots(copied) < 2) copied.clear();
    std::erase_if(loads, [&](Op* load) { return contains(copied, load); });
    return copied;
  }

  static bool contains(const std::vector<Op*>& loads, const Op* op) {
    return std::find(loads.begin(), loads.end(), op) != loads.end();
  }

  // How often what these load fits shared memory, beside operands of the body's dots that share_operands will put
  // there.
  int64_t shared_slots(const std::vector<Op*>& loads) {
    int64_t bytes = 0, room = shared_for_copies_;
    for (const Op* load : loads) bytes += place_bytes(load->result()->type);
    std::unordered_set<const Value*> stored;
    for (auto& op : body_.ops)
      if (op->opcode == Opcode::Dot && by_wgmma(*op))
        for (int i : {0, 1})
          if (form(*op, i, loads) == OperandForm::Stored) stored.insert(untransposed(op->operands[i]));
    for (const Value* v : stored) room -= place_bytes(v->type) * (inside(v) ? 2 : 1);
    return room / std::max<int64_t>(bytes, 1);
  }

  // Whether wgmma will multiply it, which may ask for operands in the right order where they are copied.
  bool by_wgmma(const Op& dot) const {
    auto plan = plan_wgmma(dot, target_, num_warps_);
    for (int i : {0, 1}) {
      if (!plan || plan->instruction->order == MmaOrder::AnyOrder) break;
      const Op* load = untransposed(dot.operands[size_t(i)])->def;
      if (load && load->opcode == Opcode::Load && load->parent == &body_ && copyable(*load) &&
          contiguous_axis(*load) != untransposed_k_axis(dot, i))
        return false;
    }
    return plan.has_value();
  }

  // Of the place that the load's tile is copied to.
  int contiguous_axis(const Op& load) const { return fastest_axes(axes_->info(load.operands[0]))[0]; }
  OperandForm form(const Op& dot, int operand, const std::vector<Op*>& loads) const {
    return operand_form(dot, operand, target_, num_warps_,
                        [&](const Value* v) { return is_place_read(v) || (v->def && contains(loads, v->def)); });
  }

  // The body's first dot, if it will run beside the program.
  Op* asynchronous_dot() const {
    auto dot = std::find_if(body_.ops.begin(), body_.ops.end(), [](auto& op) { return op->opcode == Opcode::Dot; });
    return dot != body_.ops.end() && by_wgmma(**dot) ? dot->get() : nullptr;
  }

  // The asynchronous dot, if its sums may stay in flight: it only sums up, and its operands outlive an iteration.
  Op* summed_dot(const std::vector<Op*>& loads) const {
    Op* dot = asynchronous_dot();
    if (!dot || !is_sum_of_loop(*dot)) return nullptr;
    for (int i : {0, 1}) {
      OperandForm of = form(*dot, i, loads);
      if (of == OperandForm::Fragment || (of == OperandForm::Stored && inside(untransposed(dot->operands[i]))))
        return nullptr;
    }
    return dot;
  }

  // An asynchronous copy moves 4, 8 or 16 bytes, and fills with zeros.
  bool copyable(const Op& load) const {
    const Value *ptr = load.operands[0], *mask = load.operand(1), *other = load.operand(2);
    const Type& type = load.result()->type;
    if (type.rank() < 2 || type.is_bool() || type.pointer || (other && !is_zero(other))) return false;
    int64_t width = 1;
    for (int axis = 0; axis < type.rank(); ++axis)
      width = std::max<int64_t>(width, axes_->vector_width(ptr, mask, axis));
    width = std::min(width, type.num_elements() / (kThreadsPerWarp * num_warps_));
    return width * elem_bytes(type.elem) >= 4;
  }

  // The ops of the body that its dots' operands are computed from.
  std::unordered_set<const Op*> feeding_dots() const {
    std::unordered_set<const Op*> feeding;
    for (auto it = body_.ops.rbegin(); it != body_.ops.rend(); ++it) {
      if ((*it)->opcode != Opcode::Dot && !feeding.contains(it->get())) continue;
      for (const Value* v : (*it)->operands)
        if (v && v->def) feeding.insert(v->def);
    }
    return feeding;
  }

  // ---- Another iteration's values
  // Iteration `ahead` counted from the first one (before the loop) or from the current one (in the body).
  struct Iteration {
    Builder build;
    int ahead;
    bool before_loop;
    ValueMap values;  // of the body -> of that iteration
  };

  Value* start(const Iteration& it, const Value* arg) const {
    return it.before_loop ? loop_.operands[arg->index == 0 ? 0 : kForBounds + arg->index - 1]
                          : body_.args[arg->index].get();
  }

  Value* value_at(Iteration& it, Value* v) {
    if (!v || !inside(v)) return v;
    if (auto found = it.values.find(v); found != it.values.end()) return found->second;
    if (!v->def) return it.values[v] = argument_at(it, v);
    for (Value* operand : v->def->operands) value_at(it, operand);
    int index = v->index;
    return it.build.insert(clone_op(*v->def, it.values))->result(index);
  }

  Value* argument_at(Iteration& it, const Value* arg) {
    Value* value = start(it, arg);
    if (arg->index == 0) return it.ahead ? it.build.add(value, distance(it, loop_.operands[2])) : value;
    const Op* grow = growth(arg);
    Value* step = value_at(it, grow->operands[0] == arg ? grow->operands[1] : grow->operands[0]);
    for (int i = 0; i < it.ahead; ++i) value = it.build.create(grow->opcode, {value, step})->result();
    return value;
  }

  Value* distance(Iteration& it, Value* step) { return it.build.mul(step, it.build.constant(step->type, it.ahead)); }

  // Whether the loop gets to that iteration.
  Value* exists(Iteration& it) {
    Value* at = wide(it.build, start(it, body_.args[0].get()));
    return within_loop(it.build, loop_,
                       it.ahead ? it.build.add(at, distance(it, wide(it.build, loop_.operands[2]))) : at);
  }

  // Calls access(load, its pointer, its mask) for that iteration; the mask is false where there is none.
  void issue(Iteration& it, const std::vector<Op*>& loads, const std::function<void(Op*, Value*, Value*)>& access) {
    it.build.set_loc(loop_.loc);
    Value* alive = exists(it);
    for (Op* load : loads) {
      it.build.set_loc(load->loc);
      Value* pointer = value_at(it, load->operands[0]);
      Value* mask = value_at(it, load->operand(1));
      Value* here = pointer->type.is_tile() ? it.build.splat(alive, pointer->type.shape) : alive;
      access(load, pointer, mask ? it.build.bit_and(here, mask) : here);
    }
  }

  std::vector<Value*> load_at(Iteration& it, const std::vector<Op*>& loads) {
    std::vector<Value*> loaded;
    issue(it, loads, [&](Op* load, Value* pointer, Value* mask) {
      loaded.push_back(it.build.load(pointer, mask, value_at(it, load->operand(2)), load->attrs));
    });
    return loaded;
  }

  // ---- The loop
  void pipeline(const std::vector<Op*>& loads, int ahead) {
    std::vector<std::vector<Value*>> queue;  // iteration, load
    for (int i = 0; i < ahead; ++i) {
      Iteration first{Builder(), i, true, {}};
      first.build.set_before(&loop_);
      queue.push_back(load_at(first, loads));
    }
    Iteration later{Builder(), ahead, false, {}};
    later.build.set_before(body_.ops.front().get());
    std::vector<Value*> next = load_at(later, loads);

    Op& yield = *body_.terminator();
    for (size_t i = 0; i < loads.size(); ++i) {
      Value* head = nullptr;
      for (int stage = 0; stage < ahead; ++stage) {
        Value* arg = carry(loop_, queue[stage][i]);
        if (stage == 0)
          head = arg;
        else
          yield.operands.push_back(arg);
      }
      yield.operands.push_back(next[i]);
      replace_uses(body_, loads[i]->result(), head);
    }
  }

  // ---- Through shared memory
  void copy_ahead(const std::vector<Op*>& loads, int ahead, int extra_slots) {
    const int64_t slots = ahead + extra_slots;
    Builder before;
    before.set_before(&loop_);
    before.set_loc(loop_.loc);
    std::unordered_map<const Op*, Value*> buffers;
    for (Op* load : loads) buffers[load] = alloc_place(before, load->result()->type, slots, contiguous_axis(*load));
    auto copy = [&](Iteration& it, Value* index) {
      issue(it, loads, [&](Op* load, Value* pointer, Value* mask) {
        it.build.create(Opcode::AsyncCopy, {pointer, slot_of(it.build, buffers.at(load), index), mask});
      });
      it.build.create(Opcode::AsyncCommit, {});
    };
    auto wait = [](Builder& build, int64_t pending) {
      build.create(Opcode::AsyncWait, {}, {}, {{"pending", pending}});
    };

    for (int i = 0; i < ahead; ++i) {
      Iteration first{Builder(), i, true, {}};
      first.build.set_before(&loop_);
      copy(first, first.build.constant(Type::scalar(Elem::I32), i));
    }
    Value *read = rotate(loop_, 0, slots), *write = rotate(loop_, ahead, slots);

    Builder top;
    top.set_before(body_.ops.front().get());
    top.set_loc(loop_.loc);
    wait(top, ahead - 1);
    Iteration later{Builder(), ahead, false, {}};
    // Behind a first dot that runs beside the copies, else at once.
    if (Op* dot = asynchronous_dot())
      later.build.set_after(dot);
    else
      later.build.set_before(std::next(body_.ops.begin())->get());
    copy(later, write);
    for (Op* load : loads) {
      Builder here;
      here.set_before(load);
      here.set_loc(load->loc);
      Value* place = slot_of(here, buffers.at(load), read);
      replace_uses(body_, load->result(), here.create(Opcode::SharedRead, {place}, {load->result()->type})->result());
    }
    Builder after;
    after.set_after(&loop_);
    after.set_loc(loop_.loc);
    wait(after, 0);
  }

  Op& loop_;
  Block& body_;
  Func& func_;
  const Target& target_;
  int64_t shared_for_copies_;
  int num_warps_;
  std::unordered_map<const Value*, Source> sources_;
  std::optional<AxisAnalysis> axes_;
};

}  // namespace

void passes::prefetch(Func& func, PassContext& context) {
  std::vector<Op*> loops;
  walk(func.body, [&](Op& op) {
    if (op.opcode == Opcode::For) loops.push_back(&op);
  });
  bool changed = false;
  for (Op* loop : loops) {
    bool own = loop->attrs.contains("num_stages");
    auto& ops = loop->regions[0]->ops;
    if (!own && std::none_of(ops.begin(), ops.end(), [](auto& op) { return op->opcode == Opcode::Dot; })) continue;
    int64_t num_stages = loop->attr_int("num_stages", func.num_stages());
    if (num_stages <= 1) continue;
    loop->attrs["num_stages"] = int64_t(1);
    LoopPrefetch(*loop, func, context).run(num_stages, own);
    changed = true;
  }
  if (changed) canonicalize(func, context);
}

}  // namespace tegula
