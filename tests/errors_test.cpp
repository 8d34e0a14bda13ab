// label: device
// What a user who makes a mistake reads, end to end: the whole message of each kind of mistake, and that afterwards the
// device, the program and the cache serve on.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "codegen/exec/emulator.h"
#include "dsl/tegula.h"
#include "runtime/cuda_device.h"
#include "tests/fake_driver.h"

namespace tegula {
namespace {

namespace fs = std::filesystem;

const std::string kHead = "import triton\nimport triton.language as tl\n\n@triton.jit\n";

// out[i] = x[i] + n
const std::string kAdd = R"(def add(out, x, n, size, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < size)
    tl.store(out + i, v + n, mask=i < size)
)";

template <class E = Error, class Fn>
std::string message_of(Fn fn) {
  try {
    fn();
  } catch (const E& error) {
    return error.what();
  }
  return "(no error)";
}

/// A program of one or more kernels; the first line of `text` is line 5 of k.py.
Program program_of(const std::string& text) { return Program::parse(kHead + text, "k.py"); }

class ErrorsTest : public testing::Test {
 protected:
  ErrorsTest() : device_(default_device()), x_(*device_, iota()), out_(*device_, 1000 * sizeof(float)) {
    root_ = fs::temp_directory_path() / ("tegula-errors-" + std::to_string(getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~ErrorsTest() override { fs::remove_all(root_); }

  static std::vector<float> iota() {
    std::vector<float> values(1000);
    for (size_t i = 0; i < values.size(); ++i) values[i] = float(i);
    return values;
  }

  std::shared_ptr<ImageCache> cache_at(const fs::path& folder) {
    return std::make_shared<ImageCache>(
        ImageCache::Options{folder, -1, [this](const std::string& text) { warnings_.push_back(text); }});
  }

  /// Whether `add` of the program gives right results on the device. Each call asks for another number to be added, so
  /// that no earlier result passes for this one's.
  void expect_works(const Program& program, Device& device, const Buffer& x, const Buffer& out) {
    int n = ++number_ * 2;
    program.kernel("add").launch(device, {8}, {.constexprs = {{"BLOCK", 128}}}, out.as<float>(), x.as<float>(), n,
                                 1000);
    std::vector<float> values = out.download<float>();
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(values[i], float(i + n)) << i;
  }
  void expect_works(const Program& program) { expect_works(program, *device_, x_, out_); }
  void expect_works() { expect_works(good_); }

  /// The message of compiling and launching `kernel` of a text with x (float), y (float), n = 192 and BLOCK = 64 by
  /// the names of its parameters; then the device has to work.
  std::string refusal(const std::string& text, LaunchOptions options = {}) {
    std::string message = message_of([&] {
      Program program = program_of(text);
      Kernel kernel = program.kernel(program.kernels().back());
      std::vector<Arg> args;
      for (const KernelParam& p : kernel.params()) {
        if (p.is_constexpr && !p.has_default)
          options.constexprs.push_back({p.name, 64});
        else if (!p.is_constexpr)
          args.push_back(p.name == "x" ? Arg(x_.as<float>()) : p.name == "y" ? Arg(out_.as<float>()) : Arg(192));
      }
      kernel.launch(*device_, {1}, options, args);
    });
    expect_works();
    return message;
  }

  std::shared_ptr<Device> device_;
  Buffer x_, out_;
  Program good_ = program_of(kAdd);
  fs::path root_;
  std::vector<std::string> warnings_;
  int number_ = 0;
};

// ---- The kernel's text

// tests/golden/errors/kernels.txt: "#### name", a kernel, "---- message" and what launching it says. Each message is
// followed by a launch of another kernel on the same device. TEGULA_BLESS=1 writes what came out.
TEST_F(ErrorsTest, Kernels) {
  const fs::path path = fs::path(TEGULA_SOURCE_DIR) / "tests/golden/errors/kernels.txt";
  std::ifstream in(path);
  ASSERT_TRUE(in) << path;
  const bool bless = std::getenv("TEGULA_BLESS") && std::string_view(std::getenv("TEGULA_BLESS")) == "1";
  std::string line, name, kernel, expected, blessed;
  bool in_message = false;
  int cases = 0;
  auto finish = [&] {
    if (name.empty()) return;
    std::string found = refusal(kernel);
    EXPECT_NE(found, "(no error)") << name;
    if (!bless) EXPECT_EQ(found, expected) << name;
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
  EXPECT_GT(cases, 20);
  if (bless) std::ofstream(path) << blessed;
}

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
            "  hint: did you mean 'tl.store'?\n");
  expect_works();
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
      if (!before.empty()) EXPECT_NE(message.find("k.py:"), std::string::npos) << message.substr(0, 1000);
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
            "  hint: give it in the launch's options: .constexprs = {{\"BLOCK\", value}}");
  EXPECT_EQ(launch({.constexprs = {{"BLCK", 128}, {"BLOCK", 128}}}),
            "kernel 'add': there is no constexpr parameter 'BLCK'\n  hint: did you mean 'BLOCK'?");
  EXPECT_EQ(launch({.constexprs = {{"BLOCK", 128}, {"GROUPS", 2}}}),
            "kernel 'add': there is no constexpr parameter 'GROUPS'\n  hint: the kernel has BLOCK");
  EXPECT_EQ(launch({.constexprs = {{"BLOCK", 128}, {"BLOCK", 256}}}),
            "kernel 'add': the constexpr parameter 'BLOCK' is given twice");
  // Several at once.
  EXPECT_EQ(launch({.constexprs = {{"size", 128}}, .num_warps = 3, .num_stages = 0}),
            "kernel 'add': num_warps is 3, expected 1, 2, 4, 8, 16 or 32\n"
            "kernel 'add': num_stages is 0, expected 1 to 8\n"
            "kernel 'add': the parameter 'size' is no tl.constexpr\n"
            "  hint: pass its value with the arguments of the launch, or annotate it with tl.constexpr\n"
            "kernel 'add': the constexpr parameter 'BLOCK' has no value\n"
            "  hint: give it in the launch's options: .constexprs = {{\"BLOCK\", value}}");
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
              add.launch(*device_, {8}, {.constexprs = {{"BLOCK", 100}}}, out_.as<float>(), x_.as<float>(), 1, 1000);
            }),
            "k.py:6:36: error: the extent of arange is 100, which is no power of two\n"
            "        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
            "                                       ^~~~~~~~~~~~~~~~~~~\n"
            "  hint: take the next power of two and mask the rest: mask = tl.arange(0, BLOCK) < n\n");
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
  EXPECT_EQ(launch(x, 1, 1), "kernel 'k', argument 'eps': expected f32, found the integer 1");
  EXPECT_EQ(launch(static_cast<float*>(nullptr), 1, 1.0),
            "kernel 'k', argument 'x': expected *f32, found a null pointer");
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
            "                 ^~~~~\n");
  EXPECT_EQ(message_of<CompileError>([&] { program.kernel("k").launch(*device_, {1}, {}, 4096, 1, 1.0); }),
            "k.py:6:5: error: store takes a pointer or a tile of pointers, found int32\n"
            "        tl.store(x + n, eps)\n"
            "        ^~~~~~~~~~~~~~~~~~~~\n");
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
            "  hint: compile the kernel without this assumption");
  EXPECT_EQ(launch(out, x + 1, 16, 1000),
            fmt::format("kernel 'add', argument 'x': address {:#x} is not a multiple of 16, which the kernel was "
                        "compiled for\n  hint: pass an aligned address, or compile the kernel without this assumption",
                        x_.address() + 4));
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

