// tegula check, run as a user runs it: mistakes and warnings of files, without types and with them.
#include "tests/tools/command_fixture.h"

namespace tegula {
namespace {

using Result = CommandResult;

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

}  // namespace
}  // namespace tegula
