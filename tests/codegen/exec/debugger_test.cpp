// label: device
// Recordings of programs, and what the debugger says of them: the texts of commands, values against those computed
// here.
#include "codegen/exec/debug/debugger.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "dsl/debug.h"
#include "dsl/program.h"
#include "runtime/base/error.h"
#include "tests/codegen/exec/emulator/emulator_kernels.h"

namespace tegula {
namespace {

using Json = nlohmann::json;

// The kernel's first line is line 5.
constexpr const char* kKernel = R"(import triton
import triton.language as tl


@triton.jit
def double(v):
    twice = v + v
    return twice


@triton.jit
def kernel(x, y, n, ROWS: tl.constexpr):
    i = tl.program_id(0)
    m = tl.arange(0, ROWS)
    t = tl.load(x + m[:, None] * 8 + tl.arange(0, 8)[None, :])
    acc = tl.zeros([ROWS, 8], tl.float32)
    for k in range(n):
        acc += t
        if k == 1:
            acc = double(acc)
    s = tl.sum(acc, 1)
    pair = (s, i)
    r = tl.sqrt(0.0 - s)
    tl.store(y + i * ROWS + m, s)
    tl.store(y + i * ROWS + m, r)
)";

class DebuggerTest : public testing::Test {
 protected:
  DebuggerTest() { std::ofstream(file_) << kKernel; }
  ~DebuggerTest() override { std::filesystem::remove(file_); }

  /// Records program (1, 0, 0) of two; x holds 0, 1, 2, ...
  std::string record(Recording& recording, int n = 3, const EmulatorOptions& options = {}, unsigned program = 1) {
    auto device = make_emulator(options);
    Array<float> x(*device, iota(128)), y(*device, 32);
    device->record_program(&recording, {program, 0, 0});
    return error_of([&] {
      Program::load(file_).kernel("kernel").launch(
          *device, {2}, {.constexprs = {{"ROWS", 16}}, .num_warps = 2, .debug = 2},
          reinterpret_cast<float*>(x.address()), reinterpret_cast<float*>(y.address()), n);
    });
  }

