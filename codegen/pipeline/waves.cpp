#include "codegen/pipeline/waves.h"

#include <algorithm>
#include <functional>
#include <unordered_set>
#include <vector>

#include "codegen/analysis/register_pressure.h"
#include "codegen/ir/flow.h"
#include "codegen/product/plan.h"

namespace tegula {

using namespace ir;

namespace {

// With fewer sums a thread has room for all of them.
constexpr int64_t kLeastSums = 96;  // registers

bool begins_anew(const Op& product) { return product.operand(3) && constant_integer(product.operand(3)) == 0; }

// Whether the body has nothing but elementwise ops take the value and what follows from it.
bool only_elementwise(const Block& body, const Value* first) {
  std::unordered_set<const Value*> reached{first};
  bool good = true;
  for (auto& op : body.ops) {
    if (std::none_of(op->operands.begin(), op->operands.end(), [&](const Value* v) { return reached.contains(v); }))
      continue;
    if (op->has(Terminator)) continue;
    good &= op->has(Elementwise);
    for (auto& result : op->results) reached.insert(result.get());
  }
  return good;
}

}  // namespace

void multiply_in_waves(Op& loop, Op& product) {
  const Block& body = *loop.regions[0];
  const Type& sums = product.result()->type;
  const int64_t at_once = family_of(product).registers(plan_of(product));
  const int64_t all = held_elements(sums) / plan_of(product).instruction->sums_packed();
  if (!begins_anew(product) || all < kLeastSums || all <= at_once) return;
  Op* wait = nullptr;
  for (auto& op : body.ops)
    if (op->opcode == Opcode::MmaWait && op->operand(0) == product.result()) wait = op.get();
  if (!wait || wait->get(attr::pending) != 0 || !only_elementwise(body, wait->result())) return;
  product.set(attr::waves, true);
}

Op* product_of_iteration(Op& loop) {
  Op* product = nullptr;
  int all = 0;
  walk(*loop.regions[0], [&](Op& op) {
    if (!is_product(op)) return;
    ++all;
    product = &op;
  });
  if (all != 1 || product->opcode != Opcode::MmaStart || product->parent != loop.regions[0].get()) return nullptr;
  return begins_anew(*product) ? product : nullptr;
}

}  // namespace tegula
