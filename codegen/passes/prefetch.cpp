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
//     x = load(a(i))                                   async_copy a(lower) to slot 0; t0 = async_commit
//     acc = dot(x, ...)                                async_copy a(lower + s) to slot 1; t1 = async_commit
//                                                ->    for i, read = 0, write = 2, t0, t1
//                                                        async_wait t0
//                                                        async_copy a(i + 2 s) to slot write; t2 = async_commit
//                                                        acc = dot(shared_read slot read, ...)
//                                                        read, write each move on to the next slot, round and round
//                                                        carry t1, t2
//                                                      async_wait t0, t1
//
// One wait an iteration suffices, since it is a barrier too (where tokens are of barriers one follows): behind it all
// threads are done with the slot that was read in the iteration before, which is the one that is written next. Where
// the target's dots run beside the program and the loop does nothing but sum up one, its sums stay in flight until the
// next one has begun (attribute `pending` of the dot); then a slot may still be read one iteration longer, and there is
// one slot more.
//
// Where such a loop stands in another one, as in a persistent program, the last iterations of a round copy what the
// next round begins with (Rounds, LoadStream): copies are under way during what the round does behind its dots, slots
// and tokens go from round to round, and the wait of above stands behind the outer loop. A round then has as many
// iterations as copies run ahead at least, the last of them on zeros.
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
#include <utility>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/pointer_base.h"
#include "codegen/analysis/shared_plan.h"
#include "codegen/analysis/wgmma.h"
#include "codegen/ir/builder.h"
#include "codegen/passes/load_stream.h"
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
  LoopPrefetch(Op& loop, Func& func, const PassContext& context, bool join_rounds)
      : loop_(loop),
        body_(*loop.regions[0]),
        func_(func),
        target_(context.target),
        shared_for_copies_(context.target.shared_per_program - context.shared_for_others),
        completion_(context.completion),
        join_rounds_(join_rounds),
        num_warps_(func.num_warps()),
        sources_(loop) {}

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
    const int ahead = int(std::min(num_stages - 1, room - extra));
    std::unique_ptr<Rounds> rounds = join_rounds_ ? Rounds::of(loop_, copied, sources_, ahead) : nullptr;
    copy_ahead(copied, ahead, int(extra), summed, rounds.get());
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
  bool inside(const Value* v) const { return home(v) == &body_; }

  std::vector<Op*> candidates() {
    std::vector<const Value*> written;
    if (orders_memory(body_, written)) return {};
    std::vector<Op*> loads;
    for (auto& op : body_.ops) {
      if (op->opcode != Opcode::Load) continue;
      auto of = LoopSources::Source::Invariant;
      for (const Value* v : op->operands) of = std::max(of, sources_.of(v));
      if (of != LoopSources::Source::Iteration) continue;
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

  // Whether the induction variable is known to be.
  bool never_negative() const { return axes_->info(body_.args[0].get()).non_negative; }

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
    return width * elem_bytes(type.elem) >= kLeastCopyBytes;
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

  // ---- Through registers
  void pipeline(const std::vector<Op*>& loads, int ahead) {
    std::vector<std::vector<Value*>> queue;  // iteration, load
    std::vector<Value*> loaded;
    auto load = [&](Builder& build, Op* load, Value* pointer, Value* mask, Value* other) {
      loaded.push_back(build.load(pointer, mask, other, load->attrs));
    };
    LoadStream stream(loop_, loads, sources_, never_negative(), ahead);
    Builder build;
    build.set_before(&loop_);
    stream.begin(build, load, [&](int) { queue.push_back(std::exchange(loaded, {})); });
    build.set_before(body_.ops.front().get());
    stream.go_on(build, load);

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
      yield.operands.push_back(loaded[i]);
      replace_uses(body_, loads[i]->result(), head);
    }
  }

  // ---- Through shared memory
  // The loop's body carries one more value, and what is around it that the loads run through; the caller appends what
  // the body yields. `first` is of before all of them.
  Value* carry_through(Rounds* rounds, Value* first) {
    if (!rounds) return carry(loop_, first);
    Value* here = carry(loop_, carry(rounds->loop(), first));
    rounds->body().terminator()->operands.push_back(loop_.results.back().get());
    return here;
  }

  void copy_ahead(const std::vector<Op*>& loads, int ahead, int extra_slots, Op* summed, Rounds* rounds) {
    const int64_t slots = ahead + extra_slots;
    if (rounds) rounds->carry_scalars();
    Op& outermost = rounds ? rounds->loop() : loop_;
    Builder before;
    before.set_before(&outermost);
    before.set_loc(loop_.loc);
    std::unordered_map<const Op*, Value*> buffers;
    for (Op* load : loads) buffers[load] = alloc_place(before, load->result()->type, slots, contiguous_axis(*load));
    auto number = [&](int64_t value) { return before.constant(Type::scalar(Elem::I32), value); };
    // Barriers are taken as slots are; their phases end in turn, and all threads have waited for the one before when a
    // slot is written again.
    const bool by_barriers = completion_ == Completion::Barrier;
    Value* barriers = by_barriers ? before
                                        .create(Opcode::SharedAlloc, {}, {Type::place(Elem::I64, {1})},
                                                {{"slots", slots}, {"barriers", true}})
                                        ->result()
                                  : nullptr;
    Value *slot = nullptr, *phase = nullptr;
    auto copy = [&](Builder& build, Op* load, Value* pointer, Value* mask, Value*) {
      build.create(Opcode::AsyncCopy, {pointer, slot_of(build, buffers.at(load), slot), mask});
    };
    auto commit = [&](Builder& build) {
      std::vector<Value*> how;
      if (by_barriers) how = {slot_of(build, barriers, slot), phase};
      return build.create(Opcode::AsyncCommit, std::move(how), {Type::token(completion_)})->result();
    };

    LoadStream stream(loop_, loads, sources_, never_negative(), ahead, rounds);
    std::vector<Value*> tokens;  // of the iterations whose copies are under way
    slot = phase = number(0);
    stream.begin(before, copy, [&](int i) {
      tokens.push_back(commit(before));
      slot = number(i + 1);
    });
    Value* read = carry_through(rounds, number(0));
    rotate(loop_, read, slots);
    Value* write = carry_through(rounds, slot);
    Value* next_write = rotate(loop_, write, slots);
    if (by_barriers) {
      phase = carry_through(rounds, number(0));
      Builder top;
      top.set_after(next_write->def);
      top.set_loc(loop_.loc);
      Value* wraps = top.lt(next_write, write);
      body_.terminator()->operands.push_back(top.bit_xor(phase, top.cast(wraps, Elem::I32)));
    }
    std::vector<Value*> under_way;
    for (Value*& token : tokens) {
      token = carry_through(rounds, token);
      under_way.push_back(outermost.results.back().get());
    }

    Builder build;
    build.set_before(body_.ops.front().get());
    build.set_loc(loop_.loc);
    build.create(Opcode::AsyncWait, {tokens.front()});
    if (by_barriers) build.create(Opcode::Barrier, {});
    // Behind a first dot that runs beside the copies, else at once.
    if (Op* dot = asynchronous_dot()) build.set_after(dot);
    Op& yield = *body_.terminator();
    yield.operands.insert(yield.operands.end(), tokens.begin() + 1, tokens.end());
    slot = write;
    const size_t token_at = yield.operands.size();
    stream.go_on(build, copy);
    yield.operands.insert(yield.operands.begin() + int64_t(token_at), commit(build));
    for (Op* load : loads) {
      Builder here;
      here.set_before(load);
      here.set_loc(load->loc);
      Value* place = slot_of(here, buffers.at(load), read);
      replace_uses(body_, load->result(), here.create(Opcode::SharedRead, {place}, {load->result()->type})->result());
    }
    if (rounds && summed) begin_anew(*summed);
    Builder after;
    after.set_after(&outermost);
    after.set_loc(loop_.loc);
    after.create(Opcode::AsyncWait, under_way);
    if (by_barriers) {
      after.create(Opcode::Barrier, {});
      after.create(Opcode::SharedFree, {barriers});
    }
  }

  // Sums that begin with zeros begin with the first product instead; the loop has an iteration at least.
  void begin_anew(Op& dot) {
    Value*& begin = loop_.operands[kForBounds + size_t(dot.operand(2)->index) - 1];
    if (!is_zero(begin)) return;
    Builder build;
    build.set_before(&loop_);
    build.set_loc(dot.loc);
    begin = build.create(Opcode::Unset, {}, {begin->type})->result();
    build.set_before(&dot);
    dot.operands.resize(4);
    dot.operands[3] = build.ne(body_.args[0].get(), loop_.operands[0]);
  }

  Op& loop_;
  Block& body_;
  Func& func_;
  const Target& target_;
  int64_t shared_for_copies_;
  Completion completion_;
  bool join_rounds_;
  int num_warps_;
  LoopSources sources_;
  std::optional<AxisAnalysis> axes_;
};

}  // namespace

void passes::prefetch(Func& func, PassContext& context) {
  std::vector<Op*> loops;
  std::unordered_set<const Op*> unpipelined;  // by the user's word
  walk(func.body, [&](Op& op) {
    if (op.opcode != Opcode::For) return;
    loops.push_back(&op);
    if (op.attr_int("num_stages") == 1) unpipelined.insert(&op);
  });
  bool changed = false;
  for (Op* loop : loops) {
    bool own = loop->attrs.contains("num_stages");
    auto& ops = loop->regions[0]->ops;
    if (!own && std::none_of(ops.begin(), ops.end(), [](auto& op) { return op->opcode == Opcode::Dot; })) continue;
    int64_t num_stages = loop->attr_int("num_stages", func.num_stages());
    if (num_stages <= 1) continue;
    loop->attrs["num_stages"] = int64_t(1);
    const bool join_rounds = context.join_rounds && !unpipelined.contains(loop->parent->parent);
    LoopPrefetch(*loop, func, context, join_rounds).run(num_stages, own);
    changed = true;
  }
  if (changed) canonicalize(func, context);
}

}  // namespace tegula
