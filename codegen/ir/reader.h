// Reads what the printer writes.
#pragma once

#include <memory>
#include <string_view>

#include "codegen/ir/ir.h"
#include "runtime/base/diag.h"

namespace tegula::ir {

/// The function in `text`, or null with the reasons in `diags`. `file` names the text in diagnostics. The result is
/// not verified.
std::unique_ptr<Func> read(std::string_view text, std::string_view file, Diagnostics& diags);

}  // namespace tegula::ir
