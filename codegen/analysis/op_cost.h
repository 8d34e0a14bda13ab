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

}  // namespace tegula
