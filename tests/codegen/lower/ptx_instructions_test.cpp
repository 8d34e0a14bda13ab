// label: unit
// heavy: PtxInstructions.InstructionsThatMatter
// The instructions that single kernels become, and what LLVM refuses.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "codegen/exec/generate.h"
#include "codegen/target/target.h"
#include "dsl/tegula.h"
#include "tests/codegen/lower/ptx_support.h"

namespace tegula {
namespace {

using kernel_texts::Case;
using kernel_texts::compile;
using kernel_texts::count;

// What the lowering is there for: wide accesses, tensor-core instructions, and predicates only where a mask may be
// false.
// Copies as threads issue them.
KernelImage by_threads(const Case& c, int num_warps, const char* target) { return compile(c, num_warps, target, 1); }

// One instruction a box of 128 bytes by 256 rows at most, of two iterations before the loop and of one in it, or in the
// one loop of warps that copy.
TEST(PtxInstructions, BulkCopies) {
  for (bool transposed_b : {false, true})
    for (const char* target : {"sm_90a", "sm_100a", "sm_120a"}) {
      const std::string arguments = fmt::format(
          "a_ptr=*f16 b_ptr=*f16 c_ptr=*f16 stride_ak=i32=1 {}=i32=1 stride_cn=i32=1 BLOCK_M=128 BLOCK_N=128 "
          "BLOCK_K=64",
          transposed_b ? "stride_bk" : "stride_bn");
      const std::string ptx = compile({"tests/kernels/blocks.py", "matmul", arguments.c_str(), 8}, 8, target, 2).ptx;
      const int boxes = transposed_b ? 2 : 3;
      const bool own_warps = find_target(target)->has(Feature::Wgmma);
      EXPECT_EQ(count(ptx, "cp\\.async\\.bulk\\.tensor\\.[0-9]d\\.shared"), own_warps ? boxes : 3 * boxes)
          << target << ptx;
      EXPECT_EQ(count(ptx, "cp\\.async\\.c[ag]"), 0) << target << ptx;
    }
}

// Rows of bfloat16 loaded an iteration ahead stay words of two until one operation on a word makes a float.
TEST(PtxInstructions, WordsOfTwoElementsStayWhole) {
  const Case softmax{"tests/kernels/rows.py", "softmax_persistent",
                     "out_ptr=*bf16 x_ptr=*bf16 rows=i32:1 BLOCK=4096 num_stages=2", 8};
  const std::string ptx = by_threads(softmax, 8, "sm_90a").ptx;
  EXPECT_EQ(count(ptx, "ld\\.global\\.v4\\.b32"), 4) << "two of them ahead of the loop\n" << ptx;
  EXPECT_EQ(count(ptx, "cvt\\.f32\\.bf16"), 0) << ptx;
  EXPECT_EQ(count(ptx, "%rs"), 0) << ptx;
  EXPECT_EQ(count(ptx, "and\\.b32.*-65536"), 8) << ptx;
  EXPECT_EQ(count(ptx, "shl\\.b32.*, 16;"), 8) << ptx;
}

// Only where several threads hold an element a predicate says which of them copies it.
TEST(PtxInstructions, OneThreadCopiesAnElement) {
  for (const char* target : {"sm_80", "sm_90a"})
    for (const auto& [rows, columns, depth, warps, predicates] :
         {std::tuple{64, 64, 32, 4, false}, {48, 12, 24, 2, true}}) {
      const std::string arguments = fmt::format(
          "a_ptr=*f16 b_ptr=*f16 c_ptr=*f16 stride_ak=i32=1 stride_bn=i32=1 stride_cn=i32=1 BLOCK_M={} BLOCK_N={} "
          "BLOCK_K={} GROUP_M=8 OUT=f16",
          rows, columns, depth);
      const std::string ptx =
          by_threads({"tests/kernels/matmul.py", "matmul", arguments.c_str(), warps}, warps, target).ptx;
      EXPECT_GT(count(ptx, "cp\\.async\\.c[ag]"), 0) << ptx;
      EXPECT_EQ(count(ptx, "@%p\\d+ cp\\.async\\.c[ag]") > 0, predicates) << ptx;
    }
}

TEST(PtxInstructions, InstructionsThatMatter) {
  const Case softmax{"tests/kernels/rows.py", "softmax", "out_ptr=*f32 x_ptr=*f32 BLOCK=4096", 8};
  std::string ptx = by_threads(softmax, 8, "sm_90a").ptx;
  EXPECT_EQ(count(ptx, "ld\\.global\\.v4\\.b32"), 4) << ptx;
  EXPECT_EQ(count(ptx, "st\\.global\\.v4\\.b32"), 4) << ptx;
  EXPECT_EQ(count(ptx, "(ld|st)\\.global"), 8) << ptx;
  EXPECT_EQ(count(ptx, "bar\\.sync"), 2) << "one barrier a reduction\n" << ptx;
  EXPECT_EQ(count(ptx, "local"), 0) << ptx;

  // Operands of dots are copied to shared memory, three stages of 16 bytes a thread and time. The transposed form of
  // ldmatrix, or of the operand of wgmma, where K is not the contiguous axis in memory.
  for (bool transposed_b : {false, true}) {
    const std::string arguments = fmt::format(
        "a_ptr=*f16 b_ptr=*f16 c_ptr=*f32 stride_ak=i32=1 {}=i32=1 stride_cn=i32=1 BLOCK_M=64 BLOCK_N=64 "
        "BLOCK_K=32 GROUP_M=8 OUT=f32",
        transposed_b ? "stride_bk" : "stride_bn");
    const Case matmul{"tests/kernels/matmul.py", "matmul", arguments.c_str(), 4};
    for (const char* target : {"sm_80", "sm_90a"}) {
      ptx = by_threads(matmul, 4, target).ptx;
      const bool warpgroups = find_target(target)->has(Feature::Wgmma);
      EXPECT_EQ(count(ptx, "mma\\.sync\\.aligned\\.m16n8k16"), warpgroups ? 0 : 16) << ptx;
      EXPECT_EQ(count(ptx, "ldmatrix\\.sync\\.aligned\\.m8n8\\.x4\\.shared"), warpgroups     ? 0
                                                                              : transposed_b ? 8
                                                                                             : 4)
          << ptx;
      EXPECT_EQ(count(ptx, "ldmatrix\\.sync\\.aligned\\.m8n8\\.x4\\.trans\\.shared"),
                warpgroups || transposed_b ? 0 : 4)
          << ptx;
      EXPECT_EQ(count(ptx, transposed_b ? "m64n64k16.*1, 1, 0, 0;" : "m64n64k16.*1, 1, 0, 1;"), warpgroups ? 2 : 0)
          << ptx;
      EXPECT_EQ(count(ptx, "cp\\.async\\.cg.* 16, "), 3 * 4) << "of two iterations before the loop\n" << ptx;
      EXPECT_EQ(count(ptx, "ld\\.global"), 0) << ptx;
      EXPECT_EQ(count(ptx, "(ld|st)\\.shared\\.(b|v2)"), 0) << "16-byte accesses\n" << ptx;
    }
  }

  // Through block pointers as through pointers. K of attention is read by columns, which are contiguous.
  for (bool transposed_b : {false, true})
    for (const char* target : {"sm_80", "sm_90a"}) {
      const std::string arguments = fmt::format(
          "a_ptr=*f16 b_ptr=*f16 c_ptr=*f16 stride_ak=i32=1 {}=i32=1 stride_cn=i32=1 BLOCK_M=128 BLOCK_N=128 "
          "BLOCK_K=64",
          transposed_b ? "stride_bk" : "stride_bn");
      ptx = by_threads({"tests/kernels/blocks.py", "matmul", arguments.c_str(), 8}, 8, target).ptx;
      const bool warpgroups = find_target(target)->has(Feature::Wgmma);
      EXPECT_EQ(count(ptx, "cp\\.async\\.cg.* 16, "), 3 * 8) << "of two iterations before the loop\n" << ptx;
      EXPECT_EQ(count(ptx, "cp\\.async\\.c[ag]"), 3 * 8) << ptx;
      EXPECT_EQ(count(ptx, "wgmma\\.mma_async"), warpgroups ? 4 : 0) << ptx;
      EXPECT_EQ(count(ptx, "st\\.global\\.v4\\.b32"), 8) << ptx;
      EXPECT_EQ(count(ptx, "(ld|st)\\.global"), 8) << ptx;
      ptx = by_threads({"tests/kernels/blocks.py", "attention",
                        "q_ptr=*f16 k_ptr=*f16 v_ptr=*f16 out_ptr=*f16 scale=f32 ROWS=128 COLS=64 DEPTH=64", 8},
                       8, target)
                .ptx;
      EXPECT_EQ(count(ptx, "cp\\.async\\.cg.* 16, "), 3 * 4) << ptx;
      EXPECT_EQ(count(ptx, "ld\\.global\\.v4\\.b32"), 4) << ptx;
      EXPECT_EQ(count(ptx, "wgmma\\.mma_async"), warpgroups ? 8 : 0) << ptx;
    }

  // Widths that are no powers of two: one instruction for all columns, where no group shares them.
  for (const auto& [columns, rows, warps] : {std::array{96, 64, 4}, {192, 64, 4}, {224, 64, 4}, {192, 128, 8}})
    for (bool transposed_b : {false, true}) {
      const std::string arguments = fmt::format(
          "a_ptr=*f16 b_ptr=*f16 c_ptr=*f16 stride_ak=i32=1 {}=i32=1 stride_cn=i32=1 BLOCK_M={} BLOCK_N={} "
          "BLOCK_K=64 GROUP_M=8 OUT=f16",
          transposed_b ? "stride_bk" : "stride_bn", rows, columns);
      ptx = by_threads({"tests/kernels/matmul.py", "matmul", arguments.c_str(), warps}, warps, "sm_90a").ptx;
      EXPECT_EQ(count(ptx, "wgmma\\.mma_async"), 4) << ptx;
      EXPECT_EQ(count(ptx, fmt::format("m64n{}k16", columns).c_str()), 4) << ptx;
      EXPECT_EQ(count(ptx, "cp\\.async\\.cg.* 16, "), 3 * 64 * (rows + columns) / 8 / (32 * warps)) << ptx;
      EXPECT_EQ(count(ptx, "ld\\.global|local"), 0) << ptx;
    }

  // Columns that wrap around at N are as contiguous as N is divisible.
  for (int columns : {128, 256}) {
    const std::string arguments = fmt::format(
        "a_ptr=*f16 b_ptr=*f16 c_ptr=*f16 stride_ak=i32=1 stride_bn=i32=1 stride_cn=i32=1 BLOCK_M=128 BLOCK_N={} "
        "BLOCK_K=64 GROUP_M=8 OUT=f16 ACTIVATION=leaky_relu",
        columns);
    for (const char* target : {"sm_80", "sm_90a"}) {
      ptx = by_threads({"tests/kernels/matmul.py", "wrapped_matmul", arguments.c_str(), 8}, 8, target).ptx;
      const bool warpgroups = find_target(target)->has(Feature::Wgmma);
      EXPECT_EQ(count(ptx, "cp\\.async\\.c[ag].* 16, "), 3 * 64 * (128 + columns) / 8 / (32 * 8)) << ptx;
      EXPECT_EQ(count(ptx, "ld\\.global|local"), 0) << ptx;
      EXPECT_EQ(count(ptx, "wgmma\\.mma_async"), warpgroups ? 4 : 0) << ptx;
    }
  }

  // Of operands of 8 and 32 bits wgmma reads what lies along K; those of 8 bits are transposed in shared memory.
  for (const char* type : {"f32", "i8", "u8"})
    for (bool transposed_b : {false, true}) {
      const bool real = type[0] == 'f';
      const std::string arguments = fmt::format(
          "a_ptr=*{0} b_ptr=*{0} c_ptr=*{1} stride_ak=i32=1 {2}=i32=1 stride_cn=i32=1 BLOCK_M=64 BLOCK_N=64 BLOCK_K=64 "
          "GROUP_M=8 OUT={1} SUMS={1} PRECISION=tf32",
          type, real ? "f32" : "i32", transposed_b ? "stride_bk" : "stride_bn");
      const Case matmul{"tests/kernels/matmul.py", "matmul", arguments.c_str(), 4};
      for (const char* target : {"sm_80", "sm_90a"}) {
        ptx = by_threads(matmul, 4, target).ptx;
        const bool warpgroups = (transposed_b || !real) && find_target(target)->has(Feature::Wgmma);
        const std::string types = fmt::format("\\.{0}\\.{1}\\.{1}", real ? "f32" : "s32",
                                              real             ? "tf32"
                                              : type[0] == 'i' ? "s8"
                                                               : "u8");
        const int depth = real ? 8 : 32;
        EXPECT_EQ(count(ptx, fmt::format("wgmma\\.mma_async\\.sync\\.aligned\\.m64n64k{}{}", depth, types).c_str()),
                  warpgroups ? 64 / depth : 0)
            << ptx;
        const char* saturating = real ? "" : "\\.satfinite";
        EXPECT_EQ(
            count(ptx,
                  fmt::format("mma\\.sync\\.aligned\\.m16n8k{}\\.row\\.col{}{}", depth, saturating, types).c_str()),
            warpgroups ? 0 : 64 / depth * 8)
            << ptx;
      }
    }

  const Case attention{"tests/kernels/matmul.py", "attention",
                       "q_ptr=*f16 k_ptr=*f16 v_ptr=*f16 out_ptr=*f16 scale=f32 ROWS=64 KEYS=64 DEPTH=64", 4};
  ptx = by_threads(attention, 4, "sm_80").ptx;
  EXPECT_EQ(count(ptx, "mma\\.sync\\.aligned\\.m16n8k16"), 64) << ptx;
  EXPECT_EQ(count(ptx, "ldmatrix\\.sync\\.aligned\\.m8n8\\.x4\\.shared"), 16) << "k; q is loaded as it is multiplied";
  EXPECT_EQ(count(ptx, "ldmatrix\\.sync\\.aligned\\.m8n8\\.x4\\.trans\\.shared"), 16) << "v";
  EXPECT_EQ(count(ptx, "@%p\\d+ ld\\.global"), 0) << "no mask, no predicate\n" << ptx;
  EXPECT_EQ(count(ptx, "@%p\\d+ st\\.shared"), 0) << "no copies, no predicate\n" << ptx;
}

// Elements that wrap around at a bound are loaded together if a promise, on the way there, says that they start at no
// negative one.
TEST(PtxInstructions, PromisesOfSigns) {
  auto accesses = [](const char* promise, const char* width) {
    const std::string text = fmt::format(R"(
import triton
import triton.language as tl


@triton.jit
def shifted(x_ptr, out_ptr, N, shift):
    pid = tl.program_id(0)
    start = (pid - shift) * 1024
    {}
    at = start + tl.arange(0, 1024)
    tl.store(out_ptr + pid * 1024 + tl.arange(0, 1024), tl.load(x_ptr + at % N))
)",
                                         promise);
    const Kernel kernel = Program::parse(text, "shifted.py").kernel("shifted");
    const ArgType pointer{.elem = Elem::F32, .pointer = true, .divisible_by = 16};
    const ArgType n{.elem = Elem::I32, .divisible_by = 16}, shift{.elem = Elem::I32};
    const std::vector<ArgType> types{pointer, pointer, n, shift};
    const std::string ptx = kernel.compile(types, {.num_warps = 4}, "sm_80").ptx;
    return count(ptx, fmt::format("ld\\.global\\.{}", width));
  };
  for (const char* promise : {"tl.assume(start >= 0)", "tl.assume(start > -1)", "tl.assume(0 < start)",
                              "tl.assume((N > 0) & (0 <= start))", "tl.assume(start >= 0 and N > 0)"})
    EXPECT_EQ(accesses(promise, "v4"), 2) << promise;
  for (const char* promise :
       {"", "tl.assume(start >= -1024)", "tl.assume(start != 0)", "tl.assume(start < 1)",
        "tl.assume((start >= 0) | (N > 0))", "tl.assume(start >= N)", "if N > 4096:\n        tl.assume(start >= 0)"})
    EXPECT_EQ(accesses(promise, "b32"), 8) << promise;
}

// A promised alignment gives vectors under a mask of any length: the addresses of all accesses of a thread are asked
// once. A promised run gives none there, and without a mask both are believed.
TEST(PtxInstructions, PromisesOfAlignment) {
  auto ptx_of = [](const char* at, const char* mask) {
    const std::string text = fmt::format(R"(
import triton
import triton.language as tl


@triton.jit
def copy(x_ptr, out_ptr, stride, n):
    row = tl.program_id(0)
    i = tl.arange(0, 2048)
    tl.store(out_ptr + row * 2048 + i, tl.load({}{}))
)",
                                         at, mask);
    const ArgType pointer{.elem = Elem::F16, .pointer = true, .divisible_by = 16}, number{.elem = Elem::I32};
    const std::vector<ArgType> types{pointer, pointer, number, number};
    return Program::parse(text, "copy.py").kernel("copy").compile(types, {.num_warps = 4}, "sm_80").ptx;
  };
  const char *vectors = "ld\\.global\\.v4\\.b32", *elements = "ld\\.global\\.b16", *asked = "and\\.b(32|64).*, 1[45];";
  const char* promised = "tl.multiple_of(x_ptr + row * stride + i, 16)";
  const std::string masked = ptx_of(promised, ", mask=i < n");
  EXPECT_EQ(count(masked, vectors), 4) << "two accesses of a thread, together and one by one\n" << masked;
  EXPECT_EQ(count(masked.substr(0, masked.find("ld.global")), asked), 1) << masked;
  EXPECT_EQ(count(ptx_of("x_ptr + row * stride * 8 + i", ", mask=i < n"), asked), 0) << "what follows is not asked";
  const std::string whole = ptx_of(promised, "");
  EXPECT_EQ(count(whole, vectors), 2) << whole;
  EXPECT_EQ(count(whole, asked), 0) << whole;
  const char* run = "x_ptr + tl.max_contiguous(tl.multiple_of((row * 2048 + i) % stride, 2048), 2048)";
  EXPECT_EQ(count(ptx_of(run, ", mask=i < n"), elements), 16);
  EXPECT_EQ(count(ptx_of(run, ""), vectors), 2);
}

