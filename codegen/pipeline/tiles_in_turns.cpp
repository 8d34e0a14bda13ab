#include "codegen/pipeline/tiles_in_turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <unordered_map>
#include <utility>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/cluster_blocks.h"
#include "codegen/analysis/pointer_base.h"
#include "codegen/analysis/shared_plan.h"
#include "codegen/ir/flow.h"
#include "codegen/pipeline/edit.h"
#include "codegen/pipeline/loop_bounds.h"
#include "codegen/pipeline/loop_values.h"
#include "codegen/product/plan.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int kWarpsOfGroup = 4;  // a warpgroup: the turn is passed from one to the other
constexpr int kGroups = 2;

// Whether the op, or one within, is a store.
bool stores(const Op& op) {
  bool found = op.opcode == Opcode::Store;
  for (const auto& region : op.regions) walk(*region, [&](const Op& inner) { found |= inner.opcode == Opcode::Store; });
  return found;
}

// The effects of the function's code.
class Effects {
 public:
  explicit Effects(const Func& func) : written_(written_by(func)), uses_(count_uses(func.body)) {}

  // The first op, among `op` and the ops within it, that two groups cannot do in turns; null if there is none.
  const Op* not_in_turns(const Op& op) const {
    if (!can_take_turns(op)) return &op;
    if (op.info().isolates()) return nullptr;
    for (const auto& region : op.regions)
      for (const auto& inner : region->ops)
        if (const Op* found = not_in_turns(*inner)) return found;
    return nullptr;
  }

 private:
  bool can_take_turns(const Op& op) const {
    if (meets_other_blocks(op, uses_)) return false;
    switch (op.opcode) {
      case Opcode::Load:  // before the other group has stored what comes before it
        return !op.get(attr::volatile_) && no_alias(op.operand(0), written_);
      case Opcode::Store:
      case Opcode::SharedAlloc:
      case Opcode::BulkCopy:
      case Opcode::AsyncCommit:
      case Opcode::AsyncWait:
      case Opcode::MmaStart:
      case Opcode::MmaWait:
      case Opcode::For:
      case Opcode::If:
        return true;
      default:
        return op.has(Pure) || op.has(Terminator);
    }
  }

  const std::vector<const Value*> written_;
  const std::unordered_map<const Value*, int> uses_;
};

// Slots and phases of a ring, moved on by a tile's number of slots.
class Ring {
 public:
  // Computes the number ahead of the outer loop.
  Ring(Builder& build, const Op& outer, const Op& inner, int64_t slots) : slots_(slots) {
    const ForLoop loop(inner);
    Replay ahead(build, {outer.regions[0].get()}, {});
    Value *lower = wide(build, ahead(loop.lower())), *upper = wide(build, ahead(loop.upper()));
    auto integer = [&](int64_t value) { return build.constant(Type::scalar(Elem::I64), value); };
    const int64_t step = *constant_integer(loop.step());
    Value* distance = build.add(build.sub(upper, lower), integer(step - 1));
    Value* divisor = integer(step);
    Value* iterations = build.div(build.maximum(distance, integer(0)), divisor);
    tile_ = build.cast(build.rem(iterations, integer(2 * slots)), Elem::I32);
  }

  Turn behind_tile(Builder& build, const Turn& turn) const {
    Value* at = build.add(build.add(turn.slot, build.mul(turn.phase, number(build, slots_))), tile_);
    at = wrap(build, at, 2 * slots_);
    Value* second = build.ge(at, number(build, slots_));
    return {wrap(build, at, slots_), build.cast(second, Elem::I32)};
  }

 private:
  static Value* wrap(Builder& build, Value* at, int64_t extent) {
    Value* around = number(build, extent);
    Value* wrapped = build.sub(at, around);
    return build.select(build.lt(at, around), at, wrapped);
  }

  const int64_t slots_;
  Value* tile_ = nullptr;  // modulo those of two rounds
};

// The loop over tiles, of which each group takes every second one.
class TileLoop {
 public:
  TileLoop(const Func& func, Op& loop) : loop_(loop) {
    non_negative_ = AxisAnalysis(func).info(ForLoop(loop).induction()).non_negative;
    Builder build = before(loop);
    group_ = build.create(Opcode::GroupId, {}, {Type::scalar(Elem::I32)})->result();
    exists_ = within_loop(build, loop, ForLoop(loop).lower());
  }

