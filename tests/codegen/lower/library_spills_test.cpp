// label: unit
// heavy: LibrarySpills.ConfigurationsDoNotSpill
// What the kernel library may choose from: all of it assembles; the choice without timing does not spill, and next to
// nothing does (tuning drops what does).
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dsl/tegula.h"
#include "kernels/kernels.h"
#include "tests/assembler.h"
#include "tests/codegen/lower/ptx_support.h"
#include "tests/in_parallel.h"
#include "tests/random_count.h"

namespace tegula {
namespace {

struct Case {
  const char* file;
  const char* kernel;
  std::vector<ConstexprArg> flags;
  std::set<std::string> none;  ///< arguments left out
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"softmax.py", "softmax", {{"KIND", "softmax"}}, {"bias_ptr", "mask_ptr"}},
      {"softmax.py", "softmax", {{"KIND", "log_softmax"}}, {"mask_ptr"}},
      {"softmax.py", "softmax", {{"KIND", "exp_normalize"}}, {"bias_ptr", "mask_ptr"}},
      {"norm.py",
       "norm",
       {{"CENTER", Constexpr(false)}, {"ACTIVATION", "none"}, {"EVEN", Constexpr(true)}},
       {"residual_ptr", "sum_ptr", "bias_ptr", "scale_ptr", "scales_ptr"}},
      {"norm.py",
       "norm",
       {{"CENTER", Constexpr(false)}, {"ACTIVATION", "silu"}, {"EVEN", Constexpr(true)}},
       {"bias_ptr", "scale_ptr", "scales_ptr"}},
      {"norm.py",
       "norm",
       {{"CENTER", Constexpr(true)}, {"ACTIVATION", "none"}, {"EVEN", Constexpr(true)}},
       {"scale_ptr", "scales_ptr"}},
      {"elementwise.py",
       "affine",
       {{"ACTIVATION", "silu"}, {"EVEN", Constexpr(true)}, {"RUNS", Constexpr(false)}, {"WRAP", Constexpr(0)}},
       {}},
      {"elementwise.py", "glu", {{"ACTIVATION", "silu"}, {"EVEN", Constexpr(true)}, {"RUNS", Constexpr(true)}}, {}},
  };
  return all;
}

struct Compilation {
  std::string label;
  Kernel kernel;
  std::vector<ArgType> types;
  LaunchOptions options;
  bool first;  ///< the choice where nothing is timed
};

// A launch's arguments as far as configurations depend on them.
LaunchArgs arguments_of(int cols, Elem elem) {
  LaunchArgs args;
  args.set("cols", LaunchArgs::Value(int64_t(cols)));
  args.set("rows_class", LaunchArgs::Value(int64_t(2)));
  for (const char* stride : {"x_stride", "out_stride"}) args.set(stride, LaunchArgs::Value(int64_t(cols)));
  for (const char* pointer : {"x_ptr", "out_ptr", "bias_ptr"})
    args.set(pointer, LaunchArgs::Value(PointerArg{elem, 256}));
  return args;
}

Compilation compilation(const Case& c, const Kernel& kernel, const Config& config, int cols, Elem elem, bool first) {
  std::vector<ArgType> types;
  LaunchOptions options{.constexprs = config.constexprs,
                        .num_warps = config.num_warps.value_or(4),
                        .num_ctas = config.num_ctas.value_or(1)};
  options.constexprs.insert(options.constexprs.end(), c.flags.begin(), c.flags.end());
  for (const KernelParam& p : kernel.params()) {
    if (p.name == "BLOCK") options.constexprs.emplace_back("BLOCK", cols);
    if (p.name == "WIDTH") options.constexprs.emplace_back("WIDTH", 16 / elem_bytes(elem));
    if (p.is_constexpr) continue;
    ArgType& type = types.emplace_back(ArgType{.elem = Elem::I32, .divisible_by = 16});
    if (p.name == "scale" || p.name == "eps") type = {.elem = Elem::F32};
    if (p.name.ends_with("_ptr")) type = {.elem = elem, .pointer = true, .divisible_by = 16};
    if (c.none.contains(p.name)) type.constant = 0;
  }
  std::string label =
      fmt::format("{}::{} of {} columns of {}, {}", c.file, c.kernel, cols, elem_info(elem).tl, config.to_string());
  return {std::move(label), kernel, std::move(types), std::move(options), first};
}

