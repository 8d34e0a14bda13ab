// What follows from a value that means nothing: memory that nobody has written, a quotient by 0, a NaN where there was
// none. That is told only where something depends on it: lanes that a mask leaves out compute as well, and so do both
// sides of a tl.where, ahead of exchanges between threads or behind them.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/DenseSet.h>

#include <cstdint>
#include <vector>

#include "codegen/exec/emulator/warnings/taint_parts.h"

namespace llvm {
class Module;
}

namespace tegula::emulator {

/// Computes beside each value of the kernel which of these it follows from: its taint, the number of what is to tell
/// (access_taints.h), or 0. As MemorySanitizer does with its shadows (E. Stepanov, K. Serebryany, "MemorySanitizer:
/// fast detector of uninitialized memory use in C++", CGO 2015), through arithmetic, choices, loops, shuffles and
/// shared memory. Choices drop the taint of what they do not take, also branches whose ways meet again having computed
/// alone; of products of matrices a row follows from that row of the first operand. Stores to global memory, atomic
/// operations, the second operand of products, addresses and branches use a value: emu_use_taint is called there.
class Taints {
 public:
  /// Follows the instructions that the module has now, and not what checks add to it.
  explicit Taints(llvm::Module& module);

  /// That `value` has this taint too, which is known ahead of the instruction that is behind it now.
  void add(llvm::Instruction& value, llvm::Value* taint) { sources_[&value].push_back(taint); }
  /// Adds the code, also for what loads from global memory read. Called once, before the hardware functions get their
  /// bodies.
  void run();

 private:
  void taint(llvm::Instruction& i);
  void taint_shared();
  void find_tainted();

  void run(llvm::Function& f);
  void visit(llvm::Instruction& i, llvm::Instruction& next);
  TaintParts of(llvm::Value* x) const;
  TaintParts result_of(llvm::IRBuilder<>& b, llvm::Instruction& i);
  TaintParts begin_phi(llvm::PHINode& phi);
  /// `chosen`: the taint of what has chosen the way to its block, or null.
  void end_phi(llvm::PHINode& phi, llvm::Value* chosen);
  TaintParts of_load(llvm::IRBuilder<>& b, llvm::CallInst& load);
  TaintParts of_shuffle(llvm::IRBuilder<>& b, llvm::CallInst& shuffle);
  TaintParts of_product(llvm::IRBuilder<>& b, llvm::CallInst& call);
  void tell_rows(llvm::CallInst& call);
  void use(llvm::Instruction& i);
  void store(llvm::CallInst& i);

  llvm::Module& module_;
  llvm::FunctionCallee loaded_, stored_, used_;
  std::vector<llvm::Function*> functions_;
  llvm::DenseSet<const llvm::Instruction*> own_;  ///< the kernel's instructions
  std::vector<llvm::Instruction*> shared_loads_;
  llvm::DenseMap<const llvm::Instruction*, llvm::SmallVector<llvm::Value*, 1>> sources_;

  llvm::DenseSet<const llvm::Instruction*> tainted_;  ///< whose results may be
  std::vector<llvm::Instruction*> pending_;           ///< of these, whose uses are not looked at yet
  bool shared_is_tainted_ = false;
  llvm::DenseMap<const llvm::BasicBlock*, llvm::Instruction*> choices_;  ///< branches whose ways meet there

  llvm::DenseMap<const llvm::Value*, TaintParts> parts_;
  llvm::DenseMap<const llvm::PHINode*, TaintParts> phis_;  ///< those that stand beside the kernel's
};

}  // namespace tegula::emulator