  Value* group() const { return group_; }
  Value* exists() const { return exists_; }            ///< a tile at all, ahead of the loop
  Value* next_exists() const { return next_exists_; }  ///< in the body: one after this one, which is the other group's

  // In 64 bits: what comes after a group's last tile may be no number of the loop's type.
  void share() {
    const ForLoop parts(loop_);
    Builder build = before(loop_), inside = before(*parts.body().ops.front());
    Value *lower = wide(build, parts.lower()), *upper = wide(build, parts.upper()), *step = wide(build, parts.step());
    Value* tile = parts.induction();
    const Type type = std::exchange(tile->type, Type::scalar(Elem::I64));
    Op* next = inside.add(tile, step)->def;
    next_exists_ = within_loop(inside, loop_, next->result());
    lower = build.add(lower, build.mul(wide(build, group_), step));
    std::ranges::copy(std::initializer_list<Value*>{lower, upper, build.add(step, step)}, loop_.operands.begin());
    if (type.bits() == 64) return;
    Op* narrow = inside.cast(tile, type.elem)->def;
    Value* number = narrow->result();
    if (non_negative_)
      number = inside.create(Opcode::Hint, {number}, {number->type}, {{attr::non_negative, true}})->result();
    replace_uses(parts.body(), tile, number);
    for (Op* op : {narrow, next}) op->operands[0] = tile;
  }

 private:
  Op& loop_;
  bool non_negative_ = false;
  Value *group_ = nullptr, *exists_ = nullptr, *next_exists_ = nullptr;
};

// Whether what the loop over tiles carries are numbers that grow by as much in each iteration, and are not used after
// it.
bool only_counts(const Op& loop) {
  const ForLoop parts(loop);
  LoopSources sources(loop);
  const auto uses = count_uses(*loop.parent);
  for (size_t i = 0; i < parts.carried(); ++i)
    if (!parts.arg(i)->type.is_scalar() || parts.arg(i)->type.pointer || uses.contains(parts.result(i)) ||
        !sources.growth(parts.arg(i)))
      return false;
  return true;
}

// The first so many carried numbers grow by two tiles, and begin with the group's first one.
void count_own_tiles(Op& loop, size_t count, Value* group) {
  const ForLoop parts(loop);
  LoopSources sources(loop);
  Builder build = before(loop), last = before(*parts.body().terminator());
  Replay ahead(build, {&parts.body()}, {});
  for (size_t i = 0; i < count; ++i) {
    Value* step = sources.step(parts.arg(i));
    Value* distance = ahead(step);
    parts.init(i) = build.add(parts.init(i), build.mul(build.cast(group, step->type.elem), distance));
    parts.next(i) = last.add(parts.next(i), step);
  }
}

// Makes the ops of the body from `from` to `to` exclusive to one group at a time, in the order of the tiles. The first
// group has the first turn; before the loop, the second group passes it on. Each group passes the turn on as often as
// the other one waits for it.
void take_turns(Op& loop, const TileLoop& tiles, Op& from, Op& to, bool of_stores) {
  const Attrs how = of_stores ? Attrs{{attr::of_stores, true}} : Attrs{};
  Builder outside = before(loop);
  outside.create(Opcode::TurnPass, {truth(outside, false), tiles.exists()}, {}, how);
  before(from).create(Opcode::TurnWait, {}, {}, how);
  behind(to).create(Opcode::TurnPass, {tiles.next_exists(), tiles.next_exists()}, {}, how);
}

// At the beginning all slots are empty, which only the first group signals.
void say_empty_once(Block& body, Op& outer, Value* is_first) {
  std::vector<Op*> arrivals;
  for (auto& op : body.ops)
    if (op->opcode == Opcode::PhaseArrive) arrivals.push_back(op.get());
  for (Op* arrival : arrivals) {
    arrival->operands.resize(2);
    arrival->operands[1] = is_first;
    move_before(*arrival, outer);
  }
}

