// Dots by wgmma: a warpgroup (four warps) multiplies 64 rows with up to 256 columns, while the warps go on. It reads B
// from shared memory by itself, and A from there or from registers.
#pragma once

#include <functional>
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

/// The plan for a dot whose operands can be had where wgmma reads them; nullopt where wgmma does not fit its types, its
/// shape, the number of warps or the target.
std::optional<WgmmaPlan> plan_wgmma(const ir::Op& dot, const Target& target, int num_warps);

/// A dot's operand without the transpositions on the way to it, which cost nothing in shared memory.
ir::Value* untransposed(ir::Value* operand);
/// Which axis of the untransposed operand 0 or 1 is K.
int untransposed_k_axis(const ir::Op& dot, int operand);
/// Whether it is read from a place in shared memory.
bool is_place_read(const ir::Value* operand);

/// Where a dot that wgmma multiplies has an operand.
enum class OperandForm {
  Place,     ///< in shared memory, from which it is read
  Fragment,  ///< A alone: in registers, as it follows from sums of another dot
  Stored,    ///< in other registers: to be put into shared memory first
};
/// The form of operand 0 or 1; `in_place` tells of values that will be read from places.
OperandForm operand_form(const ir::Op& dot, int operand, const Target& target, int num_warps,
                         const std::function<bool(const ir::Value*)>& in_place = is_place_read);

/// How wgmma finds an operand in shared memory (PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout").
struct WgmmaOperand {
  bool k_major;            ///< elements along K lie side by side
  int leading_bytes;       ///< between columns of swizzle patterns: along M or N where these are contiguous
  int stride_bytes;        ///< between groups of eight rows
  int swizzle;             ///< bytes of a row of the swizzle pattern: 32, 64 or 128
  int together;            ///< from any multiple of it on, so many rows (A) or columns (B) lie at these distances
  LinearLayout to_offset;  ///< coordinates -> offset in elements
};

/// Operand 0 (M x K) or 1 (K x N) in a place laid out by shared_layout_for_dot_operand; nullopt for what wgmma cannot
/// read.
std::optional<WgmmaOperand> wgmma_operand(const ir::Type& place, int operand);

}  // namespace tegula
