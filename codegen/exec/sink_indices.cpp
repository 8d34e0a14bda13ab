#include "codegen/exec/sink_indices.h"

#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>

namespace tegula {

namespace {

// What takes a register more than its operand, and one instruction.
bool is_index(const llvm::Instruction& i) {
  if (!i.getType()->isIntegerTy()) return false;
  if (llvm::isa<llvm::ZExtInst>(i) || llvm::isa<llvm::SExtInst>(i)) return true;
  const bool sum = i.getOpcode() == llvm::Instruction::Add || i.getOpcode() == llvm::Instruction::Or;
  return sum && llvm::isa<llvm::ConstantInt>(i.getOperand(1));
}

// The block that dominates all uses, the nearest to them; null where a phi is among them.
llvm::BasicBlock* block_of_uses(const llvm::Instruction& i, const llvm::DominatorTree& dominators) {
  llvm::BasicBlock* nearest = nullptr;
  for (const llvm::User* u : i.users()) {
    const auto* user = llvm::cast<llvm::Instruction>(u);
    if (llvm::isa<llvm::PHINode>(user)) return nullptr;
    auto* block = const_cast<llvm::BasicBlock*>(user->getParent());
    nearest = nearest ? dominators.findNearestCommonDominator(nearest, block) : block;
  }
  return nearest;
}

void move_before_first_use(llvm::Instruction& i, llvm::BasicBlock& block) {
  for (llvm::Instruction& user : block)
    if (llvm::is_contained(user.operand_values(), &i)) return i.moveBefore(user.getIterator());
  i.moveBefore(block.getTerminator()->getIterator());
}

}  // namespace

void sink_indices(llvm::Function& function) {
  if (function.isDeclaration() || function.size() < 2) return;
  const llvm::DominatorTree dominators(function);
  const llvm::LoopInfo loops(dominators);
  for (llvm::BasicBlock* block : llvm::post_order(&function))
    for (llvm::Instruction& i : llvm::make_early_inc_range(llvm::reverse(*block))) {
      if (!is_index(i)) continue;
      llvm::BasicBlock* where = block_of_uses(i, dominators);
      if (where && where != block && loops.getLoopFor(where) == loops.getLoopFor(block))
        move_before_first_use(i, *where);
    }
}

}  // namespace tegula
