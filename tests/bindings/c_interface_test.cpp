// label: device
// The C interface as C++ sees it: statuses and texts, null handles, lifetimes, callbacks. Its use from C is
// tests/consumer/main.c.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "bindings/tegula.h"
#include "runtime/package/package.h"
#include "tests/expect_contains.h"

namespace {

const char* kText = R"(import triton
import triton.language as tl


@triton.jit
def scale(x, n, factor, BLOCK: tl.constexpr, TYPE: tl.constexpr = tl.float32):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n).to(TYPE) * factor, mask=i < n)


@triton.jit
def add(x, y=None, BLOCK: tl.constexpr = 32):
    i = tl.arange(0, BLOCK)
    if y is not None:
        tl.store(x + i, tl.load(x + i) + tl.load(y + i))


@triton.autotune(configs=[triton.Config({"BLOCK": 64}, num_warps=2)], key=["n"])
@triton.jit
def tuned(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)
)";

tegula_options options_with(const tegula_constexpr& constexpr_) {
  tegula_options options{};
  options.struct_size = sizeof(tegula_options);
  options.constexprs = &constexpr_;
  options.num_constexprs = 1;
  return options;
}

class CInterface : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(tegula_device_default(&device), TEGULA_OK) << tegula_last_error();
    ASSERT_EQ(tegula_program_parse(kText, "test.py", &program), TEGULA_OK) << tegula_last_error();
    ASSERT_EQ(tegula_program_kernel(program, "scale", &scale), TEGULA_OK) << tegula_last_error();
    ASSERT_EQ(tegula_buffer_create(device, 100 * sizeof(float), &buffer), TEGULA_OK) << tegula_last_error();
    std::vector<float> x(100, 3.0f);
    ASSERT_EQ(tegula_buffer_upload(buffer, 0, x.data(), 400, nullptr), TEGULA_OK) << tegula_last_error();
    args = {tegula_pointer(tegula_buffer_address(buffer), TEGULA_FLOAT32), tegula_int(100), tegula_double(0.5)};
  }
  void TearDown() override {
    tegula_kernel_release(scale);
    tegula_program_release(program);
    tegula_buffer_release(buffer);
    tegula_device_release(device);
  }
  std::vector<float> values() {
    std::vector<float> x(100);
    EXPECT_EQ(tegula_buffer_download(buffer, 0, x.data(), 400, nullptr), TEGULA_OK) << tegula_last_error();
    return x;
  }
  tegula_status launch(const tegula_options* how, uint32_t grid = 4) {
    return tegula_kernel_launch(scale, device, grid, 1, 1, how, nullptr, args.data(), args.size());
  }

  tegula_device* device = nullptr;
  tegula_program* program = nullptr;
  tegula_kernel* scale = nullptr;
  tegula_buffer* buffer = nullptr;
  std::vector<tegula_value> args;
  tegula_constexpr block{"BLOCK", tegula_int(32)};
  tegula_options options = options_with(block);
};

TEST_F(CInterface, Launches) {
  ASSERT_EQ(launch(&options), TEGULA_OK) << tegula_last_error();
  EXPECT_EQ(values(), std::vector<float>(100, 1.5f));
  options.num_warps = 8;
  ASSERT_EQ(launch(&options), TEGULA_OK) << tegula_last_error();
  EXPECT_EQ(values(), std::vector<float>(100, 0.75f));
  ASSERT_EQ(launch(&options, 0), TEGULA_OK) << tegula_last_error();
  EXPECT_EQ(values(), std::vector<float>(100, 0.75f));
}

