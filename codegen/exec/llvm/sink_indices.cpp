#include "codegen/exec/llvm/sink_indices.h"

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

llvm::CastInst* extension_from_32(llvm::Value* value) {
  auto* cast = llvm::dyn_cast<llvm::CastInst>(value);
  const bool extends = cast && (llvm::isa<llvm::SExtInst>(cast) || llvm::isa<llvm::ZExtInst>(cast));
  return extends && cast->getSrcTy()->isIntegerTy(32) ? cast : nullptr;
}

}  // namespace

void extend_beside_products(llvm::Function& function) {
  for (llvm::BasicBlock& block : function)
    for (llvm::Instruction& product : block) {
      if (product.getOpcode() != llvm::Instruction::Mul || !product.getType()->isIntegerTy(64)) continue;
      llvm::CastInst *a = extension_from_32(product.getOperand(0)), *b = extension_from_32(product.getOperand(1));
      if (!a || !b || a->getOpcode() != b->getOpcode()) continue;
      for (unsigned i : {0u, 1u}) {
        auto* extension = llvm::cast<llvm::CastInst>(product.getOperand(i));
        if (extension->getParent() == &block) continue;
        llvm::Instruction* beside = extension->clone();
        beside->insertBefore(product.getIterator());
        product.setOperand(i, beside);
      }
    }
  // Those that nothing else uses are removed with the rest of what is dead.
}

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
