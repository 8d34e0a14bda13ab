// Lists of specialisations: their lines, TEGULA_RECORD, prewarm(), seal(), and packages made of them.
// label: device
#include "dsl/kernel_list.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "codegen/exec/emulator.h"
#include "dsl/listing/resolve.h"
#include "dsl/listing/texts.h"
#include "dsl/package_writer.h"
#include "dsl/tegula.h"
#include "runtime/base/files.h"

namespace tegula {
namespace {

namespace fs = std::filesystem;

const std::string kText = R"(import triton
import triton.language as tl

@triton.jit
def scale(x, n, factor, BLOCK: tl.constexpr, MODE: tl.constexpr = "plain"):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)

@triton.autotune(configs=[triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def tuned(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, BLOCK, mask=i < n)
)";

template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "(none)";
}

class KernelLists : public testing::Test {
 protected:
  KernelLists() {
    std::string name = (fs::temp_directory_path() / "tegula-list-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    file_ = (folder_ / "scale.py").string();
    list_ = (folder_ / "app.list").string();
    replace_file(file_, kText);
    device_ = make_emulator({.target = "sm_90a"});
  }
  ~KernelLists() override {
    unsetenv("TEGULA_RECORD");
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  Kernel kernel(const char* name) { return Program::load(file_).kernel(name); }
  void record() { setenv("TEGULA_RECORD", list_.c_str(), 1); }
  void scale(const Kernel& kernel, const Buffer& x, int n) {
    kernel.launch(*device_, {2}, {.constexprs = {{"BLOCK", 64}}, .num_warps = 2}, x.as<float>(), n, 2.5f);
  }
  /// Checks what `call` throws in a process of its own, which it may seal: one that runs this test up to here again.
  template <class Call>
  void expect_in_child(Call call, const std::string& expected) {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_EXIT(
        {
          const std::string found = error_of(call);
          if (found != expected) fmt::print(stderr, "found: {}\nexpected: {}\n", found, expected);
          std::_Exit(found != expected);
        },
        testing::ExitedWithCode(0), "");
  }

  fs::path folder_;
  std::string file_, list_;
  std::shared_ptr<Device> device_;
};

std::string one_line(std::string_view text) { return to_string(parse_kernel_list(text, "l").at(0)); }

TEST(KernelListLines, ReadAsTheyAreWritten) {
  const std::string line =
      "k.py::k --name other --arg 'x=*f16[64,32]{i32:16,i32;i64:8}nan' --arg n=i32:256 --constexpr 'MODE='\"'\"'a "
      "b'\"'\"'' "
      "--constexpr E= --global N=3 --when n=5 --gpu 'NVIDIA H200' --num-warps 8 --no-fp-fusion";
  EXPECT_EQ(one_line(line), line);
  EXPECT_EQ(one_line("k.py --num-warps=8 --arg=n=i64"), "k.py --arg n=i64 --num-warps 8");
  EXPECT_TRUE(parse_kernel_list("# nothing\n\n  \r\n", "l").empty());
}

TEST(KernelListLines, TellWhatIsWrong) {
  auto why = [](std::string_view text) { return error_of([&] { parse_kernel_list(text, "app.list"); }); };
  EXPECT_EQ(why("\nk.py::k --num-warp 4"),
            "app.list:2: unknown option '--num-warp', did you mean '--num-warps'?\n  k.py::k --num-warp 4");
  EXPECT_EQ(why("k.py::k --arg"), "app.list:1: '--arg' takes a value\n  k.py::k --arg");
  EXPECT_EQ(why("k.py::k l.py"),
            "app.list:1: 'l.py' stands behind 'k.py::k', expected one kernel a line\n  k.py::k l.py");
  EXPECT_EQ(why("--num-warps 4"), "app.list:1: expected FILE::KERNEL\n  --num-warps 4");
  EXPECT_EQ(why("k.py --num-warps x"), "app.list:1: '--num-warps x': expected an integer\n  k.py --num-warps x");
  EXPECT_EQ(why("k.py 'a"), "app.list:1: the quote ' has no end\n  k.py 'a");
}

TEST(KernelListLines, HoldAllKindsOfArguments) {
  const Kernel k = Program::parse(
                       "import triton\nimport triton.language as tl\n@triton.jit\n"
                       "def k(x, d, n, t, b, none, one, rest=3, C: tl.constexpr = 1):\n    pass\n")
                       .kernel("k");
  LaunchOptions options;
  const std::vector<std::string> texts = {"x=*f32:4", "d=*bf16[64,32]{i64,i32:16;i64:2}",
                                          "n=i64:16", "t=Pair(a=*f16, b=='x', c=(i32, =None))",
                                          "b=i1",     "none=None",
                                          "one=1"};
  auto types = dsl::parse_arg_types(k, texts, options);
  types.pop_back();  // `rest` is left out
  EXPECT_EQ(types[1].block_shape, (std::vector<int64_t>{64, 32}));
  EXPECT_EQ(types[4].divisible_by, 2);
  const auto again = dsl::arg_texts(k.params(), types, options);
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, (std::vector<std::string>{"x=*f32:4", "d=*bf16[64,32]{i64,i32:16;i64:2}", "n=i64:16",
                                              "t=Pair(a=*f16, b=='x', c=(i32, =None))", "b=i1", "none=None", "one=1"}));
  EXPECT_EQ(error_of([&] { dsl::parse_arg_types(k, {"d=*f16[8,8]{i32}"}, options); }),
            "--arg 'd=*f16[8,8]{i32}': expected the types of 2 extents and 1 strides in braces");
  EXPECT_FALSE(dsl::constexpr_text(Constexpr(std::string("two\nlines"))));
  for (const Constexpr& value : {Constexpr(1.0), Constexpr(int64_t(-3)), Constexpr(true), Constexpr(Elem::BF16),
                                 Constexpr(std::string("True")), Constexpr(std::string()), Constexpr()})
    EXPECT_EQ(dsl::parse_constexpr(*dsl::constexpr_text(value)), value) << *dsl::constexpr_text(value);
}

TEST_F(KernelLists, AreRecordedByARun) {
  record();
  Buffer x(*device_, std::vector<float>(100, 1.0f));
  const Kernel k = kernel("scale");
  scale(k, x, 100);
  scale(k, x, 100);
  scale(k, x, 96);
  scale(kernel("scale"), x, 96);  // of another Program: the same line
  scale(k, x, 88);
  const std::string begin = file_ + "::scale --arg 'x=*f32' --arg ";
  EXPECT_EQ(read_file(list_), begin + "n=i32:4 --arg factor=f32 --constexpr BLOCK=64 --num-warps 2\n" + begin +
                                  "n=i32:16 --arg factor=f32 --constexpr BLOCK=64 --num-warps 2\n" + begin +
                                  "n=i32:8 --arg factor=f32 --constexpr BLOCK=64 --num-warps 2\n");
}

TEST_F(KernelLists, HoldTextsThatLieInNoFile) {
  record();
  Buffer x(*device_, std::vector<float>(100, 1.0f));
  scale(Program::parse(kText, "memory.py", {}, {}, {{"other", "N = 3\n"}}).kernel("scale"), x, 100);
  const auto list = read_kernel_list(list_);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_TRUE(list[0].kernel.starts_with(list_ + ".texts/memory-")) << list[0].kernel;
  EXPECT_EQ(read_file(fs::path(list[0].modules) / "other.py"), "N = 3\n");
  unsetenv("TEGULA_RECORD");
  const auto device = make_emulator({.target = "sm_90a"});
  EXPECT_EQ(prewarm(*device, list), 1u);
}

TEST_F(KernelLists, HoldWhatTuningChose) {
  record();
  Buffer x(*device_, std::vector<float>(64));
  kernel("tuned").launch(*device_, {2}, {}, x.as<float>(), 64);
  unsetenv("TEGULA_RECORD");
  const auto list = read_kernel_list(list_);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].when, std::vector<std::string>{"n=64"});
  EXPECT_EQ(list[0].gpu, "emulator (sm_90a)");
  EXPECT_FALSE(list[0].choice.empty());
  const int64_t chosen = list[0].constexprs[0] == "BLOCK=32" ? 32 : 64;
  expect_in_child(
      [&] {
        prewarm(*device_, list);
        seal();
        const Kernel other = Program::parse(kText).kernel("tuned");
        other.launch(*device_, {2}, {}, x.as<float>(), 64);
        if (x.download<float>()[0] != float(chosen)) throw LaunchError("another choice");
      },
      "(none)");
  expect_in_child(
      [&] {
        const Kernel other = kernel("tuned");
        seal();
        other.launch(*device_, {2}, {}, x.as<float>(), 64);
      },
      "kernel 'tuned' has no configuration for these arguments yet, and the process is sealed: nothing is tuned\n"
      "  hint: run this launch once with TEGULA_RECORD=app.list, and prewarm() that list before seal()");
}

