#include "codegen/exec/emulator/hardware/matrix_product.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>

#include "runtime/base/float8.h"

namespace tegula::emulator {

namespace {

constexpr uint32_t kLanes = 32;
constexpr uint32_t kVectorBytes = 32, kVectorLength = kVectorBytes / 4;
constexpr uint32_t kMostDepth = kLineBytes;  // elements of 8 bits

/// out[line * line_stride + k * k_stride] = element k of the line.
template <class Bits, class Sum, class Widen>
[[gnu::always_inline]] inline void widen_as(const uint8_t* lines, uint32_t count, uint32_t line_stride,
                                            uint32_t k_stride, Sum* out, Widen widen) {
  constexpr uint32_t kDepth = kLineBytes / sizeof(Bits);
  for (uint32_t line = 0; line < count; ++line) {
    Bits bits[kDepth];
    Sum wide[kDepth];
    std::memcpy(bits, lines + line * kLineBytes, sizeof(bits));
    for (uint32_t k = 0; k < kDepth; ++k) wide[k] = Sum(widen(bits[k]));  // as vectors
    for (uint32_t k = 0; k < kDepth; ++k) out[line * line_stride + k * k_stride] = wide[k];
  }
}

template <class Sum>
[[gnu::always_inline]] inline void widen(Elem elem, const uint8_t* lines, uint32_t count, uint32_t line_stride,
                                         uint32_t k_stride, Sum* out) {
  auto as = [&]<class Bits>(Bits, auto f) { widen_as<Bits>(lines, count, line_stride, k_stride, out, f); };
  if constexpr (std::is_integral_v<Sum>) {
    if (elem == Elem::I8) return as(int8_t(), [](int8_t x) { return int32_t(x); });
    if (elem == Elem::U8) return as(uint8_t(), [](uint8_t x) { return x; });
  } else {
    if (elem == Elem::F16) return as(uint16_t(), [](uint16_t x) { return float(float16::of_bits(x)); });
    if (elem == Elem::BF16) return as(uint16_t(), [](uint16_t x) { return float(bfloat16::of_bits(x)); });
    if (elem == Elem::F8E4M3) return as(uint8_t(), [](uint8_t x) { return float(float8e4nv::of_bits(x)); });
    if (elem == Elem::F8E5M2) return as(uint8_t(), [](uint8_t x) { return float(float8e5::of_bits(x)); });
    if (elem == Elem::F32) return as(uint32_t(), [](uint32_t x) { return std::bit_cast<float>(x & ~0x1FFFu); });
  }
}

// No fault can be told of an operand that widen() does not know: a new row of the table is refused here.
constexpr bool is_widened(Elem elem, Elem sums) {
  using enum Elem;
  if (sums == I32) return elem == I8 || elem == U8;
  if (sums != F32 && sums != F16) return false;
  return elem == F16 || elem == BF16 || elem == F8E4M3 || elem == F8E5M2 || elem == F32;
}
#define TEGULA_MMA(path, a, b, sums, ...) \
  static_assert(is_widened(Elem::a, Elem::sums) && is_widened(Elem::b, Elem::sums), "widen() knows no " #a " or " #b);
#include "codegen/product/instructions.def"

/// Calls `move` with where two neighbours of a lane lie among all lanes' `sums`, in `words` each, and where they lie
/// among the elements of `d`.
template <class Sum, uint32_t kColumns, class Move>
[[gnu::always_inline]] inline void for_pairs(uint32_t n, uint32_t* sums, uint32_t words, Sum (*d)[kColumns],
                                             Move move) {
  for (uint32_t lane = 0; lane < kLanes; ++lane)
    for (uint32_t column = lane % 4 * 2; column < n; column += 8, sums += 2 * words) {
      move(sums, &d[lane / 4][column]);
      move(sums + words, &d[lane / 4 + 8][column]);
    }
}

/// Two neighbours, as two words hold them or, of f16, one.
template <class Sum>
void take_pair(const uint32_t* words, bool half, Sum* elements) {
  if (!half) return void(std::memcpy(elements, words, 8));
  for (uint32_t i : {0, 1}) elements[i] = Sum(float(float16::of_bits(uint16_t(*words >> 16 * i))));
}
template <class Sum>
void put_pair(uint32_t* words, bool half, const Sum* elements) {
  if (!half) return void(std::memcpy(words, elements, 8));
  *words = 0;
  for (uint32_t i : {0, 1}) *words |= uint32_t(float16(float(elements[i])).bits) << 16 * i;
}

/// Puts the sum of two integers, or the largest or smallest one if it lies beyond, in the place of the first.
void add_within_range(uint32_t& sum, uint32_t x) {
  const int64_t exact = int64_t(int32_t(sum)) + int32_t(x);
  sum = uint32_t(int32_t(std::clamp<int64_t>(exact, INT32_MIN, INT32_MAX)));
}

template <class Sum, uint32_t kColumns>
struct Room {
  alignas(kVectorBytes) Sum a[kWarpRows][kMostDepth], b[kMostDepth][kColumns], d[kWarpRows][kColumns];
};

/// Eight numbers, as operators take them.
template <class Sum>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float Type __attribute__((vector_size(kVectorBytes), may_alias));
};
template <>
struct VectorOf<uint32_t> {
  typedef uint32_t Type __attribute__((vector_size(kVectorBytes), may_alias));
};

// Hopper's tensor cores add up products of float8 in few bits: the products of an instruction and the accumulator, each
// cut off 13 bits below the largest one's leading bit, and so is their sum (DeepSeek-V3, arXiv 2412.19437, 3.5.2: about
// 14 bits). d += a b for a row of `n` columns.
template <uint32_t kColumns>
[[gnu::always_inline]] inline void add_in_few_bits(const float* a, const float (*b)[kColumns], float* d, uint32_t depth,
                                                   uint32_t n) {
  constexpr uint32_t kExponent = 0x7F800000, kFraction = 13, kCutOff = 23 - kFraction, kSmallest = 64u << 23;
  float largest[kColumns], scale[kColumns], back[kColumns];
  int32_t sums[kColumns];
  for (uint32_t j = 0; j < n; ++j) largest[j] = std::fabs(d[j]);
  for (uint32_t k = 0; k < depth; ++k)
    for (uint32_t j = 0; j < n; ++j) {
      const float product = std::fabs(a[k] * b[k][j]);
      largest[j] = largest[j] < product ? product : largest[j];
    }
  for (uint32_t j = 0; j < n; ++j) {
    const uint32_t exponent = std::max(std::bit_cast<uint32_t>(largest[j]) & kExponent, kSmallest);
    scale[j] = std::bit_cast<float>((254u << 23) - exponent + (kFraction << 23));
    back[j] = std::bit_cast<float>(exponent - (kFraction << 23));
    sums[j] = int32_t(d[j] * scale[j]);
  }
  for (uint32_t k = 0; k < depth; ++k)
    for (uint32_t j = 0; j < n; ++j) sums[j] += int32_t(a[k] * b[k][j] * scale[j]);
  for (uint32_t j = 0; j < n; ++j) {
    const float sum = float(sums[j]) * back[j];
    d[j] = std::bit_cast<float>(std::bit_cast<uint32_t>(sum) & ~((1u << kCutOff) - 1));
  }
}

/// d += a b of one row.
template <class Sum, uint32_t kColumns>
[[gnu::always_inline]] inline void add_row(const Sum* a, const Sum (*b)[kColumns], Sum* d, uint32_t depth, uint32_t n) {
  for (uint32_t k = 0; k < depth; ++k)
    for (uint32_t j = 0; j < n; ++j) d[j] += a[k] * b[k][j];
}

/// d += a b of `rows` rows and of `columns` columns from `at` on, kept in registers while the products of all k are
/// added in turn.
template <uint32_t rows, uint32_t columns, class Sum, uint32_t kColumns>
[[gnu::always_inline]] inline void add_block(const Sum (*a)[kMostDepth], const Sum (*b)[kColumns], Sum (*d)[kColumns],
                                             uint32_t at, uint32_t depth) {
  using Vector = typename VectorOf<Sum>::Type;
  constexpr uint32_t kVectors = columns / kVectorLength;
  auto vectors = [&](const Sum* row) { return reinterpret_cast<const Vector*>(row + at); };
  Vector sums[rows][kVectors];
  for (uint32_t i = 0; i < rows; ++i)
    for (uint32_t j = 0; j < kVectors; ++j) sums[i][j] = vectors(d[i])[j];
  for (uint32_t k = 0; k < depth; ++k)
    for (uint32_t i = 0; i < rows; ++i)
      for (uint32_t j = 0; j < kVectors; ++j) sums[i][j] += a[i][k] * vectors(b[k])[j];
  for (uint32_t i = 0; i < rows; ++i)
    for (uint32_t j = 0; j < kVectors; ++j) reinterpret_cast<Vector*>(d[i] + at)[j] = sums[i][j];
}

template <class Sum, uint32_t kColumns>
[[gnu::always_inline]] inline void add_products(Room<Sum, kColumns>& x, uint32_t depth, uint32_t n) {
  constexpr uint32_t kRows = 4, kWide = 16, kNarrow = 8;
  for (uint32_t i = 0; i < kWarpRows; i += kRows) {
    uint32_t j = 0;
    if constexpr (kColumns >= kWide)
      for (; j + kWide <= n; j += kWide) add_block<kRows, kWide>(x.a + i, x.b, x.d + i, j, depth);
    for (; j < n; j += kNarrow) add_block<kRows, kNarrow>(x.a + i, x.b, x.d + i, j, depth);
  }
}

// Whether all numbers are finite and far from the largest ones: integers stand for them then.
bool is_moderate(const float* x, uint32_t count) {
  return std::all_of(x, x + count, [](float v) { return std::fabs(v) < 0x1p100f; });
}

template <class Sum, uint32_t kColumns>
[[gnu::always_inline]] inline void multiply(Room<Sum, kColumns>& x, const MmaInstruction& instruction, uint32_t n,
                                            const uint8_t* a, const uint8_t* b, uint32_t* sums, bool accumulate) {
  const uint32_t depth = uint32_t(instruction.k);
  const bool half = instruction.sums_packed() == 2, apart = accumulate && instruction.saturates();
  const uint32_t words = half ? 1 : 2;
  widen(instruction.a, a, kWarpRows, kMostDepth, 1, &x.a[0][0]);
  widen(instruction.b, b, n, 1, kColumns, &x.b[0][0]);
  if (accumulate && !apart)
    for_pairs(n, sums, words, x.d, [&](const uint32_t* pair, Sum* elements) { take_pair(pair, half, elements); });
  else
    for (auto& row : x.d) std::fill_n(row, n, Sum(0));
  bool few_bits = false;
  if constexpr (std::is_same_v<Sum, float>) {
    few_bits = instruction.sums_in_few_bits() && is_moderate(&x.a[0][0], kWarpRows * depth);
    for (uint32_t k = 0; few_bits && k < depth; ++k) few_bits = is_moderate(x.b[k], n);
  }
  if constexpr (std::is_same_v<Sum, float>) {
    for (uint32_t i = 0; few_bits && i < kWarpRows; ++i)
      if (is_moderate(x.d[i], n))
        add_in_few_bits(x.a[i], x.b, x.d[i], depth, n);
      else
        add_row(x.a[i], x.b, x.d[i], depth, n);
  }
  if (!few_bits) add_products(x, depth, n);
  for_pairs(n, sums, words, x.d, [&](uint32_t* pair, const Sum* elements) {
    if (!apart) return put_pair(pair, half, elements);
    for (uint32_t i : {0, 1}) add_within_range(pair[i], uint32_t(elements[i]));
  });
}

template <class Sum>
[[gnu::always_inline]] inline void multiply_any(const MmaInstruction& instruction, uint32_t n, const uint8_t* a,
                                                const uint8_t* b, uint32_t* sums, bool accumulate) {
  if (n == 8) {
    Room<Sum, 8> room;
    return multiply(room, instruction, 8, a, b, sums, accumulate);
  }
  // Not thread_local: what the library has of that must fit where processes that load it late have little room.
  const auto room = std::make_unique_for_overwrite<Room<Sum, uint32_t(kMmaMostColumns)>>();
  multiply(*room, instruction, n, a, b, sums, accumulate);
}

using Multiply = void (*)(const MmaInstruction&, uint32_t, const uint8_t*, const uint8_t*, uint32_t*, bool);

template <class Sum>
void multiply_by_any_host(const MmaInstruction& instruction, uint32_t n, const uint8_t* a, const uint8_t* b,
                          uint32_t* sums, bool accumulate) {
  multiply_any<Sum>(instruction, n, a, b, sums, accumulate);
}

#ifdef __x86_64__
// Has no multiplication that rounds together with an addition: the bits are those of any host.
template <class Sum>
[[gnu::target("avx2")]] void multiply_by_avx2(const MmaInstruction& instruction, uint32_t n, const uint8_t* a,
                                              const uint8_t* b, uint32_t* sums, bool accumulate) {
  multiply_any<Sum>(instruction, n, a, b, sums, accumulate);
}
#endif

template <class Sum>
Multiply multiply_of_this_host() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) return multiply_by_avx2<Sum>;
#endif
  return multiply_by_any_host<Sum>;
}

}  // namespace