  std::string file_ =
      (std::filesystem::temp_directory_path() / fmt::format("tegula-debugger-{}.py", getpid())).string();
};

/// The text of the answer to the last command.
std::string after(Debugger& debugger, const std::vector<std::string>& commands) {
  std::string text;
  for (const std::string& command : commands) text = debugger.execute(command).text;
  return text;
}

TEST_F(DebuggerTest, StepsForwardsAndBackwards) {
  Recording recording;
  ASSERT_EQ(record(recording), "no error");
  Debugger debugger(recording);
  EXPECT_EQ(debugger.execute("where").text, fmt::format("1/19  {}:13:  i = tl.program_id(0)\n", file_));
  EXPECT_EQ(debugger.execute("step").text, fmt::format("  i = 1\n2/19  {}:14:  m = tl.arange(0, ROWS)\n", file_));
  EXPECT_EQ(debugger.execute("s 2").text, fmt::format("  m = int32[16] from 0 to 15, mean 7.5\n"
                                                      "  t = float32[16, 8] from 0 to 127, mean 63.5\n"
                                                      "4/19  {}:16:  acc = tl.zeros([ROWS, 8], tl.float32)\n",
                                                      file_));
  EXPECT_EQ(after(debugger, {"back"}),
            fmt::format("3/19  {}:15:  t = tl.load(x + m[:, None] * 8 + tl.arange(0, 8)[None, :])\n", file_));
  EXPECT_EQ(after(debugger, {"break 20", "continue"}), fmt::format("10/19  {}:20:  acc = double(acc)\n", file_));
  EXPECT_EQ(debugger.execute("print k").text, "k = 1 (int32, line 17)\n");
  EXPECT_EQ(debugger.execute("step").text,
            fmt::format("  double.v = float32[16, 8] from 0 to 254, mean 127\n11/19  {}:7 in double:  twice = v + v\n",
                        file_));
  EXPECT_EQ(debugger.execute("continue").text, "the end of program (1, 0, 0)\n");
  EXPECT_EQ(after(debugger, {"reverse"}), fmt::format("10/19  {}:20:  acc = double(acc)\n", file_));
  EXPECT_EQ(after(debugger, {"store"}), fmt::format("18/19  {}:24:  tl.store(y + i * ROWS + m, s)\n"
                                                    "  pointers: pointer<float32>[16] from y+16 to y+31\n"
                                                    "  values: float32[16] from 140 to 4940, mean 2540\n",
                                                    file_));
  EXPECT_EQ(debugger.execute("list 3").text,
            "     23      r = tl.sqrt(0.0 - s)\n->   24      tl.store(y + i * ROWS + m, s)\n     25      tl.store(y + "
            "i * ROWS + m, r)\n");
  EXPECT_EQ(after(debugger, {"delete", "goto 1", "continue"}), "the end of program (1, 0, 0)\n");
}

TEST_F(DebuggerTest, ShowsValues) {
  Recording recording;
  ASSERT_EQ(record(recording), "no error");
  Debugger debugger(recording);
  debugger.execute("continue");
  // acc = ((t + t) * 2 + t) in three rounds.
  EXPECT_EQ(debugger.execute("print acc[1:3, 0:4]").text,
            "acc[1:3, 0:4]: float32[16, 8], line 18, from 0 to 635, mean 317.5\n"
            "    1: 40 45 50 55\n    2: 80 85 90 95\n");
  EXPECT_EQ(debugger.execute("print pair[0][15]").text,
            "pair[0][15]: float32[16], line 22, from 140 to 4940, mean 2540\n   15: 4940\n");
  EXPECT_EQ(debugger.execute("p pair[1]").text, "pair[1] = 1 (int32, line 22)\n");
  EXPECT_EQ(debugger.execute("p ROWS").text, "ROWS = 16 (known at compile time)\n");
  EXPECT_EQ(debugger.execute("p n").text, "n = 3 (int32, line 12)\n");
  const Json json = Json::parse(debugger.execute("print acc").json);
  EXPECT_EQ(json["dtype"], "float32");
  EXPECT_EQ(json["shape"], Json({16, 8}));
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) EXPECT_EQ(json["values"][row][column], 5.0 * (8 * row + column));
  // What holds an element, and what a thread holds, say the same.
  const Json owner = Json::parse(debugger.execute("owner acc[3, 5]").json);
  ASSERT_FALSE(owner["holders"].empty());
  const int thread = owner["holders"][0]["thread"], reg = owner["holders"][0]["register"];
  const Json held = Json::parse(debugger.execute(fmt::format("thread {} acc", thread)).json);
  EXPECT_EQ(held["registers"][size_t(reg)], Json({{"register", reg}, {"element", "[3, 5]"}, {"value", "145"}}));
  EXPECT_CONTAINS(debugger.execute("layout acc").text, "acc: float32[16, 8], 2 registers a thread\n  register=");
  const std::string names = debugger.execute("names").text;
  EXPECT_CONTAINS(names, "double.twice  float32[16, 8], line 7: from 0 to 508, mean 254\n");
  EXPECT_CONTAINS(names, "i             int32, line 13: 1\n");
}

// Within a function its own names come first; the kernel's are there as well.
TEST_F(DebuggerTest, NamesOfFunctions) {
  Recording recording;
  ASSERT_EQ(record(recording), "no error");
  Debugger debugger(recording);
  debugger.execute("break 7");
  debugger.execute("continue");
  EXPECT_CONTAINS(debugger.execute("print v[0, 1:3]").text, "double.v[0, 1:3]: float32[16, 8], line 20");
  EXPECT_CONTAINS(debugger.execute("print twice").text, "'twice' has no value yet; it gets one in line 7");
  EXPECT_CONTAINS(debugger.execute("owner v[3, 5]").text, "double.v[3, 5] = 58\n");
  EXPECT_CONTAINS(debugger.execute("print k").text, "k = 1 (int32, line 17)");
  EXPECT_EQ(Json::parse(debugger.execute("where").json)["function"], "double");
  debugger.execute("step");
  EXPECT_CONTAINS(debugger.execute("print twice").text, "double.twice: float32[16, 8], line 7");
  debugger.execute("goto 13");
  EXPECT_CONTAINS(debugger.execute("print v").text, "no name 'v' has a value here");
  EXPECT_FALSE(Json::parse(debugger.execute("where").json).contains("function"));
}

