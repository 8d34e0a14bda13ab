// label: device
// heavy: Golden/WrongKernels.AreExplained/limits
// What a user who makes a mistake in a kernel or its launch reads, end to end: the whole message of each kind.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

#include "codegen/compile.h"
#include "codegen/exec/emulator.h"
#include "tests/dsl/errors_fixture.h"

namespace tegula {
namespace {

// ---- The kernel's text

// tests/golden/errors/*.txt: "#### name", a kernel, "---- message" and what launching it says. Each message is followed
// by a launch of another kernel on the same device. TEGULA_BLESS=1 writes what came out.
class WrongKernels : public ErrorsTest, public testing::WithParamInterface<std::string> {};

TEST_P(WrongKernels, AreExplained) {
  const fs::path path = fs::path(TEGULA_SOURCE_DIR) / "tests/golden/errors" / (GetParam() + ".txt");
  std::ifstream in(path);
  ASSERT_TRUE(in) << path;
  const bool bless = std::getenv("TEGULA_BLESS") && std::string_view(std::getenv("TEGULA_BLESS")) == "1";
  std::string line, name, kernel, expected, blessed;
  bool in_message = false;
  int cases = 0;
  auto finish = [&] {
    if (name.empty()) return;
    std::string found = refusal(kernel);
    EXPECT_NE(found, "no error") << name;
    if (!bless) {
      EXPECT_EQ(found, expected) << name;
    }
    blessed += fmt::format("#### {}\n{}---- message\n{}", name, kernel, found);
    ++cases;
  };
  while (std::getline(in, line)) {
    if (line.starts_with("#### ")) {
      finish();
      name = line.substr(5), kernel.clear(), expected.clear(), in_message = false;
    } else if (line == "---- message") {
      in_message = true;
    } else {
      (in_message ? expected : kernel) += line + "\n";
    }
  }
  finish();
  in.close();
  EXPECT_GT(cases, 2);
  if (bless) std::ofstream(path) << blessed;
}

INSTANTIATE_TEST_SUITE_P(Golden, WrongKernels,
                         testing::Values("kernels", "values", "calls", "control", "names", "limits"),
                         [](const auto& info) { return info.param; });

TEST_F(ErrorsTest, MistakesOfOneFileAreToldTogether) {
  EXPECT_EQ(message_of<CompileError>([] {
              program_of("def k(x, n):\n    a = (1\n    b = 2 +\n    if n = 1:\n        pass\n" + ("\n" + kHead) +
                         "def m(x):\n    y = [\n");
            }),
            "k.py:6:9: error: '(' was never closed\n"
            "        a = (1\n"
            "            ^\n"
            "k.py:7:12: error: expected an expression after '+', found end of line\n"
            "        b = 2 +\n"
            "               ^\n"
            "k.py:8:10: error: expected ':' after the condition, found '='\n"
            "        if n = 1:\n"
            "             ^\n"
            "  hint: '==' compares\n"
            "  see docs/language.md#statements\n"
            "k.py:16:9: error: '[' was never closed\n"
            "        y = [\n"
            "            ^\n");
  // Program::check looks at every function.
  Program program = program_of("def k(x, n):\n    tl.store(x, m)\n\n@triton.jit\ndef l(x):\n    tl.stor(x, 1)\n");
  EXPECT_EQ(message_of<CompileError>([&] { program.check(); }),
            "k.py:6:17: error: unknown name 'm'\n"
            "        tl.store(x, m)\n"
            "                    ^\n"
            "k.py:10:5: error: unknown function 'tl.stor'\n"
            "        tl.stor(x, 1)\n"
            "        ^~~~~~~\n"
            "  hint: did you mean 'tl.store'?\n"
            "  see docs/language.md#functions\n");
  expect_works();
}

// Triton looks at no name of a branch that is ruled out at compile time, which a check without types does not know of.
TEST_F(ErrorsTest, UnknownNamesThatMayNotBeReached) {
  Program program = program_of(
      "def k(x, n, B: tl.constexpr):\n    if B == 3 and old:\n        tl.store(x, older(n))\n"
      "    tl.store(x, n if B < 3 else oldest)\n\n" +
      kHead.substr(kHead.find('@')) + kAdd);
  program.check();
  EXPECT_EQ(message_of<CompileError>([&] {
              program.kernel("k").launch(*device_, {1}, {.constexprs = {{"B", 4}}}, x_.as<float>(), 5);
            }),
            "k.py:8:33: error: unknown name 'oldest'\n"
            "        tl.store(x, n if B < 3 else oldest)\n"
            "                                    ^~~~~~\n");
  expect_works(program);
}

// The same of texts of values of the run time.
TEST_F(ErrorsTest, TextsThatMayNotBeReached) {
  const std::string debug =
      "def k(x, n, DEBUG: tl.constexpr):\n    pid = tl.program_id(0)\n    if DEBUG:\n        print(f\"pid: {pid}\")\n";
  Program program = program_of(debug + "    tl.store(x, n)\n");
  program.check();
  EXPECT_THROW(program.kernel("k").launch(*device_, {1}, {.constexprs = {{"DEBUG", true}}}, x_.as<float>(), 5),
               CompileError);
  program.kernel("k").launch(*device_, {1}, {.constexprs = {{"DEBUG", false}}}, x_.as<float>(), 5);
  EXPECT_THROW(
      program_of("def k(x, n):\n    pid = tl.program_id(0)\n    print(f\"pid: {pid}\")\n    tl.store(x, n)\n").check(),
      CompileError);
}

// A check without types knows that the tuple has two parts, and not what they are.
TEST_F(ErrorsTest, LoopsCarryTuplesWhosePartsAreNotKnown) {
  Program program = program_of(
      "def k(x, n):\n    a = (n, None)\n    b = (n, 0.0)\n    for i in range(n):\n        a = (a[0] + 1, None)\n"
      "        b = (b[0] * 2, b[1] + 1.0)\n    tl.store(x, a[0] + b[0])\n");
  program.check();
}

TEST_F(ErrorsTest, TheGoodKernelsOfAFileServe) {
  Program program = program_of(kAdd + "\n@triton.jit\ndef bad(x):\n    tl.store(x, wrong)\n");
  EXPECT_EQ(message_of<CompileError>([&] { program.kernel("bad").launch(*device_, {1}, {}, x_.as<float>()); }),
            "k.py:12:17: error: unknown name 'wrong'\n"
            "        tl.store(x, wrong)\n"
            "                    ^~~~~\n");
  expect_works(program);
  EXPECT_EQ(message_of<CompileError>([&] { program.kernel("adds"); }),
            "k.py: error: no @triton.jit function 'adds'\n  hint: did you mean 'add'?\n");
  EXPECT_EQ(message_of<CompileError>([&] { program.kernel("softmax"); }),
            "k.py: error: no @triton.jit function 'softmax'\n  hint: the file has add, bad\n");
  expect_works(program);
}

// The last function of a name counts, as it does in Python.
TEST_F(ErrorsTest, AFunctionDefinedTwice) {
  Program program = program_of("def add(x, n):\n    tl.store(x, n)\n\n@triton.jit\n" + kAdd);
  EXPECT_EQ(program.kernels(), std::vector<std::string>{"add"});
  EXPECT_EQ(program.kernel("add").params().size(), 5u);
  expect_works(program);
}

// ---- Files

TEST_F(ErrorsTest, FilesThatCannotBeRead) {
  auto load = [](const fs::path& path) { return message_of<FileError>([&] { Program::load(path.string()); }); };
  fs::path missing = root_ / "missing.py";
  EXPECT_EQ(load(missing), "cannot read '" + missing.string() + "': No such file or directory");
  EXPECT_EQ(load(root_), "cannot read '" + root_.string() + "': it is a folder, expected a Triton source file");
  EXPECT_EQ(load(""), "cannot read '': No such file or directory");
  EXPECT_EQ(load("missing.py"),
            fmt::format("cannot read 'missing.py': No such file or directory\n  hint: it is looked for in the working "
                        "directory, {}",
                        fs::current_path().string()));
  std::ofstream(missing) << kHead + kAdd;
  expect_works(Program::load(missing.string()));
}

TEST_F(ErrorsTest, EmptyFile) {
  std::ofstream(root_ / "empty.py").close();
  Program program = Program::load((root_ / "empty.py").string());
  EXPECT_TRUE(program.kernels().empty());
  program.check();
  EXPECT_EQ(message_of<CompileError>([&] { program.kernel("add"); }),
            (root_ / "empty.py").string() +
                ": error: no @triton.jit function 'add'\n"
                "  hint: the file has none at all: kernels are functions under @triton.jit\n");
  expect_works();
}

TEST_F(ErrorsTest, BinaryFile) {
  auto parse = [](std::string text) { return message_of<CompileError>([&] { Program::parse(text, "k.py"); }); };
  EXPECT_EQ(parse(std::string("\x7f"
                              "ELF\x02\x01\x01\0\0",
                              9)),
            "k.py:1:8: error: the byte 0x00 is no UTF-8 text\n"
            "    ?ELF????\?\n"
            "           ^\n"
            "  hint: is this a kernel file? It has to be a Triton source file in UTF-8\n");
  EXPECT_EQ(parse("a = 1\nb = 'é\xff'\n"),
            "k.py:2:7: error: the byte 0xff is no UTF-8 text\n"
            "    b = 'é?'\n"
            "          ^\n"
            "  hint: is this a kernel file? It has to be a Triton source file in UTF-8\n");
  expect_works();
}

TEST_F(ErrorsTest, GarbageIsAnsweredQuickly) {
  std::mt19937 random(1);
  const std::string alphabet = "abn01 +-*/%=<>()[]{}:;,.'\"#@\\\n\t!?$&|^~\n    \n";
  for (bool bytes : {false, true}) {
    std::string garbage;
    while (garbage.size() < 1 << 20) garbage += bytes ? char(random()) : alphabet[random() % alphabet.size()];
    for (const std::string& before : {std::string(), kHead + "def k(x):\n    "}) {
      auto start = std::chrono::steady_clock::now();
      std::string message = message_of<CompileError>([&] { Program::parse(before + garbage, "k.py"); });
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8));
      EXPECT_LT(message.size(), 50'000u);
      if (!before.empty()) {
        EXPECT_NE(message.find("k.py:"), std::string::npos) << message.substr(0, 1000);
      }
    }
  }
  expect_works();
}

// Past 50 messages are counted.
TEST_F(ErrorsTest, ManyMistakes) {
  std::string text = "def k(x):\n";
  for (int i = 0; i < 200; ++i) text += "    a = )\n";
  std::string message = message_of<CompileError>([&] { program_of(text); });
  EXPECT_TRUE(
      message.ends_with("k.py:55:9: error: unbalanced ')'\n        a = )\n            ^\n... and 150 more errors\n"))
      << message.substr(message.size() - 200);
  expect_works();
}

TEST_F(ErrorsTest, NestedExpressions) {
  for (int depth : {100, 10'000, 1'000'000}) {
    std::string open(depth, '('), close(depth, ')');
    std::string shown = (open + "1" + close).substr(3, 160);  // the brackets from column 20 on
    EXPECT_EQ(message_of<CompileError>([&] { program_of("def k(x):\n    tl.store(x, " + open + "1" + close + ")\n"); }),
              "k.py:6:80: error: brackets are nested more than 64 deep\n    ..." + shown + "...\n    " +
                  std::string(63, ' ') + "^\n")
        << depth;
  }
  for (const char* op : {"-", "not ", "~"}) {
    std::string chain;
    for (int i = 0; i < 20'000; ++i) chain += op;
    std::string message = message_of<CompileError>([&] { program_of("def k(x):\n    a = " + chain + "x\n"); });
    EXPECT_NE(message.find("error: the expression is nested too deeply\n"), std::string::npos) << message;
    EXPECT_NE(message.find("  hint: assign parts of it to variables\n"), std::string::npos) << message;
  }
  for (std::string item : {" + 1", " ** 2", ".T", "[None]", "(1)", " if x else 1", " < 1", " and x"}) {
    std::string chain;
    for (int i = 0; i < 20'000; ++i) chain += item;
    std::string message = message_of([&] { program_of("def k(x):\n    a = x" + chain + "\n").check(); });
    EXPECT_LT(message.size(), 20'000u) << item;
  }
  std::string ifs;
  for (int i = 0; i < 2000; ++i) ifs += "    " + std::string(i, ' ') + "if x:\n";
  std::string message = message_of<CompileError>([&] { program_of("def k(x):\n" + ifs); });
  EXPECT_NE(message.find("error: blocks are nested more than 100 deep\n"), std::string::npos) << message;
  expect_works();
}

TEST_F(ErrorsTest, LongLinesAreCut) {
  std::string text =
      "def k(x):\n    a = \"" + std::string(100'000, 'b') + "\" + unknown + \"" + std::string(100'000, 'c') + "\"\n";
  EXPECT_EQ(refusal(text), "k.py:6:100014: error: unknown name 'unknown'\n    ..." + std::string(56, 'b') +
                               "\" + unknown + \"" + std::string(89, 'c') + "...\n" + std::string(4 + 3 + 60, ' ') +
                               "^~~~~~~\n");
}

TEST_F(ErrorsTest, TwoHundredParameters) {
  std::string names, sum = "0";
  std::vector<Arg> args{out_.as<int>()};
  for (int i = 0; i < 200; ++i)
    names += fmt::format(", p{}", i), sum += fmt::format(" + p{}", i), args.push_back(i + 2);
  Program program = program_of("def k(out" + names + "):\n    tl.store(out, " + sum + ")\n");
  program.kernel("k").launch(*device_, {1}, {}, args);
  EXPECT_EQ(out_.download<int>()[0], 199 * 200 / 2 + 400);
  args.pop_back();
  std::string message = message_of<LaunchError>([&] { program.kernel("k").launch(*device_, {1}, {}, args); });
  EXPECT_TRUE(message.starts_with("kernel 'k' takes 201 arguments (out, p0, p1, ")) << message;
  EXPECT_TRUE(message.ends_with(", p199), found 200")) << message;
  expect_works();
}

// ---- Options and arguments of a launch

TEST_F(ErrorsTest, Options) {
  Kernel add = good_.kernel("add");
  auto launch = [&](LaunchOptions options) {
    std::string message =
        message_of<LaunchError>([&] { add.launch(*device_, {8}, options, out_.as<float>(), x_.as<float>(), 1, 1000); });
    expect_works();
    return message;
  };
  EXPECT_EQ(launch({}),
            "kernel 'add': the constexpr parameter 'BLOCK' has no value\n"
            "  hint: give it at the launch: .constexprs = {{\"BLOCK\", value}} in C++, --constexpr BLOCK=VALUE on the "
            "command "
            "line, BLOCK=value in Python");
  EXPECT_EQ(launch({.constexprs = {{"BLCK", 128}, {"BLOCK", 128}}}),
            "kernel 'add': there is no constexpr parameter 'BLCK'\n  hint: did you mean 'BLOCK'?");
  EXPECT_EQ(launch({.constexprs = {{"BLOCK", 128}, {"GROUPS", 2}}}),
            "kernel 'add': there is no constexpr parameter 'GROUPS'\n  hint: the kernel has BLOCK");
  EXPECT_EQ(launch({.constexprs = {{"BLOCK", 128}, {"BLOCK", 256}}}),
            "kernel 'add': the constexpr parameter 'BLOCK' is given twice");
  // Several at once.
  EXPECT_EQ(launch({.constexprs = {{"size", 128}}, .num_warps = 3, .num_stages = -1}),
            "kernel 'add': num_warps is 3, expected 1, 2, 4, 8, 16 or 32\n"
            "kernel 'add': num_stages is -1, expected 0 to 32\n"
            "kernel 'add': the parameter 'size' is no tl.constexpr\n"
            "  hint: pass its value with the arguments of the launch, or annotate it with tl.constexpr\n"
            "kernel 'add': the constexpr parameter 'BLOCK' has no value\n"
            "  hint: give it at the launch: .constexprs = {{\"BLOCK\", value}} in C++, --constexpr BLOCK=VALUE on the "
            "command "
            "line, BLOCK=value in Python");
  EXPECT_EQ(launch({.constexprs = {{"BLOCK", 128}}, .num_warps = 64}),
            "kernel 'add': num_warps is 64, expected 1, 2, 4, 8, 16 or 32");
  // A value of the wrong kind is told where the kernel uses it.
  for (Constexpr value : {Constexpr(std::string("many")), Constexpr(1.5), Constexpr(), Constexpr(Elem::F32)}) {
    std::string message = message_of<CompileError>([&] {
      add.launch(*device_, {8}, {.constexprs = {{"BLOCK", value}}}, out_.as<float>(), x_.as<float>(), 1, 1000);
    });
    EXPECT_TRUE(message.starts_with("k.py:6:")) << message;
  }
  EXPECT_EQ(message_of<CompileError>([&] {
              add.launch(*device_, {8}, {.constexprs = {{"BLOCK", 74}}}, out_.as<float>(), x_.as<float>(), 1, 1000);
            }),
            "k.py:6:36: error: the extent of arange is 74, which is no q * 2^k with odd q up to 31\n"
            "        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
            "                                       ^~~~~~~~~~~~~~~~~~~\n"
            "  hint: the nearest are 72 and 76: mask what is too much: mask = tl.arange(0, BLOCK) < n\n"
            "  see docs/language.md#extents-of-tiles\n");
  expect_works();
}

TEST_F(ErrorsTest, Arguments) {
  Program program = program_of(R"(def k(x, n: tl.int32, eps: tl.float32, BLOCK: tl.constexpr = 8):
    tl.store(x + n, eps)
)");
  auto launch = [&](auto... args) {
    std::string message = message_of<LaunchError>([&] { program.kernel("k").launch(*device_, {1}, {}, args...); });
    program.kernel("k").launch(*device_, {1}, {}, x_.as<float>(), 0, 0.0);  // the same kernel serves on
    expect_works();
    return message;
  };
  float* x = x_.as<float>();
  EXPECT_EQ(launch(x, 1), "kernel 'k' takes 3 arguments (x, n, eps), found 2");
  EXPECT_EQ(launch(x, 1, 1.0, 8),
            "kernel 'k' takes 3 arguments (x, n, eps), found 4\n"
            "  hint: values of tl.constexpr parameters are no arguments: give them in the options");
  EXPECT_EQ(launch(x, 1.5, 1.0), "kernel 'k', argument 'n': expected i32, found the floating-point number 1.5");
  EXPECT_EQ(launch(x, true, 1.0), "kernel 'k', argument 'n': expected i32, found the bool true");
  EXPECT_EQ(launch(x, int64_t(1) << 31, 1.0),
            "kernel 'k', argument 'n': 2147483648 does not fit i32 (-2147483648 to 2147483647)");
  EXPECT_EQ(launch(x, x, 1.0), "kernel 'k', argument 'n': expected i32, found a pointer to f32");
  EXPECT_EQ(launch(x, 1, x), "kernel 'k', argument 'eps': expected f32, found a pointer to f32");
  EXPECT_EQ(launch(Arg::pointer(x_.address()), 1, 1.0),
            "kernel 'k', argument 'x': a pointer to elements of unknown type\n"
            "  hint: pass a typed pointer, such as buffer.as<float>() or Arg::pointer(address, type)");
  EXPECT_EQ(launch(Arg::pointer(x_.address() + 2, Elem::F32), 1, 1.0),
            fmt::format("kernel 'k', argument 'x': address {:#x} is not a multiple of 4, which *f32 needs",
                        x_.address() + 2));
  // None, an integer or a float for a pointer: the kernel's line says what it needs.
  EXPECT_EQ(message_of<CompileError>([&] { program.kernel("k").launch(*device_, {1}, {}, nullptr, 1, 1.0); }),
            "k.py:6:14: error: '+' is not defined for None and int32\n"
            "        tl.store(x + n, eps)\n"
            "                 ^~~~~\n"
            "  hint: 'x' is None here: use it where 'if x is not None:' holds\n"
            "  see docs/language.md#statements\n");
  EXPECT_EQ(
      message_of<CompileError>([&] { program.kernel("k").launch(*device_, {1}, {}, 4096, 1, 1.0); }),
      "k.py:6:5: error: store takes a pointer or a tile of pointers, found int32\n"
      "        tl.store(x + n, eps)\n"
      "        ^~~~~~~~~~~~~~~~~~~~\n"
      "  hint: an argument is a pointer if the launch gives an array; neither a number nor offsets alone are one\n"
      "  see docs/language.md#functions\n");
  expect_works();
}

// Nothing tells what a parameter without a type is for but the lines that use it: these name it.
TEST_F(ErrorsTest, ArgumentsInTheWrongPlace) {
  Program program = program_of(R"(def k(x, stride, n):
    row = tl.program_id(0) * stride
    for i in range(n):
        tl.store(x + row + i, 1.0)
)");
  auto launch = [&](auto... args) {
    return message_of<CompileError>([&] { program.kernel("k").launch(*device_, {1}, {}, args...); });
  };
  EXPECT_EQ(
      launch(8, x_.as<float>(), 1),
      "k.py:6:11: error: '*' is not defined for int32 and pointer to float32\n"
      "        row = tl.program_id(0) * stride\n"
      "              ^~~~~~~~~~~~~~~~~~~~~~~~~\n"
      "  hint: load from the pointer first: tl.load(stride); if 'stride' should be a number, check the order of the "
      "launch's arguments\n"
      "  see docs/language.md#operators\n");
  EXPECT_EQ(launch(x_.as<float>(), 8.0, 2.0),
            "k.py:7:20: error: range takes integers, found float32\n"
            "        for i in range(n):\n"
            "                       ^\n"
            "  hint: 'n' is a float at this launch: pass an integer, or convert with .to(tl.int32)\n"
            "  see docs/language.md#statements\n"
            "k.py:8:18: error: a pointer moves by integers, found float32\n"
            "            tl.store(x + row + i, 1.0)\n"
            "                     ^~~~~~~\n"
            "  hint: 'stride' is a float at this launch: pass an integer, or convert with .to(tl.int32)\n"
            "  see docs/language.md#operators\n");
  EXPECT_EQ(refusal("def k(x, y):\n    tl.store(x + tl.load(y), 1.0)\n"),
            "k.py:6:14: error: a pointer moves by integers, found float32\n"
            "        tl.store(x + tl.load(y), 1.0)\n"
            "                 ^~~~~~~~~~~~~~\n"
            "  hint: floats are loaded: pass an array of integers, or convert with .to(tl.int32)\n"
            "  see docs/language.md#operators\n");
  expect_works();
}

// A handle is compiled for what it was prepared with.
TEST_F(ErrorsTest, HandleOfOtherArguments) {
  Kernel add = good_.kernel("add");
  const LaunchOptions options{.constexprs = {{"BLOCK", 128}}};
  std::vector<Arg> args{out_.as<float>(), x_.as<float>(), 16, 1000};
  LaunchHandle handle = add.prepare(*device_, add.classify(args, options), options);
  auto launch = [&](auto... values) {
    std::string message = message_of<LaunchError>([&] { handle(nullptr, {8}, values...); });
    handle.launch(nullptr, {8}, args);
    EXPECT_EQ(out_.download<float>()[999], 1015);
    return message;
  };
  float *out = out_.as<float>(), *x = x_.as<float>();
  EXPECT_EQ(launch(out, x, 16), "kernel 'add' takes 4 arguments (out: *f32, x: *f32, n: i32, size: i32), found 3");
  EXPECT_EQ(launch(out, x_.as<int>(), 16, 1000), "kernel 'add', argument 'x': expected *f32, found a pointer to i32");
  EXPECT_EQ(launch(out, x, 5, 1000),
            "kernel 'add', argument 'n': 5 is not a multiple of 16, which the kernel was compiled for\n"
            "  hint: compile the kernel without this assumption: 'n=i32' in place of 'n=i32:16'");
  EXPECT_EQ(launch(out, x + 1, 16, 1000),
            fmt::format("kernel 'add', argument 'x': address {:#x} is not a multiple of 16, which the kernel was "
                        "compiled for\n  hint: pass an aligned address, or compile the kernel without this assumption: "
                        "'x=*f32:4' in place of 'x=*f32:16'",
                        x_.address() + 4));
  std::vector<Arg> many{out, x, 512, 1000};
  LaunchHandle of_many = add.prepare(*device_, add.classify(many, options), options);
  EXPECT_EQ(message_of<LaunchError>([&] { of_many(nullptr, {8}, out, x, 272, 1000); }),
            "kernel 'add', argument 'n': 272 is not a multiple of 256, which the kernel was compiled for\n"
            "  hint: compile the kernel without this assumption: 'n=i32' in place of 'n=i32:256'");
  std::vector<Arg> one{out, x, 1, 1000};
  LaunchHandle of_one = add.prepare(*device_, add.classify(one, options), options);
  EXPECT_EQ(message_of<LaunchError>([&] { of_one(nullptr, {8}, out, x, 2, 1000); }),
            "kernel 'add', argument 'n': expected 1, which is compiled in, found the integer 2\n"
            "  hint: compile the kernel for this argument");
  of_one.launch(nullptr, {8}, one);
  EXPECT_EQ(out_.download<float>()[999], 1000);
}

TEST_F(ErrorsTest, Targets) {
  std::vector<ArgType> types{{Elem::F32, true}, {Elem::F32, true}, {}, {}};
  const LaunchOptions options{.constexprs = {{"BLOCK", 128}}};
  Kernel add = good_.kernel("add");
  EXPECT_EQ(
      message_of<LaunchError>([&] { add.compile(types, options, "sm_90b"); }),
      "unknown target 'sm_90b'\n  hint: did you mean 'sm_90a'? Tegula knows sm_80, sm_86, sm_89, sm_90a, sm_100a, "
      "sm_120a");
  EXPECT_EQ(message_of<LaunchError>([&] { add.compile(types, options, "gfx942"); }),
            "unknown target 'gfx942'\n  hint: Tegula knows sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_120a");
  EXPECT_EQ(message_of<DeviceError>([] { make_emulator({.target = "sm_12"}); }),
            "the emulator knows no target 'sm_12'; it knows sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_120a");
  EXPECT_EQ(add.compile(types, options, "sm_90a").params.size(), 4u);
  expect_works();
}

// A pass that fails stands for our own mistakes.
class ErrorsOfOurs : public ErrorsTest {
 protected:
  void fail(const char* pass) { setenv("TEGULA_FAIL", pass, 1); }
  ~ErrorsOfOurs() override { unsetenv("TEGULA_FAIL"); }
};

TEST_F(ErrorsOfOurs, AreExceptions) {
  const std::vector<ArgType> types{{Elem::F32, true}, {Elem::F32, true}, {}, {}};
  const LaunchOptions options{.constexprs = {{"BLOCK", 128}}};
  const Kernel add = good_.kernel("add");
  fail("assign_layouts");
  try {
    add.compile(types, options, "sm_90a");
    FAIL() << "no exception";
  } catch (const InternalError& error) {
    EXPECT_TRUE(error.place().starts_with("codegen/passes/pass_manager.cpp:")) << error.place();
    EXPECT_EQ(error.what(),
              fmt::format("internal error at {}: pass.name != asked_to_fail(): TEGULA_FAIL names the pass "
                          "assign_layouts\n"
                          "  note: while compiling kernel 'add' for sm_90a by {}\n"
                          "  hint: this is a mistake of Tegula, not of the program; please report it with this "
                          "message, the text and launch of the kernel, and what is printed with TEGULA_DUMP=all in the "
                          "environment",
                          error.place(), compiler_version()));
  }
  // In several threads, and for what the tuner tries.
  std::vector<std::thread> threads;
  std::atomic<int> thrown = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      try {
        add.compile(types, {.constexprs = {{"BLOCK", 64 << i}}}, "sm_80");
      } catch (const InternalError&) {
        ++thrown;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(thrown, 4);
  Autotune tuning;  // of blocks that no cache holds

  tuning.configs = {config({{"BLOCK", 16}}), config({{"BLOCK", 32}})};
  const Kernel tuned = program_of(kAdd).kernel("add").autotune(tuning);
  const std::string message =
      message_of([&] { tuned.launch(*device_, {16}, {}, out_.as<float>(), x_.as<float>(), 1, 1000); });
  EXPECT_NE(message.find("internal error at codegen/passes/pass_manager.cpp"), message.npos) << message;
  fail("");
  EXPECT_EQ(add.compile(types, options, "sm_90a").params.size(), 4u);
  expect_works();
}
}  // namespace
}  // namespace tegula
