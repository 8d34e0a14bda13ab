// label: device
// On the emulator: what a kernel tells, and how a launch is ended.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <thread>

#include "codegen/exec/emulator.h"
#include "runtime/store/image_cache.h"
#include "tests/checks_off.h"
#include "tests/codegen/lower/ops_support.h"
#include "tests/expect_contains.h"
#include "tests/message_of.h"

namespace tegula::ops {
namespace {

std::string error_of(const std::string& text, LaunchOptions options, Grid grid, EmulatorOptions how = {}) {
  auto emulator = make_emulator(how);
  Buffer x(*emulator, std::vector<int32_t>{3, 1, 4, 1, 5, 9, 2, 6});
  try {
    Program::parse("import triton\nimport triton.language as tl\n@triton.jit\ndef kernel(x):\n" + indented(text) + "\n",
                   "k.py")
        .kernel("kernel")
        .launch(*emulator, grid, options, x.as<int32_t>());
  } catch (const DeviceError& e) {
    return e.what();
  }
  return "";
}

std::string printed(const std::string& text, LaunchOptions options, Grid grid) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(error_of(text, options, grid, {.threads = 1}), "");
  return testing::internal::GetCapturedStdout();
}

// What a program reads to tell of a failure it reads when an assert fails.
TEST(Debug, AssertsThatHoldReadNothing) {
  const std::string text = R"(import triton
import triton.language as tl

@triton.jit
def kernel(x):
    i = tl.arange(0, 128)
    tl.device_assert(i + tl.program_id(0) < 1000, "too many")
    tl.store(x + i, i)
)";
  const ArgType array{.elem = Elem::I32, .pointer = true, .divisible_by = 16};
  const std::string ptx =
      Program::parse(text, "k.py").kernel("kernel").compile(std::vector{array}, {.debug = 1}, "sm_90a").ptx;
  const std::regex loads_behind_branch("@!%p[0-9]+ bra meet; ld.volatile.global");
  const auto count = [&](const std::regex& what) {
    return std::distance(std::sregex_iterator(ptx.begin(), ptx.end(), what), std::sregex_iterator());
  };
  EXPECT_GE(count(loads_behind_branch), 1) << ptx;
  EXPECT_EQ(count(std::regex("ld\\.(volatile\\.)?global")), count(loads_behind_branch)) << ptx;
}

TEST(Debug, Prints) {
  EXPECT_EQ(printed("i = tl.arange(0, 4)\nv = tl.load(x + i)\ntl.device_print('v', v)\nprint('100% of', tl.sum(v, 0))",
                    {.num_warps = 2}, {2}),
            "pid (0, 0, 0) idx (0) v: 3\npid (0, 0, 0) idx (1) v: 1\npid (0, 0, 0) idx (2) v: 4\n"
            "pid (0, 0, 0) idx (3) v: 1\npid (0, 0, 0) idx () 100% of: 9\n"
            "pid (1, 0, 0) idx (0) v: 3\npid (1, 0, 0) idx (1) v: 1\npid (1, 0, 0) idx (2) v: 4\n"
            "pid (1, 0, 0) idx (3) v: 1\npid (1, 0, 0) idx () 100% of: 9\n");
  // Elements in order, though rows lie in different threads; operands one after the other; iterations in turn.
  EXPECT_EQ(printed("i = tl.arange(0, 2)[:, None] * 16 + tl.arange(0, 16)[None, :]\n"
                    "for k in range(2):\n    tl.device_print('k ', tl.max(i, 1), k * -1.5)\nprint('done')",
                    {.num_warps = 4}, {1}),
            "pid (0, 0, 0) idx (0) k: (operand 0) 15\npid (0, 0, 0) idx (1) k: (operand 0) 31\n"
            "pid (0, 0, 0) idx () k: (operand 1) -0.000000\n"
            "pid (0, 0, 0) idx (0) k: (operand 0) 15\npid (0, 0, 0) idx (1) k: (operand 0) 31\n"
            "pid (0, 0, 0) idx () k: (operand 1) -1.500000\npid (0, 0, 0) done\n");
  EXPECT_EQ(
      printed("print('h:', tl.arange(0, 2).to(tl.float16) + 1, hex=True)\nprint('', x != x, (x + 1).to(tl.int64) - "
              "x.to(tl.int64))",
              {}, {1}),
      "pid (0, 0, 0) idx (0) h: 0x3c00\npid (0, 0, 0) idx (1) h: 0x4000\n"
      "pid (0, 0, 0) idx (): (operand 0) 0\npid (0, 0, 0) idx (): (operand 1) 4\n");
}

