// Scalars that follow from the arguments of a launch.
#include <gtest/gtest.h>

#include <vector>

#include "dsl/tegula.h"

namespace tegula {
namespace {

// Numbers that many others follow from, each of which follows from two of those ahead of it, are looked at once.
TEST(LaunchValues, AreFoundInBoundedTime) {
  const Program program = Program::parse(R"(import triton
import triton.language as tl

@triton.jit
def kernel(x, n, STEPS: tl.constexpr):
    a = n
    b = tl.program_id(0)
    for k in tl.static_range(STEPS):
        a, b = tl.minimum(a + b, n), tl.maximum(a, b ^ (b << 3))
    for k in range(a, b):
        tl.store(x + tl.arange(0, 64), tl.load(x + k * 64 + tl.arange(0, 64)))
)",
                                         "k.py");
  EXPECT_NE(program.kernel("kernel")
                .compile(std::vector<ArgType>{{Elem::F32, true, 16, {}}, {Elem::I32, false, 16, {}}},
                         {.constexprs = {{"STEPS", 60}}}, "sm_90a")
                .ptx,
            "");
}

}  // namespace
}  // namespace tegula
