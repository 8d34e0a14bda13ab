// Layouts written as text, for tests.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <string_view>

#include "codegen/layout/linear_layout.h"

namespace tegula {

inline void PrintTo(const LinearLayout& layout, std::ostream* os) { *os << layout.to_string(); }

/// The layout of a text as `to_string` writes it. A text that is none fails the test, and gives an empty layout.
inline LinearLayout layout(std::string_view text) {
  std::string why;
  auto result = LinearLayout::parse(text, &why);
  EXPECT_TRUE(result) << why << " in " << text;
  return result.value_or(LinearLayout());
}

}  // namespace tegula