// Operands that are computed, or loaded to registers: wgmma multiplies all of them.
TEST(PtxInstructions, WgmmaOnOperandsFromRegisters) {
  const char* attention = "q_ptr=*f16 k_ptr=*f16 v_ptr=*f16 out_ptr=*f32 scale=f32 ROWS=64 KEYS=64 DEPTH=64 CAUSAL=0";
  std::string ptx = by_threads({"tests/kernels/operands.py", "flash_attention", attention, 4}, 4, "sm_90a").ptx;
  EXPECT_EQ(count(ptx, "m64n64k16.* %rd\\d+, %rd\\d+, .*1, 1, 0, 0;"), 4) << "q and k, both along K\n" << ptx;
  EXPECT_EQ(count(ptx, "m64n64k16.*\\}, %rd\\d+, .*1, 1, 1;"), 4) << "weights in registers, v along N\n" << ptx;
  EXPECT_EQ(count(ptx, "mma\\.sync"), 0) << ptx;
  EXPECT_EQ(count(ptx, "ldmatrix"), 0) << ptx;

  // Rows that are not aligned are stored before they are multiplied.
  for (bool aligned : {false, true}) {
    const std::string arguments = fmt::format(
        "a_ptr=*f16 b_ptr=*f16 c_ptr=*f16 stride_ak=i32=1 stride_bn=i32=1 stride_cn=i32=1 BLOCK_M=64 BLOCK_N=64 "
        "BLOCK_K=32 GROUP_M=8 OUT=f16 {}",
        aligned ? "" : "K=i32:1 stride_am=i32:1 stride_bk=i32:1");
    ptx = by_threads({"tests/kernels/matmul.py", "matmul", arguments.c_str(), 4}, 4, "sm_90a").ptx;
    EXPECT_EQ(count(ptx, "wgmma.mma_async"), 2) << ptx;
    EXPECT_EQ(count(ptx, "wgmma.*;\n\twgmma.*, adds, 1, 1"), 1) << "one block of text for all of K\n" << ptx;
    EXPECT_EQ(count(ptx, "cp\\.async\\.c[ga]"), aligned ? 12 : 0) << ptx;
    // Each load of the loop has its row's offset in 32 bits, and none has a pointer that the loop carries.
    EXPECT_EQ(
        count(ptx, "mul\\.wide\\.s32 \t%rd\\d+, %r\\d+, 2;\n\tadd\\.s64 .*\n(.*\n){1,12}.*ld\\.global\\.b16") >= 16,
        !aligned)
        << ptx;
  }
}

