#include "codegen/pipeline/copy_nest.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <unordered_set>
#include <utility>

#include "codegen/analysis/shared_plan.h"
#include "codegen/ir/flow.h"
#include "codegen/pipeline/edit.h"
#include "runtime/base/check.h"

namespace tegula {

using namespace ir;

namespace {

Builder at_end(Block& block) {
  Builder build;
  build.set_end(&block);
  return build;
}

// The layout on fewer warps: the last warp bits become register bits.
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

Value* carry_through(const std::vector<Op*>& nest, Value* init) {
  for (Op* loop : nest) init = carry(*loop, init);
  for (size_t i = 0; i + 1 < nest.size(); ++i)
    nest[i]->regions[0]->terminator()->operands.push_back(nest[i + 1]->results.back().get());
  return init;
}

// Makes the loop continue with the carried value of another one.
Value* carry_on(Value* before, Op& loop) {
  const ForLoop other(*for_of(before));
  const Value* left = other.result(*other.number(before));
  Value* here = carry(loop, const_cast<Value*>(left));
  for (Value*& v : loop.parent->terminator()->operands)
    if (v == left) v = loop.results.back().get();
  return here;
}

Turn move_turn_on(Op& loop, int64_t slots, const std::function<Value*(int)>& carried) {
  Value* slot = carried(0);
  Value* next = rotate(loop, slot, slots);
  Value* phase = carried(1);
  Builder top = behind(*next->def);
  Value* around = slots == 1 ? truth(top, true) : top.lt(next, slot);
  loop.regions[0]->terminator()->operands.push_back(top.bit_xor(phase, top.cast(around, Elem::I32)));
  return {slot, phase};
}

// The value that a loop's carried value has after all enclosing loops.
Value* left_by_nest(const Value* carried) {
  const ForLoop inner(*for_of(carried));
  Value* left = inner.result(*inner.number(carried));
  for (Op* around = inner.op().parent->parent; around && around->opcode == Opcode::For;
       around = around->parent->parent) {
    const ForLoop loop(*around);
    size_t i = 0;
    while (loop.next(i) != left) ++i;
    left = loop.result(i);
  }
  return left;
}

}  // namespace

Turn carry_turn(const std::vector<Op*>& nest, const Turn& first, int64_t slots) {
  return move_turn_on(*nest.back(), slots,
                      [&](int part) { return carry_through(nest, part == 0 ? first.slot : first.phase); });
}

Turn go_on_with_turn(const Turn& before, Op& loop, int64_t slots) {
  return move_turn_on(loop, slots, [&](int part) { return carry_on(part == 0 ? before.slot : before.phase, loop); });
}

// ----------------------------------------------------------------------------------------------------------- loops

bool CopyNest::add(const std::vector<Op*>& nest, const std::vector<Fill>& fills, int64_t slots, const Op* before) {
  if (!can_compute(nest, fills)) return false;
  const bool bulk = fills[0].copies[0]->opcode == Opcode::BulkCopy;
  open(nest, bulk);
  issue_in_nest(nest, fills, slots, before);
  if (!exchanges_) return true;
  give_up();
  return false;
}

bool CopyNest::add_ahead(const std::vector<Op*>& nest, const Fill& fill, int64_t slots) {
  TEGULA_CHECK(copying_.contains(nest.back()), "nothing is copied within the loop");
  if (!can_compute(nest, {fill})) return false;
  open(nest, true);
  const auto& ops = levels_.back().copying->regions[0]->ops;
  Op* within = std::find_if(ops.begin(), ops.end(), [](auto& op) { return op->opcode == Opcode::For; })->get();
  levels_.back().build.set_before(within);
  for (size_t i = 1; i < levels_.size(); ++i) forget_from(*levels_[i].copying);
  forget_from(*within);
  issue_in_nest(nest, {fill}, slots, nullptr);
  return true;
}

// Forgets values that are computed in the op's block, but not ahead of it: they are computed anew where needed next.
void CopyNest::forget_from(const Op& op) {
  std::unordered_set<const Op*> ahead;
  for (auto other = op.parent->ops.begin(); other->get() != &op; ++other) ahead.insert(other->get());
  std::erase_if(known_, [&](const auto& known) {
    const Op* def = known.second->def;
    return def && def->parent == op.parent && !ahead.contains(def);
  });
}

bool CopyNest::can_compute(const std::vector<Op*>& nest, const std::vector<Fill>& fills) const {
  std::set<const Value*> seen;
  auto can_follow_all = [&](const std::vector<Value*>& values) {
    return std::all_of(values.begin(), values.end(),
                       [&](const Value* v) { return !v || v->type.is_place() || can_follow(v, nest, seen); });
  };
  for (const Op* loop : nest)
    if (!can_follow_all(ForLoop(*loop).bounds())) return false;
  for (const Fill& fill : fills)
    for (const Op* copy : fill.copies)
      if (!can_follow_all(copy->operands)) return false;
  return true;
}

// Writes the copies into the last one of the loops that are open.
void CopyNest::issue_in_nest(const std::vector<Op*>& nest, const std::vector<Fill>& fills, int64_t slots,
                             const Op* before) {
  const bool bulk = fills[0].copies[0]->opcode == Opcode::BulkCopy;
  TEGULA_CHECK(bulk || nest.size() == 1, "threads copy for a loop in a loop");
  std::vector<Op*> copying;
  for (size_t i = 1; i < levels_.size(); ++i) copying.push_back(levels_[i].copying);
  // The phase ahead of a new barrier's first one counts as over: where nobody arrives, no wait is for an arrival.
  Builder& outside = levels_[0].build;
  const Turn turn =
      before ? go_on_with_turn(turns_.at(before), *copying.back(), slots)
             : carry_turn(copying, {number(outside, 0), number(outside, fills[0].empty_at_first ? 1 : 0)}, slots);
  turns_[nest.back()] = turn;
  bulk ? issue_in_bulk(fills, turn) : issue_by_threads(fills, turn);
  close();
}

// Whether the value depends only on parameters and the nest's iterations, through pure ops.
bool CopyNest::can_follow(const Value* v, const std::vector<Op*>& nest, std::set<const Value*>& seen) const {
  if (!v || !seen.insert(v).second || v->block == &func_.body || v->type.is_map()) return true;
  if (v->def) {
    const Op& op = *v->def;
    const bool in_nest = std::any_of(nest.begin(), nest.end(), [&](Op* loop) { return home(v)->parent == loop; });
    return (in_nest || home(v) == &func_.body) && op.has(Pure) && op.regions.empty() && !is_product(op) &&
           !v->type.is_place() && std::all_of(op.operands.begin(), op.operands.end(), [&](const Value* operand) {
             return can_follow(operand, nest, seen);
           });
  }
  const auto at = std::find(nest.begin(), nest.end(), v->block->parent);
  if (at == nest.end()) return false;
  const ForLoop loop(**at);
  if (v == loop.induction()) return true;
  const size_t i = *loop.number(v);
  return can_follow(loop.init(i), nest, seen) && can_follow(loop.next(i), nest, seen);
}

// Creates the loops of the nest that do not exist yet; levels_ has them.
void CopyNest::open(const std::vector<Op*>& nest, bool one_thread) {
  if (!copy_warps_) {
    Builder last = before(*func_.body.terminator());
    Attrs attrs{{attr::warps, int64_t(kWarps)}, {attr::registers, Ints{}}};
    if (one_thread) attrs[attr::one_thread] = true;
    copy_warps_ = last.create(Opcode::CopyWarps, {}, {}, attrs);
    at_end(*copy_warps_->regions[0]).create(Opcode::Yield, {});
  }
  levels_ = {{nullptr, nullptr, before(*copy_warps_->regions[0]->terminator())}};
  for (Op* loop : nest) open_loop(*loop);
}

void CopyNest::open_loop(Op& loop) {
  Op*& copying = copying_[&loop];
  if (!copying) {
    const ForLoop parts(loop);
    Value *lower = follow(parts.lower()), *upper = follow(parts.upper()), *step = follow(parts.step());
    Builder& around = levels_.back().build;
    around.set_loc(loop.loc);
    copying = around.create(Opcode::For, {lower, upper, step}, {});
    Block& body = *copying->regions[0];
    known_[parts.induction()] = body.add_arg(lower->type);
    at_end(body).create(Opcode::Yield, {});
  }
  levels_.back().build.set_before(copying);
  levels_.push_back({&loop, copying, before(*copying->regions[0]->terminator())});
}

void CopyNest::close() {
  for (size_t i = 0; i < pending_.size(); ++i) {  // which may make more of them
    const Pending pending = pending_[i];
    Value* next = follow(pending.next);
    levels_[pending.level].copying->regions[0]->terminator()->operands[pending.operand] = next;
  }
  pending_.clear();
}

void CopyNest::wait_for_readers(const Op& loop, const std::vector<Fill>& fills, int64_t slots) {
  const Turn& turn = turns_.at(&loop);
  Builder end = before(*copy_warps_->regions[0]->terminator());
  Op* waits = end.create(Opcode::For, {number(end, 0), number(end, slots), number(end, 1)}, {});
  Block& body = *waits->regions[0];
  body.add_arg(Type::scalar(Elem::I32));
  at_end(body).create(Opcode::Yield, {});
  const Turn left = move_turn_on(
      *waits, slots, [&](int part) { return carry(*waits, left_by_nest(part == 0 ? turn.slot : turn.phase)); });
  Builder inside = before(*body.terminator());
  for (const Fill& fill : fills)
    inside.create(Opcode::PhaseWait, {slot_of(inside, fill.empty, left.slot), left.phase}, {},
                  {{attr::whole_program, true}});
}

// Undoes what was made for the only loop of the nest. What was computed for it outside is dead code then.
void CopyNest::give_up() {
  Op& loop = *levels_[1].copying;
  std::erase_if(known_, [&](const auto& known) { return home(known.second) == loop.regions[0].get(); });
  copying_.erase(levels_[1].loop);
  turns_.erase(levels_[1].loop);
  erase(loop);
  exchanges_ = false;
  const auto& ops = copy_warps_->regions[0]->ops;
  if (std::any_of(ops.begin(), ops.end(), [](auto& op) { return op->opcode == Opcode::For; })) return;
  erase(*copy_warps_);
  copy_warps_ = nullptr;
  known_.clear();
}

// ---------------------------------------------------------------------------------------------------------- copies

void CopyNest::issue_in_bulk(const std::vector<Fill>& fills, const Turn& turn) {
  Builder& build = levels_.back().build;
  for (const Fill& fill : fills) {
    int64_t bytes = 0;
    for (const Op* copy : fill.copies) {
      for (const Value* v : copy->operands)
        if (v && !v->type.is_place()) follow(v);
      bytes += place_bytes(copy->operand(1)->type);
    }
    build.set_loc(fill.copies[0]->loc);
    const Attrs where = fill.multicast ? Attrs{{attr::whole_program, true}} : Attrs{};
    build.create(Opcode::PhaseWait, {slot_of(build, fill.empty, turn.slot), turn.phase}, {}, where);
    Value* full = slot_of(build, fill.full, turn.slot);
    build.create(Opcode::PhaseArrive, {full}, {}, {{attr::bytes, bytes}});
    for (const Op* copy : fill.copies) {
      std::vector<Value*> operands;
      for (const Value* v : copy->operands) operands.push_back(v && v->type.is_place() ? nullptr : follow(v));
      build.set_loc(copy->loc);
      operands[1] = slot_of(build, copy->operand(1), turn.slot);
      operands[2] = full;
      build.create(Opcode::BulkCopy, std::move(operands), {}, copy->attrs);
    }
  }
}

void CopyNest::issue_by_threads(const std::vector<Fill>& fills, const Turn& turn) {
  Op& loop = *levels_.back().copying;
  Op& yield = *loop.regions[0]->terminator();
  Builder &outside = levels_[0].build, &inside = levels_.back().build;
  // Copies of the last fill in the iteration before.
  Value* last_slot = carry(loop, number(outside, 0));
  yield.operands.push_back(turn.slot);
  Value* exists = carry(loop, truth(outside, false));
  yield.operands.push_back(truth(inside, true));
  Value* none = outside.create(Opcode::AsyncCommit, {}, {Type::token(Completion::Group)})->result();
  Value* token = carry(loop, none);
  const size_t token_at = yield.operands.size();
  yield.operands.push_back(token);
  const Issued last{token, slot_of(inside, fills.back().full, last_slot), exists};

  Issued ahead = last;
  for (const Fill& fill : fills) ahead = issue(fill, turn, ahead);
  yield.operands[token_at] = ahead.token;
  Builder after = behind(loop);
  const ForLoop parts(loop);
  auto result = [&](const Value* carried) { return parts.result(*parts.number(carried)); };
  after.create(Opcode::AsyncWait, {result(token)});
  after.create(Opcode::PhaseArrive, {slot_of(after, fills.back().full, result(last_slot)), result(exists)}, {},
               {{attr::async_proxy, true}});
}

// Issues copies, and waits for those issued before them: so there are always some under way.
CopyNest::Issued CopyNest::issue(const Fill& fill, const Turn& turn, const Issued& before) {
  Builder& build = levels_.back().build;
  std::vector<std::pair<Value*, Value*>> from;  // pointers and mask
  for (const Op* copy : fill.copies) from.emplace_back(follow(copy->operand(0)), follow(copy->operand(2)));
  build.set_loc(fill.copies[0]->loc);
  build.create(Opcode::PhaseWait, {slot_of(build, fill.empty, turn.slot), turn.phase});
  for (size_t i = 0; i < fill.copies.size(); ++i)
    build.create(Opcode::AsyncCopy,
                 {from[i].first, slot_of(build, fill.copies[i]->operand(1), turn.slot), from[i].second}, {},
                 fill.copies[i]->attrs);
  Value* token = build.create(Opcode::AsyncCommit, {}, {Type::token(Completion::Group)})->result();
  build.create(Opcode::AsyncWait, {before.token});
  std::vector<Value*> arrives{before.full};
  if (before.exists) arrives.push_back(before.exists);
  build.create(Opcode::PhaseArrive, std::move(arrives), {}, {{attr::async_proxy, true}});
  return {token, slot_of(build, fill.full, turn.slot), nullptr};
}

// ---------------------------------------------------------------------------------------------------------- values

size_t CopyNest::level_of(const Value* v) const {
  for (size_t i = 1; i < levels_.size(); ++i)
    if (home(v)->parent == levels_[i].loop) return i;
  return 0;
}

// The value as these warps have it; null for null.
Value* CopyNest::follow(const Value* v) {
  if (!v || v->block == &func_.body || v->type.is_map()) return const_cast<Value*>(v);
  if (auto known = known_.find(v); known != known_.end()) return known->second;
  const size_t level = level_of(v);
  if (!v->def) return follow_carried(v, level);
  for (const Value* operand : v->def->operands) follow(operand);
  std::unique_ptr<Op> op = clone_op(*v->def, known_);
  for (auto& result : op->results)
    if (result->type.layout) result->type.layout = spread(result->type.layout);
  exchanges_ |= scratch_bytes(*op) > 0;
  return levels_[level].build.insert(std::move(op))->result(v->index);
}

Value* CopyNest::follow_carried(const Value* v, size_t level) {
  const ForLoop loop(*levels_[level].loop);
  const size_t i = *loop.number(v);
  Op& copying = *levels_[level].copying;
  Value* here = carry(copying, follow(loop.init(i)));
  auto& yielded = copying.regions[0]->terminator()->operands;
  pending_.push_back({level, yielded.size(), loop.next(i)});
  yielded.push_back(here);
  return known_[v] = here;
}

LayoutRef CopyNest::spread(const LayoutRef& layout) {
  LayoutRef& known = layouts_[layout];
  return known ? known : known = over_warps(layout, std::bit_width(unsigned(kWarps)) - 1);
}

}  // namespace tegula
