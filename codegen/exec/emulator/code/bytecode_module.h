// What the functions of a module of bytecode share while they are made.
#pragma once

#include <llvm/ADT/DenseMap.h>

#include <map>
#include <optional>

#include "codegen/exec/emulator/code/bytecode_values.h"

namespace tegula::emulator::bytecode {

class ModuleMaker {
 public:
  ModuleMaker(const llvm::Module& from, Module& to) : layout(from.getDataLayout()), to_(to) {}

  /// The function's, which is made when it is not yet; throws Missing, where functions call themselves too.
  uint32_t number_of(const llvm::Function& function);
  /// Throws Missing if there is no such function.
  uint16_t number_of(const Computation& computation);
  int32_t add(BodyCall call);
  int32_t add(FunctionCall call);

  const Function& function(uint32_t number) const { return to_.functions[number]; }
  void is_segment(uint32_t number);

  /// Writes the constant as it lies in a frame or in memory, to where there are zeros. Throws Missing.
  void write(const llvm::Constant& constant, Constants& to, size_t at = 0);

  const llvm::DataLayout& layout;

 private:
  /// The constant as an address; one of a global's stands in nothing yet.
  struct Pointer {
    std::optional<uint32_t> global;
    uint64_t offset = 0;
  };
  Pointer pointer_of(const llvm::Constant& constant);
  uint32_t number_of(const llvm::GlobalVariable& variable);

  Module& to_;
  std::map<Computation, uint16_t> computations_;
  llvm::DenseMap<const llvm::Function*, uint32_t> functions_;
  llvm::DenseMap<const llvm::GlobalVariable*, uint32_t> variables_;
};

/// Makes one function, and those that it calls (to_bytecode.cpp).
Function make_function(ModuleMaker& module, const llvm::Function& function);

}  // namespace tegula::emulator::bytecode