// In the loop of a product: an address of a copy is one addition, and nothing but two pointers moves on; masks take no
// comparison a copy where extents are multiples of the tiles'.
TEST(PtxInstructions, LoopsOfProductsAreShort) {
  auto loop_of = [](const char* extents) {
    const std::string arguments = fmt::format(
        "c_ptr=*f16 a_ptr=*f16 b_ptr=*f16 bias_ptr=*f16 {} EPILOGUE=nothing BLOCK_M=128 BLOCK_N=256 BLOCK_K=64 "
        "GROUP_M=8",
        extents);
    const std::string ptx = by_threads({"tutorials/04_matmul.py", "matmul", arguments.c_str(), 8}, 8, "sm_90a").ptx;
    std::smatch loop;
    EXPECT_TRUE(std::regex_search(ptx, loop, std::regex(R"((\$L__BB0_\d+):(?:(?!\$L__BB0_)[\s\S])*?bra\s+\1;)")))
        << ptx;
    return loop.str();
  };
  const std::string masked = loop_of(""), whole = loop_of("M=i32:256 N=i32:256 K=i32:256");
  for (const std::string& loop : {masked, whole}) {
    EXPECT_EQ(count(loop, "cp\\.async\\.cg"), 12) << loop;
    EXPECT_LE(count(loop, "add\\.s64"), 12 + 2 + 6) << "6: descriptors of operands\n" << loop;
    EXPECT_EQ(count(loop, "mad\\.wide|mul\\.wide"), 0) << loop;
  }
  EXPECT_LT(count(whole, "setp"), count(masked, "setp")) << whole;
  EXPECT_LE(count(whole, "setp"), 5) << "slots, the loop's end, whether the copied tile is there\n" << whole;
}

