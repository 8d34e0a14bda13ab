// Plans how each product is multiplied (ProductFamily), and records that on the dot. A plan that is there stays.
#include "codegen/ir/options.h"
#include "codegen/passes/passes.h"
#include "codegen/product/plan.h"

namespace tegula {

namespace {

// In fewer registers ptxas refuses instructions that multiply matrices, and products of single elements were wrong on
// an H200.
void give_registers(ir::Func& func, const ir::Op& product, std::vector<Transfer>& told) {
  if (!func.maxnreg() || func.maxnreg() >= kToMultiply) return;
  told.push_back({product.loc,
                  fmt::format("{} registers a thread, which products take; maxnreg={}", kToMultiply, func.maxnreg()),
                  ""});
  func.attrs[std::string(ir::option::maxnreg.name)] = int64_t(kToMultiply);
}

}  // namespace

void passes::plan_products(ir::Func& func, PassContext& context) {
  const ProductPlanner planner(func, context.target);
  ir::walk(func.body, [&](ir::Op& op) {
    if (op.opcode != ir::Opcode::Dot || op.has(ir::attr::instruction)) return;
    planner.plan(op);
    give_registers(func, op, context.transfers);
  });
}

}  // namespace tegula
