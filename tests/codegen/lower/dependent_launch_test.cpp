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
  const std::shared_ptr<Device> device = default_device();
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

}  // namespace
}  // namespace tegula
