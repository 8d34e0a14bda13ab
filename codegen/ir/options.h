// The options of options.def. They are attributes of a function, and all front ends and messages take their names,
// ranges and defaults from here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tegula::ir {

/// A row of options.def.
struct OptionInfo {
  enum Rule : uint8_t { Any, PowerOfTwo, OrZero };
  std::string_view name;
  int fallback, low, high;
  Rule rule;
  const char* expected;
  const char* doc;

  constexpr bool allows(int64_t value) const {
    if (rule == OrZero && value == 0) return true;
    return value >= low && value <= high && (rule != PowerOfTwo || (value & (value - 1)) == 0);
  }
  /// Whether 0 means that the option is not given, which is then the default.
  constexpr bool is_optional() const { return rule == OrZero; }
  constexpr bool is_none(int64_t value) const { return is_optional() && value == 0; }
  /// Whether the value asks for nothing: the option is not given, or has a default that is also the least value. Texts
  /// leave such values out.
  constexpr bool asks_nothing(int64_t value) const { return fallback <= low && value == fallback; }
  /// "num_warps is 3, expected 1, 2, 4, 8, 16 or 32"
  std::string wrong(int64_t value) const;
};

namespace option {
#define TEGULA_OPTION(name, fallback, low, high, rule, expected, doc) \
  inline constexpr OptionInfo name{#name, fallback, low, high, OptionInfo::rule, expected, doc};
#include "codegen/ir/options.def"
}  // namespace option

/// The row of that name; null if there is no such option.
const OptionInfo* find_option(std::string_view name);

}  // namespace tegula::ir
