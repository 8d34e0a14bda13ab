#include "codegen/exec/llvm/pair_divisions.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/Transforms/Utils/BypassSlowDivision.h>

namespace tegula {

namespace {

bool is_signed_division(const llvm::Instruction& i) {
  return i.getOpcode() == llvm::Instruction::SDiv || i.getOpcode() == llvm::Instruction::SRem;
}

bool is_remainder(const llvm::Instruction& i) {
  return i.getOpcode() == llvm::Instruction::SRem || i.getOpcode() == llvm::Instruction::URem;
}

// Quotients and remainders that are no shifts or masks, with their places in the order of instructions.
struct Divisions {
  llvm::DenseMap<llvm::DivRemMapKey, llvm::Instruction*> quotients;
  llvm::SmallVector<llvm::Instruction*> remainders;
  llvm::DenseMap<const llvm::Instruction*, unsigned> order;

  explicit Divisions(llvm::Function& function) {
    for (llvm::Instruction& i : llvm::instructions(function)) {
      if (!i.isIntDivRem()) continue;
      order[&i] = unsigned(order.size());
      if (is_remainder(i))
        remainders.push_back(&i);
      else
        quotients[key(i)] = &i;
    }
  }

  static llvm::DivRemMapKey key(llvm::Instruction& i) {
    return {is_signed_division(i), i.getOperand(0), i.getOperand(1)};
  }
};

// The value with all its uses the same bits, also where it is undefined.
llvm::Value* settled(llvm::IRBuilder<>& b, llvm::Value* x) {
  return llvm::isGuaranteedNotToBeUndef(x) ? x : b.CreateFreeze(x);
}

// x % y as x - x / y * y.
void replace(llvm::Instruction& remainder, llvm::Instruction& quotient) {
  llvm::IRBuilder<> b(&quotient);
  llvm::Value *x = settled(b, quotient.getOperand(0)), *y = settled(b, quotient.getOperand(1));
  quotient.setOperand(0, x);
  quotient.setOperand(1, y);
  b.SetInsertPoint(&remainder);
  remainder.replaceAllUsesWith(b.CreateSub(x, b.CreateMul(&quotient, y)));
  remainder.eraseFromParent();
}

}  // namespace

void pair_divisions(llvm::Function& function) {
  Divisions divisions(function);
  if (divisions.quotients.empty() || divisions.remainders.empty()) return;
  const llvm::DominatorTree dominators(function);
  for (llvm::Instruction* remainder : divisions.remainders) {
    llvm::Instruction* quotient = divisions.quotients.lookup(Divisions::key(*remainder));
    if (!quotient) continue;
    const bool together = quotient->getParent() == remainder->getParent();
    const bool before = together ? divisions.order[quotient] < divisions.order[remainder]
                                 : dominators.dominates(quotient->getParent(), remainder->getParent());
    if (!before) {
      if (!together && !dominators.dominates(remainder->getParent(), quotient->getParent())) continue;
      quotient->moveBefore(remainder->getIterator());
      divisions.order[quotient] = divisions.order[remainder];
    }
    replace(*remainder, *quotient);
  }
}

}  // namespace tegula
