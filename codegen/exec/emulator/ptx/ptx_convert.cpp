// Numbers of inline PTX: their bits, and cvt.
#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>

#include "codegen/exec/emulator/hardware/approximations.h"
#include "codegen/exec/emulator/ptx/ptx.h"
#include "runtime/base/float16.h"

namespace tegula::emulator::ptx {

namespace {

/// A format of at most 8 bits: its bias and bits of fraction, and what the largest exponents stand for.
struct SmallFormat {
  int exponent_bits, fraction_bits, bias;
  uint8_t largest;  ///< the bits of the largest finite number
  bool infinities;  ///< behind it comes an infinity, then NaNs; else NaNs alone, if anything
};

constexpr SmallFormat small_format(Form form) {
  switch (form) {
    case Form::E4M3:
      return {4, 3, 7, 0x7E, false};
    case Form::E5M2:
      return {5, 2, 15, 0x7B, true};
    case Form::E2M3:
      return {2, 3, 1, 0x1F, false};
    case Form::E3M2:
      return {3, 2, 3, 0x1F, false};
    default:  // E2M1
      return {2, 1, 1, 0x7, false};
  }
}

double small_to_double(Form form, uint64_t bits) {
  if (form == Form::UE8M0) return bits == 0xFF ? std::nan("") : std::ldexp(1.0, int(bits) - 127);
  const SmallFormat f = small_format(form);
  const int rest_bits = f.exponent_bits + f.fraction_bits;
  const uint64_t rest = bits & mask(rest_bits);
  const bool negative = bits >> rest_bits & 1;
  double magnitude;
  if (rest > f.largest) {
    magnitude =
        f.infinities && rest == uint64_t(f.largest) + 1 ? std::numeric_limits<double>::infinity() : std::nan("");
  } else {
    const int exponent = int(rest >> f.fraction_bits);
    const double fraction = double(rest & mask(f.fraction_bits)) / double(1 << f.fraction_bits);
    magnitude = exponent ? std::ldexp(1 + fraction, exponent - f.bias) : std::ldexp(fraction, 1 - f.bias);
  }
  return negative ? -magnitude : magnitude;
}

/// To the nearest, ties to even; what is too large becomes the largest finite number, as all of these conversions have
/// satfinite.
uint64_t double_to_small(Form form, double value, const Modifiers& mods) {
  if (form == Form::UE8M0) {
    if (std::isnan(value)) return 0xFF;
    int exponent;
    const double fraction = std::frexp(std::fabs(value), &exponent);  // in [1/2, 1)
    if (value == 0) return 0;
    const bool up = mods.round == Round::Up && fraction > 0.5;
    return uint64_t(std::clamp(exponent - 1 + (up ? 1 : 0) + 127, 0, 254));
  }
  const SmallFormat f = small_format(form);
  const uint64_t sign = std::signbit(value) ? uint64_t(1) << (f.exponent_bits + f.fraction_bits) : 0;
  if (std::isnan(value)) return f.exponent_bits + f.fraction_bits == 7 ? 0x7F : f.largest;
  const double magnitude = std::min(std::fabs(value), small_to_double(form, f.largest));
  const int exponent = magnitude > 0 ? std::max(std::ilogb(magnitude), 1 - f.bias) : 1 - f.bias;
  const double steps = std::nearbyint(std::ldexp(magnitude, f.fraction_bits - exponent));
  // The leading bit of a normal number counts as one more in the exponent field.
  return sign | (uint64_t(steps) + (uint64_t(exponent + f.bias - 1) << f.fraction_bits));
}

int host_round(Round round) {
  switch (round) {
    case Round::Zero:
      return FE_TOWARDZERO;
    case Round::Down:
      return FE_DOWNWARD;
    case Round::Up:
      return FE_UPWARD;
    default:
      return FE_TONEAREST;
  }
}

uint64_t bits_of(float value) { return std::isnan(value) ? 0x7FFFFFFF : std::bit_cast<uint32_t>(value); }

/// To 16 bits, in any of the four directions.
template <class T>
uint64_t to_16(double value, Round round) {
  if (std::isnan(value)) return 0x7FFF;
  if (round == Round::Nearest) return T::round(value).bits;
  uint16_t bits = T::round(value, tegula::Rounding::TowardZero).bits;
  const bool away = std::signbit(value) ? round == Round::Down : round == Round::Up;
  return away && double(float(T::of_bits(bits))) != value ? uint16_t(bits + 1) : bits;
}

uint64_t to_tf32(double value, Round round) {
  const float x = float(value);
  if (std::isnan(x)) return 0x7FFFFFFF;
  const uint32_t bits = std::bit_cast<uint32_t>(x), odd = bits >> 13 & 1;
  if (std::isinf(x) || round == Round::Zero) return bits & ~0x1FFFu;
  return (bits + (round == Round::Nearest ? 0xFFF + odd : 0x1000)) & ~0x1FFFu;
}

double whole(double value, Round round) {
  switch (round) {
    case Round::Zero:
      return std::trunc(value);
    case Round::Down:
      return std::floor(value);
    case Round::Up:
      return std::ceil(value);
    default:
      return std::nearbyint(value);
  }
}

uint64_t to_integer(Type to, double value, Round round, int source_bits) {
  // As the manual has it: a NaN is 0, but the middle of the range where 64 bits are involved.
  if (std::isnan(value)) return to.bits == 64 || source_bits == 64 ? uint64_t(1) << (to.bits - 1) : 0;
  const double x = whole(value, round);
  if (to.form == Form::Signed) {
    const double limit = std::ldexp(1.0, to.bits - 1);
    if (x >= limit) return mask(to.bits - 1);
    if (x < -limit) return uint64_t(1) << (to.bits - 1);
    return uint64_t(int64_t(x)) & mask(to.bits);
  }
  if (x <= 0) return 0;
  if (x >= std::ldexp(1.0, to.bits)) return mask(to.bits);
  return uint64_t(x);
}

/// An integer to a float: the host's conversion in that direction.
uint64_t integer_to_float(Type to, Type from, uint64_t bits, Round round) {
  volatile int64_t s = sign_extended(bits, from.bits);
  volatile uint64_t u = bits & mask(from.bits);
  const bool sign = from.form == Form::Signed;
  if (to.bits == 16) {
    // Odd where inexact: the second rounding then sees what was lost.
    std::fesetround(FE_TOWARDZERO);
    volatile double x = sign ? double(s) : double(u);
    std::fesetround(FE_TONEAREST);
    const bool exact = std::fabs(x) < 0x1p63 ? (sign ? int64_t(x) == s : uint64_t(x) == u) : true;
    const double odd = exact ? double(x) : std::bit_cast<double>(std::bit_cast<uint64_t>(double(x)) | 1);
    return to.form == Form::BFloat ? to_16<bfloat16>(odd, round) : to_16<float16>(odd, round);
  }
  std::fesetround(host_round(round));
  volatile float f = sign ? float(s) : float(u);
  volatile double d = sign ? double(s) : double(u);
  std::fesetround(FE_TONEAREST);
  return to.bits == 32 ? bits_of(f) : std::bit_cast<uint64_t>(double(d));
}

uint64_t integer_to_integer(Type to, Type from, uint64_t bits, bool saturate) {
  const bool sign = from.form == Form::Signed;
  const uint64_t wide = sign ? uint64_t(sign_extended(bits, from.bits)) : bits & mask(from.bits);
  if (!saturate) return wide & mask(to.bits);
  const bool negative = sign && int64_t(wide) < 0;
  if (to.form != Form::Signed) return negative ? 0 : std::min(wide, mask(to.bits));
  if (negative)
    return uint64_t(std::max(int64_t(wide), sign_extended(uint64_t(1) << (to.bits - 1), to.bits))) & mask(to.bits);
  return std::min(wide, mask(to.bits - 1));
}

}  // namespace

double to_double(Type type, uint64_t bits) {
  switch (type.form) {
    case Form::BFloat:
      return bfloat16::of_bits(uint16_t(bits));
    case Form::Float:
      if (type.bits == 16) return float16::of_bits(uint16_t(bits));
      return type.bits == 32 ? double(std::bit_cast<float>(uint32_t(bits))) : std::bit_cast<double>(bits);
    case Form::Tf32:
      return std::bit_cast<float>(uint32_t(bits));
    default:
      return small_to_double(type.form, bits);
  }
}

uint64_t from_double(Type type, double value, const Modifiers& mods) {
  switch (type.form) {
    case Form::BFloat:
      return to_16<bfloat16>(value, mods.round);
    case Form::Tf32:
      return to_tf32(value, mods.round);
    case Form::Float: {
      if (type.bits == 16) return to_16<float16>(value, mods.round);
      if (type.bits == 64) return std::bit_cast<uint64_t>(value);
      volatile double x = value;
      std::fesetround(host_round(mods.round));
      volatile float f = float(x);
      std::fesetround(FE_TONEAREST);
      return bits_of(mods.flush ? flush(f) : f);
    }
    default:
      return double_to_small(type.form, value, mods);
  }
}

uint64_t convert(Type to, Type from, uint64_t bits, const Modifiers& mods) {
  if (!from.is_float()) {
    if (!to.is_float()) return integer_to_integer(to, from, bits, mods.saturate);
    return integer_to_float(to, from, bits, mods.round);
  }
  double value = to_double(from, bits);
  if (mods.flush && from.bits == 32) value = flush(float(value));
  if (!to.is_float()) return to_integer(to, value, mods.round, from.bits);
  if (mods.integral) value = whole(value, mods.round);
  if (mods.relu && value < 0) value = 0;
  const bool narrow = to.form > Form::BFloat;
  if (mods.saturate && !narrow) {
    if (to.bits == 16 && from.bits == 32) {  // satfinite
      const double largest = to.form == Form::BFloat ? 0x1.FEp127 : 65504;
      value = std::isnan(value) ? value : std::clamp(value, -largest, largest);
    } else {
      value = std::isnan(value) ? 0 : std::clamp(value, 0.0, 1.0);
    }
  }
  Modifiers exact = mods;
  if (mods.integral) exact.round = Round::Nearest;
  return from_double(to, value, exact);
}

}  // namespace tegula::emulator::ptx
