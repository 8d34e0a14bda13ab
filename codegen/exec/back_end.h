// LLVM's NVPTX back end: the target machine, and the passes that make PTX text of a module.
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

/// The back end that emits PTX of version `ptx`, for one module at a time. It is made, or taken from those that nobody
/// uses at the moment, when it is first asked for, and is kept for others when this object is destroyed.
class BackEnd {
 public:
  BackEnd(const Target& target, int ptx);
  ~BackEnd();
  BackEnd(const BackEnd&) = delete;
  BackEnd& operator=(const BackEnd&) = delete;

  llvm::TargetMachine& machine();
  /// PTX text of a module without hardware functions, which may change it.
  std::string emit(llvm::Module& module);

 private:
  struct Kept;
  struct Pool;
  static Pool& pool();
  Kept& kept();

  std::pair<std::string, int> key_;
  std::unique_ptr<Kept> kept_;
};

}  // namespace tegula
