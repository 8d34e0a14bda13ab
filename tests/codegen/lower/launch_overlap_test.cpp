// label: unit
// When kernels let the next one of the stream start.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "dsl/tegula.h"
#include "tests/codegen/lower/ptx_support.h"

namespace tegula {
namespace {

using kernel_texts::compile;

// Programs that move little let it start where they are few: others have an entry of their own, which only waits.
TEST(LaunchOverlap, OfProgramsThatMoveLittleOnlyFew) {
  for (int block : {256, 4096}) {
    const std::string arguments = fmt::format("out_ptr=*f32 x_ptr=*f32 BLOCK={}", block);
    const KernelImage image = compile({"tests/kernels/rows.py", "softmax", arguments.c_str(), 1}, 1, "sm_90a");
    const size_t many = image.ptx.find(".entry softmax_of_many_programs(");
    EXPECT_EQ(image.few_programs, block == 256 ? 1024 : 0);
    EXPECT_EQ(many != std::string::npos, block == 256) << image.ptx;
    if (block != 256) continue;
    EXPECT_LT(image.ptx.find("griddepcontrol.launch_dependents"), many) << image.ptx;
    EXPECT_EQ(image.ptx.find("griddepcontrol.launch_dependents", many), std::string::npos) << image.ptx;
    EXPECT_NE(image.ptx.find("griddepcontrol.wait", many), std::string::npos) << image.ptx;
  }
}

// Loops may be short: with very many programs nobody gains by starting early.
TEST(LaunchOverlap, OfProgramsWithShortLoopsOnlyFew) {
  for (auto [block, few] : {std::pair{256, 8192}, {8192, 0}}) {
    const Kernel sums = Program::parse(R"(
import triton
import triton.language as tl


@triton.jit
def sums(out_ptr, x_ptr, begin_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(tl.load(begin_ptr + row), tl.load(begin_ptr + row + 1), BLOCK):
        total += tl.load(x_ptr + first + tl.arange(0, BLOCK))
    tl.store(out_ptr + row, tl.sum(total, 0))
)",
                                       "sums.py")
                            .kernel("sums");
    const ArgType rows{.elem = Elem::F32, .pointer = true}, begins{.elem = Elem::I32, .pointer = true};
    const std::vector<ArgType> types{rows, rows, begins};
    EXPECT_EQ(sums.compile(types, {.constexprs = {{"BLOCK", block}}}, "sm_90a").few_programs, few) << block;
  }
}

// Where the number of programs is known there is one entry, which lets the next kernel start or not.
TEST(LaunchOverlap, AsTheNumberOfProgramsSays) {
  const kernel_texts::Specialisation softmax =
      kernel_texts::specialisation({"tests/kernels/rows.py", "softmax", "out_ptr=*f32 x_ptr=*f32 BLOCK=256", 1}, 1);
  for (auto [bits, lets_start] : {std::pair{1, true}, {10, true}, {11, false}, {30, false}}) {
    LaunchOptions options = softmax.options;
    options.program_bits = bits;
    const KernelImage image = softmax.kernel.compile(softmax.types, options, "sm_90a");
    EXPECT_EQ(image.few_programs, 0);
    EXPECT_EQ(image.ptx.find("of_many_programs"), std::string::npos) << image.ptx;
    EXPECT_NE(image.ptx.find("griddepcontrol.wait"), std::string::npos) << image.ptx;
    EXPECT_EQ(image.ptx.find("griddepcontrol.launch_dependents") != std::string::npos, lets_start) << bits;
  }
}

// Programs of a product that share rows and columns let it start at once if their loop is short, else as they end;
// a loop in a loop over tiles never is. Few rows are read by one program each.
TEST(LaunchOverlap, NotBesideProductsThatShareOperands) {
  const Kernel product = Program::parse(R"(
import triton
import triton.language as tl


@triton.jit
def one(c_ptr, a_ptr, b_ptr, k, ROWS: tl.constexpr):
    row = tl.arange(0, ROWS)
    col = tl.arange(0, 64)
    acc = tl.zeros((ROWS, 64), tl.float32)
    for first in range(0, k, 64):
        a = tl.load(a_ptr + row[:, None] * k + first + col[None, :])
        b = tl.load(b_ptr + (first + col)[:, None] * 64 + col[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + row[:, None] * 64 + col[None, :], acc)


@triton.jit
def product(c_ptr, a_ptr, b_ptr, k, tiles, ROWS: tl.constexpr, IN_TURN: tl.constexpr):
    if IN_TURN:
        for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
            one(c_ptr + tile * ROWS * 64, a_ptr + tile * ROWS * k, b_ptr, k, ROWS)
    else:
        one(c_ptr, a_ptr, b_ptr, k, ROWS)
)",
                                        "product.py")
                             .kernel("product");
  const ArgType half{.elem = Elem::F16, .pointer = true}, sums_of{.elem = Elem::F32, .pointer = true},
      count{.elem = Elem::I32, .divisible_by = 16};
  struct Form {
    int rows;
    bool in_turn, tests_length, at_once;
  };
  for (const Form& form : {Form{128, false, true, false}, {128, true, false, false}, {16, false, false, true}}) {
    const std::vector<ArgType> types{sums_of, half, half, count, count};
    const std::string ptx =
        product.compile(types, {.constexprs = {{"ROWS", form.rows}, {"IN_TURN", form.in_turn}}}, "sm_90a").ptx;
    const size_t wait = ptx.find("griddepcontrol.wait"), next = ptx.find("griddepcontrol.launch_dependents");
    EXPECT_EQ(next != ptx.npos, form.tests_length || form.at_once) << ptx;
    if (next == ptx.npos) continue;
    EXPECT_LT(next, ptx.find("mma")) << ptx;
    EXPECT_EQ(ptx.substr(wait, next - wait).find("bra") != ptx.npos, form.tests_length) << ptx;
  }
}

// A loop's first loads of what each program has for itself are fetched ahead of the wait, 64 bytes a thread at most.
// What all programs read, and the kernel ahead may have written, is not.
TEST(LaunchOverlap, FetchesFirstLoadsOfProductsEarly) {
  for (auto [rows, fetches] : {std::pair{8, 4}, {16, 0}}) {
    const std::string arguments = fmt::format(
        "out_ptr=*f16 a_ptr=*f16 b_ptr=*u8 scales_ptr=*f16 zeros_ptr=*u8=0 bias_ptr=*f16=0 partials_ptr=*f32 "
        "counters_ptr=*i32 EPILOGUE=none PACKED=int4 GROUP=128 BLOCK_M=2 BLOCK_N={} STEP=2048 PROGRAMS=0 STAGES=2 "
        "SHARES=4 BLOCK_K=128 EVEN_K=1 EVEN_BLOCKS=1 SCALED=0 TOGETHER=0 BYTES=0",
        rows);
    kernel_texts::Specialisation weights =
        kernel_texts::specialisation({"kernels/quantised_gemm.py", "quantised_gemm", arguments.c_str(), 4}, 4);
    for (bool overlaps : {true, false}) {
      weights.options.dependent_launch = overlaps;
      const std::string ptx = weights.kernel.compile(weights.types, weights.options, "sm_90a").ptx;
      const size_t wait = ptx.find("griddepcontrol.wait");
      int found = 0;
      for (size_t at = 0; (at = ptx.find("prefetch.global.L2", at)) != ptx.npos; ++at, ++found) EXPECT_LT(at, wait);
      EXPECT_EQ(found, overlaps ? fetches : 0) << rows;
    }
  }
}

// Blocks of a cluster read what they share together, so the order of clusters matters little: the next kernel starts
// under their stores, if the loop is not so short that it starts at once. Not where few rows leave memory the limit.
TEST(LaunchOverlap, BehindTheLoopsOfClusters) {
  for (auto [blocks, rows, times] : {std::tuple{1, 128, 1}, {2, 128, 2}, {2, 24, 1}}) {
    const std::string arguments = fmt::format(
        "c_ptr=*f16 a_ptr=*f16 b_ptr=*f16 bias_ptr=*f16=0 partials_ptr=*f32=0 counters_ptr=*i32=0 stride_ak=i32=1 "
        "stride_bk=i32=1 stride_cn=i32=1 EPILOGUE=none BLOCK_M={} BLOCK_N=256 BLOCK_K=64 GROUP_M=8 PROGRAMS=0 PARTS=0 "
        "SWAP=1 EVEN_M=0 EVEN_N=0 EVEN_K=0",
        rows);
    kernel_texts::Specialisation gemm =
        kernel_texts::specialisation({"kernels/gemm.py", "gemm", arguments.c_str(), 8}, 8);
    gemm.options.num_ctas = blocks;
    const std::string ptx = gemm.kernel.compile(gemm.types, gemm.options, "sm_90a").ptx;
    int found = 0;
    for (size_t at = 0; (at = ptx.find("griddepcontrol.launch_dependents", at)) != ptx.npos; ++at) ++found;
    EXPECT_EQ(found, times) << blocks << " blocks, " << rows << " rows";
  }
}

// A kernel without memory waits too, or others would overtake; on request nothing overlaps.
TEST(LaunchOverlap, CanBeSwitchedOff) {
  const Kernel kernel = Program::parse("@triton.jit\ndef nothing(n):\n    return\n", "nothing.py").kernel("nothing");
  const ArgType n{.elem = Elem::I32};
  EXPECT_NE(kernel.compile(std::span(&n, 1), {}, "sm_90a").ptx.find("griddepcontrol.wait"), std::string::npos);
  const KernelImage alone = kernel.compile(std::span(&n, 1), {.dependent_launch = false}, "sm_90a");
  EXPECT_EQ(alone.ptx.find("griddepcontrol"), std::string::npos);
  EXPECT_FALSE(alone.dependent_launch);
}

}  // namespace
}  // namespace tegula
