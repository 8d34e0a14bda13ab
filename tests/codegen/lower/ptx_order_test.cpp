// label: unit
// Where the lowering puts instructions: what is computed or loaded early holds registers until it is used.
#include <gtest/gtest.h>

#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "dsl/tegula.h"

namespace tegula {
namespace {

// Columns are numbers from one register on: they are computed behind the branches of exp that come before their use,
// not held in a register each.
TEST(PtxOrder, IndicesAreComputedWhereTheyAreUsed) {
  const Kernel kernel = Program::parse(R"(
import triton
import triton.language as tl


@triton.jit
def gradient(x_ptr, label_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    label = tl.load(label_ptr + row)
    for first in range(0, n, BLOCK):
        c = first + tl.arange(0, BLOCK)
        p = tl.exp(tl.load(x_ptr + row * n + c, mask=c < n, other=0.0))
        tl.store(x_ptr + row * n + c, tl.where(c == label, p - 1.0, p), mask=c < n)
)",
                                       "gradient.py")
                            .kernel("gradient");
  const ArgType x{.elem = Elem::F32, .pointer = true, .divisible_by = 16}, label{.elem = Elem::I64, .pointer = true};
  const std::vector<ArgType> types{x, label, {.elem = Elem::I32, .divisible_by = 16}};
  const std::string ptx = kernel.compile(types, {.constexprs = {{"BLOCK", 2048}}, .num_warps = 4}, "sm_90a").ptx;
  const std::regex number(R"((or|add)\.[bsu]32\s+%r\d+, %r\d+, \d+;)");
  const auto last_exp = ptx.begin() + std::ptrdiff_t(ptx.rfind("ex2.approx.ftz"));
  EXPECT_GE(std::distance(std::sregex_iterator(last_exp, ptx.end(), number), std::sregex_iterator()), 12) << ptx;
}

// The branch around exponentials holds whole tiles: where they would spill, there is none.
TEST(PtxOrder, ExponentialsDoNotBranchWhereTilesWouldSpill) {
  const Kernel kernel = Program::parse(R"(
import triton
import triton.language as tl


@triton.jit
def scaled(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    y = tl.load(y_ptr + at)
    tl.store(y_ptr + at, tl.exp(x) * (x + y) + y)
)",
                                       "scaled.py")
                            .kernel("scaled");
  const ArgType pointer{.elem = Elem::F32, .pointer = true, .divisible_by = 16};
  const std::vector<ArgType> types{pointer, pointer};
  auto branches = [&](int64_t block) {
    const LaunchOptions options{.constexprs = {{"BLOCK", block}}, .num_warps = 32};
    return kernel.compile(types, options, "sm_90a").ptx.find("ex2.approx.ftz") != std::string::npos;
  };
  EXPECT_TRUE(branches(8192));
  EXPECT_FALSE(branches(32768));
}

// Four bytes come in a word, are carried as one by the loop that loads them ahead, and go into the assembly as one.
TEST(PtxOrder, BytesThatALoopCarriesStayInTheirWords) {
  const Kernel kernel = Program::parse(R"(
import triton
import triton.language as tl


@triton.jit
def sums(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    for first in tl.range(0, n, BLOCK, num_stages=3):
        x = tl.load(x_ptr + first + at)
        acc += tl.inline_asm_elementwise("xor.b32 $0, $2, 1; not.b32 $1, $2;", "=&r,=r,r", [x], tl.float16, True, 4)
    tl.store(out_ptr + at, acc)
)",
                                       "sums.py")
                            .kernel("sums");
  const ArgType x{.elem = Elem::I8, .pointer = true, .divisible_by = 16};
  const ArgType out{.elem = Elem::F32, .pointer = true, .divisible_by = 16};
  const std::vector<ArgType> types{x, out, {.elem = Elem::I32}};
  const std::string ptx = kernel.compile(types, {.constexprs = {{"BLOCK", 2048}}, .num_warps = 4}, "sm_90a").ptx;
  EXPECT_NE(ptx.find("ld.global.b32"), std::string::npos) << ptx;
  for (const char* apart : {"prmt", "bfe", "bfi"}) EXPECT_EQ(ptx.find(apart), std::string::npos) << ptx;
}

// Registers that a launch limits hold loads of a quarter of them ahead: here those of x, not of y.
TEST(PtxOrder, FewerLoadsRunAheadInFewerRegisters) {
  const Kernel kernel = Program::parse(R"(
import triton
import triton.language as tl


@triton.jit
def sums(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    for first in tl.range(0, n, BLOCK, num_stages=2):
        acc += tl.load(x_ptr + first + at) * tl.load(y_ptr + first + at)
    tl.store(out_ptr + at, acc)
)",
                                       "sums.py")
                            .kernel("sums");
  const ArgType x{.elem = Elem::F32, .pointer = true, .divisible_by = 16};
  const std::vector<ArgType> types{x, x, x, {.elem = Elem::I32, .divisible_by = 16}};
  auto loads = [&](int maxnreg) {
    const LaunchOptions options{.constexprs = {{"BLOCK", 4096}}, .num_warps = 4, .maxnreg = maxnreg};
    const std::string ptx = kernel.compile(types, options, "sm_90a").ptx;
    const std::regex load(R"(ld\.global\.v4)");
    return std::distance(std::sregex_iterator(ptx.begin(), ptx.end(), load), std::sregex_iterator());
  };
  EXPECT_EQ(loads(0), 32);
  EXPECT_EQ(loads(128), 24);
}

// ptxas would move them to the loop's end.
TEST(PtxOrder, LoadsOfTheNextIterationStayAheadOfThisOne) {
  const Kernel kernel = Program::parse(R"(
import triton
import triton.language as tl


@triton.jit
def centre(x_ptr, out_ptr, rows, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        x = tl.load(x_ptr + row * BLOCK + at)
        tl.store(out_ptr + row * BLOCK + at, x - tl.sum(x, axis=0) / BLOCK)
)",
                                       "centre.py")
                            .kernel("centre");
  const ArgType x{.elem = Elem::F32, .pointer = true, .divisible_by = 16};
  auto ptx = [&](int stages, int blocks) {
    const LaunchOptions options{
        .constexprs = {{"BLOCK", 4096}, {"STAGES", stages}}, .num_warps = 4, .num_ctas = blocks};
    const std::vector<ArgType> types{x, x, {.elem = Elem::I32}};
    return kernel.compile(types, options, "sm_90a").ptx;
  };
  const std::string ahead = ptx(2, 1);
  const size_t stay = ahead.find("@none trap");
  ASSERT_NE(stay, std::string::npos);
  EXPECT_LT(ahead.rfind("ld.global"), stay);
  EXPECT_GT(ahead.find("shfl"), stay);
  EXPECT_EQ(ptx(1, 1).find("@none trap"), std::string::npos);
  EXPECT_EQ(ptx(2, 2).find("@none trap"), std::string::npos);
  // More iterations than registers hold run ahead as copies.
  EXPECT_EQ(ahead.find("cp.async"), std::string::npos);
  const std::string copies = ptx(4, 1);
  EXPECT_NE(copies.find("cp.async.cg.shared.global"), std::string::npos);
  EXPECT_EQ(copies.find("ld.global"), std::string::npos);
}

}  // namespace
}  // namespace tegula
