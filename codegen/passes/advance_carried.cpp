// Carried values that a loop uses some steps on only start there.
//
//   for i, p = p0                                 for i, q = p0 + d + d
//     copy (p + d) + d                     ->       copy q
//     yield p + d                                   yield q + d
//
// One addition an iteration is left where loads run ahead of their loop: for tiles of pointers this is one for each
// register.
#include <algorithm>
#include <unordered_map>

#include "codegen/ir/builder.h"
#include "codegen/passes/passes.h"

namespace tegula {

using namespace ir;

namespace {

// The op p + d of the body that gives the next p, where nothing else uses p, nor the loop's result, and d is of before
// the loop.
Op* only_step(const Op& loop, int carried, const std::unordered_map<const Value*, int>& uses) {
  const Block& body = *loop.regions[0];
  const Value* p = body.args[carried + 1].get();
  Op* op = body.terminator()->operands[carried]->def;
  if (!op || op->parent != &body || uses.contains(loop.result(carried))) return nullptr;
  if (op->opcode != Opcode::AddPtr && !(op->opcode == Opcode::Add && op->result()->type.is_integer())) return nullptr;
  const Value* step = op->operands[1];
  const Block* home = step->def ? step->def->parent : step->block;
  for (const Op* around = &loop; home != around->parent; around = around->parent->parent)
    if (!around->parent->parent) return nullptr;
  auto count = uses.find(p);
  return op->operands[0] == p && count != uses.end() && count->second == 1 ? op : nullptr;
}

// Lets p start a step later: what was p + d is p.
void start_later(Op& loop, int carried, Op& step) {
  Value* p = loop.regions[0]->args[carried + 1].get();
  Value*& init = loop.operands[kForBounds + carried];
  Builder build;
  build.set_before(&loop);
  build.set_loc(step.loc);
  init = build.create(step.opcode, {init, step.operands[1]})->result();
  replace_uses(*loop.regions[0], step.result(), p);
  loop.regions[0]->terminator()->operands[carried] = step.result();
}

}  // namespace

void passes::advance_carried(Func& func, PassContext& context) {
  constexpr int kMostSteps = 8;
  bool changed = true;
  for (int round = 0; round < kMostSteps && changed; ++round) {
    changed = false;
    auto uses = count_uses(func.body);
    walk(func.body, [&](Op& loop) {
      if (loop.opcode != Opcode::For) return;
      for (int i = 0; i < int(loop.results.size()); ++i) {
        Op* step = only_step(loop, i, uses);
        if (!step || uses.at(step->result()) < 2) continue;
        start_later(loop, i, *step);
        changed = true;
      }
    });
    if (changed) canonicalize(func, context);
  }
}

}  // namespace tegula
