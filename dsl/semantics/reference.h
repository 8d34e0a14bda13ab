// The language's reference page, written from the tables.
#pragma once

#include <string>

namespace tegula::dsl {

/// Markdown: element types, operators, and every function of function_table() with its parameters and meaning.
std::string language_reference();

}  // namespace tegula::dsl
