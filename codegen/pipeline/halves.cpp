#include "codegen/pipeline/halves.h"

#include "codegen/ir/flow.h"
#include "codegen/pipeline/edit.h"
#include "codegen/product/plan.h"
#include "runtime/base/check.h"

namespace tegula {

using namespace ir;

bool divides_along_depth(const Op& product) {
  const MmaInstruction* instruction = plan_of(product).instruction;
  return instruction && depth_of(product).size() % (2 * int64_t(instruction->k)) == 0;
}

void multiply_in_halves(Op& loop, Op& product) {
  const ForLoop parts(loop);
  const size_t carried = *parts.number(product.operand(2));
  Value* first = parts.next(carried);
  TEGULA_CHECK(first->def && first->def->opcode == Opcode::MmaWait && first->def->get(attr::pending) == 1,
               "the sums of a product in halves are not in flight");
  const DepthRange depth = depth_of(product);
  const int64_t half = depth.size() / 2;
  Builder last = before(*loop.regions[0]->terminator(), product.loc);
  Attrs attrs = product.attrs;
  product.set(attr::depth, half);
  attrs[attr::first] = depth.begin + half;
  attrs[attr::depth] = half;
  Op* second = last.create(Opcode::MmaStart, {product.operand(0), product.operand(1), first, nullptr},
                           {product.result()->type}, attrs);
  Op* wait = last.create(Opcode::MmaWait, {second->result()}, {first->type}, first->def->attrs);
  loop.regions[0]->terminator()->operands[carried] = wait->result();
}

}  // namespace tegula
