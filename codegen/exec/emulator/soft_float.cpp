#include "codegen/exec/emulator/soft_float.h"

#include <bit>
#include <cmath>
#include <cstring>

// Helpers of the compiler's own library for 128-bit integers and powers.
extern "C" {
__int128 __divti3(__int128, __int128);
__int128 __modti3(__int128, __int128);
unsigned __int128 __udivti3(unsigned __int128, unsigned __int128);
unsigned __int128 __umodti3(unsigned __int128, unsigned __int128);
__int128 __multi3(__int128, __int128);
float __powisf2(float, int);
double __powidf2(double, int);
}

namespace tegula::emulator {

namespace {

/// Rounds the magnitude of a double to a format of `precision` significant bits whose smallest normal exponent is
/// `lowest`, and returns its bits below the sign: exponent field and fraction. Larger than `largest`: infinity (or the
/// largest when toward zero).
template <int precision, int lowest>
uint16_t narrow(double value, uint16_t infinity, bool toward_zero) {
  constexpr int kFraction = precision - 1;
  uint64_t bits = std::bit_cast<uint64_t>(value);
  uint16_t sign = uint16_t(bits >> 63) << 15;
  bits &= ~(uint64_t(1) << 63);
  constexpr uint64_t kInfinity = uint64_t(0x7FF) << 52;
  if (bits > kInfinity) return sign | infinity | uint16_t(1 << (kFraction - 1));
  if (bits == kInfinity) return sign | infinity;
  int exponent = int(bits >> 52) - 1023;
  if (exponent < lowest - precision - 1) return sign;  // less than a quarter of the smallest; zero as well
  uint64_t significand = (bits & ((uint64_t(1) << 52) - 1)) | uint64_t(1) << 52;
  int shift = 52 - kFraction + (exponent < lowest ? lowest - exponent : 0);
  uint64_t kept = significand >> shift, rest = significand & ((uint64_t(1) << shift) - 1);
  uint64_t half = uint64_t(1) << (shift - 1);
  if (!toward_zero && (rest > half || (rest == half && (kept & 1)))) ++kept;
  // A normal number's leading bit counts as one more in the exponent field; a carry does the right thing by itself.
  uint64_t result = kept + (exponent < lowest ? 0 : uint64_t(exponent - lowest) << kFraction);
  if (result >= infinity) result = toward_zero ? infinity - 1 : infinity;
  return sign | uint16_t(result);
}

constexpr uint16_t kHalfInfinity = 0x7C00, kBfloatInfinity = 0x7F80;

// In the calling convention of x86-64, half and bfloat travel in the low 16 bits of an SSE register, as a float's bits
// do: so these functions take and return floats of which only the low 16 bits mean something.
uint16_t low(float value) { return uint16_t(std::bit_cast<uint32_t>(value)); }
float in_low(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits)); }

float extendhfsf2(float h) { return half_to_float(low(h)); }
double extendhfdf2(float h) { return half_to_float(low(h)); }
float extendbfsf2(float b) { return bfloat_to_float(low(b)); }
float truncsfhf2(float value) { return in_low(float_to_half(value)); }
float truncdfhf2(double value) { return in_low(double_to_half(value)); }
float truncsfbf2(float value) { return in_low(float_to_bfloat(value)); }
float truncdfbf2(double value) { return in_low(double_to_bfloat(value)); }

template <class R, class... A>
void* address(R (*function)(A...)) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

float half_to_float(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16, rest = bits & 0x7FFF;
  // Exponent and fraction at their places in a float, then the difference of the biases as a factor: exact, and right
  // for denormals too.
  float magnitude = std::bit_cast<float>(rest << 13) * 0x1p112f;
  if (rest >= kHalfInfinity) magnitude = std::bit_cast<float>(0x7F800000 | (rest & 0x3FF) << 13);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
}

float bfloat_to_float(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

uint16_t double_to_half(double value) { return narrow<11, -14>(value, kHalfInfinity, false); }
uint16_t double_to_bfloat(double value) { return narrow<8, -126>(value, kBfloatInfinity, false); }
uint16_t float_to_half(float value) { return double_to_half(value); }
uint16_t float_to_bfloat(float value) { return double_to_bfloat(value); }
uint16_t float_to_half_rz(float value) { return narrow<11, -14>(value, kHalfInfinity, true); }
uint16_t float_to_bfloat_rz(float value) { return narrow<8, -126>(value, kBfloatInfinity, true); }

const std::vector<std::pair<const char*, void*>>& runtime_functions() {
#define TEGULA_UNARY(name) \
  {#name, address<double, double>(::name)}, { #name "f", address < float, float>(::name##f) }
#define TEGULA_BINARY(name) \
  {#name, address<double, double, double>(::name)}, { #name "f", address < float, float, float>(::name##f) }
  static const std::vector<std::pair<const char*, void*>> functions = {
      {"__extendhfsf2", address(extendhfsf2)},
      {"__gnu_h2f_ieee", address(extendhfsf2)},
      {"__extendhfdf2", address(extendhfdf2)},
      {"__extendbfsf2", address(extendbfsf2)},
      {"__truncsfhf2", address(truncsfhf2)},
      {"__gnu_f2h_ieee", address(truncsfhf2)},
      {"__truncdfhf2", address(truncdfhf2)},
      {"__truncsfbf2", address(truncsfbf2)},
      {"__truncdfbf2", address(truncdfbf2)},
      {"__divti3", address(__divti3)},
      {"__modti3", address(__modti3)},
      {"__udivti3", address(__udivti3)},
      {"__umodti3", address(__umodti3)},
      {"__multi3", address(__multi3)},
      {"__powisf2", address(__powisf2)},
      {"__powidf2", address(__powidf2)},
      {"memcpy", address(::memcpy)},
      {"memmove", address(::memmove)},
      {"memset", address(::memset)},
      {"memcmp", address(::memcmp)},
      {"fma", address<double, double, double, double>(::fma)},
      {"fmaf", address<float, float, float, float>(::fmaf)},
      {"ldexp", address<double, double, int>(::ldexp)},
      {"ldexpf", address<float, float, int>(::ldexpf)},
      {"frexp", address<double, double, int*>(::frexp)},
      {"frexpf", address<float, float, int*>(::frexpf)},
      TEGULA_BINARY(fmod),
      TEGULA_BINARY(fmin),
      TEGULA_BINARY(fmax),
      TEGULA_BINARY(pow),
      TEGULA_BINARY(atan2),
      TEGULA_BINARY(copysign),
      TEGULA_UNARY(floor),
      TEGULA_UNARY(ceil),
      TEGULA_UNARY(trunc),
      TEGULA_UNARY(rint),
      TEGULA_UNARY(nearbyint),
      TEGULA_UNARY(round),
      TEGULA_UNARY(sqrt),
      TEGULA_UNARY(exp),
      TEGULA_UNARY(exp2),
      TEGULA_UNARY(log),
      TEGULA_UNARY(log2),
      TEGULA_UNARY(log10),
      TEGULA_UNARY(sin),
      TEGULA_UNARY(cos),
      TEGULA_UNARY(tan),
      // The host's rounding mode is never changed, so rint rounds ties to even.
      {"roundeven", address<double, double>(::rint)},
      {"roundevenf", address<float, float>(::rintf)},
  };
#undef TEGULA_UNARY
#undef TEGULA_BINARY
  return functions;
}

}  // namespace tegula::emulator
