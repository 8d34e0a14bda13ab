// What ops of laid-out tile IR take of a GPU's units.
#pragma once

#include "codegen/ir/ir.h"
#include "codegen/target/mma.h"

namespace tegula {

/// What one element of an op takes.
struct OpCost {
  double slots = 1;  ///< instructions to issue
  int flops = 0;
  int special = 0;  ///< instructions of the unit for exponentials, reciprocals and the like
};
OpCost op_cost(const ir::Op& op);

/// What a dot takes of a program, once.
struct DotCost {
  const MmaInstruction* instruction;  ///< null: threads multiply element by element
  double flops;                       ///< 2 M N K
  /// Work of the tensor cores in operations at their rate for fp16, what fills up the instruction's shape included.
  double tensor_flops = 0;
  double shared_bytes = 0;  ///< that the tensor cores read of operands in shared memory
  double steps = 0;  ///< by warps: blocks of the instruction's K by 16 rows and 8 columns; by warpgroups: instructions
  double fmas = 0;   ///< instructions of a thread without tensor cores
};
DotCost dot_cost(const ir::Op& dot, const Target& target);

}  // namespace tegula
