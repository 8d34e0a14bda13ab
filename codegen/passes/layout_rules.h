// How the layouts of an op's operands and results follow from each other.
#pragma once

#include <optional>

#include "codegen/ir/ir.h"

namespace tegula {

/// A value that every thread can make for itself in any layout: a constant, a splat, an arange.
bool is_layout_free(const ir::Op& op);

/// Whether operands and results all have one layout: elementwise ops and those like them.
bool keeps_layout(const ir::Op& op);

/// The layout that the tile operands of an elementwise op, expand_dims, broadcast, reshape or trans need so that the
/// result comes in `result` without data movement; nullopt for other ops, and for a reshape that no layout survives.
/// Registers that would hold copies are dropped.
std::optional<LinearLayout> operand_layout(const ir::Op& op, const LinearLayout& result);

/// The layout in which the result comes when the operand (the first of several) has `operand`; nullopt where that is
/// open (broadcast, dot, memory) or the result is no tile.
std::optional<LinearLayout> result_layout(const ir::Op& op, const LinearLayout& operand);

/// The layout in which the result of a broadcast comes if each thread repeats the elements that it holds, in
/// neighbouring registers; nullopt for other ops, where it would hold more than kMostRepeats of each, or where threads
/// hold copies already, which could take some of the result instead.
constexpr int64_t kMostRepeats = 8;
std::optional<LinearLayout> repeated_in_registers(const ir::Op& op, const LinearLayout& operand);

/// Whether the threads of a product give each other its operands, which come in any layout then.
bool exchanges_operands(const ir::Op& product);

/// The layout in which a product takes an operand (0, 1) from registers when its sums come in `sums`.
LinearLayout operand_of_product(const ir::Op& product, int operand, const LinearLayout& sums);

}  // namespace tegula
