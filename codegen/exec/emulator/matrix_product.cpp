#include "codegen/exec/emulator/matrix_product.h"

#include <bit>
#include <memory>

#include "runtime/base/float8.h"

namespace tegula::emulator {

namespace {

constexpr uint32_t kLanes = 32;
constexpr uint32_t kMostDepth = kLineBytes;  // elements of 8 bits

/// out[line * line_stride + k * k_stride] = element k of the line.
template <class Bits, class Sum, class Widen>
void widen_as(const uint8_t* lines, uint32_t count, uint32_t line_stride, uint32_t k_stride, Sum* out, Widen widen) {
  for (uint32_t line = 0; line < count; ++line)
    for (uint32_t k = 0; k < kLineBytes / sizeof(Bits); ++k) {
      Bits bits;
      std::memcpy(&bits, lines + line * kLineBytes + k * sizeof(Bits), sizeof(Bits));
      out[line * line_stride + k * k_stride] = Sum(widen(bits));
    }
}

template <class Sum>
void widen(Elem elem, const uint8_t* lines, uint32_t count, uint32_t line_stride, uint32_t k_stride, Sum* out) {
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
  return elem == F16 || elem == BF16 || elem == F8E4M3 || elem == F8E5M2 || elem == F32;
}
#define TEGULA_MMA(path, a, b, sums, ...) \
  static_assert(is_widened(Elem::a, Elem::sums) && is_widened(Elem::b, Elem::sums), "widen() knows no " #a " or " #b);
#include "codegen/product/instructions.def"

uint32_t row_of(uint32_t lane, uint32_t r) { return lane / 4 + r / 2 % 2 * 8; }
uint32_t column_of(uint32_t lane, uint32_t r) { return r / 4 * 8 + lane % 4 * 2 + r % 2; }

template <class Sum, uint32_t kColumns>
struct Room {
  Sum a[kWarpRows][kMostDepth], b[kMostDepth][kColumns], d[kWarpRows][kColumns];
};

template <class Sum, uint32_t kColumns>
[[gnu::always_inline]] inline void multiply(Room<Sum, kColumns>& x, const MmaInstruction& instruction, uint32_t n,
                                            const uint8_t* a, const uint8_t* b, uint32_t* sums, bool accumulate) {
  const uint32_t depth = uint32_t(instruction.k), registers = n / 2;
  widen(instruction.a, a, kWarpRows, kMostDepth, 1, &x.a[0][0]);
  widen(instruction.b, b, n, 1, kColumns, &x.b[0][0]);
  for (uint32_t lane = 0; lane < kLanes; ++lane)
    for (uint32_t r = 0; r < registers; ++r)
      x.d[row_of(lane, r)][column_of(lane, r)] = accumulate ? std::bit_cast<Sum>(sums[lane * registers + r]) : Sum(0);
  for (uint32_t i = 0; i < kWarpRows; ++i)
    for (uint32_t k = 0; k < depth; ++k)
      for (uint32_t j = 0; j < n; ++j) x.d[i][j] += x.a[i][k] * x.b[k][j];
  for (uint32_t lane = 0; lane < kLanes; ++lane)
    for (uint32_t r = 0; r < registers; ++r)
      sums[lane * registers + r] = std::bit_cast<uint32_t>(x.d[row_of(lane, r)][column_of(lane, r)]);
}

template <class Sum>
void multiply_any(const MmaInstruction& instruction, uint32_t n, const uint8_t* a, const uint8_t* b, uint32_t* sums,
                  bool accumulate) {
  if (n == 8) {
    Room<Sum, 8> room;
    return multiply(room, instruction, 8, a, b, sums, accumulate);
  }
  // Not thread_local: what the library has of that must fit where processes that load it late have little room.
  const auto room = std::make_unique_for_overwrite<Room<Sum, uint32_t(kMmaMostColumns)>>();
  multiply(*room, instruction, n, a, b, sums, accumulate);
}

}  // namespace

void multiply_warp(const MmaInstruction& instruction, uint32_t n, const uint8_t* a, const uint8_t* b, uint32_t* sums,
                   bool accumulate) {
  if (is_float(instruction.sums))
    multiply_any<float>(instruction, n, a, b, sums, accumulate);
  else
    multiply_any<uint32_t>(instruction, n, a, b, sums, accumulate);
}

}  // namespace tegula::emulator