// LLVM compiles its intrinsic faster than a block of assembly of the same instruction.
TEST(PtxInstructions, ProductsAreNoAssembly) {
  for (const char* type : {"f16", "bf16"}) {
    const std::string arguments = fmt::format(
        "a_ptr=*{0} b_ptr=*{0} c_ptr=*{0} stride_ak=i32=1 stride_bn=i32=1 stride_cn=i32=1 BLOCK_M=64 BLOCK_N=64 "
        "BLOCK_K=32 GROUP_M=8 OUT={0}",
        type);
    const std::string ptx = by_threads({"tests/kernels/matmul.py", "matmul", arguments.c_str(), 4}, 4, "sm_80").ptx;
    const std::string product =
        fmt::format("mma\\.sync\\.aligned\\.m16n8k16\\.row\\.col\\.f32\\.{0}\\.{0}\\.f32", type);
    EXPECT_GT(count(ptx, product), 0) << ptx;
    EXPECT_EQ(count(ptx, "inline asm\\n\\s*" + product), 0) << ptx;
  }
}

TEST(PtxInstructions, FusedProductsAndSums) {
  const Kernel kernel = Program::parse(
                            "import triton\nimport triton.language as tl\n@triton.jit\ndef f(x, a):\n    tl.store(x, "
                            "tl.load(x) * a + 1.0)\n",
                            "f.py")
                            .kernel("f");
  const std::vector<ArgType> types{{Elem::F32, true, 16}, {Elem::F32}};
  EXPECT_NE(kernel.compile(types, {}, "sm_90a").ptx.find("fma.rn.f32"), std::string::npos);
  const std::string ptx = kernel.compile(types, {.enable_fp_fusion = false}, "sm_90a").ptx;
  EXPECT_EQ(ptx.find("fma"), std::string::npos) << ptx;
  EXPECT_NE(ptx.find("mul.rn.f32"), std::string::npos) << ptx;  // without .rn the assembler would fuse them
  EXPECT_NE(ptx.find("add.rn.f32"), std::string::npos) << ptx;
}

