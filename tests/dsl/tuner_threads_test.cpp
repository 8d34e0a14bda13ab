// label: device
// Threads that tune one kernel at a time.
#include <atomic>
#include <latch>
#include <thread>
#include <utility>

#include "tests/dsl/tuner_fixture.h"

namespace tegula {
namespace {

TEST_F(Tuner, ThreadsTuneOnce) {
  FakeGpu gpu;
  best_is_four(gpu);
  Kernel k = kernel().autotune(over_warps());
  Buffer x(gpu, 4000), y(gpu, 4000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) k.launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 1000);
    });
  for (auto& t : threads) t.join();
  auto launches = gpu.launches();
  int others = 0;
  for (size_t i = launches.size() - 700; i < launches.size(); ++i) others += launches[i].num_warps != 4;
  EXPECT_EQ(others, 0);
}

TEST_F(Tuner, ThreadsWithKeysOfTheirOwn) {
  FakeGpu gpu;
  best_is_four(gpu);
  Kernel k = kernel().autotune(over_warps());
  Buffer x(gpu, 4000), y(gpu, 4000);
  std::vector<std::thread> threads;
  std::atomic<int> others{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::array<Arg, 3> args{Arg(y.as<float>()), Arg(x.as<float>()), Arg(900 + (t + i) % 8)};
        others += k.ready(gpu, detail::GridRef(blocks), {}, args).config->num_warps != 4;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(others, 0);
}

TEST_F(Tuner, ThreadsTuneProblemsOfTheirOwnAtATime) {
  FakeGpu gpu;
  best_is_four(gpu);
  Kernel k = kernel().autotune(over_warps());
  Buffer x(gpu, 4000), y(gpu, 4000);
  std::latch both(2);  // asked for a grid, which happens while a launch is tuned
  auto tune = [&](int n) {
    bool first = true;
    auto grid = [&](const Config&) {
      if (std::exchange(first, false)) both.arrive_and_wait();
      return Grid{unsigned(n)};
    };
    const std::array<Arg, 3> args{Arg(y.as<float>()), Arg(x.as<float>()), Arg(n)};
    EXPECT_EQ(k.ready(gpu, detail::GridRef(grid), {}, args).config->num_warps, 4);
  };
  std::thread other(tune, 900);
  tune(1000);
  other.join();
  // Whoever times has the device alone: its launches, three a run, are in a row.
  const auto launches = gpu.launches();
  ASSERT_EQ(launches.size() % 3, 0u);
  for (size_t i = 0; i < launches.size(); ++i) EXPECT_EQ(launches[i].grid.x, launches[i / 3 * 3].grid.x) << i;
}

}  // namespace
}  // namespace tegula
