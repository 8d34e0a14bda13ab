// Puts operands of dots into shared memory, where wgmma reads them.
//
//   b = cast(...)                                      place = shared_alloc, before the loop that holds it
//   acc = dot(a, b, acc)                        ->     b = cast(...)
//                                                      shared_store b, place; barrier
//                                                      acc = dot(a, shared_read place, acc)
//
// Only where the target has wgmma, which then multiplies; where an operand finds no room the dot stays as it is, and so
// do the forms of operand_form that need no storing. A value from outside of the dot's loop is stored once, behind its
// definition. A transposed value is stored before it is transposed, and one that several dots take is stored once.
//
// Values of a loop's iterations take several places in turn, where the function has num_stages beyond 1: then the
// barrier behind the stores is the only one of an iteration. With two places all threads have, at that barrier, waited
// for the dot of the iteration before the last one, which read what the next iteration's stores replace. With three the
// sums of a dot that is_sum_of_loop may stay in flight until the next one has begun (attribute `pending`).
#include <algorithm>
#include <unordered_map>

#include "codegen/analysis/shared_plan.h"
#include "codegen/analysis/wgmma.h"
#include "codegen/ir/builder.h"
#include "codegen/passes/loop_slots.h"
#include "codegen/passes/passes.h"

namespace tegula {

using namespace ir;

namespace {

class Sharer {
 public:
  Sharer(Func& func, const PassContext& context) : func_(func), target_(context.target) {
    room_ = target_.shared_per_program - context.shared_for_others;
    walk(func.body, [&](const Op& op) {
      if (op.opcode == Opcode::SharedAlloc) room_ -= place_bytes(op.result()->type) * op.attr_int("slots");
    });
  }

  bool run() {
    std::vector<Op*> dots;
    walk(func_.body, [&](Op& op) {
      if (op.opcode == Opcode::Dot && plan_wgmma(op, target_, func_.num_warps())) dots.push_back(&op);
    });
    bool changed = false;
    for (Op* dot : dots) changed |= share(*dot);
    return changed;
  }

 private:
  bool share(Op& dot) {
    std::vector<Value*> fixed, moving;  // what is to be stored: before the dot's loop, in each of its iterations
    std::vector<int> operands;
    for (int i : {0, 1}) {
      if (operand_form(dot, i, target_, func_.num_warps()) != OperandForm::Stored) continue;
      operands.push_back(i);
      Value* value = untransposed(dot.operands[i]);
      if (places_.contains(value)) continue;
      auto& list = home(value) == dot.parent ? moving : fixed;
      if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
    }
    if (!store(dot, fixed, moving)) {
      dot.attrs.erase("pending");
      return false;
    }
    for (int i : operands) dot.operands[i] = read(dot.operands[i], dot);
    return !operands.empty();
  }

  static Block* home(const Value* v) { return v->def ? v->def->parent : v->block; }
  static int64_t bytes_of(const std::vector<Value*>& values) {
    int64_t bytes = 0;
    for (const Value* v : values) bytes += place_bytes(v->type);
    return bytes;
  }

  // False if there is no room.
  bool store(Op& dot, const std::vector<Value*>& fixed, const std::vector<Value*>& moving) {
    const int64_t once = bytes_of(fixed), each = bytes_of(moving);
    if (once + each > room_) return false;
    Op* loop = dot.parent->parent && dot.parent->parent->opcode == Opcode::For ? dot.parent->parent : nullptr;
    int64_t slots = 1;
    if (!moving.empty()) {
      const bool turns = loop && func_.num_stages() > 1;
      const bool from_fragments = operand_form(dot, 0, target_, func_.num_warps()) == OperandForm::Fragment;
      const bool copies = is_place_read(untransposed(dot.operands[0])) || is_place_read(untransposed(dot.operands[1]));
      // The slots of asynchronous copies were counted with or without sums in flight.
      bool summed = turns && !from_fragments && (copies ? dot.attr_int("pending") == 1 : is_sum_of_loop(dot));
      summed = summed && once + 3 * each <= room_;
      if (turns && once + 2 * each <= room_) slots = summed ? 3 : 2;
      dot.attrs.erase("pending");
      if (summed) dot.attrs["pending"] = int64_t(1);
    }
    room_ -= once + slots * each;
    for (Value* v : fixed) {
      Op* user = &dot;
      while (user->parent != home(v)) user = user->parent->parent;
      Builder builder;
      builder.set_before(user);
      builder.set_loc(dot.loc);
      put(builder, v, alloc_place(builder, v->type, 1));
      barrier(builder);
    }
    if (moving.empty()) return true;
    Builder before, here;
    before.set_before(loop ? loop : &dot), before.set_loc(dot.loc);
    Value* index = slots > 1 ? rotate(*loop, 0, slots) : nullptr;
    here.set_before(&dot), here.set_loc(dot.loc);
    for (Value* v : moving) {
      Value* place = alloc_place(before, v->type, slots);
      put(here, v, index ? slot_of(here, place, index) : place);
    }
    barrier(here);
    return true;
  }

  void put(Builder& builder, Value* value, Value* place) {
    builder.create(Opcode::SharedStore, {value, place});
    places_[value] = place;
  }
  static void barrier(Builder& builder) { builder.create(Opcode::Barrier, {}, {}, {{"for_dots", true}}); }

  // The operand, read from where it was stored.
  Value* read(Value* operand, Op& dot) {
    Builder builder;
    builder.set_before(&dot);
    builder.set_loc(dot.loc);
    if (auto it = places_.find(operand); it != places_.end())
      return builder.create(Opcode::SharedRead, {it->second}, {operand->type})->result();
    Value* x = read(operand->def->operands[0], dot);
    return builder.trans(x, operand->def->attr_ints("order"));
  }

  Func& func_;
  const Target& target_;
  int64_t room_;
  std::unordered_map<const Value*, Value*> places_;  // of what is stored
};

}  // namespace

void passes::share_operands(Func& func, PassContext& context) {
  if (context.target.has(Feature::Wgmma) && Sharer(func, context).run()) canonicalize(func, context);
}

}  // namespace tegula
