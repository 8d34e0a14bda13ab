#include "codegen/pipeline/schedule.h"

#include <algorithm>
#include <functional>
#include <unordered_set>

#include "codegen/analysis/shared_plan.h"
#include "codegen/ir/flow.h"
#include "codegen/pipeline/halves.h"
#include "codegen/pipeline/loop_stages.h"

namespace tegula {

using namespace ir;

Op* wait_of(const Op& product) {
  for (auto& op : product.parent->ops)
    if (op->opcode == Opcode::MmaWait && op->operand(0) == product.result()) return op.get();
  return nullptr;
}

namespace {

bool is_sum_of_loop(const Op& product) {
  const ForLoop loop(*product.parent->parent);
  const Value* acc = product.operand(2);
  const auto carried = loop.number(acc);
  const Op* wait = wait_of(product);
  if (!carried || acc->def || !wait || loop.next(*carried) != wait->result()) return false;
  auto uses = count_uses(loop.body());
  return uses[acc] == 1 && uses[wait->result()] == 1 && uses[product.result()] == 1;
}

// Removes from `loads` those that other loads or the copies depend on, and returns them.
std::vector<Op*> take_indices(std::vector<Op*>& loads, const std::vector<Op*>& copies) {
  std::unordered_set<const Value*> addresses;
  std::function<void(const Value*)> visit = [&](const Value* v) {
    if (v && v->def && addresses.insert(v).second)
      for (const Value* x : v->def->operands) visit(x);
  };
  for (const std::vector<Op*>* ops : std::initializer_list<const std::vector<Op*>*>{&loads, &copies})
    for (const Op* op : *ops)
      for (const Value* v : op->operands) visit(v);
  const auto first = std::stable_partition(loads.begin(), loads.end(),
                                           [&](const Op* load) { return !addresses.contains(load->result()); });
  std::vector<Op*> indices(first, loads.end());
  loads.erase(first, loads.end());
  return indices;
}

}  // namespace

LoopSchedule schedule_of(const Op& loop) {
  LoopSchedule out;
  const Block& body = *loop.regions[0];
  auto uses = count_uses(body);
  // A place within the body is taken anew in each iteration.
  auto is_outside = [&](const Value* place) { return alloc_of(place)->parent != &body; };
  for (Op* load : loads_ahead(loop))
    if (load->opcode == Opcode::Load)
      out.loads.push_back(load);
    else if (uses[load->operand(1)] > 1 && is_outside(load->operand(1)))  // somebody reads what is copied
      out.copies.push_back(load);
  out.indices = take_indices(out.loads, out.copies);
  std::vector<Op*> products;
  size_t copied = 0;     // that products may read
  bool refills = false;  // a place of one slot, in each iteration
  for (auto& op : body.ops) {
    copied += op->opcode == Opcode::AsyncCopy && uses[op->operand(1)] > 1;
    if (op->opcode == Opcode::SharedStore && is_outside(op->operand(1))) out.stores.push_back(op.get());
    refills |=
        op->opcode == Opcode::SharedTranspose || (op->opcode == Opcode::SharedStore && !is_outside(op->operand(1)));
    if (is_product(*op)) products.push_back(op.get());
  }
  int all = 0;
  walk(body, [&](const Op& op) { all += is_product(op); });
  if (products.empty() || products[0]->opcode != Opcode::MmaStart) return out;
  out.product = products[0];
  // A copy that does not run ahead takes its place's only slot again, which no product may read then; so do a store to
  // a place of the iteration's own and what is transposed into a place.
  const bool sums_up = all == 1 && is_sum_of_loop(*products[0]) && copied == out.copies.size() && !refills;
  // An iteration computes its fragments in the registers of the one before, which no product may read then.
  const Value* a = products[0]->operand(0);
  out.has_fragments = sums_up && !a->type.is_place() && a->def && a->def->parent == &body;
  out.sums_up = sums_up && !out.has_fragments;
  out.in_halves = out.has_fragments && products[0]->operand(1)->type.is_place() && divides_along_depth(*products[0]);
  return out;
}

}  // namespace tegula
