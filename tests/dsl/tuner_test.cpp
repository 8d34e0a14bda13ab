// label: device
// Launches that choose their configuration: keys, heuristics, what is timed, what is remembered.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>
#include <utility>

#include "codegen/exec/emulator.h"
#include "dsl/tuning_candidates.h"
#include "runtime/cuda_device.h"
#include "tests/dsl/tuner_fixture.h"
#include "tests/runtime/fake_driver.h"

namespace tegula {
namespace {

// ---- Tuned launches

TEST_F(Tuner, LaunchesThatTakeLongAreTimedOneByOne) {
  auto timed = [&](int n) {
    FakeGpu gpu;
    Kernel k = kernel().autotune(over_warps());
    const size_t bytes = 4 * size_t(n);
    const std::array<Arg, 3> args{Arg::pointer(1 << 20, Elem::F32, bytes),
                                  Arg::pointer(uint64_t(1) << 40, Elem::F32, bytes), Arg(n)};
    auto grid = [=](const Config& c) { return Grid{unsigned(n / c["BLOCK"])}; };
    k.tune(gpu, detail::GridRef(grid), {}, args);
    return gpu.launches().size();
  };
  EXPECT_EQ(timed(1 << 10), 3 * timed(1 << 29));
}

TEST_F(Tuner, PicksTheFastestAndRemembersIt) {
  FakeGpu gpu;
  best_is_four(gpu);
  Kernel k = kernel().autotune(over_warps());
  Buffer x(gpu, 4000), y(gpu, 4000);
  k.launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 1000);
  size_t after_tuning = gpu.launches().size();
  EXPECT_GT(after_tuning, 4u);
  EXPECT_EQ(gpu.launches().back().num_warps, 4);
  EXPECT_EQ(gpu.launches().back().grid.x, 4u);
  k.launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 1000);
  EXPECT_EQ(gpu.launches().size(), after_tuning + 1);
  // Another value of the key is tuned anew, an argument that is no key is not.
  k.launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 992);
  EXPECT_GT(gpu.launches().size(), after_tuning + 4);

  // Another object, as in another process: the store knows.
  size_t before = gpu.launches().size();
  kernel().autotune(over_warps()).launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 1000);
  EXPECT_EQ(gpu.launches().size(), before + 1);
  EXPECT_EQ(gpu.launches().back().num_warps, 4);
}

TEST_F(Tuner, AMisspeltModeIsRefused) {
  FakeGpu gpu;
  Buffer x(gpu, 4000), y(gpu, 4000);
  setenv("TEGULA_TUNING", "pined", 1);
  EXPECT_EQ(
      message_of([&] { kernel().autotune(over_warps()).launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 1000); }),
      "kernel 'scale': TEGULA_TUNING is 'pined', expected 'pinned', 'all' or 'any'");
  unsetenv("TEGULA_TUNING");
  EXPECT_TRUE(gpu.launches().empty());
}

// With eight warps a launch with a cold cache is slower, and one behind another faster.
TEST_F(Tuner, LaunchesInARowDecide) {
  FakeGpu gpu;
  int fills = -1;
  gpu.cost = [&](const KernelImage& image, Grid) {
    const bool cold = std::exchange(fills, gpu.fills()) != gpu.fills();
    return image.num_warps != 8 ? 10.0 : cold ? 12.0 : 7.0;
  };
  Kernel k = kernel().autotune(over_warps());
  Buffer x(gpu, 4000), y(gpu, 4000);
  k.launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 1000);
  EXPECT_EQ(gpu.launches().back().num_warps, 8);

  // What has to be prepared is launched once, behind a flush of the cache.
  Autotune tuning = over_warps();
  tuning.reset_to_zero = {"out"};
  Kernel again = kernel().autotune(tuning);
  again.launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 992);
  EXPECT_NE(gpu.launches().back().num_warps, 8);
}

