#include "codegen/exec/order_by_use.h"

#include <llvm/ADT/DenseSet.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>

namespace tegula {

namespace {

bool stays(const llvm::Instruction& i) {
  if (llvm::isa<llvm::PHINode>(i) || llvm::isa<llvm::AllocaInst>(i) || i.isTerminator() || i.isEHPad()) return true;
  // A lane exchange stays with the other lanes in any order: they all run the same block.
  if (auto* call = llvm::dyn_cast<llvm::CallBase>(&i)) return !call->doesNotAccessMemory();
  return i.mayReadOrWriteMemory() || i.mayHaveSideEffects();
}

// Barriers, fences, matrix products: what is there before them stays so, as products ask of fragments in registers.
bool separates(const llvm::Instruction& i) {
  auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
  return i.isTerminator() || (call && call->isConvergent() && !call->doesNotAccessMemory());
}

void order(llvm::BasicBlock& block) {
  llvm::SmallVector<llvm::Instruction*> in_order, path;
  llvm::DenseSet<const llvm::Instruction*> placed;
  // Depth first, operands before their user.
  auto place = [&](llvm::Instruction* root) {
    path.push_back(root);
    while (!path.empty()) {
      llvm::Instruction* top = path.back();
      if (placed.contains(top)) {
        path.pop_back();
        continue;
      }
      const size_t depth = path.size();
      for (llvm::Value* operand : llvm::reverse(top->operand_values()))
        if (auto* i = llvm::dyn_cast<llvm::Instruction>(operand);
            i && i->getParent() == &block && !stays(*i) && !placed.contains(i))
          path.push_back(i);
      if (path.size() != depth) continue;
      path.pop_back();
      placed.insert(top);
      in_order.push_back(top);
    }
  };
  llvm::SmallVector<llvm::Instruction*> waiting;  // since the last that separates
  for (llvm::Instruction& i : block) {
    if (llvm::isa<llvm::PHINode>(i)) continue;
    if (!stays(i)) {
      waiting.push_back(&i);
      continue;
    }
    if (separates(i)) {
      for (llvm::Instruction* other : waiting) place(other);
      waiting.clear();
    }
    place(&i);
  }
  for (llvm::Instruction* i : in_order) i->moveBefore(block, block.end());
}

}  // namespace

void order_by_use(llvm::Function& function) {
  for (llvm::BasicBlock& block : function) order(block);
}

}  // namespace tegula
