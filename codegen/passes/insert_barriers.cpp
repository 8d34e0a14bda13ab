// Puts barriers where threads exchange data through memory, as late and as few as find_shared_hazards allows.
#include "codegen/analysis/shared_hazards.h"
#include "codegen/ir/builder.h"
#include "codegen/passes/passes.h"
#include "runtime/base/check.h"

namespace tegula {

namespace {

// Inserts the barriers that the block lacks. False if another search is needed: a barrier before a loop may let
// barriers inside of it move, so that an enclosing loop ends with other accesses than those it was analysed with.
bool insert(ir::Block& block, const SharedHazards& hazards) {
  bool last = true;
  for (auto it = block.ops.begin(); it != block.ops.end(); ++it) {
    ir::Op* op = it->get();
    for (auto& region : op->regions) last &= insert(*region, hazards);
    auto needed = hazards.barrier_before.find(op);
    if (needed == hazards.barrier_before.end()) continue;
    ir::Builder builder;
    builder.set_at(&block, it);
    ir::Attrs attrs;
    if (needed->second) attrs[ir::attr::async_proxy] = true;
    if (hazards.whole_program.contains(op)) attrs[ir::attr::whole_program] = true;
    builder.create(ir::Opcode::Barrier, {}, {}, std::move(attrs));
    last &= op->regions.empty() || !block.parent;
  }
  return last;
}

bool insert(ir::Func& func) {
  const SharedHazards hazards = find_shared_hazards(func, plan_shared(func));
  TEGULA_CHECK(hazards.errors.empty(), "{}: {}", hazards.errors[0].first->info().text, hazards.errors[0].second);
  return insert(func.body, hazards);
}

// Whether all blocks of a cluster meet while warps of their own copy for loops (see Partition), which do not get there.
bool meets_beside_copies(const ir::Func& func) {
  bool meets = false, met = false;
  for (const auto& op : func.body.ops) {
    bool copied = false;  // what op, or one within, waits for
    auto look_at = [&](const ir::Op& other) {
      meets |= other.opcode == ir::Opcode::Barrier && other.get(ir::attr::whole_program);
      copied |= other.opcode == ir::Opcode::PhaseWait;
    };
    if (op->opcode == ir::Opcode::CopyWarps) continue;
    look_at(*op);
    for (const auto& region : op->regions) ir::walk(*region, look_at);
    met |= copied && meets;
  }
  return met;
}

}  // namespace

void passes::insert_barriers(ir::Func& func, PassContext&) {
  while (!insert(func)) {
  }
  TEGULA_CHECK(func.num_ctas() == 1 || !meets_beside_copies(func), "blocks of a cluster meet beside copies");
}

}  // namespace tegula
