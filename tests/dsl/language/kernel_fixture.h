// Kernels that write integers, from the text of their bodies.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "dsl/tegula.h"
#include "tests/message_of.h"

namespace tegula {

/// The first numbers that `k(out, n)` writes. The body's lines are indented by four blanks; `more` goes before it.
inline std::vector<int> run(const std::string& body, size_t count, int n = 5, const std::string& more = {}) {
  Program program = Program::parse(
      "import triton\nimport triton.language as tl\n" + more + "@triton.jit\ndef k(out, n):\n" + body, "k.py");
  auto device = default_device();
  Buffer out(*device, std::vector<int>(64, -7));
  program.kernel("k").launch(*device, {1}, {}, out.as<int>(), n);
  std::vector<int> values = out.download<int>();
  values.resize(count);
  return values;
}
using Ints = std::vector<int>;

}  // namespace tegula