TEST_F(Tuner, OneMoreConfigTimesOneConfig) {
  FakeGpu gpu;
  best_is_four(gpu);
  Buffer x(gpu, 4000), y(gpu, 4000);
  const std::array<Arg, 3> args{Arg(y.as<float>()), Arg(x.as<float>()), Arg(1000)};
  Autotune tuning = over_warps();
  TuneReport first = kernel().autotune(tuning).tune(gpu, detail::GridRef(blocks), {}, args);
  EXPECT_EQ(first.timed, 4);
  EXPECT_EQ(first.results.size(), 4u);
  EXPECT_EQ(first.best.to_string(), "BLOCK=256 num_warps=4 num_stages=3");
  tuning.configs.insert(tuning.configs.begin(), config({{"BLOCK", 512}}, num_warps(4)));
  TuneReport second = kernel().autotune(tuning).tune(gpu, detail::GridRef(blocks), {}, args);
  EXPECT_EQ(second.timed, 1);
  EXPECT_EQ(second.results.size(), 5u);
  TuneReport third = kernel().autotune(tuning).tune(gpu, detail::GridRef(blocks), {}, args);
  EXPECT_EQ(third.timed, 0);
  TuneReport again =
      kernel().autotune(tuning).tune(gpu, detail::GridRef(blocks), {}, args, {.mode = TuneOptions::Mode::Refresh});
  EXPECT_EQ(again.timed, 5);
}

TEST_F(Tuner, SpillsAndFailuresAreDroppedWithTheirReason) {
  FakeGpu gpu;
  gpu.cost = [](const KernelImage& image, Grid) { return double(image.num_warps); };  // the spilling one would win
  gpu.assemble = [](KernelImage& image) {
    image.registers = 255;
    image.spill_bytes = image.num_warps == 1 ? 48 : 0;
    if (image.num_warps == 2) throw DeviceError("the assembler does not like it");
  };
  Buffer x(gpu, 4000), y(gpu, 4000);
  const std::array<Arg, 3> args{Arg(y.as<float>()), Arg(x.as<float>()), Arg(1000)};
  std::vector<std::string> warnings;
  set_message_handler([&](MessageKind, std::string_view text) { warnings.emplace_back(text); });
  TuneReport report = kernel().autotune(over_warps()).tune(gpu, detail::GridRef(blocks), {}, args);
  kernel().autotune(over_warps()).tune(gpu, detail::GridRef(blocks), {}, args);  // remembered
  set_message_handler(nullptr);
  EXPECT_EQ(warnings, std::vector<std::string>{"kernel 'scale': 1 of 4 configurations do not work and are left out\n"
                                               "  BLOCK=256 num_warps=2: the assembler does not like it"});
  EXPECT_EQ(report.best.num_warps, 4);
  std::map<std::string, TuningResult> rows;
  for (const auto& r : report.results) rows[r.config] = r;
  EXPECT_EQ(rows["BLOCK=256 num_warps=1"].status, TuningResult::Status::Spilled);
  EXPECT_CONTAINS(rows["BLOCK=256 num_warps=1"].reason, "48 bytes");
  EXPECT_EQ(rows["BLOCK=256 num_warps=2"].status, TuningResult::Status::Failed);
  EXPECT_CONTAINS(rows["BLOCK=256 num_warps=2"].reason, "the assembler does not like it");
  EXPECT_EQ(rows["BLOCK=256 num_warps=4"].status, TuningResult::Status::Timed);

  gpu.assemble = [](KernelImage&) { throw DeviceError("no"); };
  EXPECT_CONTAINS(message_of([&] {
                    kernel().autotune(over_warps()).launch(gpu, blocks, {}, y.as<double>(), x.as<double>(), 1000);
                  }),
                  "kernel 'scale': none of its 4 configurations works");
}