void multiply_warp(const MmaInstruction& instruction, uint32_t n, const uint8_t* a, const uint8_t* b, uint32_t* sums,
                   bool accumulate) {
  static const Multiply of_floats = multiply_of_this_host<float>(), of_integers = multiply_of_this_host<uint32_t>();
  (is_float(instruction.sums) ? of_floats : of_integers)(instruction, n, a, b, sums, accumulate);
}

Births births_of_product(const MmaInstruction& instruction, uint32_t n, const uint8_t* a, const uint8_t* b,
                         const uint32_t* before, const uint32_t* after, bool accumulate) {
  Births births;
  if (!is_float(instruction.sums)) return births;
  const bool half = instruction.sums_packed() == 2;
  const uint32_t words = half ? 1 : 2, depth = uint32_t(instruction.k), all = kLanes * n / 4 * words;
  const uint32_t exponents = half ? 0x7C00 : 0x7F800000;  // all bits of one: no finite number
  if (std::none_of(after, after + all, [&](uint32_t bits) {
        return (bits & exponents) == exponents || (half && (bits >> 16 & exponents) == exponents);
      }))
    return births;
  struct Rooms {
    float a[kWarpRows][kMostDepth], b[kMmaMostColumns][kMostDepth], before[kWarpRows][kMmaMostColumns];
  };
  const auto x = std::make_unique<Rooms>();
  widen(instruction.a, a, kWarpRows, kMostDepth, 1, &x->a[0][0]);
  widen(instruction.b, b, n, kMostDepth, 1, &x->b[0][0]);
  if (accumulate)
    for_pairs(n, const_cast<uint32_t*>(before), words, x->before,
              [&](const uint32_t* pair, float* elements) { take_pair(pair, half, elements); });
  for_pairs(n, const_cast<uint32_t*>(after), words, x->before, [&](const uint32_t* pair, const float* was) {
    float is[2];
    take_pair(pair, half, is);
    for (uint32_t i : {0, 1}) {
      if (std::isfinite(is[i])) continue;
      const auto element = uint32_t(was + i - &x->before[0][0]);
      const float* row = x->a[element / uint32_t(kMmaMostColumns)];
      const float* column = x->b[element % uint32_t(kMmaMostColumns)];
      bool has_nan = std::isnan(was[i]), finite = std::isfinite(was[i]);
      for (uint32_t k = 0; k < depth; ++k) {
        has_nan |= std::isnan(row[k]) || std::isnan(column[k]);
        finite &= std::isfinite(row[k]) && std::isfinite(column[k]);
      }
      births.nans |= std::isnan(is[i]) && !has_nan;
      births.infinities |= std::isinf(is[i]) && finite;
    }
  });
  return births;
}

}  // namespace tegula::emulator
