// tegula build: what stands in a package, and that a program launches it as it is.
// label: device
#include <cstdlib>

#include "codegen/exec/emulator.h"
#include "runtime/memory.h"
#include "runtime/package/package.h"
#include "tests/tools/command_fixture.h"

namespace tegula {
namespace {

TEST_F(Command, BuildsAPackageThatRuns) {
  const CommandResult r = tegula(
      "build add.py::add --constexpr BLOCK=32 --num-warps 1 --target sm_80 --target sm_90a --emulator -o add.tgp" +
      kTypes);
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(r.err,
             "add (x: *f32 a multiple of 16, y: *f32 a multiple of 16, out: *f32 a multiple of 16, n: i32) "
             "[BLOCK=32 num_warps=1");
  EXPECT_HAS(r.err, "  sm_80: PTX, 32 threads, 0 bytes of shared memory\n");
  EXPECT_HAS(r.err, "  sm_90a: for the emulator, 32 threads");
  EXPECT_HAS(r.err,
             "without machine code: the driver assembles the PTX when a program first loads it (TEGULA_PTXAS is empty");

  const Package package = Package::read(folder_ / "add.tgp");
  const auto device = make_emulator({.target = "sm_90a"});
  const PackagedLaunch add(package, "add", *device);
  std::vector<float> x(50), y(50, 0.5f);
  for (int i = 0; i < 50; ++i) x[size_t(i)] = float(i);
  const Buffer dx(*device, x), dy(*device, y);
  const Buffer out(*device, 200);
  add(nullptr, {2}, dx, dy, out, 50);  // 50 is no multiple of 16
  const std::vector<float> sums = out.download<float>();
  for (int i = 0; i < 50; ++i) EXPECT_EQ(sums[size_t(i)], float(i) + 0.5f);
}

TEST_F(Command, BuildsFromAList) {
  write("app.list",
        "# what the program launches\n\n"
        "add.py::add --name add32 --constexpr BLOCK=32" +
            kTypes +
            "\n"
            "add.py::add --constexpr BLOCK=64 --arg n=i32:16" +
            kTypes + "\n");
  CommandResult r = tegula("build --from app.list --target sm_80 -o app.tgp");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(r.err, "app.tgp: 2 kernels, ");
  const Package package = Package::read(folder_ / "app.tgp");
  ASSERT_EQ(package.kernels().size(), 2u);
  EXPECT_EQ(package.kernels()[0].name, "add32");
  EXPECT_EQ(package.kernels()[1].codes[0].image.params[3].divisible_by, 16);

  write("wrong.list", "add.py::add --constexpr\n");
  r = tegula("build --from wrong.list -o app.tgp");
  EXPECT_EQ(r.status, 1);
  EXPECT_HAS(r.err, "wrong.list:1: '--constexpr' takes a value\n");
  EXPECT_EQ(tegula("build --from app.list --target sm_91 -o app.tgp").err,
            "error: unknown target 'sm_91'\n  hint: Tegula knows sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_120a\n");
  write("open.list", "add.py::add --arg 'x=*f32\n");
  EXPECT_EQ(tegula("build --from open.list -o app.tgp").err,
            "error: open.list:1: the quote ' has no end\n  add.py::add --arg 'x=*f32\n");
  write("types.list", "add.py::add --constexpr BLOCK=32" + kTypes + "\nadd.py::add --constexpr BLOCK=32\n");
  r = tegula("build --from types.list --target sm_80 -o app.tgp");
  EXPECT_EQ(r.status, 1);
  EXPECT_HAS(r.err, "error: load takes a pointer or a tile of pointers, found ");
  EXPECT_HAS(r.err, "  note: in the kernel of types.list:2\n");
  EXPECT_EQ(tegula("build -o app.tgp").err, "error: nothing to build: name a FILE::KERNEL, or a list with --from\n");
}

TEST_F(Command, RecordsWhatARunNeeds) {
  unsetenv("PYTHONPATH");  // whose folders a recording names
  setenv("TEGULA_RECORD", "app.list", 1);
  const CommandResult run = tegula(
      "run add.py::add --grid 1 --random x=f32[32] --random y=f32[32] --zeros out=f32[32] --arg n=30 --constexpr "
      "BLOCK=32");
  unsetenv("TEGULA_RECORD");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(file("app.list"),
            "add.py::add --arg 'x=*f32' --arg 'y=*f32' --arg 'out=*f32' --arg n=i32:2 --constexpr BLOCK=32\n");
  const CommandResult r = tegula("build --from app.list --target sm_80 -o app.tgp");
  EXPECT_EQ(r.status, 0) << r.err;
}

TEST_F(Command, BuildWritesHeadersWithTypedFunctions) {
  write("app.list", "add.py::add --constexpr BLOCK=32" + kTypes + "--arg n=i32:16\n" +
                        "add.py::add --constexpr BLOCK=32" + kTypes +
                        "\nadd.py::scale --arg x='*f16' --arg factor=f32 --constexpr BLOCK=32\n" +
                        "add.py::scale --arg x='*f32' --arg factor=f32 --constexpr BLOCK=32\n");
  const CommandResult r =
      tegula("build --from app.list --target sm_80 -o my-app.tgp --header app.h --cpp-header app.hpp --object app.o");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(file("app.h"),
             "static inline tegula_status my_app_add(const tegula_packaged* kernel, uint32_t grid_x, uint32_t grid_y, "
             "uint32_t grid_z,\n    tegula_stream stream, float* x, float* y, float* out, int64_t n) {\n");
  EXPECT_HAS(file("app.h"), "my_app_scale_f16(");
  EXPECT_HAS(file("app.h"), "tegula_stream stream, void* x, double factor, int64_t n) {\n");
  EXPECT_HAS(file("app.h"), "x ? tegula_pointer((uint64_t)(uintptr_t)x, TEGULA_FLOAT16) : tegula_none(),\n");
  EXPECT_HAS(file("app.h"), "static inline tegula_status my_app_open(tegula_package** package)");
  for (const char* header : {"runtime/sealing.h", "runtime/base/float16.h"})
    EXPECT_HAS(file("app.hpp"), fmt::format("#include <{}>\n", header));
  EXPECT_HAS(file("app.hpp"), "class scale_f32 {");
  EXPECT_HAS(file("app.hpp"), "detail::pointer(x, tegula::Elem::F32)");
  EXPECT_HAS(file("app.o"), file("my-app.tgp"));
  EXPECT_TRUE(
      file("app.o").starts_with("\x7f"
                                "ELF"));
}

TEST_F(Command, BuildsGridsIntoThePackage) {
  const std::string line =
      "build add.py::add --constexpr BLOCK=32 --num-warps 1 --target sm_90a --emulator -o add.tgp" + kTypes;
  ASSERT_EQ(
      tegula(line + " --grid 'max(1, cdiv(n, BLOCK)) + n // 1000, 2 - 1' --header add.h --cpp-header add.hpp").status,
      0);
  EXPECT_HAS(file("add.h"),
             "static inline tegula_status add_add_own_grid(const tegula_packaged* kernel,\n    tegula_stream stream, "
             "float* x, "
             "float* y, float* out, int64_t n) {\n");
  EXPECT_HAS(file("add.hpp"), "void operator()(tegula::StreamHandle stream, tegula::OwnGrid grid, float* x,");
  const Package package = Package::read(folder_ / "add.tgp");
  const auto device = make_emulator({.target = "sm_90a"});
  const PackagedLaunch add(package, "add", *device);
  const Buffer x(*device, std::vector<float>(70, 1.0f)), y(*device, std::vector<float>(70, 2.0f));
  const Buffer out = Buffer::zeros(*device, 280);
  add(nullptr, own_grid, x, y, out, 70);
  EXPECT_EQ(out.download<float>(), std::vector<float>(70, 3.0f));

  const std::pair<const char*, const char*> wrong[] = {
      {"cdiv(n, BLOC)", "the kernel has no integer 'BLOC', did you mean 'BLOCK'?"},
      {"cdiv(BLOCK, n)", "a divisor is an argument of the launch, expected a number or what is compiled in"},
      {"n // (BLOCK - 32)", "a divisor is 0, expected one above 0"},
      {"n ** 2", "the operator '**' is none of + - * // %"},
      {"n / BLOCK", "the operator '/' is none of + - * // %: cdiv(a, b) rounds up, a // b down"},
      {"ceil(n, 2)",
       "there is no function 'ceil' of 2 arguments for grids: cdiv(a, b), min, max and next_power_of_2(a) are there"},
      {"next_power_of_2(n)", "next_power_of_2 takes what is compiled in alone"},
      {"n if n > 1 else 1",
       "it is more than numbers, names, + - * // %, cdiv, min, max and next_power_of_2: a launch computes it without "
       "the compiler"},
      {"1, 2, 3, 4", "it has 4 extents, expected 1 to 3"},
      {"n +", "expected 1 to 3 integers, such as 64 or cdiv(n, BLOCK) or rows, batch"},
  };
  for (const auto& [grid, why] : wrong)
    EXPECT_EQ(tegula(line + " --grid '" + grid + "'").err, fmt::format("error: --grid '{}': {}\n", grid, why));
}

TEST_F(Command, SignsThePackage) {
  if (std::system("command -v openssl >/dev/null")) GTEST_SKIP() << "openssl is not there";
  const std::string key = folder_ / "app.key", its = folder_ / "app.pub";
  ASSERT_EQ(std::system(fmt::format("openssl genpkey -algorithm ed25519 -out '{0}' 2>/dev/null && "
                                    "openssl pkey -in '{0}' -pubout -out '{1}'",
                                    key, its)
                            .c_str()),
            0);
  const std::string line = "build add.py::add --constexpr BLOCK=32 --target sm_80 -o add.tgp" + kTypes;
  ASSERT_EQ(tegula(line + " --sign app.key").status, 0);
  EXPECT_EQ(Package::read(folder_ / "add.tgp", PublicKey::read(its)).kernels().size(), 1u);
  EXPECT_EQ(tegula(line + " --sign app.pub").err,
            "error: 'app.pub' holds no private Ed25519 key in PEM form\n  hint: openssl genpkey -algorithm ed25519 "
            "-out app.key\n");
}

TEST_F(Command, BuildWithWrongTypesLeavesThePackageAlone) {
  write("app.tgp", "as it was");
  EXPECT_EQ(tegula("build add.py::add --constexpr BLOCK=32 --target sm_80 -o app.tgp").status, 1);
  EXPECT_EQ(file("app.tgp"), "as it was");
}

}  // namespace
}  // namespace tegula
