// The emulator's matrix instructions, element by element: sums in the order of K, to the bit, whatever the host's
// vectors.
#include "codegen/exec/emulator/hardware/matrix_product.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <random>
#include <vector>

#include "runtime/base/float16.h"

namespace tegula::emulator {
namespace {

/// Element k of a line, between -2 and 2 where it is no integer.
template <class Sum>
Sum element(Elem elem, const std::vector<uint8_t>& lines, uint32_t line, uint32_t k) {
  const uint8_t* at = &lines[line * kLineBytes];
  auto bits_of = [&]<class Bits>(Bits bits) {
    std::memcpy(&bits, at + k * sizeof(Bits), sizeof(Bits));
    return bits;
  };
  if (elem == Elem::I8) return Sum(int32_t(bits_of(int8_t())));
  if (elem == Elem::U8) return Sum(bits_of(uint8_t()));
  if (elem == Elem::F16) return Sum(float(float16::of_bits(bits_of(uint16_t()))));
  if (elem == Elem::BF16) return Sum(float(bfloat16::of_bits(bits_of(uint16_t()))));
  return Sum(std::bit_cast<float>(bits_of(uint32_t()) & ~0x1FFFu));
}

std::vector<uint8_t> random_lines(Elem elem, uint32_t count, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(-2, 2);
  std::vector<uint8_t> lines(count * kLineBytes);
  const uint32_t bytes = uint32_t(elem_bytes(elem));
  for (size_t at = 0; at < lines.size(); at += bytes) {
    const float x = uniform(random);
    const uint32_t bits = elem == Elem::F32    ? std::bit_cast<uint32_t>(x)
                          : elem == Elem::F16  ? float16(x).bits
                          : elem == Elem::BF16 ? bfloat16(x).bits
                                               : uint32_t(random());
    std::memcpy(&lines[at], &bits, bytes);
  }
  return lines;
}

/// Sum r of a lane, among the words of all lanes' registers.
template <class Sum>
Sum sum_at(const std::vector<uint32_t>& words, size_t r, Elem elem) {
  if (elem != Elem::F16) return std::bit_cast<Sum>(words[r]);
  return Sum(float(float16::of_bits(uint16_t(words[r / 2] >> 16 * (r % 2)))));
}
template <class Sum>
void set_sum(std::vector<uint32_t>& words, size_t r, Elem elem, Sum sum) {
  if (elem != Elem::F16) return void(words[r] = std::bit_cast<uint32_t>(sum));
  const int shift = int(16 * (r % 2));
  words[r / 2] = (words[r / 2] & ~(0xFFFFu << shift)) | uint32_t(float16(float(sum)).bits) << shift;
}

template <class Sum>
void check(const MmaInstruction& instruction, uint32_t n, bool accumulate) {
  SCOPED_TRACE(fmt::format("{}, {} columns, accumulate {}", instruction.name(), n, accumulate));
  std::mt19937 random(n);
  const auto a = random_lines(instruction.a, kWarpRows, random), b = random_lines(instruction.b, n, random);
  const uint32_t of_lane = n / 2;
  std::vector<uint32_t> sums(32 * of_lane / uint32_t(instruction.sums_packed()));
  for (size_t i = 0; i < 32 * of_lane; ++i) set_sum(sums, i, instruction.sums, Sum(int(random() % 2000)) / Sum(7));
  std::vector<uint32_t> expected = sums;
  for (uint32_t lane = 0; lane < 32; ++lane)
    for (uint32_t r = 0; r < of_lane; ++r) {
      const size_t i = lane * of_lane + r;
      Sum sum = accumulate ? sum_at<Sum>(sums, i, instruction.sums) : Sum(0);
      for (uint32_t k = 0; k < uint32_t(instruction.k); ++k)
        sum += element<Sum>(instruction.a, a, lane / 4 + r / 2 % 2 * 8, k) *
               element<Sum>(instruction.b, b, r / 4 * 8 + lane % 4 * 2 + r % 2, k);
      set_sum(expected, i, instruction.sums, sum);
    }
  multiply_warp(instruction, n, a.data(), b.data(), sums.data(), accumulate);
  EXPECT_EQ(sums, expected);
}

TEST(MatrixProduct, SumsInTheOrderOfK) {
  for (const MmaInstruction& instruction : mma_instructions()) {
    if (is_float8(instruction.a) || is_float8(instruction.b)) continue;  // summed in few bits (dot_types_test)
    for (uint32_t n : {8, 16, 24, 40, 64, 256})
      for (bool accumulate : {false, true})
        is_float(instruction.sums) ? check<float>(instruction, n, accumulate)
                                   : check<uint32_t>(instruction, n, accumulate);
  }
}

// Beyond the range of 32 bits sums wrap around, or end there.
TEST(MatrixProduct, SumsOfIntegersBeyondTheirRange) {
  for (const MmaInstruction& instruction : mma_instructions()) {
    if (instruction.a != Elem::I8) continue;
    for (bool smallest : {false, true}) {
      const uint32_t start = smallest ? 0x80000000 : 0x7FFFFFFF;
      const std::vector<uint8_t> a(kWarpRows * kLineBytes, smallest ? 0xFF : 1), b(8 * kLineBytes, 2);
      std::vector<uint32_t> sums(32 * 4, start);
      multiply_warp(instruction, 8, a.data(), b.data(), sums.data());
      const uint32_t wrapped = start + (smallest ? -1u : 1u) * 2 * uint32_t(instruction.k);
      EXPECT_EQ(sums, std::vector<uint32_t>(32 * 4, instruction.saturates() ? start : wrapped)) << instruction.name();
    }
  }
}

}  // namespace
}  // namespace tegula::emulator
