#include "codegen/exec/emulator/hardware/combine.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>

#include "runtime/base/check.h"
#include "runtime/base/float16.h"

namespace tegula::emulator {

namespace {

template <class Bits>
Bits combined_bits(Combine how, Bits a, Bits b) {
  switch (how) {
    case Combine::Add:
      return Bits(std::make_unsigned_t<Bits>(a) + std::make_unsigned_t<Bits>(b));
    case Combine::Min:
      return std::min(a, b);
    case Combine::Max:
      return std::max(a, b);
    case Combine::And:
      return a & b;
    case Combine::Or:
      return a | b;
    case Combine::Xor:
      return a ^ b;
  }
  TEGULA_UNREACHABLE("Combine {}", int(how));
}

float combined_floats(Combine how, float a, float b) {
  switch (how) {
    case Combine::Add:
      return a + b;
    case Combine::Min:
      return std::fmin(a, b);
    case Combine::Max:
      return std::fmax(a, b);
    default:
      TEGULA_UNREACHABLE("Combine {} of floats", int(how));
  }
}

template <class T>
T combined(Combine how, T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return combined_bits(how, a, b);
  else
    return T(combined_floats(how, float(a), float(b)));
}

template <class T, class Bits>
void update(Combine how, void* to, const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  std::atomic_ref<Bits> target(*static_cast<Bits*>(to));
  Bits old = target.load(std::memory_order_relaxed);
  while (!target.compare_exchange_weak(old, std::bit_cast<Bits>(combined(how, std::bit_cast<T>(old), value)))) {
  }
}

}  // namespace

void combine_element(Combine how, Elem elem, void* to, const void* from) {
  switch (elem) {
    case Elem::I32:
      return update<int32_t, uint32_t>(how, to, from);
    case Elem::U32:
      return update<uint32_t, uint32_t>(how, to, from);
    case Elem::I64:
      return update<int64_t, uint64_t>(how, to, from);
    case Elem::U64:
      return update<uint64_t, uint64_t>(how, to, from);
    case Elem::F16:
      return update<float16, uint16_t>(how, to, from);
    case Elem::BF16:
      return update<bfloat16, uint16_t>(how, to, from);
    case Elem::F32:
      return update<float, uint32_t>(how, to, from);
    default:
      TEGULA_UNREACHABLE("no bulk reduction combines {}", elem_info(elem).text);
  }
}

}  // namespace tegula::emulator
