// label: device
// Launches that may overlap the end of the kernel ahead keep the order of the stream: on a GPU this fails where a
// kernel reads before it waits, or lets the next one go too early.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "dsl/tegula.h"

namespace tegula {
namespace {

// Each program reads what another one of the kernel ahead wrote; the last program is late, so that others could
// overtake.
constexpr const char* kShift = R"(
import triton
import triton.language as tl

@triton.jit
def shift(out_ptr, x_ptr, n, by, late, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if tl.program_id(0) == tl.num_programs(0) - 1:
        for _ in range(late):
            i = i + tl.load(x_ptr + n)
    x = tl.load(x_ptr + (i + by) % n)
    tl.store(out_ptr + i, x + 1)
)";

class DependentLaunch : public testing::TestWithParam<bool> {};

TEST_P(DependentLaunch, KeepsTheOrderOfTheStream) {
  Device* const device = default_device();
  const bool emulator = device->info().emulator;
  const int programs = emulator ? 4 : 600, block = 256, n = programs * block, launches = emulator ? 5 : 60;
  Stream stream(*device);
  std::vector<int> start(size_t(n) + 1);
  std::iota(start.begin(), start.end() - 1, 0);
  Buffer a(*device, start, stream), b(*device, start, stream);
  Kernel kernel = Program::parse(kShift, "shift.py").kernel("shift");
  kernel.set_cache(nullptr);
  const LaunchOptions options{
      .constexprs = {{"BLOCK", block}}, .num_warps = 4, .dependent_launch = GetParam(), .stream = stream.get()};
  auto chain = [&] {
    for (int i = 0; i < launches; ++i) {
      Buffer &from = i % 2 ? b : a, &to = i % 2 ? a : b;
      kernel.launch(*device, {unsigned(programs)}, options, to.as<int>(), from.as<int>(), n, 7 * block, 8);
    }
  };
  auto check = [&](int times) {
    const std::vector<int> out = (times * launches % 2 ? b : a).download<int>(stream);
    const int64_t steps = int64_t(times) * launches;
    for (int i = 0; i < n; ++i)
      ASSERT_EQ(out[size_t(i)], (i + steps * 7 * block) % n + steps) << "element " << i << " after " << steps;
  };
  chain();
  check(1);
  if (emulator) return;  // it captures nothing
  Graph graph = capture(*device, stream, chain);
  graph.launch(stream);
  graph.launch(stream);
  check(3);
}

INSTANTIATE_TEST_SUITE_P(, DependentLaunch, testing::Bool(),
                         [](const auto& info) { return info.param ? "Overlapping" : "OneByOne"; });

// What the accesses have in common is computed ahead of the wait, but not each address: they would all be held there.
TEST(DependentCode, AddressesAreComputedBehindTheWait) {
  constexpr const char* kGather = R"(
import triton
import triton.language as tl

@triton.jit
def gather(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i * 37 % 1001 * n))
)";
  Kernel kernel = Program::parse(kGather, "gather.py").kernel("gather");
  kernel.set_cache(nullptr);
  const ArgType pointer{Elem::F32, true, 16};
  const std::string ptx =
      kernel.compile(std::vector<ArgType>{pointer, pointer, {}}, {.constexprs = {{"BLOCK", 4096}}}, "sm_90a").ptx;
  const size_t wait = ptx.find("griddepcontrol.wait");
  ASSERT_NE(wait, ptx.npos);
  auto count = [&](std::string_view text, size_t from, size_t to) {
    int found = 0;
    for (size_t at = ptx.find(text, from); at < to; at = ptx.find(text, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("mul.wide", 0, wait), 0);
  EXPECT_GE(count("mul.wide", wait, ptx.size()), 32);
}

}  // namespace
}  // namespace tegula
