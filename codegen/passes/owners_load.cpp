// Has the threads of a program agree on what another program may change meanwhile.
//
//   %c = load %flag {volatile}       becomes      %c = load %flag {by_owners, volatile}
//   if %c > 1 { ... a barrier ... }
//
// A volatile load tells what stands in memory now, and threads that hold the same element load one after the other:
// they may get different numbers, part where the program branches on them, and wait for each other for ever at a
// barrier. One thread loads then and passes the number to the others, as with atomic operations.
//
// A loop that only waits keeps its loads: `while tl.load(flag, volatile=True) == 0: pass`. Its threads may leave it one
// after the other, as nothing but the end of the loop follows from what they have loaded.
#include <algorithm>

#include "codegen/ir/ir.h"
#include "codegen/passes/passes.h"

namespace tegula {

using namespace ir;

namespace {

/// Whether nothing follows from the loop but that it ends, and no thread of it waits for another one: all its values
/// are scalars, which each thread computes by itself.
bool only_waits(const Op& loop, const std::unordered_map<const Value*, int>& uses) {
  const auto is_used = [&](const auto& value) { return uses.contains(value.get()); };
  if (std::ranges::any_of(loop.results, is_used)) return false;
  bool scalars_alone = true;
  for (const auto& region : loop.regions)
    walk(*region, [&](const Op& op) {
      const bool computes = op.has(Pure) || op.has(Control) || op.opcode == Opcode::Load ||
                            op.opcode == Opcode::Yield || op.opcode == Opcode::Condition;
      const auto is_tile = [](const Value* v) { return v && v->type.is_tile(); };
      scalars_alone &= computes && std::ranges::none_of(op.operands, is_tile) &&
                       std::ranges::none_of(op.results, [](const auto& v) { return v->type.is_tile(); });
    });
  return scalars_alone;
}

void visit(Block& block, const std::unordered_map<const Value*, int>& uses) {
  for (const auto& op : block.ops) {
    if (op->opcode == Opcode::Load && op->get(attr::volatile_)) op->set(attr::by_owners, true);
    if (op->opcode == Opcode::While && only_waits(*op, uses)) continue;
    for (const auto& region : op->regions) visit(*region, uses);
  }
}

}  // namespace

void passes::owners_load(Func& func, PassContext&) { visit(func.body, count_uses(func.body)); }

}  // namespace tegula
