// Storage types of narrow floats on the host, and the one place that rounds to them.
#pragma once

#include <bit>
#include <cstdint>

#include "runtime/base/elem.h"

namespace tegula {

/// To nearest, ties to even; or toward zero, where what is too large becomes the largest finite number.
enum class Rounding { Nearest, TowardZero };

/// The exponent field and fraction of a finite number, given by its bits without the sign, in a format that has
/// `precision` significant bits (the leading one included), `lowest` as smallest normal exponent and no largest one.
template <int precision, int lowest>
constexpr uint64_t round_magnitude(uint64_t bits, Rounding rounding) {
  constexpr int kFraction = precision - 1;
  constexpr uint64_t kDoubleFraction = (uint64_t(1) << 52) - 1;
  const int exponent = int(bits >> 52) - 1023;
  if (exponent < lowest - precision - 1) return 0;  // less than a quarter of the smallest; zero as well
  const uint64_t significand = (bits & kDoubleFraction) | uint64_t(1) << 52;
  const int shift = 52 - kFraction + (exponent < lowest ? lowest - exponent : 0);
  uint64_t kept = significand >> shift;
  const uint64_t rest = significand & ((uint64_t(1) << shift) - 1), half = uint64_t(1) << (shift - 1);
  if (rounding == Rounding::Nearest && (rest > half || (rest == half && (kept & 1)))) ++kept;
  // A normal number's leading bit counts as one more in the exponent field; a carry does the right thing by itself.
  return kept + (exponent < lowest ? 0 : uint64_t(exponent - lowest) << kFraction);
}

/// The bits of `value` in a format of 16 bits. A NaN stays one and becomes quiet.
template <int precision, int lowest>
constexpr uint16_t round_to_16_bits(double value, Rounding rounding) {
  constexpr int kFraction = precision - 1;
  constexpr uint16_t kInfinity = uint16_t((0x7FFF >> kFraction) << kFraction);
  constexpr uint64_t kDoubleInfinity = uint64_t(0x7FF) << 52;
  uint64_t bits = std::bit_cast<uint64_t>(value);
  const uint16_t sign = uint16_t(bits >> 63 << 15);
  bits &= ~(uint64_t(1) << 63);
  if (bits > kDoubleInfinity) return uint16_t(sign | kInfinity | 1 << (kFraction - 1));
  if (bits == kDoubleInfinity) return sign | kInfinity;
  const uint64_t result = round_magnitude<precision, lowest>(bits, rounding);
  if (result >= kInfinity) return sign | uint16_t(kInfinity - (rounding == Rounding::TowardZero));
  return sign | uint16_t(result);
}

/// IEEE binary16.
struct float16 {
  static constexpr Elem kElem = Elem::F16;
  uint16_t bits = 0;

  float16() = default;
  float16(float value) : float16(round(value)) {}
  /// Rounded once, where a float in between would round twice.
  static float16 round(double value, Rounding rounding = Rounding::Nearest) {
    return of_bits(round_to_16_bits<11, -14>(value, rounding));
  }
  static float16 of_bits(uint16_t bits) {
    float16 result;
    result.bits = bits;
    return result;
  }
  operator float() const {
    const uint32_t sign = uint32_t(bits & 0x8000) << 16, rest = bits & 0x7FFF;
    // Exponent and fraction at their places in a float, then the difference of the biases as a factor: exact, and right
    // for denormals too.
    float magnitude = std::bit_cast<float>(rest << 13) * 0x1p112f;
    if (rest >= 0x7C00) magnitude = std::bit_cast<float>(0x7F800000 | (rest & 0x3FF) << 13);
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
};

/// The upper half of an IEEE binary32.
struct bfloat16 {
  static constexpr Elem kElem = Elem::BF16;
  uint16_t bits = 0;

  bfloat16() = default;
  bfloat16(float value) : bfloat16(round(value)) {}
  /// Rounded once, where a float in between would round twice.
  static bfloat16 round(double value, Rounding rounding = Rounding::Nearest) {
    return of_bits(round_to_16_bits<8, -126>(value, rounding));
  }
  static bfloat16 of_bits(uint16_t bits) {
    bfloat16 result;
    result.bits = bits;
    return result;
  }
  operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
};

}  // namespace tegula
