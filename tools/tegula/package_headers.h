// Headers with a typed function for each kernel of a package.
#pragma once

#include <string>

#include "runtime/package/package.h"

namespace tegula::cli {

/// "app" of "out/my-app.tgp" would be "my_app": a name that C takes.
std::string package_symbol(const std::string& output);

/// C99: SYMBOL_KERNEL(kernel, grid, stream, arguments), over tegula_packaged_launch(); with `has_object` also
/// SYMBOL_open(), which opens the package that is linked in.
std::string c_header(const Package& package, const std::string& symbol, bool has_object);
/// C++20, in the library's calling style: in a namespace of the symbol's name an object for each kernel, whose calls
/// take a stream, a grid and typed arguments.
std::string cpp_header(const Package& package, const std::string& symbol, bool has_object);

}  // namespace tegula::cli
