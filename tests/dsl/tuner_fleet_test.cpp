// Tuning that several GPUs, or the processes of a job, share.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/tuning/fleet.h"
#include "tests/dsl/tuner_fixture.h"

namespace tegula {
namespace {

Autotune over_blocks_and_warps() {
  Autotune tuning;
  for (int block : {32, 64, 128, 256, 512, 1024})
    for (int warps : {1, 2, 4, 8}) tuning.configs.push_back(config({{"BLOCK", block}}, num_warps(warps)));
  return tuning;
}

TEST_F(Tuner, GpusShareTheWork) {
  FakeGpu one, two;
  Buffer x(one, std::vector<float>(1000, 3.f)), y(one, 4000);
  const Autotune tuning = over_blocks_and_warps();
  for (FakeGpu* gpu : {&one, &two}) {
    best_is_four(*gpu);
  }
  const std::array<Arg, 3> args{Arg(y.as<float>()), Arg(x.as<float>()), Arg(1000)};
  TuneReport report = kernel().autotune(tuning).tune(one, detail::GridRef(blocks), {}, args, {.more_devices = {&two}});
  EXPECT_EQ(report.timed, 24);
  EXPECT_EQ(report.best.num_warps, 4);
  EXPECT_FALSE(one.launches().empty());
  const std::array<Arg, 3> unknown{Arg(y.as<float>()), Arg::pointer(0x4000, Elem::F32), Arg(1001)};
  EXPECT_CONTAINS(message_of([&] {
                    kernel()
                        .autotune(over_warps())
                        .tune(one, detail::GridRef(blocks), {}, unknown,
                              {.mode = TuneOptions::Mode::Refresh, .more_devices = {&two}});
                  }),
                  "how large the buffer of 'x' is is not known\n  hint: pass a Buffer");
}

/// The environment as a launcher leaves it, for the time of a test.
struct Launched {
  explicit Launched(const char* processes) { setenv("LOCAL_WORLD_SIZE", processes, 1); }
  ~Launched() { unsetenv("LOCAL_WORLD_SIZE"); }
};

// Threads with kernels, stores and GPUs of their own stand for processes.
TEST_F(Tuner, ProcessesOfAJobShareTheWork) {
  const Launched launched("3");
  std::vector<TuneReport> reports(3);
  std::vector<std::thread> processes;
  for (TuneReport& report : reports)
    processes.emplace_back([&] {
      FakeGpu gpu;
      best_is_four(gpu);
      auto assemble = gpu.assemble;
      gpu.assemble = [=](KernelImage& image) {  // no process is done before the others begin
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        assemble(image);
      };
      Buffer x(gpu, 4000), y(gpu, 4000);
      const std::array<Arg, 3> args{Arg(y.as<float>()), Arg(x.as<float>()), Arg(1000)};
      report = kernel().autotune(over_blocks_and_warps()).tune(gpu, detail::GridRef(blocks), {}, args);
    });
  for (std::thread& process : processes) process.join();
  int timed = 0;
  for (const TuneReport& report : reports) {
    timed += report.timed;
    EXPECT_EQ(report.winner, reports[0].winner);
    EXPECT_EQ(report.results.size(), 24u);
  }
  EXPECT_EQ(timed, 24);  // each by one of them: by which depends on who has the processors
  EXPECT_EQ(reports[0].best.num_warps, 4);
}

TEST_F(Tuner, WhatAProcessOfTheJobLeavesIsTakenOver) {
  const Launched launched("2");
  FakeGpu gpu;
  best_is_four(gpu);
  Buffer x(gpu, 4000), y(gpu, 4000);
  const std::array<Arg, 3> args{Arg(y.as<float>()), Arg(x.as<float>()), Arg(1000)};
  const TuningProblem problem = kernel().autotune(over_warps()).tune(gpu, detail::GridRef(blocks), {}, args).problem;
  TuningStore store({folder_ / "t.sqlite", {}});
  store.clear();
  std::optional<TuningStore::Claim> other = store.try_claim(problem, "BLOCK=256 num_warps=4");
  ASSERT_TRUE(other);
  EXPECT_FALSE(store.try_claim(problem, "BLOCK=256 num_warps=4"));
  EXPECT_TRUE(store.try_claim(problem, "BLOCK=256 num_warps=2"));
  std::atomic<bool> released = false;
  std::thread process([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    released = true;
    other.reset();  // as when it ends
  });
  const TuneReport report = kernel().autotune(over_warps()).tune(gpu, detail::GridRef(blocks), {}, args);
  EXPECT_TRUE(released);
  process.join();
  EXPECT_EQ(report.timed, 4);
  EXPECT_EQ(report.best.num_warps, 4);
}

TEST(Fleet, LaunchersTellTheNumberOfProcesses) {
  EXPECT_EQ(processes_of_job(), 1);
  for (const char* name : {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}) {
    setenv(name, "4", 1);
    EXPECT_EQ(processes_of_job(), 4) << name;
    setenv("TEGULA_FLEET", "off", 1);
    EXPECT_EQ(processes_of_job(), 1);
    unsetenv("TEGULA_FLEET");
    unsetenv(name);
  }
  setenv("SLURM_STEP_TASKS_PER_NODE", "8(x2)", 1);
  EXPECT_EQ(processes_of_job(), 8);
  unsetenv("SLURM_STEP_TASKS_PER_NODE");
}

}  // namespace
}  // namespace tegula
