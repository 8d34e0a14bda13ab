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
// Where the function has num_stages beyond 1, values of a loop's iterations take two places in turn, so that one
// barrier an iteration suffices: all threads have waited for the dot of the iteration before. Those that follow by pure
// ops from what the loop carries (the prefetched loads) are stored one iteration ahead, while the dot is under way:
//
//   for x = q0, next = ...                             shared_store f(q0) to slot 0
//     y = load(...) of an iteration ahead        ->    for next = ..., read = 0, write = 1
//     acc = dot(a, f(x), acc)                            y = load(...) of an iteration ahead
//     carry next, y                                      barrier
//                                                        acc = dot(a, shared_read slot read, acc)
//                                                        shared_store f(next) to slot write
#include <algorithm>
#include <functional>
#include <map>
#include <unordered_set>

#include "codegen/analysis/shared_plan.h"
#include "codegen/analysis/wgmma.h"
#include "codegen/ir/builder.h"
#include "codegen/ir/flow.h"
#include "codegen/passes/loop_values.h"
#include "codegen/passes/passes.h"

namespace tegula {

using namespace ir;

namespace {

class Sharer {
 public:
  Sharer(Func& func, const PassContext& context) : func_(func), target_(context.target) {
    room_ = target_.shared_per_program - context.shared_for_others;
    walk(func.body, [&](const Op& op) {
      if (op.opcode == Opcode::SharedAlloc) room_ -= place_bytes(op.result()->type) * op.get(attr::slots);
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
  /// What is stored, and the axis whose elements must lie side by side; -1 where any may.
  using Tile = std::pair<Value*, int>;

  bool share(Op& dot) {
    std::vector<Tile> fixed, moving;  // what is to be stored: before the dot's loop, in each of its iterations
    std::vector<int> operands;
    for (int i : {0, 1}) {
      if (operand_form(dot, i, target_, func_.num_warps()) != OperandForm::Stored) continue;
      operands.push_back(i);
      const Tile tile = tile_of(dot, i);
      if (places_.contains(tile)) continue;
      auto& list = home(tile.first) == dot.parent ? moving : fixed;
      if (std::find(list.begin(), list.end(), tile) == list.end()) list.push_back(tile);
    }
    const bool stored = store(dot, fixed, moving);
    // Places that are taken in turn are as many as a dot needs that is waited for in its iteration.
    if (!stored || !moving.empty()) dot.clear(attr::pending);
    if (!stored) return false;
    for (int i : operands) {
      Builder builder = before(dot, dot.loc);
      dot.operands[i] = read(dot.operands[i], places_.at(tile_of(dot, i)), builder);
    }
    return !operands.empty();
  }

  Tile tile_of(const Op& dot, int operand) const {
    const bool any = plan_wgmma(dot, target_, func_.num_warps())->instruction->order == MmaOrder::AnyOrder;
    return {untransposed(dot.operands[operand]), any ? -1 : untransposed_k_axis(dot, operand)};
  }

  static int64_t bytes_of(const std::vector<Tile>& tiles) {
    int64_t bytes = 0;
    for (auto& [value, axis] : tiles) bytes += place_bytes(value->type);
    return bytes;
  }

  // False if there is no room.
  bool store(Op& dot, const std::vector<Tile>& fixed, const std::vector<Tile>& moving) {
    const int64_t once = bytes_of(fixed), each = bytes_of(moving);
    if (once + each > room_) return false;
    room_ -= once;
    for (const Tile& tile : fixed) {
      Op* user = &dot;
      while (user->parent != home(tile.first)) user = user->parent->parent;
      Builder builder = before(*user, dot.loc);
      places_[tile] = alloc_place(builder, tile.first->type, 1, tile.second);
      put(builder, tile.first, places_[tile]);
      barrier(builder);
    }
    if (moving.empty()) return true;
    Op* loop = dot.parent->parent && dot.parent->parent->opcode == Opcode::For ? dot.parent->parent : nullptr;
    const int64_t slots = loop && func_.num_stages() > 1 && 2 * each <= room_ ? 2 : 1;
    room_ -= slots * each;
    Builder here = before(dot, dot.loc), outside = before(loop ? *loop : dot, dot.loc);
    std::vector<Value*> buffers;
    for (const Tile& tile : moving) buffers.push_back(alloc_place(outside, tile.first->type, slots, tile.second));
    if (slots == 1) {
      for (size_t i = 0; i < moving.size(); ++i) places_[moving[i]] = buffers[i];
      for (const Tile& tile : moving) put(here, tile.first, places_[tile]);
      barrier(here);
      return true;
    }
    auto number = [&](int64_t value) { return outside.constant(Type::scalar(Elem::I32), value); };
    Value* read = carry(*loop, number(0));
    rotate(*loop, read, slots);
    for (size_t i = 0; i < moving.size(); ++i) places_[moving[i]] = slot_of(here, buffers[i], read);
    std::unordered_set<const Value*> seen;
    if (!std::all_of(moving.begin(), moving.end(),
                     [&](const Tile& tile) { return can_advance(tile.first, *loop, seen); })) {
      for (const Tile& tile : moving) put(here, tile.first, places_[tile]);
      barrier(here);
      return true;
    }
    Value* write = carry(*loop, number(1));
    rotate(*loop, write, slots);
    const ForLoop parts(*loop);
    ValueMap first{{parts.induction(), parts.lower()}}, next;
    for (size_t i = 0; i < parts.carried(); ++i) {
      first[parts.arg(i)] = parts.init(i);
      next[parts.arg(i)] = parts.next(i);
    }
    Replay at_first(outside, {&parts.body()}, first);
    for (size_t i = 0; i < moving.size(); ++i)
      put(outside, at_first(moving[i].first), slot_of(outside, buffers[i], number(0)));
    // A wait for groups of copies is a barrier too.
    auto& ops = dot.parent->ops;
    auto at_dot = std::find_if(ops.begin(), ops.end(), [&](auto& op) { return op.get() == &dot; });
    auto is_barrier = [](auto& op) {
      return op->opcode == Opcode::Barrier ||
             (op->opcode == Opcode::AsyncWait && op->operand(0)->type.completion == Completion::Group);
    };
    if (std::none_of(ops.begin(), at_dot, is_barrier)) barrier(here);
    Builder ahead;
    ahead.set_after(last_needed(dot, moving, next));
    ahead.set_loc(dot.loc);
    next[parts.induction()] = ahead.add(parts.induction(), parts.step());
    Replay at_next(ahead, {&parts.body()}, next);
    for (size_t i = 0; i < moving.size(); ++i) put(ahead, at_next(moving[i].first), slot_of(ahead, buffers[i], write));
    return true;
  }

  // Whether the value follows, in each iteration, by pure ops from what the loop carries and what comes from outside.
  static bool can_advance(const Value* v, const Op& loop, std::unordered_set<const Value*>& seen) {
    if (!v || home(v) != loop.regions[0].get() || !v->def || !seen.insert(v).second) return true;
    return v->def->has(Pure) && v->def->regions.empty() && v->def->opcode != Opcode::Dot &&
           std::all_of(v->def->operands.begin(), v->def->operands.end(),
                       [&](const Value* x) { return can_advance(x, loop, seen); });
  }

  // The dot or the op behind it that is the last to define what the next iteration's values follow from.
  static Op* last_needed(Op& dot, const std::vector<Tile>& tiles, const ValueMap& next) {
    std::unordered_set<const Op*> needed{&dot};
    std::unordered_set<const Value*> seen;
    std::function<void(const Value*)> visit = [&](const Value* v) {
      if (!v || !seen.insert(v).second) return;
      if (auto it = next.find(v); it != next.end()) {
        if (it->second->def) needed.insert(it->second->def);
      } else if (v->def) {
        for (const Value* x : v->def->operands) visit(x);
      }
    };
    for (auto& [value, axis] : tiles) visit(value);
    Op* last = nullptr;
    for (auto& op : dot.parent->ops)
      if (needed.contains(op.get())) last = op.get();
    return last;
  }

  static Builder before(Op& op, const Loc& loc) {
    Builder builder;
    builder.set_before(&op);
    builder.set_loc(loc);
    return builder;
  }
  static void put(Builder& builder, Value* value, Value* place) { builder.create(Opcode::SharedStore, {value, place}); }
  static void barrier(Builder& builder) { builder.create(Opcode::Barrier, {}, {}, {{attr::for_dots, true}}); }

  // The operand, read from where what it is transposed from was stored.
  static Value* read(Value* operand, Value* place, Builder& builder) {
    if (!operand->def || operand->def->opcode != Opcode::Trans)
      return builder.create(Opcode::SharedRead, {place}, {operand->type})->result();
    Value* x = read(operand->def->operands[0], place, builder);
    return builder.trans(x, operand->def->get(attr::order));
  }

  Func& func_;
  const Target& target_;
  int64_t room_;
  std::map<Tile, Value*> places_;
};

}  // namespace

void passes::share_operands(Func& func, PassContext& context) {
  if (context.target.has(Feature::Wgmma) && Sharer(func, context).run()) canonicalize(func, context);
}

}  // namespace tegula
