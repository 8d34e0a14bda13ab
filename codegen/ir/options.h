// The options of options.def: attributes of a function, in every front end and in every message.
#pragma once

#include <cstdint>
#include <span>
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
  /// Whether 0 stands for none, which is what an option is that nobody gives.
  constexpr bool is_optional() const { return rule == OrZero; }
  constexpr bool is_none(int64_t value) const { return is_optional() && value == 0; }
  /// Whether the value asks for nothing: none, or the default where there is nothing less. It goes without saying.
  constexpr bool asks_nothing(int64_t value) const { return fallback <= low && value == fallback; }
  /// "num_warps is 3, expected 1, 2, 4, 8, 16 or 32"
  std::string wrong(int64_t value) const;
};

namespace option {
#define TEGULA_OPTION(name, fallback, low, high, rule, expected, doc) \
  inline constexpr OptionInfo name{#name, fallback, low, high, OptionInfo::rule, expected, doc};
#include "codegen/ir/options.def"
}  // namespace option

/// All rows in the order of the table.
std::span<const OptionInfo> option_table();
/// Null: there is no such option.
const OptionInfo* find_option(std::string_view name);

}  // namespace tegula::ir
