// The tegula command, run as a user runs it: output, messages, exit status; and its .npy files.
#include <gtest/gtest.h>

#ifdef TEGULA_COMMAND

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
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

TEST_F(Command, TakesEmptyTextsAsConstexprs) {
  write("mode.py",
        "import triton\nimport triton.language as tl\n@triton.jit\ndef k(x, MODE: tl.constexpr):\n"
        "    if MODE == '':\n        tl.store(x, 7)\n");
  const Result r = tegula("compile mode.py --arg x='*i32' --constexpr MODE= --emit=tile");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(r.out, "store");
}

TEST_F(Command, CheckTellsMistakesAndGoesOn) {
  write("wrong.py", "import triton\n@triton.jit\ndef k(x):\n    y = x +\n");
  Result r = tegula("check wrong.py add.py");
  EXPECT_EQ(r.status, 1);
  EXPECT_EQ(r.err,
            "wrong.py:4:12: error: expected an expression after '+', found end of line\n"
            "        y = x +\n"
            "               ^\n");
  EXPECT_EQ(r.out, "add.py: 3 kernels, no errors\n");
  r = tegula("check nothing.py");
  EXPECT_EQ(r.status, 3);
  EXPECT_HAS(r.err, "nothing.py");
}

TEST_F(Command, CheckWarnsOfWhatIsNotThere) {
  write("parts.py",
        "import numpy as np\nimport triton\nimport triton.language as tl\nfrom .helpers import act, WIDTH\n"
        "from . import config\nfrom .many import *\n"
        "@triton.jit\ndef k(x):\n    y = act(tl.load(x)) * WIDTH + config.SCALE\n    tl.store(x, other(y))\n");
  Result r = tegula("check parts.py");
  EXPECT_EQ(r.status, 0);
  EXPECT_EQ(r.out, "parts.py: 1 kernel, no errors\n");
  for (const char* text : {"warning: parts.py:9:9: 'act' comes from '.helpers.act', outside this file",
                           "warning: parts.py:9:27: 'WIDTH' comes from '.helpers.WIDTH', outside this file",
                           "warning: parts.py:9:35: 'config.SCALE' is of no use in a kernel: it comes from '.config'",
                           "warning: parts.py:10:17: 'other' may come from '.many', which is not there"})
    EXPECT_HAS(r.err, text);
  r = tegula("check --json parts.py");
  EXPECT_HAS(r.out, "\"errors\": []");
  EXPECT_HAS(r.out, "'act' comes from '.helpers.act'");
  EXPECT_EQ(tegula("check parts.py --arg x='*f32'").status, 1);
  write("library.py",
        "import numpy as np\nimport triton\n@triton.jit\ndef k(x):\n    y = np.zeros(3)\n    z = other(y)\n");
  r = tegula("check library.py");
  EXPECT_EQ(r.status, 1);
  EXPECT_HAS(r.err, "error: 'np.zeros' is of no use in a kernel: it comes from 'numpy'");
  EXPECT_HAS(r.err, "  hint: write 'tl.zeros'\n");
  EXPECT_HAS(r.err, "error: unknown name 'other'");
}

TEST_F(Command, CheckWithTypes) {
  write("typed.py",
        "import triton\nimport triton.language as tl\n@triton.jit\ndef k(x, y, B: tl.constexpr):\n"
        "    tl.store(x + tl.arange(0, B), y)\n@triton.jit\ndef l(x):\n    tl.store(x, 1)\n");
  EXPECT_EQ(tegula("check typed.py").status, 0);
  EXPECT_EQ(tegula("check typed.py --arg x='*f32' --arg y=f32 --constexpr B=64").status, 0);
  Result r = tegula("check typed.py --arg x='*f32' --arg y='*f32' --constexpr B=64");
  EXPECT_EQ(r.status, 1);
  EXPECT_EQ(r.err,
            "typed.py:5:5: error: the value of store is a pointer to float32\n"
            "        tl.store(x + tl.arange(0, B), y)\n"
            "        ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
            "  hint: load from it first: tl.load(p)\n"
            "  see docs/language.md#functions\n");
  EXPECT_EQ(tegula("check typed.py::l --arg x='*f32'").status, 0);
  EXPECT_HAS(tegula("check typed.py::l --arg y='*f32'").err, "no kernel of the file has such an argument");
}