// A kernel is listed with the numbers that its heuristics looked at, those of floating point too, and with no others.
TEST_F(KernelLists, HoldWhatHeuristicsLookedAt) {
  replace_file(
      file_,
      "import triton\nimport triton.language as tl\n"
      "@triton.heuristics({'EVEN': lambda args: args['n'] % 2 == 0, 'TWICE': lambda args: args['factor'] > 1.0})\n"
      "@triton.jit\n"
      "def chosen(x, rows, n, factor, eps, EVEN: tl.constexpr, TWICE: tl.constexpr):\n"
      "    tl.store(x, factor * (2 if TWICE else 1) + eps + rows + (0 if EVEN else n))\n");
  record();
  const Buffer x(*device_, std::vector<float>(1));
  kernel("chosen").launch(*device_, {1}, {}, x.as<float>(), 10, 6, 2.5f, 0.25f);
  kernel("chosen").launch(*device_, {1}, {}, x.as<float>(), 30, 6, 2.5f, 0.75f);
  unsetenv("TEGULA_RECORD");
  const auto list = read_kernel_list(list_);
  ASSERT_EQ(list.size(), 1u) << read_file(list_);
  EXPECT_EQ(list[0].when, (std::vector<std::string>{"n=6", "factor=2.5"}));

  const Package package = build_package(list, {.targets = {"sm_90a"}, .emulator = true}).package;
  const PackagedLaunch chosen(Package::from_bytes(package.to_bytes(), "p"), "chosen", *device_);
  chosen(nullptr, {1}, x, 50, 6, 2.5f, 0.5f);
  EXPECT_EQ(x.download<float>()[0], 55.5f);
  for (const auto& [n, factor] : {std::pair(8, 2.5f), std::pair(6, 0.5f)})
    EXPECT_TRUE(error_of([&, n = n, factor = factor] {
                  chosen(nullptr, {1}, x, 50, n, factor, 0.5f);
                }).ends_with("it was chosen for other values of the arguments"));
}

