// label: device
// Boxes that bulk copies move, none of whose elements exists, of arrays that begin where no memory is.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "dsl/tegula.h"
#include "tests/devices.h"

namespace tegula {
namespace {

const LaunchOptions kInBulk{.num_warps = 4, .num_stages = 2, .bulk_copies = 2};

// Iterations are counted from `first` on: at iteration 0 the pointers would be 32 GiB ahead of the array.
constexpr const char* kWalk = R"(
import triton
import triton.language as tl

@triton.jit
def walk(out, x, first, flag):
    i = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tile = tl.load(x + i)
    to = out + i
    for k in tl.range(first, first + 2):
        tl.store(to, tile, mask=tl.full((32, 32), flag > k, tl.int1))
        to += 1024
)";

TEST(BoxesOutside, OfStoresThatWalk) {
  constexpr int kFirst = 1 << 24;
  std::vector<int16_t> x(1024);
  std::iota(x.begin(), x.end(), int16_t(1));
  const Kernel kernel = Program::parse(kWalk, "walk.py").kernel("walk");
  for (const auto& device : gpu_or_emulators({{.target = "sm_90a", .threads = 1}})) {
    const Buffer from(*device, x);
    for (int stored : {0, 1, 2}) {
      const Buffer out(*device, std::vector<int16_t>(2048, -1));
      kernel.launch(*device, {1}, kInBulk, out.as<int16_t>(), from.as<int16_t>(), kFirst, kFirst + stored);
      std::vector<int16_t> want(2048, -1);
      for (int i = 0; i < stored * 1024; ++i) want[size_t(i)] = x[size_t(i % 1024)];
      EXPECT_EQ(out.download<int16_t>(), want) << stored;
    }
  }
}

// Rows begin at a number from memory, and no column is as far to the right as the mask wants it.
constexpr const char* kColumns = R"(
import triton
import triton.language as tl

@triton.jit
def columns(out, x, at, most, stride):
    rows, cols = tl.arange(0, 32), tl.arange(0, 32)
    acc = tl.zeros((32, 32), tl.float32)
    for k in tl.range(0, 2):
        row = tl.load(at + k) + rows
        tile = tl.load(x + row[:, None] * stride + cols[None, :], mask=cols[None, :] >= most, other=0.0)
        acc += tl.dot(tile, tl.trans(tile))
    tl.store(out + rows[:, None] * 32 + cols[None, :], acc)
)";

TEST(BoxesOutside, BelowABound) {
  const Kernel kernel = Program::parse(kColumns, "columns.py").kernel("columns");
  for (const auto& device : gpu_or_emulators({{.target = "sm_90a", .threads = 1}})) {
    const Buffer x(*device, std::vector<float16>(64 * 128, float16(1.0f))), at(*device, std::vector<int32_t>{0, 32});
    for (int most : {0, 30, 32, 64}) {
      const Buffer out(*device, std::vector<float>(1024, -1.0f));
      kernel.launch(*device, {1}, kInBulk, out.as<float>(), x.as<float16>(), at.as<int32_t>(), most, 128);
      EXPECT_EQ(out.download<float>(), std::vector<float>(1024, 2.0f * float(std::max(0, 32 - most)))) << most;
    }
  }
}

}  // namespace
}  // namespace tegula
