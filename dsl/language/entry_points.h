// Which functions of a file a host program launches.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dsl/language/ast.h"

namespace tegula::language {

/// The @triton.jit functions that no other one names and that return no value, in the order of the file: what is left
/// of a file without its helpers.
std::vector<std::string> entry_points(const Module& module);

/// All @triton.jit functions, each name once.
std::vector<std::string> kernel_names(const Module& module);
/// Those of a text, which may have mistakes.
std::vector<std::string> kernel_names(std::string text, std::string_view name);

}  // namespace tegula::language
