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

/// The row of hw.def that the call is of; empty: none.
llvm::StringRef row_of(const llvm::Value& x);

class Taints;

/// What it adds leaves the function's blocks as they are.
class WarningCalls {
 public:
  /// Notes places in `kernel`.
  WarningCalls(llvm::Module& module, JitKernel& kernel, Taints& taints);

  /// The number of the instruction's place among the kernel's; none for what has no place, which is the compiler's own.
  std::optional<uint32_t> place_of(const llvm::Instruction& i);
  /// Warns there, where the condition holds.
  void warn(llvm::IRBuilder<>& b, llvm::Value* condition, Warning what, uint32_t place);
  /// Warns where the instruction's result is used (taints.h), if it is wrong. `b` stands right ahead of the instruction
  /// or behind it.
  void warn_of_result(llvm::IRBuilder<>& b, llvm::Instruction& i, llvm::Value* wrong, Warning what);

  /// Which blocks lie behind which.
  const llvm::DominatorTree& order_of(llvm::Function& f);

 private:
  JitKernel& kernel_;
  Taints& taints_;
  llvm::FunctionCallee warn_;
  std::map<const void*, uint32_t> places_;  ///< by LLVM's debug locations
  std::map<const llvm::Function*, llvm::DominatorTree> orders_;
};

}  // namespace tegula::emulator
