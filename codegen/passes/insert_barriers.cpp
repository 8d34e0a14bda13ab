// Puts barriers where threads exchange data through memory, as late and as few as find_shared_hazards allows.
#include "codegen/analysis/shared_hazards.h"
#include "codegen/ir/builder.h"
#include "codegen/passes/passes.h"
#include "runtime/base/check.h"

namespace tegula {

namespace {

// Inserts what the block lacks. False where that may change what precedes an op: a barrier ahead of a loop lets those
// inside come at another place, so that a loop around it ends with other accesses than it was searched with.
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

}  // namespace

void passes::insert_barriers(ir::Func& func, PassContext&) {
  while (!insert(func)) {
  }
}

}  // namespace tegula