TEST_F(Command, CheckWarnsOfFilesWithoutKernels) {
  write("plain.py", "def k(x):\n    pass\n");
  write("twice.py", "import triton\n@triton.jit\ndef k(x):\n    pass\n@triton.jit\ndef k(y):\n    pass\n");
  Result r = tegula("check plain.py");
  EXPECT_EQ(r.status, 0);
  EXPECT_HAS(r.err, "warning: plain.py: the file has no @triton.jit function");
  r = tegula("check twice.py");
  EXPECT_EQ(r.status, 0);
  EXPECT_HAS(r.err, "warning: twice.py:6:5: kernel function 'k' is defined again: this one counts");
}

TEST_F(Command, TellsMistakesOfOurs) {
  setenv("TEGULA_FAIL", "stage_operands", 1);
  Result r = tegula("compile add.py::add --constexpr BLOCK=256" + kTypes);
  unsetenv("TEGULA_FAIL");
  EXPECT_EQ(r.status, 4);
  EXPECT_EQ(r.out, "");
  EXPECT_TRUE(r.err.starts_with("error: internal error at codegen/passes/pass_manager.cpp:")) << r.err;
  EXPECT_HAS(r.err, "while compiling kernel 'add' for sm_90a by tegula ");
  EXPECT_HAS(r.err, "please report it");
}

TEST_F(Command, CompileEmitsEachForm) {
  Result r = tegula("compile add.py::add --constexpr BLOCK=256 --emit=tile" + kTypes);
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(r.out,
             "func @add(%0: ptr<f32> \"x\" div 16, %1: ptr<f32> \"y\" div 16, %2: ptr<f32> \"out\" div 16, %3: i32 "
             "\"n\")");
  r = tegula("compile add.py::add --constexpr BLOCK=256 --emit=llvm" + kTypes);
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(r.out, "target triple = \"nvptx64-nvidia-cuda\"");
  r = tegula("compile add.py::add --constexpr BLOCK=256 --target=sm_80 --num-warps 8 -o add.ptx" + kTypes);
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.out, "");
  EXPECT_HAS(file("add.ptx"), ".target sm_80");
  EXPECT_HAS(r.err, "add for sm_80: 8 warps, 0 bytes of shared memory");
}

TEST_F(Command, CompileTakesDivisorsAndConstants) {
  Result r = tegula(
      "compile add.py::add --constexpr BLOCK=256 --emit=tile --arg x=*f16:4 --arg y=*bf16 --arg out=*f32 --arg n=1");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(r.out, "func @add(%0: ptr<f16> \"x\" div 4, %1: ptr<bf16> \"y\" div 16, %2: ptr<f32> \"out\" div 16)");
  r = tegula(
      "compile add.py::scale --constexpr BLOCK=256 --constexpr TYPE=fp64 --emit=tile --arg x=*f32 --arg factor=f64 "
      "--arg n=i64");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(r.out, "%1: f64 \"factor\", %2: i64 \"n\")");
}

TEST_F(Command, DescriptorsTuplesGlobalsAndTargets) {
  write("more.py",
        "import triton\nimport triton.language as tl\nfrom constants import FACTOR\n\n"
        "@triton.jit\ndef rows(d, out):\n"
        "    i = tl.arange(0, 16)\n"
        "    v = d.load([0, 0]) * FACTOR\n"
        "    tl.store(out + i[:, None] * 16 + i[None, :], v)\n\n"
        "@triton.jit\ndef tuples(xs, C: tl.constexpr):\n"
        "    tl.static_assert(C[1] == 'b' and len(xs[1]) == 2)\n"
        "    tl.store(xs[0], xs[1][1] + C[0])\n\n"
        "@triton.jit\ndef old(out):\n"
        "    tl.static_assert(not tl.target_info.cuda_capability_geq(10), 'too new')\n");
  write("constants.py", "FACTOR = 3\n");
  const std::string emit = " --emit=tile --arg out='*f32'";
  for (const char* type : {"'tensordesc<fp32[16, 16]>'", "'*f32[16,16]'"}) {
    Result r = tegula(fmt::format("compile more.py::rows --arg d={}{}", type, emit));
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_HAS(r.out, "value = 3");
  }
  EXPECT_HAS(tegula("compile more.py::rows --global FACTOR=4 --arg d='tensordesc<fp32[16,16]>'" + emit).out,
             "value = 4");
  Result r = tegula("compile more.py::tuples --emit=tile --arg 'xs=(*i32, (f32, i32:4))' --constexpr \"C=(7, 'b')\"");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(r.out, "(%0: ptr<i32> \"xs.0\" div 16, %1: f32 \"xs.1.0\", %2: i32 \"xs.1.1\" div 4)");
  EXPECT_EQ(tegula("check more.py::old --arg out='*i32'").status, 0);
  r = tegula("check more.py::old --arg out='*i32' --target=sm_100a");
  EXPECT_EQ(r.status, 1);
  EXPECT_HAS(r.err, "static_assert failed: too new");
  EXPECT_HAS(tegula("compile more.py::old --target=sm_100a").err, "static_assert failed: too new");
  EXPECT_EQ(tegula("check more.py::old --arg 'out=(*i32'").status, 2);
  write("asks.py",
        "import triton\nimport triton.language as tl\nN = ask()\n"
        "@triton.jit\ndef k(out):\n    tl.store(out, N)\n");
  r = tegula("check asks.py");
  EXPECT_EQ(r.status, 0);
  EXPECT_HAS(r.err, "tegula: warning: asks.py:3:5: unknown name 'ask'");
  EXPECT_HAS(r.err, "note: in the value of the global 'N', which may be given: --global N=VALUE\n");
  r = tegula("check asks.py --arg out='*i32'");
  EXPECT_EQ(r.status, 1);
  EXPECT_HAS(r.err, "asks.py:3:5: error: unknown name 'ask'");
  r = tegula("check asks.py --global N=5");
  EXPECT_EQ(r.status, 0);
  EXPECT_EQ(r.err, "");
  EXPECT_HAS(tegula("run asks.py --global N=5 --device=emulator --zeros out=i32[1]").out,
             "out: int32 [1], from 5 to 5");
  EXPECT_HAS(tegula("compile asks.py --global N=5 --no-fp-fusion --emit=tile --arg out='*i32'").out,
             "fp_fusion = false");
}

