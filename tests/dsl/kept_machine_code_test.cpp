// What the cache keeps of kernels whose warps pass registers to each other: machine code by ptxas, where that is found.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "dsl/listing/assembler.h"
#include "dsl/tegula.h"
#include "runtime/base/files.h"
#include "runtime/store/image_cache.h"
#include "tests/assembler.h"
#include "tests/runtime/fake_gpu.h"

namespace tegula {
namespace {

namespace fs = std::filesystem;

const std::string kProduct = R"(import triton
import triton.language as tl

@triton.jit
def product(c, a, b, K, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for i in range(0, K, BLOCK_K):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :])
        y = tl.load(b + (i + k)[:, None] * N + n[None, :])
        sums = tl.dot(x, y, sums)
    tl.store(c + m[:, None] * N + n[None, :], sums.to(tl.float16))
)";

/// Variables of the environment that a test changes.
class Environment {
 public:
  ~Environment() {
    for (const auto& [name, value] : before_)
      if (value)
        setenv(name.c_str(), value->c_str(), 1);
      else
        unsetenv(name.c_str());
  }
  void set(const char* name, std::optional<std::string> value) {
    const char* now = std::getenv(name);
    before_.emplace(name, now ? std::optional<std::string>(now) : std::nullopt);
    if (value)
      setenv(name, value->c_str(), 1);
    else
      unsetenv(name);
  }

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

class KeptMachineCode : public testing::Test {
 protected:
  KeptMachineCode() {
    std::string name = (fs::temp_directory_path() / "tegula-kept-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    gpu_.assemble = [&](KernelImage& image) {
      if (!takes_cubins) image.cubin.clear();
      loaded_ = image;
    };
  }
  ~KeptMachineCode() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  /// A ptxas that runs these lines; $out is the file that it is to make.
  std::string program(const std::string& file, const std::string& lines) {
    const fs::path path = folder_ / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "#!/bin/sh\nwhile [ $# -gt 0 ]; do [ $1 = -o ] && out=$2; shift; done\n" << lines;
    fs::permissions(path, fs::perms::owner_all);
    return path.string();
  }
  std::string working_ptxas() {
    return program("ptxas", "echo run >> " + (folder_ / "runs").string() +
                                "\nprintf code > $out\necho 'ptxas info : Used 99 registers'\n");
  }
  int64_t runs() const {
    std::ifstream file(folder_ / "runs");
    return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
  }

  Kernel product() const {
    Program program = Program::parse(kProduct);
    program.set_cache(std::make_unique<ImageCache>(ImageCache::Options{.folder = folder_ / "cache"}));
    return program.kernel("product");
  }

  void prepare(const Kernel& kernel, int num_warps) {
    const ArgType matrix{.elem = Elem::F16, .pointer = true, .divisible_by = 16};
    const ArgType number{.elem = Elem::I32, .divisible_by = 16};
    LaunchOptions options{.constexprs = {{"BLOCK_M", 128}, {"BLOCK_N", num_warps * 32}, {"BLOCK_K", 64}},
                          .num_warps = num_warps};
    options.num_stages = 3;
    const std::vector<ArgType> types{matrix, matrix, matrix, number, number};
    kernel.prepare(gpu_, types, options);
  }

  /// What the GPU is given of the product, as a process would that has yet to look into the cache.
  KernelImage load(int num_warps = 8) {
    prepare(product(), num_warps);
    return loaded_;
  }

