// label: device
// tegula debug: a recorded program by commands of the command line, by a script on standard input, and from a file.
#include <nlohmann/json.hpp>

#include "tests/tools/command_fixture.h"

namespace tegula {
namespace {

const std::string kAdd =
    "debug add.py::add --grid 2 --random x=f32[100] --random y=f32[100] --zeros out=f32[100] --arg n=100 "
    "--constexpr BLOCK=64 ";

class DebugCommand : public Command {};

TEST_F(DebugCommand, AnswersCommands) {
  const CommandResult r = tegula(
      "debug add.py::scale --zeros x=f32[4] --arg factor=2.5 --arg n=3 --constexpr BLOCK=4 "
      "--command step --command 'print i' --command store --command 'p factor'");
  EXPECT_EQ(r.out,
            "1/2  add.py:14:  i = tl.arange(0, BLOCK)\n"
            "(tegula) step\n"
            "  i = int32[4] from 0 to 3, mean 1.5\n"
            "2/2  add.py:15:  tl.store(x + i, (tl.load(x + i, mask=i < n).to(TYPE) * factor), mask=i < n)\n"
            "(tegula) print i\n"
            "i: int32[4], line 14, from 0 to 3, mean 1.5\n"
            "    0: 0 1 2 3\n"
            "(tegula) store\n"
            "the end of program (0, 0, 0)\n"
            "(tegula) p factor\n"
            "factor = 2.5 (float32, line 13)\n");
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(r.status, 0);
}

TEST_F(DebugCommand, ReadsAScriptAndAnswersInJson) {
  write("script", "break 9\nc\nnames\n\nnothing\nquit\nstep\n");
  const CommandResult r = tegula(kAdd + "--program 1 --json <script");
  EXPECT_EQ(r.status, 2);  // 'nothing' is no command
  std::istringstream lines(r.out);
  std::vector<nlohmann::json> answers;
  for (std::string line; std::getline(lines, line);) answers.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(answers.size(), 6u);
  EXPECT_EQ(answers[0]["command"], "where");
  EXPECT_EQ(answers[0]["program"], nlohmann::json({1, 0, 0}));
  EXPECT_EQ(answers[1]["breakpoints"], nlohmann::json({9}));
  EXPECT_EQ(answers[2]["line"], 9);
  EXPECT_EQ(answers[2]["source"], "tl.store(out + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)");
  EXPECT_EQ(answers[3]["names"][1]["name"], "i");
  EXPECT_EQ(answers[3]["names"][1]["value"], "from 64 to 127, mean 95.5");
  EXPECT_EQ(answers[4]["error"], "unknown command 'nothing'; 'help' lists the commands");
}

TEST_F(DebugCommand, KeepsARecordingForLater) {
  EXPECT_EQ(tegula(kAdd + "--program 1 --record run.tgr").status, 0);
  const CommandResult r = tegula("debug --replay run.tgr --command 'goto 3' --command 'print m[30:40]'");
  EXPECT_HAS(r.out, "(tegula) goto 3\n3/3  add.py:9:");
  EXPECT_HAS(r.out, "   30:  True  True  True  True  True  True False False False False\n");
  write("other", "no recording");
  const CommandResult other = tegula("debug --replay other");
  EXPECT_EQ(other.err, "error: 'other' is no recording of tegula debug, or a damaged one\n");
  EXPECT_EQ(other.status, 3);
}

// A machine that has only the recording shows the kernel's lines.
TEST_F(DebugCommand, ARecordingKeepsTheSource) {
  write("mine.py",
        "import triton\nimport triton.language as tl\n@triton.jit\ndef k(x):\n    v = tl.load(x)\n"
        "    tl.device_print('v', v)\n    tl.store(x, v + 1)\n");
  EXPECT_EQ(tegula("debug mine.py::k --zeros x=f32[1] --record run.tgr").status, 0);
  write("mine.py", "# another version\n");
  const CommandResult r = tegula("debug --replay run.tgr --command 'goto 3' --command 'list 3'");
  EXPECT_HAS(r.out, "3/3  mine.py:7:  tl.store(x, v + 1)\n(tegula) list 3\n      6      tl.device_print('v', v)\n");
}

// Each line is JSON, whatever the kernel prints; the first one tells that.
TEST_F(DebugCommand, PrintsAreInTheFirstAnswer) {
  write("mine.py",
        "import triton\nimport triton.language as tl\n@triton.jit\ndef k(x):\n"
        "    tl.device_print('v', tl.load(x))\n");
  const CommandResult r = tegula("debug mine.py::k --zeros x=f32[1] --json --command continue");
  const size_t end = r.out.find('\n');
  EXPECT_EQ(nlohmann::json::parse(r.out.substr(0, end))["prints"],
            nlohmann::json({"pid (0, 0, 0) idx () v: 0.000000"}));
  EXPECT_EQ(nlohmann::json::parse(r.out.substr(end))["command"], "continue");
}

TEST_F(DebugCommand, RefusesWhatItCannotRecord) {
  const auto error = [&](const std::string& arguments) {
    const CommandResult r = tegula(arguments);
    EXPECT_EQ(r.status, 2);
    return r.err;
  };
  EXPECT_EQ(error("debug"), "error: tegula debug takes a KERNEL, or a recording by --replay\n");
  EXPECT_EQ(error(kAdd + "--program 1,2"), "error: --program (1, 2, 0) is not in the grid of 2 x 1 x 1 programs\n");
  EXPECT_EQ(error("debug add.py::leave --zeros x=f32[1] --program first"),
            "error: --program 'first': expected one to three indices, as 3 or 3,0,1\n");
  EXPECT_EQ(error(kAdd + "--device gpu"),
            "error: tegula debug runs kernels on the emulator; --device gpu is not for it\n");
  EXPECT_EQ(error(kAdd + "--memory 0"), "error: --memory 0: expected a number of MiB from 1 on\n");
}

}  // namespace
}  // namespace tegula
