#include "codegen/pipeline/partition.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>

#include "codegen/analysis/occupancy.h"
#include "codegen/analysis/shared_plan.h"
#include "codegen/ir/builder.h"
#include "codegen/ir/flow.h"
#include "codegen/layout/makers.h"
#include "codegen/pipeline/edit.h"
#include "codegen/pipeline/fit.h"
#include "codegen/pipeline/loop_values.h"
#include "runtime/base/check.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int kWarps = 4;  // that copy: registers change hands among four at least
constexpr int kThreadsPerWarp = 32;
constexpr int kWarpsOfGroup = 4;
constexpr int kMostThreads = 1024;

Builder at_end(Block& block) {
  Builder build;
  build.set_end(&block);
  return build;
}

Value* truth(Builder& build, bool value) { return build.constant(Type::scalar(Elem::I1), value); }

// Barriers that copy_warps share with the program, at the function's begin.
Value* alloc_barriers(Func& func, int64_t slots, int64_t arrivals) {
  Builder first = before(*func.body.ops.front());
  Value* barriers = first
                        .create(Opcode::SharedAlloc, {}, {Type::place(Elem::I64, {1})},
                                {{attr::slots, slots}, {attr::barriers, true}, {attr::arrivals, arrivals}})
                        ->result();
  barriers->type.layout = std::make_shared<LinearLayout>(swizzled_shared_layout({1}, {0}, 1, 1, 1));
  return barriers;
}

// The slot that is next, and the number modulo 2 of its barriers' phase, carried by a loop.
struct Turn {
  Value *slot, *phase;
};
Turn carry_turn(Op& loop, Value* zero, int64_t slots) {
  Value* slot = carry(loop, zero);
  Value* next = rotate(loop, slot, slots);
  Value* phase = carry(loop, zero);
  Builder top = behind(*next->def);
  loop.regions[0]->terminator()->operands.push_back(top.bit_xor(phase, top.cast(top.lt(next, slot), Elem::I32)));
  return {slot, phase};
}

struct Copied {
  Op* copy;
  Value *place, *full, *empty;
};

// ------------------------------------------------------------------------------------------- the warps that copy

Op* copy_warps_of(const Func& func) {
  for (auto& op : func.body.ops)
    if (op->opcode == Opcode::CopyWarps) return op.get();
  return nullptr;
}

Op& copy_warps_of_or_new(Func& func) {
  if (Op* op = copy_warps_of(func)) return *op;
  Builder last = before(*func.body.terminator());
  Op* op = last.create(Opcode::CopyWarps, {}, {}, {{attr::warps, int64_t(kWarps)}, {attr::registers, Ints{}}});
  at_end(*op->regions[0]).create(Opcode::Yield, {});
  return *op;
}

// The layout spread over fewer warps: the last bits of the warp become registers.
LayoutRef over_warps(const LayoutRef& layout, int bits) {
  std::vector<LinearLayout::In> ins = layout->ins();
  auto of = [&](Dim dim) {
    return std::find_if(ins.begin(), ins.end(), [&](const LinearLayout::In& in) { return in.dim == dim; });
  };
  auto registers = of(Dim::Register), warps = of(Dim::Warp);
  if (registers == ins.end() || warps == ins.end()) return layout;
  while (int(warps->bases.size()) > bits) {
    registers->bases.push_back(warps->bases.back());
    warps->bases.pop_back();
  }
  return std::make_shared<LinearLayout>(std::move(ins), layout->outs());
}

// The loop that copies, computed anew from the function's parameters.
class CopyLoop {
 public:
  CopyLoop(Func& func, Op& loop) : func_(func), parts_(loop), warps_(copy_warps_of_or_new(func)) {}

