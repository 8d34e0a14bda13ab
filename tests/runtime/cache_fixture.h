// A cache in a folder of its own, and what is kept there.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "runtime/image_format.h"
#include "runtime/store/image_cache.h"

namespace tegula {

namespace fs = std::filesystem;

inline KernelImage sample(const std::string& name = "softmax", size_t code_bytes = 3000) {
  KernelImage image;
  image.kernel = name;
  image.target = "sm_90a";
  image.params = {{"out", Elem::BF16, true, 16}, {"n", Elem::I32, false, 1}, {"flag", Elem::I1, false, 1}};
  image.tensor_maps.steps = {{LaunchStep::Argument, Elem::U64, {}, 0},
                             {LaunchStep::Argument, Elem::I32, {}, 1},
                             {LaunchStep::Constant, Elem::I64, {}, -3},
                             {LaunchStep::Mul, Elem::I64, {1, 2}, 0}};
  image.tensor_maps.maps = {{Elem::BF16, 128, {64, 128}, 0, {1, 3}, {2}, {1, 3}, true},
                            {Elem::I8, 0, {16}, 0, {1}, {}}};
  image.num_warps = 8;
  image.shared_bytes = int64_t(1) << 40;
  image.ptx = ".version 8.0\n" + std::string(2000, 'x');
  // Bytes that do not compress, so that both halves of "packed if it pays" are used.
  uint64_t random = 88172645463325252ull + name.size();
  for (size_t i = 0; i < code_bytes; ++i) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    image.cubin.push_back(uint8_t(random));
  }
  image.bitcode = {'B', 'C', 0xc0, 0xde};
  const std::string* file = intern_file("/kernels/softmax.py");
  image.sites = {{file, 7, 3, 9}, {nullptr, 0, 0, 0}, {intern_file("other.py"), 1, 0, 0}, {file, 8, 1, 1}};
  image.registers = 168;
  image.dependent_launch = true;
  image.few_programs = 1024;
  image.cooperative = true;
  image.spill_bytes = 0;
  image.fewer_stages = {{{file, 9, 5, 0}, 5, 3}, {{}, 2, 1}};
  image.transfers = {{{file, 9, 5, 0}, "bulk copies", ""}, {{}, "the threads' copies", "its rows go backwards"}};
  return image;
}

class CacheTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tegula-cache-test-XXXXXX";
    root_ = mkdtemp(name);
    folder_ = root_ / "cache";
  }
  void TearDown() override { fs::remove_all(root_); }

  ImageCache cache(int64_t max_bytes = 1 << 20) { return cache_at(folder_, max_bytes); }
  ImageCache cache_at(const fs::path& folder, int64_t max_bytes = 1 << 20) {
    return ImageCache({folder, max_bytes, [this](const std::string& text) { warnings_.push_back(text); }});
  }
  fs::path entry(const std::string& key, const char* suffix = ".image") { return folder_ / (key + suffix); }
  std::vector<std::string> files() {
    std::vector<std::string> names;
    for (const auto& file : fs::directory_iterator(folder_))
      if (file.path().filename() != ".lock" && file.path().filename() != ".tally")
        names.push_back(file.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  static std::string read(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  static void write(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

  fs::path root_, folder_;
  std::vector<std::string> warnings_;
};

}  // namespace tegula
