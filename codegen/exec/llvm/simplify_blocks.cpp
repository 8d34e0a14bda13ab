#include "codegen/exec/llvm/simplify_blocks.h"

#include <llvm/ADT/MapVector.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/PassManager.h>
#include <llvm/IR/ValueHandle.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

namespace tegula {

namespace {

constexpr size_t kManyPhis = 16;

// Values that stand for zeros, by type.
using StandIns = llvm::MapVector<llvm::Type*, llvm::WeakTrackingVH>;

void hide_zeros(llvm::BasicBlock& block, StandIns& stand_ins) {
  for (llvm::PHINode& phi : block.phis())
    for (llvm::Use& use : phi.incoming_values()) {
      auto* zero = llvm::dyn_cast<llvm::ConstantFP>(use);
      if (!zero || !zero->isNullValue()) continue;
      llvm::WeakTrackingVH& stand_in = stand_ins[phi.getType()];
      llvm::BasicBlock& entry = block.getParent()->getEntryBlock();
      if (!stand_in) stand_in = llvm::IRBuilder<>(&entry, entry.begin()).CreateFreeze(zero);
      use.set(stand_in);
    }
}

}  // namespace

llvm::PreservedAnalyses simplify_blocks(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
  StandIns stand_ins;
  for (llvm::BasicBlock& block : function)
    if (std::distance(block.phis().begin(), block.phis().end()) >= long(kManyPhis)) hide_zeros(block, stand_ins);
  llvm::PreservedAnalyses preserved = llvm::SimplifyCFGPass().run(function, analyses);
  for (auto& [type, stand_in] : stand_ins) {
    auto* freeze = llvm::dyn_cast_or_null<llvm::FreezeInst>(static_cast<llvm::Value*>(stand_in));
    if (!freeze) continue;
    freeze->replaceAllUsesWith(freeze->getOperand(0));
    freeze->eraseFromParent();
  }
  return preserved;
}

}  // namespace tegula
