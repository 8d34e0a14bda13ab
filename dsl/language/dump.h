// The syntax tree as text, for tests and for looking at it.
#pragma once

#include <string>

#include "dsl/language/ast.h"

namespace tegula::language {

/// An s-expression: (+ a (* b 2)). With locations each node is followed by @line:column-end_column.
std::string dump(const Expr& expr, bool locations = false);
/// One statement a line, blocks indented.
std::string dump(const Module& module, bool locations = false);

}  // namespace tegula::language
