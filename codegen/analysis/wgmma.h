// Dots by wgmma: a warpgroup (four warps) multiplies 64 rows with up to 256 columns, reading its operands from shared
// memory by itself while the warps go on.
#pragma once

#include <optional>

#include "codegen/ir/ir.h"
#include "codegen/layout/linear_layout.h"
#include "codegen/target/mma.h"

namespace tegula {

/// How the warpgroups of a program share a dot's result: groups_m x groups_n parts, each of them made of instructions
/// with 64 rows and `columns` columns.
struct WgmmaPlan {
  const MmaInstruction* instruction;
  int groups_m;
  int groups_n;
  int columns;
};

/// The plan for a dot whose operands lie in shared memory; nullopt where wgmma does not fit its types, its shape, the
/// number of warps or the target.
std::optional<WgmmaPlan> plan_wgmma(const ir::Op& dot, const Target& target, int num_warps);

/// What operand 0 or 1 of a dot is but for transpositions, and which of its axes is K.
struct OperandSource {
  const ir::Value* value;
  int k_axis;
};
OperandSource operand_source(const ir::Op& dot, int operand);

/// How wgmma finds an operand in shared memory (PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout").
struct WgmmaOperand {
  bool k_major;            ///< elements along K lie side by side
  int leading_bytes;       ///< between columns of swizzle patterns: along M or N where these are contiguous
  int stride_bytes;        ///< between groups of eight rows
  int swizzle;             ///< bytes of a row of the swizzle pattern: 32, 64 or 128
  LinearLayout to_offset;  ///< coordinates -> offset in elements
};

/// Operand 0 (M x K) or 1 (K x N) in a place laid out by shared_layout_for_dot_operand; nullopt for what wgmma cannot
/// read.
std::optional<WgmmaOperand> wgmma_operand(const ir::Type& place, int operand);

}  // namespace tegula
