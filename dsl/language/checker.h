// From the syntax tree of a kernel and one specialisation of its arguments to tile IR.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/ir/ir.h"
#include "dsl/kernel_source.h"
#include "dsl/language/source_file.h"
#include "runtime/base/diag.h"

namespace tegula::language {

using dsl::ArgSpec;
using dsl::Specialization;

/// The tile IR of `kernel` for `spec`, with the helpers it calls inlined. The parameters are the arguments without a
/// constant, in the order of the signature. Null after errors in `diags`: an unknown kernel or argument, an argument
/// with neither constant, type nor default, and every mistake found in the program. `prints` receives the lines of
/// tl.static_print.
std::unique_ptr<ir::Func> check(const SourceFile& file, std::string_view kernel, const Specialization& spec,
                                Diagnostics& diags, std::vector<std::string>* prints = nullptr);

/// Checks every jit function of the file (a file without any gets a warning) as far as that goes without argument
/// types: what depends on an argument's type or value is taken to be right, and both branches of a condition that
/// depends on one are checked.
void check_all(const SourceFile& file, Diagnostics& diags);

}  // namespace tegula::language
