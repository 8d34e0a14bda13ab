// What the assembler says of inline assembly.
#pragma once

#include <string_view>

#include "codegen/ir/ir.h"
#include "runtime/base/diag.h"

namespace tegula {

/// Has ptxas look at the function's blocks of inline assembly, each by itself, where ptxas is installed: an error for
/// each line that it refuses, at the place of the call. `ptx` is the function's code, whose version and target hold.
void check_inline_asm(const ir::Func& func, std::string_view ptx, std::string_view target, Diagnostics& diags);

}  // namespace tegula
