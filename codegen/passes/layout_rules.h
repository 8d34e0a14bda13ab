// How the layouts of an op's operands and results determine each other.
#pragma once

#include <optional>

#include "codegen/ir/ir.h"

namespace tegula {

/// Whether every thread can compute the result by itself in any layout: a constant, a splat, an arange.
bool is_layout_free(const ir::Op& op);

/// Whether all operands and results have one layout: elementwise ops and similar ones.
bool keeps_layout(const ir::Op& op);

/// The layout that the tile operands of an elementwise op, expand_dims, broadcast, reshape or trans need so that the
/// result has the layout `result` without data movement; nullopt for other ops, and for a reshape for which there is
/// none. Registers that would hold copies are dropped.
std::optional<LinearLayout> operand_layout(const ir::Op& op, const LinearLayout& result);

/// The layout of the result if the (first) operand has the layout `operand`; nullopt if that does not determine it
/// (broadcast, dot, memory ops) or the result is no tile.
std::optional<LinearLayout> result_layout(const ir::Op& op, const LinearLayout& operand);

/// The layout of a broadcast's result if each thread repeats its elements in neighbouring registers; nullopt for other
/// ops, if it would repeat them more than kMostRepeats times, or if threads hold copies already, which could take a
/// part of the result instead.
constexpr int64_t kMostRepeats = 8;
std::optional<LinearLayout> repeated_in_registers(const ir::Op& op, const LinearLayout& operand);

/// Whether the threads of a product exchange its operands through scratch, so that these may have any layout.
bool exchanges_operands(const ir::Op& product);

/// The register layout in which a product with sums in the layout `sums` reads operand 0 or 1.
LinearLayout operand_of_product(const ir::Op& product, int operand, const LinearLayout& sums);

}  // namespace tegula