// Four neighbours have one quotient, by a divisor that is a multiple of 16, and remainders that go up by one.
TEST(PtxInstructions, OneDivisionForNeighbours) {
  auto divisions = [](const char* value, int64_t divisible_by) {
    const std::string text = fmt::format(R"(
import triton
import triton.language as tl


@triton.jit
def places(out_ptr, W, H):
    i = tl.program_id(0) * 1024 + tl.arange(0, 1024)
    tl.store(out_ptr + i, {})
)",
                                         value);
    const ArgType pointer{.elem = Elem::I32, .pointer = true, .divisible_by = 16};
    const ArgType extent{.elem = Elem::I32, .divisible_by = divisible_by};
    const std::vector<ArgType> types{pointer, extent, extent};
    return count(Program::parse(text, "places.py").kernel("places").compile(types, {.num_warps = 8}, "sm_80").ptx,
                 "(div|rem)\\.s32");
  };
  EXPECT_EQ(divisions("i // W", 16), 1);
  EXPECT_EQ(divisions("i % W", 16), 1);
  EXPECT_EQ(divisions("(i // W) * 1000 + i % W", 16), 1);
  EXPECT_EQ(divisions("(i // (W * H)) * 1000 + i // W % H", 16), 3);
  EXPECT_EQ(divisions("i // W", 1), 4);
  EXPECT_EQ(divisions("(i - 8) // W", 16), 4) << "neighbours on both sides of 0 have quotients of both";
  EXPECT_EQ(divisions("(i + 2) // W", 16), 2) << "aligned runs of two";
  EXPECT_EQ(divisions("(i + 1) // W", 16), 4);
}