TEST_F(CInterface, TellsWhatIsWrong) {
  EXPECT_EQ(launch(nullptr), TEGULA_LAUNCH_ERROR);
  EXPECT_CONTAINS(tegula_last_error(), "kernel 'scale': the constexpr parameter 'BLOCK' has no value");
  options.num_warps = 5;
  EXPECT_EQ(launch(&options), TEGULA_LAUNCH_ERROR);
  EXPECT_CONTAINS(tegula_last_error(), "num_warps is 5, expected 1, 2, 4, 8, 16 or 32");
  options.num_warps = 4;
  args[1] = tegula_string("100");
  EXPECT_EQ(launch(&options), TEGULA_USAGE_ERROR);
  EXPECT_STREQ(tegula_last_error(),
               "a value of tegula_kind 6, expected an argument: none, pointer, int, uint, double, bool or descriptor");
  args[1] = tegula_int(100);
  args[0].dtype = 99;
  EXPECT_EQ(launch(&options), TEGULA_USAGE_ERROR);
  EXPECT_STREQ(tegula_last_error(), "99 is no tegula_dtype");
  args[0].dtype = TEGULA_FLOAT32;
  options.struct_size = 8;
  EXPECT_EQ(launch(&options), TEGULA_USAGE_ERROR);
  EXPECT_CONTAINS(tegula_last_error(), "tegula_options.struct_size is 8, expected");
  struct {
    tegula_options options;
    int64_t later;
  } longer = {options, 0};
  longer.options.struct_size = sizeof longer;
  EXPECT_EQ(launch(&longer.options), TEGULA_OK) << tegula_last_error();
  longer.later = 1;
  EXPECT_EQ(launch(&longer.options), TEGULA_USAGE_ERROR);
  EXPECT_CONTAINS(tegula_last_error(), "tegula_options sets a field that this version of Tegula does not have");
  longer = {options, 0};
  longer.options.struct_size = sizeof options;
  longer.options.reserved = 1;
  EXPECT_EQ(launch(&longer.options), TEGULA_USAGE_ERROR);

  tegula_program* other = program;
  EXPECT_EQ(tegula_program_parse("@triton.jit\ndef k(:\n  pass\n", "bad.py", &other), TEGULA_COMPILE_ERROR);
  EXPECT_EQ(other, program);  // as it was
  EXPECT_CONTAINS(tegula_last_error(), "bad.py:2");
  EXPECT_EQ(tegula_program_load("/nowhere/k.py", &other), TEGULA_FILE_ERROR);
  EXPECT_STREQ(tegula_last_error(), "cannot read '/nowhere/k.py': No such file or directory");
  tegula_kernel* kernel = nullptr;
  EXPECT_EQ(tegula_program_kernel(program, "skale", &kernel), TEGULA_COMPILE_ERROR);
  EXPECT_CONTAINS(tegula_last_error(), "did you mean 'scale'?");
  tegula_device* none = nullptr;
  EXPECT_EQ(tegula_device_emulator("sm_1", &none), TEGULA_DEVICE_ERROR);
  EXPECT_CONTAINS(tegula_last_error(), "the emulator knows no target 'sm_1'");
}

TEST_F(CInterface, TellsMistakesOfOurs) {
  tegula_image* image = nullptr;
  setenv("TEGULA_FAIL", "canonicalize", 1);
  EXPECT_EQ(tegula_kernel_compile(scale, "sm_80", &options, args.data(), 3, &image), TEGULA_INTERNAL_ERROR);
  unsetenv("TEGULA_FAIL");
  EXPECT_EQ(image, nullptr);
  EXPECT_EQ(tegula_num_diagnostics(), 0u);
  EXPECT_CONTAINS(tegula_last_error(), "internal error at codegen/passes/pass_manager.cpp:");
  EXPECT_CONTAINS(tegula_last_error(), "while compiling kernel 'scale' for sm_80 by tegula ");
  EXPECT_CONTAINS(tegula_last_error(), "please report it");
  ASSERT_EQ(tegula_kernel_compile(scale, "sm_80", &options, args.data(), 3, &image), TEGULA_OK) << tegula_last_error();
  tegula_image_release(image);
}

