// What the ops of laid-out tile IR cost on a GPU's units.
#pragma once

#include "codegen/ir/ir.h"

namespace tegula {

/// The cost of one element of an op.
struct OpCost {
  double slots = 1;  ///< instructions to issue
  int flops = 0;
  int special = 0;  ///< instructions of the unit for exponentials, reciprocals and the like
};
/// `few_divisors`: many elements of a quotient or remainder share a divisor, whose reciprocal is computed once.
OpCost op_cost(const ir::Op& op, bool few_divisors = false);

/// The number of instructions to issue for one element that the op reads or computes. For a reduction or scan these are
/// the instructions of its region.
double slots_of_element(const ir::Op& op);
/// The tile that the op iterates over, the larger one of its first operand and its first result; null for scalars.
const ir::Value* largest_tile(const ir::Op& op);

}  // namespace tegula