// A name that the second call has not come to yet is not that of the first one.
TEST_F(DebuggerTest, NamesOfASecondCall) {
  auto device = make_emulator({});
  Array<float> x(*device, iota(32)), y(*device, 32);
  Recording recording;
  device->record_program(&recording, {0, 0, 0});
  const std::string text =
      "import triton\nimport triton.language as tl\n@triton.jit\ndef inner(v):\n    w = v * 3\n    return w\n"
      "@triton.jit\ndef outer(v):\n    u = inner(v) + 1\n    if v.shape[0] == 32:\n        u = inner(u)\n    return u\n"
      "@triton.jit\ndef kernel(x, y):\n    i = tl.arange(0, 32)\n    a = outer(tl.load(x + i))\n"
      "    tl.store(y + i, outer(outer(a)))\n    b = a\n";
  Program::parse(text, "calls.py")
      .kernel("kernel")
      .launch(*device, {1}, {.num_warps = 1, .debug = 2}, reinterpret_cast<float*>(x.address()),
              reinterpret_cast<float*>(y.address()));
  Debugger debugger(recording);
  const auto print = [&](const std::string& name) { return debugger.execute("print " + name).text; };
  debugger.execute("break 5");
  debugger.execute("continue");
  EXPECT_CONTAINS(print("w"), "'w' has no value yet; it gets one in line 5");
  debugger.execute("step");
  EXPECT_CONTAINS(print("inner.w[1]"), "3");
  debugger.execute("continue");
  EXPECT_CONTAINS(print("v[1]"), "inner.v[1]: float32[32], line 11");
  for (const char* name : {"w", "inner.w"}) EXPECT_CONTAINS(print(name), "has no value yet; it gets one in line 5");
  EXPECT_EQ(debugger.execute("names").text.find("inner.w "), std::string::npos);
  EXPECT_CONTAINS(debugger.execute("names").text, "outer.u ");
  debugger.execute("continue");  // within the next call of outer
  EXPECT_EQ(debugger.execute("names").text.find("outer.u "), std::string::npos);
  debugger.execute("delete");
  debugger.execute("break 18");
  debugger.execute("continue");
  EXPECT_CONTAINS(print("outer.u[1]"), "1: 1002");
  EXPECT_CONTAINS(print("inner.w[1]"), "1: 1002");
}

// Pointers are told by the array that they are computed from, also where they point out of it.
TEST_F(DebuggerTest, PointersOfTwoArrays) {
  std::ofstream(file_) << R"(import triton
import triton.language as tl


@triton.jit
def kernel(x, y):
    m = tl.arange(0, 16)
    before = x + m - 4
    behind = y + m + 12
    either = tl.where(m < 8, x + m, y + m)
    tl.store(y + m, tl.load(x + m))
)";
  for (bool x_first : {true, false}) {
    Recording recording;
    auto device = make_emulator();
    Array<float> both(*device, iota(32));
    const uint64_t first = both.address(), second = first + 64;
    device->record_program(&recording, {0, 0, 0});
    Program::load(file_).kernel("kernel").launch(*device, {1}, {.num_warps = 1, .debug = 2},
                                                 reinterpret_cast<float*>(x_first ? first : second),
                                                 reinterpret_cast<float*>(x_first ? second : first));
    Debugger debugger(recording);
    debugger.execute("continue");
    EXPECT_CONTAINS(debugger.execute("print before").text, "from x-4 to x+11\n");
    EXPECT_CONTAINS(debugger.execute("print behind").text, "from y+12 to y+27\n");
    EXPECT_CONTAINS(debugger.execute("print either[0]").text, "x+0\n");
    EXPECT_CONTAINS(debugger.execute("print either[15]").text, "y+15\n");
    EXPECT_CONTAINS(debugger.execute("print @pointers[0:2]").text, "y+0 y+1\n");
  }
}

