// label: device
// Minima and maxima of integers: of 8 and 16 bits beside comparisons with the constant that bounds them, of negated
// ones.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "dsl/tegula.h"

namespace tegula {
namespace {

const char* kText = R"(
import triton
import triton.language as tl

@triton.jit
def bounded(out, x, BOUND: tl.constexpr):
    i = tl.arange(0, 1024)
    v = tl.load(x + i)
    high, low = tl.maximum(v, BOUND), tl.minimum(v, BOUND)
    tl.store(out + i, tl.where(high == BOUND, 1, 2))
    tl.store(out + 1024 + i, tl.where(low == BOUND, 1, 2))
    tl.store(out + 2048 + i, high.to(tl.int32))
    tl.store(out + 3072 + i, low.to(tl.int32))

@triton.jit
def place_of_largest(out, x):
    r, c = tl.arange(0, 256)[:, None], tl.arange(0, 8)[None, :]
    tl.store(out + tl.arange(0, 256), tl.argmax(tl.load(x + r * 8 + c, mask=c >= 5, other=0), 1))

@triton.jit
def saturated(out, x, MOST: tl.constexpr):
    i = tl.arange(0, 1024)
    v = tl.load(x + i)
    more, less = v + 7, v - 7
    high, low = tl.where(more < v, MOST, more).to(v.dtype), tl.where(v < 7, 0, less).to(v.dtype)
    tl.store(out + i, high.to(tl.int32))
    tl.store(out + 1024 + i, (high == MOST).to(tl.int32))
    tl.store(out + 2048 + i, low.to(tl.int32))
    tl.store(out + 3072 + i, (low == 0).to(tl.int32))

@triton.jit
def signs(out, x, y):
    i = tl.arange(0, 128)
    v, w = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, (-v).to(tl.int32))
    tl.store(out + 128 + i, tl.abs(v).to(tl.int32))
    tl.store(out + 256 + i, (-v > w).to(tl.int32))
    tl.store(out + 384 + i, (-(v * w)).to(tl.int32))

@triton.jit
def of_negated(out, x):
    r, c = tl.arange(0, 256)[:, None], tl.arange(0, 8)[None, :]
    v = tl.load(x + r * 8 + c)
    tl.store(out + tl.arange(0, 256), tl.min(-v, 1))
    tl.store(out + 256 + tl.arange(0, 256), tl.max(-v, 1))
    tl.store(out + 512 + tl.arange(0, 256), tl.sum(v, 1))
)";

template <class T>
std::vector<T> numbers(size_t count) {
  std::vector<T> x(count);
  for (size_t i = 0; i < count; ++i) x[i] = T(i * 37 % 23) - T(std::numeric_limits<T>::is_signed ? 11 : 0);
  x[1] = std::numeric_limits<T>::max(), x[2] = std::numeric_limits<T>::min();
  return x;
}

template <class T>
class SoundIntegers : public testing::Test {};
using Numbers = testing::Types<int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t>;
TYPED_TEST_SUITE(SoundIntegers, Numbers);

TYPED_TEST(SoundIntegers, ComparedWithTheirBound) {
  const std::vector<TypeParam> x = numbers<TypeParam>(1024);
  auto* device = default_device();
  Buffer out(*device, 4 * x.size() * sizeof(int32_t)), of_x(*device, x);
  const Program program = Program::parse(kText, "bounded.py");
  for (int bound : {0, 7}) {
    program.kernel("bounded").launch(*device, {1}, {.constexprs = {{"BOUND", bound}}, .num_warps = 2},
                                     out.as<int32_t>(), of_x.as<TypeParam>());
    const auto got = out.download<int32_t>();
    const auto limit = TypeParam(bound);
    for (size_t i = 0; i < x.size(); ++i) {
      SCOPED_TRACE(fmt::format("{} beside {}", +x[i], bound));
      EXPECT_EQ(got[i], x[i] <= limit ? 1 : 2);
      EXPECT_EQ(got[1024 + i], x[i] >= limit ? 1 : 2);
      EXPECT_EQ(got[2048 + i], int32_t(std::max(x[i], limit)));
      EXPECT_EQ(got[3072 + i], int32_t(std::min(x[i], limit)));
    }
  }
}

TYPED_TEST(SoundIntegers, PlaceOfTheLargestBesideZeros) {
  const std::vector<TypeParam> x = numbers<TypeParam>(256 * 8);
  auto* device = default_device();
  Buffer out(*device, 256 * sizeof(int32_t)), of_x(*device, x);
  Program::parse(kText, "bounded.py")
      .kernel("place_of_largest")
      .launch(*device, {1}, {.num_warps = 1}, out.as<int32_t>(), of_x.as<TypeParam>());
  const auto got = out.download<int32_t>();
  for (size_t row = 0; row < 256; ++row) {
    std::vector<TypeParam> of_row(x.begin() + row * 8, x.begin() + row * 8 + 8);
    std::fill(of_row.begin(), of_row.begin() + 5, TypeParam(0));
    EXPECT_EQ(got[row], std::max_element(of_row.begin(), of_row.end()) - of_row.begin()) << "row " << row;
  }
}

