// label: golden
// The layouts that the library's kernels and the benchmarks' attention get, so that each change of the choice is seen:
// tests/golden/layouts.txt. TEGULA_BLESS=1 writes what came out into the file.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "codegen/analysis/conversion.h"
#include "codegen/passes/passes.h"
#include "dsl/tegula.h"
#include "tests/codegen/lower/ptx_support.h"

namespace tegula {
namespace {

using ir::Opcode;
using kernel_texts::Case;

constexpr char kFile[] = TEGULA_SOURCE_DIR "/tests/golden/layouts.txt";

constexpr Case kCases[] = {
    {"kernels/gemm.py", "gemm",
     "c_ptr=*f16 a_ptr=*f16 b_ptr=*f16 bias_ptr=*f16=0 partials_ptr=*f32=0 counters_ptr=*i32=0 stride_ak=i32=1 "
     "stride_bn=i32=1 stride_cn=i32=1 EPILOGUE=none BLOCK_M=128 BLOCK_N=256 BLOCK_K=64 GROUP_M=8 PROGRAMS=1 PARTS=0 "
     "SWAP=0 EVEN_M=1 EVEN_N=1 EVEN_K=1",
     8},
    {"kernels/gemm.py", "gemm",
     "c_ptr=*f16 a_ptr=*f16 b_ptr=*f16 bias_ptr=*f16 partials_ptr=*f32=0 counters_ptr=*i32=0 stride_ak=i32=1 "
     "stride_bk=i32=1 stride_cn=i32=1 EPILOGUE=gelu_tanh BLOCK_M=128 BLOCK_N=128 BLOCK_K=64 GROUP_M=8 PROGRAMS=0 "
     "PARTS=0 SWAP=0 EVEN_M=0 EVEN_N=0 EVEN_K=0",
     4},
    {"kernels/gemm.py", "gemm",
     "c_ptr=*f16 a_ptr=*f16 b_ptr=*f16 bias_ptr=*f16=0 partials_ptr=*f32 counters_ptr=*i32 stride_ak=i32=1 "
     "stride_bn=i32=1 stride_cn=i32=1 EPILOGUE=none BLOCK_M=48 BLOCK_N=128 BLOCK_K=64 GROUP_M=8 PROGRAMS=1 PARTS=4 "
     "SWAP=1 EVEN_M=1 EVEN_N=1 EVEN_K=1",
     4},
    {"kernels/gemm.py", "gemm",
     "c_ptr=*bf16 a_ptr=*bf16 b_ptr=*bf16 bias_ptr=*bf16=0 partials_ptr=*f32=0 counters_ptr=*i32=0 stride_ak=i32=1 "
     "stride_bn=i32=1 stride_cn=i32=1 EPILOGUE=none BLOCK_M=16 BLOCK_N=32 BLOCK_K=128 GROUP_M=8 PROGRAMS=0 PARTS=0 "
     "SWAP=0 EVEN_M=1 EVEN_N=1 EVEN_K=1",
     4},
    {"kernels/quantised_gemm.py", "quantised_gemm",
     "out_ptr=*f16 a_ptr=*f16 b_ptr=*u8 scales_ptr=*f16 zeros_ptr=*u8 bias_ptr=*f16=0 partials_ptr=*f32 "
     "counters_ptr=*i32 "
     "EPILOGUE=none PACKED=uint4 GROUP=128 BLOCK_M=16 BLOCK_N=64 STEP=128 PROGRAMS=4 STAGES=3 SHARES=0 BLOCK_K=128 "
     "EVEN_K=1 EVEN_BLOCKS=1 SCALED=0 TOGETHER=0 BYTES=0",
     4},
    {"kernels/quantised_gemm.py", "quantised_gemm",
     "out_ptr=*f16 a_ptr=*f16 b_ptr=*u8 scales_ptr=*f16 zeros_ptr=*u8=0 bias_ptr=*f16=0 partials_ptr=*f32 "
     "counters_ptr=*i32 "
     "EPILOGUE=none PACKED=int4 GROUP=128 BLOCK_M=8 BLOCK_N=32 STEP=1024 PROGRAMS=8 STAGES=2 SHARES=8 BLOCK_K=128 "
     "EVEN_K=1 EVEN_BLOCKS=1 SCALED=0 TOGETHER=0 BYTES=0",
     8},
    {"kernels/quantised_gemm.py", "quantised_gemm",
     "out_ptr=*f16 a_ptr=*f16 b_ptr=*u8 scales_ptr=*f16 zeros_ptr=*u8=0 bias_ptr=*f16=0 partials_ptr=*f32 "
     "counters_ptr=*i32 "
     "EPILOGUE=none PACKED=int4 GROUP=32 BLOCK_M=8 BLOCK_N=32 STEP=1024 PROGRAMS=8 STAGES=2 SHARES=8 BLOCK_K=128 "
     "EVEN_K=1 EVEN_BLOCKS=1 SCALED=1 TOGETHER=1 BYTES=0",
     8},
    {"kernels/softmax.py", "softmax",
     "out_ptr=*f32 x_ptr=*f32 mask_ptr=*i8=0 bias_ptr=*f32=0 scale=f32 BLOCK=4096 WIDTH=4 ROWS=1 STAGES=0 PIECE=0 "
     "EVICTION= "
     "KIND=softmax CAUSAL=0",
     4},
    {"kernels/softmax.py", "softmax",
     "out_ptr=*bf16 x_ptr=*bf16 mask_ptr=*i8=0 bias_ptr=*bf16=0 scale=f32 BLOCK=256 WIDTH=8 ROWS=16 STAGES=0 PIECE=0 "
     "EVICTION= "
     "KIND=softmax CAUSAL=0",
     4},
    {"kernels/softmax.py", "softmax",
     "out_ptr=*f16 x_ptr=*f16 mask_ptr=*i8=0 bias_ptr=*f16=0 scale=f32 BLOCK=32768 WIDTH=8 ROWS=1 STAGES=3 PIECE=4096 "
     "EVICTION= "
     "KIND=softmax CAUSAL=0",
     8},
    {"kernels/norm.py", "norm",
     "out_ptr=*f16 sum_ptr=*f16=0 scale_ptr=*f32=0 scales_ptr=*f32=0 x_ptr=*f16 residual_ptr=*f16=0 weight_ptr=*f16 "
     "bias_ptr=*f16=0 eps=f32 BLOCK=4096 "
     "ROWS=1 STAGES=0 PIECE=0 EVICTION= CENTER=0 ACTIVATION=none EVEN=1",
     8},
    {"kernels/norm.py", "norm",
     "out_ptr=*f16 sum_ptr=*f16 scale_ptr=*f32=0 scales_ptr=*f32=0 x_ptr=*f16 residual_ptr=*f16 weight_ptr=*f16 "
     "bias_ptr=*f16 eps=f32 BLOCK=1536 "
     "ROWS=2 STAGES=0 PIECE=0 EVICTION= CENTER=1 ACTIVATION=silu EVEN=1",
     4},
    {"kernels/elementwise.py", "affine",
     "out_ptr=*f16 x_ptr=*f16 bias_ptr=*f16 scale_ptr=*f16 offset_ptr=*f16=0 ACTIVATION=silu ROWS=4 COLS=1024 "
     "EVICTION= EVEN=1 RUNS=0 WRAP=0",
     4},
    {"kernels/elementwise.py", "glu",
     "out_ptr=*bf16 gate_ptr=*bf16 up_ptr=*bf16 ACTIVATION=silu ROWS=1 COLS=2048 EVICTION= EVEN=1 RUNS=1", 4},
    {"bench/attention_kernels.py", "forward",
     "out=*f16 lse=*f32 Q=*f16 K=*f16 V=*f16 scale=f32 D=128 CAUSAL=1 BLOCK_M=128 BLOCK_N=64", 8},
    {"bench/attention_kernels.py", "backward_dkdv",
     "DK=*f16 DV=*f16 Q=*f16 K=*f16 V=*f16 DO=*f16 lse=*f32 delta=*f32 scale=f32 D=64 CAUSAL=0 BLOCK_M=64 BLOCK_N=128",
     8},
};

// A function's layouts, and the ops whose cost they decide.
class Report {
 public:
  std::string of(const ir::Func& func) {
    walk(func.body, 1);
    return layouts_ + ops_;
  }

