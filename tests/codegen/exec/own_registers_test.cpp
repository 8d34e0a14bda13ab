// label: device
// Registers that a loop carries.
#include "codegen/exec/own_registers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "dsl/tegula.h"

namespace tegula {
namespace {

// A matrix that each iteration scales, and adds a product to. What the next iteration multiplies is loaded and computed
// beside the product, where `i + 1` is within bounds.
const char* kScan = R"(
import triton
import triton.language as tl

@triton.jit
def scan(out, q, g, x, n, ROWS: tl.constexpr, K: tl.constexpr, COLS: tl.constexpr):
    rows, k, cols = tl.arange(0, ROWS), tl.arange(0, K), tl.arange(0, COLS)
    state = tl.zeros([ROWS, COLS], dtype=tl.float32)
    for i in range(n):
        at = i.to(tl.int64) * K + k
        inside = at < n * K - 5
        a = tl.load(q + rows[:, None] + at[None, :] * ROWS, mask=inside[None, :], other=0)
        b = tl.load(x + at[:, None] * COLS + cols[None, :], mask=inside[:, None], other=0)
        gate = tl.load(g + rows[:, None] + at[None, :] * ROWS, mask=inside[None, :], other=0)
        state = tl.dot((a * tl.exp2(gate)).to(tl.bfloat16), b, state)
    tl.store(out + rows[:, None] * COLS + cols[None, :], state)
)";

// What masked loads write is what the loop carries: between the end of a product and that of its iteration next to
// nothing is moved. The assembler begins the next iteration's arithmetic ahead of the product where it is.
TEST(OwnRegisters, WhatALoopLoadsIsWhatItCarries) {
  const auto array = [](Elem elem) { return ArgType{.elem = elem, .pointer = true, .divisible_by = 16}; };
  const std::vector<ArgType> types{array(Elem::F32), array(Elem::BF16), array(Elem::F32), array(Elem::BF16), {}};
  const LaunchOptions launch{.constexprs = {{"ROWS", 64}, {"K", 64}, {"COLS", 64}}, .num_warps = 8};
  const std::string ptx = Program::parse(kScan, "scan.py").kernel("scan").compile(types, launch, "sm_90a").ptx;
  std::smatch end;
  const std::regex pattern(R"(wgmma\.wait_group[^@]*@%p\d+ bra)");
  ASSERT_TRUE(std::regex_search(ptx, end, pattern)) << ptx;
  const std::string last = end.str();
  const std::regex move(R"(mov\.b32\s+%r\d+, %r\d+)");
  EXPECT_LE(std::distance(std::sregex_iterator(last.begin(), last.end(), move), {}), 8) << last;
}

// The place and the phase of the barrier that an iteration waits for are a number that the loop carries, and that
// begins with the place of shared memory. Places in shared memory behind the loop, where warps meet for their largest
// sums, follow from the latter.
const char* kLargest = R"(
import triton
import triton.language as tl

@triton.jit
def largest(out, a, b, K):
    m, n, k = tl.arange(0, 16)[:, None], tl.arange(0, 64), tl.arange(0, 64)
    acc = tl.zeros((16, 64), tl.float32)
    for i in tl.range(0, tl.cdiv(K, 64)):
        x = tl.load(a + m * 192 + k[None, :] + i * 64, mask=i * 64 + k[None, :] < K, other=0.0)
        y = tl.load(b + k[:, None] + i * 64 + n[None, :] * 160, mask=k[:, None] < K - i * 64, other=0.0)
        acc = tl.maximum(tl.dot(x, y), acc)
    tl.store(out + m * 64 + n[None, :], acc - tl.max(acc, 1)[:, None])
)";
const LaunchOptions kInBulk{.num_warps = 16, .num_stages = 2, .bulk_copies = 2};

TEST(OwnRegisters, BehindALoop) {
  constexpr int kK = 160, kRow = 192;
  std::vector<float8e4nv> a(1 + 16 * kRow), b(64 * kK);
  for (size_t i = 0; i < a.size(); ++i) a[i] = float8e4nv(float(int(i * 7 % 13) - 6));
  for (size_t i = 0; i < b.size(); ++i) b[i] = float8e4nv(float(int(i * 5 % 11) - 5));
  auto* device = default_device();
  Buffer out(*device, 16 * 64 * sizeof(float)), of_a(*device, a), of_b(*device, b);
  Program::parse(kLargest, "largest.py")
      .kernel("largest")
      .launch(*device, {1}, kInBulk, out.as<float>(), of_a.as<float8e4nv>() + 1, of_b.as<float8e4nv>(), kK);
  const std::vector<float> got = out.download<float>();
  for (size_t row = 0; row < 16; ++row) {
    std::vector<float> sums(64);
    for (size_t column = 0; column < 64; ++column)
      for (size_t begin = 0; begin < kK; begin += 64) {
        float sum = 0;
        for (size_t k = begin; k < std::min<size_t>(begin + 64, kK); ++k)
          sum += float(a[1 + row * kRow + k]) * float(b[column * kK + k]);
        sums[column] = std::max(sums[column], sum);
      }
    const float most = *std::max_element(sums.begin(), sums.end());
    for (size_t column = 0; column < 64; ++column)
      ASSERT_EQ(got[row * 64 + column], sums[column] - most) << row << ", " << column;
  }
}

// Registers that code behind the first label writes too are written ahead of it by moves: ptxas took the one value for
// the other.
TEST(OwnRegisters, WhatALoopBeginsWithIsMoved) {
  const auto array = [](Elem elem, int divisor) {
    return ArgType{.elem = elem, .pointer = true, .divisible_by = divisor};
  };
  const std::vector<ArgType> types{
      array(Elem::F32, 16), array(Elem::F8E4M3, 1), array(Elem::F8E4M3, 16), {.elem = Elem::I32, .divisible_by = 16}};
  const std::string ptx =
      Program::parse(kLargest, "largest.py").kernel("largest").compile(types, kInBulk, "sm_90a").ptx;
  ASSERT_NE(ptx.find("cp.async.bulk"), std::string::npos) << ptx;
  const size_t label = ptx.find("$L__BB0_");
  const std::regex write(
      R"(\n\t(?:@!?%p\d+ )?((?:add|sub|mul|mad|shl|shr|and|or|xor|cvt|selp|mov)[.\w]*)\s+(%r[d]?\d+),)");
  std::map<std::string, std::string> ahead;
  for (std::sregex_iterator i(ptx.begin(), ptx.begin() + label, write), end; i != end; ++i) ahead[(*i)[2]] = (*i)[1];
  size_t both = 0;
  for (std::sregex_iterator i(ptx.begin() + label, ptx.end(), write), end; i != end; ++i) {
    const auto it = ahead.find((*i)[2]);
    if (it == ahead.end()) continue;
    ++both;
    EXPECT_EQ(it->second.substr(0, 3), "mov") << it->first << "\n" << ptx;
  }
  EXPECT_GT(both, 0u);
}

}  // namespace
}  // namespace tegula