int64_t scratch_of(const Op& op) {
  int64_t bytes = scratch_bytes(op);
  if (op.info().isolates()) return bytes;
  for (const auto& region : op.regions) walk(*region, [&](const Op& inner) { bytes += scratch_bytes(inner); });
  return bytes;
}

// From the first op after the products for which threads exchange data, or which stores, to the last one: what they
// exchange it through is common to the groups. None where nothing is stored.
struct Stretch {
  Op *from = nullptr, *to = nullptr;
};
Stretch stretch_of_stores(const Op& outer, const Op& inner) {
  Stretch found;
  bool behind = false, any = false;
  for (auto& op : outer.regions[0]->ops) {
    if (behind && (stores(*op) || scratch_of(*op))) found = {found.from ? found.from : op.get(), op.get()};
    any |= stores(*op);
    behind |= op.get() == &inner;
  }
  return any ? found : Stretch();
}

bool follows_from_before(const Value* v, const Op& loop) {
  return LoopSources(loop).of(v) == LoopSources::Source::Invariant;
}

}  // namespace

std::string why_not_in_turns(const Func& func, const std::vector<Op*>& nest) {
  if (func.num_warps() != kWarpsOfGroup) return fmt::format("groups have {} warps (num_warps)", kWarpsOfGroup);
  if (nest.size() != 2) return "the loop stands in none over tiles";
  const Op &outer = *nest[0], &inner = *nest[1];
  const ForLoop parts(inner);
  if (!only_counts(outer)) return "the loop over tiles hands values on";
  if (!std::ranges::all_of(parts.bounds(), [&](const Value* v) { return follows_from_before(v, outer); }) ||
      constant_integer(parts.step()) <= 0)
    return "the loop has another number of iterations in each tile";
  int products = 0;
  walk(func.body, [&](const Op& op) { products += is_product(op); });
  if (products != 1) return "there is more than one product";
  const Effects effects(func);
  for (const auto& op : func.body.ops) {
    const Op* found = op.get() != &outer && stores(*op) ? op.get() : effects.not_in_turns(*op);
    if (found) return fmt::format("the two would do '{}' in no order", found->info().text);
  }
  for (const auto& op : outer.regions[0]->ops) {
    if (stores(*op)) return "something is stored ahead of the products";
    if (op.get() == &inner) break;
  }
  return {};
}

int64_t bytes_of_each_group(const std::vector<Op*>& nest) {
  const Stretch storing = stretch_of_stores(*nest[0], *nest[1]);
  int64_t bytes = 0;
  bool in_turn = false;
  for (auto& op : nest[0]->regions[0]->ops) {
    in_turn |= op.get() == storing.from;
    if (!in_turn) bytes += scratch_of(*op);
    in_turn &= op.get() != storing.to;
  }
  return bytes;
}

void take_tiles_in_turns(Func& func, Op& copy_warps, const std::vector<Op*>& nest, const Turn& turn, int64_t slots) {
  Op &outer = *nest[0], &inner = *nest[1];
  const ForLoop around(outer), within(inner);
  copy_warps.set(attr::groups, kGroups);
  TileLoop tiles(func, outer);
  Builder first = before(outer);
  const Ring ring(first, outer, inner, slots);
  const Value* carried = within.init(*within.number(turn.slot));
  const size_t slot = *around.number(carried), phase = *around.number(within.init(*within.number(turn.phase)));
  // The second group's first tile is after the first one's.
  const Turn begin{around.init(slot), around.init(phase)}, second = ring.behind_tile(first, begin);
  Value* is_first = first.eq(tiles.group(), number(first, 0));
  around.init(slot) = first.select(is_first, begin.slot, second.slot);
  around.init(phase) = first.select(is_first, begin.phase, second.phase);
  Builder last = before(*around.body().terminator());
  const Turn next = ring.behind_tile(last, {around.next(slot), around.next(phase)});
  around.next(slot) = next.slot, around.next(phase) = next.phase;
  say_empty_once(func.body, outer, is_first);

  count_own_tiles(outer, slot, tiles.group());
  tiles.share();
  take_turns(outer, tiles, inner, inner, false);
  if (const Stretch storing = stretch_of_stores(outer, inner); storing.from)
    take_turns(outer, tiles, *storing.from, *storing.to, true);
}

}  // namespace tegula
