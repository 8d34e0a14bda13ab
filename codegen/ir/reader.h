// Reads what the printer writes (printer.h has an example of the text).
#pragma once

#include <memory>
#include <string_view>

#include "codegen/ir/ir.h"
#include "runtime/base/diag.h"

namespace tegula::ir {

struct ReadOptions {
  /// An op without `loc(...)` gets its place in this text, so that messages about it point there.
  bool text_locations = false;
};

/// The function in `text`, or null with the reasons in `diags` (one a line at most). `file` names the text in
/// diagnostics. `//` starts a comment. Values may have any number and be used above their definition: the result is
/// not verified. Absent optional operands are null up to the length of the op's operand list.
std::unique_ptr<Func> read(std::string_view text, std::string_view file, Diagnostics& diags,
                           const ReadOptions& options = {});

}  // namespace tegula::ir