  /// False: the copies cannot be computed there; then nothing is left behind.
  bool build(const std::vector<Copied>& copies, int64_t slots) {
    Block& region = *warps_.regions[0];
    outside_ = before(*region.terminator());
    Value *lower = follow(parts_.lower()), *upper = follow(parts_.upper()), *step = follow(parts_.step());
    if (failed_) return give_up();
    outside_.set_loc(parts_.op().loc);
    loop_ = outside_.create(Opcode::For, {lower, upper, step}, {});
    outside_.set_before(loop_);
    Block& body = *loop_->regions[0];
    known_[parts_.induction()] = body.add_arg(lower->type);
    at_end(body).create(Opcode::Yield, {});
    inside_ = before(*body.terminator());
    const Turn turn = carry_turn(*loop_, number(outside_, 0), slots);
    const Issued last = carry_last(copies.back(), turn);
    Issued ahead = last;
    for (const Copied& copied : copies) ahead = issue(copied, turn, ahead);
    body.terminator()->operands.push_back(ahead.token);
    for (size_t i = 0; i < carried_.size() && !failed_; ++i)
      body.terminator()->operands.push_back(follow(parts_.next(carried_[i])));
    if (failed_) return give_up();
    Builder after = behind(*loop_);
    const ForLoop loop(*loop_);
    after.create(Opcode::AsyncWait, {loop.result(*loop.number(last.token))});
    arrive(after, {nullptr, slot_of(after, copies.back().full, loop.result(*loop.number(last_slot_))),
                   loop.result(*loop.number(last.exists))});
    return true;
  }

 private:
  // Copies under way: their token, the barrier that is to know when they are over, and whether there are any.
  struct Issued {
    Value *token, *full, *exists;
  };

  // Those of the last place in the iteration before.
  Issued carry_last(const Copied& copied, const Turn& turn) {
    Op& yield = *loop_->regions[0]->terminator();
    last_slot_ = carry(*loop_, number(outside_, 0));
    yield.operands.push_back(turn.slot);
    Value* exists = carry(*loop_, truth(outside_, false));
    yield.operands.push_back(truth(inside_, true));
    Value* none = outside_.create(Opcode::AsyncCommit, {}, {Type::token(Completion::Group)})->result();
    Value* token = carry(*loop_, none);  // the caller appends what the body yields
    return {token, slot_of(inside_, copied.full, last_slot_), exists};
  }

  // Issues copies, and waits for those issued before them: so there are always some under way.
  Issued issue(const Copied& copied, const Turn& turn, const Issued& before) {
    Value *pointer = follow(copied.copy->operand(0)), *mask = nullptr;
    if (copied.copy->operand(2)) mask = follow(copied.copy->operand(2));
    if (failed_) return before;
    inside_.set_loc(copied.copy->loc);
    inside_.create(Opcode::PhaseWait, {slot_of(inside_, copied.empty, turn.slot), turn.phase});
    inside_.create(Opcode::AsyncCopy, {pointer, slot_of(inside_, copied.place, turn.slot), mask}, {},
                   copied.copy->attrs);
    Value* token = inside_.create(Opcode::AsyncCommit, {}, {Type::token(Completion::Group)})->result();
    inside_.create(Opcode::AsyncWait, {before.token});
    arrive(inside_, before);
    return {token, slot_of(inside_, copied.full, turn.slot), nullptr};
  }

  static void arrive(Builder& build, const Issued& issued) {
    std::vector<Value*> operands{issued.full};
    if (issued.exists) operands.push_back(issued.exists);
    build.create(Opcode::PhaseArrive, std::move(operands), {}, {{attr::async_proxy, true}});
  }

