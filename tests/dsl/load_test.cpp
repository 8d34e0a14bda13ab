// Many threads, many specialisations: launches of what is ready take no lock, memory does not grow, and a process that
// is sealed opens no file.
// label: device
// heavy: Load.RunsOnTheDeviceWithoutGrowing Sealed.OpensNoFile
#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "codegen/exec/emulator.h"
#include "dsl/kernel_list.h"
#include "dsl/tegula.h"
#include "tests/random_count.h"
#include "tests/runtime/fake_gpu.h"

namespace {

/// Locks that this thread has taken, of every library of the process.
thread_local long locks_taken = 0;

template <class Function>
int counted(const char* name, Function* function) {
  ++locks_taken;
  static const auto real = reinterpret_cast<int (*)(Function*)>(dlsym(RTLD_NEXT, name));
  return real(function);
}

}  // namespace

// In place of the C library's functions, for the whole process.
extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept { return counted("pthread_mutex_lock", mutex); }
extern "C" int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept { return counted("pthread_rwlock_rdlock", lock); }
extern "C" int pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept { return counted("pthread_rwlock_wrlock", lock); }

namespace tegula {
namespace {

namespace fs = std::filesystem;

constexpr int kThreads = 64, kElements = 32;

/// How many seconds of load were asked for, if any were.
const char* asked_seconds() { return std::getenv("TEGULA_LOAD_SECONDS"); }

/// 200 in nightly runs and where load was asked for.
int specialisations() { return asked_seconds() ? 200 : int(std::min(200u, random_count(20))); }

// x[i] = x[i] * 0 + N + n
constexpr const char* kText = R"(import triton
import triton.language as tl


@triton.jit
def fill(x, n, N: tl.constexpr):
    i = tl.arange(0, 32)
    tl.store(x + i, tl.load(x + i) * 0 + N + n)
)";

LaunchOptions options_of(int i) { return {.constexprs = {{"N", i}}, .num_warps = 1}; }

/// Resident bytes of this process.
size_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  size_t all = 0, resident = 0;
  in >> all >> resident;
  return resident * size_t(sysconf(_SC_PAGESIZE));
}

/// Each thread launches all specialisations, in an order of its own, until the time is over. Returns how many launches.
template <class Launch>
long launch_for(double seconds, const Launch& launch) {
  std::atomic<long> launches{0};
  const int count = specialisations();
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      long mine = 0;
      do {
        for (int i = 0; i < count; ++i) launch(t, (i * 7 + t * 13) % count);
        mine += count;
      } while (std::chrono::steady_clock::now() < end);
      launches += mine;
    });
  for (std::thread& t : threads) t.join();
  return launches;
}

/// A GPU whose launches cost nothing and take no lock.
class SilentGpu : public FakeGpu {
 public:
  Shared<LoadedKernel> load(KernelImage image) override { return std::make_unique<Silent>(std::move(image)); }
  std::atomic<long> launches{0};

 private:
  struct Silent : LoadedKernel {
    explicit Silent(KernelImage i) : image_(std::move(i)) {}
    bool try_launch(Grid, void* const*, StreamHandle) override { return true; }
    const KernelImage& image() const override { return image_; }
    KernelImage image_;
  };
};

TEST(Load, LaunchesTakeNoLock) {
  SilentGpu gpu;
  Kernel fill = Program::parse(kText).kernel("fill");
  fill.set_cache(nullptr);
  const Buffer x(gpu, 4 * kElements);
  constexpr int kFew = 20;  // as the others
  for (int i = 0; i < kFew; ++i) fill.launch(gpu, {1}, options_of(i), x.as<float>(), 3);
  const long before = locks_taken;
  for (int i = 0; i < kFew; ++i) fill.launch(gpu, {1}, options_of(i), x.as<float>(), 3 + 2 * i);
  EXPECT_EQ(locks_taken, before);
  // The count does count: what is not ready takes locks.
  fill.launch(gpu, {1}, options_of(kFew), x.as<float>(), 3);
  EXPECT_GT(locks_taken, before);
}

