// label: device
// Registers that a loop carries.
#include "codegen/exec/llvm/own_registers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
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

// Loops that begin with a number that is loaded, and with what another loop ended with.
const char* kScalars = R"(
import triton
import triton.language as tl

@triton.jit
def scalars(out, x):
    s = tl.load(x + tl.program_id(0))
    i = tl.arange(0, 128)
    tl.store(out + (s + 5) * 128 + i, i)
    tl.debug_barrier()
    for j in tl.range(0, 1000, loop_unroll_factor=1):
        s = s * 3 + tl.load(x + j)
    tl.store(out + (s + 5) * 128 + i, i)
    tl.debug_barrier()
    for j in tl.range(0, 1000, loop_unroll_factor=1):
        s = s * 5 + tl.load(x + j)
    tl.store(out + s * 128 + i + 7, s)
)";

// Registers of the first entry that are written ahead of a loop and in it: how they are written ahead of it.
std::map<std::string, std::string> begun_with(const std::string& text) {
  const std::string entry = ".visible .entry", ptx = text.substr(0, text.find(entry, text.find(entry) + 1));
  const std::regex write(R"(\n\t(?:@!?%p\d+ )?([a-z][.\w]*)\s+(%rd?\d+)[,|;])");
  const std::regex jump(R"(bra(?:\.uni)?\s+(\$L__BB\d+_\d+);)");
  std::map<std::string, std::string> found;
  for (std::sregex_iterator i(ptx.begin(), ptx.end(), jump), end; i != end; ++i) {
    const size_t label = ptx.find("\n" + (*i)[1].str() + ":"), at = size_t(i->position());
    if (label > at) continue;
    std::map<std::string, std::string> ahead;
    for (std::sregex_iterator w(ptx.begin(), ptx.begin() + label, write); w != end; ++w) ahead[(*w)[2]] = (*w)[1];
    for (std::sregex_iterator w(ptx.begin() + label, ptx.begin() + at, write); w != end; ++w)
      if (const std::string op = (*w)[1]; ahead.contains((*w)[2]) && !op.starts_with("st.") && !op.starts_with("cp."))
        found[(*w)[2]] = ahead[(*w)[2]];
  }
  return found;
}

// They are written ahead of it by moves: ptxas took the one value for the other.
TEST(OwnRegisters, WhatALoopBeginsWithIsMoved) {
  const auto array = [](Elem elem, int divisor) {
    return ArgType{.elem = elem, .pointer = true, .divisible_by = divisor};
  };
  const std::vector<ArgType> of_largest{
      array(Elem::F32, 16), array(Elem::F8E4M3, 1), array(Elem::F8E4M3, 16), {.elem = Elem::I32, .divisible_by = 16}};
  const std::vector<ArgType> of_scalars{array(Elem::I32, 16), array(Elem::I32, 16)};
  const std::string largest =
      Program::parse(kLargest, "largest.py").kernel("largest").compile(of_largest, kInBulk, "sm_90a").ptx;
  EXPECT_NE(largest.find("cp.async.bulk"), std::string::npos) << largest;
  const std::string scalars =
      Program::parse(kScalars, "scalars.py").kernel("scalars").compile(of_scalars, {}, "sm_90a").ptx;
  for (const std::string& ptx : {largest, scalars}) {
    const auto begun = begun_with(ptx);
    EXPECT_GE(begun.size(), 2u) << ptx;
    for (const auto& [reg, by] : begun) EXPECT_TRUE(by.starts_with("mov.b")) << reg << " by " << by << "\n" << ptx;
  }
}

}  // namespace
}  // namespace tegula