  // The value as these warps have it; null, and failed_, where they cannot.
  Value* follow(Value* v) {
    if (failed_) return nullptr;
    if (auto known = known_.find(v); known != known_.end()) return known->second;
    if (v->block == &func_.body) return v;
    const bool in_loop = home(v) == &parts_.body();
    if (in_loop && !v->def) return follow_carried(v);
    const bool possible = v->def && (in_loop || home(v) == &func_.body) && v->def->has(Pure) &&
                          v->def->regions.empty() && !is_product(*v->def) && !v->type.is_place();
    if (!possible) return fail();
    for (Value* operand : v->def->operands)
      if (operand && !follow(operand)) return nullptr;
    std::unique_ptr<Op> op = clone_op(*v->def, known_);
    for (auto& result : op->results)
      if (result->type.layout) result->type.layout = spread(result->type.layout);
    if (scratch_bytes(*op, kWarps) > 0) return fail();
    return (in_loop ? inside_ : outside_).insert(std::move(op))->result(v->index);
  }

  Value* follow_carried(Value* v) {
    const size_t i = *parts_.number(v);
    Value* begin = follow(parts_.init(i));
    if (!begin) return nullptr;
    carried_.push_back(i);
    return known_[v] = carry(*loop_, begin);
  }

  LayoutRef spread(const LayoutRef& layout) {
    LayoutRef& known = layouts_[layout];
    return known ? known : known = over_warps(layout, std::bit_width(unsigned(kWarps)) - 1);
  }

  Value* fail() {
    failed_ = true;
    return nullptr;
  }
  // What was computed for the loop is dead without it.
  bool give_up() {
    if (loop_) erase(*loop_);
    const auto& ops = warps_.regions[0]->ops;
    if (std::none_of(ops.begin(), ops.end(), [](auto& op) { return op->opcode == Opcode::For; })) erase(warps_);
    return false;
  }

  Func& func_;
  const ForLoop parts_;
  Op& warps_;
  Op* loop_ = nullptr;
  Value* last_slot_ = nullptr;
  Builder outside_, inside_;
  ValueMap known_;
  std::vector<size_t> carried_;  // in the order in which the new loop carries them
  std::map<LayoutRef, LayoutRef> layouts_;
  bool failed_ = false;
};

// ----------------------------------------------------------------------------------------------- the program's warps

// The op of the body that holds the op.
Op* in_body(Op* op, const Block& body) {
  while (op->parent != &body) op = op->parent->parent;
  return op;
}

// Where the body begins to read a place and where it is done.
struct Span {
  Op *first = nullptr, *last = nullptr;
};
Span span_of_uses(const Block& body, const Value* place) {
  std::vector<const Value*> views{place};
  std::unordered_map<const Value*, const Op*> waits;
  walk(body, [&](const Op& op) {
    if (op.opcode == Opcode::MmaWait) waits[op.operand(0)] = &op;
  });
  Span span;
  walk(body, [&](const Op& op) {
    const bool uses = std::any_of(op.operands.begin(), op.operands.end(), [&](const Value* v) {
      return std::find(views.begin(), views.end(), v) != views.end();
    });
    if (!uses) return;
    if (op.results.size() == 1 && op.result()->type.is_place()) return views.push_back(op.result());
    const Op* done = &op;
    if (op.opcode == Opcode::MmaStart) {
      done = waits[op.result()];
      TEGULA_CHECK(done && done->get(attr::pending) == 0, "a product that its loop does not wait for");
    }
    if (!span.first) span.first = in_body(const_cast<Op*>(&op), body);
    span.last = in_body(const_cast<Op*>(done), body);
  });
  TEGULA_CHECK(span.first, "nobody reads what a loop copies");
  return span;
}

void read_slots(Op& loop, const Copied& copied, const Turn& turn) {
  Block& body = *loop.regions[0];
  const Span span = span_of_uses(body, copied.place);
  std::vector<Op*> readers;
  walk(body, [&](Op& op) {
    if (std::find(op.operands.begin(), op.operands.end(), copied.place) != op.operands.end()) readers.push_back(&op);
  });
  Builder first = before(*span.first);
  first.create(Opcode::PhaseWait, {slot_of(first, copied.full, turn.slot), turn.phase});
  Builder last = behind(*span.last);
  last.create(Opcode::PhaseArrive, {slot_of(last, copied.empty, turn.slot)});
  for (Op* op : readers)
    for (Value*& v : op->operands)
      if (v == copied.place) {
        Builder here = before(*op);
        v = slot_of(here, v, turn.slot);
      }
}

