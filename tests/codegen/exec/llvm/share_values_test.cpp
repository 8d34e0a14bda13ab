// Common subexpressions in LLVM IR.
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <sstream>

#include "codegen/compile.h"
#include "dsl/program.h"

namespace tegula {
namespace {

// Two arms of a branch compute the same, and what follows it does once more.
const char* kArms = R"(
import triton
import triton.language as tl

@triton.jit
def arms(out_ptr, x_ptr, n, flag):
    i = tl.program_id(0) * 128 + tl.arange(0, 128)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    if flag > 3:
        tl.store(out_ptr + i, x * 2.0, mask=i < n)
    else:
        tl.store(out_ptr + i + n, x + 1.0, mask=i < n)
    tl.store(out_ptr + i + 2 * n, x * 2.0, mask=i < n)
)";

struct Computed {
  std::map<std::string, std::map<std::string, int>> in_blocks;  ///< how often each block computes what, calls left out
  int unused = 0;
  int repeated() const {
    int count = 0;
    for (const auto& [block, computations] : in_blocks)
      for (const auto& [text, times] : computations) count += times - 1;
    return count;
  }
};

Computed computed_by(const std::string& module) {
  Computed computed;
  std::istringstream lines(module);
  std::string block;
  for (std::string line; std::getline(lines, line);) {
    const size_t is = line.find(" = ");
    if (!line.empty() && line[0] != ' ') block = line;
    if (!line.starts_with("  %") || is == line.npos) continue;
    const std::string name = line.substr(2, is - 2), what = line.substr(is + 3, line.find(", !") - is - 3);
    if (what.find("call ") != what.npos || what.starts_with("phi ")) continue;
    ++computed.in_blocks[block][what];
    bool used = false;
    for (const char* end : {",", ")", "\n", " "})
      used |= module.find(name + end, module.find(line) + line.size()) != module.npos;
    computed.unused += !used;
  }
  return computed;
}

TEST(ShareValues, BlocksComputeNothingTwiceAndNothingForNobody) {
  std::map<std::string, std::string> stages;
  CompileOptions options;
  options.target = *find_target("sm_90a");
  options.emulator = true;
  options.dump = [&](const std::string& stage, const std::string& text) { stages[stage] = text; };
  const Kernel kernel = Program::parse(kArms, "arms.py").kernel("arms");
  const std::vector<ArgType> types{{Elem::F32, true, 16}, {Elem::F32, true, 16}, {}, {}};
  Diagnostics diags;
  ASSERT_TRUE(compile(*kernel.tile_func(types, {.num_warps = 1}), options, diags)) << diags.render();
  EXPECT_GT(computed_by(stages["llvm"]).repeated(), 0) << stages["llvm"];
  const Computed left = computed_by(stages["llvm-opt"]);
  EXPECT_EQ(left.repeated(), 0) << stages["llvm-opt"];
  EXPECT_EQ(left.unused, 0) << stages["llvm-opt"];
}

// Columns repeat, which index arithmetic shows once a thread's elements are known; the places of a maximum are handed
// from lane to lane twice.
const char* kRepeats = R"(
import triton
import triton.language as tl

@triton.jit
def columns(out_ptr, x_ptr):
    i = tl.arange(0, 2048)
    tl.store(out_ptr + i, tl.load(x_ptr + i % 16))

@triton.jit
def columns_between(out_ptr, x_ptr):
    i = tl.arange(0, 2048)
    x = tl.load(x_ptr + i % 16)
    tl.store(out_ptr + i, x)
    tl.store(out_ptr + i + 2048, tl.load(x_ptr + i % 16))

@triton.jit
def larger(a, i, j, b, k, l):
    return tl.where(a > b, a, b), tl.where(a > b, i, k), tl.where(a > b, j, l)

@triton.jit
def places(out_ptr, x_ptr):
    i = tl.arange(0, 128)
    x, first, second = tl.reduce((tl.load(x_ptr + i), i, i), 0, larger)
    tl.store(out_ptr, first)
    tl.store(out_ptr + 1, second)
)";

std::ptrdiff_t count_in_ptx(const std::string& kernel, const std::string& instruction) {
  CompileOptions options;
  options.target = *find_target("sm_90a");
  Diagnostics diags;
  const std::vector<ArgType> types{{Elem::I32, true, 16}, {Elem::I32, true, 16}};
  const auto func = Program::parse(kRepeats, "repeats.py")
                        .kernel(kernel)
                        .tile_func(types, {.num_warps = 4, .dependent_launch = false});
  const auto image = compile(*func, options, diags);
  EXPECT_TRUE(image) << diags.render();
  const std::regex pattern(instruction);
  return image ? std::distance(std::sregex_iterator(image->ptx.begin(), image->ptx.end(), pattern), {}) : 0;
}

TEST(ShareValues, MemoryIsReadOnceUntilSomethingMayWrite) {
  EXPECT_EQ(count_in_ptx("columns", "ld\\.global"), 1);
  EXPECT_EQ(count_in_ptx("columns_between", "ld\\.global"), 2);
}

// Of 32 lanes by five exchanges; warps meet in shared memory.
TEST(ShareValues, LanesExchangeNothingTwice) { EXPECT_EQ(count_in_ptx("places", "shfl\\.sync"), 2 * 5); }

}  // namespace
}  // namespace tegula
