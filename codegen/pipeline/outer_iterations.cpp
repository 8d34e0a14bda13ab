#include "codegen/pipeline/outer_iterations.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>

#include "codegen/analysis/pointer_base.h"
#include "codegen/ir/flow.h"
#include "codegen/pipeline/loop_bounds.h"
#include "codegen/product/operands.h"

namespace tegula {

using namespace ir;

namespace {

bool contains(const std::vector<Op*>& ops, const Op* op) { return std::find(ops.begin(), ops.end(), op) != ops.end(); }

// The product whose sums `next` are; null for other values.
const Op* product_of(const Value* next) {
  const Op* op = next->def;
  if (op && op->opcode == Opcode::MmaWait) op = op->operand(0)->def;
  return op && is_product(*op) ? op : nullptr;
}

// Whether an operand of a product is read from a place that one of the copies fills.
bool is_copied(const Value* operand, const std::vector<Op*>& copies) {
  const Value* place = untransposed(const_cast<Value*>(operand));
  if (place->def && place->def->opcode == Opcode::SharedRead) place = place->def->operand(0);
  return std::any_of(copies.begin(), copies.end(), [&](const Op* copy) { return copy->operand(1) == place; });
}

// Whether a further iteration, with zeros for what is copied, changes nothing: the loop sums up products of what is
// copied, and what else it carries grows and is not used after it.
bool only_sums_up(const Op& loop, const std::vector<Op*>& copies, LoopSources& sources) {
  const ForLoop parts(loop);
  const Block& body = parts.body();
  for (auto& op : body.ops) {
    const bool waits = op->opcode == Opcode::AsyncCommit || op->opcode == Opcode::AsyncWait;
    if (op->has(WritesGlobal) || (op->has(Writes) && !waits && !contains(copies, op.get()))) return false;
    if (op->opcode == Opcode::Load || !op->regions.empty()) return false;
  }
  auto uses = count_uses(body);
  auto behind = count_uses(*loop.parent);
  for (size_t i = 0; i < parts.carried(); ++i) {
    const Value *arg = parts.arg(i), *next = parts.next(i);
    if (sources.growth(arg) && !behind.contains(parts.result(i))) continue;
    const Op* product = product_of(next);
    if (!product || product->parent != &body || product->operand(2) != arg || uses[arg] != 1 || uses[next] != 1)
      return false;
    for (int side : {0, 1})
      if (!is_copied(product->operand(side), copies)) return false;
  }
  return true;
}

const Value* pointers_of(const Op& load) {
  const Value* from = load.operand(0);
  return load.opcode == Opcode::BulkCopy ? from->def->operand(0) : from;
}

bool has_products(const Op& op) {
  bool found = false;
  for (auto& region : op.regions) walk(*region, [&](const Op& inner) { found |= is_product(inner); });
  return found;
}

}  // namespace

std::unique_ptr<OuterIterations> OuterIterations::of(Op& inner, const std::vector<Op*>& loads, LoopSources& sources,
                                                     int64_t ahead) {
  Op* loop = inner.parent->parent;
  if (!loop || loop->opcode != Opcode::For) return nullptr;
  // The first `ahead` iterations exist in each outer_number, as numbers of the loop's type too.
  const ForLoop parts(inner);
  const auto lower = constant_integer(parts.lower()), upper = constant_integer(parts.upper()),
             step = constant_integer(parts.step());
  if (!lower || !step || *step <= 0 || *step > INT32_MAX / ahead || *lower > INT32_MAX - *step * ahead) return nullptr;
  if (*lower < 0 || (upper && *upper <= *lower + *step * (ahead - 1))) return nullptr;
  for (auto& op : inner.parent->ops)
    if (is_product(*op) || (op.get() != &inner && has_products(*op))) return nullptr;
  std::vector<const Value*> written;
  if (orders_memory(*inner.parent, written)) return nullptr;
  for (const Op* load : loads) {
    if (!no_alias(pointers_of(*load), written)) return nullptr;
    // Bulk copies of iterations that there are not lie outside of their arrays, which have to begin in memory then.
    if (load->opcode == Opcode::BulkCopy && pointers_of(*load)->def) return nullptr;
  }
  if (!only_sums_up(inner, loads, sources)) return nullptr;
  std::unique_ptr<OuterIterations> outer(new OuterIterations(*loop, inner));
  return outer->follow_from_outer(loads, sources) ? std::move(outer) : nullptr;
}

bool OuterIterations::follow_from_outer(const std::vector<Op*>& loads, LoopSources& sources) const {
  const ForLoop inner(inner_);
  const Block *outer = loop_.regions[0].get(), *within = &inner.body();
  std::unordered_set<const Value*> seen;
  std::function<bool(const Value*)> follows = [&](const Value* v) {
    if (!v || !seen.insert(v).second || (home(v) != outer && home(v) != within)) return true;
    if (v->def)
      return v->def->has(Pure) && v->def->regions.empty() &&
             std::all_of(v->def->operands.begin(), v->def->operands.end(), follows);
    if (v == ForLoop(loop_).induction() || v == inner.induction()) return true;
    const auto carried = inner.number(v);
    return carried && follows(inner.init(*carried)) && sources.growth(v) && follows(sources.step(v));
  };
  for (const Op* load : loads)
    for (const Value* v : load->operands)
      if (v && !v->type.is_place() && !follows(v)) return false;
  const std::vector<Value*> bounds = inner.bounds();
  return std::all_of(bounds.begin(), bounds.end(), follows);
}

// What an outer iteration computes on scalars and uses in tiles or inner loops.
std::vector<Value*> OuterIterations::find_scalars() {
  Block& body = *loop_.regions[0];
  // By pure scalar ops from values of before the loop; of these, from its number.
  std::unordered_set<const Value*> plain{ForLoop(loop_).induction()}, of_number = plain;
  std::unordered_set<const Op*> computing;
  for (auto& op : body.ops) {
    bool scalar = op->has(Pure) && op->regions.empty() && op->results.size() == 1 && op->result()->type.is_scalar();
    bool varies = false;
    for (const Value* v : op->operands) {
      scalar &= v && v->type.is_scalar() && (home(v) != &body || plain.contains(v));
      varies |= of_number.contains(v);
    }
    if (!scalar) continue;
    plain.insert(op->result());
    if (!varies) continue;
    computing.insert(op.get());
    of_number.insert(op->result());
  }
  std::unordered_set<const Value*> used;
  walk(body, [&](const Op& op) {
    if (!computing.contains(&op)) used.insert(op.operands.begin(), op.operands.end());
  });
  std::vector<Value*> scalars;
  for (auto& op : body.ops)
    if (computing.contains(op.get()) && used.contains(op->result())) scalars.push_back(op->result());
  return scalars;
}

void OuterIterations::carry_scalars() {
  Block& body = *loop_.regions[0];
  const ForLoop loop(loop_);
  Value *lower = loop.lower(), *step = loop.step(), *outer_number = loop.induction();
  const std::vector<Value*> scalars = find_scalars();
  Builder build;
  build.set_loc(loop_.loc);
  // The scalars in the outer iteration of that number.
  auto scalars_of = [&](Value* number) {
    Replay replay(build, {&body}, {{outer_number, number}});
    std::vector<Value*> out;
    for (Value* v : scalars) out.push_back(replay(v));
    return out;
  };
  // `steps` behind an iteration that there is, or that itself where the loop ends before: of an iteration that there is
  // not, a divisor may be 0 or a shift too wide.
  auto existing = [&](Value* number, int64_t steps) {
    Value *later = number, *far = wide(build, number), *far_step = wide(build, step);
    for (int64_t n = 0; n < steps; ++n) later = build.add(later, step), far = build.add(far, far_step);
    return build.select(within_loop(build, loop_, far), later, number);
  };
  build.set_before(&loop_);
  first_exists_ = within_loop(build, loop_, lower);
  const std::vector<Value*> first = scalars_of(lower), second = scalars_of(existing(lower, 1));
  std::vector<Value*> now, next;
  for (Value* v : first) now.push_back(carry(loop_, v));
  for (Value* v : second) next.push_back(carry(loop_, v));
  build.set_after(&inner_);
  const std::vector<Value*> after_next = scalars_of(existing(outer_number, 2));
  ValueMap known;
  for (size_t i = 0; i < scalars.size(); ++i) known[scalars[i]] = now[i];
  replace_uses(body, known);
  auto& yielded = body.terminator()->operands;
  yielded.insert(yielded.end(), next.begin(), next.end());
  yielded.insert(yielded.end(), after_next.begin(), after_next.end());

  build.set_before(&inner_);
  Value* wide_step = wide(build, step);
  next_exists_ = within_loop(build, loop_, build.add(wide(build, outer_number), wide_step));
  first_[outer_number] = lower;
  next_[outer_number] = build.add(outer_number, step);
  for (size_t i = 0; i < scalars.size(); ++i) {
    first_[now[i]] = first[i];
    next_[now[i]] = next[i];
  }
  for (auto& [v, value] : next_) varying_.insert(v);
  for (auto& op : body.ops)
    if (std::any_of(op->operands.begin(), op->operands.end(), [&](const Value* v) { return varying_.contains(v); }))
      for (auto& result : op->results) varying_.insert(result.get());
}

}  // namespace tegula