TEST_F(CInterface, TellsMistakesOneByOne) {
  tegula_program* bad = nullptr;
  EXPECT_EQ(tegula_program_parse("@triton.jit\ndef k(:\n  pass\n", "bad.py", &bad), TEGULA_COMPILE_ERROR);
  ASSERT_EQ(tegula_num_diagnostics(), 1u);
  tegula_diagnostic d = {sizeof(tegula_diagnostic), nullptr, 0, 0, nullptr, nullptr};
  ASSERT_EQ(tegula_get_diagnostic(0, &d), TEGULA_OK);
  EXPECT_STREQ(d.file, "bad.py");
  EXPECT_EQ(d.line, 2);
  EXPECT_GT(d.column, 0);
  EXPECT_CONTAINS(tegula_last_error(), d.message);
  EXPECT_EQ(tegula_get_diagnostic(1, &d), TEGULA_USAGE_ERROR);
  EXPECT_EQ(tegula_num_diagnostics(), 1u);
  EXPECT_EQ(launch(nullptr), TEGULA_LAUNCH_ERROR);
  EXPECT_EQ(tegula_num_diagnostics(), 0u);
}

TEST_F(CInterface, HandsOnMessages) {
  using Messages = std::vector<std::pair<tegula_message_kind, std::string>>;
  Messages told;
  auto handler = [](void* user, tegula_message_kind kind, const char* text) {
    static_cast<Messages*>(user)->emplace_back(kind, text);
  };
  tegula_set_message_handler(handler, &told);
  tegula_program* noisy = nullptr;
  tegula_kernel* kernel = nullptr;
  ASSERT_EQ(
      tegula_program_parse("import triton.language as tl\n@triton.jit\ndef k(x, N: tl.constexpr):\n    "
                           "tl.static_print(N, x)\n    y = tl.program_id(0) % (N - N)\n    tl.store(x + N, 1.0)\n",
                           "noisy.py", &noisy),
      TEGULA_OK);
  ASSERT_EQ(tegula_program_kernel(noisy, "k", &kernel), TEGULA_OK);
  for (int64_t n : {1, 2, 1}) {
    tegula_constexpr constexprs{"N", tegula_int(n)};
    tegula_options how = options_with(constexprs);
    uint8_t written = 0;
    EXPECT_EQ(tegula_kernel_written_args(kernel, &how, args.data(), 1, &written), TEGULA_OK) << tegula_last_error();
    EXPECT_EQ(written, 1);
  }
  tegula_set_message_handler(nullptr, nullptr);
  tegula_kernel_release(kernel);
  tegula_program_release(noisy);
  EXPECT_EQ(told, (Messages{{TEGULA_PRINT, "1 pointer<fp32>[]"},
                            {TEGULA_WARNING,
                             "noisy.py:5:29: the divisor is 0: what this gives is undefined\n"
                             "        y = tl.program_id(0) % (N - N)\n                                ^~~~~\n"
                             "  hint: it follows from compile-time values of this launch\n"
                             "  see docs/language.md#statements"},
                            {TEGULA_PRINT, "2 pointer<fp32>[]"}}));
}

TEST_F(CInterface, NullHandlesAreUsageErrors) {
  EXPECT_EQ(tegula_kernel_launch(nullptr, device, 1, 1, 1, nullptr, nullptr, nullptr, 0), TEGULA_USAGE_ERROR);
  EXPECT_STREQ(tegula_last_error(), "'kernel' is NULL");
  EXPECT_EQ(tegula_kernel_launch(scale, nullptr, 1, 1, 1, nullptr, nullptr, nullptr, 0), TEGULA_USAGE_ERROR);
  EXPECT_STREQ(tegula_last_error(), "'device' is NULL");
  EXPECT_EQ(tegula_kernel_launch(scale, device, 1, 1, 1, nullptr, nullptr, nullptr, 3), TEGULA_USAGE_ERROR);
  EXPECT_STREQ(tegula_last_error(), "'args' is NULL");
  EXPECT_EQ(tegula_kernel_launch_with(scale, device, nullptr, nullptr, nullptr, nullptr, nullptr, 0),
            TEGULA_USAGE_ERROR);
  EXPECT_STREQ(tegula_last_error(), "'grid' is NULL");
  EXPECT_EQ(tegula_program_parse(nullptr, nullptr, &program), TEGULA_USAGE_ERROR);
  EXPECT_EQ(tegula_device_default(nullptr), TEGULA_USAGE_ERROR);
  EXPECT_EQ(tegula_buffer_create(device, 1, nullptr), TEGULA_USAGE_ERROR);
  tegula_kernel_release(nullptr);
  tegula_program_release(nullptr);
  tegula_device_release(nullptr);
  tegula_image_release(nullptr);
  EXPECT_EQ(tegula_program_num_kernels(nullptr), 0u);
  EXPECT_EQ(tegula_program_kernel_name(program, 99), nullptr);
}