TEST_F(Command, CompileAsksPtxasWhenItIsThere) {
  fs::create_directory(folder_ / "bin");
  // Stands in for the assembler: the last argument names its output.
  write("bin/ptxas",
        "#!/bin/sh\n"
        "for last; do :; done\n"
        "echo machine code of $3 > \"$last\"\n"
        "echo 'ptxas info : 16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads'\n"
        "echo 'ptxas info : Used 42 registers, 0 bytes smem'\n");
  fs::permissions(folder_ / "bin/ptxas", fs::perms::owner_all);
  std::string path = (folder_ / "bin").string();
  Result r = tegula("compile add.py::add --constexpr BLOCK=256 --emit=cubin -o add.cubin" + kTypes, path);
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(r.err, "42 registers a thread, 20 bytes spilled (by ptxas)");
  EXPECT_EQ(r.err.find("warning"), r.err.npos) << r.err;
  EXPECT_EQ(file("add.cubin"), "machine code of sm_90a\n");
  write("bin/ptxas",
        "#!/bin/sh\n"
        "for last; do :; done\n"
        "echo machine code of $3 > \"$last\"\n"
        "echo 'ptxas info : 1600 bytes stack frame, 800 bytes spill stores, 1200 bytes spill loads'\n"
        "echo 'ptxas info : Used 255 registers, 0 bytes smem'\n");
  r = tegula("compile add.py::add --constexpr BLOCK=256 -o add.ptx" + kTypes, path);
  EXPECT_HAS(r.err,
             "tegula: warning: kernel 'add': its tiles do not fit the registers, a thread spills 2000 bytes to memory\n"
             "  hint: use num_warps=8 or smaller tiles\n");
  write("bin/ptxas", "#!/bin/sh\necho 'ptxas fatal : no good'\nexit 7\n");
  r = tegula("compile add.py::add --constexpr BLOCK=256 -o add.ptx" + kTypes, path);
  EXPECT_EQ(r.status, 3);
  EXPECT_HAS(r.err, "refused the PTX of 'add' (exit status 7)");
  EXPECT_HAS(r.err, "ptxas fatal : no good");
}