// Where races are looked for, the second program that uses atomics begins first; x begins with 3.
TEST(Debug, PrintsAreInOrderWhereProgramsAreNot) {
  const ChecksOff checks_off;
  const auto told = [](unsigned programs, EmulatorOptions how) {
    how.threads = 1;
    testing::internal::CaptureStdout();
    EXPECT_EQ(error_of("tl.device_print('was', tl.atomic_add(x, 1))", {.num_warps = 1}, {programs}, how), "");
    return testing::internal::GetCapturedStdout();
  };
  const auto lines = [](std::vector<int> numbers) {
    std::string all;
    for (size_t i = 0; i < numbers.size(); ++i) all += fmt::format("pid ({}, 0, 0) idx () was: {}\n", i, numbers[i]);
    return all;
  };
  EXPECT_EQ(told(3, {}), lines({3, 4, 5}));
  EXPECT_EQ(told(1, {.check_races = true}), lines({3}));
  EXPECT_EQ(told(3, {.check_races = true}), lines({4, 5, 3}));
  EXPECT_EQ(told(4, {.check_races = true}), lines({4, 3, 6, 5}));
  EXPECT_EQ(told(5, {.check_races = true}), lines({4, 3, 6, 7, 5}));
}

TEST(Debug, Asserts) {
  const std::string text =
      "i = tl.arange(0, 8)\nv = tl.load(x + i)\ntl.device_assert(v < 9, f'{8} values', mask=v < M)\n";
  auto with = [&](const char* mask) { return std::regex_replace(text, std::regex("M"), mask); };
  EXPECT_EQ(error_of(with("10"), {.debug = 1}, {2}),
            "kernel 'kernel': the assertion fails: 8 values\n  element [5]: 9 < 9 is false\n  at k.py:7:5, program (0, "
            "0, 0), "
            "thread 5");
  EXPECT_EQ(error_of(with("9"), {.debug = 1}, {2}), "");
  EXPECT_EQ(error_of(with("10"), {}, {2}), "");
  EXPECT_EQ(error_of("pid = tl.program_id(0)\nassert pid < 1, 'one program'", {.debug = 1}, {2}, {.threads = 1}),
            "kernel 'kernel': the assertion fails: one program\n  1 < 1 is false\n  at k.py:6:5, program (1, 0, 0), "
            "thread 0");
  EXPECT_EQ(error_of("assert tl.program_id(0) > 0", {.debug = 1}, {1}),
            "kernel 'kernel': the assertion fails\n  0 > 0 is false\n  at k.py:5:5, program (0, 0, 0), thread 0");
  // Of copies in several threads the first one tells; what is no comparison tells the element alone.
  EXPECT_CONTAINS(error_of("v = tl.load(x + tl.arange(0, 4)) * 0.5\n"
                           "assert v[:, None] + tl.zeros([4, 2], tl.float32) < 2",
                           {.debug = 1}, {1}),
                  "\n  element [2, 0]: 2.000000 < 2.000000 is false\n");
  EXPECT_CONTAINS(error_of("assert tl.load(x + tl.arange(0, 4)).to(tl.int1) & (tl.arange(0, 4) < 3)", {.debug = 1}, {1},
                           {.seed = 3}),
                  "\n  element [3]\n  at k.py:5:5, program (0, 0, 0), thread 3");
}

// Nothing of it is in the code of GPUs.
TEST(Debug, ElementsThatFailAreToldByTheEmulator) {
  const std::string text =
      "import triton\nimport triton.language as tl\n@triton.jit\ndef kernel(x):\n"
      "    tl.device_assert(tl.load(x + tl.arange(0, 8)).to(tl.float32) < 9.5)\n";
  const ArgType array{.elem = Elem::I32, .pointer = true, .divisible_by = 16};
  const std::string ptx =
      Program::parse(text, "k.py").kernel("kernel").compile(std::vector{array}, {.debug = 1}, "sm_90a").ptx;
  EXPECT_EQ(ptx.find("tegula_text"), ptx.npos) << ptx;
  EXPECT_EQ(ptx.find("cvt.f64"), ptx.npos) << ptx;
}

TEST(Debug, NansHaveNoSign) {
  EXPECT_EQ(printed("v = tl.load(x) - tl.load(x) * 1.0\nprint('v', v / v, -(v / v))", {}, {1}),
            "pid (0, 0, 0) idx () v: (operand 0) nan\npid (0, 0, 0) idx () v: (operand 1) nan\n");
}

