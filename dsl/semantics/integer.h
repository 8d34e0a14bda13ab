// Integers of the compile-time part of a program: exact, as Python's are.
#pragma once

#include <fmt/format.h>

#include <compare>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tegula::dsl {

class Int {
 public:
  /// Results wider than this are refused by the operators of the language, so that no constant exhausts memory.
  static constexpr int64_t kMaxBits = 1 << 16;

  Int() = default;
  template <std::integral T>
  requires(!std::same_as<T, bool>) Int(T x) {  // NOLINT: implicit on purpose
    if (std::in_range<int64_t>(x))
      small_ = int64_t(x);
    else
      *this = from_unsigned(uint64_t(x));
  }
  explicit Int(bool x) : small_(x) {}
  /// Of digits in `base` alone, without sign and prefix; nothing if they are not that.
  static std::optional<Int> parse(std::string_view digits, int base);
  /// A finite number without its fraction.
  static Int truncate(double x);

  /// The number if 64 bits hold it, signed.
  std::optional<int64_t> narrow() const { return big_ ? std::nullopt : std::optional(small_); }
  /// The number, or the limit of int64_t that is nearest to it.
  int64_t clamped() const { return !big_ ? small_ : *this < Int(0) ? INT64_MIN : INT64_MAX; }
  /// The lowest 64 bits of its two's complement.
  uint64_t low_bits() const;
  /// The nearest double; infinite past its range.
  double to_double() const;
  std::string to_string() const;
  /// Bits of the absolute value.
  int64_t bits() const;
  explicit operator bool() const { return big_ || small_; }

  Int operator-() const { return Int(0) - *this; }
  Int operator~() const { return Int(-1) - *this; }
  friend Int operator+(const Int& a, const Int& b);
  friend Int operator-(const Int& a, const Int& b);
  friend Int operator*(const Int& a, const Int& b);
  friend Int operator&(const Int& a, const Int& b);
  friend Int operator|(const Int& a, const Int& b);
  friend Int operator^(const Int& a, const Int& b);
  friend Int operator<<(const Int& a, int64_t bits);
  friend Int operator>>(const Int& a, int64_t bits);
  /// Rounded down; the remainder has the sign of the divisor, which is not 0.
  friend Int floor_div(const Int& a, const Int& b);
  friend Int floor_mod(const Int& a, const Int& b) { return a - floor_div(a, b) * b; }
  friend std::strong_ordering operator<=>(const Int& a, const Int& b);
  friend bool operator==(const Int& a, const Int& b) { return (a <=> b) == 0; }

 private:
  struct Big;
  static Int from_unsigned(uint64_t x);
  static Int from_big(Big x);
  Big to_big() const;

  int64_t small_ = 0;
  std::shared_ptr<const Big> big_;  ///< null where 64 bits hold the number
};

}  // namespace tegula::dsl

template <>
struct fmt::formatter<tegula::dsl::Int> : fmt::formatter<std::string> {
  template <class Context>
  auto format(const tegula::dsl::Int& x, Context& context) const {
    return fmt::formatter<std::string>::format(x.to_string(), context);
  }
};
