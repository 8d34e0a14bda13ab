// Puts operands of products into shared memory, and starts products that run beside the program.
//
//   x = load(a(i))                                     async_copy a(i), place; t = async_commit; async_wait t
//   y = cast(load(b(i)))                        ->     y = cast(load(b(i))); shared_store y, other
//   acc = dot(x, y, acc)                               s = mma_start(place, other, acc); acc = mma_wait s
//
// This is written down one iteration at a time: the pass pipeline, behind layouts, gives places more slots and moves
// ops between iterations. Rooms of places are made before the loop that fills them.
//
// A load goes through a copy if it does nothing but feed products of a pipelined loop, transposed or not, and the
// target has such copies: they move 4, 8 or 16 bytes of a thread and fill with zeros. Products that the target's
// warpgroups can multiply get B from a place, and A from there or as fragments in registers (OperandForm); what comes
// in other registers is stored: once before the product's loop where it comes from there, a transposed value before it
// is transposed, and one that several products take once. A product whose operands find no room stays a dot.
//
// Room is what is left of a program's shared memory with two slots for each place that a loop fills: with one slot a
// copy is no better than a load.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/shared_plan.h"
#include "codegen/analysis/wgmma.h"
#include "codegen/ir/builder.h"
#include "codegen/passes/passes.h"
#include "codegen/pipeline/loop_stages.h"
#include "codegen/pipeline/loop_values.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int kThreadsPerWarp = 32;
constexpr int64_t kSlots = 2;

Builder before(Op& op, const Loc& loc) {
  Builder builder;
  builder.set_before(&op);
  builder.set_loc(loc);
  return builder;
}

// Copies in place of loads.
class CopyStager {
 public:
  CopyStager(Func& func, const Target& target, int64_t& room)
      : func_(func), target_(target), room_(room), axes_(func), num_warps_(func.num_warps()) {}

  bool run() {
    if (!target_.has(Feature::CpAsync)) return false;
    bool changed = false;
    std::vector<Op*> loops;
    walk(func_.body, [&](Op& op) {
      if (op.opcode == Opcode::For && stages_of(op, func_) > 1) loops.push_back(&op);
    });
    for (Op* loop : loops) changed |= stage(*loop);
    return changed;
  }