TEST(Debug, IntegersThatOverflowAreFailedAsserts) {
  auto overflows = [&](const std::string& text, LaunchOptions options) {
    const std::string error = error_of(text, options, {1}, {.threads = 1});
    std::smatch found;
    return std::regex_search(
               error, found,
               std::regex("u?int[0-9]+ overflow detected for operation [a-z]+\n(  element.*\n)?.*k.py:[0-9]+"))
               ? std::regex_replace(found.str(), std::regex("\n(.*\n)?.*k.py"), "")
               : error;
  };
  const LaunchOptions debug{.debug = 1};
  const std::string large = "i = tl.arange(0, 8)\nv = tl.load(x + i) + 0x7FFFFFF0\n";  // of 7: 9 is at 5
  EXPECT_EQ(overflows(large + "tl.store(x + i, v + 6)", debug), "");
  EXPECT_EQ(overflows(large + "tl.store(x + i, v + 7)", debug), "int32 overflow detected for operation add:7");
  EXPECT_EQ(overflows(large + "tl.store(x + i, v + 7)", {.debug = 1, .sanitize_overflow = false}), "");
  EXPECT_EQ(overflows(large + "tl.store(x + i, v + 7)", {}), "");
  EXPECT_EQ(overflows(large + "tl.store(x + i, tl.add(v, 7, sanitize_overflow=False))", debug), "");
  EXPECT_EQ(overflows(large + "tl.store(x + i, tl.mul(v, 2))", debug), "int32 overflow detected for operation mul:7");
  EXPECT_EQ(overflows(large + "tl.store(x + i, (v.to(tl.int64) * v).to(tl.int32))", debug), "");
  // Floats do not overflow so.
  EXPECT_EQ(overflows("v = tl.load(x).to(tl.float32)\ntl.store(x, (-tl.abs(-v)).to(tl.int32))", debug), "");
  EXPECT_EQ(overflows("tl.store(x, (-tl.full([], 1.5, tl.float32)).to(tl.int32))", debug), "");
  EXPECT_EQ(overflows("v = tl.load(x).to(tl.uint32)\ntl.store(x, (v - 4).to(tl.int32))", debug),
            "uint32 overflow detected for operation sub:6");
  EXPECT_EQ(overflows("v = tl.load(x).to(tl.int8)\ntl.store(x, (v * 42).to(tl.int32))", debug), "");
  EXPECT_EQ(overflows("v = tl.load(x).to(tl.int8)\ntl.store(x, (v * 43).to(tl.int32))", debug),
            "int8 overflow detected for operation mul:6");
  EXPECT_EQ(overflows("v = (tl.load(x) - 131).to(tl.int8)\ntl.store(x, (-v).to(tl.int32))", debug),
            "int8 overflow detected for operation sub:6");
  // What the language computes itself, and sums of tiles, assert nothing.
  EXPECT_EQ(overflows("i = tl.arange(0, 8)\nv = tl.load(x + i) * 300000000\ntl.store(x, tl.sum(v))", debug),
            "int32 overflow detected for operation mul:6");
  EXPECT_EQ(overflows("i = tl.arange(0, 8)\nv = tl.load(x + i) * 200000000\ntl.store(x, tl.sum(v))", debug), "");
  EXPECT_EQ(
      overflows("for i in range(5, tl.load(x)):\n    pass\ntl.store(x, tl.rand(tl.load(x), 7).to(tl.int32))", debug),
      "");
}

TEST(Debug, FalseAssumptionsAndIndicesOutOfRangeAreFailedAsserts) {
  const auto outcome = [](const std::string& text, int debug) {
    return error_of(text, {.debug = debug}, {1}, {.threads = 1});
  };
  const auto element = [](int of) {
    return fmt::format("v = tl.load(x + tl.arange(0, 8))\ntl.store(x, v[tl.load(x) + {}])", of);
  };
  EXPECT_EQ(outcome(element(4), 1), "");
  EXPECT_CONTAINS(outcome(element(5), 1), "the index is out of range for the extent 8 of dimension 0");
  EXPECT_CONTAINS(outcome(element(-4), 1), "the index is out of range for the extent 8 of dimension 0");
  EXPECT_EQ(outcome(element(5), 0), "");
  EXPECT_EQ(outcome("v = tl.load(x + tl.arange(0, 8) % 8)\nw = tl.broadcast_to(v[None, :], [256, 8])\n"
                    "tl.store(x + tl.arange(0, 8), w[tl.load(x).to(tl.int8), :])",
                    1),
            "")
      << "an extent that the type of the index does not have";
  const auto assumed = [](const char* what) {
    return fmt::format("n = tl.load(x) + 0\ntl.assume({})\ntl.store(x, n % 5)", what);
  };
  EXPECT_EQ(outcome(assumed("n > 2"), 1), "");
  EXPECT_CONTAINS(outcome(assumed("n > 3"), 1), "an assumption does not hold");
  EXPECT_CONTAINS(outcome(assumed("(n >= 4) & (n < 9)"), 1), "an assumption does not hold");
  EXPECT_EQ(outcome(assumed("n > 3"), 0), "");
}

