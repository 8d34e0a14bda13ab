// label: device
// Products of fragments that come from bytes: the next iteration's are read and converted while products are under way.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "dsl/tegula.h"
#include "runtime/base/float16.h"
#include "tests/codegen/lower/dot_support.h"
#include "tests/devices.h"

namespace tegula {
namespace {

constexpr int kRows = 64, kColumns = 16, kMostDepth = 512;

// Tiles that follow each other go on with the turn of the slots, also behind tiles without a K-step.
constexpr const char* kKernels = R"(
import triton
import triton.language as tl

@triton.jit
def widened(out, w, x, scale, K, TILES, STEP: tl.constexpr, SCALED: tl.constexpr):
    i, j, k = tl.arange(0, 64)[:, None], tl.arange(0, 16)[None, :], tl.arange(0, STEP)
    for tile in range(tl.program_id(0), TILES, tl.num_programs(0)):
        acc = tl.zeros((64, 16), tl.float32)
        for at in range(0, K, STEP):
            a = tl.load(w + (tile * 64 + i) * 512 + at + k[None, :]).to(tl.float16)
            if SCALED:
                a *= tl.load(scale + at + k)[None, :]
            b = tl.load(x + at + k[:, None] + j * 512)
            acc = tl.dot(a, b, acc)
        tl.store(out + (tile * 64 + i) * 16 + j, acc)
)";

Kernel& kernel() {
  static Kernel kernel = Program::parse(kKernels, "widened.py").kernel("widened");
  return kernel;
}

LaunchOptions options_of(int step, bool scaled) {
  return {.constexprs = {{"STEP", step}, {"SCALED", scaled}}, .num_stages = 3, .warp_specialize = 2};
}

TEST(ReadAhead, HasTheBytesOfEachIteration) {
  constexpr int kTiles = 3;
  const auto w = random_values<int8_t>(size_t(kTiles) * kRows * kMostDepth, 1);
  const auto x = random_values<float16>(size_t(kColumns) * kMostDepth, 2),
             scale = random_values<float16>(kMostDepth, 3);
  const Devices devices = gpu_or_emulators(
      {{.target = "sm_90a"}, {.target = "sm_90a", .seed = 1}, {.target = "sm_90a", .check_races = true}});
  for (auto& device : devices)
    for (const bool scaled : {false, true})
      for (const int step : {32, 64})
        for (const int depth : {0, step, 5 * step})
          for (const unsigned programs : {1u, 2u}) {
            SCOPED_TRACE(fmt::format("{}: depth {} by {}, {} programs{}", device->info().name, depth, step, programs,
                                     scaled ? ", scaled" : ""));
            std::vector<double> exact(size_t(kTiles) * kRows * kColumns);
            for (size_t i = 0; i < size_t(kTiles) * kRows; ++i)
              for (size_t j = 0; j < kColumns; ++j)
                for (size_t k = 0; k < size_t(depth); ++k) {
                  const double weight = double(w[i * kMostDepth + k]) * (scaled ? double(float(scale[k])) : 1.0);
                  exact[i * kColumns + j] += weight * double(float(x[j * kMostDepth + k]));
                }
            Buffer dw(*device, w), dx(*device, x), ds(*device, scale), out(*device, exact.size() * sizeof(float));
            kernel().launch(*device, {programs}, options_of(step, scaled), out.as<float>(), dw.as<int8_t>(),
                            dx.as<float16>(), ds.as<float16>(), depth, kTiles);
            const std::vector<float> found = out.download<float>();
            double most = 1, error = 0;
            for (size_t i = 0; i < exact.size(); ++i) {
              ASSERT_FALSE(std::isnan(found[i]));
              most = std::max(most, std::abs(exact[i]));
              error = std::max(error, std::abs(exact[i] - double(found[i])));
            }
            EXPECT_LE(error, most * (scaled ? 2e-3 : 1e-5));
          }
}

}  // namespace
}  // namespace tegula