// A stage takes 24 KiB of 163.
TEST_F(Command, CompileTellsOfStagesThatDoNotFit) {
  write("product.py",
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
        "def product(a, b, c, n):\n"
        "    i = tl.arange(0, 128)\n"
        "    k = tl.arange(0, 64)\n"
        "    acc = tl.zeros((128, 64), tl.float32)\n"
        "    for step in range(0, n):\n"
        "        x = tl.load(a + step * 8192 + i[:, None] * 64 + k[None, :])\n"
        "        y = tl.load(b + step * 4096 + k[:, None] * 64 + k[None, :])\n"
        "        acc = tl.dot(x, y, acc)\n"
        "    tl.store(c + i[:, None] * 64 + k[None, :], acc)\n");
  const std::string arguments =
      "compile product.py -o p.ptx --target=sm_80 --arg a='*f16' --arg b='*f16' --arg c='*f32'";
  EXPECT_HAS(tegula(arguments + " --num-stages=8").err,
             "tegula: warning: kernel 'product', product.py:10:5: memory is short for 8 stages, the loop runs with 6\n"
             "  hint: use num_stages=6 or smaller tiles\n");
  const std::string told = tegula(arguments + " --num-stages=6").err;
  EXPECT_EQ(told.find("warning"), std::string::npos);
  EXPECT_HAS(told, "\n  product.py:10:5: copies by threads; not in bulk: sm_80 has none\n");
}

