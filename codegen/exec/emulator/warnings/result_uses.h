// Where the result of an instruction matters: warnings of arithmetic whose result means nothing are of use there alone.
// Lanes that a mask leaves out compute as well, and so do both sides of a tl.where.
#pragma once

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/Instructions.h>

#include <utility>
#include <vector>

namespace tegula::emulator {

/// An instruction that does something with the result, or with what follows from it, where all of these conditions are
/// as they say. They and the result are known there; or with `from` at the end of that block, from where `by` takes the
/// number to the instruction.
struct ResultUse {
  llvm::Instruction* at;
  llvm::SmallVector<std::pair<llvm::Value*, bool>, 4> conditions;
  llvm::PHINode* by = nullptr;
  llvm::BasicBlock* from = nullptr;
};

/// All uses that matter; one of `result` itself, without conditions, where they are too many to tell apart, or where
/// it is used in any case. Conditions that compare `bounded`, if not null, with a constant as unsigned numbers are left
/// out: by these the lowering keeps an operand in range. `order`: of the function's blocks.
std::vector<ResultUse> uses_of_result(llvm::Instruction& result, const llvm::Value* bounded,
                                      const llvm::DominatorTree& order);

}  // namespace tegula::emulator