// The reciprocal of an integer is a normal number, whose range nothing has to look at.
TEST(PtxInstructions, QuotientsByAnIntegerDoNotBranch) {
  auto branches = [](const char* divisor) {
    const std::string text = fmt::format(R"(
import triton
import triton.language as tl


@triton.jit
def mean(out_ptr, n, x):
    i = tl.arange(0, 4096)
    tl.store(out_ptr + i, tl.load(out_ptr + i) / {})
)",
                                         divisor);
    const std::vector<ArgType> types{
        {.elem = Elem::F32, .pointer = true, .divisible_by = 16}, {.elem = Elem::I32}, {.elem = Elem::F32}};
    const std::string ptx =
        Program::parse(text, "mean.py").kernel("mean").compile(types, {.num_warps = 4}, "sm_90a").ptx;
    EXPECT_EQ(count(ptx, "rcp\\.approx"), 1) << ptx;
    return count(ptx, "\\bbra\\b");
  };
  EXPECT_EQ(branches("n"), 0);
  EXPECT_EQ(branches("(n + 1).to(tl.int64)"), 0);
  EXPECT_GT(branches("x"), 0);
}

// A loop that waits for another program asks each time.
TEST(PtxInstructions, LoopsThatWaitLoadAgain) {
  for (const char* how : {"", ", volatile=True", ", cache_modifier='.cv'"}) {
    const std::string text = fmt::format(R"(
import triton
import triton.language as tl


@triton.jit
def waits(out_ptr, flag_ptr):
    while tl.load(flag_ptr{}) == 0:
        pass
    tl.store(out_ptr, 1)
)",
                                         how);
    const std::vector<ArgType> types(2, ArgType{.elem = Elem::I32, .pointer = true});
    const LaunchOptions options{.num_warps = 1, .dependent_launch = false};
    const std::string ptx = Program::parse(text, "waits.py").kernel("waits").compile(types, options, "sm_90a").ptx;
    EXPECT_EQ(
        count(ptx, R"((\$L__BB0_\d+):(?:(?!\$L__BB0_)[\s\S])*?ld\.volatile\.global(?:(?!\$L__BB0_)[\s\S])*?bra\s+\1;)"),
        1)
        << ptx;
  }
}

