// label: device
// Index arithmetic in the PTX of kernels.
#include "codegen/compile.h"
#include "tests/codegen/lower/ops_support.h"

namespace tegula::ops {
namespace {

// The distance of rows is extended ahead of the loop, where instructions for the product with a row's number cannot see
// it.
TEST(SinkIndices, RowsOfALoopTakeOneProductEach) {
  const char* text = R"(
import triton
import triton.language as tl

@triton.jit
def kernel(out_ptr, x_ptr, out_stride, x_stride, rows):
    at = tl.arange(0, 128)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row.to(tl.int64) * x_stride + at)
        tl.store(out_ptr + row.to(tl.int64) * out_stride + at, x)
)";
  const ArgType pointer{.elem = Elem::F32, .pointer = true, .divisible_by = 16}, number{.elem = Elem::I32};
  const std::vector<ArgType> types{pointer, pointer, number, number, number};
  const std::string ptx =
      Program::parse(text, "kernel.py").kernel("kernel").compile(types, {.dependent_launch = false}, "sm_90a").ptx;
  EXPECT_EQ(ptx.find("mul.lo.s64"), std::string::npos) << ptx;
  EXPECT_NE(ptx.find("mul.wide.s32"), std::string::npos) << ptx;
}

}  // namespace
}  // namespace tegula::ops