TEST_F(Tuner, PinnedNeverTimes) {
  FakeGpu gpu;
  best_is_four(gpu);
  Buffer x(gpu, 4000), y(gpu, 4000);
  setenv("TEGULA_TUNING", "pinned", 1);
  kernel().autotune(over_warps()).launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 1000);
  EXPECT_EQ(gpu.launches().size(), 1u);
  unsetenv("TEGULA_TUNING");
  kernel().autotune(over_warps()).launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 1000);
  size_t before = gpu.launches().size();
  EXPECT_GT(before, 5u);
  setenv("TEGULA_TUNING", "pinned", 1);
  kernel().autotune(over_warps()).launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 1000);
  unsetenv("TEGULA_TUNING");
  EXPECT_EQ(gpu.launches().size(), before + 1);
  EXPECT_EQ(gpu.launches().back().num_warps, 4);
}

TEST_F(Tuner, ExplicitConstexprsAreNotTuned) {
  FakeGpu gpu;
  Buffer x(gpu, 4000), y(gpu, 4000);
  Kernel k = kernel().autotune(over_warps());
  k.launch(gpu, {1}, {.constexprs = {{"BLOCK", 1024}}, .num_warps = 2}, y.as<float>(), x.as<float>(), 1000);
  ASSERT_EQ(gpu.launches().size(), 1u);
  EXPECT_EQ(gpu.launches()[0].num_warps, 2);
  Autotune two = over_warps();
  for (Config& c : two.configs) c.constexprs.emplace_back("FACTOR", 3);
  EXPECT_EQ(
      message_of([&] {
        kernel().autotune(two).launch(gpu, {1}, {.constexprs = {{"BLOCK", 1024}}}, y.as<float>(), x.as<float>(), 1);
      }),
      "kernel 'scale': the launch gives BLOCK, which the configurations give too, but not FACTOR\n"
      "  hint: give all of them to choose yourself, or none to have the best configuration chosen");
}

TEST_F(Tuner, HeuristicsAndPruning) {
  FakeGpu gpu;
  Buffer x(gpu, 4000), y(gpu, 4000);
  Kernel k = kernel().heuristics({{"BLOCK", [](const LaunchArgs& args) -> Constexpr {
                                     int64_t block = 1;
                                     while (block < args.integer("n")) block *= 2;
                                     return block;
                                   }}});
  int64_t seen = 0;
  k.launch(
      gpu, [&](const Config& c) { return seen = c["BLOCK"], Grid{1}; }, {}, y.as<float>(), x.as<float>(), 1000);
  EXPECT_EQ(seen, 1024);

  // The options of the launch are among the arguments.
  Kernel by_warps = kernel().heuristics(
      {{"BLOCK", [](const LaunchArgs& args) -> Constexpr { return 256 * args.integer("num_warps"); }}});
  by_warps.launch(
      gpu, [&](const Config& c) { return seen = c["BLOCK"], Grid{1}; }, {.num_warps = 2}, y.as<float>(), x.as<float>(),
      1000);
  EXPECT_EQ(seen, 512);

  Autotune tuning = over_warps();
  tuning.prune = [](const std::vector<Config>& all, const LaunchArgs& args) {
    EXPECT_EQ(args.integer("n"), 1000);
    EXPECT_EQ(args.pointer("x").elem, Elem::F32);
    return std::vector<Config>{all[1]};
  };
  kernel().autotune(tuning).launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 1000);
  EXPECT_EQ(gpu.launches().back().num_warps, 2);
  tuning.prune = [](const auto&, const LaunchArgs&) { return std::vector<Config>(); };
  EXPECT_EQ(message_of([&] { kernel().autotune(tuning).launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 1); }),
            "kernel 'scale': no configuration is left after pruning");
}

TEST_F(Tuner, HeuristicsFollowEveryLaunch) {
  auto device = default_device();
  Kernel k = kernel().heuristics({{"BLOCK", [](const LaunchArgs& args) -> Constexpr {
                                     return args.integer("n") > 32 ? int64_t(64) : int64_t(32);
                                   }}});
  Buffer x(*device, std::vector<float>(64, 1.f)), y(*device, 256);
  for (int n : {16, 48, 16, 48}) {  // of one class: only the value tells them apart
    y.fill(0);
    k.launch(*device, {1}, {}, y.as<float>(), x.as<float>(), n);
    float sum = 0;
    for (float f : y.download<float>()) sum += f;
    EXPECT_EQ(sum, 2 * n);
  }
}

