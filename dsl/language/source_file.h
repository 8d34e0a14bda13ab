// A Triton file in memory: its text and its syntax tree.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "dsl/language/ast.h"
#include "runtime/base/diag.h"

namespace tegula::language {

/// The syntax tree of a file, and the functions of its host code that decorators ask for, parsed when they do.
class SourceFile {
 public:
  /// Parses; mistakes go to `diags`.
  SourceFile(std::string text, std::string_view name, Diagnostics& diags);
  SourceFile(const SourceFile&) = delete;

  const std::string& text() const { return text_; }
  const Module& module() const { return module_; }
  /// A list with the text in it, for diagnostics made later.
  Diagnostics diagnostics() const;

  struct HostFunction {
    Function function;
    Diagnostics diags;  ///< what is wrong with it
  };
  /// A module-level function that is no kernel; null if there is none. Any thread may ask.
  const HostFunction* host_function(std::string_view name) const;

 private:
  std::string text_;
  Module module_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::optional<HostFunction>, std::less<>> host_functions_;
};

}  // namespace tegula::language
