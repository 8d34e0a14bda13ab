// label: device
// 64-bit divisions beside products of warpgroups.
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "dsl/tegula.h"
#include "tests/ptx_registers.h"

namespace tegula {
namespace {

// Quotients and remainders, with a sign and without, beside the product of a matrix with its transpose.
const char* kText = R"(
import triton
import triton.language as tl

@triton.jit
def quotients(out_ptr, squares_ptr, m_ptr, x_ptr, y_ptr):
    r = tl.arange(0, 64)
    at = r[:, None] * 64 + r[None, :]
    m = tl.load(m_ptr + at)
    tl.store(squares_ptr + at, tl.dot(m, tl.trans(m)))
    i = tl.arange(0, 1024)
    x, y = tl.load(x_ptr + i), tl.load(y_ptr + i)
    tl.store(out_ptr + i, x // y)
    tl.store(out_ptr + 1024 + i, x % y)
    x, y = x.to(tl.uint64, bitcast=True), y.to(tl.uint64, bitcast=True)
    tl.store(out_ptr + 2048 + i, (x // y).to(tl.int64, bitcast=True))
    tl.store(out_ptr + 3072 + i, (x % y).to(tl.int64, bitcast=True))
)";

Kernel quotients() { return Program::parse(kText, "quotients.py").kernel("quotients"); }

TEST(ShortDivisions, LongOnesBesideProducts) {
  auto device = default_device();
  constexpr size_t kCount = 1024;
  std::mt19937_64 random(5);
  std::vector<int64_t> x(kCount), y(kCount);
  for (size_t i = 0; i < kCount; ++i) {  // of all lengths
    x[i] = int64_t(random()) >> random() % 64;
    y[i] = int64_t(random()) >> random() % 64;
    if (y[i] == 0 || i % 64 == 0) y[i] = i % 128 ? 1 : -1;
  }
  x[1] = std::numeric_limits<int64_t>::min(), y[1] = 3;
  x[2] = 7, y[2] = std::numeric_limits<int64_t>::min();
  std::vector<float16> m(64 * 64);
  for (size_t i = 0; i < m.size(); ++i) m[i] = float16(float(i % 7) - 3);
  Buffer out(*device, 4 * kCount * sizeof(int64_t)), squares(*device, m.size() * sizeof(float));
  Buffer matrix(*device, m), dividends(*device, x), divisors(*device, y);
  quotients().launch(*device, {1}, {.num_warps = 4}, out.as<int64_t>(), squares.as<float>(), matrix.as<float16>(),
                     dividends.as<int64_t>(), divisors.as<int64_t>());
  const auto got = out.download<int64_t>();
  for (size_t i = 0; i < kCount; ++i) {
    SCOPED_TRACE(std::to_string(x[i]) + " by " + std::to_string(y[i]));
    EXPECT_EQ(got[i], x[i] / y[i]);
    EXPECT_EQ(got[kCount + i], x[i] % y[i]);
    EXPECT_EQ(uint64_t(got[2 * kCount + i]), uint64_t(x[i]) / uint64_t(y[i]));
    EXPECT_EQ(uint64_t(got[3 * kCount + i]), uint64_t(x[i]) % uint64_t(y[i]));
  }
  const auto products = squares.download<float>();
  for (size_t r = 0; r < 64; ++r)
    for (size_t c = 0; c < 64; ++c) {
      float expected = 0;
      for (size_t k = 0; k < 64; ++k) expected += float(m[r * 64 + k]) * float(m[c * 64 + k]);
      EXPECT_EQ(products[r * 64 + c], expected) << r << ", " << c;
    }
}

// A call in relocatable code would have all products of the kernel waited for one by one.
TEST(ShortDivisions, AreNoCallsBesideProductsOfWarpgroups) {
  const auto pointer = [](Elem elem) { return ArgType{.elem = elem, .pointer = true, .divisible_by = 16}; };
  const std::vector<ArgType> types{pointer(Elem::I64), pointer(Elem::F32), pointer(Elem::F16), pointer(Elem::I64),
                                   pointer(Elem::I64)};
  const auto has_long = [](const std::string& ptx) {
    return ptx.find("div.s64") != ptx.npos || ptx.find("rem.s64") != ptx.npos || ptx.find("div.u64") != ptx.npos ||
           ptx.find("rem.u64") != ptx.npos;
  };
  const std::string by_warps = quotients().compile(types, {.num_warps = 4}, "sm_80").ptx;
  EXPECT_TRUE(has_long(by_warps)) << by_warps;
  const std::string by_groups = quotients().compile(types, {.num_warps = 4}, "sm_90a").ptx;
  EXPECT_NE(by_groups.find("wgmma.mma_async"), by_groups.npos);
  EXPECT_NE(by_groups.find("div.u32"), by_groups.npos);
  EXPECT_FALSE(has_long(by_groups)) << by_groups;
  EXPECT_EQ(by_groups.find("clz"), by_groups.npos) << "a loop over the bits";
}

// Each thread divides 32 numbers by one that is the same for all.
TEST(ShortDivisions, OfATileShareBranches) {
  const char* text = R"(
import triton
import triton.language as tl

@triton.jit
def wrapped(out_ptr, start, n):
    i = start + tl.arange(0, 4096).to(tl.int64)
    tl.store(out_ptr + tl.arange(0, 4096), i % n * 3 + i // n // n)
)";
  const Kernel wrapped = Program::parse(text, "wrapped.py").kernel("wrapped");
  const ArgType number{.elem = Elem::I64};
  const std::vector<ArgType> types{{.elem = Elem::I64, .pointer = true, .divisible_by = 16}, number, number};
  const std::string ptx = wrapped.compile(types, {.num_warps = 4}, "sm_90a").ptx;
  const auto count = [&](const char* part) {
    size_t found = 0;
    for (size_t at = ptx.find(part); at != ptx.npos; at = ptx.find(part, at + 1)) ++found;
    return found;
  };
  EXPECT_GE(count("div.u32"), 32);  // of half the tile at a time
  EXPECT_LE(count("@%p"), 10) << ptx;
  auto device = default_device();
  Buffer out(*device, 4096 * sizeof(int64_t));
  const int64_t starts[] = {0, (int64_t{1} << 32) - 2000, -1000};
  for (int64_t start : starts)
    for (int64_t n : {int64_t{7}, (int64_t{1} << 33) + 1}) {
      wrapped.launch(*device, {1}, {.num_warps = 4}, out.as<int64_t>(), start, n);
      const auto got = out.download<int64_t>();
      for (int64_t i = 0; i < 4096; ++i)
        EXPECT_EQ(got[i], (start + i) % n * 3 + (start + i) / n / n) << start + i << ", " << n;
    }
}

// A division of a group may be an operand's operand of another one, right behind the first.
TEST(ShortDivisions, OperandsOfAGroupStandAheadOfIt) {
  const char* text = R"(
import triton
import triton.language as tl

@triton.jit
def kernel(out_ptr, x_ptr, n, FORM: tl.constexpr):
    a, c = tl.load(x_ptr), tl.load(x_ptr + 1)
    if FORM == 0:
        first = a // n
        second = (c * 3 + 1) // n
    elif FORM == 1:
        first = a // n
        second = (c + n - 1) // n
    else:
        first = a // n
        second = c // n * 5 + (c * a + first) % n
    tl.store(out_ptr, first)
    tl.store(out_ptr + 1, second)
)";
  const Kernel kernel = Program::parse(text, "groups.py").kernel("kernel");
  const ArgType numbers{.elem = Elem::I64, .pointer = true, .divisible_by = 16};
  const std::vector<ArgType> types{numbers, numbers, {.elem = Elem::I64}};
  auto device = default_device();
  for (int64_t form : {0, 1, 2}) {
    const LaunchOptions options{.constexprs = {{"FORM", form}}, .num_warps = 1, .dependent_launch = false};
    const std::string ptx = kernel.compile(types, options, "sm_90a").ptx;
    EXPECT_EQ(ptx::read_too_early(ptx), "") << ptx;
    for (int64_t n : {int64_t{7}, (int64_t{1} << 40) + 3, int64_t{-1}, int64_t{-9}}) {
      const std::vector<int64_t> x{(int64_t{1} << 36) + 5, 12345};
      Buffer in(*device, x), out(*device, 2 * sizeof(int64_t));
      kernel.launch(*device, {1}, options, out.as<int64_t>(), in.as<int64_t>(), n);
      const int64_t first = x[0] / n, second = form == 0   ? (x[1] * 3 + 1) / n
                                               : form == 1 ? (x[1] + n - 1) / n
                                                           : x[1] / n * 5 + (x[1] * x[0] + first) % n;
      EXPECT_EQ(out.download<int64_t>(), (std::vector<int64_t>{first, second})) << form << ", " << n;
    }
  }
}

}  // namespace
}  // namespace tegula