TEST_F(Command, CompileSaysWhatIsWrong) {
  auto error = [&](const std::string& arguments, int status) {
    Result r = tegula("compile " + arguments);
    EXPECT_EQ(r.status, status) << r.err;
    return r.err;
  };
  EXPECT_HAS(error("add.py", 2), "'add.py' has several kernels: name one as add.py::KERNEL (add, scale, leave)");
  EXPECT_HAS(error("add.py::", 2), "expected FILE::KERNEL");
  EXPECT_HAS(error("add.py::scal", 1), "did you mean 'scale'?");
  EXPECT_HAS(error("add.py::add" + kTypes, 1), "constexpr parameter 'BLOCK' has no value");
  EXPECT_HAS(error("add.py::add" + kTypes, 1), "--constexpr BLOCK=VALUE on the command line");
  EXPECT_HAS(error("add.py::add --constexpr BLOK=1" + kTypes, 1), "did you mean 'BLOCK'?");
  EXPECT_HAS(error("add.py::add --constexpr BLOK=1" + kTypes, 1),
             "\nerror: kernel 'add': the constexpr parameter 'BLOCK' has no value\n");  // the second of the list
  EXPECT_HAS(error("add.py::add --arg z='*f32'", 2), "kernel 'add' has no argument 'z'; it has: x, y, out, n");
  EXPECT_HAS(error("add.py::add --arg BLOCK=3", 2), "give it as --constexpr BLOCK=VALUE");
  EXPECT_HAS(error("add.py::add --arg x='*float'", 2), "'*float' is no type");
  EXPECT_HAS(error("add.py::add --arg x='*f32:3'", 2), "must be a power of two");
  EXPECT_HAS(error("add.py::add --arg x", 2), "expected NAME=VALUE");
  EXPECT_HAS(error("add.py::add --constexpr BLOCK=256", 1),
             "\n  note: no --arg gives the type of x, y, out, n: taken as int32; a pointer is --arg x='*f32'\n");
  EXPECT_HAS(error("add.py::add --arg x='*f32' y='*f32'", 2),
             "\n  hint: an option takes one NAME=VALUE and may be given again: --arg x=... --arg y=...\n");
  EXPECT_HAS(error("add.py::add --target=sm_1", 2), "--target 'sm_1' is not known; known are sm_80, ");
  EXPECT_HAS(error("add.py::add --emit=cubin", 2), "name it with -o FILE");
  EXPECT_HAS(error("add.py::add --emit=elf", 2), "--emit");
  EXPECT_HAS(error("add.py::add --constexpr BLOCK=256 -o no/folder/x.ptx" + kTypes, 3),
             "cannot write 'no/folder/x.ptx'");
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

const char* const kTuned = R"(import triton
import triton.language as tl


@triton.jit
def doubled(x):
    return x + x


@triton.autotune(configs=[triton.Config({"BLOCK": b}) for b in (32, 48, 4096)], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def double(x, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    tl.static_assert(BLOCK != 48, f"{BLOCK=} is not for {x.dtype}")
    tl.static_print("even", EVEN)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, doubled(tl.load(x + i, mask=i < n)), mask=i < n)
)";

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

TEST_F(Command, CompileTakesTheFirstConfiguration) {
  write("tuned.py", kTuned);
  Result r = tegula("compile tuned.py --arg x='*f32' --arg n=i32:16 --emit=tile");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(r.err,
             "double: BLOCK=32 EVEN=True num_warps=4 num_stages=3 (what is not given: the first configuration, and "
             "heuristics for integers of 4097, for multiples of 16 of 4096)\n");
  EXPECT_HAS(r.err, "even True\n");  // what tl.static_print prints stays out of the output
  EXPECT_HAS(r.out, "func @double");
  r = tegula("compile tuned.py --arg x='*f32' --arg n=100 --emit=tile");
  EXPECT_HAS(r.err, "double: BLOCK=32 EVEN=False ");
  r = tegula("compile tuned.py --arg x='*f32' --constexpr BLOCK=64 --emit=tile");
  EXPECT_HAS(r.err, "double: BLOCK=64 EVEN=False ");  // any integer
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

TEST_F(Command, CacheShowsAndClears) {
  Result r = tegula("cache");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(r.out, "kernels  0\n");
  r = tegula("run add.py::scale --random x=f32[100] --arg factor=2.0 --arg n=100 --constexpr BLOCK=128");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(tegula("cache").out, "kernels  1\n");
  r = tegula("cache --clear");
  EXPECT_EQ(r.status, 0);
  EXPECT_HAS(r.out, "cleared\n");
  EXPECT_HAS(tegula("cache").out, "kernels  0\n");
}

TEST_F(Command, CacheCarriesTuningResults) {
  write(
      "rows.jsonl",
      R"({"kernel":"k 12","key":"*f32 | n=8","gpu":"G","driver":"d 1","config":"B=1","status":"timed","winner":true,)"
      R"("times_us":[1.5,2.0],"predicted_us":1.0,"registers":32,"spill_bytes":0,"shared_bytes":0,"measured_at":1700000000})"
      "\n"
      R"({"kernel":"k 12","key":"*f32 | n=8","gpu":"G","driver":"d 1","config":"B=2","status":"failed","reason":"no",)"
      R"("times_us":[],"predicted_us":0.0,"registers":-1,"spill_bytes":-1,"shared_bytes":-1,"measured_at":1700000000})"
      "\n");
  EXPECT_HAS(tegula("cache").out, "tuned    0 problems, 0 results\n");
  Result r = tegula("cache --import rows.jsonl --tuning");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.out,
            "2 tuning results read from rows.jsonl\n"
            "k 12\n  key     *f32 | n=8\n  on      G, d 1\n  known   2 candidates\n  winner  B=1\n");
  EXPECT_HAS(tegula("cache").out, "tuned    1 problems, 2 results\n");
  EXPECT_EQ(tegula("cache --export out.jsonl").out, "2 tuning results written to out.jsonl\n");
  EXPECT_EQ(file("out.jsonl"), file("rows.jsonl"));
  EXPECT_EQ(tegula("cache --export -").out, file("rows.jsonl"));
  EXPECT_HAS(tegula("cache --clear").out, "cleared\n");
  EXPECT_HAS(tegula("cache").out, "tuned    1 problems, 2 results\n");  // by its own flag alone
  EXPECT_EQ(tegula("cache --clear-tuning").out, "tuning results cleared\n");
  EXPECT_EQ(tegula("cache --tuning").out, "");
  write("bad.jsonl", "{}\n");
  r = tegula("cache --import bad.jsonl");
  EXPECT_EQ(r.status, 3);
  EXPECT_HAS(r.err, "bad.jsonl:1: no tuning result");
  EXPECT_HAS(tegula("cache --import none.jsonl").err, "cannot read 'none.jsonl': No such file or directory");
}

TEST_F(Command, CachesOfOthersAreTakenIn) {
  setenv("TEGULA_WARNINGS", "off", 1);
  EXPECT_EQ(tegula("run add.py::leave --zeros x=f32[1]").status, 0);
  fs::rename(folder_ / "cache", folder_ / "other");
  write("rows.jsonl",
        R"({"kernel":"k 1","key":"*f32","gpu":"G","driver":"d","config":"B=1","status":"timed","winner":true,)"
        R"("times_us":[1.5],"measured_at":7})"
        "\n");
  EXPECT_EQ(tegula("cache --import rows.jsonl").status, 0);
  fs::rename(folder_ / "cache" / "tuning.sqlite", folder_ / "other" / "tuning.sqlite");
  fs::remove_all(folder_ / "cache");
  Result r = tegula("cache --merge other --tuning");
  EXPECT_HAS(r.out, " entries and 1 tuning results taken from other\nk 1\n");
  EXPECT_HAS(r.out, "winner  B=1\n");
  EXPECT_HAS(tegula("cache").out, "kernels  1\n");
  EXPECT_HAS(tegula("cache --merge none").err, "'none' is no folder");
  unsetenv("TEGULA_WARNINGS");
}

// ---- .npy files

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

#else

TEST(Command, IsNotBuilt) { GTEST_SKIP() << "the tegula command is not built (TEGULA_TOOLS is off)"; }

#endif
