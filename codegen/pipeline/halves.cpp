#include "codegen/pipeline/halves.h"

#include <algorithm>
#include <unordered_set>

#include "codegen/ir/flow.h"
#include "codegen/pipeline/edit.h"
#include "codegen/pipeline/loop_bounds.h"
#include "codegen/pipeline/loop_values.h"
#include "codegen/product/plan.h"
#include "runtime/base/check.h"

namespace tegula {

using namespace ir;

bool divides_along_depth(const Op& product) {
  const MmaInstruction* instruction = plan_of(product).instruction;
  return instruction && depth_of(product).size() % (2 * int64_t(instruction->k)) == 0;
}

void multiply_in_halves(Op& loop, Op& product) {
  const ForLoop parts(loop);
  const size_t carried = *parts.number(product.operand(2));
  Value* first = parts.next(carried);
  TEGULA_CHECK(first->def && first->def->opcode == Opcode::MmaWait && first->def->get(attr::pending) == 1,
               "the sums of a product in halves are not in flight");
  const DepthRange depth = depth_of(product);
  const int64_t half = depth.size() / 2;
  Builder last = before(*loop.regions[0]->terminator(), product.loc);
  Attrs attrs = product.attrs;
  product.set(attr::depth, half);
  attrs[attr::first] = depth.begin + half;
  attrs[attr::depth] = half;
  Op* second = last.create(Opcode::MmaStart, {product.operand(0), product.operand(1), first, nullptr},
                           {product.result()->type}, attrs);
  Op* wait = last.create(Opcode::MmaWait, {second->result()}, {first->type}, first->def->attrs);
  loop.regions[0]->terminator()->operands[carried] = wait->result();
}

namespace {

// Reads of slots that copies fill, with the wait ahead of them and the arrival behind; and what follows from these
// alone.
struct Ahead {
  std::vector<Op*> ops;        // in their order
  std::vector<Value*> values;  // of these ops, what others use
  /// Whether these others are arithmetic, which needs registers of its own for what products read: those of the values
  /// are written while products are under way.
  bool is_computed_with = true;
};

bool uses_any(const Op& op, const std::unordered_set<const Value*>& values) {
  bool uses = std::ranges::any_of(op.operands, [&](const Value* v) { return values.contains(v); });
  for (const auto& region : op.regions) walk(*region, [&](const Op& inner) { uses |= uses_any(inner, values); });
  return uses;
}

// The reads, with their slots; none where others use the places, too.
std::vector<Op*> reads_of(const Block& body, const std::vector<const Value*>& places, const Fill& fill) {
  std::unordered_set<const Value*> slots, barriers;
  std::vector<Op*> found;
  for (const auto& op : body.ops) {
    const bool is_slot = op->opcode == Opcode::SharedSlot;
    if (is_slot && std::ranges::find(places, op->operand(0)) != places.end())
      slots.insert(op->result());
    else if (is_slot && (op->operand(0) == fill.full || op->operand(0) == fill.empty))
      barriers.insert(op->result());
    else if (uses_any(*op, slots) && op->opcode != Opcode::SharedRead)
      return {};
    else if (!uses_any(*op, slots) && !uses_any(*op, barriers))
      continue;
    found.push_back(op.get());
  }
  return found;
}

// Whether the op computes something of values that are there before the loop or that are among `known`.
bool follows_from(const Op& op, const std::unordered_set<const Op*>& known) {
  return op.has(Pure) && op.regions.empty() && !is_product(op) && std::ranges::all_of(op.operands, [&](const Value* v) {
           return !v || home(v) != op.parent || (v->def && known.contains(v->def));
         });
}

Ahead what_follows(const Block& body, const std::vector<Op*>& reads) {
  std::unordered_set<const Op*> known(reads.begin(), reads.end()), of_reads, needed = known;
  std::unordered_map<const Value*, std::vector<const Op*>> others;  // users that do not follow from reads alone
  for (const auto& op : body.ops) {
    if (op->opcode == Opcode::SharedRead && known.contains(op.get())) of_reads.insert(op.get());
    if (known.contains(op.get())) continue;
    if (follows_from(*op, known)) known.insert(op.get());
    const bool follows =
        std::ranges::any_of(op->operands, [&](const Value* v) { return v && v->def && of_reads.contains(v->def); });
    if (follows && known.contains(op.get())) of_reads.insert(op.get());
    if (!known.contains(op.get()))
      for (const Value* v : op->operands) others[v].push_back(op.get());
  }
  Ahead ahead;
  for (auto at = body.ops.rbegin(); at != body.ops.rend(); ++at) {
    Op& op = **at;
    if (of_reads.contains(&op) && others.contains(op.result())) {
      ahead.values.push_back(op.result());
      for (const Op* other : others[op.result()]) ahead.is_computed_with &= other->has(Elementwise);
      needed.insert(&op);
    }
    if (!needed.contains(&op)) continue;
    ahead.ops.insert(ahead.ops.begin(), &op);
    for (const Value* v : op.operands)
      if (v && v->def && home(v) == &body) needed.insert(v->def);
  }
  return ahead;
}

// 32-bit registers of a thread that hold values: smaller elements are by themselves, but for pairs of 16 bits.
int64_t registers_of(const Value* v) {
  const int64_t elements = v->type.layout->in_size(Dim::Register);
  return v->type.bits() == 16 ? (elements + 1) / 2 : elements * std::max<int64_t>(1, v->type.bits() / 32);
}

// The values that the ops compute with other values for some, if `there`; else `others`, or zeros.
std::vector<Value*> compute_if(Builder& build, Value* there, const Ahead& ahead, ValueMap known,
                               std::vector<Value*> others = {}) {
  std::vector<Type> types;
  for (const Value* v : ahead.values) types.push_back(v->type);
  Op* any = build.create(Opcode::If, {there}, types);
  Builder here;
  here.set_end(any->regions[0].get()), here.set_loc(build.loc());
  for (const Op* op : ahead.ops) here.insert(clone_op(*op, known));
  std::vector<Value*> computed, results;
  for (const Value* v : ahead.values) computed.push_back(known.at(v));
  here.create(Opcode::Yield, computed);
  here.set_end(any->regions[1].get());
  for (size_t i = others.size(); i < types.size(); ++i)
    others.push_back(types[i].is_float() ? here.constant_float(types[i], 0) : here.constant(types[i], 0));
  here.create(Opcode::Yield, others);
  for (const auto& result : any->results) results.push_back(result.get());
  return results;
}

}  // namespace

void read_ahead(Op& loop, const Op& product, const std::vector<const Value*>& places, const Fill& fill,
                const Turn& turn, int64_t registers) {
  // Measured on an H200: products of up to 64 columns gain 13 to 17 %, as they take less time than it takes to make
  // their fragments. Longer ones lose up to 10 %, as all fragments are then computed beside the second half alone.
  constexpr int64_t kShort = 64, kOthers = 40;
  Block& body = *loop.regions[0];
  const std::vector<Op*> reads = reads_of(body, places, fill);
  const Ahead ahead = what_follows(body, reads);
  int64_t read = 0, kept = 0;
  for (const Op* op : reads)
    if (op->opcode == Opcode::SharedRead) read += op->result()->type.layout->in_size(Dim::Register);
  for (const Value* v : ahead.values) kept += registers_of(v);
  const int64_t multiplied = registers_of(product.operand(0)) + registers_of(product.result());
  const bool is_short = product.result()->type.shape[1] <= kShort;
  if (ahead.values.empty() || !is_short || !ahead.is_computed_with || kept > read ||
      multiplied + kept + kOthers > registers)
    return;
  const ForLoop parts(loop);
  const size_t slot = *parts.number(turn.slot), phase = *parts.number(turn.phase);
  Builder outside = before(loop);
  const std::vector<Value*> first = compute_if(outside, within_loop(outside, loop, parts.lower()), ahead,
                                               {{turn.slot, parts.init(slot)}, {turn.phase, parts.init(phase)}});
  std::vector<Value*> now;
  for (Value* v : first) now.push_back(carry(loop, v));
  Builder last = before(*parts.next(*parts.number(product.operand(2)))->def);
  Value *number = wide(last, parts.induction()), *step = wide(last, parts.step());
  Value* next_exists = within_loop(last, loop, last.add(number, step));
  const std::vector<Value*> next =
      compute_if(last, next_exists, ahead, {{turn.slot, parts.next(slot)}, {turn.phase, parts.next(phase)}}, now);
  ValueMap carried;
  for (size_t i = 0; i < next.size(); ++i) {
    carried[ahead.values[i]] = now[i];
    body.terminator()->operands.push_back(next[i]);
  }
  replace_uses(body, carried);
  for (size_t i = reads.size(); i-- > 0;)
    if (reads[i]->opcode == Opcode::PhaseWait || reads[i]->opcode == Opcode::PhaseArrive) erase(*reads[i]);
}

}  // namespace tegula
