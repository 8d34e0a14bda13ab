// Lowering of radix sorts (analysis/sort_plan.h).
#pragma once

#include "codegen/analysis/sort_plan.h"
#include "codegen/lower/lowering.h"

namespace tegula::lower {

/// The operand's keys in ascending order, laid out as the result. Keys are integers of `key`, signed unless
/// `is_unsigned`, that fit their lowest `bits` bits.
Regs sort_by_digits(Lowering& l, const ir::Op& op, const DigitSort& plan, const Regs& keys, const ir::Type& key,
                    int bits, bool is_unsigned);

/// The sum of `own` over all threads before this one within the first `warps` warps. `records`: the address of a word
/// of shared memory for each warp. Emits one barrier, after which the words are read.
llvm::Value* sum_of_threads_before(Lowering& l, llvm::Value* own, llvm::Value* records, int warps, const Loc& loc);

}  // namespace tegula::lower
