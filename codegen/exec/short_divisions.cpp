#include "codegen/exec/short_divisions.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/Pass.h>
#include <llvm/Transforms/Utils/BypassSlowDivision.h>
#include <llvm/Transforms/Utils/IntegerDivision.h>

namespace tegula {

namespace {

bool multiplies_by_warpgroups(const llvm::Function& function) {
  return llvm::any_of(llvm::instructions(function), [](const llvm::Instruction& i) {
    const auto* call = llvm::dyn_cast<llvm::CallInst>(&i);
    const auto* text = call ? llvm::dyn_cast<llvm::InlineAsm>(call->getCalledOperand()) : nullptr;
    return text && llvm::StringRef(text->getAsmString()).contains("wgmma.mma_async");
  });
}

// Writes 64-bit divisions as loops, whose iterations find a bit each.
bool expand_long_divisions(llvm::Function& function) {
  using llvm::Instruction;
  llvm::SmallVector<llvm::BinaryOperator*> divisions, remainders;
  for (Instruction& i : llvm::instructions(function)) {
    if (!i.isIntDivRem() || !i.getType()->isIntegerTy(64) || llvm::isa<llvm::ConstantInt>(i.getOperand(1))) continue;
    const bool divides = i.getOpcode() == Instruction::SDiv || i.getOpcode() == Instruction::UDiv;
    (divides ? divisions : remainders).push_back(llvm::cast<llvm::BinaryOperator>(&i));
  }
  for (llvm::BinaryOperator* i : divisions) llvm::expandDivision(i);
  for (llvm::BinaryOperator* i : remainders) llvm::expandRemainder(i);
  return !divisions.empty() || !remainders.empty();
}

class ShortDivisions : public llvm::FunctionPass {
 public:
  static char ID;
  ShortDivisions() : llvm::FunctionPass(ID) {}
  bool runOnFunction(llvm::Function& function) override {
    const llvm::DenseMap<unsigned, unsigned> shorter = {{64, 32}};
    bool changed = false;
    // What is split off a block is walked with it.
    for (llvm::BasicBlock* block = &function.front(); block;) {
      llvm::BasicBlock* next = block->getNextNode();
      changed |= llvm::bypassSlowDivision(block, shorter);
      block = next;
    }
    if (multiplies_by_warpgroups(function)) changed |= expand_long_divisions(function);
    return changed;
  }
};
char ShortDivisions::ID = 0;

}  // namespace

llvm::FunctionPass* short_divisions() { return new ShortDivisions; }

}  // namespace tegula
