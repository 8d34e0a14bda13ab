#include "codegen/exec/emulator/code/soft_float.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "runtime/base/float16.h"

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

// In the calling convention of x86-64, half and bfloat travel in the low 16 bits of an SSE register, as a float's bits
// do: so these functions take and return floats of which only the low 16 bits mean something.
uint16_t low(float value) { return uint16_t(std::bit_cast<uint32_t>(value)); }
float in_low(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits)); }

float extendhfsf2(float h) { return float16::of_bits(low(h)); }
double extendhfdf2(float h) { return extendhfsf2(h); }
float extendbfsf2(float b) { return bfloat16::of_bits(low(b)); }
float truncsfhf2(float value) { return in_low(float16(value).bits); }
float truncdfhf2(double value) { return in_low(float16::round(value).bits); }
float truncsfbf2(float value) { return in_low(bfloat16(value).bits); }
float truncdfbf2(double value) { return in_low(bfloat16::round(value).bits); }

template <class R, class... A>
void* address(R (*function)(A...)) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

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