 private:
  std::string name(const ir::Value* v) {
    if (!v->type.layout) return v->type.to_string();
    const std::string text = v->type.layout->to_string();
    auto [at, added] = names_.try_emplace(text, int(names_.size()));
    if (added) layouts_ += fmt::format("  #{} = {}\n", at->second, text);
    return fmt::format("{} #{}", v->type.to_string(), at->second);
  }

  void walk(const ir::Block& block, int depth) {
    for (const auto& op : block.ops) {
      const std::string line = line_of(*op);
      if (!line.empty()) ops_ += fmt::format("{:{}}{}\n", "", 2 * depth, line);
      if (!op->info().isolates())
        for (const auto& region : op->regions) walk(*region, depth + 1);
    }
  }

  // Layouts get their numbers from the last operand to the first; of a conversion, from its result on.
  std::string line_of(const ir::Op& op) {
    const char* text = op.info().text;
    auto named = [&](int i) { return name(op.operand(i)); };
    switch (op.opcode) {
      case Opcode::Load:
      case Opcode::Store:
      case Opcode::AtomicRmw:
      case Opcode::AsyncCopy: {
        if (op.operand(0)->type.is_scalar()) return {};
        const std::string to = op.opcode == Opcode::AsyncCopy ? " to " + named(1) : "";
        return fmt::format("{} by {}: {}{}", text, op.get(ir::attr::vector), named(0), to);
      }
      case Opcode::ConvertLayout: {
        constexpr const char* kRoutes[] = {"registers", "shuffles", "exchanges", "shared memory"};
        const auto route = plan_conversion(*op.operand(0)->type.layout, *op.result()->type.layout).route;
        const std::string to = name(op.result());
        return fmt::format("convert by {}: {} to {}", kRoutes[int(route)], named(0), to);
      }
      case Opcode::Dot:
      case Opcode::MmaStart: {
        const std::string b = named(1), a = named(0);
        return fmt::format("{} {}: {} = {} x {}", text, op.get(ir::attr::instruction), name(op.result()), a, b);
      }
      case Opcode::SharedStore: {
        const std::string to = named(1);
        return fmt::format("{}: {} to {}", text, named(0), to);
      }
      case Opcode::Reduce:
      case Opcode::Scan:
        return fmt::format("{} along {}: {}", text, op.get(ir::attr::axis), name(op.operand(0)));
      case Opcode::For:
      case Opcode::While:
      case Opcode::If:
        return text;
      default:
        return {};
    }
  }