std::vector<Compilation> compilations() {
  std::vector<Compilation> list;
  for (const Case& c : cases()) {
    const Kernel kernel = kernels::library_program(c.file).kernel(c.kernel);
    const Autotune& tuning = *kernel.autotuning();
    for (auto [cols, elem] : {std::pair{4096, Elem::F32}, {16384, Elem::BF16}}) {
      // Each fourth from the first one on; at night all.
      const std::vector<Config> configs = tuning.prune(tuning.configs, arguments_of(cols, elem));
      for (size_t i = 0; i < configs.size(); i += std::max(1u, 4 / random_count(1)))
        list.push_back(compilation(c, kernel, configs[i], cols, elem, i == 0));
    }
  }
  return list;
}

TEST(LibrarySpills, ConfigurationsDoNotSpill) {
  SKIP_WITHOUT_PTXAS();
  const std::vector<Compilation> list = compilations();
  std::mutex mutex;
  std::vector<std::string> problems;
  std::vector<std::string> spilled;
  in_parallel(list.size(), [&](size_t i) {
    std::string problem;
    bool spilled_here = false;
    try {
      const PtxasRun run = assemble(list[i].kernel.compile(list[i].types, list[i].options, "sm_90a").ptx, "sm_90a");
      spilled_here = spills(run);
      if (run.status || (spilled_here && list[i].first)) problem = run.log;
    } catch (const Error& error) {
      problem = error.what();
    }
    std::lock_guard lock(mutex);
    if (!problem.empty()) problems.push_back(list[i].label + ": " + problem);
    if (spilled_here) spilled.push_back(list[i].label);
  });
  EXPECT_TRUE(problems.empty()) << fmt::format("{} of {}:\n{}", problems.size(), list.size(),
                                               fmt::join(problems, "\n"));
  EXPECT_LE(spilled.size(), list.size() / 50) << fmt::format("of {}:\n{}", list.size(), fmt::join(spilled, "\n"));
}

// Tiles of odd widths, of matrices whose rows are odd multiples of 16 bytes: the threads that start bulk copies have
// registers for all that their places follow from.
TEST(LibrarySpills, ThreadsThatStartCopiesDoNot) {
  SKIP_WITHOUT_PTXAS();
  struct Tile {
    int m, n, stages, blocks, programs;
    const char* matrix;
  };
  constexpr const char* kOddDepth = "N=i32 K=i32:8 stride_am=i32:8 M=i32:8 EVEN_M=0 EVEN_N=1 EVEN_K=0";
  constexpr const char* kEven = "N=i32 K=i32 stride_am=i32 M=i32 EVEN_M=1 EVEN_N=0 EVEN_K=1";
  for (const Tile& t : {Tile{128, 176, 4, 1, 1, kOddDepth},
                        {256, 176, 5, 2, 1, kOddDepth},
                        {256, 288, 4, 2, 1, kEven},
                        {128, 288, 4, 1, 1, kEven},
                        {128, 144, 6, 1, 0, kEven}}) {
    const std::string arguments = fmt::format(
        "c_ptr=*f16 a_ptr=*f16 b_ptr=*f16 bias_ptr=*f16=0 partials_ptr=*f32=0 counters_ptr=*i32=0 stride_ak=i32=1 "
        "stride_bn=i32=1 stride_cn=i32=1 EPILOGUE=none BLOCK_M={} BLOCK_N={} BLOCK_K=64 GROUP_M=8 PROGRAMS={} PARTS=0 "
        "SWAP=0 {}",
        t.m, t.n, t.programs, t.matrix);
    kernel_texts::Specialisation gemm =
        kernel_texts::specialisation({"kernels/gemm.py", "gemm", arguments.c_str(), 8}, 8);
    gemm.options.num_stages = t.stages;
    gemm.options.num_ctas = t.blocks;
    const PtxasRun run = assemble(gemm.kernel.compile(gemm.types, gemm.options, "sm_90a").ptx, "sm_90a");
    EXPECT_EQ(run.status, 0) << run.log;
    EXPECT_FALSE(spills(run)) << t.m << " x " << t.n << ": " << run.log;
  }
}

}  // namespace
}  // namespace tegula