  fs::path folder_;
  FakeGpu gpu_;
  KernelImage loaded_;
  bool takes_cubins = true;
  Environment environment_;
};

std::string text(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

TEST_F(KeptMachineCode, PtxasIsLookedFor) {
  environment_.set("PATH", (folder_ / "empty").string() + "::" + (folder_ / "path").string());
  environment_.set("CUDA_HOME", (folder_ / "home").string());
  environment_.set("CUDA_PATH", (folder_ / "toolkit").string());
  environment_.set("TEGULA_PTXAS", std::nullopt);
  fs::create_directories(folder_ / "empty/ptxas");  // no program
  const std::string third = program("toolkit/bin/ptxas", ""), second = program("home/bin/ptxas", "");
  EXPECT_EQ(find_ptxas(), second);
  const std::string first = program("path/ptxas", "");
  EXPECT_EQ(find_ptxas(), first);
  environment_.set("TEGULA_PTXAS", third);
  EXPECT_EQ(find_ptxas(), third);
  environment_.set("TEGULA_PTXAS", "");
  EXPECT_EQ(find_ptxas(), std::nullopt);
  EXPECT_EQ(why_no_ptxas(), "TEGULA_PTXAS is empty, so ptxas is not used");
  environment_.set("TEGULA_PTXAS", "/nonexistent/ptxas");
  EXPECT_EQ(find_ptxas(), std::nullopt);
  EXPECT_EQ(why_no_ptxas(), "TEGULA_PTXAS is '/nonexistent/ptxas', which is no program");
  environment_.set("TEGULA_PTXAS", std::nullopt);
  EXPECT_EQ(why_no_ptxas(), "ptxas is not in PATH, CUDA_HOME, CUDA_PATH or /usr/local/cuda/bin");
}

TEST_F(KeptMachineCode, IsMadeOnceAndLoadedFromThenOn) {
  environment_.set("TEGULA_PTXAS", working_ptxas());
  const KernelImage first = load();
  EXPECT_TRUE(first.moves_registers());
  EXPECT_EQ(text(first.cubin), "code");
  EXPECT_EQ(first.registers, 99);
  EXPECT_EQ(load(), first);
  EXPECT_EQ(runs(), 1);
}

TEST_F(KeptMachineCode, IsMadeOnceForThreadsThatAskAtATime) {
  environment_.set("TEGULA_PTXAS",
                   program("ptxas", "echo run >> " + (folder_ / "runs").string() + "\nsleep .2\nprintf code > $out\n"));
  const Kernel kernel = product();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { prepare(kernel, 8); });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(text(loaded_.cubin), "code");
  EXPECT_EQ(runs(), 1);
}

TEST_F(KeptMachineCode, OfOtherKernelsIsTheDrivers) {
  environment_.set("TEGULA_PTXAS", working_ptxas());
  EXPECT_FALSE(load(4).moves_registers());
  EXPECT_EQ(runs(), 0);
}

TEST_F(KeptMachineCode, IsMadeOfWhatTheCacheHasAsPtxAlone) {
  environment_.set("TEGULA_PTXAS", "");
  EXPECT_TRUE(load().cubin.empty());
  EXPECT_TRUE(load().cubin.empty());
  environment_.set("TEGULA_PTXAS", working_ptxas());
  EXPECT_EQ(text(load().cubin), "code");
  environment_.set("TEGULA_PTXAS", "");
  EXPECT_EQ(text(load().cubin), "code");
  EXPECT_EQ(runs(), 1);
}

// In processes of their own: a ptxas that fails is left alone from then on.
TEST_F(KeptMachineCode, IsLeftToTheDriverWherePtxasFails) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  auto in_child = [&](auto call) {
    EXPECT_EXIT(
        {
          call();
          std::_Exit(testing::Test::HasFailure());
        },
        testing::ExitedWithCode(0), "");
  };
  in_child([&] {
    environment_.set("TEGULA_PTXAS", program("ptxas", "echo run >> " + (folder_ / "runs").string() + "\nexit 1\n"));
    EXPECT_TRUE(load().cubin.empty());
    EXPECT_FALSE(loaded_.ptx.empty());
    EXPECT_TRUE(load().cubin.empty());
    EXPECT_EQ(runs(), 1);
  });
  in_child([&] {
    takes_cubins = false;  // as a driver that is older than ptxas
    environment_.set("TEGULA_PTXAS", working_ptxas());
    EXPECT_TRUE(load().cubin.empty());
    EXPECT_FALSE(load().ptx.empty());
    EXPECT_EQ(runs(), 1);
  });
}

TEST_F(KeptMachineCode, IsMadeByPtxas) {
  SKIP_WITHOUT_PTXAS();
  environment_.set("TEGULA_PTXAS", installed_ptxas()->string());
  const KernelImage image = load();
  ASSERT_GT(image.cubin.size(), 4u);
  EXPECT_EQ(text(image.cubin).substr(1, 3), "ELF");
  EXPECT_GT(image.registers, 64);
  EXPECT_EQ(image.spill_bytes, 0);
}

}  // namespace
}  // namespace tegula
