// Files with a kernel under decorators, and what the decorators evaluate to.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dsl/language/decorators.h"
#include "runtime/base/error.h"
#include "tests/message_of.h"

namespace tegula::language {

using File = std::shared_ptr<const SourceFile>;

inline File parse_file(const std::string& text) {
  Diagnostics diags;
  auto file = std::make_shared<const SourceFile>(text, "k.py", diags);
  EXPECT_EQ(diags.render(), "");
  return file;
}

inline const std::string kHead = "import torch\nimport triton\nimport triton.language as tl\n";

/// A file with one kernel under these decorators, of which line 4 is the first.
inline File kernel_file(const std::string& decorators) {
  return parse_file(kHead + decorators +
                    "\n@triton.jit\ndef k(x, bias, n, BLOCK: tl.constexpr, EVEN: tl.constexpr = True):\n  pass\n");
}

inline std::optional<Autotune> autotune(const std::string& decorators) {
  File file = kernel_file(decorators);
  return find_autotune(file, file->module().functions.back());
}

inline std::string autotune_error(const std::string& decorators) {
  return message_of<CompileError>([&] { autotune(decorators); });
}

inline std::string configs_text(const std::vector<Config>& configs) {
  std::string out;
  for (const Config& c : configs) out += c.to_string() + "\n";
  return out;
}

}  // namespace tegula::language
