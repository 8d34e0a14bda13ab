// From a module that calls the bodies of hardware functions to bytecode.
#pragma once

#include <memory>

#include "codegen/exec/emulator/interpreter/bytecode.h"

namespace llvm {
class Module;
}

namespace tegula::emulator {

/// Null if the module has something that there are no instructions for. The function `entry` takes the address of the
/// arguments.
std::unique_ptr<bytecode::Module> to_bytecode(const llvm::Module& module, const char* entry);

}  // namespace tegula::emulator
