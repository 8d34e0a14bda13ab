// Storage types of 8-bit floats on the host, rounded to as the GPU does it.
#pragma once

#include <algorithm>

#include "runtime/base/float16.h"

namespace tegula {

/// The bits of `value`, rounded to nearest even, in a format of 8 bits whose largest finite number is `largest`. Beyond
/// that (infinities too) the result is this number, and for a NaN 0x7F without a sign: as cvt.rn.satfinite.
template <int precision, int lowest, uint8_t largest>
constexpr uint8_t round_to_8_bits(float value) {
  constexpr uint64_t kDoubleInfinity = uint64_t(0x7FF) << 52;
  uint64_t bits = std::bit_cast<uint64_t>(double(value));
  const uint8_t sign = uint8_t(bits >> 63 << 7);
  bits &= ~(uint64_t(1) << 63);
  if (bits > kDoubleInfinity) return 0x7F;
  if (bits == kDoubleInfinity) return sign | largest;
  const uint64_t result = round_magnitude<precision, lowest>(bits, Rounding::Nearest);
  return uint8_t(sign | std::min<uint64_t>(result, largest));
}

/// OCP E4M3: 4 bits of exponent and 3 of fraction, no infinities, the NaNs 0x7F and 0xFF, up to 448.
struct float8e4nv {
  static constexpr Elem kElem = Elem::F8E4M3;
  uint8_t bits = 0;

  float8e4nv() = default;
  float8e4nv(float value) : bits(round_to_8_bits<4, -6, 0x7E>(value)) {}
  static float8e4nv of_bits(uint8_t bits) {
    float8e4nv result;
    result.bits = bits;
    return result;
  }
  operator float() const {
    const uint32_t rest = bits & 0x7F;
    // As for float16: the fields at their places in a float, then the difference of the biases as a factor.
    float magnitude = std::bit_cast<float>(rest << 20) * 0x1p120f;
    if (rest == 0x7F) magnitude = std::bit_cast<float>(0x7FC00000);
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | uint32_t(bits & 0x80) << 24);
  }
};

/// OCP E5M2: the upper half of an IEEE binary16, up to 57344.
struct float8e5 {
  static constexpr Elem kElem = Elem::F8E5M2;
  uint8_t bits = 0;

  float8e5() = default;
  float8e5(float value) : bits(round_to_8_bits<3, -14, 0x7B>(value)) {}
  static float8e5 of_bits(uint8_t bits) {
    float8e5 result;
    result.bits = bits;
    return result;
  }
  operator float() const { return float16::of_bits(uint16_t(bits << 8)); }
};

/// The bits of `value` in either format.
inline uint8_t float8_bits(float value, Elem elem) {
  return elem == Elem::F8E4M3 ? float8e4nv(value).bits : float8e5(value).bits;
}

}  // namespace tegula
