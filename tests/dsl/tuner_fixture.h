// Kernels that are tuned on GPUs which say themselves how long a launch takes.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "dsl/tegula.h"
#include "runtime/tuning/tuning_store.h"
#include "tests/expect_contains.h"
#include "tests/message_of.h"
#include "tests/runtime/fake_gpu.h"

namespace tegula {

inline constexpr const char* kText = R"(import triton
import triton.language as tl


@triton.jit
def scale(out, x, n, BLOCK: tl.constexpr, FACTOR: tl.constexpr = 2):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * FACTOR, mask=i < n)
)";

class Tuner : public testing::Test {
 protected:
  Tuner() : folder_(std::filesystem::temp_directory_path() / ("tegula_tuner_" + std::to_string(getpid()))) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~Tuner() override { std::filesystem::remove_all(folder_); }

  Kernel kernel(const char* text = kText) {
    Program program = Program::parse(text, "scale.py");
    program.set_cache(nullptr);
    Kernel kernel = program.kernel("scale");
    kernel.set_tuning_store(std::make_shared<TuningStore>(TuningStore::Options{folder_ / "t.sqlite", {}}));
    return kernel;
  }
  Autotune over_warps() {
    Autotune tuning;
    for (int warps : {1, 2, 4, 8}) tuning.configs.push_back(config({{"BLOCK", 256}}, num_warps(warps)));
    tuning.key = {"n"};
    return tuning;
  }
  /// 4 warps are the fastest.
  void best_is_four(FakeGpu& gpu) {
    gpu.cost = [](const KernelImage& image, Grid) { return image.num_warps == 4 ? 10.0 : 15.0 + image.num_warps; };
  }
  static Grid blocks(const Config& c) { return {unsigned((1000 + c["BLOCK"] - 1) / c["BLOCK"])}; }

  std::filesystem::path folder_;
};

}  // namespace tegula
