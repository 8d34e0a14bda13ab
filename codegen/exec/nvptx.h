// PTX bodies for hardware functions.
#pragma once

#include "codegen/lower/llvm_headers.h"
#include "codegen/target/target.h"

namespace tegula {

/// Replaces every call of a hardware function with its row's PTX as inline assembly. Returns the lowest PTX version
/// that has all of them.
int insert_ptx(llvm::Module& module, const Target& target);

}  // namespace tegula
