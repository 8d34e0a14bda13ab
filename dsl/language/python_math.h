// Python's module math, on numbers that are known at compile time.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dsl/semantics/integer.h"

namespace tegula::language {

/// The names of its functions.
std::vector<std::string> math_functions();
bool is_math_function(std::string_view name);

using MathNumber = std::variant<dsl::Int, double>;
/// A number, a truth value, or a text that says what is wrong, beginning with "math.NAME".
using MathResult = std::variant<dsl::Int, double, bool, std::string>;

/// The value of one of these functions as Python computes it.
MathResult call_math_function(std::string_view name, const std::vector<MathNumber>& args);

}  // namespace tegula::language
