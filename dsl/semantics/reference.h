// What the language's reference page lists, written from the tables that the compiler works by.
#pragma once

#include <string>
#include <vector>

namespace tegula::dsl {

struct ReferenceTable {
  std::string name;      // by which a page asks for it
  std::string markdown;  // with its heading row; ends with a line break
};

/// "element types", "functions" of function_table() with their parameters, "libdevice", "descriptor methods", and the
/// "operations" of tile IR.
std::vector<ReferenceTable> reference_tables();

}  // namespace tegula::dsl
