// Runs LLVM's passes over modules.
#pragma once

#include <llvm/IR/PassManager.h>

namespace llvm {
class TargetMachine;
}

namespace tegula {

/// Runs `passes` over the module, with the analyses that they ask for; without a machine they ask nothing of what the
/// target's instructions cost. LLVM's PassBuilder would make more of them, and
/// brings all passes that LLVM has: each process would begin with the command line options of hundreds that never run.
void run_llvm_passes(llvm::Module& module, llvm::TargetMachine* machine, llvm::ModulePassManager passes);

}  // namespace tegula