TEST_F(DebuggerTest, ShowsWhatIsStored) {
  Recording recording;
  ASSERT_EQ(record(recording), "no error");
  Debugger debugger(recording);
  EXPECT_EQ(debugger.execute("print @values").text,
            "error: no statement up to here has stored; 'store' goes on to the next one that does\n");
  debugger.execute("store");
  const std::string values = "float32[16], line 24, from 140 to 4940, mean 2540\n    0: 140 460\n";
  EXPECT_EQ(debugger.execute("print @values[0:2]").text, "@values[0:2]: " + values);
  EXPECT_EQ(debugger.execute("print @pointers[0:3]").text,
            "@pointers[0:3]: pointer<float32>[16], line 24, from y+16 to y+31\n    0: y+16 y+17 y+18\n");
  EXPECT_EQ(debugger.execute("print @mask").text,
            "error: there is no '@mask' in what line 24 stores; there are @pointers, @values\n");
  EXPECT_CONTAINS(debugger.execute("owner @values[3]").text, "@values[3] = 1100\n  thread ");
  EXPECT_CONTAINS(debugger.execute("layout @values").text, "@values: float32[16], ");
  // The next statement stores something else; behind it, it is the last one.
  EXPECT_CONTAINS(after(debugger, {"step", "print @values"}), "line 25, ");
  EXPECT_CONTAINS(after(debugger, {"step", "print @values"}), "line 25, ");
  EXPECT_CONTAINS(after(debugger, {"back 3", "step", "print @values"}), "line 24, ");
}

TEST_F(DebuggerTest, FindsWhatMakesNans) {
  Recording recording;
  ASSERT_EQ(record(recording), "no error");
  Debugger debugger(recording);
  EXPECT_CONTAINS(debugger.execute("nan").text,
                  fmt::format("r[0] = nan by {}:23:  r = tl.sqrt(0.0 - s)\n", file_).substr(8));
  EXPECT_CONTAINS(debugger.execute("nan").text, "no statement from here on gives a name a NaN or an infinity\n");
}

TEST_F(DebuggerTest, RefusesWhatMeansNothing) {
  Recording recording;
  ASSERT_EQ(record(recording), "no error");
  Debugger debugger(recording);
  const auto error = [&](const std::string& command) {
    const DebuggerAnswer answer = debugger.execute(command);
    EXPECT_TRUE(answer.is_error);
    EXPECT_EQ("error: " + std::string(Json::parse(answer.json)["error"]) + "\n", answer.text);
    return answer.text;
  };
  EXPECT_EQ(error("brek 3"), "error: unknown command 'brek'; did you mean 'break'?\n");
  EXPECT_EQ(error("break here"), "error: break takes the number of a line, found 'here'\n");
  EXPECT_EQ(error("break 3"), "error: program (1, 0, 0) has no statement in line 3; the next one is in line 7\n");
  EXPECT_EQ(error("delete 3"), "error: there is no breakpoint '3'\n");
  EXPECT_EQ(error("step none"), "error: 'none' is no number from 1 on\n");
  EXPECT_EQ(error("goto 99"), "error: goto takes the number of a statement, 1 to 19, or 20 for the end\n");
  EXPECT_EQ(error("print acc"), "error: 'acc' has no value yet; it gets one in line 16\n");
  EXPECT_EQ(error("print"), "error: a name is missing; 'names' lists those that have a value\n");
  EXPECT_EQ(error("layout ROWS"), "error: 'ROWS' is known at compile time, and held by no thread: 16\n");
  debugger.execute("continue");
  EXPECT_EQ(error("print acx"), "error: no name 'acx' has a value here; did you mean 'acc'?\n");
  EXPECT_EQ(error("print acc[16]"), "error: the index '16' is not within axis 0 of float32[16, 8]\n");
  EXPECT_EQ(error("print acc[1, 2, 3]"), "error: too many indices for float32[16, 8]\n");
  EXPECT_EQ(error("owner acc[1]"), "error: owner takes one element of float32[16, 8], found '[1]'\n");
  EXPECT_EQ(error("thread 64 acc"), "error: thread takes a thread, 0 to 63, and a name\n");
  EXPECT_EQ(error("picture acc acc.png"),
            "error: a name and a file that ends in .svg are wanted, found 'acc acc.png'\n");
}