// Functions of elements neither assert what was not written there nor tell a debugger of their names.
TEST(Debug, ElementsAreComputedInNoOrder) {
  const Program program = Program::parse(R"(import triton
import triton.language as tl

@triton.jit
def halvings(v):
    k = 0
    while v > 1:
        v = v // 2
        k += 1
    return k

@triton.jit
def kernel(x):
    i = tl.arange(0, 128)
    tl.store(x + i, tl.map_elementwise(halvings, i))
)",
                                         "k.py");
  for (int debug : {1, 2}) {
    auto device = make_emulator();
    Buffer x(*device, std::vector<int32_t>(128));
    program.kernel("kernel").launch(*device, {1}, {.debug = debug}, x.as<int32_t>());
    const auto values = x.download<int32_t>();
    for (int i = 1; i < 128; ++i) EXPECT_EQ(values[size_t(i)], std::bit_width(unsigned(i)) - 1) << i;
  }
}

TEST(Debug, LaunchesAreEnded) {
  const std::string endless = "i = 0\nwhile i < 2:\n    i = i * 1\ntl.store(x, i)";
  EXPECT_EQ(
      error_of(endless, {.num_warps = 1}, {1}, {.limit_steps = 1000}),
      "kernel 'kernel': stopped after the steps of TEGULA_EMULATOR_LIMIT or EmulatorOptions: thread 0 runs, last seen "
      "in a loop at k.py:6:5; threads 1-31 run\n  in program (0, 0, 0)");
  EXPECT_EQ(
      error_of(endless, {.num_warps = 1}, {1}, {.limit_s = 0.15}),
      "kernel 'kernel': stopped at the limit of time of TEGULA_EMULATOR_LIMIT or EmulatorOptions: thread 0 runs, last "
      "seen in a loop at k.py:6:5; threads 1-31 run\n  in program (0, 0, 0)");
  setenv("TEGULA_EMULATOR_LIMIT", "10s,2000", 1);
  const std::string spins = error_of("while tl.atomic_add(x, 0) == 3:\n    pass", {.num_warps = 1}, {2});
  EXPECT_NE(spins.find("stopped after the steps"), spins.npos) << spins;
  EXPECT_TRUE(spins.find("a loop at k.py:5:5") != spins.npos || spins.find("barrier at k.py:5:11") != spins.npos)
      << spins;  // whichever it comes to first
  setenv("TEGULA_EMULATOR_LIMIT", "10m", 1);
  EXPECT_EQ(
      error_of("pass", {}, {1}),
      "TEGULA_EMULATOR_LIMIT is '10m'\n  hint: seconds as '2.5s', steps as '1000000', or both with a comma between");
  unsetenv("TEGULA_EMULATOR_LIMIT");
}

TEST(Debug, TheOrderOfThreadsFollowsFromTheEnvironment) {
  auto order = [](const char* seed) {  // in which the warps' atomic operations come
    setenv("TEGULA_EMULATOR_SEED", seed, 1);
    auto device = make_emulator({.threads = 1});
    unsetenv("TEGULA_EMULATOR_SEED");
    Buffer counter(*device, std::vector<int32_t>{0}), seen(*device, std::vector<int32_t>(128));
    Program::parse(
        "import triton\nimport triton.language as tl\n\n@triton.jit\ndef kernel(c, y):\n    i = tl.arange(0, 128)\n"
        "    tl.store(y + i, tl.atomic_add(c + i * 0, 1))\n",
        "k.py")
        .kernel("kernel")
        .launch(*device, {1}, {.num_warps = 4}, counter.as<int32_t>(), seen.as<int32_t>());
    return seen.download<int32_t>();
  };
  EXPECT_EQ(order("7"), order("7"));
  EXPECT_NE(order("7"), order("0"));
  setenv("TEGULA_EMULATOR_SEED", "7x", 1);
  EXPECT_EQ(message_of<DeviceError>([] { make_emulator(); }),
            "TEGULA_EMULATOR_SEED is '7x', expected a whole number from 0 on");
  unsetenv("TEGULA_EMULATOR_SEED");
  setenv("TEGULA_EMULATOR_BLOCKS", "-1", 1);
  EXPECT_EQ(message_of<DeviceError>([] { make_emulator(); }),
            "TEGULA_EMULATOR_BLOCKS is '-1', expected a whole number from 0 on");
  unsetenv("TEGULA_EMULATOR_BLOCKS");
  const char* check = std::getenv("TEGULA_EMULATOR_CHECK");
  const std::string before = check ? check : "";
  setenv("TEGULA_EMULATOR_CHECK", "nans", 1);
  EXPECT_EQ(message_of<DeviceError>([] { make_emulator(); }),
            "TEGULA_EMULATOR_CHECK is 'nans', expected '1', 'nan', 'inf' or '0'");
  setenv("TEGULA_EMULATOR_CHECK", before.c_str(), 1);
}

