// The NVPTX back end: the target machine, PTX bodies for hardware functions, and PTX text.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "codegen/lower/llvm_headers.h"
#include "codegen/target/target.h"

namespace llvm {
class TargetMachine;
}

namespace tegula {

/// What modules for any of these GPUs have as triple; their data layout follows from it.
llvm::Triple nvptx_triple();

/// A target machine that emits PTX of version `ptx`, for one module at a time. It is made, or taken from a pool, when
/// it is first asked for, and returns to the pool when this object is destroyed.
class NvptxMachine {
 public:
  NvptxMachine(const Target& target, int ptx) : key_(target.name, ptx) {}
  ~NvptxMachine();
  NvptxMachine(const NvptxMachine&) = delete;
  NvptxMachine& operator=(const NvptxMachine&) = delete;

  llvm::TargetMachine& operator*();

 private:
  std::pair<std::string, int> key_;
  std::unique_ptr<llvm::TargetMachine> machine_;
};

/// Replaces every call of a hardware function with its row's PTX as inline assembly. Returns the lowest PTX version
/// that has all of them.
int insert_ptx(llvm::Module& module, const Target& target);

/// PTX text of a module without hardware functions.
std::string emit_ptx(llvm::Module& module, llvm::TargetMachine& machine);

}  // namespace tegula
