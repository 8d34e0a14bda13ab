// Checks inline assembly with ptxas.
#pragma once

#include <string_view>

#include "codegen/ir/ir.h"
#include "runtime/base/diag.h"

namespace tegula {

/// Assembles each block of inline assembly of the function by itself, if ptxas is installed, and reports each line that
/// it rejects at the place of the call. `ptx` is the function's code, which gives version and target.
void check_inline_asm(const ir::Func& func, std::string_view ptx, std::string_view target, Diagnostics& diags);

}  // namespace tegula
