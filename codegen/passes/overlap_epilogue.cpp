// Asynchronous copies for the next round of an outer loop, begun before the rest of this round.
//
//   for t = lower to upper step s                      copies of the first tiles of round lower
//     copies of the first tiles of round t             for t = lower to upper step s
//     for k: copies ahead, dots                  ->      for k: copies ahead, dots
//     wait for all copies                                wait for all copies
//     epilogue                                           copies of the first tiles of round t + s
//                                                        epilogue
//                                                      wait for all copies
//
// Scalars that say where a round's tile lies are carried from two rounds before, as divisions are among them.
//
// So the way of a persistent program's next operands from memory hides behind the epilogue of the tile at hand: the
// stores, and what is computed before them. Behind the inner loop's wait, which is a barrier too, all threads are done
// with the slots.
//
// The copies must follow by pure ops from the outer induction variable and values of before the loop, no store of the
// loop may reach what they read (pointers of different parameters are taken not to overlap), and slots and what the
// epilogue exchanges through shared memory must fit it side by side.
#include <algorithm>
#include <functional>
#include <iterator>

#include "codegen/analysis/pointer_base.h"
#include "codegen/analysis/shared_plan.h"
#include "codegen/passes/dead_code.h"
#include "codegen/passes/loop_bounds.h"
#include "codegen/passes/loop_slots.h"
#include "codegen/passes/passes.h"

namespace tegula {

using namespace ir;

namespace {

bool is_copy(const Op& op) { return op.opcode == Opcode::AsyncCopy || op.opcode == Opcode::AsyncCommit; }
bool is_asynchronous(const Op& op) { return is_copy(op) || op.opcode == Opcode::AsyncWait; }

class EpilogueOverlap {
 public:
  EpilogueOverlap(Op& loop, Func& func, const Target& target)
      : loop_(loop), body_(*loop.regions[0]), func_(func), target_(target) {}

  bool run() {
    if (!find_parts() || !follow_from_round() || !memory_allows() || !hoist_buffers()) return false;
    find_scalars();
    Value *lower = loop_.operands[0], *step = loop_.operands[2], *round = body_.args[0].get();
    Builder build;
    build.set_loc(loop_.loc);
    build.set_before(&loop_);
    Round first{{{round, lower}}}, second{{{round, build.add(lower, step)}}};
    copy_round(build, first, within_loop(build, loop_, lower));
    std::vector<Value*> now = values_of(build, first), next = values_of(build, second);
    const size_t count = scalars_.size();
    for (auto* values : {&now, &next})
      for (Value*& v : *values) v = carry(loop_, v);

    build.set_after(wait_);
    build.set_loc(loop_.loc);
    Value* exists = within_loop(build, loop_, build.add(wide(build, round), wide(build, step)));
    Value* next_round = build.add(round, step);
    Round coming{{{round, next_round}}}, later{{{round, build.add(next_round, step)}}};
    for (size_t i = 0; i < count; ++i) coming.values[scalars_[i]] = next[i];
    copy_round(build, coming, exists);
    std::vector<Value*> after_next = values_of(build, later);
    for (Op* op : copies_) body_.ops.remove_if([&](auto& other) { return other.get() == op; });
    ValueMap known;
    for (size_t i = 0; i < count; ++i) known[scalars_[i]] = now[i];
    replace_uses(body_, known);
    auto& yielded = body_.terminator()->operands;
    yielded.insert(yielded.end(), next.begin(), next.end());
    yielded.insert(yielded.end(), after_next.begin(), after_next.end());

    ValueMap none;
    build.set_after(&loop_);
    build.insert(clone_op(*wait_, none));
    return true;
  }

 private:
  // The copies ahead of an inner loop that goes on with them, and the wait behind it: all that is asynchronous here.
  bool find_parts() {
    const Op* inner = nullptr;
    for (auto& op : body_.ops) {
      if (is_asynchronous(*op)) {
        if (!inner && is_copy(*op))
          copies_.push_back(op.get());
        else if (inner && !wait_ && op->opcode == Opcode::AsyncWait && op->attr_int("pending") == 0)
          wait_ = op.get();
        else
          return false;
        continue;
      }
      bool asynchronous = false;
      for (auto& region : op->regions) walk(*region, [&](Op& within) { asynchronous |= is_asynchronous(within); });
      if (!asynchronous) continue;
      if (inner) return false;
      inner = op.get();
    }
    return wait_ && !copies_.empty();
  }

  bool inside(const Value* v) const { return (v->def ? v->def->parent : v->block) == &body_; }

  bool follow_from_round() {
    std::unordered_set<const Value*> seen;
    std::function<bool(const Value*)> follows = [&](const Value* v) {
      if (!v || !inside(v) || !seen.insert(v).second) return true;
      if (!v->def) return v->index == 0;
      if (v->def->opcode == Opcode::SharedAlloc) return true;
      return v->def->has(Pure) && v->def->regions.empty() && scratch_bytes(*v->def, func_.num_warps()) == 0 &&
             std::all_of(v->def->operands.begin(), v->def->operands.end(), follows);
    };
    return std::all_of(copies_.begin(), copies_.end(),
                       [&](const Op* op) { return std::all_of(op->operands.begin(), op->operands.end(), follows); });
  }