TEST_F(KernelLists, MakeASealedProcessComplete) {
  const std::string line =
      file_ + "::scale --arg 'x=*f32' --arg n=i32 --arg factor=f32 --constexpr BLOCK=64 --num-warps 2";
  std::vector<std::string> steps;
  Buffer x(*device_, std::vector<float>(100, 1.0f));
  expect_in_child(
      [&] {
        std::string told;
        const size_t ready =
            prewarm(*device_, parse_kernel_list(line, "app.list"), {.progress = [&](const PrewarmStep& s) {
              told += fmt::format("{} {}/{} {}", s.kernel, s.done, s.total, s.error);
            }});
        const Kernel k = kernel("scale");
        seal();
        scale(k, x, 99);
        throw LaunchError(fmt::format("{} {} {}", ready, told, x.download<float>()[98]));
      },
      "1 app.list:1 1/1  2.5");
  expect_in_child(
      [&] {
        const Kernel k = kernel("scale");
        seal();
        scale(k, x, 99);
      },
      "kernel 'scale' is not ready for these arguments, and the process is sealed: nothing is compiled\n"
      "  hint: add this line to the list that prewarm() or `tegula build --from` takes:\n  " +
          line);
  expect_in_child(
      [&] {
        seal();
        Program::load(file_);
      },
      "cannot read '" + file_ + "': the process is sealed\n  hint: do so before seal()");
}

// Of the variants for multiples of 16 and for any, a sealed process takes the one whose facts hold.
TEST_F(KernelLists, ServeIntegersOfOtherClassesWhenSealed) {
  const std::string begin = file_ + "::scale --arg 'x=*f32' --arg ", end = " --arg factor=f32 --constexpr BLOCK=64 ";
  const auto list = parse_kernel_list(
      begin + "n=i32:4" + end + "--num-warps 2\n" + begin + "n=i32:16" + end + "--num-warps 2\n", "app.list");
  const Package package = build_package(list, {.targets = {"sm_90a"}, .emulator = true}).package;
  const auto served = [&](int n) {
    Buffer x(*device_, std::vector<float>(104, 1.0f));
    const Kernel k = kernel("scale");
    seal();
    const std::string refused = error_of([&] { scale(k, x, n); });
    const auto found = x.download<float>();
    const bool right = std::count(found.begin(), found.begin() + n, 2.5f) == n && found[size_t(n)] == 1.0f;
    throw LaunchError(refused == "(none)" && right ? "right" : refused);
  };
  for (int n : {72, 80, 100}) {  // multiples of 8, 16 and 4
    expect_in_child([&] { prewarm(*device_, list), served(n); }, "right");
    expect_in_child([&] { prewarm(*device_, package), served(n); }, "right");
  }
  expect_in_child([&] { prewarm(*device_, list), served(98); },
                  "kernel 'scale' is not ready for these arguments, and the process is sealed: nothing is compiled\n"
                  "  hint: add this line to the list that prewarm() or `tegula build --from` takes:\n  " +
                      begin + "n=i32:2" + end + "--num-warps 2");
}

TEST_F(KernelLists, ServeOneWhereAnyNumberIsServed) {
  expect_in_child(
      [&] {
        const Kernel k = kernel("scale");
        Buffer x(*device_, std::vector<float>(104, 1.0f));
        scale(k, x, 7);
        seal();
        scale(k, x, 1);
        throw LaunchError(fmt::format("{} {}", x.download<float>()[0], x.download<float>()[1]));
      },
      "6.25 2.5");
}