template <class T>
void expect_saturated() {
  constexpr int kMost = std::numeric_limits<T>::max();
  std::vector<T> x(1024);
  for (size_t i = 0; i < x.size(); ++i) x[i] = T(i % 2 ? kMost - int(i % 20) : int(i % 20));
  auto* device = default_device();
  Buffer out(*device, 4 * x.size() * sizeof(int32_t)), of_x(*device, x);
  Program::parse(kText, "bounded.py")
      .kernel("saturated")
      .launch(*device, {1}, {.constexprs = {{"MOST", kMost}}}, out.as<int32_t>(), of_x.as<T>());
  const auto got = out.download<int32_t>();
  for (size_t i = 0; i < x.size(); ++i) {
    SCOPED_TRACE(+x[i]);
    const int high = std::min(x[i] + 7, kMost), low = std::max(x[i] - 7, 0);
    EXPECT_EQ(got[i], high);
    EXPECT_EQ(got[1024 + i], high == kMost);
    EXPECT_EQ(got[2048 + i], low);
    EXPECT_EQ(got[3072 + i], low == 0);
  }
}

TEST(SoundIntegersKernels, Saturated) {
  expect_saturated<uint8_t>();
  expect_saturated<uint16_t>();
}

template <class T>
void expect_signs() {
  std::vector<T> x(128), y(128);
  for (size_t i = 0; i < x.size(); ++i) x[i] = T(int(i % 5) - 2), y[i] = T(int(i % 3) - 1);
  for (size_t i = 0; i < x.size(); i += 7) x[i] = std::numeric_limits<T>::min();
  auto* device = default_device();
  Buffer out(*device, 4 * x.size() * sizeof(int32_t)), of_x(*device, x), of_y(*device, y);
  Program::parse(kText, "bounded.py")
      .kernel("signs")
      .launch(*device, {1}, {}, out.as<int32_t>(), of_x.as<T>(), of_y.as<T>());
  const auto got = out.download<int32_t>();
  for (size_t i = 0; i < x.size(); ++i) {
    SCOPED_TRACE(fmt::format("{} and {}", +x[i], +y[i]));
    EXPECT_EQ(got[i], T(-x[i]));
    EXPECT_EQ(got[128 + i], T(x[i] < 0 ? -x[i] : x[i]));
    EXPECT_EQ(got[256 + i], T(-x[i]) > y[i]);
    EXPECT_EQ(got[384 + i], T(-T(x[i] * y[i])));
  }
}

TEST(SoundIntegersKernels, Signs) {
  expect_signs<int8_t>();
  expect_signs<int16_t>();
}

TEST(SoundIntegersKernels, OfNegated) {
  const std::vector<int32_t> x = numbers<int32_t>(256 * 8);
  auto* device = default_device();
  for (int warps : {1, 4}) {
    Buffer out(*device, 3 * 256 * sizeof(int32_t)), of_x(*device, x);
    Program::parse(kText, "bounded.py")
        .kernel("of_negated")
        .launch(*device, {1}, {.num_warps = warps}, out.as<int32_t>(), of_x.as<int32_t>());
    const auto got = out.download<int32_t>();
    for (size_t row = 0; row < 256; ++row) {
      std::vector<int32_t> negated(x.begin() + row * 8, x.begin() + row * 8 + 8);
      for (int32_t& v : negated) v = int32_t(-uint32_t(v));
      EXPECT_EQ(got[row], *std::min_element(negated.begin(), negated.end())) << "row " << row;
      EXPECT_EQ(got[256 + row], *std::max_element(negated.begin(), negated.end())) << "row " << row;
    }
  }
}

// ptxas drops the minus of one of three that a minimum is of.
TEST(SoundIntegersPtx, CopiesOfNegated) {
  const std::vector<ArgType> types(2, {.elem = Elem::I32, .pointer = true, .divisible_by = 16});
  const std::string ptx =
      Program::parse(kText, "bounded.py").kernel("of_negated").compile(types, {.num_warps = 4}, "sm_90a").ptx;
  const std::regex minus(R"(neg\.s32\s+(%r\d+),)"), extreme(R"((?:min|max)\.s32\s+%r\d+, (%r\d+), (%r\d+);)");
  std::set<std::string> negated;
  for (std::sregex_iterator i(ptx.begin(), ptx.end(), minus), end; i != end; ++i) negated.insert((*i)[1]);
  EXPECT_FALSE(negated.empty()) << ptx;
  size_t extremes = 0;
  for (std::sregex_iterator i(ptx.begin(), ptx.end(), extreme), end; i != end; ++i, ++extremes)
    EXPECT_FALSE(negated.contains((*i)[1]) || negated.contains((*i)[2])) << i->str();
  EXPECT_GT(extremes, 0u);
}

// ptxas takes the comparison with the bound from an instruction for two halves, which answers it wrongly.
TEST(SoundIntegersPtx, NoneOfFewBits) {
  const Program program = Program::parse(kText, "bounded.py");
  for (Elem elem : {Elem::I8, Elem::U8, Elem::I16, Elem::U16}) {
    const std::vector<ArgType> types{{.elem = Elem::I32, .pointer = true, .divisible_by = 16},
                                     {.elem = elem, .pointer = true, .divisible_by = 16}};
    std::string ptx = program.kernel("bounded").compile(types, {.constexprs = {{"BOUND", 7}}}, "sm_90a").ptx;
    if (elem == Elem::U8 || elem == Elem::U16)
      ptx += program.kernel("saturated").compile(types, {.constexprs = {{"MOST", 255}}}, "sm_90a").ptx;
    if (elem == Elem::I16) {
      const std::vector<ArgType> of_signs{types[0], types[1], types[1]};
      ptx += program.kernel("signs").compile(of_signs, {}, "sm_90a").ptx;
    }
    for (const char* narrow : {"max.s16", "max.u16", "min.s16", "min.u16", "neg.s16", "abs.s16"})
      EXPECT_EQ(ptx.find(narrow), std::string::npos) << narrow;
    for (const char* wide : {"max.", "min."}) EXPECT_NE(ptx.find(wide), std::string::npos) << wide;
  }
}

}  // namespace
}  // namespace tegula
