// label: device
// Blocks that are cut for the selection of instructions.
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "codegen/exec/emulator.h"
#include "dsl/tegula.h"
#include "tests/ptx_registers.h"

namespace tegula {
namespace {

// An iteration is some ten thousand instructions a thread, in one block, around values that the loop carries.
const char* kText = R"(
import triton
import triton.language as tl

@triton.jit
def mix(out_ptr, x_ptr, n, BLOCK: tl.constexpr, STEPS: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    for i in range(n):
        for j in tl.static_range(STEPS):
            x = x * (7 * j * j % 61 + 2 + i) + (x >> 7)  # numbers of no row, of which no loop is made again
        x += tl.sum(x, axis=0)  # so that the tile is not computed part by part
    tl.store(out_ptr + at, x)
)";

constexpr int kBlock = 2048, kSteps = 50;
const LaunchOptions kLaunch{.constexprs = {{"BLOCK", kBlock}, {"STEPS", kSteps}}, .num_warps = 1};

Kernel mix() { return Program::parse(kText, "mix.py").kernel("mix"); }

// How often a pattern occurs.
auto count(const std::string& text, const char* pattern) {
  const std::regex expression(pattern);
  return std::distance(std::sregex_iterator(text.begin(), text.end(), expression), {});
}

std::string ptx_of(const LaunchOptions& launch) {
  const ArgType array{.elem = Elem::I32, .pointer = true, .divisible_by = 16};
  const std::vector<ArgType> types{array, array, {}};
  return mix().compile(types, launch, "sm_90a").ptx;
}

// No piece is lost, none stands ahead of one that it follows from, and none is a block of its own.
TEST(JoinPieces, PtxHasAllPiecesInOrder) {
  const std::string ptx = ptx_of(kLaunch);
  EXPECT_EQ(count(ptx, R"(shr\.s32)"), kSteps * kBlock / 32);
  EXPECT_EQ(ptx::read_too_early(ptx), "");
  EXPECT_LE(count(ptx, R"(\$L__BB\d+_\d+:)"), 2);
}

// A loop asks at its head whether it goes on where it carries more values than there are registers, else at its end.
TEST(JoinPieces, LoopsOfManyValuesKeepTheirHead) {
  constexpr int kMany = 544 * 32, kFew = 64 * 32;
  for (const int block : {kFew, kMany}) {
    const std::string ptx = ptx_of({.constexprs = {{"BLOCK", block}, {"STEPS", 2}}, .num_warps = 1});
    EXPECT_EQ(count(ptx, R"(shr\.s32)"), 2 * block / 32);
    EXPECT_EQ(ptx::read_too_early(ptx), "");
    EXPECT_EQ(count(ptx, R"(bra\.uni)"), block == kMany ? 1 : 0) << ptx;
  }
}

void computes_what_the_text_says(Device& device) {
  constexpr int kIterations = 3;
  std::vector<int32_t> x(kBlock);
  for (int i = 0; i < kBlock; ++i) x[i] = i * 100003 - 1000000;
  Buffer out(device, x.size() * sizeof(int32_t)), in(device, x);
  mix().launch(device, {1}, kLaunch, out.as<int32_t>(), in.as<int32_t>(), kIterations);
  for (int i = 0; i < kIterations; ++i) {
    uint32_t sum = 0;
    for (int32_t& value : x) {
      for (int j = 0; j < kSteps; ++j)
        value = int32_t(uint32_t(value) * uint32_t(7 * j * j % 61 + 2 + i) + uint32_t(value >> 7));
      sum += uint32_t(value);
    }
    for (int32_t& value : x) value = int32_t(uint32_t(value) + sum);
  }
  EXPECT_EQ(out.download<int32_t>(), x);
}

TEST(JoinPieces, ComputeWhatTheTextSays) { computes_what_the_text_says(*default_device()); }

// Fast code for the host is made of pieces too.
TEST(JoinPieces, ComputeWhatTheTextSaysInTheHostsCode) {
  computes_what_the_text_says(*make_emulator({.optimised_at_once = true}));
}

}  // namespace
}  // namespace tegula
