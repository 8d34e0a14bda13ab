// label: unit
// How many programs kernels ask the assembler to keep registers for.
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "dsl/tegula.h"
#include "tests/assembler.h"

namespace tegula {
namespace {

Program& program() {
  static Program p = Program::parse(R"(
import triton
import triton.language as tl


@triton.jit
def gate(out_ptr, a_ptr, b_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + at, mask=at < n).to(tl.float32)
    b = tl.load(b_ptr + at, mask=at < n).to(tl.float32)
    tl.store(out_ptr + at, a * tl.sigmoid(a) * b, mask=at < n)


@triton.jit
def rows(out_ptr, a_ptr, b_ptr, n: tl.constexpr, BLOCK: tl.constexpr):
    at, first = tl.arange(0, BLOCK), tl.program_id(0) * n
    a = tl.load(a_ptr + first + at, mask=at < n).to(tl.float32)
    b = tl.load(b_ptr + first + at, mask=at < n).to(tl.float32)
    tl.store(out_ptr + first + at, tl.erf(a) * b, mask=at < n)


@triton.jit
def slope(out_ptr, a_ptr, b_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    out = tl.load(out_ptr + at, mask=at < n)
    a = tl.load(a_ptr + at, mask=at < n).to(tl.float32)
    b = tl.load(b_ptr + at, mask=at < n)
    part = 0.5 * (tl.erf(0.7071067811865476 * a) + 1.0)
    value = (part * a).to(out.dtype)
    more = part + 0.3989422804014327 * a * tl.exp(-0.5 * a * a)
    tl.store(out_ptr + at, value * b, mask=at < n)
    tl.store(a_ptr + at, out * value, mask=at < n)
    tl.store(b_ptr + at, ((out * b).to(tl.float32) * more).to(out.dtype), mask=at < n)


@triton.jit
def sums(out_ptr, a_ptr, b_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.program_id(0), tl.sum(tl.load(a_ptr + at) * tl.load(b_ptr + at), 0))
)",
                                    "streams.py");
  return p;
}

std::string ptx(const char* kernel, Elem elem, int num_warps, int block, std::optional<int> n = {}, int maxnreg = 0) {
  const ArgType array{.elem = elem, .pointer = true, .divisible_by = 16}, number{.elem = Elem::I32, .divisible_by = 16};
  std::vector<ArgType> types{array, array, array};
  std::vector<ConstexprArg> constexprs{{"BLOCK", block}};
  if (n)
    constexprs.push_back({"n", *n});
  else
    types.push_back(number);
  return program()
      .kernel(kernel)
      .compile(types, {.constexprs = constexprs, .num_warps = num_warps, .maxnreg = maxnreg}, "sm_90a")
      .ptx;
}

/// 1: the assembler is free to choose.
int programs(const std::string& ptx) {
  std::smatch found;
  return std::regex_search(ptx, found, std::regex(R"(\.minnctapersm (\d+))")) ? std::stoi(found[1]) : 1;
}

TEST(Occupancy, StreamsHaveRegistersForAllTheirLoads) {
  EXPECT_EQ(programs(ptx("gate", Elem::BF16, 8, 8 * 32 * 8)), 8) << "as many as an SM has room for";
  EXPECT_EQ(programs(ptx("gate", Elem::BF16, 8, 32 * 32 * 8)), 4) << "32 registers are loaded";
  EXPECT_EQ(programs(ptx("gate", Elem::BF16, 8, 64 * 32 * 8)), 2);
  EXPECT_EQ(programs(ptx("gate", Elem::F32, 8, 64 * 32 * 8)), 1) << "128 registers are loaded";
  EXPECT_EQ(programs(ptx("gate", Elem::BF16, 16, 32 * 32 * 16)), 2);
  EXPECT_EQ(programs(ptx("gate", Elem::BF16, 1, 8 * 32)), 32) << "an SM holds no more programs, of one warp or two";
}

TEST(Occupancy, ColumnsBehindARowsEndTakeNoRegisters) {
  EXPECT_EQ(programs(ptx("rows", Elem::F32, 16, 16384, 16384)), 1) << "64 registers are loaded";
  EXPECT_EQ(programs(ptx("rows", Elem::F32, 16, 16384, 12288)), 1) << "48";
  EXPECT_EQ(programs(ptx("rows", Elem::F32, 16, 16384, 8200)), 2) << "40";
}

TEST(Occupancy, LongComputationsHaveMoreRegisters) {
  const std::string text = ptx("slope", Elem::BF16, 4, 8 * 32 * 4);
  EXPECT_EQ(programs(text), 10);
  SKIP_WITHOUT_PTXAS();
  EXPECT_FALSE(spills(assemble(text, "sm_90a")));
}

TEST(Occupancy, IsTheAssemblersOrTheUsersElse) {
  EXPECT_EQ(programs(ptx("sums", Elem::BF16, 8, 64 * 32 * 8)), 1) << "threads exchange";
  EXPECT_EQ(programs(ptx("gate", Elem::BF16, 8, 64 * 32 * 8, {}, 128)), 1) << "maxnreg is given";
}

TEST(Occupancy, StreamsKeepAllInRegisters) {
  SKIP_WITHOUT_PTXAS();
  for (const char* kernel : {"gate", "rows"})
    for (Elem elem : {Elem::BF16, Elem::F32})
      for (int num_warps : {4, 16})
        for (int elements : {8, 16, 32}) {
          const int block = elements * 32 * num_warps;
          const bool row = std::string(kernel) == "rows";
          const std::string text = ptx(kernel, elem, num_warps, block, row ? std::optional(block - 16) : std::nullopt);
          EXPECT_FALSE(spills(assemble(text, "sm_90a"))) << kernel << ", " << num_warps << " warps of " << elements;
        }
}

}  // namespace
}  // namespace tegula
