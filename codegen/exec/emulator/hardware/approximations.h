// What the hardware's approximate instructions give on the emulator: within their documented errors.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace tegula::emulator {

/// Denormals as zeros, of the argument and of the result.
inline float flush(float value) { return std::fabs(value) < 0x1p-126f ? std::copysign(0.0f, value) : value; }

/// 2^x = 2^n 2^r with n whole and |r| <= 1/2: the series of e^(r ln 2) up to r^7 is 5e-9 off at most, a tenth of a
/// float's half ulp; in double, so that the last step rounds to denormals and to infinity as it should.
inline float approximate_ex2(float value) {
  constexpr double c1 = 0.693147180559945309, c2 = c1 * c1 / 2, c3 = c2 * c1 / 3, c4 = c3 * c1 / 4, c5 = c4 * c1 / 5,
                   c6 = c5 * c1 / 6, c7 = c6 * c1 / 7;
  constexpr double kRound = 0x1.8p52;  // adding it leaves the nearest whole number in the low bits
  double x = value;
  x = x > 130 ? 130 : x;
  x = x < -160 ? -160 : x;
  double shifted = x + kRound;
  double r = x - (shifted - kRound), r2 = r * r, r4 = r2 * r2;
  double p = (1 + c1 * r) + (c2 + c3 * r) * r2 + ((c4 + c5 * r) + (c6 + c7 * r) * r2) * r4;
  return float(p * std::bit_cast<double>((std::bit_cast<uint64_t>(shifted) + 1023) << 52));
}

/// As far from the exact value as the hardware's may be: its lowest bits are cut off.
inline float approximate_tanh(float value) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(std::tanh(value)) & 0xFFFFE000);
}

}  // namespace tegula::emulator