TEST_F(CInterface, ErrorsBelongToTheirThread) {
  EXPECT_EQ(launch(nullptr), TEGULA_LAUNCH_ERROR);
  std::string mine = tegula_last_error();
  std::thread([&] {
    EXPECT_STREQ(tegula_last_error(), "");
    EXPECT_EQ(tegula_device_default(nullptr), TEGULA_USAGE_ERROR);
  }).join();
  EXPECT_EQ(mine, tegula_last_error());
}

TEST_F(CInterface, SignaturesAndDefaults) {
  ASSERT_EQ(tegula_program_num_kernels(program), 3u);
  EXPECT_STREQ(tegula_program_kernel_name(program, 1), "add");
  ASSERT_EQ(tegula_kernel_num_params(scale), 5u);
  tegula_param param;
  ASSERT_EQ(tegula_kernel_param(scale, 4, &param), TEGULA_OK);
  EXPECT_STREQ(param.name, "TYPE");
  EXPECT_TRUE(param.is_constexpr && param.has_default);
  EXPECT_EQ(tegula_kernel_param(scale, 5, &param), TEGULA_USAGE_ERROR);

  // The last arguments may be missing; a kernel outlives its program.
  tegula_kernel* add = nullptr;
  ASSERT_EQ(tegula_program_kernel(program, "add", &add), TEGULA_OK);
  tegula_program_release(std::exchange(program, nullptr));
  EXPECT_EQ(tegula_kernel_launch(add, device, 1, 1, 1, nullptr, nullptr, args.data(), 1), TEGULA_OK)
      << tegula_last_error();
  std::vector<tegula_value> both{args[0], args[0]};
  EXPECT_EQ(tegula_kernel_launch(add, device, 1, 1, 1, nullptr, nullptr, both.data(), 2), TEGULA_OK)
      << tegula_last_error();
  both[1] = tegula_none();
  EXPECT_EQ(tegula_kernel_launch(add, device, 1, 1, 1, nullptr, nullptr, both.data(), 2), TEGULA_OK)
      << tegula_last_error();
  std::vector<float> x = values();
  EXPECT_EQ(x[31], 6);
  EXPECT_EQ(x[32], 3);
  tegula_kernel_release(add);
}

struct Calls {
  std::vector<const tegula_config*> configs;
  tegula_status answer = TEGULA_OK;
};

tegula_status grid_of(void* user, const tegula_config* config, uint32_t grid[3]) {
  auto& calls = *static_cast<Calls*>(user);
  calls.configs.push_back(config);
  if (calls.answer) {
    tegula_set_error("no grid today");
    return calls.answer;
  }
  int64_t block = 0;
  tegula_status status = tegula_config_int(config, "BLOCK", &block);
  grid[0] = uint32_t((100 + block - 1) / block);
  return status;
}

