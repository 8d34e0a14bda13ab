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
#include "codegen/pipeline/loop_bounds.h"
#include "codegen/pipeline/loop_values.h"
#include "codegen/pipeline/overlap.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int kWarpsOfGroup = 4;

// Whether the op may make the program's warps wait for each other.
bool may_wait(const Op& op) {
  if (op.opcode == Opcode::SharedTranspose) return !op.get(attr::phases);
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
std::optional<ChainedProducts> chained_products(Op& loop) {
  std::vector<Op*> products;
  bool partitioned = false, together = false;
  walk(*loop.regions[0], [&](const Op& op) { together |= may_wait(op); });
  if (together) return std::nullopt;
  for (auto& op : loop.regions[0]->ops) {
    partitioned |= op->opcode == Opcode::PhaseWait;
    if (op->opcode == Opcode::MmaStart) products.push_back(op.get());
  }
  if (std::ranges::any_of(products, [](const Op* product) { return product->operand(2)->type.is_in_flight(); }))
    return std::nullopt;  // they add to the same sums
  int all = 0;
  walk(*loop.regions[0], [&](const Op& op) { all += is_product(op); });
  if (!partitioned || products.size() != 2 || all != 2) return std::nullopt;
  return ChainedProducts{&loop, products[0], products[1]};
}

// Whether one product may wait for an iteration while another is still to come for the one before. Threads that copy
// tell that an operand is there when there is room for the next one: of the last operand of an iteration, when all have
// left the iteration that had the same slots as the next. With two slots that is the one before.
bool may_run_apart(const Func& func, const Op& loop) {
  constexpr int64_t kEnoughSlots = 3;
  bool threads_copy = false;
  walk(func.body, [&](const Op& op) { threads_copy |= op.opcode == Opcode::CopyWarps && !op.get(attr::one_thread); });
  if (!threads_copy) return true;
  int64_t slots = kEnoughSlots;
  for (const auto& op : loop.regions[0]->ops)
    if (op->opcode == Opcode::PhaseWait)
      if (const Op* slot = op->operand(0)->def; slot && slot->opcode == Opcode::SharedSlot)
        slots = std::min(slots, slot->operand(0)->def->get(attr::slots));
  return slots >= kEnoughSlots;
}

// Whether warpgroups may take turns from the second product to the first one of the next iteration. What both transpose
// in part stands outside: in its turn, a warpgroup would wait for the part of the other, which waits for its own.
// (Products that overlap have no such operands.)
bool may_turn_across_iterations(const ChainedProducts& products) {
  const auto& ops = products.loop->regions[0]->ops;
  auto at = std::find_if(ops.begin(), ops.end(), [&](const auto& op) { return op.get() == products.second; });
  for (; at->get() != products.first; at = std::next(at) == ops.end() ? ops.begin() : std::next(at))
    if ((*at)->opcode == Opcode::SharedTranspose) return false;
  return true;
}

// A warpgroup's turn is the second product of an iteration and the first one of the next: what comes between the two
// is computed while the other warpgroup multiplies. The first one has the first turn. Each passes the turn on as often
// as the other one waits for it, and so leaves the barriers after the loop as they were.
void take_turns_across_iterations(const ChainedProducts& products) {
  Op& loop = *products.loop;
  before(*products.second).create(Opcode::TurnWait, {});
  Builder pass = behind(*products.first), after = behind(loop);
  const ForLoop parts(loop);
  pass.create(Opcode::TurnPass, {pass.ne(parts.induction(), parts.lower()), truth(pass, true)});
  after.create(Opcode::TurnPass, {gets_to(after, loop, parts.lower()), truth(after, false)});
}

// A warpgroup's turn is the two products that an iteration starts. Before the loop the second one passes the turn on to
// the first, so it does not in the last iteration.
void take_turns_in_iterations(const ChainedProducts& products) {
  Op& loop = *products.loop;
  const ForLoop parts(loop);
  Builder outside = before(loop);
  outside.create(Opcode::TurnPass, {truth(outside, false), gets_to(outside, loop, parts.lower())});
  before(*products.first).create(Opcode::TurnWait, {});
  Builder pass = behind(*products.second);
  Value* next_exists = gets_to(pass, loop, pass.add(parts.induction(), parts.step()));
  pass.create(Opcode::TurnPass, {truth(pass, true), next_exists});
}

// Measured on an H200 by attention's loop. Up to 64 columns of values, and with operands of 8 bits, products are so
// short against the arithmetic that a second one under way costs more than it hides.
bool overlap_pays(const ChainedProducts& products) {
  constexpr int kNarrow = 64;
  return products.second->result()->type.shape.back() > kNarrow && products.first->operand(0)->type.bits() > 8;
}

}  // namespace

std::vector<Transfer> schedule_chained_products(Func& func, int64_t registers) {
  std::vector<ChainedProducts> all;
  AffineTiles scalars(func);
  walk(func.body, [&](Op& op) {
    if (op.opcode != Opcode::For || has_one_iteration(op, scalars) || !may_run_apart(func, op)) return;
    if (auto products = chained_products(op)) all.push_back(*products);
  });
  std::vector<Transfer> told;
  for (ChainedProducts& products : all) {
    auto tell = [&](const char* what) { told.push_back({products.loop->loc, what, ""}); };
    const bool overlap = overlap_pays(products) && overlap_products(products, registers);
    const bool turns = func.num_warps() == 2 * kWarpsOfGroup && (overlap || may_turn_across_iterations(products));
    if (turns) overlap ? take_turns_in_iterations(products) : take_turns_across_iterations(products);
    if (overlap) tell("the first product of an iteration runs beside the second one of the last");
    if (turns) tell("two groups of warps multiply in turns");
  }
  return told;
}

}  // namespace tegula
