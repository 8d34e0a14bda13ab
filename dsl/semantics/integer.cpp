#include "dsl/semantics/integer.h"

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <cmath>
#include <limits>

namespace tegula::dsl {

using boost::multiprecision::cpp_int;

struct Int::Big {
  cpp_int value;
};

Int Int::from_big(Big x) {
  constexpr std::numeric_limits<int64_t> limits;
  if (x.value >= limits.min() && x.value <= limits.max()) return static_cast<int64_t>(x.value);
  Int out;
  out.big_ = std::make_shared<const Big>(std::move(x));
  return out;
}

Int Int::from_unsigned(uint64_t x) { return from_big({cpp_int(x)}); }
Int::Big Int::to_big() const { return big_ ? *big_ : Big{cpp_int(small_)}; }

std::optional<Int> Int::parse(std::string_view digits, int base) {
  if (digits.empty()) return std::nullopt;
  cpp_int value;
  int64_t chunk = 0, scale = 1;  // several digits at a time
  auto flush = [&] { value = value * scale + chunk, chunk = 0, scale = 1; };
  for (char c : digits) {
    int digit = c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : base;
    if (digit >= base) return std::nullopt;
    chunk = chunk * base + digit, scale *= base;
    if (scale > int64_t(1) << 56) flush();
  }
  flush();
  return from_big({std::move(value)});
}

Int Int::truncate(double x) {
  x = std::trunc(x);
  if (std::fabs(x) < 0x1p62) return int64_t(x);
  return from_big({cpp_int(x)});
}

uint64_t Int::low_bits() const {
  if (!big_) return uint64_t(small_);
  const cpp_int magnitude = abs(big_->value) & std::numeric_limits<uint64_t>::max();
  const auto low = static_cast<uint64_t>(magnitude);
  return big_->value < 0 ? 0 - low : low;
}

double Int::to_double() const { return big_ ? big_->value.convert_to<double>() : double(small_); }
std::string Int::to_string() const { return big_ ? big_->value.str() : std::to_string(small_); }

int64_t Int::bits() const {
  if (!big_) {
    uint64_t magnitude = small_ < 0 ? 0 - uint64_t(small_) : uint64_t(small_);
    return magnitude ? 64 - __builtin_clzll(magnitude) : 0;
  }
  return int64_t(msb(abs(big_->value))) + 1;
}

Int operator+(const Int& a, const Int& b) {
  int64_t out = 0;
  if (!a.big_ && !b.big_ && !__builtin_add_overflow(a.small_, b.small_, &out)) return out;
  return Int::from_big({a.to_big().value + b.to_big().value});
}

Int operator-(const Int& a, const Int& b) {
  int64_t out = 0;
  if (!a.big_ && !b.big_ && !__builtin_sub_overflow(a.small_, b.small_, &out)) return out;
  return Int::from_big({a.to_big().value - b.to_big().value});
}

Int operator*(const Int& a, const Int& b) {
  int64_t out = 0;
  if (!a.big_ && !b.big_ && !__builtin_mul_overflow(a.small_, b.small_, &out)) return out;
  return Int::from_big({a.to_big().value * b.to_big().value});
}

// Boost works on sign and magnitude, but gives the results of two's complement here.
Int operator&(const Int& a, const Int& b) {
  if (!a.big_ && !b.big_) return a.small_ & b.small_;
  return Int::from_big({a.to_big().value & b.to_big().value});
}

Int operator|(const Int& a, const Int& b) {
  if (!a.big_ && !b.big_) return a.small_ | b.small_;
  return Int::from_big({a.to_big().value | b.to_big().value});
}

Int operator^(const Int& a, const Int& b) {
  if (!a.big_ && !b.big_) return a.small_ ^ b.small_;
  return Int::from_big({a.to_big().value ^ b.to_big().value});
}

Int operator<<(const Int& a, int64_t bits) { return Int::from_big({a.to_big().value << unsigned(bits)}); }

Int operator>>(const Int& a, int64_t bits) {
  if (!a.big_) return a.small_ >> std::min<int64_t>(bits, 63);
  if (bits > Int::kMaxBits) return a < Int(0) ? -1 : 0;
  return floor_div(a, Int(1) << bits);
}

Int floor_div(const Int& a, const Int& b) {
  if (!a.big_ && !b.big_ && b.small_ != -1) {
    int64_t quotient = a.small_ / b.small_, rest = a.small_ % b.small_;
    return quotient - (rest != 0 && (rest < 0) != (b.small_ < 0));
  }
  cpp_int quotient, rest;
  const cpp_int divisor = b.to_big().value;
  divide_qr(a.to_big().value, divisor, quotient, rest);
  if (rest != 0 && (rest < 0) != (divisor < 0)) --quotient;
  return Int::from_big({std::move(quotient)});
}

std::strong_ordering operator<=>(const Int& a, const Int& b) {
  if (!a.big_ && !b.big_) return a.small_ <=> b.small_;
  const int order = a.to_big().value.compare(b.to_big().value);
  return order < 0   ? std::strong_ordering::less
         : order > 0 ? std::strong_ordering::greater
                     : std::strong_ordering::equal;
}

}  // namespace tegula::dsl