  std::map<std::string, int> names_;
  std::string layouts_, ops_;
};

std::string layouts_of(const Case& c, const char* target) {
  const kernel_texts::Specialisation x = kernel_texts::specialisation(c, c.num_warps);
  auto func = x.kernel.tile_func(x.types, x.options);
  Diagnostics diags;
  PassContext context{*find_target(target), diags};
  for (const PassInfo& pass : pass_table()) {
    pass.run(*func, context);
    if (std::string(pass.name) == "simplify_layouts") break;
  }
  EXPECT_FALSE(diags.has_errors()) << diags.render();
  return Report().of(*func);
}

TEST(Layouts, OfTheLibrarysKernels) {
  std::string text;
  for (const Case& c : kCases)
    for (const char* target : {"sm_90a", "sm_80"})
      text += fmt::format("{}::{}, {} warps, {}\n  ({})\n{}\n", c.file, c.kernel, c.num_warps, target, c.arguments,
                          layouts_of(c, target));
  if (std::getenv("TEGULA_BLESS")) {
    std::ofstream(kFile, std::ios::binary) << text;
    return;
  }
  std::stringstream expected;
  expected << std::ifstream(kFile, std::ios::binary).rdbuf();
  EXPECT_EQ(text, expected.str()) << "TEGULA_BLESS=1 accepts the new text";
}

}  // namespace
}  // namespace tegula