// Of eight accesses a thread all but the first two lie behind the end.
TEST(PtxInstructions, WhatNoThreadAccessesIsLeftOut) {
  const char* text = R"(
import triton
import triton.language as tl


@triton.jit
def head(out_ptr, x_ptr):
    i = tl.arange(0, 4096)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < 1000, other=0.0) + 1.0, mask=i < 1000)
)";
  const std::vector<ArgType> types(2, ArgType{.elem = Elem::F32, .pointer = true, .divisible_by = 16});
  const LaunchOptions options{.num_warps = 4, .dependent_launch = false};
  const std::string ptx = Program::parse(text, "head.py").kernel("head").compile(types, options, "sm_90a").ptx;
  EXPECT_EQ(count(ptx, "ld\\.global"), 2) << ptx;
  EXPECT_EQ(count(ptx, "st\\.global"), 2) << ptx;
}

// Rows by numbers that the loop loads: the pointer to these goes on by their size, so that the assembler, which unrolls
// the loop, can load several before the first row has come.
TEST(PtxInstructions, LoopsThatGatherCarryPointers) {
  const char* text = R"(
import triton
import triton.language as tl


@triton.jit
def bag(numbers_ptr, table_ptr, out_ptr, count):
    column = tl.arange(0, 128)
    total = tl.zeros((128, ), tl.float32)
    for i in range(count):
        total += tl.load(table_ptr + tl.load(numbers_ptr + i) * 128 + column)
    tl.store(out_ptr + column, total)
)";
  const ArgType numbers{.elem = Elem::I32, .pointer = true, .divisible_by = 16};
  const ArgType rows{.elem = Elem::F32, .pointer = true, .divisible_by = 16};
  const std::vector<ArgType> types{numbers, rows, rows, ArgType{.elem = Elem::I32}};
  const std::string ptx = Program::parse(text, "bag.py").kernel("bag").compile(types, {.num_warps = 4}, "sm_80").ptx;
  EXPECT_EQ(count(ptx, "add\\.s64\\s+(%rd[0-9]+), \\1, 4;"), 1) << ptx;
}

// Loads of a few bytes a thread, of many iterations at a time: the assembler would not make them of the loop, because
// of the masks. Where iterations store, what follows could not pass the stores anyway; wide loads need no more.
TEST(PtxInstructions, NarrowLoadsOfIterationsFollowEachOther) {
  const char* text = R"(
import triton
import triton.language as tl


@triton.jit
def columns(x_ptr, out_ptr, rows, width, LAST: tl.constexpr, ROWS: tl.constexpr, STORES: tl.constexpr):
    row, col = tl.arange(0, ROWS), tl.program_id(0) * 64 + tl.arange(0, 64)
    total = tl.zeros([ROWS, 64], tl.float32)
    for first in range(0, LAST if LAST > 0 else rows, ROWS):
        at = (first + row)[:, None] * 4096 + col[None, :]
        x = tl.load(x_ptr + at, mask=(col < width)[None, :], other=0)
        total += x.to(tl.float32)
        if STORES:
            tl.store(x_ptr + at, x * 2, mask=(col < width)[None, :])
    tl.store(out_ptr + col, tl.sum(total, axis=0), mask=col < width)
)";
  const Kernel kernel = Program::parse(text, "columns.py").kernel("columns");
  const auto loads = [&](int last, int rows, bool stores) {
    const ArgType pointer{.elem = Elem::BF16, .pointer = true, .divisible_by = 16};
    const ArgType number{.elem = Elem::I32}, width{.elem = Elem::I32, .divisible_by = 16};
    const std::vector<ArgType> types{pointer, pointer, number, width};
    const LaunchOptions options{.constexprs = {{"LAST", last}, {"ROWS", rows}, {"STORES", stores}}, .num_warps = 8};
    const std::string ptx = kernel.compile(types, options, "sm_90a").ptx;
    return count(ptx.substr(0, ptx.find("_of_many_programs")), "ld\\.global");
  };
  EXPECT_EQ(loads(1024, 4, false), 16) << "two bytes a thread in each iteration";
  EXPECT_EQ(loads(0, 4, false), 8 + 1) << "the last ones of an unknown number one by one";
  EXPECT_LE(loads(1024, 64, false), 4) << "16 bytes each";
  EXPECT_LE(loads(1024, 4, true), 2);
}

