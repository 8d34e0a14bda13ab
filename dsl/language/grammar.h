// The grammar of one logical line (Boost.Spirit X3 stays inside the .cpp files).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dsl/language/ast.h"
#include "dsl/language/splitter.h"

namespace tegula::language {

/// What one piece of a logical line is: a simple statement, or the head of a compound one up to its ':'.
struct Statement {
  enum class Form { Simple, If, Elif, Else, For, While, With, Def, Decorator };
  Form form = Form::Simple;
  StmtPtr stmt;                        ///< Simple, If, Elif, For, While; bodies are empty
  std::optional<Function> function;    ///< Def: name, parameters, return annotation
  ExprPtr decorator;                   ///< Decorator
  std::vector<ImportBinding> imports;  ///< of an import statement
  size_t end = 0;                      ///< where the head ends: a suite on the same line begins here
};

/// Parses text [begin, end) of `line`. Null after a mistake, which is reported to `diags`.
std::optional<Statement> parse_statement(const LogicalLine& line, size_t begin, size_t end, Diagnostics& diags);

/// Whether `word` is reserved: no variable may have it as its name.
bool is_reserved_word(std::string_view word);

}  // namespace tegula::language
