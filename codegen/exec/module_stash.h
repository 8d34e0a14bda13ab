// Modules whose bitcode was just written, for who would parse it next: a kernel that is compiled for the emulator runs
// there at once.
#pragma once

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace tegula {

struct StashedModule {
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;  ///< null: there is none
};

/// Keeps the module that this bitcode says until it is taken, or until a few others have come.
void stash_module(std::vector<uint8_t> bitcode, StashedModule module);
/// The module that this bitcode says if it is there; it is not afterwards.
StashedModule take_module(const std::vector<uint8_t>& bitcode);

}  // namespace tegula