TEST(PtxInstructions, IterationsThatTheTextAsksFor) {
  const auto loads = [](const char* factor) {
    const std::string text = fmt::format(R"(
import triton
import triton.language as tl


@triton.jit
def sum_of(x_ptr, n):
    i, total = tl.arange(0, 2048), tl.zeros([2048], tl.float32)
    for first in tl.range(0, n, 2048, loop_unroll_factor={}):
        total += tl.load(x_ptr + first + i)
    tl.store(x_ptr + i, total)
)",
                                         factor);
    const ArgType pointer{.elem = Elem::F32, .pointer = true, .divisible_by = 16};
    const std::vector<ArgType> types{pointer, ArgType{.elem = Elem::I32}};
    const std::string ptx =
        Program::parse(text, "sum.py").kernel("sum_of").compile(types, {.num_warps = 4}, "sm_90a").ptx;
    return count(ptx.substr(0, ptx.find("_of_many_programs")), "ld\\.global");
  };
  const int rest = loads("1");
  EXPECT_LE(rest, 8) << "four accesses of 16 bytes each";
  EXPECT_EQ(loads("8"), 8 * 4 + 4);
  EXPECT_EQ(loads("16"), 16 * 4 + 4);
}

// Sums of columns over warps: the partial results of a thread's columns lie side by side. Where lanes hold the same
// columns, each reads those of four warps, and they exchange their sums.
TEST(PtxInstructions, PartialSumsLieAlongLanes) {
  const char* text = R"(
import triton
import triton.language as tl


@triton.jit
def columns(x_ptr, out_ptr, COLS: tl.constexpr):
    row, col = tl.arange(0, 64), tl.arange(0, COLS)
    tl.store(out_ptr + col, tl.sum(tl.load(x_ptr + row[:, None] * COLS + col[None, :]).to(tl.float32), axis=0))
)";
  auto compiled = [&](Elem elem, int columns, int num_warps) {
    const ArgType x{.elem = elem, .pointer = true, .divisible_by = 16};
    const ArgType out{.elem = Elem::F32, .pointer = true, .divisible_by = 16};
    return Program::parse(text, "columns.py")
        .kernel("columns")
        .compile(std::vector{x, out}, {.constexprs = {{"COLS", columns}}, .num_warps = num_warps}, "sm_80")
        .ptx;
  };
  auto expect = [](const std::string& ptx, int stores, int loads, int exchanges) {
    EXPECT_EQ(count(ptx, "st\\.shared\\.v4"), stores) << ptx;
    EXPECT_EQ(count(ptx, "st\\.shared\\.b32"), 0) << ptx;
    EXPECT_EQ(count(ptx, "ld\\.shared\\.v4"), loads) << ptx;
    EXPECT_EQ(count(ptx, "shfl\\."), exchanges) << ptx;
  };
  expect(compiled(Elem::F32, 128, 4), 1, 4, 0);
  // Lanes hold 8 columns each and share them by four: two bits of the lane among rows, and the same among warps.
  expect(compiled(Elem::BF16, 64, 16), 2, 2 * 4, 2 * 8 + 2 * 8);
}

TEST(PtxInstructions, RegisterLimit) {
  const Kernel kernel = Program::parse("@triton.jit\ndef nothing(n):\n    return\n", "nothing.py").kernel("nothing");
  const ArgType n{.elem = Elem::I32};
  EXPECT_EQ(kernel.compile(std::span(&n, 1), {}, "sm_80").ptx.find(".maxnreg"), std::string::npos);
  const std::string ptx = kernel.compile(std::span(&n, 1), {.maxnreg = 40}, "sm_80").ptx;
  EXPECT_NE(ptx.find(".maxnreg 40"), std::string::npos) << ptx;
  EXPECT_NE(ptx.find(".reqntid 128"), std::string::npos) << ptx;
}

// What LLVM ends the process for is an exception, and LLVM works on. LLVM leaves its error text allocated, which a leak
// checker reports.
TEST(PtxInstructions, FatalErrorsOfLlvmAreExceptions) {
  const std::string module =
      "target triple = \"nvptx64-nvidia-cuda\"\ndefine ptx_kernel void @k() {\n  call void @llvm.x86.sse2.pause()\n"
      "  ret void\n}\ndeclare void @llvm.x86.sse2.pause()\n";
  for (int i = 0; i < 3; ++i) {
    try {
      ptx_of_module(module, *find_target("sm_90a"));
      FAIL() << "no exception";
    } catch (const InternalError& error) {
      EXPECT_NE(error.problem().find("llvm.x86.sse2.pause"), std::string::npos) << error.what();
    }
    EXPECT_NE(compile({"tutorials/01_vector_add.py", "vector_add", "x_ptr=*f32 y_ptr=*f32 out_ptr=*f32 BLOCK=1024", 4},
                      4, "sm_90a")
                  .ptx.find(".entry"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace tegula