TEST_F(Tuner, ValuesThatAreNoKeyAreNotTunedAnew) {
  FakeGpu gpu;
  best_is_four(gpu);
  Kernel k = kernel().autotune(over_warps()).heuristics({{"FACTOR", [](const LaunchArgs&) -> Constexpr {
                                                            return int64_t(3);
                                                          }}});
  k.set_tuning_store(nullptr);
  Buffer x(gpu, 4000), y(gpu, 4000);
  Autotune no_key = over_warps();
  no_key.key.clear();
  k = k.autotune(no_key);
  k.set_tuning_store(nullptr);
  k.launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 992);
  size_t before = gpu.launches().size();
  k.launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 976);
  EXPECT_EQ(gpu.launches().size(), before + 1);
  EXPECT_EQ(gpu.launches().back().num_warps, 4);
}

TEST_F(Tuner, NotWhileCapturing) {
  FakeGpu gpu;
  Buffer x(gpu, 4000), y(gpu, 4000);
  gpu.capturing = true;
  EXPECT_CONTAINS(
      message_of([&] { kernel().autotune(over_warps()).launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 1000); }),
      "it cannot be tuned while its stream is captured into a graph");
}

TEST_F(Tuner, NamesAreChecked) {
  auto with = [&](auto change) {
    Autotune tuning = over_warps();
    change(tuning);
    return message_of([&] { kernel().autotune(tuning); });
  };
  EXPECT_EQ(with([](Autotune& t) { t.key = {"BLOK"}; }),
            "kernel 'scale': the key names 'BLOK', which is no parameter\n  hint: did you mean 'BLOCK'?");
  EXPECT_EQ(with([](Autotune& t) { t.configs[0].constexprs[0].name = "BLOKC"; }),
            "kernel 'scale': a configuration names 'BLOKC', which is no constexpr parameter\n"
            "  hint: did you mean 'BLOCK'?");
  EXPECT_CONTAINS(with([](Autotune& t) { t.reset_to_zero = {"BLOCK"}; }), "reset_to_zero names 'BLOCK'");
  EXPECT_CONTAINS(with([](Autotune& t) { t.configs.clear(); }), "takes at least one configuration");
  EXPECT_CONTAINS(message_of([&] { kernel().heuristics({{"n", {}}}); }), "a heuristic names 'n'");
  FakeGpu gpu;
  EXPECT_CONTAINS(message_of([&] { kernel().tune(gpu, detail::GridRef(blocks), {}, {}); }), "has no configurations");
}

TEST_F(Tuner, TheEmulatorTimesAndStoresNothing) {
  auto device = default_device();
  if (!device->info().emulator) GTEST_SKIP() << "the default device is no emulator";
  Kernel k = kernel().autotune(over_warps());
  Buffer x(*device, std::vector<float>(1000, 1.5f)), y(*device, 4000);
  k.launch(*device, blocks, {}, y.as<float>(), x.as<float>(), 1000);
  EXPECT_EQ(y.download<float>(), std::vector<float>(1000, 3.f));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "t.sqlite"));
}

TEST_F(Tuner, TheEmulatorTakesAnyConfigurationThatWorksWhereAsked) {
  auto device = make_emulator();
  Autotune tuning = over_warps();
  tuning.configs.push_back(config({{"BLOCK", 37}}, num_warps(16)));  // no tile has this extent
  Buffer x(*device, 4000), y(*device, 4000);
  auto chosen = [&](int n) {
    const std::array<Arg, 3> args{Arg(y.as<float>()), Arg(x.as<float>()), Arg(n)};
    return kernel().autotune(tuning).tune(*device, detail::GridRef(blocks), {}, args).best.num_warps.value();
  };
  const char* before = std::getenv("TEGULA_TUNING");
  const std::string restored = before ? before : "";
  std::map<std::string, std::set<int>> found;
  for (const char* mode : {"", "any"}) {
    setenv("TEGULA_TUNING", mode, 1);
    for (int n = 1; n <= 32; ++n) found[mode].insert(chosen(n));
    EXPECT_EQ(chosen(7), chosen(7));
  }
  setenv("TEGULA_TUNING", restored.c_str(), 1);
  EXPECT_EQ(found[""].size(), 1u) << "the model's choice";
  EXPECT_EQ(found["any"], (std::set<int>{1, 2, 4, 8}));
}

