// tegula run and tune, run as a user runs them: output, messages, exit status; and their .npy files.
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "tests/tools/command_fixture.h"

namespace tegula {
namespace {

using Result = CommandResult;

/// An .npy file of version 1 whose header is padded as NumPy does.
std::string npy(std::string header, const std::string& data) {
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + char(header.size()) + char(0) + header + data;
}
std::string npy_f32(const std::vector<float>& values) {
  std::string data(values.size() * 4, '\0');
  std::memcpy(data.data(), values.data(), data.size());
  return npy(fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", values.size()), data);
}

TEST_F(Command, RunOnFiles) {
  std::vector<float> x(1000), y(1000), sum(1000);
  for (int i = 0; i < 1000; ++i) x[i] = float(i), y[i] = 0.5f * float(i), sum[i] = i < 999 ? 1.5f * float(i) : 0;
  write("x.npy", npy_f32(x));
  write("y.npy", npy_f32(y));
  Result r = tegula(
      "run add.py::add --grid 4 --in x=x.npy --in y=y.npy --zeros out=f32[1000] --arg n=999 --constexpr BLOCK=256 "
      "--out out=out.npy");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(r.out,
             "emulator (sm_90a): TEGULA_DEVICE asks for the emulator\nadd: BLOCK=256 num_warps=4 num_stages=3\n");
  EXPECT_HAS(r.out, "out: float32 [1000], from 0 to 1497, mean ");
  EXPECT_TRUE(file("out.npy") == npy_f32(sum));
}

TEST_F(Command, RunOnRandomDataIsRepeatable) {
  std::string arguments =
      "run add.py::scale --random x=bf16[100] --arg factor=2.0 --arg n=100 --constexpr BLOCK=128 --device emulator "
      "--seed ";
  for (const char* seed : {"1 --out x=a.npy", "1 --out x=b.npy", "2 --out x=c.npy --target sm_80"}) {
    Result r = tegula(arguments + seed);
    ASSERT_EQ(r.status, 0) << r.err;
  }
  EXPECT_EQ(file("a.npy"), file("b.npy"));
  EXPECT_NE(file("a.npy"), file("c.npy"));
  EXPECT_HAS(file("a.npy"), "{'descr': '|V2', 'fortran_order': False, 'shape': (100,), }");
}

TEST_F(Command, RunSaysWhatIsWrong) {
  auto error = [&](const std::string& arguments, int status) {
    Result r = tegula("run add.py::add --constexpr BLOCK=256 " + arguments);
    EXPECT_EQ(r.status, status) << r.err;
    return r.err;
  };
  std::string arrays = "--random x=f32[9] --random y=f32[9] --zeros out=f32[9] ";
  EXPECT_HAS(error(arrays, 2), "the argument 'n' has no value");
  EXPECT_HAS(error(arrays + "--arg m=9", 2), "kernel 'add' has no argument 'm'; it has: x, y, out, n");
  EXPECT_HAS(error(arrays + "--arg n=nine", 2), "'nine' is no number");
  EXPECT_HAS(error("--arg x='*f32'", 2), "'*f32' is no number\n  hint: an array is --random x=f32[1024], --zeros");
  EXPECT_HAS(error(arrays + "--arg n=9 --grid 1x2", 2), "--grid '1x2' is no grid\n  hint: expected 1 to 3 integers");
  EXPECT_HAS(error(arrays + "--arg n=9 --out n=n.npy", 2), "'n' is no array");
  EXPECT_HAS(error(arrays + "--arg n=9 --arg n=8", 2), "the argument 'n' is given twice");
  EXPECT_HAS(error("--random x=f33[9]", 2), "'f33[9]' is no array type");
  EXPECT_HAS(error("--in x=missing.npy", 3), "cannot read 'missing.npy'");
  EXPECT_HAS(error(arrays + "--arg n=9 --target sm_80", 2), "--target is for --device=emulator");
}

TEST_F(Command, EmptyArraysAreUnwritten) {
  const std::string scale = "run add.py::scale --arg factor=2.0 --arg n=4 --constexpr BLOCK=4 --check ";
  EXPECT_EQ(tegula(scale + "--zeros x=f32[4]").status, 0);
  const Result r = tegula(scale + "--empty x=f32[4]");
  EXPECT_EQ(r.status, 3);
  EXPECT_HAS(r.err, "(argument 'x'), that nobody has written\n  at add.py:15:");
  EXPECT_HAS(tegula(scale + "--empty x=f33[4]").err, "--empty: 'f33[4]' is no array type");
}

// Standard output is JSON alone, whatever the kernel prints, also where the launch fails.
TEST_F(Command, JsonHasWhatTheKernelPrints) {
  write("prints.py",
        "import triton\nimport triton.language as tl\n@triton.jit\ndef k(x):\n    tl.device_print('v', tl.load(x))\n"
        "    print(\"it's\")\n    tl.device_assert(tl.load(x) > 0, 'none')\n");
  const std::string run = "run prints.py::k --zeros x=i32[1] --json ";
  const nlohmann::json prints = {"pid (0, 0, 0) idx () v: 0", "pid (0, 0, 0) it's"};
  Result r = tegula(run);
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(nlohmann::json::parse(r.out)["prints"], prints);
  r = tegula(run + "--check");
  EXPECT_EQ(r.status, 3) << r.err;
  EXPECT_EQ(nlohmann::json::parse(r.out)["prints"], prints);
  EXPECT_HAS(r.err, "the assertion fails: none\n  0 > 0 is false\n");
}

TEST_F(Command, GridsAreExpressions) {
  std::string arrays = "run add.py::add --random x=f32[999] --random y=f32[999] --zeros out=f32[999] --arg n=999 ";
  Result r = tegula(arrays + "--constexpr BLOCK=256 --grid 'cdiv(n, BLOCK)'");
  EXPECT_EQ(r.status, 0) << r.err;
  r = tegula(arrays + "--constexpr BLOCK=256 --grid 'cdiv(n, BLOKC)'");
  EXPECT_EQ(r.status, 1);
  EXPECT_HAS(r.err, "error: the grid 'cdiv(n, BLOKC)': unknown name 'BLOKC'");
  EXPECT_HAS(r.err, "did you mean 'BLOCK'?");
  r = tegula(arrays + "--constexpr BLOCK=256 --grid rows");
  EXPECT_HAS(r.err,
             "error: the grid 'rows': unknown name 'rows'\n  hint: it may name x, y, out, n, num_warps, num_stages, "
             "num_ctas, BLOCK");
  write("fixed.py",
        "import triton\nimport triton.language as tl\nBLOCK = tl.constexpr(64)\nHALF: tl.constexpr = BLOCK // 2\n"
        "@triton.jit\ndef fill(x):\n    tl.store(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), 1.0)\n");
  Result fixed = tegula("run fixed.py --zeros x=f32[256] --grid 'cdiv(256, BLOCK) + HALF - 32'");
  EXPECT_EQ(fixed.status, 0) << fixed.err;
  EXPECT_HAS(fixed.out, "x: float32 [256], from 1 to 1, mean 1\n");
  r = tegula(arrays + "--constexpr BLOCK=256 --grid 1.5");
  EXPECT_HAS(r.err, "the grid '1.5' is the float 1.5, expected 1 to 3 integers");
}

TEST_F(Command, TuneOnTheEmulatorTakesTheModelsChoice) {
  std::string arrays =
      "tune add.py::add --device=emulator --random x=f32[999] --random y=f32[999] --zeros out=f32[999] --arg n=999 ";
  Result r = tegula(arrays + "--grid 'cdiv(n, BLOCK)' --space BLOCK=256..1024 --space num_warps=2,4 --key n");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(r.out, "The emulator times nothing");
  EXPECT_HAS(r.out, "best    BLOCK=");
  r = tegula(arrays);
  EXPECT_EQ(r.status, 1);
  EXPECT_HAS(r.err,
             "kernel 'add' has no configurations to choose from\n  hint: give them with autotune(), with "
             "@triton.autotune in the file, or with --space to `tegula tune`");
  r = tegula(arrays + "--constexpr BLOCK=256 --space num_warps=3,5");
  EXPECT_EQ(r.status, 1);
  EXPECT_HAS(r.err,
             "kernel 'add': none of its 2 configurations works\n  num_warps=3: kernel 'add': num_warps is 3, "
             "expected 1, 2, 4, 8, 16 or 32\n  num_warps=5: ");
  r = tegula(arrays + "--space BLOCK=256..many");
  EXPECT_EQ(r.status, 2);
  EXPECT_HAS(r.err, "--space 'BLOCK=256..many': 'many' is no integer; expected BLOCK=LOW..HIGH");
  r = tegula(arrays + "--space BLOK=256..512");
  EXPECT_HAS(r.err, "a configuration names 'BLOK', which is no constexpr parameter");
}

TEST_F(Command, TheKernelIsTheOneThatIsNoHelper) {
  write("tuned.py", kTuned);
  Result r = tegula("run tuned.py --random x=f32[100] --arg n=100 --grid 'cdiv(n, BLOCK)'");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(r.out, "double: BLOCK=");
  EXPECT_HAS(r.out, " EVEN=False num_warps=4 num_stages=3\n");
}

TEST_F(Command, ConfigurationsThatDoNotWorkAreNamed) {
  write("tuned.py", kTuned);
  const std::string arguments = " tuned.py --device=emulator --random x=f32[100] --arg n=100 --grid 'cdiv(n, BLOCK)'";
  const std::string warning =
      "tegula: warning: kernel 'double': 1 of 3 configurations do not work and are left out\n"
      "  BLOCK=48 num_warps=4 num_stages=3: tuned.py:14:5: error: static_assert failed: BLOCK=48 is not for "
      "pointer<fp32>\n";
  Result r = tegula("run" + arguments);
  EXPECT_HAS(r.err, warning);
  r = tegula("tune" + arguments);
  EXPECT_HAS(r.err, warning);
  EXPECT_HAS(r.out, "failed: tuned.py:14:5: error: static_assert failed: BLOCK=48 is not for pointer<fp32>\n");
}

// What Triton takes without a word, with one.
TEST_F(Command, WarningsOfAssertionsAndStages) {
  write("lax.py",
        "import triton\nimport triton.language as tl\n@triton.jit\ndef fill(x, B: tl.constexpr):\n"
        "    assert B == 2, f'B is {B}'\n"
        "    for i in tl.range(0, 1, num_stages=64):\n        tl.store(x, 1.0)\n");
  Result r = tegula("run lax.py --zeros x=f32[1] --constexpr B=1");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(r.err, "tegula: warning: lax.py:5:5: the assertion fails in every launch: B is 1\n");
  EXPECT_HAS(r.err, "lax.py:6:29: num_stages is 64: the loop runs with 32 at most\n");
  r = tegula("run lax.py --zeros x=f32[1] --constexpr B=2");
  EXPECT_EQ(r.err.find("assertion"), r.err.npos) << r.err;
  setenv("TEGULA_DEBUG", "1", 1);
  r = tegula("run lax.py --zeros x=f32[1] --constexpr B=1");
  unsetenv("TEGULA_DEBUG");
  EXPECT_NE(r.status, 0);
  EXPECT_HAS(r.err, "B is 1");
}

TEST_F(Command, WarningsOfKernelsThatCompile) {
  write("noisy.py",
        "import triton\nimport triton.language as tl\n@triton.jit\ndef fill(x):\n"
        "    for i in range(0, 1, flatten=True):\n        tl.store(x, 1.0)\n");
  const std::string warning =
      "tegula: warning: noisy.py:5:26: range ignores its argument 'flatten', as in Triton\n"
      "        for i in range(0, 1, flatten=True):\n"
      "                             ^~~~~~~\n"
      "  hint: tl.range takes options\n"
      "  see docs/language.md#statements\n";
  for (int i = 0; i < 2; ++i) {  // compiled, then found in the cache
    Result r = tegula("run noisy.py --zeros x=f32[1]");
    EXPECT_EQ(r.status, 0);
    EXPECT_EQ(r.err, warning);
  }
  Result r = tegula("check noisy.py");
  EXPECT_EQ(r.err, warning);
  setenv("TEGULA_WARNINGS", "off", 1);
  r = tegula("run noisy.py --zeros x=f32[1]");
  unsetenv("TEGULA_WARNINGS");
  EXPECT_EQ(r.err, "");
}

TEST_F(Command, IntegersForFloats) {
  write("fill.py",
        "import triton\nimport triton.language as tl\n@triton.jit\ndef fill(x, s: tl.float32):\n    tl.store(x, s)\n");
  Result r = tegula("run fill.py --zeros x=f32[1] --arg s=2");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(r.out, "x: float32 [1], from 2 to 2");
}

TEST_F(Command, NpyOfEveryTypeComesBack) {
  for (const auto& [descr, name, bytes] :
       std::vector<std::tuple<const char*, const char*, int>>{{"|b1", "int1", 1},
                                                              {"|i1", "int8", 1},
                                                              {"<i2", "int16", 2},
                                                              {"<i4", "int32", 4},
                                                              {"<i8", "int64", 8},
                                                              {"|u1", "uint8", 1},
                                                              {"<u2", "uint16", 2},
                                                              {"<u4", "uint32", 4},
                                                              {"<u8", "uint64", 8},
                                                              {"<f2", "float16", 2},
                                                              {"|V2", "bfloat16", 2},
                                                              {"<f4", "float32", 4},
                                                              {"<f8", "float64", 8}}) {
    SCOPED_TRACE(descr);
    // The bits of these bytes are numbers in every type.
    std::string data;
    for (int i = 0; i < 6 * bytes; ++i) data += char(descr[1] == 'b' ? i % 2 : i % 50);
    std::string text = npy(fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (2, 3), }}", descr), data);
    write("a.npy", text);
    Result r = tegula("run add.py::leave --in x=a.npy --out x=b.npy");
    ASSERT_EQ(r.status, 0) << r.err;
    EXPECT_HAS(r.out, fmt::format("x: {} [2, 3], from ", name));
    EXPECT_TRUE(file("b.npy") == text);
  }
  for (const char* shape : {"()", "(0, 4)", "(1,)", "(1, 2, 1)"}) {
    std::string text = npy(fmt::format("{{'descr': '|i1', 'fortran_order': False, 'shape': {}, }}", shape), "ab");
    if (std::string(shape) == "()" || std::string(shape) == "(1,)") text.pop_back();
    if (std::string(shape) == "(0, 4)") text.resize(text.size() - 2);
    write("a.npy", text);
    Result r = tegula("run add.py::leave --in x=a.npy --out x=b.npy");
    ASSERT_EQ(r.status, 0) << r.err;
    EXPECT_TRUE(file("b.npy") == text) << shape;
  }
}

TEST_F(Command, BadNpyFilesAreRefused) {
  auto error_of = [&](const std::string& bytes) {
    write("bad.npy", bytes);
    Result r = tegula("run add.py::leave --in x=bad.npy");
    EXPECT_EQ(r.status, 3);
    return r.err;
  };
  EXPECT_HAS(error_of("hello"), "'bad.npy' is not an .npy file");
  EXPECT_HAS(error_of(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "1234")),
             "is truncated: 4 of 8 bytes of data are there");
  EXPECT_HAS(error_of(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "1234")),
             "has elements of type '>f4', which is not supported");
  EXPECT_HAS(error_of(npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", "1234")), "type '<c8'");
  EXPECT_HAS(error_of(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "1234")),
             "structured type");
  EXPECT_HAS(error_of(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", "1234")),
             "is in Fortran order");
  EXPECT_HAS(error_of(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 9999999999), }", "")),
             "is too large");
  EXPECT_HAS(error_of(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1", "")), "without a shape");
  EXPECT_HAS(error_of(std::string("\x93NUMPY\x01\x00\xff\x00{", 11)), "its header is incomplete");
  EXPECT_HAS(error_of(std::string("\x93NUMPY\x09\x00\xff\x00{", 11)), "has .npy version 9");
}

}  // namespace
}  // namespace tegula
