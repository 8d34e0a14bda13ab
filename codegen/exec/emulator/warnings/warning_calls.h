// Calls in generated code that warn of what it computes.
#pragma once

#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <map>
#include <optional>

#include "codegen/exec/emulator/code/jit.h"
#include "codegen/exec/emulator/launch/fault.h"
#include "runtime/base/function.h"

namespace llvm {
class Module;
}

namespace tegula::emulator {

/// The row of hw.def that the call is of; empty: none.
llvm::StringRef row_of(const llvm::Value& x);

/// What it adds leaves the function's blocks as they are.
class WarningCalls {
 public:
  /// Notes places in `kernel`.
  WarningCalls(llvm::Module& module, JitKernel& kernel);

  /// The number of the instruction's place among the kernel's; none for what has no place, which is the compiler's own.
  std::optional<uint32_t> place_of(const llvm::Instruction& i);
  /// Warns there, where the condition holds.
  void warn(llvm::IRBuilder<>& b, llvm::Value* condition, Warning what, uint32_t place);
  /// Has `tell` add code wherever the result of the instruction is used (result_uses.h), with a value that is `wrong`
  /// where it is, and else 0. `wrong` is known where `known` stands, right ahead of the instruction or behind it.
  void at_uses(llvm::IRBuilder<>& known, llvm::Instruction& i, llvm::Value* wrong, const llvm::Value* bounded,
               FunctionRef<void(llvm::IRBuilder<>&, llvm::Value*)> tell);
  /// Warns there if it is true.
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
