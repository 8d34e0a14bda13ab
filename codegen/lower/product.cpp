// Matrix products, lowered by the family that multiplies them.
#include "codegen/lower/lowering.h"
#include "codegen/product/plan.h"

namespace tegula::lower {

void lower_Dot(Lowering& l, const ir::Op& op) { family_of(op).lower(l, op); }
void lower_MmaStart(Lowering& l, const ir::Op& op) { family_of(op).lower(l, op); }
void lower_MmaWait(Lowering& l, const ir::Op& op) { family_of(op).lower_wait(l, op); }

}  // namespace tegula::lower
