// tegula compile, run as a user runs it: what it writes, what it says beside, and what is wrong with a command line.
#include <cstdlib>
#include <set>
#include <sstream>

#include "tests/tools/command_fixture.h"

namespace tegula {
namespace {

using Result = CommandResult;

TEST_F(Command, TakesEmptyTextsAsConstexprs) {
  write("mode.py",
        "import triton\nimport triton.language as tl\n@triton.jit\ndef k(x, MODE: tl.constexpr):\n"
        "    if MODE == '':\n        tl.store(x, 7)\n");
  const Result r = tegula("compile mode.py --arg x='*i32' --constexpr MODE= --emit=tile");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(r.out, "store");
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

TEST_F(Command, EachTakesFoldersOfPackagesToImportFrom) {
  fs::create_directories(folder_ / "packages/tools");
  write("packages/tools/__init__.py", "");
  write("packages/tools/numbers.py", "FACTOR = 3\n");
  write("scaled.py",
        "import triton\nimport triton.language as tl\nfrom tools.numbers import FACTOR\n\n"
        "@triton.jit\ndef scaled(x):\n"
        "    i = tl.arange(0, 16)\n"
        "    tl.store(x + i, tl.load(x + i) * FACTOR)\n");
  for (const char* command : {"compile", "check"}) {
    const std::string line = fmt::format("{} scaled.py::scaled --arg x='*f32'", command);
    EXPECT_HAS(tegula(line).err, "FACTOR") << command;
    EXPECT_EQ(tegula(line + " --import packages").status, 0) << command;
  }
  for (const char* command : {"run", "explain", "debug --command quit"}) {
    const std::string line = fmt::format("{} scaled.py::scaled --zeros x=f32[16] --device emulator", command);
    EXPECT_EQ(tegula(line + " --import packages").status, 0) << tegula(line + " --import packages").err;
  }
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

// A function is inlined where it is called, its loop one of the text.
TEST_F(Command, CompileTellsOnceOfALoopThatIsInlinedTwice) {
  write("product.py",
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
        "def product(a, b, c, n):\n"
        "    i = tl.arange(0, 64)\n"
        "    at = i[:, None] * 64 + i[None, :]\n"
        "    acc = tl.zeros((64, 64), tl.float32)\n"
        "    for step in range(0, n):\n"
        "        acc = tl.dot(tl.load(a + step * 4096 + at), tl.load(b + step * 4096 + at), acc)\n"
        "    tl.store(c + at, acc)\n\n\n"
        "@triton.jit\ndef kernel(a, b, c, n):\n"
        "    product(a, b, c, n)\n    product(a, b, c + 4096, n)\n");
  const std::string told = tegula(
                               "compile product.py::kernel -o p.ptx --target=sm_80 --arg a='*f16' --arg b='*f16' --arg "
                               "c='*f32' --num-stages=12")
                               .err;
  std::set<std::string> lines;
  std::istringstream all(told);
  for (std::string line; std::getline(all, line);)
    if (line.find("memory is short for 12 stages") != line.npos)
      EXPECT_TRUE(lines.insert(line.substr(line.find("kernel '"))).second) << told;
  EXPECT_FALSE(lines.empty()) << told;
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

}  // namespace
}  // namespace tegula