// ---- Devices

// The default device is chosen once a process, so each choice takes a process of its own (main below). A mistake in the
// environment can be put right in the same process.
TEST_F(ErrorsTest, DefaultDevice) {
  auto message = [&](const char* device, const char* target) {
    std::string command = fmt::format("TEGULA_DEVICE={} TEGULA_TARGET={} {} --default-device", device, target,
                                      fs::read_symlink("/proc/self/exe").string());
    std::string out;
    FILE* pipe = popen(command.c_str(), "r");
    char buffer[4096];
    while (size_t n = fread(buffer, 1, sizeof(buffer), pipe)) out.append(buffer, n);
    EXPECT_EQ(pclose(pipe), 0);
    return out;
  };
  EXPECT_EQ(message("nonsense", "sm_80"), "TEGULA_DEVICE is 'nonsense', expected 'gpu' or 'emulator'");
  EXPECT_EQ(message("emulator", "sm_12"),
            "the emulator knows no target 'sm_12'; it knows sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_120a");
  EXPECT_EQ(message("emulator", "sm_80"), "emulator (sm_80): TEGULA_DEVICE asks for the emulator");
}

class FakeDriver {
 public:
  FakeDriver() { cuda::fake::state = &state; }
  ~FakeDriver() { cuda::fake::state = nullptr; }
  std::unique_ptr<Device> open() {
    return open_cuda_device(cuda::Driver::from(cuda::fake::lookup), 0, {.warm_assembler = false, .on_assembled = {}});
  }
  cuda::fake::State state;
};

