// The NVPTX end: the target machine, PTX bodies for hardware functions, and PTX text.
#pragma once

#include <memory>
#include <string>

#include "codegen/lower/llvm_headers.h"
#include "codegen/target/target.h"

namespace llvm {
class TargetMachine;
}

namespace tegula {

/// `ptx`: the version of the PTX that it emits.
std::unique_ptr<llvm::TargetMachine> nvptx_machine(const Target& target, int ptx);

/// Replaces every call of a hardware function by its row's PTX as inline assembly. The lowest version of PTX that has
/// all of them.
int insert_ptx(llvm::Module& module, const Target& target);

/// PTX text of a module without hardware functions.
std::string emit_ptx(llvm::Module& module, llvm::TargetMachine& machine);

}  // namespace tegula