// Whether products of the loop read what the program has stored ahead of it.
bool reads_stored(const Op& loop, const std::vector<Copied>& copies) {
  bool found = false;
  walk(*loop.regions[0], [&](const Op& op) {
    if (op.opcode != Opcode::MmaStart) return;
    for (int i : {0, 1}) {
      if (!op.operand(i)->type.is_place()) continue;
      const Op* alloc = alloc_of(op.operand(i));
      found |=
          std::none_of(copies.begin(), copies.end(), [&](const Copied& copied) { return copied.place->def == alloc; });
    }
  });
  return found;
}

// Registers of a thread, multiples of 8. What a program has at its start is all that its threads can share.
struct Registers {
  int64_t at_start, program, copying;
};
Registers share_registers(const Func& func, const Target& target) {
  const int64_t threads = kThreadsPerWarp * func.num_warps(), copying_threads = kThreadsPerWarp * kWarps;
  auto whole = [](int64_t registers) { return std::min<int64_t>(registers, 255) / 8 * 8; };
  const int64_t at_start = whole(target.registers_per_sm / (threads + copying_threads));
  constexpr int64_t kCopying = 72;  // addresses of the copies of an iteration
  return {at_start, whole((at_start * (threads + copying_threads) - kCopying * copying_threads) / threads), kCopying};
}

// Inline assembly may hold a barrier of all threads, which the copying warps would never come to.
bool is_understood(const Func& func) {
  bool understood = true;
  walk(func.body, [&](const Op& op) { understood &= op.opcode != Opcode::InlineAsmEffects; });
  return understood;
}

bool can_copy(const Op& copy, const Target& target) {
  const int bytes = copy.operand(1)->type.bits() / 8;
  return target.has(Feature::CpAsync) && copy.get(attr::vector) * bytes >= 4;
}

}  // namespace

bool partition(Func& func, const Target& target, Op& loop, const LoopSchedule& schedule, int64_t wanted) {
  const int threads = kThreadsPerWarp * (func.num_warps() + kWarps);
  if (!target.has(Feature::Wgmma) || func.num_warps() % kWarpsOfGroup || threads > kMostThreads) return false;
  if (loop.parent != &func.body || !schedule.product || !schedule.stores.empty() || func.maxnreg()) return false;
  // The assembler compiles no instruction that takes more registers than a thread has at its start.
  if (!products_fit(func, share_registers(func, target).at_start) || !is_understood(func)) return false;
  for (const Op* copy : schedule.copies)
    if (!can_copy(*copy, target)) return false;
  std::vector<Copied> copies;
  for (Op* copy : schedule.copies)
    copies.push_back(
        {copy, copy->operand(1), alloc_barriers(func, wanted, kWarps), alloc_barriers(func, wanted, func.num_warps())});
  const int64_t slots = fit_slots(func, target, {schedule.copies}, wanted);
  for (const Copied& copied : copies)
    for (const Value* barriers : {copied.full, copied.empty}) barriers->def->set(attr::slots, slots);
  if (slots < 2 || !CopyLoop(func, loop).build(copies, slots)) {
    for (const Copied& copied : copies) erase(*copied.full->def), erase(*copied.empty->def);
    return false;
  }
  // The room may have been used for something else before: the copies wait until all warps are here. Behind that no
  // warp is to wait for another one.
  Builder first = before(loop);
  if (reads_stored(loop, copies)) first.create(Opcode::Barrier, {}, {}, {{attr::async_proxy, true}});
  for (const Copied& copied : copies) {
    copied.place->def->set(attr::slots, slots);
    for (int64_t slot = 0; slot < slots; ++slot)
      first.create(Opcode::PhaseArrive, {slot_of(first, copied.empty, number(first, slot))});
  }
  for (const Copied& copied : copies) take_copy(*copied.copy);
  const Turn turn = carry_turn(loop, number(first, 0), slots);
  for (const Copied& copied : copies) read_slots(loop, copied, turn);
  return true;
}

