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
// is computed while the other warpgroup multiplies. The first one has the first turn. Each passes the turn on as often
// as the other one waits for it, and so leaves the barriers behind the loop as they were.
void take_turns_in(Op& loop, Op& first, Op& second) {
  before(second).create(Opcode::TurnWait, {});
  Builder pass = behind(first), after = behind(loop);
  const ForLoop parts(loop);
  pass.create(Opcode::TurnPass, {pass.ne(parts.induction(), parts.lower()), truth(pass, true)});
  after.create(Opcode::TurnPass, {after.lt(parts.lower(), parts.upper()), truth(after, false)});
}

}  // namespace

void take_turns(Func& func) {
  if (func.num_warps() != 2 * kWarpsOfGroup) return;
  AffineTiles scalars(func);
  std::vector<Op*> loops;
  for (auto& op : func.body.ops)
    if (op->opcode == Opcode::For && !has_one_iteration(*op, scalars)) loops.push_back(op.get());
  for (Op* loop : loops)
    if (auto products = two_products(*loop)) take_turns_in(*loop, *products->first, *products->second);
}

}  // namespace tegula
