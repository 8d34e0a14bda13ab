// Text to syntax tree.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "dsl/language/ast.h"
#include "runtime/base/diag.h"

namespace tegula::language {

/// Parses a Triton source file: jit functions in full; imports and module-level assignments as far as they parse; host
/// functions, classes and other statements are skipped. Syntax errors inside jit functions (and in their decorators)
/// are reported with their place, as many as there are lines with errors; the rest of the tree is still there. `file`
/// names the text in locations; the text is added to diags.sources().
Module parse(std::string_view text, std::string_view file, Diagnostics& diags);

/// The head of the function `name` with its decorators and no body: all that binding arguments takes, at a fraction of
/// what parsing the file costs. Mistakes are left to parse(): null if no such function is found or its head is wrong.
std::optional<Function> parse_signature(std::string_view text, std::string_view file, std::string_view name);

/// A function of the module that is no kernel, for decorators that call it: its head and its body, without decorators.
/// Null if there is none of this name. Mistakes in it, and what it has that the kernel language lacks, go to `diags`.
std::optional<Function> parse_host_function(std::string_view text, std::string_view file, std::string_view name,
                                            Diagnostics& diags);

/// The @triton.jit function whose `def` stands in this line, with its body and without decorators. Mistakes are left to
/// parse(): null if there is none.
std::optional<Function> parse_function_at(std::string_view text, std::string_view file, int line);

/// A class of the module; null if there is none of this name. Of aggregates alone it has the methods.
std::optional<Class> parse_class(std::string_view text, std::string_view file, std::string_view name);

/// a.b.c as text; empty for an expression that is no name.
std::string dotted_name(const Expr& expr);

}  // namespace tegula::language
