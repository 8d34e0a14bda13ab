// Calls in generated code that warn of what it computes.
#pragma once

#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <map>
#include <optional>

#include "codegen/exec/emulator/code/jit.h"
#include "codegen/exec/emulator/launch/fault.h"

namespace llvm {
class Module;
}

namespace tegula::emulator {

/// What it adds leaves the function's blocks as they are.
class WarningCalls {
 public:
  /// Notes places in `kernel`.
  WarningCalls(llvm::Module& module, JitKernel& kernel);

  /// The number of the instruction's place among the kernel's; none for what has no place, which is the compiler's own.
  std::optional<uint32_t> place_of(const llvm::Instruction& i);
  /// Warns there, where the condition holds.
  void warn(llvm::IRBuilder<>& b, llvm::Value* condition, Warning what, uint32_t place);
  /// Warns wherever the result of the instruction is used (result_uses.h), if `wrong`, which is known where `known`
  /// stands, right ahead of the instruction or behind it.
  void warn_of_result(llvm::IRBuilder<>& known, llvm::Instruction& i, llvm::Value* wrong, Warning what,
                      const llvm::Value* bounded = nullptr);

  /// Which blocks lie behind which.
  const llvm::DominatorTree& order_of(llvm::Function& f);

 private:
  JitKernel& kernel_;
  llvm::FunctionCallee warn_;
  std::map<const void*, uint32_t> places_;  ///< by LLVM's debug locations
  std::map<const llvm::Function*, llvm::DominatorTree> orders_;
};

}  // namespace tegula::emulator
