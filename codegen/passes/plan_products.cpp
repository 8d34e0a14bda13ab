// Plans how each product is multiplied (ProductFamily), and records that on the dot. A plan that is there stays.
#include "codegen/passes/passes.h"
#include "codegen/product/plan.h"

namespace tegula {

void passes::plan_products(ir::Func& func, PassContext& context) {
  const ProductPlanner planner(func, context.target);
  ir::walk(func.body, [&](ir::Op& op) {
    if (op.opcode == ir::Opcode::Dot && !op.has(ir::attr::instruction)) planner.plan(op);
  });
}

}  // namespace tegula
