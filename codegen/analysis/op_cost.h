// What ops of laid-out tile IR take of a GPU's units.
#pragma once

#include "codegen/ir/ir.h"

namespace tegula {

/// What one element of an op takes.
struct OpCost {
  double slots = 1;  ///< instructions to issue
  int flops = 0;
  int special = 0;  ///< instructions of the unit for exponentials, reciprocals and the like
};
/// `few_divisors`: elements of a quotient or remainder have divisors in common, whose reciprocals are computed once.
OpCost op_cost(const ir::Op& op, bool few_divisors = false);

/// Instructions to issue for an element of what the op reads or makes. A region that combines is run as often.
double slots_of_element(const ir::Op& op);
/// The tile whose elements the op goes over, the larger one of its first operand and its first result; null for
/// scalars.
const ir::Value* largest_tile(const ir::Op& op);

}  // namespace tegula
