// The stores on a file system without locks, as some network file systems are: flock() of this program fails.
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>

#include "runtime/store/image_cache.h"
#include "runtime/tuning/tuning_store.h"

namespace {

std::atomic<int> asked{0};

}  // namespace

// In the place of the system's, for the libraries too.
extern "C" int flock(int, int) noexcept {
  ++asked;
  errno = ENOLCK;
  return -1;
}

namespace tegula {
namespace {

namespace fs = std::filesystem;

class NoLocks : public testing::Test {
 protected:
  NoLocks() {
    std::string name = (fs::temp_directory_path() / "tegula-no-locks-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~NoLocks() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  fs::path folder_;
};

KernelImage sample(int number) {
  KernelImage image;
  image.kernel = "k" + std::to_string(number);
  image.target = "sm_90a";
  for (uint32_t i = 0, random = uint32_t(number) + 1; i < 2000; ++i)
    image.cubin.push_back(uint8_t((random = random * 1664525 + 1013904223) >> 24));
  return image;
}

TEST_F(NoLocks, TheCacheStaysWithinItsBound) {
  const int64_t bound = 20000;
  ImageCache cache({folder_, bound, [](const std::string& text) { ADD_FAILURE() << text; }});
  for (int i = 0; i < 40; ++i) {
    const std::string key = content_key({std::to_string(i)});
    cache.store(key, sample(i));
    ASSERT_TRUE(cache.find(key)) << i;
    EXPECT_LE(cache.stats().bytes, bound + 3000) << i;
  }
  EXPECT_GT(cache.stats().images, 4);
  EXPECT_GT(asked, 0);
}

TEST_F(NoLocks, TuningIsDoneByAllWhoAsk) {
  TuningStore store(
      {.file = folder_ / "tuning.sqlite", .warn = [](const std::string& text) { ADD_FAILURE() << text; }});
  const TuningProblem problem{"softmax", "n=1", "NVIDIA H200", "driver 13000"};
  const TuningStore::Claim one = store.claim(problem), other = store.claim(problem);  // does not wait for the first
  TuningResult result;
  result.config = "BLOCK=64";
  result.times_us = {1.0};
  store.put(problem, result);
  EXPECT_EQ(store.results(problem).size(), 1u);
}

}  // namespace
}  // namespace tegula
