#include "codegen/pipeline/turns.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/analysis/shared_plan.h"
#include "codegen/ir/flow.h"
#include "codegen/pipeline/affine_tile.h"
#include "codegen/pipeline/barriers.h"
#include "codegen/pipeline/edit.h"
#include "codegen/pipeline/loop_values.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int kWarpsOfGroup = 4;

// Whether the program's warps may have to wait for each other at the op.
bool may_wait(const Op& op) {
  return op.opcode == Opcode::Barrier || op.opcode == Opcode::SharedStore || op.opcode == Opcode::AtomicRmw ||
         op.has(WritesGlobal) || scratch_bytes(op) > 0;
}

bool has_one_iteration(const Op& loop, AffineTiles& scalars) {
  const ForLoop parts(loop);
  const auto lower = scalars.polynomial_of(parts.lower()), upper = scalars.polynomial_of(parts.upper());
  const auto step = scalars.polynomial_of(parts.step());
  return lower && upper && step && *upper - *lower == *step;
}

// The two products of a loop whose operands copy_warps bring, in order; none where there are fewer or more, or where
// warps wait for each other: a warpgroup that waits for its turn would keep the other one waiting for ever.
std::optional<std::pair<Op*, Op*>> two_products(const Op& loop) {
  std::vector<Op*> products;
  bool partitioned = false, together = false;
  walk(*loop.regions[0], [&](const Op& op) { together |= may_wait(op); });
  if (together) return std::nullopt;
  for (auto& op : loop.regions[0]->ops) {
    partitioned |= op->opcode == Opcode::PhaseWait;
    if (op->opcode == Opcode::MmaStart) products.push_back(op.get());
  }
  int all = 0;
  walk(*loop.regions[0], [&](const Op& op) { all += is_product(op); });
  if (!partitioned || products.size() != 2 || all != 2) return std::nullopt;
  return std::pair(products[0], products[1]);
}

// A warpgroup's turn is the second product of an iteration and the first one of the next: what comes between the two
// is computed while the other warpgroup multiplies. The first one has the first turn.
void take_turns_in(Func& func, Op& loop, Op& first, Op& second) {
  Value* turns = alloc_barriers(func, func.num_warps() / kWarpsOfGroup, kWarpsOfGroup);
  Builder outside = before(loop);
  Value* phase = carry(loop, number(outside, 0));
  Builder wait = before(second);
  wait.create(Opcode::TurnWait, {turns, phase});
  loop.regions[0]->terminator()->operands.push_back(wait.bit_xor(phase, number(wait, 1)));
  Builder pass = behind(first);
  const ForLoop parts(loop);
  pass.create(Opcode::TurnPass, {turns, pass.ne(parts.induction(), parts.lower()), truth(pass, true)});
  Builder after = behind(loop);
  after.create(Opcode::TurnPass, {turns, truth(after, true), truth(after, false)});
}

}  // namespace

void take_turns(Func& func) {
  if (func.num_warps() != 2 * kWarpsOfGroup) return;
  AffineTiles scalars(func);
  std::vector<Op*> loops;
  for (auto& op : func.body.ops)
    if (op->opcode == Opcode::For && !has_one_iteration(*op, scalars)) loops.push_back(op.get());
  for (Op* loop : loops)
    if (auto products = two_products(*loop)) take_turns_in(func, *loop, *products->first, *products->second);
}

}  // namespace tegula
