// Keeps modules whose bitcode was just written for the next one who would parse it: a kernel compiled for the emulator
// usually runs there at once.
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

/// Keeps the module of this bitcode until it is taken or a few others have been stashed.
void stash_module(std::vector<uint8_t> bitcode, StashedModule module);
bool has_module(const std::vector<uint8_t>& bitcode);
/// Takes the module of this bitcode out of the stash; empty if it is not there.
StashedModule take_module(const std::vector<uint8_t>& bitcode);

}  // namespace tegula
