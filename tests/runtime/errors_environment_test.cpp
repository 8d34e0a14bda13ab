// label: device
// What a user reads when the environment refuses: devices, the driver, faults of kernels, the cache's folder; and many
// at the same time.
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "codegen/exec/emulator.h"
#include "runtime/cuda_device.h"
#include "tests/dsl/errors_fixture.h"
#include "tests/runtime/fake_driver.h"

namespace tegula {
namespace {

using ErrorsEnvironmentTest = ErrorsTest;

// ---- Devices

// The default device is chosen once a process, so each choice takes a process of its own (main below). A mistake in the
// environment can be put right in the same process.
TEST_F(ErrorsEnvironmentTest, DefaultDevice) {
  auto message = [&](const char* device, const char* target) {
    std::string command = fmt::format("TEGULA_DEVICE={} TEGULA_TARGET={} {} --default-device", device, target,
                                      fs::read_symlink("/proc/self/exe").string());
    std::string out;
    FILE* pipe = popen(command.c_str(), "r");
    char buffer[4096];
    while (size_t n = fread(buffer, 1, sizeof(buffer), pipe)) out.append(buffer, n);
    EXPECT_EQ(pclose(pipe), 0);
    return out;
  };
  EXPECT_EQ(message("nonsense", "sm_80"), "TEGULA_DEVICE is 'nonsense', expected 'gpu' or 'emulator'");
  EXPECT_EQ(message("emulator", "sm_12"),
            "the emulator knows no target 'sm_12'; it knows sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_120a");
  EXPECT_EQ(message("emulator", "sm_80"), "emulator (sm_80): TEGULA_DEVICE asks for the emulator");
}

class FakeDriver {
 public:
  FakeDriver() { cuda::fake::state = &state; }
  ~FakeDriver() { cuda::fake::state = nullptr; }
  std::unique_ptr<Device> open() {
    return open_cuda_device(cuda::Driver::from(cuda::fake::lookup), 0,
                            {.warm_assembler = false, .assembler_library = "", .on_assembled = {}});
  }
  cuda::fake::State state;
};

/// Launches `add` on a fake GPU: compiles, assembles, and asks the driver to start it.
std::string launch_on_fake(const Program& program, Device& gpu, const Buffer& buffer, int n) {
  return message_of([&] {
    program.kernel("add").launch(gpu, {8}, {.constexprs = {{"BLOCK", 128}}}, buffer.as<float>(), buffer.as<float>(), n,
                                 16);
  });
}

// Without a GPU the driver's words say why, and the emulator serves.
TEST_F(ErrorsEnvironmentTest, NoGpuOrNoDriverForIt) {
  EXPECT_EQ(message_of<DeviceError>([] { cuda::Driver::open("libno-such-cuda.so.1"); }),
            "no CUDA driver: libno-such-cuda.so.1 cannot be loaded (libno-such-cuda.so.1: cannot open shared object "
            "file: No such file or directory)\n"
            "  hint: install the NVIDIA driver (CUDA 12.0 or later); without a GPU, programs that link "
            "libtegula run on the emulator (TEGULA_DEVICE=emulator)");
  FakeDriver fake;
  fake.state.device_count = 0;
  EXPECT_EQ(
      message_of<DeviceError>([&] { fake.open(); }),
      "cuDeviceGetCount failed: CUDA_ERROR_NO_DEVICE (the driver's words)\n"
      "  hint: the driver finds no GPU: see nvidia-smi and CUDA_VISIBLE_DEVICES; without a GPU, programs that link "
      "libtegula run on the emulator (TEGULA_DEVICE=emulator)");
  fake.state.device_count = 1;
  fake.state.version = 11080;
  EXPECT_EQ(message_of<DeviceError>([&] { fake.open(); }),
            "the CUDA driver is too old: it supports CUDA 11.8, Tegula needs 12.0 or later\n"
            "  hint: update the NVIDIA driver; meanwhile the emulator can be used");
  fake.state.version = 12040;
  {
    auto gpu = fake.open();
    Buffer buffer(*gpu, 64);
    Program program = program_of(kAdd);
    program.set_cache(nullptr);
    EXPECT_EQ(launch_on_fake(program, *gpu, buffer, 2), "no error");
    EXPECT_EQ(fake.state.count("cuLaunchKernelEx"), 1);
    EXPECT_EQ(fake.state.block[0], 128u);
  }
  auto emulator = make_emulator();
  Buffer x(*emulator, iota()), out(*emulator, 4000);
  expect_works(good_, *emulator, x, out);
}

TEST_F(ErrorsEnvironmentTest, TheDriverRefuses) {
  FakeDriver fake;
  auto gpu = fake.open();
  Buffer buffer(*gpu, 64);
  Program program = program_of(kAdd);
  auto cache = cache_at(root_);
  program.set_cache(cache);
  // Its assembler: nothing is kept, and the next try assembles anew.
  fake.state.fail["cuLinkAddData_v2"] = cuda::Result::UnsupportedPtxVersion;
  EXPECT_EQ(launch_on_fake(program, *gpu, buffer, 2),
            "cuLinkAddData_v2 failed: CUDA_ERROR_UNSUPPORTED_PTX_VERSION (the driver's words)\n"
            "  note: kernel 'add' is PTX 8.0, and the driver supports CUDA 12.4\n"
            "  hint: update the NVIDIA driver to CUDA 12.0 or later, or compile for a lower PTX version");
  fake.state.fail.clear();
  EXPECT_EQ(cache->stats().images, 0);
  // Memory.
  fake.state.fail["cuMemAlloc_v2"] = cuda::Result::OutOfMemory;
  EXPECT_EQ(message_of<DeviceError>([&] { Buffer(*gpu, 1 << 20); }),
            "cuMemAlloc_v2 failed: CUDA_ERROR_OUT_OF_MEMORY (out of memory)\n"
            "  note: asked for 1048576 bytes on Fake GPU, which has 4096 of 1073741824 bytes free\n"
            "  hint: free device memory (other processes on this GPU hold some too: see nvidia-smi) or work on smaller "
            "pieces");
  fake.state.fail.clear();
  // The launch itself.
  fake.state.fail["cuLaunchKernelEx"] = cuda::Result::LaunchOutOfResources;
  EXPECT_EQ(launch_on_fake(program, *gpu, buffer, 2),
            "cuLaunchKernelEx failed: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (the driver's words)\n"
            "  note: kernel 'add', grid 8 x 1 x 1, 128 threads and 0 bytes of shared memory a program\n"
            "  hint: the kernel needs more registers or shared memory than one program may have: try fewer warps, "
            "smaller tiles or fewer stages");
  fake.state.fail.clear();
  EXPECT_EQ(launch_on_fake(program, *gpu, buffer, 2), "no error");
  EXPECT_EQ(cache->stats().images, 1);
  EXPECT_TRUE(warnings_.empty());
}

// A kernel that faulted takes its context with it. What needs no GPU goes on: compiling, the cache, the emulator.
TEST_F(ErrorsEnvironmentTest, IllegalAccessInAnEarlierLaunch) {
  FakeDriver fake;
  auto gpu = fake.open();
  Buffer buffer(*gpu, 64);
  Program program = program_of(kAdd);
  auto cache = cache_at(root_);
  program.set_cache(cache);
  EXPECT_EQ(launch_on_fake(program, *gpu, buffer, 2), "no error");
  fake.state.sticky = cuda::Result::IllegalAddress;
  const std::string lost =
      " failed: CUDA_ERROR_ILLEGAL_ADDRESS (the driver's words)\n"
      "  note: a kernel that ran earlier faulted and spoilt its context: every further call on this GPU fails in this "
      "process\n"
      "  hint: restart the process; the emulator names the kernel, the line and the address of an illegal access";
  EXPECT_EQ(message_of<DeviceLostError>([&] { gpu->synchronize(); }), "cuStreamSynchronize" + lost);
  EXPECT_EQ(message_of<DeviceLostError>([&] { buffer.download<float>(); }), "cuMemcpyDtoHAsync_v2" + lost);
  std::string launch = launch_on_fake(program, *gpu, buffer, 2);
  EXPECT_NE(launch.find(" failed: CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos) << launch;
  EXPECT_NE(launch.find("restart the process"), std::string::npos) << launch;
  EXPECT_EQ(cache->stats().images, 1);
  auto emulator = make_emulator();
  Buffer x(*emulator, iota()), out(*emulator, 4000);
  expect_works(program, *emulator, x, out);
  EXPECT_TRUE(warnings_.empty());
}

// On the emulator such an access is found where it happens, and takes nothing with it.
TEST_F(ErrorsEnvironmentTest, OutOfBoundsOnTheEmulator) {
  auto emulator = make_emulator({.check_bounds = true});
  Buffer x(*emulator, iota()), out(*emulator, 4000);
  Kernel add = good_.kernel("add");
  const LaunchOptions options{.constexprs = {{"BLOCK", 128}}};
  auto launch = [&](int n, int size) {
    return message_of<DeviceError>(
        [&] { add.launch(*emulator, {8}, options, out.as<float>(), x.as<float>(), n, size); });
  };
  EXPECT_EQ(launch(2, 1024),
            fmt::format("kernel 'add': out-of-bounds read of 4 bytes at {:#x}, 0 bytes past the end of a 4000-byte "
                        "allocation (argument 'x')\n  at k.py:7:9, program (7, 0, 0), thread 104",
                        x.address() + 4000));
  expect_works(good_, *emulator, x, out);
  {
    Buffer small(*emulator, 400);
    EXPECT_EQ(
        message_of<DeviceError>([&] { add.launch(*emulator, {1}, options, small.as<float>(), x.as<float>(), 2, 101); }),
        fmt::format("kernel 'add': out-of-bounds write of 4 bytes at {:#x}, 0 bytes past the end of a 400-byte "
                    "allocation (argument 'out')\n  at k.py:8:5, program (0, 0, 0), thread 100",
                    small.address() + 400));
  }
  expect_works(good_, *emulator, x, out);
}

// ---- The cache

class ErrorsCacheTest : public ErrorsTest {
 protected:
  Program program(std::shared_ptr<ImageCache> cache) {
    Program p = program_of(kAdd);
    p.set_cache(std::move(cache));
    return p;
  }
  std::vector<fs::path> images() {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(root_))
      if (entry.path().extension() == ".image") paths.push_back(entry.path());
    return paths;
  }
};

TEST_F(ErrorsCacheTest, DamagedEntryIsCompiledAgain) {
  expect_works(program(cache_at(root_)));
  ASSERT_EQ(images().size(), 1u);
  const fs::path path = images()[0];
  const auto size = fs::file_size(path);
  for (int kind = 0; kind < 3; ++kind) {
    if (kind == 0) fs::resize_file(path, size / 2);
    if (kind == 1) fs::resize_file(path, 0);
    if (kind == 2) {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(long(size / 2));
      char c = char(file.peek());
      file.seekp(long(size / 2));
      file.put(char(c ^ 1));
    }
    warnings_.clear();
    expect_works(program(cache_at(root_)));
    ASSERT_EQ(warnings_.size(), 1u) << kind;
    EXPECT_EQ(warnings_[0], fmt::format("cached image {} is damaged ({}); it was removed and is compiled again",
                                        path.string(), kind < 2 ? "it is truncated" : "its digest does not match"));
    EXPECT_EQ(fs::file_size(path), size);
  }
  warnings_.clear();
  expect_works(program(cache_at(root_)));
  EXPECT_TRUE(warnings_.empty());
}

// A string may hold what the text of a specialisation is made of: it is still another one.
TEST_F(ErrorsCacheTest, StringsOfConstexprsDoNotImitateOthers) {
  Program program = program_of(R"(def k(out, A: tl.constexpr, B: tl.constexpr = "other"):
    tl.store(out, 1 if B == "y" else 2)
)");
  program.set_cache(cache_at(root_));
  Kernel kernel = program.kernel("k");
  auto result = [&](std::vector<ConstexprArg> constexprs) {
    kernel.launch(*device_, {1}, {.constexprs = std::move(constexprs)}, out_.as<int>());
    return out_.download<int>()[0];
  };
  EXPECT_EQ(result({{"A", "x"}, {"B", "y"}}), 1);
  EXPECT_EQ(result({{"A", "x' B='y"}}), 2);
  EXPECT_EQ(result({{"A", "1:'x' B=1:'y"}}), 2);
}

// What is to be printed on the way has to be compiled, whatever the cache has.
TEST_F(ErrorsCacheTest, ADumpIsPrintedInSpiteOfTheCache) {
  expect_works(program(cache_at(root_)));
  setenv("TEGULA_DUMP", "stage_operands", 1);
  testing::internal::CaptureStderr();
  expect_works(program(cache_at(root_)));
  std::string said = testing::internal::GetCapturedStderr();
  unsetenv("TEGULA_DUMP");
  EXPECT_TRUE(said.starts_with("// ---- after stage_operands\nfunc @add(")) << said;
  EXPECT_EQ(images().size(), 1u);
}

TEST_F(ErrorsCacheTest, FolderThatCannotBeUsed) {
  std::ofstream(root_ / "file").close();
  auto cache = cache_at(root_ / "file" / "cache");
  expect_works(program(cache));
  expect_works(program(cache));
  EXPECT_EQ(warnings_, std::vector<std::string>{"compiled kernels are not kept on disk: folder " +
                                                (root_ / "file" / "cache").string() +
                                                " cannot be made (Not a directory)\n  hint: TEGULA_CACHE_DIR names "
                                                "another folder, TEGULA_CACHE_SIZE=0 keeps none"});
  warnings_.clear();
  expect_works(program(cache_at("/sys/kernel")));  // where not even root makes files
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_TRUE(
      warnings_[0].starts_with("compiled kernels are not kept on disk: folder /sys/kernel cannot be written to ("))
      << warnings_[0];
}

// A limit on file size stands for a disk that is full in the middle of a file.
TEST_F(ErrorsCacheTest, FullDisk) {
  expect_works(program(cache_at(root_)));
  ASSERT_EQ(images().size(), 1u);
  auto old_handler = signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit limit{1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  Program other = program_of(kAdd + "\n@triton.jit\ndef two(x):\n    tl.store(x, 2.0)\n");
  auto cache = cache_at(root_);
  other.set_cache(cache);
  Buffer y(*device_, 4);
  std::string message = message_of([&] { other.kernel("two").launch(*device_, {1}, {}, y.as<float>()); });
  size_t found = cache->stats().images;
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, old_handler);
  EXPECT_EQ(message, "no error");
  EXPECT_EQ(y.download<float>()[0], 2);
  EXPECT_EQ(found, 1u);  // the entry that was there, and no part of a new one
  EXPECT_EQ(warnings_, std::vector<std::string>{"compiled kernels are not kept on disk: folder " + root_.string() +
                                                " cannot be written to (File too large)\n  hint: TEGULA_CACHE_DIR "
                                                "names another folder, TEGULA_CACHE_SIZE=0 keeps none"});
  warnings_.clear();
  expect_works(program(cache_at(root_)));
  EXPECT_TRUE(warnings_.empty());
}

// ---- At the same time

TEST_F(ErrorsCacheTest, EightThreadsLaunchFirst) {
  Program shared = program(cache_at(root_));
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, n = t < 7 ? 4 * t + 2 : 32] {
      Buffer out(*device_, 4000);
      shared.kernel("add").launch(*device_, {8}, {.constexprs = {{"BLOCK", 128}}}, out.as<float>(), x_.as<float>(), n,
                                  1000);
      right += out.download<float>()[999] == float(999 + n);
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(right, 8);
  EXPECT_EQ(images().size(), 1u + 1u);  // n = 32 is a specialisation of its own
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(ErrorsCacheTest, ProgramsAndProcessesShareAFolder) {
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  std::vector<FILE*> pipes;
  for (int i = 0; i < 4; ++i)
    pipes.push_back(popen(fmt::format("{} --first-launch {}", self, root_.string()).c_str(), "r"));
  for (FILE* pipe : pipes) EXPECT_EQ(pclose(pipe), 0);
  ASSERT_EQ(images().size(), 1u);
  auto written = fs::last_write_time(images()[0]);
  Program a = program(cache_at(root_)), b = program(cache_at(root_));
  expect_works(a);
  expect_works(b);
  EXPECT_EQ(images().size(), 1u);
  EXPECT_EQ(fs::file_size(images()[0]) > 0 && fs::last_write_time(images()[0]) >= written, true);
  EXPECT_TRUE(warnings_.empty());
}

// What the processes do that ProgramsAndProcessesShareAFolder starts.
int first_launch(const char* folder) {
  int warned = 0;
  Program program = program_of(kAdd);
  program.set_cache(
      std::make_shared<ImageCache>(ImageCache::Options{folder, -1, [&](const std::string&) { ++warned; }}));
  auto device = default_device();
  std::vector<float> values(1000, 3);
  Buffer x(*device, values), out(*device, 4000);
  program.kernel("add").launch(*device, {8}, {.constexprs = {{"BLOCK", 128}}}, out.as<float>(), x.as<float>(), 2, 1000);
  return warned == 0 && out.download<float>() == std::vector<float>(1000, 5) ? 0 : 1;
}

// What the processes do that DefaultDevice starts.
int choose_device() {
  std::string why;
  try {
    default_device(&why);
  } catch (const Error& error) {
    std::fputs(error.what(), stdout);
    setenv("TEGULA_DEVICE", "emulator", 1);
    setenv("TEGULA_TARGET", "sm_90a", 1);
    return default_device()->info().name == "emulator (sm_90a)" ? 0 : 1;
  }
  std::fputs(why.c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace tegula

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "--default-device") return tegula::choose_device();
  if (mode == "--first-launch") return tegula::first_launch(argv[2]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
