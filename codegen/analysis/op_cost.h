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
OpCost op_cost(const ir::Op& op);

}  // namespace tegula
