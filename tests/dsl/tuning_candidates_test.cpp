// label: device
// Which configurations tuning times: those that the cost model has first, of products without predicting them all.
#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "tests/dsl/tuner_fixture.h"

namespace tegula {
namespace {

TEST_F(Tuner, TheModelsFavouriteIsTimedFirst) {
  FakeGpu gpu;
  Buffer x(gpu, 1 << 20), y(gpu, 1 << 20);
  Autotune tuning;
  for (int block : {32, 65536, 1024}) tuning.configs.push_back(config({{"BLOCK", block}}, num_warps(4)));
  const std::array<Arg, 3> args{Arg(y.as<float>()), Arg(x.as<float>()), Arg(1 << 18)};
  auto grid = [](const Config& c) { return Grid{unsigned(((1 << 18) + c["BLOCK"] - 1) / c["BLOCK"])}; };
  TuneOptions how;
  how.compile_threads = 1;  // what is ready first is timed first
  TuneReport report = kernel().autotune(tuning).tune(gpu, detail::GridRef(grid), {}, args, how);
  ASSERT_EQ(report.results.size(), 3u);
  for (size_t i = 1; i < 3; ++i) EXPECT_LE(report.results[i - 1].predicted_us, report.results[i].predicted_us);
  EXPECT_EQ(gpu.launches().front().grid.x, grid(tuning.configs[2]).x);
  EXPECT_EQ(report.results.front().config, "BLOCK=1024 num_warps=4");
  EXPECT_GT(report.results.front().predicted_us, 0);
  EXPECT_EQ(report.problem.gpu, "Fake GPU");
  EXPECT_EQ(report.problem.kernel.substr(0, 6), "scale ");
  EXPECT_CONTAINS(report.problem.driver, "driver 13000");
  EXPECT_EQ(report.timed, 3);
  EXPECT_GT(report.seconds, 0);
  EXPECT_EQ(report.winner, report.declared.to_string());
}

TEST_F(Tuner, OnlyTheModelsFavouritesAreTimed) {
  FakeGpu gpu;
  best_is_four(gpu);
  Autotune tuning = over_warps();
  tuning.top_k = 2;
  Kernel k = kernel().autotune(tuning);
  Buffer x(gpu, 4000), y(gpu, 4000);
  const std::array<Arg, 3> args{Arg(y.as<float>()), Arg(x.as<float>()), Arg(1000)};
  const TuneReport report = k.tune(gpu, detail::GridRef(blocks), {}, args);
  EXPECT_EQ(report.timed, 2);
  EXPECT_EQ(report.results.size(), 2u);
  // The store knows enough for the next process.
  const size_t launches = gpu.launches().size();
  const TuneReport again = kernel().autotune(tuning).tune(gpu, detail::GridRef(blocks), {}, args);
  EXPECT_EQ(again.timed, 0);
  EXPECT_EQ(again.winner, report.winner);
  EXPECT_EQ(gpu.launches().size(), launches);
}

TEST_F(Tuner, WhatTheModelHasFarBehindIsNotTimed) {
  FakeGpu gpu;
  Autotune tuning;
  for (int block : {32, 64, 128, 256, 512, 65536}) tuning.configs.push_back(config({{"BLOCK", block}}));
  Buffer in(gpu, 1 << 20), out(gpu, 1 << 20);
  const std::array<Arg, 3> args{Arg(out.as<float>()), Arg(in.as<float>()), Arg(1 << 18)};
  const auto timed = [&](double within) {
    tuning.within = within;
    auto grid = [](const Config& c) { return Grid{unsigned(((1 << 18) + c["BLOCK"] - 1) / c["BLOCK"])}; };
    return kernel().autotune(tuning).tune(gpu, detail::GridRef(grid), {}, args).timed;
  };
  EXPECT_EQ(timed(1), 3);
  EXPECT_EQ(timed(1), 0);  // the store knows enough
  EXPECT_EQ(timed(1e6), 0);
  EXPECT_EQ(timed(0), 3);
}

// A product of 1024 x 1024 x 1024.
TuneReport tune_product(FakeGpu& gpu, const Autotune& tuning) {
  constexpr int64_t kExtent = 1024;
  Buffer a(gpu, 2 * kExtent * kExtent), b(gpu, 2 * kExtent * kExtent), c(gpu, 2 * kExtent * kExtent);
  const std::array<Arg, 12> args{Arg(a.as<float16>()),
                                 Arg(b.as<float16>()),
                                 Arg(c.as<float16>()),
                                 kExtent,
                                 kExtent,
                                 kExtent,
                                 kExtent,
                                 1,
                                 kExtent,
                                 1,
                                 kExtent,
                                 1};
  Program program = Program::load(TEGULA_SOURCE_DIR "/tests/kernels/matmul.py");
  program.set_cache(nullptr);
  Kernel kernel = program.kernel("matmul").autotune(tuning);
  kernel.set_tuning_store(nullptr);
  auto grid = [](const Config& f) {
    return Grid{unsigned((kExtent + f["BLOCK_M"] - 1) / f["BLOCK_M"] * ((kExtent + f["BLOCK_N"] - 1) / f["BLOCK_N"]))};
  };
  return kernel.tune(gpu, detail::GridRef(grid), {.constexprs = {{"GROUP_M", 8}, {"OUT", Constexpr(Elem::F16)}}}, args);
}

// Most configurations of a product are known to be slow before they are laid out. The ones that are timed are those
// that come first where all are predicted, and so are those that take the place of others which do not work.
TEST_F(Tuner, ProductsAreTimedInTheOrderOfAllPredictions) {
  FakeGpu gpu;
  Autotune tuning;
  for (int m : {16, 64, 128, 256})
    for (int n : {16, 64, 256})
      for (int stages : {2, 4})
        tuning.configs.push_back(config({{"BLOCK_M", m}, {"BLOCK_N", n}, {"BLOCK_K", 64}}, num_stages(stages)));
  std::vector<TuningResult> all = tune_product(gpu, tuning).results;
  std::erase_if(all, [](const TuningResult& r) { return r.predicted_us == 0; });
  std::ranges::stable_sort(all, {}, &TuningResult::predicted_us);
  ASSERT_GT(all.size(), 8u);
  gpu.assemble = [&](KernelImage& image) { image.spill_bytes = 4; };
  tuning.top_k = 3;
  const std::vector<TuningResult> some = tune_product(gpu, tuning).results;
  ASSERT_EQ(some.size(), 6u);  // three, and three in their place
  for (size_t i = 0; i < some.size(); ++i) {
    EXPECT_EQ(some[i].config, all[i].config);
    EXPECT_EQ(some[i].predicted_us, all[i].predicted_us);
  }
}

TEST_F(Tuner, OfEqualPredictionsMoreStagesComeFirst) {
  FakeGpu gpu;
  Autotune tuning;
  for (int stages : {5, 7, 6})
    tuning.configs.push_back(config({{"BLOCK_M", 64}, {"BLOCK_N", 128}, {"BLOCK_K", 64}}, num_stages(stages)));
  const std::vector<TuningResult> all = tune_product(gpu, tuning).results;
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].predicted_us, all[2].predicted_us);
  for (size_t i = 0; i < 3; ++i) EXPECT_CONTAINS(all[i].config, "num_stages=" + std::to_string(7 - i));
}

// A number of stages that shows in no code, as nothing is pipelined, makes no candidate of its own.
TEST_F(Tuner, EqualCodeIsTimedOnce) {
  FakeGpu gpu;
  Autotune tuning;
  for (int stages : {2, 3, 4})
    for (int warps : {1, 4}) tuning.configs.push_back(config({{"BLOCK", 256}}, num_warps(warps), num_stages(stages)));
  Buffer x(gpu, 4000), y(gpu, 4000);
  const std::array<Arg, 3> args{Arg(y.as<float>()), Arg(x.as<float>()), Arg(1000)};
  EXPECT_EQ(kernel().autotune(tuning).tune(gpu, detail::GridRef(blocks), {}, args).timed, 2);
  const TuneReport again = kernel().autotune(tuning).tune(gpu, detail::GridRef(blocks), {}, args);
  EXPECT_EQ(again.timed, 0);
  EXPECT_EQ(again.results.size(), 6u);
}

}  // namespace
}  // namespace tegula