/// Launches `add` on a fake GPU: compiles, assembles, and asks the driver to start it.
std::string launch_on_fake(const Program& program, Device& gpu, const Buffer& buffer, int n) {
  return message_of([&] {
    program.kernel("add").launch(gpu, {8}, {.constexprs = {{"BLOCK", 128}}}, buffer.as<float>(), buffer.as<float>(), n,
                                 16);
  });
}

// Without a GPU the driver's words say why, and the emulator serves.
TEST_F(ErrorsTest, NoGpuOrNoDriverForIt) {
  EXPECT_EQ(message_of<DeviceError>([] { cuda::Driver::open("libno-such-cuda.so.1"); }),
            "no CUDA driver: libno-such-cuda.so.1 cannot be loaded (libno-such-cuda.so.1: cannot open shared object "
            "file: No such file or directory)\n"
            "  hint: install the NVIDIA driver (CUDA 12.0 or later); without a GPU, use the emulator");
  FakeDriver fake;
  fake.state.device_count = 0;
  EXPECT_EQ(
      message_of<DeviceError>([&] { fake.open(); }),
      "cuDeviceGetCount failed: CUDA_ERROR_NO_DEVICE (the driver's words)\n"
      "  hint: the driver finds no GPU: see nvidia-smi and CUDA_VISIBLE_DEVICES; without a GPU, use the emulator");
  fake.state.device_count = 1;
  fake.state.version = 11080;
  EXPECT_EQ(message_of<DeviceError>([&] { fake.open(); }),
            "the CUDA driver is too old: it supports CUDA 11.8, Tegula needs 12.0 or later\n"
            "  hint: update the NVIDIA driver; meanwhile the emulator can be used");
  fake.state.version = 12040;
  {
    auto gpu = fake.open();
    Buffer buffer(*gpu, 64);
    Program program = program_of(kAdd);
    program.set_cache(nullptr);
    EXPECT_EQ(launch_on_fake(program, *gpu, buffer, 2), "(no error)");
    EXPECT_EQ(fake.state.count("cuLaunchKernelEx"), 1);
    EXPECT_EQ(fake.state.block[0], 128u);
  }
  auto emulator = make_emulator();
  Buffer x(*emulator, iota()), out(*emulator, 4000);
  expect_works(good_, *emulator, x, out);
}

TEST_F(ErrorsTest, TheDriverRefuses) {
  FakeDriver fake;
  auto gpu = fake.open();
  Buffer buffer(*gpu, 64);
  Program program = program_of(kAdd);
  auto cache = cache_at(root_);
  program.set_cache(cache);
  // Its assembler: nothing is kept, and the next try assembles anew.
  fake.state.fail["cuLinkAddData_v2"] = cuda::Result::UnsupportedPtxVersion;
  EXPECT_EQ(launch_on_fake(program, *gpu, buffer, 2),
            "cuLinkAddData_v2 failed: CUDA_ERROR_UNSUPPORTED_PTX_VERSION (the driver's words)\n"
            "  note: kernel 'add' is PTX 8.0, and the driver supports CUDA 12.4\n"
            "  hint: update the NVIDIA driver to CUDA 12.0 or later, or compile for a lower PTX version");
  fake.state.fail.clear();
  EXPECT_EQ(cache->stats().images, 0);
  // Memory.
  fake.state.fail["cuMemAlloc_v2"] = cuda::Result::OutOfMemory;
  EXPECT_EQ(message_of<DeviceError>([&] { Buffer(*gpu, 1 << 20); }),
            "cuMemAlloc_v2 failed: CUDA_ERROR_OUT_OF_MEMORY (out of memory)\n"
            "  note: asked for 1048576 bytes on Fake GPU, which has 4096 of 1073741824 bytes free\n"
            "  hint: free device memory (other processes on this GPU hold some too: see nvidia-smi) or work on smaller "
            "pieces");
  fake.state.fail.clear();
  // The launch itself.
  fake.state.fail["cuLaunchKernelEx"] = cuda::Result::LaunchOutOfResources;
  EXPECT_EQ(launch_on_fake(program, *gpu, buffer, 2),
            "cuLaunchKernelEx failed: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (the driver's words)\n"
            "  note: kernel 'add', grid 8 x 1 x 1, 128 threads and 0 bytes of shared memory a program\n"
            "  hint: the kernel needs more registers or shared memory than one program may have: try fewer warps, "
            "smaller tiles or fewer stages");
  fake.state.fail.clear();
  EXPECT_EQ(launch_on_fake(program, *gpu, buffer, 2), "(no error)");
  EXPECT_EQ(cache->stats().images, 1);
  EXPECT_TRUE(warnings_.empty());
}

