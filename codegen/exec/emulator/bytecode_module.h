// What the functions of a module of bytecode share while they are made.
#pragma once

#include <llvm/ADT/DenseMap.h>

#include <map>
#include <utility>

#include "codegen/exec/emulator/bytecode_values.h"

namespace tegula::emulator::bytecode {

class ModuleMaker {
 public:
  ModuleMaker(const llvm::Module& from, Module& to) : layout(from.getDataLayout()), to_(to) {}

  /// The function's, which is made when it is not yet; throws Missing, where functions call themselves too.
  uint32_t number_of(const llvm::Function& function);
  uint16_t number_of(Elementwise function);
  /// The C++ function of that name, null if there is none.
  static const std::pair<Thunk, void*>* find_body(llvm::StringRef name);
  int32_t add(BodyCall call);
  int32_t add(FunctionCall call);

  const Function& function(uint32_t number) const { return to_.functions[number]; }
  void is_segment(uint32_t number);

  /// Writes the constant as it lies in a frame or in memory, to where there are zeros. Throws Missing.
  void write(const llvm::Constant& constant, char* at);

  const llvm::DataLayout& layout;

 private:
  uint64_t address_of(const llvm::Constant& constant);
  uint64_t address_of_variable(const llvm::GlobalVariable& variable);

  Module& to_;
  std::map<Elementwise, uint16_t> elementwise_;
  llvm::DenseMap<const llvm::Function*, uint32_t> functions_;
  llvm::DenseMap<const llvm::GlobalVariable*, char*> variables_;
};

/// Makes one function, and those that it calls (to_bytecode.cpp).
Function make_function(ModuleMaker& module, const llvm::Function& function);

}  // namespace tegula::emulator::bytecode
