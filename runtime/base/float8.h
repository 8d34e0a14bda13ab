// Storage types of 8-bit floats on the host, rounded to as the GPU does it.
#pragma once

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
  return uint8_t(sign | (result < largest ? result : largest));
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

/// E4M3 with the bias of a half and without infinities and NaNs, which Triton converts by a few instructions on bits:
/// a half's next three bits of fraction, rounded to nearest, ties away from zero; 1.75 for what is larger and for a
/// NaN. A float becomes a half towards zero first.
struct float8e4b15 {
  static constexpr Elem kElem = Elem::F8E4B15;
  uint8_t bits = 0;

  float8e4b15() = default;
  float8e4b15(float value) {
    constexpr uint16_t kLargest = 0x3F00;  // 1.75
    const uint16_t half = float16::round(double(value), Rounding::TowardZero).bits;
    const unsigned magnitude = half & 0x7FFF, size = magnitude < kLargest ? magnitude : kLargest;
    bits = uint8_t((half >> 8 & 0x80) | (2 * size + 0x80) >> 8);
  }
  static float8e4b15 of_bits(uint8_t bits) {
    float8e4b15 result;
    result.bits = bits;
    return result;
  }
  operator float() const { return float16::of_bits(uint16_t((bits & 0x80) << 8 | (bits & 0x7F) << 7)); }
};

/// The formats of AMD's processors with one zero and one NaN, 0x80. Rounded to nearest even; what is too large becomes
/// the largest number.
template <Elem elem, int fraction, int bias>
struct SingleZeroFloat8 {
  static constexpr Elem kElem = elem;
  uint8_t bits = 0;

  SingleZeroFloat8() = default;
  SingleZeroFloat8(float value) {
    const uint8_t rounded = round_to_8_bits<fraction + 1, 1 - bias, 0x7F>(value);
    constexpr uint8_t kNegativeZero = 0x80, kNan = 0x80;
    bits = value != value ? kNan : rounded == kNegativeZero ? 0 : rounded;
  }
  static SingleZeroFloat8 of_bits(uint8_t bits) {
    SingleZeroFloat8 result;
    result.bits = bits;
    return result;
  }
  operator float() const {
    if (bits == 0x80) return std::bit_cast<float>(0x7FC00000);
    const int exponent = (bits & 0x7F) >> fraction, rest = bits & ((1 << fraction) - 1);
    float size = float(exponent ? rest + (1 << fraction) : rest);
    for (int i = exponent > 1 ? exponent : 1; i < bias + fraction; ++i) size /= 2;
    for (int i = bias + fraction; i < exponent; ++i) size *= 2;
    return bits & 0x80 ? -size : size;
  }
};

/// E4M3 up to 240.
using float8e4b8 = SingleZeroFloat8<Elem::F8E4B8, 3, 8>;
/// E5M2 up to 57344.
using float8e5b16 = SingleZeroFloat8<Elem::F8E5B16, 2, 16>;

/// What `function` gives for a zero of the type that stores the format.
template <class Function>
auto with_float8(Elem elem, Function function) {
  switch (elem) {
    case Elem::F8E4M3:
      return function(float8e4nv());
    case Elem::F8E4B15:
      return function(float8e4b15());
    case Elem::F8E4B8:
      return function(float8e4b8());
    case Elem::F8E5B16:
      return function(float8e5b16());
    default:
      return function(float8e5());
  }
}

/// The bits of `value` in one of the formats.
inline uint8_t float8_bits(float value, Elem elem) {
  return with_float8(elem, [&](auto number) { return (number = value).bits; });
}

/// What a number of one of the formats is after rounding.
inline float round_to_float8(float value, Elem elem) {
  return with_float8(elem, [&](auto number) { return float(number = value); });
}

}  // namespace tegula
