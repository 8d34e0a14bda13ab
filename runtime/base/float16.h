// Storage types of 16-bit floats on the host, with conversions that round to nearest even.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "runtime/base/elem.h"

namespace tegula {

/// IEEE binary16.
struct float16 {
  static constexpr Elem kElem = Elem::F16;
  uint16_t bits = 0;

  float16() = default;
  float16(float value) {
    uint32_t x = std::bit_cast<uint32_t>(value), sign = x >> 16 & 0x8000, magnitude = x & 0x7fffffff;
    if (magnitude > 0x7f800000)
      bits = uint16_t(sign | 0x7e00);  // NaN
    else if (magnitude >= 0x47800000)
      bits = uint16_t(sign | 0x7c00);  // 65536 and above
    else if (magnitude >= 0x38800000)  // normal: rounding may carry into the exponent, up to infinity
      bits = uint16_t(sign | ((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13));
    else  // subnormal: the rounding of a float addition does it, 0.5 having the right last place
      bits = uint16_t(sign | (std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000));
  }
  operator float() const {
    uint32_t sign = uint32_t(bits & 0x8000) << 16, exponent = bits >> 10 & 31, mantissa = bits & 1023;
    if (exponent == 0) return std::bit_cast<float>(std::bit_cast<uint32_t>(std::ldexp(float(mantissa), -24)) | sign);
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);
    return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  }
};

/// The upper half of an IEEE binary32.
struct bfloat16 {
  static constexpr Elem kElem = Elem::BF16;
  uint16_t bits = 0;

  bfloat16() = default;
  bfloat16(float value) {
    uint32_t x = std::bit_cast<uint32_t>(value);
    bits = std::isnan(value) ? uint16_t(x >> 16 | 0x40) : uint16_t((x + 0x7fff + (x >> 16 & 1)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
};

}  // namespace tegula