  bool memory_allows() const {
    std::vector<const Value*> written;
    if (orders_memory(body_, written)) return false;
    return std::all_of(copies_.begin(), copies_.end(), [&](const Op* op) {
      return op->opcode != Opcode::AsyncCopy || apart(op->operands[0], written);
    });
  }

  // Room for the slots during the whole loop, if there is enough.
  bool hoist_buffers() {
    auto& outside = loop_.parent->ops;
    auto loop = std::find_if(outside.begin(), outside.end(), [&](auto& op) { return op.get() == &loop_; });
    std::vector<Op*> moved;
    for (auto op = body_.ops.begin(); op != body_.ops.end();) {
      auto next = std::next(op);
      if ((*op)->opcode == Opcode::SharedAlloc) {
        moved.push_back(op->get());
        (*op)->parent = loop_.parent;
        outside.splice(loop, body_.ops, op);
      }
      op = next;
    }
    if (plan_shared(func_).bytes <= target_.shared_per_program) return true;
    const auto first = body_.ops.begin();
    for (Op* op : moved) {
      auto at = std::find_if(outside.begin(), outside.end(), [&](auto& other) { return other.get() == op; });
      op->parent = &body_;
      body_.ops.splice(first, outside, at);
    }
    return false;
  }

  // What the round computes on scalars and uses in tiles or inner loops: where its tile lies. Divisions among it take
  // longer than the copies can wait for, so that it is carried from two rounds before.
  void find_scalars() {
    // By pure scalar ops from values of before the loop; of these, from the round's number.
    std::unordered_set<const Value*> plain{body_.args[0].get()}, of_round = plain;
    std::unordered_set<const Op*> computing;
    for (auto& op : body_.ops) {
      bool scalar = op->has(Pure) && op->regions.empty() && op->results.size() == 1 && op->result()->type.is_scalar();
      bool varies = false;
      for (const Value* v : op->operands) {
        scalar &= v && v->type.is_scalar() && (!inside(v) || plain.contains(v));
        varies |= of_round.contains(v);
      }
      if (!scalar) continue;
      plain.insert(op->result());
      if (!varies) continue;
      computing.insert(op.get());
      of_round.insert(op->result());
    }
    std::unordered_set<const Value*> used;
    walk(body_, [&](const Op& op) {
      if (!computing.contains(&op)) used.insert(op.operands.begin(), op.operands.end());
    });
    for (auto& op : body_.ops)
      if (computing.contains(op.get()) && used.contains(op->result())) scalars_.push_back(op->result());
  }

  // A round other than the one at hand: what its values are.
  struct Round {
    ValueMap values;
  };

  Value* value_of(Builder& build, Round& round, Value* v) {
    if (!v || !inside(v)) return v;
    if (auto known = round.values.find(v); known != round.values.end()) return known->second;
    for (Value* operand : v->def->operands) value_of(build, round, operand);
    return build.insert(clone_op(*v->def, round.values))->result(v->index);
  }

  std::vector<Value*> values_of(Builder& build, Round& round) {
    std::vector<Value*> out;
    for (Value* v : scalars_) out.push_back(value_of(build, round, v));
    return out;
  }

  // The copies of a round; they bring zeros where it does not exist.
  void copy_round(Builder& build, Round& round, Value* exists) {
    for (Op* op : copies_) {
      std::vector<Value*> operands;
      for (Value* v : op->operands) operands.push_back(value_of(build, round, v));
      build.set_loc(op->loc);
      if (op->opcode == Opcode::AsyncCopy) {
        Type type = Type::tile(Elem::I1, operands[0]->type.shape);
        type.layout = operands[0]->type.layout;
        Value* here = build.create(Opcode::Splat, {exists}, {type})->result();
        operands.resize(3);
        operands[2] = operands[2] ? build.bit_and(here, operands[2]) : here;
      }
      build.create(op->opcode, std::move(operands), {}, op->attrs);
    }
  }

  Op& loop_;
  Block& body_;
  Func& func_;
  const Target& target_;
  std::vector<Op*> copies_;
  std::vector<Value*> scalars_;
  Op* wait_ = nullptr;
};

}  // namespace

void passes::overlap_epilogue(Func& func, PassContext& context) {
  std::vector<Op*> loops;
  walk(func.body, [&](Op& op) {
    if (op.opcode == Opcode::For) loops.push_back(&op);
  });
  bool changed = false;
  for (Op* loop : loops) changed |= EpilogueOverlap(*loop, func, context.target).run();
  if (changed) remove_dead_code(func);
}

}  // namespace tegula