 private:
  bool stage(Op& loop) {
    std::vector<Op*> loads = loads_ahead(loop);
    std::unordered_map<const Value*, std::vector<const Op*>> users;
    walk(*loop.regions[0], [&](const Op& op) {
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
    std::erase_if(loads, [&](Op* load) {
      return load->opcode != Opcode::Load || !only_multiplied(load->result()) || !copyable(*load);
    });
    const int64_t bytes = kSlots * bytes_of(loads);
    if (loads.empty() || bytes + stored_bytes(loop, loads) > room_) return false;
    room_ -= bytes;
    for (Op* load : loads) copy(loop, *load);
    return true;
  }

  static int64_t bytes_of(const std::vector<Op*>& loads) {
    int64_t bytes = 0;
    for (const Op* load : loads) bytes += place_bytes(load->result()->type);
    return bytes;
  }

  // What products of the body will put into places besides.
  int64_t stored_bytes(const Op& loop, const std::vector<Op*>& loads) const {
    const Block& body = *loop.regions[0];
    auto is_copied = [&](const Value* v) {
      return is_place_read(v) || std::find(loads.begin(), loads.end(), v->def) != loads.end();
    };
    std::unordered_set<const Value*> stored;
    for (auto& op : body.ops)
      if (op->opcode == Opcode::Dot && by_warpgroups(*op))
        for (int i : {0, 1})
          if (operand_form(*op, i, target_, num_warps_, is_copied) == OperandForm::Stored)
            stored.insert(untransposed(op->operands[i]));
    int64_t bytes = 0;
    for (const Value* v : stored) bytes += place_bytes(v->type) * (home(v) == &body ? kSlots : 1);
    return bytes;
  }

  // Whether warpgroups will multiply it, who may ask for operands in the right order where they are copied.
  bool by_warpgroups(const Op& dot) const {
    auto plan = plan_wgmma(dot, target_, num_warps_);
    for (int i : {0, 1}) {
      if (!plan || plan->instruction->order == MmaOrder::AnyOrder) break;
      const Op* load = untransposed(dot.operands[size_t(i)])->def;
      if (load && load->opcode == Opcode::Load && load->parent == dot.parent && copyable(*load) &&
          contiguous_axis(*load) != untransposed_k_axis(dot, i))
        return false;
    }
    return plan.has_value();
  }

  int contiguous_axis(const Op& load) const { return fastest_axes(axes_.info(load.operands[0]))[0]; }

  bool copyable(const Op& load) const {
    const Value *ptr = load.operands[0], *mask = load.operand(1), *other = load.operand(2);
    const Type& type = load.result()->type;
    if (type.rank() < 2 || type.is_bool() || type.pointer || (other && !is_zero(other))) return false;
    int64_t width = 1;
    for (int axis = 0; axis < type.rank(); ++axis)
      width = std::max<int64_t>(width, axes_.vector_width(ptr, mask, axis));
    width = std::min(width, type.num_elements() / (kThreadsPerWarp * num_warps_));
    return width * elem_bytes(type.elem) >= kLeastCopyBytes;
  }

  void copy(Op& loop, Op& load) {
    Builder outside = before(loop, load.loc), here = before(load, load.loc);
    Value* place = alloc_place(outside, load.result()->type, 1, contiguous_axis(load));
    here.create(Opcode::AsyncCopy, {load.operands[0], place, load.operand(1)});
    Value* token = here.create(Opcode::AsyncCommit, {}, {Type::token(Completion::Group)})->result();
    here.create(Opcode::AsyncWait, {token});
    Value* read = here.create(Opcode::SharedRead, {place}, {load.result()->type})->result();
    replace_uses(*loop.regions[0], load.result(), read);
    erase(load);
  }

  static void erase(Op& op) {
    std::erase_if(op.parent->ops, [&](auto& other) { return other.get() == &op; });
  }

  Func& func_;
  const Target& target_;
  int64_t& room_;
  AxisAnalysis axes_;
  int num_warps_;
};

// Products by warpgroups in place of dots.
class ProductStager {
 public:
  ProductStager(Func& func, const Target& target, int64_t& room)
      : func_(func), target_(target), room_(room), num_warps_(func.num_warps()) {}

  bool run() {
    std::vector<Op*> dots;
    walk(func_.body, [&](Op& op) {
      if (op.opcode == Opcode::Dot && plan_wgmma(op, target_, num_warps_)) dots.push_back(&op);
    });
    bool changed = false;
    for (Op* dot : dots) changed |= stage(*dot);
    return changed;
  }

 private:
  /// What is stored, and the axis whose elements must lie side by side; -1 where any may.
  using Tile = std::pair<Value*, int>;

  bool stage(Op& dot) {
    const WgmmaPlan plan = *plan_wgmma(dot, target_, num_warps_);
    std::vector<Tile> tiles;
    for (int i : {0, 1}) {
      if (operand_form(dot, i, target_, num_warps_) != OperandForm::Stored) continue;
      const Tile tile = tile_of(dot, i, plan);
      if (!places_.contains(tile) && std::find(tiles.begin(), tiles.end(), tile) == tiles.end()) tiles.push_back(tile);
    }
    int64_t bytes = 0;
    for (const Tile& tile : tiles) bytes += place_bytes(tile.first->type) * (moves(tile.first, dot) ? kSlots : 1);
    if (bytes > room_) return false;
    room_ -= bytes;
    for (const Tile& tile : tiles) store(tile, dot);
    start(dot, plan);
    return true;
  }

  Tile tile_of(const Op& dot, int operand, const WgmmaPlan& plan) const {
    const bool any = plan.instruction->order == MmaOrder::AnyOrder;
    return {untransposed(dot.operands[operand]), any ? -1 : untransposed_k_axis(dot, operand)};
  }

  // Whether a pipelined loop around the dot makes the value anew in each iteration.
  bool moves(const Value* v, const Op& dot) const {
    const Op* loop = dot.parent->parent;
    return home(v) == dot.parent && loop && loop->opcode == Opcode::For && func_.num_stages() > 1;
  }

  void store(const Tile& tile, Op& dot) {
    Value* value = tile.first;
    Op* user = &dot;
    while (user->parent != home(value)) user = user->parent->parent;
    Op* loop = user->parent->parent;
    Builder here = before(*user, dot.loc);
    Builder outside = before(loop && loop->opcode == Opcode::For && user == &dot ? *loop : *user, dot.loc);
    places_[tile] = alloc_place(outside, value->type, 1, tile.second);
    here.create(Opcode::SharedStore, {value, places_[tile]});
  }

  void start(Op& dot, const WgmmaPlan& plan) {
    Builder here = before(dot, dot.loc);
    Value *a = dot.operands[0], *acc = dot.operands[2];
    if (operand_form(dot, 0, target_, num_warps_) != OperandForm::Fragment) a = place_of(dot, 0, plan, here);
    Value* b = place_of(dot, 1, plan, here);
    Value* accumulate = nullptr;
    if (is_zero(acc)) {  // the instructions leave it out, and no register is set to zero
      acc = here.create(Opcode::Unset, {}, {acc->type})->result();
      accumulate = here.constant(Type::scalar(Elem::I1), 0);
    }
    Attrs attrs{{attr::warpgroups, Ints{plan.groups_m, plan.groups_n}}, {attr::columns, int64_t(plan.columns)}};
    if (dot.has(attr::precision)) attrs[attr::precision] = dot.get(attr::precision);
    Op* start =
        here.create(Opcode::MmaStart, {a, b, acc, accumulate}, {acc->type.with_kind(Kind::InFlight)}, std::move(attrs));
    Value* sums = here.create(Opcode::MmaWait, {start->result()}, {acc->type}, {{attr::pending, int64_t(0)}})->result();
    sums->name = dot.result()->name;
    replace_uses(func_.body, dot.result(), sums);
  }

  // The place that an operand is read from, seen transposed as the operand is.
  Value* place_of(const Op& dot, int operand, const WgmmaPlan& plan, Builder& here) {
    auto stored = places_.find(tile_of(dot, operand, plan));
    return view(dot.operands[operand], stored == places_.end() ? nullptr : stored->second, here);
  }
  static Value* view(Value* operand, Value* place, Builder& here) {
    if (operand->def && operand->def->opcode == Opcode::Trans)
      return here.trans(view(operand->def->operands[0], place, here), operand->def->get(attr::order));
    return place ? place : operand->def->operands[0];
  }

  Func& func_;
  const Target& target_;
  int64_t& room_;
  int num_warps_;
  std::map<Tile, Value*> places_;
};

}  // namespace

void passes::stage_operands(Func& func, PassContext& context) {
  int64_t room = context.target.shared_per_program;
  bool changed = CopyStager(func, context.target, room).run();
  if (context.target.has(Feature::Wgmma)) changed |= ProductStager(func, context.target, room).run();
  if (changed) canonicalize(func, context);
}

}  // namespace tegula
