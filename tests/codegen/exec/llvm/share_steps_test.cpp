// label: device
// Pointers that a loop carries.
#include <gtest/gtest.h>

#include <regex>

#include "codegen/compile.h"
#include "dsl/program.h"
#include "tests/codegen/lower/ops_support.h"

namespace tegula::ops {
namespace {

// Sums of every `step`th matrix of 32 x 32 and of its mirror image, whose rows lie any distance apart.
const char* kSums = R"(
import triton
import triton.language as tl

@triton.jit
def sums(out_ptr, x_ptr, first, step, count, row_stride, col_stride):
    rows, cols = tl.arange(0, 32), tl.arange(0, 32)
    x = x_ptr + first + rows[:, None] * row_stride + cols[None, :] * col_stride
    mirrored = x_ptr + first + (31 - rows)[:, None] * row_stride + (31 - cols)[None, :] * col_stride
    acc = tl.zeros([32, 32], dtype=tl.float32)
    for _ in range(count):
        # An iteration begins with steps, in another order than that in which the loop carries the pointers.
        next_x, next_mirrored = x + step, mirrored + step
        acc += tl.load(x) + 2 * tl.load(mirrored)
        mirrored, x = next_mirrored, next_x
    tl.store(out_ptr + rows[:, None] * 32 + cols[None, :], acc)
)";

size_t matches(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  return size_t(std::distance(std::sregex_iterator(text.begin(), text.end(), regex), std::sregex_iterator()));
}

// What LLVM's passes leave of the kernel.
std::string optimised(const Kernel& kernel, const std::vector<ArgType>& types, const LaunchOptions& launch) {
  std::string text;
  CompileOptions options;
  options.target = *find_target("sm_90a");
  options.dump = [&](const std::string& stage, const std::string& now) {
    if (stage == "llvm-opt") text = now;
  };
  Diagnostics diags;
  EXPECT_TRUE(compile(*kernel.tile_func(types, launch), options, diags)) << diags.render();
  return text;
}

TEST(ShareSteps, LoopsAddUpWhatTheyPointTo) {
  auto device = default_device();
  const int rows = 100, cols = 3, matrices = 5, size = 32 * rows;
  std::vector<float> x(size_t(size * matrices));
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(i * 37 % 251);
  const Kernel kernel = Program::parse(kSums, "sums.py").kernel("sums");
  struct Walk {
    int first, step, count;
  };
  for (const Walk w : {Walk{0, size, matrices}, Walk{size * (matrices - 1), -size, matrices}, Walk{7, 1, 9},
                       Walk{5, 3, 1}, Walk{0, 1, 0}}) {
    Buffer in(*device, x), out(*device, 1024 * sizeof(float));
    kernel.launch(*device, {1}, {.num_warps = 1}, out.as<float>(), in.as<float>(), w.first, w.step, w.count, rows,
                  cols);
    const std::vector<float> got = out.download<float>();
    for (int r = 0; r < 32; ++r)
      for (int c = 0; c < 32; ++c) {
        float expected = 0;
        for (int i = 0; i < w.count; ++i) {
          const int at = w.first + i * w.step;
          expected += x[size_t(at + r * rows + c * cols)] + 2 * x[size_t(at + (31 - r) * rows + (31 - c) * cols)];
        }
        EXPECT_EQ(got[size_t(r * 32 + c)], expected) << r << ", " << c << " by " << w.step;
      }
  }
}

TEST(ShareSteps, OnePointerIsCarriedForEachStep) {
  const ArgType pointer{.elem = Elem::F32, .pointer = true, .divisible_by = 16}, number{.elem = Elem::I32};
  const std::string text = optimised(Program::parse(kSums, "sums.py").kernel("sums"),
                                     {pointer, pointer, number, number, number, number, number}, {.num_warps = 1});
  EXPECT_LE(matches(text, "phi ptr"), 2u) << text;
  EXPECT_GE(matches(text, "phi float"), 32u) << text;
}

// Sums begin with constants, not with copies of a register.
TEST(OwnConstants, SumsBeginWithZeroEach) {
  const ArgType pointer{.elem = Elem::F32, .pointer = true, .divisible_by = 16}, number{.elem = Elem::I32};
  const std::vector<ArgType> types{pointer, pointer, number, number, number, number, number};
  const std::string ptx =
      Program::parse(kSums, "sums.py").kernel("sums").compile(types, {.num_warps = 1}, "sm_90a").ptx;
  EXPECT_GE(matches(ptx, "mov\\.b32 \t%r[0-9]+, 0f0+;"), 32u) << ptx;
}

}  // namespace
}  // namespace tegula::ops