// TEGULA_LOAD_SECONDS: for how long; if it is not set, a fifth of a second times TEGULA_RANDOM.
TEST(Load, RunsOnTheDeviceWithoutGrowing) {
  const double seconds = asked_seconds() ? std::atof(asked_seconds()) : random_count(1) / 5.0;
  Device* const device = default_device();
  Kernel fill = Program::parse(kText).kernel("fill");
  const Buffer x = Buffer::zeros(*device, size_t(4 * kElements * kThreads));
  std::vector<Stream> streams;
  for (int t = 0; t < kThreads; ++t) streams.emplace_back(*device);
  std::atomic<int> wrong{0};
  auto launch = [&](int thread, int i) {
    const uint64_t mine = x.address() + uint64_t(4 * kElements * thread);
    LaunchOptions options = options_of(i);
    options.stream = streams[size_t(thread)];
    fill.launch(*device, {1}, options, reinterpret_cast<float*>(mine), 3);
    if (i % 50) return;
    float found = 0;
    device->copy_to_host(&found, mine, sizeof found, options.stream);
    wrong += found != float(i + 3);
  };
  for (int i = 0; i < specialisations(); ++i) launch(0, i);  // makes them ready
  launch_for(seconds / 4, launch);
  const size_t before = resident_bytes();
  const long launches = launch_for(seconds, launch);
  const size_t after = resident_bytes();
  fmt::print("{} launches of {} specialisations by {} threads in {} s on {}: {} MB resident before, {} MB behind\n",
             launches, specialisations(), kThreads, seconds, device->info().name, before >> 20, after >> 20);
  EXPECT_EQ(wrong, 0);
  EXPECT_LT(after, before + before / 20 + (4 << 20));
}

// The child of the test below: a server's life, with a call that strace sees where the process is sealed, and at the
// end.
TEST(Sealed, DISABLED_Server) {
  Device* const device = default_device();
  const fs::path folder = std::getenv("TEGULA_CACHE_DIR");
  std::ofstream(folder / "fill.py") << kText;
  std::string lines;
  for (int i = 0; i < specialisations(); ++i)
    lines += fmt::format("{}::fill --arg 'x=*f32' --arg n=i32 --constexpr N={} --num-warps 1\n",
                         (folder / "fill.py").string(), i);
  const size_t ready = prewarm(*device, parse_kernel_list(lines, "list"));
  ASSERT_EQ(ready, size_t(specialisations()));
  const Kernel fill = Program::load(folder / "fill.py").kernel("fill");
  const Buffer x = Buffer::zeros(*device, 4 * kElements);
  seal();
  access("/tegula/sealed", F_OK);
  int wrong = 0;
  for (int i = 0; i < specialisations(); ++i) {
    fill.launch(*device, {1}, options_of(i), x.as<float>(), 3);  // what is not ready would be a LaunchError
    wrong += x.download<float>()[0] != float(i + 3);
  }
  access("/tegula/done", F_OK);
  EXPECT_EQ(wrong, 0);
}

TEST(Sealed, OpensNoFile) {
  if (std::system("strace -o /dev/null true 2>/dev/null")) GTEST_SKIP() << "strace is not there, or may not trace";
  std::string name = (fs::temp_directory_path() / "tegula-sealed-XXXXXX").string();
  const fs::path folder = mkdtemp(name.data());
  // The search for leaks traces the process itself.
  const std::string command = fmt::format(
      "ASAN_OPTIONS=detect_leaks=0 TEGULA_CACHE_DIR='{0}' strace -f -qq -e trace=%file -o '{0}/log' '{1}' "
      "--gtest_filter=Sealed.DISABLED_Server "
      "--gtest_also_run_disabled_tests > '{0}/out' 2>&1",
      folder.string(), fs::read_symlink("/proc/self/exe").string());
  const int status = std::system(command.c_str());
  auto text = [&](const char* file) {
    std::ifstream in(folder / file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  EXPECT_EQ(status, 0) << text("out");
  const std::string log = text("log");
  const size_t sealed = log.find("\"/tegula/sealed\""), done = log.find("\"/tegula/done\"");
  ASSERT_TRUE(sealed != log.npos && done != log.npos) << log.substr(0, 2000);
  EXPECT_NE(log.find("fill.py"), log.npos);  // files that are opened before are seen
  const size_t begin = log.find('\n', sealed) + 1, end = log.rfind('\n', done) + 1;
  EXPECT_EQ(log.substr(begin, end - begin), "");
  fs::remove_all(folder);
}

}  // namespace
}  // namespace tegula