TEST_F(Tuner, ClustersAreLeftOutWhereThereAreNone) {
  auto device = make_emulator({.target = "sm_80"});
  Buffer x(*device, 4000), y(*device, 4000);
  const std::array<Arg, 3> args{Arg(y.as<float>()), Arg(x.as<float>()), Arg(1000)};
  Autotune tuning = over_warps();
  tuning.configs.push_back(config({{"BLOCK", 64}}, num_ctas(2)));
  const auto report = kernel().autotune(tuning).tune(*device, detail::GridRef(blocks), {}, args);
  EXPECT_TRUE(report.results.empty());
  tuning.configs = {config({{"BLOCK", 64}}, num_ctas(2))};
  EXPECT_THROW(kernel().autotune(tuning).tune(*device, detail::GridRef(blocks), {}, args), Error);
}

// ---- What tuning is made of

TEST_F(Tuner, HeuristicsFollowEachLaunch) {
  FakeGpu gpu;
  Buffer x(gpu, 4000), y(gpu, 4000);
  auto next_power = [](const LaunchArgs& args) -> Constexpr {
    int64_t block = 1;
    while (block < args.integer("n")) block *= 2;
    return block;
  };
  Kernel k = kernel().heuristics({{"BLOCK", next_power}, {"num_warps", [](const LaunchArgs& args) -> Constexpr {
                                                            return int64_t(args.integer("BLOCK") >= 2048 ? 8 : 2);
                                                          }}});
  int64_t block = 0;
  auto grid = [&](const Config& c) { return block = c["BLOCK"], Grid{1}; };
  for (int round = 0; round < 2; ++round)
    for (auto [n, expected] : {std::pair(1001, 1024), {3001, 4096}, {101, 128}}) {
      k.launch(gpu, grid, {}, y.as<float>(), x.as<float>(), n);
      EXPECT_EQ(block, expected);
      EXPECT_EQ(gpu.launches().back().num_warps, expected >= 2048 ? 8 : 2);
    }
  // With tuning, for values that are no keys.
  Autotune tuning;
  for (int factor : {2, 3}) tuning.configs.push_back(config({{"FACTOR", factor}}));
  Kernel tuned = k.autotune(tuning);
  for (auto [n, expected] : {std::pair(1001, 1024), {3001, 4096}, {101, 128}}) {
    tuned.launch(gpu, grid, {}, y.as<float>(), x.as<float>(), n);
    EXPECT_EQ(block, expected);
  }
  size_t before = gpu.launches().size();
  tuned.launch(gpu, grid, {}, y.as<float>(), x.as<float>(), 501);
  EXPECT_EQ(gpu.launches().size(), before + 1) << "another value of no key was tuned anew";
}