TEST_F(KernelLists, TellWhatCannotBeMadeReady) {
  const auto list = parse_kernel_list(file_ + "::scale --arg x='*f32' --constexpr BLOK=32\n" + file_ +
                                          "::scale --arg x='*f32' --arg factor=f32 --constexpr BLOCK=32\nc++::f\n",
                                      "app.list");
  const std::string why = error_of([&] { prewarm(*device_, list); });
  EXPECT_TRUE(why.starts_with("2 of 3 kernels cannot be made ready\napp.list:1: ")) << why;
  EXPECT_TRUE(
      why.ends_with("app.list:3: 'f' is a C++ function, which its program alone can compile\n  hint: have the program "
                    "write the package "
                    "itself (write_package), or give the kernel to prewarm()"))
      << why;
}

TEST_F(KernelLists, OfFunctionsBecomePackagesOfTheirProgram) {
  const auto twice = tegula::kernel("twice", [](Ptr<"x", float> x, Int<"n"> n, Const<"BLOCK"> BLOCK) {
    Tile i = arange(0, BLOCK);
    store(x + i, load(x + i, i < n) * 2.0f, i < n);
  });
  const std::string file = (folder_ / "app.tgp").string();
  write_package(file, parse_kernel_list("c++::twice --arg 'x=*f32' --arg n=i32 --constexpr BLOCK=64", "l"),
                {.targets = {"sm_90a"}, .emulator = true, .kernels = {twice}});
  const PackagedLaunch packaged(Package::read(file), "twice", *device_);
  const Buffer x(*device_, std::vector<float>{1, 2, 3});
  packaged(
      nullptr, [](const PackagedConfig& c) { return Grid{unsigned(c["BLOCK"] / 64)}; }, x, 3);
  EXPECT_EQ(x.download<float>(), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(error_of([&] {
              packaged(
                  nullptr, [](const PackagedConfig& c) { return Grid{unsigned(c["BLOC"])}; }, x, 3);
            }),
            "the specialisation has no integer 'BLOC' compiled in\n  hint: did you mean 'BLOCK'?");
}

TEST_F(KernelLists, OfPackagesChooseByValuesOfArguments) {
  const std::string begin = file_ + "::tuned --arg 'x=*f32' --arg n=i32 --constexpr BLOCK=";
  const Package package = build_package(parse_kernel_list(begin + "32 --when n=5\n" + begin + "64 --when n=7\n", "l"),
                                        {.targets = {"sm_90a"}, .emulator = true})
                              .package;
  const PackagedLaunch tuned(Package::from_bytes(package.to_bytes(), "p"), "tuned", *device_);
  const Buffer x(*device_, std::vector<float>(8));
  tuned(nullptr, {1}, x, 7);
  EXPECT_EQ(x.download<float>()[0], 64);
  tuned(nullptr, {1}, x, 5);
  EXPECT_EQ(x.download<float>()[0], 32);
  const std::string form = "  (x: *f32 a multiple of 16, n: i32)\n    it was chosen for other values of the arguments";
  EXPECT_EQ(error_of([&] { tuned(nullptr, {1}, x, 6); }),
            "kernel 'tuned': none of its 2 specialisations takes these arguments\n" + form + "\n" + form);
}

TEST_F(KernelLists, InPackagesForOtherDevicesAreRefused) {
  const auto list = parse_kernel_list(
      file_ + "::scale --arg 'x=*f32' --arg n=i32 --arg factor=f32 --constexpr BLOCK=64 --num-warps 2", "l");
  const Package package = build_package(list, {.targets = {"sm_90a"}}).package;
  EXPECT_EQ(
      error_of([&] { prewarm(*device_, package); }),
      "none of the package's 1 kernels has code for emulator (sm_90a)\n  hint: `tegula build --emulator` adds it");
}

TEST_F(KernelLists, InPackagesServeProgramsThatCompile) {
  const auto list = parse_kernel_list(
      file_ + "::scale --arg 'x=*f32' --arg n=i32 --arg factor=f32 --constexpr BLOCK=64 --num-warps 2", "l");
  const Package package = build_package(list, {.targets = {"sm_90a"}, .emulator = true}).package;
  Buffer x(*device_, std::vector<float>(100, 1.0f));
  expect_in_child(
      [&] {
        const size_t ready = prewarm(*device_, package);
        const Kernel k = Program::parse(kText).kernel("scale");
        seal();
        scale(k, x, 99);
        throw LaunchError(fmt::format("{} {}", ready, x.download<float>()[98]));
      },
      "1 2.5");
}

}  // namespace
}  // namespace tegula
