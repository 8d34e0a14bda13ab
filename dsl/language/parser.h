// Text to syntax tree.
#pragma once

#include <string_view>

#include "dsl/language/ast.h"
#include "runtime/base/diag.h"

namespace tegula::language {

/// Parses a Triton source file: jit functions in full; imports and module-level assignments as far as they parse; host
/// functions, classes and other statements are skipped. Syntax errors inside jit functions (and in their decorators)
/// are reported with their place, as many as there are lines with errors; the rest of the tree is still there. `file`
/// names the text in locations; the text is added to diags.sources().
Module parse(std::string_view text, std::string_view file, Diagnostics& diags);

}  // namespace tegula::language