// The code that one device has made serves the next one, of another process at that, and tells of faults as before.
TEST(Debug, MachineCodeIsKept) {
  const ChecksOff checks_off;
  char folder[] = "/tmp/tegula-code-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string endless = "i = 0\nwhile i < 2:\n    i = i * 1\ntl.store(x, i)";
  const std::string prints = "tl.device_print('x', tl.load(x + tl.program_id(0) * 2))";
  const std::string assembles =
      "p = x + tl.program_id(0)\n"
      "tl.store(p, tl.inline_asm_elementwise('add.s32 $0, $1, 1;', '=r,r', [tl.load(p)], tl.int32, True, 1))";
  auto told = [&](const std::string& text, EmulatorOptions how) {
    how.threads = 1, how.limit_steps = 1000, how.optimised_at_once = true;
    how.code_cache = std::make_shared<ImageCache>(ImageCache::Options{.folder = folder});
    testing::internal::CaptureStdout();
    const std::string error = error_of(text, {.num_warps = 1}, {2}, how);
    return error + testing::internal::GetCapturedStdout();
  };
  auto codes = [&] { return ImageCache({.folder = folder}).stats().codes; };
  const std::string stopped = told(endless, {}), printed = told(prints, {});
  EXPECT_NE(stopped.find("a loop at k.py:6:5"), stopped.npos) << stopped;
  EXPECT_EQ(printed, "pid (0, 0, 0) idx () x: 3\npid (1, 0, 0) idx () x: 4\n");
  EXPECT_EQ(codes(), 2);
  EXPECT_EQ(told(endless, {}), stopped);
  EXPECT_EQ(told(prints, {}), printed);
  EXPECT_EQ(codes(), 2);
  for (EmulatorOptions other : {EmulatorOptions{.target = "sm_80"}, {.check_races = true}, {.baseline_cpu = true}}) {
    const auto before = codes();
    EXPECT_EQ(told(prints, other), printed);
    EXPECT_EQ(codes(), before + 1);
  }
  const auto before = codes();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(told(assembles, {}), "");
  EXPECT_EQ(codes(), before + 1);
  for (const auto& file : std::filesystem::directory_iterator(folder))  // what is damaged is made again
    if (file.path().extension() == ".code") std::filesystem::resize_file(file.path(), 100);
  EXPECT_EQ(told(prints, {}), printed);
  EXPECT_EQ(told(prints, {}), printed);
  std::filesystem::remove_all(folder);
}

TEST(Debug, CtrlCEndsALaunch) {
  static std::atomic<int> seen = 0;
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) { ++seen; };  // a program's own: it is told when the launch has ended
  sigaction(SIGINT, &action, &before);
  std::atomic<bool> over = false;
  std::thread interrupter([&] {
    while (!over) {
      std::this_thread::sleep_for(std::chrono::milliseconds(40));
      kill(getpid(), SIGINT);
    }
  });
  testing::internal::CaptureStderr();
  const std::string error = error_of("i = 0\nwhile i < 2:\n    i = i * 1\ntl.store(x, i)", {.num_warps = 1}, {1});
  over = true;
  interrupter.join();
  sigaction(SIGINT, &before, nullptr);
  EXPECT_EQ(
      error,
      "kernel 'kernel': stopped by Ctrl-C: thread 0 runs, last seen in a loop at k.py:6:5; threads 1-31 run\n  in "
      "program (0, 0, 0)");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), error + "\n");
  EXPECT_GT(seen, 0);
}

}  // namespace
}  // namespace tegula::ops
