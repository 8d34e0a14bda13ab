// label: device
// `tegula explain` as a user runs it.
#include "tests/expect_contains.h"
#include "tests/tools/command_fixture.h"

namespace tegula {
namespace {

const std::string kArguments =
    "--grid 'cdiv(n, BLOCK)' --arg x='*f32' --arg y='*f32' --arg out='*f32' --arg n=1000000 "
    "--constexpr BLOCK=1024 --target sm_80";

TEST_F(Command, ExplainsALaunchWithoutData) {
  const CommandResult r = tegula("explain add.py::add " + kArguments + " --svg roofline.svg");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_CONTAINS(r.out, "add on sm_80: 977 programs, BLOCK=1024 num_warps=4 num_stages=3\n");
  EXPECT_CONTAINS(r.out, "bound by memory");
  EXPECT_CONTAINS(r.out,
                  "  from memory 8000.00 KB, to memory 4000.00 KB; through the L2 cache 8000.00 KB and 4000.00 KB\n");
  EXPECT_CONTAINS(r.out, "add.py:9:23: load x, 16 bytes an instruction\n");
  EXPECT_CONTAINS(file("roofline.svg"), "<svg ");
  EXPECT_CONTAINS(file("roofline.svg"), "add on sm_80: memory bound");
}

TEST_F(Command, ExplainsInJson) {
  const CommandResult r = tegula("explain add.py::add " + kArguments + " --json");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_CONTAINS(r.out, "\"from_memory\": 8000000, \"to_memory\": 4000000");
  EXPECT_CONTAINS(r.out, "\"bound\": \"memory\"");
}

TEST_F(Command, AdvisesOnASequence) {
  const std::string second =
      "add.py::add --grid 977 --arg x='*f32@t' --arg y='*f32' --arg out='*f32@u' --arg n=1000000 "
      "--constexpr BLOCK=1024";
  const std::string first =
      "explain add.py::add --grid 977 --arg x='*f32@a' --arg y='*f32@b' --arg out='*f32@t' "
      "--arg n=1000000 --constexpr BLOCK=1024 --target sm_80";
  const CommandResult r = tegula(first + " --then \"" + second + "\"");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_CONTAINS(r.out, "should these kernels be one?\n");
  EXPECT_CONTAINS(r.out, "24 MB apart, 16 MB as one kernel: 1.50\n");
  EXPECT_CONTAINS(r.out, "fuse them, then measure");
  const CommandResult kept = tegula(first + " --keep t --then \"" + second + "\"");
  EXPECT_CONTAINS(kept.out, "do not fuse them: rule 5 (traffic ratio at least 1.5?)");
  const CommandResult unknown = tegula(first + " --keep z --then \"" + second + "\"");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_EQ(unknown.err, "error: --keep 'z': no kernel has an array of that name; name one by --arg x='*f32@z'\n");
}

TEST_F(Command, RefusesToExplainWhatMakesNoSense) {
  EXPECT_EQ(tegula("explain add.py::add --arg x='*f33' --arg n=1").err,
            "error: --arg 'x=*f33': '*f33' is no type of a pointer; expected *f32, *bf16, ...\n");
  EXPECT_EQ(tegula("explain add.py::add " + kArguments + " --measure").err,
            "error: --measure takes a GPU: the emulator times nothing\n");
  EXPECT_EQ(
      tegula("explain add.py::add --arg y='*f32' --arg n=1").err,
      "error: the argument 'x' has no value: give --arg x=NUMBER, --arg x='*f32', or --in, --random or --zeros\n");
  EXPECT_CONTAINS(tegula("explain add.py::add --then '--nonsense'").err, "error: --then '--nonsense': ");
}

}  // namespace
}  // namespace tegula
