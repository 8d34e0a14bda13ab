// Bodies of the hardware functions that change memory in one step.
#pragma once

#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

#include "codegen/exec/emulator/hardware/access.h"
#include "codegen/exec/emulator/launch/scheduler.h"
#include "runtime/base/float16.h"

namespace tegula::emulator {

/// Replaces what stands at the address by add(old); returns the old value. Other fibers run first, so that one that
/// spins on an atomic does not keep the one it waits for from running. Whom nobody tells the old value does not wait.
template <class T, class Add>
T atomic_update(uint64_t address, uint32_t predicate, uint32_t site, Add add) {
  if (!predicate) return T{};
  const bool may_wait = !(site & kResultUnused);
  site &= ~kResultUnused;
  this_worker->yield({site, Where::kNone}, may_wait);
  std::atomic_ref<T> target(*static_cast<T*>(global_access(address, sizeof(T), Access::Atomic, site)));
  T old = target.load(std::memory_order_relaxed);
  T updated = add(old);
  while (!target.compare_exchange_weak(old, updated, std::memory_order_seq_cst, std::memory_order_relaxed))
    updated = add(old);
  if (updated != old) this_worker->note_change();
  return old;
}

template <class T>
T emu_atom_add(uint64_t address, T value, uint32_t predicate, uint32_t site) {
  return atomic_update<T>(address, predicate, site, [=](T old) { return old + value; });
}
inline uint32_t emu_atom_add_i32(uint64_t address, uint32_t value, uint32_t predicate, uint32_t site) {
  const uint32_t old = emu_atom_add(address, value, predicate, site);
  if (Races* races = this_worker->races(); races && predicate) [[unlikely]]
    this_worker->fiber().exact_old = races->note_sum(address, old, value);
  return old;
}
constexpr auto emu_atom_add_i64 = emu_atom_add<uint64_t>;
template <class T>
uint16_t sum_of(uint16_t a, uint16_t b) {
  return T(T::of_bits(a) + T::of_bits(b)).bits;
}
template <class T>
uint32_t emu_atom_add_16(uint64_t address, uint32_t value, uint32_t predicate, uint32_t site) {
  return atomic_update<uint16_t>(address, predicate, site,
                                 [=](uint16_t old) { return sum_of<T>(old, uint16_t(value)); });
}
template <class T>
uint32_t emu_atom_add_16x2(uint64_t address, uint32_t value, uint32_t predicate, uint32_t site) {
  return atomic_update<uint32_t>(address, predicate, site, [=](uint32_t old) {
    return uint32_t(sum_of<T>(uint16_t(old), uint16_t(value)) |
                    uint32_t(sum_of<T>(uint16_t(old >> 16), uint16_t(value >> 16))) << 16);
  });
}
constexpr auto emu_atom_add_f16 = emu_atom_add_16<float16>;
constexpr auto emu_atom_add_bf16 = emu_atom_add_16<bfloat16>;
constexpr auto emu_atom_add_f16x2 = emu_atom_add_16x2<float16>;
constexpr auto emu_atom_add_bf16x2 = emu_atom_add_16x2<bfloat16>;
template <int n, auto add_word>
void emu_atom_add_vector(uint32_t* result, uint64_t address, const uint32_t* values, uint32_t predicate,
                         uint32_t site) {
  for (int i = 0; i < n; ++i) result[i] = add_word(address + 4 * uint64_t(i), values[i], predicate, site);
}
constexpr auto emu_atom_add_v2f16x2 = emu_atom_add_vector<2, emu_atom_add_f16x2>;
constexpr auto emu_atom_add_v4f16x2 = emu_atom_add_vector<4, emu_atom_add_f16x2>;
constexpr auto emu_atom_add_v2bf16x2 = emu_atom_add_vector<2, emu_atom_add_bf16x2>;
constexpr auto emu_atom_add_v4bf16x2 = emu_atom_add_vector<4, emu_atom_add_bf16x2>;
inline float emu_atom_add_f32(uint64_t address, float value, uint32_t predicate, uint32_t site) {
  return std::bit_cast<float>(atomic_update<uint32_t>(address, predicate, site, [=](uint32_t old) {
    return std::bit_cast<uint32_t>(std::bit_cast<float>(old) + value);
  }));
}
inline uint32_t add_f32(uint64_t address, uint32_t value, uint32_t predicate, uint32_t site) {
  return std::bit_cast<uint32_t>(emu_atom_add_f32(address, std::bit_cast<float>(value), predicate, site));
}
constexpr auto emu_atom_add_v2f32 = emu_atom_add_vector<2, add_f32>;
constexpr auto emu_atom_add_v4f32 = emu_atom_add_vector<4, add_f32>;
inline double emu_atom_add_f64(uint64_t address, double value, uint32_t predicate, uint32_t site) {
  return std::bit_cast<double>(atomic_update<uint64_t>(address, predicate, site, [=](uint64_t old) {
    return std::bit_cast<uint64_t>(std::bit_cast<double>(old) + value);
  }));
}
/// The smaller or larger one, of `Number` as which the bits count.
template <class Bits, class Number, bool larger>
Bits emu_atom_extreme(uint64_t address, Bits value, uint32_t predicate, uint32_t site) {
  return atomic_update<Bits>(address, predicate, site,
                             [=](Bits old) { return (Number(old) < Number(value)) == larger ? value : old; });
}
constexpr auto emu_atom_min_s32 = emu_atom_extreme<uint32_t, int32_t, false>;
constexpr auto emu_atom_min_u32 = emu_atom_extreme<uint32_t, uint32_t, false>;
constexpr auto emu_atom_min_s64 = emu_atom_extreme<uint64_t, int64_t, false>;
constexpr auto emu_atom_min_u64 = emu_atom_extreme<uint64_t, uint64_t, false>;
constexpr auto emu_atom_max_s32 = emu_atom_extreme<uint32_t, int32_t, true>;
constexpr auto emu_atom_max_u32 = emu_atom_extreme<uint32_t, uint32_t, true>;
constexpr auto emu_atom_max_s64 = emu_atom_extreme<uint64_t, int64_t, true>;
constexpr auto emu_atom_max_u64 = emu_atom_extreme<uint64_t, uint64_t, true>;
/// The smaller or larger one of 16-bit floats; a NaN gives way to a number.
template <class T, bool larger>
uint32_t emu_atom_extreme_16(uint64_t address, uint32_t value, uint32_t predicate, uint32_t site) {
  return atomic_update<uint16_t>(address, predicate, site, [=](uint16_t old) {
    const float a = T::of_bits(old), b = T::of_bits(uint16_t(value));
    return T(larger ? std::fmax(a, b) : std::fmin(a, b)).bits;
  });
}
constexpr auto emu_atom_min_f16 = emu_atom_extreme_16<float16, false>;
constexpr auto emu_atom_min_bf16 = emu_atom_extreme_16<bfloat16, false>;
constexpr auto emu_atom_max_f16 = emu_atom_extreme_16<float16, true>;
constexpr auto emu_atom_max_bf16 = emu_atom_extreme_16<bfloat16, true>;
template <class T, class Function>
T emu_atom_bits(uint64_t address, T value, uint32_t predicate, uint32_t site) {
  return atomic_update<T>(address, predicate, site, [=](T old) { return Function()(old, value); });
}
struct Second {
  template <class T>
  T operator()(T, T value) const {
    return value;
  }
};
constexpr auto emu_atom_and_b32 = emu_atom_bits<uint32_t, std::bit_and<>>;
constexpr auto emu_atom_and_b64 = emu_atom_bits<uint64_t, std::bit_and<>>;
constexpr auto emu_atom_or_b32 = emu_atom_bits<uint32_t, std::bit_or<>>;
constexpr auto emu_atom_or_b64 = emu_atom_bits<uint64_t, std::bit_or<>>;
constexpr auto emu_atom_xor_b32 = emu_atom_bits<uint32_t, std::bit_xor<>>;
constexpr auto emu_atom_xor_b64 = emu_atom_bits<uint64_t, std::bit_xor<>>;
constexpr auto emu_atom_xchg_b32 = emu_atom_bits<uint32_t, Second>;
constexpr auto emu_atom_xchg_b64 = emu_atom_bits<uint64_t, Second>;
template <class T, class Parameter = T>
Parameter emu_atom_cas(uint64_t address, Parameter compare, Parameter value, uint32_t predicate, uint32_t site) {
  return atomic_update<T>(address, predicate, site, [=](T old) { return old == T(compare) ? T(value) : old; });
}
constexpr auto emu_atom_cas_b16 = emu_atom_cas<uint16_t, uint32_t>;
constexpr auto emu_atom_cas_b32 = emu_atom_cas<uint32_t>;
constexpr auto emu_atom_cas_b64 = emu_atom_cas<uint64_t>;

inline uint32_t emu_atom_shared_add_i32(uint32_t address, uint32_t value, uint32_t predicate, uint32_t site) {
  if (!predicate) return 0;
  void* at = shared_access(this_worker->fiber(), address, sizeof value, Access::Atomic, site);
  uint32_t old;
  std::memcpy(&old, at, sizeof old);
  const uint32_t sum = old + value;
  std::memcpy(at, &sum, sizeof sum);
  return old;
}
inline void emu_red_shared_add_i32(uint32_t address, uint32_t value, uint32_t predicate, uint32_t site) {
  emu_atom_shared_add_i32(address, value, predicate, site);
}

}  // namespace tegula::emulator