TEST_F(Tuner, KeysOfOtherKinds) {
  FakeGpu gpu;
  Buffer x(gpu, 4000), y(gpu, 4000);
  Autotune tuning = over_warps();
  tuning.key = {"FACTOR", "x", "n"};
  Kernel k = kernel().autotune(tuning);
  size_t last = 0;
  auto launched = [&](Constexpr factor, const Arg& from, const Arg& n) {
    k.launch(gpu, blocks, {.constexprs = {{"FACTOR", factor}}}, y.as<float>(), from, n);
    size_t now = gpu.launches().size();
    return now - std::exchange(last, now);
  };
  EXPECT_GT(launched(int64_t(2), x.as<float>(), 1000), 4u);
  EXPECT_EQ(launched(int64_t(2), x.as<float>(), 1000), 1u);
  EXPECT_EQ(launched(int64_t(2), x.as<float>() + 64, 1000), 1u);  // not where it points to
  EXPECT_GT(launched(int64_t(3), x.as<float>(), 1000), 4u);
  EXPECT_GT(launched(NAN, x.as<float>(), 1000), 4u);
  EXPECT_EQ(launched(NAN, x.as<float>(), 1000), 1u);
  const Config* first = k.ready(gpu, detail::GridRef(blocks), {.constexprs = {{"FACTOR", Constexpr(NAN)}}},
                                std::array<Arg, 3>{Arg(y.as<float>()), Arg(x.as<float>()), Arg(1000)})
                            .config;
  EXPECT_EQ(first, k.ready(gpu, detail::GridRef(blocks), {.constexprs = {{"FACTOR", Constexpr(NAN)}}},
                           std::array<Arg, 3>{Arg(y.as<float>()), Arg(x.as<float>()), Arg(1000)})
                       .config);
}

TEST_F(Tuner, OptionsAlone) {
  FakeGpu gpu;
  best_is_four(gpu);
  Buffer x(gpu, 4000), y(gpu, 4000);
  Autotune tuning;
  for (int warps : {1, 2, 4, 8}) tuning.configs.push_back(config({}, num_warps(warps)));
  kernel().autotune(tuning).launch(gpu, {4}, {.constexprs = {{"BLOCK", 256}}}, y.as<float>(), x.as<float>(), 1000);
  EXPECT_EQ(gpu.launches().back().num_warps, 4);
}

TEST_F(Tuner, AKernelIsNotLaunchedFromItsOwnTuning) {
  FakeGpu gpu;
  Buffer x(gpu, 4000), y(gpu, 4000);
  Kernel k = kernel();
  Autotune tuning = over_warps();
  Kernel tuned = k;
  tuning.prune = [&](const std::vector<Config>& all, const LaunchArgs&) {
    k.launch(gpu, {1}, {.constexprs = {{"BLOCK", 32}}}, y.as<float>(), x.as<float>(), 10);  // another kernel may be
    tuned.launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 1000);
    return all;
  };
  tuned = k.autotune(tuning);
  EXPECT_EQ(message_of([&] { tuned.launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 1000); }),
            "kernel 'scale' is launched while it is being tuned, by a function that tuning calls\n"
            "  hint: its grid, pruning, heuristic and progress functions and its hooks cannot launch it");
}

TEST_F(Tuner, AGridThatFailsIsAReason) {
  FakeGpu gpu;
  Buffer x(gpu, 4000), y(gpu, 4000);
  std::set<std::thread::id> callers;
  auto grid = [&](const Config& c) {
    callers.insert(std::this_thread::get_id());
    if (c.num_warps == 8) throw std::runtime_error("no grid for 8 warps");
    return blocks(c);
  };
  const std::array<Arg, 3> args{Arg(y.as<float>()), Arg(x.as<float>()), Arg(1000)};
  TuneReport report = kernel().autotune(over_warps()).tune(gpu, detail::GridRef(grid), {}, args);
  EXPECT_EQ(callers, std::set<std::thread::id>{std::this_thread::get_id()});
  int failed = 0;
  for (const auto& r : report.results)
    failed += r.status == TuningResult::Status::Failed && r.reason == "no grid for 8 warps";
  EXPECT_EQ(failed, 1);
}

TEST_F(Tuner, WhatWasTimedIsLaunched) {
  FakeGpu gpu;
  best_is_four(gpu);
  std::atomic<int> assembled{0};
  gpu.assemble = [&](KernelImage& image) { image.registers = 32, image.spill_bytes = 0, ++assembled; };
  Kernel k = kernel().autotune(over_warps());
  Buffer x(gpu, 4000), y(gpu, 4000);
  k.launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 1000);
  EXPECT_EQ(assembled, 4) << "once for each configuration";
}

