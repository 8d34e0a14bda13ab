// label: unit
// Registers that a loop carries.
#include "codegen/exec/own_constants.h"

#include <gtest/gtest.h>

#include <regex>

#include "dsl/program.h"

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
TEST(OwnConstants, WhatALoopLoadsIsWhatItCarries) {
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

}  // namespace
}  // namespace tegula