TEST_F(DebuggerTest, DrawsTilesAndLayouts) {
  Recording recording;
  ASSERT_EQ(record(recording), "no error");
  Debugger debugger(recording);
  debugger.execute("continue");
  const std::string picture = file_ + ".svg";
  const auto drawn = [&](const std::string& command) {
    EXPECT_EQ(debugger.execute(fmt::format("{} {}", command, picture)).is_error, false);
    std::ifstream in(picture);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const auto count = [](const std::string& text, const std::string& part) {
    int n = 0;
    for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++n;
    return n;
  };
  const std::string values = drawn("picture acc");
  EXPECT_EQ(count(values, "<title>"), 128);
  EXPECT_CONTAINS(values, "fill=\"#301254\"><title>[0, 0] = 0</title>");
  EXPECT_CONTAINS(values, "fill=\"#fae73c\"><title>[15, 7] = 635</title>");
  EXPECT_EQ(count(drawn("picture r"), "#e02020"), 16);  // NaNs
  const std::string layout = drawn("layout acc[0:4]");
  EXPECT_EQ(count(layout, "<title>"), 32);
  EXPECT_CONTAINS(layout, "<title>[0, 0]: thread 0 (warp 0, lane 0) register 0;");
  std::filesystem::remove(picture);
}

// Four floats of a row that a thread holds are one store of 16 bytes, of which a quarter of the warp goes at a time.
TEST_F(DebuggerTest, BankConflictsAreThoseOfVectors) {
  std::ofstream(file_) << R"(import triton
import triton.language as tl


@triton.jit
def kernel(x, y):
    r = tl.arange(0, 32)[:, None]
    c = tl.arange(0, 32)[None, :]
    rows = tl.load(x + r * 32 + c)
    columns = tl.load(x + c * 32 + r)
    narrow = rows.to(tl.float16)
    tl.store(y + r * 32 + c, rows)
    tl.store(y + c * 32 + r, columns)
)";
  Recording recording;
  auto device = make_emulator();
  Array<float> x(*device, iota(1024)), y(*device, 1024);
  device->record_program(&recording, {0, 0, 0});
  Program::load(file_).kernel("kernel").launch(*device, {1}, {.num_warps = 4, .debug = 2},
                                               reinterpret_cast<float*>(x.address()),
                                               reinterpret_cast<float*>(y.address()));
  Debugger debugger(recording);
  debugger.execute("continue");
  const std::string picture = file_ + ".svg";
  const auto drawn = [&](const std::string& name) {
    EXPECT_FALSE(debugger.execute(fmt::format("layout {} {}", name, picture)).is_error);
    std::ifstream in(picture);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  EXPECT_CONTAINS(drawn("rows"), "red: no bank conflicts");
  EXPECT_CONTAINS(drawn("narrow"), "red: no bank conflicts");
  EXPECT_CONTAINS(drawn("columns"), "up to 8 turns");
  std::filesystem::remove(picture);
}

TEST_F(DebuggerTest, ARecordingIsKeptAndReadAgain) {
  Recording recording;
  ASSERT_EQ(record(recording), "no error");
  const std::string bytes = recording.save();
  const Recording again = Recording::load(bytes, "run");
  Debugger first(recording), second(again);
  for (const char* command : {"where", "continue", "names", "print acc", "owner acc[2, 2]", "layout t"})
    EXPECT_EQ(first.execute(command).json, second.execute(command).json) << command;
  EXPECT_THROW(Recording::load("", "run"), FileError);
  EXPECT_THROW(Recording::load(bytes.substr(0, bytes.size() / 2), "run"), FileError);
  EXPECT_THROW(Recording::load("no recording", "run"), FileError);
}

// The same values whatever the order in which threads run.
TEST_F(DebuggerTest, ASeedReplaysTheOrderOfThreads) {
  Recording first, second, in_order;
  ASSERT_EQ(record(first, 3, {.seed = 5}), "no error");
  ASSERT_EQ(record(second, 3, {.seed = 5}), "no error");
  ASSERT_EQ(record(in_order), "no error");
  Debugger a(first), same(second), b(in_order);
  for (const char* command : {"where", "continue", "names", "owner acc[5, 5]", "print s"})
    EXPECT_EQ(a.execute(command).json, same.execute(command).json) << command;
  for (const char* command : {"continue", "print acc", "print s"})
    EXPECT_EQ(a.execute(command).json, b.execute(command).json) << command;
}

TEST_F(DebuggerTest, EndsWhereTheLaunchDid) {
  std::ofstream(file_)
      << "import triton\nimport triton.language as tl\n@triton.jit\ndef kernel(x, y, n, ROWS: tl.constexpr):\n"
         "    i = tl.arange(0, ROWS)\n    v = tl.load(x + i)\n    tl.store(y + i + n, v)\n    w = v + 1\n";
  Recording recording, later;
  EXPECT_CONTAINS(record(recording, 1 << 20, {.threads = 1}, 0), "out-of-bounds write");
  Debugger debugger(recording);
  const std::string end = after(debugger, {"continue"});
  EXPECT_CONTAINS(end, "the end of program (0, 0, 0)\nthe launch ended early: kernel 'kernel': out-of-bounds write");
  EXPECT_CONTAINS(after(debugger, {"back"}), "tl.store(y + i + n, v)\n");
  EXPECT_CONTAINS(after(debugger, {"print v[0:2]"}), "    0: 0 1\n");
  EXPECT_CONTAINS(record(later, 1 << 20, {.threads = 1}), "out-of-bounds write");
  EXPECT_CONTAINS(Debugger(later).execute("where").text,
                  "program (1, 0, 0) did not begin\nthe launch ended early: kernel 'kernel': out-of-bounds write");
}

TEST_F(DebuggerTest, BeyondItsMemoryARecordingKeepsNoValues) {
  Recording recording(4096);
  ASSERT_EQ(record(recording), "no error");
  Debugger debugger(recording);
  EXPECT_EQ(after(debugger, {"continue", "print acc"}),
            "error: the value of 'acc' was not kept: the recording has all the memory that it may take (--memory)\n");
}

TEST_F(DebuggerTest, KernelsInCppSayWhatToWatch) {
  const auto double_it = kernel("double_it", [](Ptr<"y"> y, Ptr<"x"> x) {
    Tile i = arange(0, 32);
    Tile v = load(x + i);
    watch("v", v);
    for (Tile k : range(0, 2)) {
      v = v + v;
      watch("v", v);
    }
    store(y + i, v);
  });
  auto device = make_emulator();
  Array<float> x(*device, iota(128)), y(*device, 32);
  Recording recording;
  device->record_program(&recording, {0, 0, 0});
  double_it.launch(*device, {1}, {.debug = 2}, reinterpret_cast<float*>(y.address()),
                   reinterpret_cast<float*>(x.address()));
  Debugger debugger(recording);
  EXPECT_CONTAINS(after(debugger, {"step"}), "  v = float32[32] from 0 to 31, mean 15.5\n2/3  ");
  EXPECT_CONTAINS(after(debugger, {"continue", "print v[5]"}), "\n    5: 20\n");
}

// Other code than the recorded one is what it was: no op of it tells of anything.
TEST_F(DebuggerTest, KernelsThatAreNotWatchedRecordNothing) {
  auto device = make_emulator();
  Array<float> x(*device, iota(128)), y(*device, 32);
  Recording recording;
  device->record_program(&recording, {0, 0, 0});
  Program::load(file_).kernel("kernel").launch(*device, {2}, {.constexprs = {{"ROWS", 16}}},
                                               reinterpret_cast<float*>(x.address()),
                                               reinterpret_cast<float*>(y.address()), 3);
  EXPECT_TRUE(recording.events().empty());
  const std::string nothing =
      "nothing was recorded: that takes a launch with the option debug=2 whose grid has the program\n";
  Debugger debugger(recording);
  EXPECT_EQ(debugger.execute("where").text, nothing);
  EXPECT_EQ(debugger.execute("names").text, nothing);
  EXPECT_EQ(debugger.execute("print acc").text, "error: " + nothing);
  EXPECT_EQ(debugger.execute("print @values").text, "error: " + nothing);
}

}  // namespace
}  // namespace tegula