TEST_F(Tuner, CodeThatOtherLaunchesHaveTimedIsNotAssembledAgain) {
  cuda::fake::State driver;
  cuda::fake::state = &driver;
  cuda::fake::current_context = nullptr;
  driver.info_log = "info    : 0 bytes spill stores\ninfo    : Used 32 registers\n";
  {
    auto gpu = open_cuda_device(cuda::Driver::from(cuda::fake::lookup), 0,
                                {.warm_assembler = false, .assembler_library = "", .on_assembled = {}});
    Buffer x(*gpu, 16384), y(*gpu, 16384);
    Kernel k = kernel().autotune(over_warps());
    auto launch = [&](int n) { k.launch(*gpu, blocks, {}, y.as<float>(), x.as<float>(), n); };
    launch(1024);
    EXPECT_EQ(driver.count("cuLinkCreate_v2"), 4);
    launch(2048);
    EXPECT_EQ(driver.count("cuLinkCreate_v2"), 4);
  }
  EXPECT_EQ(driver.modules_open, 0);
}

TEST_F(Tuner, ProblemsAreToldApartByMultiplesOf16) {
  std::vector<ArgType> types(4);
  types[0].divisible_by = 1, types[1].divisible_by = 8, types[2].divisible_by = 16, types[3].divisible_by = 256;
  std::vector<int64_t> classes;
  for (const ArgType& type : dsl::tuned_types(types)) classes.push_back(type.divisible_by);
  EXPECT_EQ(classes, (std::vector<int64_t>{1, 1, 16, 16}));
}

// ---- What launches are told apart by

TEST_F(Tuner, LaunchesFindWhatWasMadeForThem) {
  auto device = default_device();
  Kernel k = kernel();
  std::vector<float> host(64, 1.f);
  Buffer x(*device, host), y(*device, 256);
  auto run = [&](auto n, int64_t offset, int64_t factor) {
    y.fill(0);
    k.launch(*device, {1}, {.constexprs = {{"BLOCK", 64}, {"FACTOR", Constexpr(factor)}}}, y.as<float>() + offset,
             x.as<float>(), n);
    float sum = 0;
    for (float f : y.download<float>()) sum += f;
    return sum;
  };
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(run(16, 0, 2), 32);
    EXPECT_EQ(run(1, 0, 2), 2);
    EXPECT_EQ(run(3, 1, 2), 6);
    EXPECT_EQ(run(16, 4, 3), 48);
    EXPECT_EQ(run(int64_t(16), 0, 2), 32);
    EXPECT_EQ(run(uint64_t(5), 0, 2), 10);
  }
}

TEST_F(Tuner, ADeviceThatEndsTakesItsKernelsAlong) {
  Kernel k = kernel();
  for (int round = 0; round < 3; ++round) {
    FakeGpu gpu;
    Buffer x(gpu, 4000), y(gpu, 4000);
    for (int i = 0; i < 2; ++i)
      k.launch(gpu, {1}, {.constexprs = {{"BLOCK", 256}}}, y.as<float>(), x.as<float>(), 1000);
    EXPECT_EQ(gpu.launches().size(), 2u);
  }
}

TEST_F(Tuner, VeryManyArguments) {
  std::string params, sum = "0";
  for (int i = 0; i < 120; ++i) params += "a" + std::to_string(i) + ", ", sum += " + a" + std::to_string(i);
  Program program = Program::parse("import triton\nimport triton.language as tl\n\n@triton.jit\ndef many(out, " +
                                       params + "B: tl.constexpr):\n    tl.store(out, " + sum + ")\n",
                                   "many.py");
  auto device = default_device();
  Buffer out(*device, 4);
  std::vector<Arg> args{Arg(out.as<int>())};
  for (int i = 0; i < 120; ++i) args.emplace_back(i);
  for (int round = 0; round < 2; ++round)
    program.kernel("many").launch(*device, detail::GridRef(Grid{1}), {.constexprs = {{"B", 1}}},
                                  std::span<const Arg>(args));
  EXPECT_EQ(out.download<int>(), std::vector<int>{119 * 60});
}

}  // namespace
}  // namespace tegula
