// Two code paths to the same values, of which each thread takes one.
#pragma once

#include <llvm/IR/MDBuilder.h>

#include "codegen/lower/lowering.h"

namespace tegula::lower {

/// Metadata of the branch between them: which way a thread takes makes no difference.
inline constexpr const char* kSameValues = "tegula.same_values";

/// The results of `fast` in threads where the condition holds, which is expected to be the rule, and of `slow` in the
/// others. Both return equally many values of the same types.
template <class Fast, class Slow>
Regs branch(Lowering& l, llvm::Value* condition, Fast fast, Slow slow) {
  llvm::Function* function = l.b.GetInsertBlock()->getParent();
  auto* often = llvm::BasicBlock::Create(l.context, "often", function);
  auto* rarely = llvm::BasicBlock::Create(l.context, "rarely", function);
  auto* after = llvm::BasicBlock::Create(l.context, "after", function);
  llvm::MDNode* weights = llvm::MDBuilder(l.context).createBranchWeights(1 << 20, 1);
  l.b.CreateCondBr(condition, often, rarely, weights)->setMetadata(kSameValues, llvm::MDNode::get(l.context, {}));
  l.b.SetInsertPoint(often);
  const Regs a = fast();
  often = l.b.GetInsertBlock();
  l.b.CreateBr(after);
  l.b.SetInsertPoint(rarely);
  const Regs b = slow();
  rarely = l.b.GetInsertBlock();
  l.b.CreateBr(after);
  l.b.SetInsertPoint(after);
  std::map<std::pair<llvm::Value*, llvm::Value*>, llvm::Value*> merged;  // registers may hold copies
  Regs out;
  for (size_t i = 0; i < a.size(); ++i) {
    llvm::Value*& value = merged[{a[i], b[i]}];
    if (!value) {
      llvm::PHINode* phi = l.b.CreatePHI(a[i]->getType(), 2);
      phi->addIncoming(a[i], often);
      phi->addIncoming(b[i], rarely);
      value = phi;
    }
    out.push_back(value);
  }
  return out;
}

}  // namespace tegula::lower