TEST_F(CInterface, GridsFollowTheConfiguration) {
  Calls calls;
  auto launch_with = [&](tegula_kernel* kernel, const tegula_options* how, size_t count) {
    return tegula_kernel_launch_with(kernel, device, grid_of, &calls, how, nullptr, args.data(), count);
  };
  ASSERT_EQ(launch_with(scale, &options, 3), TEGULA_OK) << tegula_last_error();
  ASSERT_EQ(launch_with(scale, &options, 3), TEGULA_OK) << tegula_last_error();
  ASSERT_EQ(calls.configs.size(), 2u);
  EXPECT_EQ(calls.configs[0], calls.configs[1]);
  EXPECT_STREQ(tegula_config_text(calls.configs[0]), "BLOCK=32 num_warps=4 num_stages=3");
  ASSERT_EQ(tegula_config_num_constexprs(calls.configs[0]), 1u);
  tegula_constexpr c;
  ASSERT_EQ(tegula_config_constexpr(calls.configs[0], 0, &c), TEGULA_OK);
  EXPECT_STREQ(c.name, "BLOCK");
  EXPECT_EQ(c.value.as.i, 32);
  int64_t value = 0;
  EXPECT_EQ(tegula_config_int(calls.configs[0], "num_warps", &value), TEGULA_OK);
  EXPECT_EQ(value, 4);
  EXPECT_EQ(tegula_config_int(calls.configs[0], "BLOK", &value), TEGULA_LAUNCH_ERROR);
  EXPECT_CONTAINS(tegula_last_error(), "did you mean 'BLOCK'?");
  EXPECT_EQ(values(), std::vector<float>(100, 0.75f));

  calls.answer = TEGULA_OTHER_ERROR;
  EXPECT_EQ(launch_with(scale, &options, 3), TEGULA_OTHER_ERROR);
  EXPECT_STREQ(tegula_last_error(), "no grid today");
  calls.answer = TEGULA_OK;

  tegula_kernel* tuned = nullptr;
  ASSERT_EQ(tegula_program_kernel(program, "tuned", &tuned), TEGULA_OK) << tegula_last_error();
  int32_t is_tuned = 0;
  EXPECT_EQ(tegula_kernel_is_tuned(tuned, &is_tuned), TEGULA_OK) << tegula_last_error();
  EXPECT_EQ(is_tuned, 1);
  EXPECT_EQ(tegula_kernel_is_tuned(scale, &is_tuned), TEGULA_OK);
  EXPECT_EQ(is_tuned, 0);
  ASSERT_EQ(launch_with(tuned, nullptr, 2), TEGULA_OK) << tegula_last_error();
  EXPECT_CONTAINS(tegula_config_text(calls.configs.back()), "BLOCK=64 num_warps=2");
  tegula_kernel_release(tuned);
}

TEST_F(CInterface, ImagesTellWhatRuns) {
  tegula_image* image = nullptr;
  ASSERT_EQ(tegula_kernel_compile(scale, "sm_80", &options, args.data(), 3, &image), TEGULA_OK) << tegula_last_error();
  EXPECT_CONTAINS(tegula_image_ptx(image), ".target sm_80");
  tegula_image_facts facts{};
  EXPECT_EQ(tegula_image_describe(image, &facts), TEGULA_USAGE_ERROR);
  EXPECT_CONTAINS(tegula_last_error(), "struct_size is 0, expected");
  facts.struct_size = sizeof facts;
  ASSERT_EQ(tegula_image_describe(image, &facts), TEGULA_OK);
  EXPECT_STREQ(facts.target, "sm_80");
  EXPECT_EQ(facts.num_warps, 4);
  tegula_image_release(image);

  Calls calls;
  const tegula_config* config = nullptr;
  ASSERT_EQ(tegula_kernel_prepare(scale, device, grid_of, &calls, &options, nullptr, args.data(), 3, &image, &config),
            TEGULA_OK)
      << tegula_last_error();
  EXPECT_STREQ(tegula_config_text(config), "BLOCK=32 num_warps=4 num_stages=3");
  EXPECT_EQ(values(), std::vector<float>(100, 3.0f));  // nothing ran
  tegula_device_facts about{};
  about.struct_size = sizeof about;
  ASSERT_EQ(tegula_device_describe(device, &about), TEGULA_OK);
  ASSERT_EQ(tegula_image_describe(image, &facts), TEGULA_OK);
  EXPECT_STREQ(facts.target, about.target);
  if (!about.emulator) {
    EXPECT_GT(facts.registers, 0);
  }
  tegula_image_release(image);
}

