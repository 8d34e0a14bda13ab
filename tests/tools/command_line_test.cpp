// What the tegula command says of itself and of mistyped words, and what it answers as JSON.
#include "tests/tools/command_fixture.h"

namespace tegula {
namespace {

TEST_F(Command, HelpHasExamples) {
  CommandResult r = tegula("--help");
  EXPECT_EQ(r.status, 0);
  for (const char* word : {"check", "compile", "run", "cache", "Examples:"}) EXPECT_HAS(r.out, word);
  for (const char* command : {"check", "compile", "run", "cache"}) {
    r = tegula(fmt::format("{} --help", command));
    EXPECT_EQ(r.status, 0);
    EXPECT_HAS(r.out, fmt::format("Examples:\n  tegula {}", command));
  }
}

TEST_F(Command, TellsCommandsThatThereAre) {
  CommandResult r = tegula("runs add.py");
  EXPECT_EQ(r.status, 2);
  EXPECT_EQ(r.err, "error: there is no command 'runs'\n  hint: did you mean 'run'?\n");
  const std::string all = "there are check, compile, build, explain, run, debug, tune, cache, completion, man";
  EXPECT_EQ(tegula("explode").err, "error: there is no command 'explode'\n  hint: " + all + "\n");
  r = tegula("");
  EXPECT_EQ(r.status, 2);
  EXPECT_EQ(r.err, "error: no command is given\n  hint: " + all + "; `tegula --help` has examples\n");
}

TEST_F(Command, TellsOptionsThatThereAre) {
  CommandResult r = tegula("run add.py::add --gird 64");
  EXPECT_EQ(r.status, 2);
  EXPECT_EQ(r.err, "error: 'run' has no option '--gird'\n  hint: did you mean '--grid'?\n");
  EXPECT_EQ(tegula("compile add.py::add --num-wraps=8").err,
            "error: 'compile' has no option '--num-wraps'\n  hint: did you mean '--num-warps'?\n");
  EXPECT_EQ(tegula("compile add.py::add --quickly").err,
            "error: 'compile' has no option '--quickly'\n  hint: `tegula compile --help` tells what it takes\n");
  EXPECT_EQ(tegula("compile add.py::add again").err,
            "error: 'again' is one word too many\n  hint: `tegula compile --help` tells what it takes\n");
  EXPECT_EQ(tegula("run").err, "error: KERNEL is required\n  hint: `tegula run --help` tells what it takes\n");
}

TEST_F(Command, TellsAsJson) {
  write("wrong.py", "import triton\n@triton.jit\ndef k(x):\n    y = x +\n");
  CommandResult r = tegula("check --json wrong.py add.py");
  EXPECT_EQ(r.status, 1);
  EXPECT_EQ(r.err, "");
  EXPECT_HAS(r.out, "\"file\": \"wrong.py\"");
  EXPECT_HAS(r.out, "\"line\": 4");
  EXPECT_HAS(r.out, "\"message\": \"expected an expression after '+', found end of line\"");
  EXPECT_HAS(r.out, "\"kernels\": [\n      \"k\"\n    ]");
  write("half.py", "import triton\n@triton.jit\ndef k(x):\n    y = unknown\n@triton.jit\ndef l(x):\n    pass\n");
  EXPECT_HAS(tegula("check --json half.py").out, "\"kernels\": [\n      \"k\",\n      \"l\"\n    ]");
  r = tegula("compile add.py::add --constexpr BLOCK=256 --json -o add.ptx" + kTypes);
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(r.out, "\"name\": \"n\",\n      \"type\": \"i32\",\n      \"bytes\": 4,\n      \"multiple_of\": 1\n");
  EXPECT_HAS(r.out, "\"threads\": 128");
  EXPECT_HAS(r.out, "\"registers\": ");
  EXPECT_EQ(tegula("compile add.py::add --constexpr BLOCK=256 --json" + kTypes).out, r.out);
  EXPECT_EQ(tegula("compile add.py::add --constexpr BLOCK=256 --json --emit=tile -o add.tile" + kTypes).out, r.out);
  EXPECT_HAS(file("add.tile"), "func @add");
  EXPECT_HAS(tegula("cache --json").out, "\"kernels\": 0");
  EXPECT_EQ(tegula("cache --json --tuning").out, "[]\n");
  EXPECT_EQ(tegula("cache --json --clear").status, 2);
}

TEST_F(Command, TellsWrongCommandLinesAsJson) {
  const CommandResult r = tegula("compile add.py::add --num-wraps=8 --json");
  EXPECT_EQ(r.status, 2);
  EXPECT_EQ(r.out,
            "{\"errors\":[{\"file\":null,\"line\":0,\"column\":0,\"message\":\"'compile' has no option "
            "'--num-wraps'\",\"hint\":\"did you mean '--num-warps'?\"}]}\n");
  EXPECT_EQ(r.err, "error: 'compile' has no option '--num-wraps'\n  hint: did you mean '--num-warps'?\n");
  EXPECT_EQ(tegula("compile add.py::add --num-wraps=8").out, "");
}

TEST_F(Command, TellsRunsAsJson) {
  const std::string arrays = " --random x=f32[300] --zeros out=f32[300] --arg n=300 --constexpr BLOCK=256 --json ";
  CommandResult r = tegula("run add.py::add --grid 2 --random y=f32[300] --out out=o.npy" + arrays);
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_TRUE(r.out.starts_with("{\n  \"device\": \"emulator (sm_90a)")) << r.out;
  EXPECT_HAS(r.out, "\"config\": \"BLOCK=256 num_warps=4 num_stages=3\",\n");
  EXPECT_HAS(r.out, "\"name\": \"out\",\n      \"type\": \"f32\",\n      \"shape\": [\n        300\n      ],");
  EXPECT_HAS(r.out, "\"file\": \"o.npy\"");
  EXPECT_HAS(r.out, "\"warnings\": []");

  r = tegula("run add.py::add --grid 2 --random y=f32[100]" + arrays);
  EXPECT_EQ(r.status, 3);
  EXPECT_TRUE(
      r.out.starts_with("{\"errors\":[{\"file\":\"add.py\",\"line\":9,\"column\":48,\"message\":\"kernel 'add': "
                        "out-of-bounds read"))
      << r.out;
  r = tegula("run add.py::add --grid 2 --random z=f32[100]" + arrays);
  EXPECT_EQ(r.status, 2);
  EXPECT_TRUE(
      r.out.starts_with("{\"errors\":[{\"file\":null,\"line\":0,\"column\":0,\"message\":\"kernel 'add' has no"))
      << r.out;

  write("nan.py",
        "import triton\nimport triton.language as tl\n@triton.jit\ndef k(x):\n    i = tl.arange(0, 16)\n"
        "    tl.store(x + i, tl.log(tl.load(x + i) - 1.0))\n");
  r = tegula("run nan.py --check --zeros x=f32[16] --json");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(r.out, "\"warnings\": [\n    {\n      \"file\": \"nan.py\",\n      \"line\": 6,\n      \"column\": 21,\n");
  EXPECT_HAS(r.out, "\"least\": null");
  EXPECT_HAS(r.out, "\"not_finite\": 16");

  r = tegula("tune add.py::add --space num_warps=2,4 --random y=f32[300]" + arrays);
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(r.out, "\"by\": \"model\"");
  EXPECT_HAS(r.out, "\"best\": \"BLOCK=256 num_warps=");
}

TEST_F(Command, DescribesItselfToShellsAndMan) {
  EXPECT_HAS(tegula("completion bash").out, "    build) words='--help ");
  EXPECT_HAS(tegula("completion fish").out,
             "complete -c tegula -n '__fish_seen_subcommand_from build' -l object -r -d ");
  EXPECT_HAS(tegula("completion zsh").out, "\n    build) _arguments \\\n      '--help[Print this help");
  EXPECT_EQ(tegula("completion tcsh").status, 2);
  const CommandResult r = tegula("man");
  EXPECT_TRUE(r.out.starts_with(".TH TEGULA 1 \"\" \"tegula 0.")) << r.out;
  EXPECT_HAS(r.out, "\n.SS compile\nCompile one kernel and print its code.\n");
  EXPECT_HAS(r.out, "\n.B \\-\\-target\n");
}

}  // namespace
}  // namespace tegula