// A kernel that faulted takes its context with it. What needs no GPU goes on: compiling, the cache, the emulator.
TEST_F(ErrorsTest, IllegalAccessInAnEarlierLaunch) {
  FakeDriver fake;
  auto gpu = fake.open();
  Buffer buffer(*gpu, 64);
  Program program = program_of(kAdd);
  auto cache = cache_at(root_);
  program.set_cache(cache);
  EXPECT_EQ(launch_on_fake(program, *gpu, buffer, 2), "(no error)");
  fake.state.sticky = cuda::Result::IllegalAddress;
  const std::string lost =
      " failed: CUDA_ERROR_ILLEGAL_ADDRESS (the driver's words)\n"
      "  note: a kernel that ran earlier faulted and spoilt its context: every further call on this GPU fails in this "
      "process\n"
      "  hint: restart the process; the emulator names the kernel, the line and the address of an illegal access";
  EXPECT_EQ(message_of<DeviceLostError>([&] { gpu->synchronize(); }), "cuStreamSynchronize" + lost);
  EXPECT_EQ(message_of<DeviceLostError>([&] { buffer.download<float>(); }), "cuMemcpyDtoHAsync_v2" + lost);
  std::string launch = launch_on_fake(program, *gpu, buffer, 2);
  EXPECT_NE(launch.find(" failed: CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos) << launch;
  EXPECT_NE(launch.find("restart the process"), std::string::npos) << launch;
  EXPECT_EQ(cache->stats().images, 1);
  auto emulator = make_emulator();
  Buffer x(*emulator, iota()), out(*emulator, 4000);
  expect_works(program, *emulator, x, out);
  EXPECT_TRUE(warnings_.empty());
}

// On the emulator such an access is found where it happens, and takes nothing with it.
TEST_F(ErrorsTest, OutOfBoundsOnTheEmulator) {
  auto emulator = make_emulator({.check_bounds = true});
  Buffer x(*emulator, iota()), out(*emulator, 4000);
  Kernel add = good_.kernel("add");
  const LaunchOptions options{.constexprs = {{"BLOCK", 128}}};
  auto launch = [&](int n, int size) {
    return message_of<DeviceError>(
        [&] { add.launch(*emulator, {8}, options, out.as<float>(), x.as<float>(), n, size); });
  };
  EXPECT_EQ(launch(2, 1024),
            fmt::format("kernel 'add': out-of-bounds read of 4 bytes at {:#x}, 0 bytes past the end of a 4000-byte "
                        "allocation (argument 'x')\n  at k.py:7:9, program (7, 0, 0), thread 104",
                        x.address() + 4000));
  expect_works(good_, *emulator, x, out);
  {
    Buffer small(*emulator, 400);
    EXPECT_EQ(
        message_of<DeviceError>([&] { add.launch(*emulator, {1}, options, small.as<float>(), x.as<float>(), 2, 101); }),
        fmt::format("kernel 'add': out-of-bounds write of 4 bytes at {:#x}, 0 bytes past the end of a 400-byte "
                    "allocation (argument 'out')\n  at k.py:8:5, program (0, 0, 0), thread 100",
                    small.address() + 400));
  }
  expect_works(good_, *emulator, x, out);
}

// ---- The cache

class ErrorsCacheTest : public ErrorsTest {
 protected:
  Program program(std::shared_ptr<ImageCache> cache) {
    Program p = program_of(kAdd);
    p.set_cache(std::move(cache));
    return p;
  }
  std::vector<fs::path> images() {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(root_))
      if (entry.path().extension() == ".image") paths.push_back(entry.path());
    return paths;
  }
};

TEST_F(ErrorsCacheTest, DamagedEntryIsCompiledAgain) {
  expect_works(program(cache_at(root_)));
  ASSERT_EQ(images().size(), 1u);
  const fs::path path = images()[0];
  const auto size = fs::file_size(path);
  for (int kind = 0; kind < 3; ++kind) {
    if (kind == 0) fs::resize_file(path, size / 2);
    if (kind == 1) fs::resize_file(path, 0);
    if (kind == 2) {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(long(size / 2));
      char c = char(file.peek());
      file.seekp(long(size / 2));
      file.put(char(c ^ 1));
    }
    warnings_.clear();
    expect_works(program(cache_at(root_)));
    ASSERT_EQ(warnings_.size(), 1u) << kind;
    EXPECT_EQ(warnings_[0], fmt::format("cached image {} is damaged ({}); it was removed and is compiled again",
                                        path.string(), kind < 2 ? "it is truncated" : "its digest does not match"));
    EXPECT_EQ(fs::file_size(path), size);
  }
  warnings_.clear();
  expect_works(program(cache_at(root_)));
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(ErrorsCacheTest, FolderThatCannotBeUsed) {
  std::ofstream(root_ / "file").close();
  auto cache = cache_at(root_ / "file" / "cache");
  expect_works(program(cache));
  expect_works(program(cache));
  EXPECT_EQ(warnings_,
            std::vector<std::string>{"compiled kernels are not kept on disk: folder " +
                                     (root_ / "file" / "cache").string() + " cannot be made (Not a directory)"});
  warnings_.clear();
  expect_works(program(cache_at("/sys/kernel")));  // where not even root makes files
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_TRUE(
      warnings_[0].starts_with("compiled kernels are not kept on disk: folder /sys/kernel cannot be written to ("))
      << warnings_[0];
}

// A limit on file size stands for a disk that is full in the middle of a file.
TEST_F(ErrorsCacheTest, FullDisk) {
  expect_works(program(cache_at(root_)));
  ASSERT_EQ(images().size(), 1u);
  auto old_handler = signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit limit{1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  Program other = program_of(kAdd + "\n@triton.jit\ndef two(x):\n    tl.store(x, 2.0)\n");
  auto cache = cache_at(root_);
  other.set_cache(cache);
  Buffer y(*device_, 4);
  std::string message = message_of([&] { other.kernel("two").launch(*device_, {1}, {}, y.as<float>()); });
  size_t found = cache->stats().images;
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, old_handler);
  EXPECT_EQ(message, "(no error)");
  EXPECT_EQ(y.download<float>()[0], 2);
  EXPECT_EQ(found, 1u);  // the entry that was there, and no part of a new one
  EXPECT_EQ(warnings_, std::vector<std::string>{"compiled kernels are not kept on disk: folder " + root_.string() +
                                                " cannot be written to (File too large)"});
  warnings_.clear();
  expect_works(program(cache_at(root_)));
  EXPECT_TRUE(warnings_.empty());
}

// ---- At the same time

TEST_F(ErrorsCacheTest, EightThreadsLaunchFirst) {
  Program shared = program(cache_at(root_));
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      Buffer out(*device_, 4000);
      shared.kernel("add").launch(*device_, {8}, {.constexprs = {{"BLOCK", 128}}}, out.as<float>(), x_.as<float>(),
                                  2 * t + 2, 1000);
      right += out.download<float>()[999] == float(999 + 2 * t + 2);
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(right, 8);
  EXPECT_EQ(images().size(), 1u + 1u);  // n = 16 is a specialisation of its own
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(ErrorsCacheTest, ProgramsAndProcessesShareAFolder) {
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  std::vector<FILE*> pipes;
  for (int i = 0; i < 4; ++i)
    pipes.push_back(popen(fmt::format("{} --first-launch {}", self, root_.string()).c_str(), "r"));
  for (FILE* pipe : pipes) EXPECT_EQ(pclose(pipe), 0);
  ASSERT_EQ(images().size(), 1u);
  auto written = fs::last_write_time(images()[0]);
  Program a = program(cache_at(root_)), b = program(cache_at(root_));
  expect_works(a);
  expect_works(b);
  EXPECT_EQ(images().size(), 1u);
  EXPECT_EQ(fs::file_size(images()[0]) > 0 && fs::last_write_time(images()[0]) >= written, true);
  EXPECT_TRUE(warnings_.empty());
}

// What the processes do that ProgramsAndProcessesShareAFolder starts.
int first_launch(const char* folder) {
  int warned = 0;
  Program program = program_of(kAdd);
  program.set_cache(
      std::make_shared<ImageCache>(ImageCache::Options{folder, -1, [&](const std::string&) { ++warned; }}));
  auto device = default_device();
  std::vector<float> values(1000, 3);
  Buffer x(*device, values), out(*device, 4000);
  program.kernel("add").launch(*device, {8}, {.constexprs = {{"BLOCK", 128}}}, out.as<float>(), x.as<float>(), 2, 1000);
  return warned == 0 && out.download<float>() == std::vector<float>(1000, 5) ? 0 : 1;
}

// What the processes do that DefaultDevice starts.
int choose_device() {
  std::string why;
  try {
    default_device(&why);
  } catch (const Error& error) {
    std::fputs(error.what(), stdout);
    setenv("TEGULA_DEVICE", "emulator", 1);
    setenv("TEGULA_TARGET", "sm_90a", 1);
    return default_device()->info().name == "emulator (sm_90a)" ? 0 : 1;
  }
  std::fputs(why.c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace tegula

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "--default-device") return tegula::choose_device();
  if (mode == "--first-launch") return tegula::first_launch(argv[2]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