TEST_F(CInterface, HostMemoryOfTheEmulator) {
  tegula_device* emulator = nullptr;
  ASSERT_EQ(tegula_device_emulator("sm_80", &emulator), TEGULA_OK) << tegula_last_error();
  alignas(16) float x[100];
  for (float& v : x) v = 8;
  args[0].as.u = reinterpret_cast<uint64_t>(x);
  auto run = [&] {
    return tegula_kernel_launch(scale, emulator, 4, 1, 1, &options, nullptr, args.data(), args.size());
  };
  EXPECT_EQ(run(), TEGULA_DEVICE_ERROR);
  EXPECT_CONTAINS(tegula_last_error(), "test.py:8");
  ASSERT_EQ(tegula_device_register_host(emulator, x, sizeof x), TEGULA_OK);
  EXPECT_EQ(run(), TEGULA_OK) << tegula_last_error();
  EXPECT_EQ(x[99], 4);
  EXPECT_EQ(tegula_device_unregister_host(emulator, x), TEGULA_OK);
  EXPECT_EQ(tegula_device_unregister_host(emulator, x), TEGULA_DEVICE_ERROR);
  EXPECT_EQ(run(), TEGULA_DEVICE_ERROR);
  tegula_device_release(emulator);
}

TEST_F(CInterface, BuffersAreBounded) {
  char byte = 0;
  EXPECT_EQ(tegula_buffer_upload(buffer, 400, &byte, 1, nullptr), TEGULA_USAGE_ERROR);
  EXPECT_STREQ(tegula_last_error(), "1 bytes at offset 400 of a buffer that has 400");
  EXPECT_EQ(tegula_buffer_download(buffer, SIZE_MAX, &byte, 1, nullptr), TEGULA_USAGE_ERROR);
  EXPECT_EQ(tegula_buffer_fill(buffer, 0, nullptr), TEGULA_OK);
  EXPECT_EQ(values(), std::vector<float>(100, 0.0f));
  // A buffer outlives its device's handle.
  tegula_device_release(std::exchange(device, nullptr));
  EXPECT_EQ(values(), std::vector<float>(100, 0.0f));
}

TEST(CVersion, IsTheHeaders) {
  EXPECT_EQ(tegula_abi(), TEGULA_ABI);
  EXPECT_STREQ(tegula_version(), "0.1.0");
}

TEST(CPackages, TellWhatIsWrong) {
  tegula_package* package = nullptr;
  EXPECT_EQ(tegula_package_read("/nowhere/app.tgp", &package), TEGULA_FILE_ERROR);
  EXPECT_STREQ(tegula_last_error(), "cannot read '/nowhere/app.tgp': No such file or directory");
  EXPECT_EQ(tegula_package_from_bytes("text", 4, "mine", &package), TEGULA_FILE_ERROR);
  EXPECT_STREQ(tegula_last_error(), "'mine' is no package of kernels\n  hint: `tegula build` makes one");
  EXPECT_EQ(tegula_package_from_bytes(nullptr, 4, "mine", &package), TEGULA_USAGE_ERROR);
  EXPECT_STREQ(tegula_last_error(), "'bytes' is NULL");

  const std::string empty = tegula::Package().to_bytes();
  ASSERT_EQ(tegula_package_from_bytes(empty.data(), empty.size(), nullptr, &package), TEGULA_OK) << tegula_last_error();
  EXPECT_EQ(tegula_package_num_kernels(package), 0u);
  tegula_packaged_facts facts{sizeof facts, nullptr, nullptr, nullptr, nullptr};
  EXPECT_EQ(tegula_package_kernel(package, 0, &facts), TEGULA_USAGE_ERROR);
  EXPECT_STREQ(tegula_last_error(), "kernel 0 of a package with 0");
  tegula_device* device = nullptr;
  ASSERT_EQ(tegula_device_emulator("sm_90a", &device), TEGULA_OK);
  tegula_packaged* kernel = nullptr;
  EXPECT_EQ(tegula_package_load(package, device, "softmax", nullptr, &kernel), TEGULA_LAUNCH_ERROR);
  EXPECT_STREQ(tegula_last_error(), "the package has no kernel 'softmax'; it has no kernels");
  EXPECT_EQ(tegula_package_load(package, nullptr, "softmax", nullptr, &kernel), TEGULA_USAGE_ERROR);
  EXPECT_EQ(tegula_packaged_launch(nullptr, 1, 1, 1, nullptr, nullptr, 0), TEGULA_USAGE_ERROR);
  EXPECT_STREQ(tegula_last_error(), "'kernel' is NULL");
  tegula_packaged_release(kernel);
  tegula_package_release(package);
  tegula_device_release(device);
}

}  // namespace