// -------------------------------------------------------------------------------------------------------- balance

namespace {

// Whether the program's warps may have to wait for each other at the op.
bool may_wait(const Op& op, int num_warps) {
  return op.opcode == Opcode::Barrier || op.opcode == Opcode::SharedStore || op.opcode == Opcode::AtomicRmw ||
         scratch_bytes(op, num_warps) > 0;
}

// The two products of a loop whose operands copy_warps bring, in order; none where there are fewer or more, or where
// warps wait for each other: a warpgroup that waits for its turn would keep the other one waiting for ever.
std::optional<std::pair<Op*, Op*>> two_products(const Op& loop, int num_warps) {
  std::vector<Op*> products;
  bool partitioned = false, together = false;
  walk(*loop.regions[0], [&](const Op& op) { together |= may_wait(op, num_warps); });
  if (together) return std::nullopt;
  for (auto& op : loop.regions[0]->ops) {
    partitioned |= op->opcode == Opcode::PhaseWait;
    if (op->opcode == Opcode::MmaStart) products.push_back(op.get());
  }
  int all = 0;
  walk(*loop.regions[0], [&](const Op& op) { all += is_product(op); });
  if (!partitioned || products.size() != 2 || all != 2) return std::nullopt;
  return std::pair(products[0], products[1]);
}

// A warpgroup's turn is the second product of an iteration and the first one of the next: what comes between the two
// is computed while the other warpgroup multiplies. The first one has the first turn.
void take_turns(Func& func, Op& loop, Op& first, Op& second) {
  Value* turns = alloc_barriers(func, func.num_warps() / kWarpsOfGroup, kWarpsOfGroup);
  Builder outside = before(loop);
  Value* phase = carry(loop, number(outside, 0));
  Builder wait = before(second);
  wait.create(Opcode::TurnWait, {turns, phase});
  loop.regions[0]->terminator()->operands.push_back(wait.bit_xor(phase, number(wait, 1)));
  Builder pass = behind(first);
  const ForLoop parts(loop);
  pass.create(Opcode::TurnPass, {turns, pass.ne(parts.induction(), parts.lower()), truth(pass, true)});
  Builder after = behind(loop);
  after.create(Opcode::TurnPass, {turns, truth(after, true), truth(after, false)});
}

}  // namespace

bool pays_to_partition(Func& func, const Target& target, const LoopSchedule& schedule, int64_t wanted) {
  constexpr int kLeastWarps = 2 * kWarpsOfGroup;
  if (schedule.sums_up || !schedule.product || func.num_warps() < kLeastWarps) return false;
  const int64_t slots = fit_slots(func, target, {schedule.copies}, wanted);
  if (programs_by_room(func, target, shared_bytes_with(func, schedule.copies, slots)) > 1 &&
      func.num_warps() <= kLeastWarps)
    return false;
  return expected_registers(func) <= share_registers(func, target).program;
}

void balance_groups(Func& func, const Target& target) {
  Op* copy_warps = copy_warps_of(func);
  if (!copy_warps) return;
  const Registers registers = share_registers(func, target);
  if (registers.program > registers.at_start) copy_warps->set(attr::registers, {registers.program, registers.copying});
  if (func.num_warps() != 2 * kWarpsOfGroup) return;
  std::vector<Op*> loops;
  for (auto& op : func.body.ops)
    if (op->opcode == Opcode::For) loops.push_back(op.get());
  for (Op* loop : loops)
    if (auto products = two_products(*loop, func.num_warps()))
      take_turns(func, *loop, *products->first, *products->second);
}

}  // namespace tegula
