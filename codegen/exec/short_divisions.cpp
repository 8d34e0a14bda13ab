#include "codegen/exec/short_divisions.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/Function.h>
#include <llvm/Pass.h>
#include <llvm/Transforms/Utils/BypassSlowDivision.h>

namespace tegula {

namespace {

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
    return changed;
  }
};
char ShortDivisions::ID = 0;

}  // namespace

llvm::FunctionPass* short_divisions() { return new ShortDivisions; }

}  // namespace tegula
