// Puts barriers where threads exchange data through memory, as late and as few as find_shared_hazards allows.
#include "codegen/analysis/shared_hazards.h"
#include "codegen/ir/builder.h"
#include "codegen/passes/passes.h"
#include "runtime/base/check.h"

namespace tegula {

void passes::insert_barriers(ir::Func& func, PassContext&) {
  const SharedHazards hazards = find_shared_hazards(func, plan_shared(func));
  TEGULA_CHECK(hazards.errors.empty(), "{}: {}", hazards.errors[0].first->info().text, hazards.errors[0].second);
  std::vector<ir::Op*> ops;
  ir::walk(func.body, [&](ir::Op& op) {
    if (hazards.barrier_before.contains(&op)) ops.push_back(&op);
  });
  for (ir::Op* op : ops) {
    ir::Builder builder;
    builder.set_before(op);
    ir::Attrs attrs;
    if (hazards.barrier_before.at(op)) attrs[ir::attr::async_proxy] = true;
    if (hazards.whole_program.contains(op)) attrs[ir::attr::whole_program] = true;
    builder.create(ir::Opcode::Barrier, {}, {}, std::move(attrs));
  }
}

}  // namespace tegula
