// heavy: Cost.RanksTheLibrarysProducts
// The cost model: counts that can be said exactly, orders that a tuner relies on, and registers against the assembler.
#include "codegen/analysis/cost.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>

#include "codegen/analysis/cost_bound.h"
#include "codegen/analysis/product_time.h"
#include "codegen/compile.h"
#include "codegen/product/plan.h"
#include "dsl/tegula.h"
#include "tests/assembler.h"

namespace tegula {
namespace {

struct Launch {
  std::string file, kernel;
  std::vector<ArgType> types;
  LaunchOptions options;
};

ArgType pointer(Elem elem) { return {elem, true, 16, {}}; }
ArgType integer(std::optional<int64_t> constant = {}) { return {Elem::I32, false, 16, constant}; }
ArgType real() { return {Elem::F32, false, 1, {}}; }

Kernel kernel_of(const Launch& launch) {
  return Program::load(TEGULA_SOURCE_DIR "/" + launch.file).kernel(launch.kernel);
}

CostEstimate estimate(const Launch& launch, CostInputs inputs, std::string_view target_name = "sm_90a") {
  Target target = *find_target(target_name);
  Diagnostics diags;
  auto func = lay_out(*kernel_of(launch).tile_func(launch.types, launch.options), target, diags);
  EXPECT_TRUE(func) << diags.render();
  return func ? estimate_cost(*func, target, inputs) : CostEstimate();
}

Launch softmax(Elem elem, int block, int warps) {
  return {"tests/kernels/rows.py",
          "softmax",
          {pointer(elem), pointer(elem), integer(), integer(), integer()},
          {.constexprs = {{"BLOCK", block}}, .num_warps = warps}};
}

Launch rms_norm(int warps) {
  return {"tests/kernels/rows.py",
          "rms_norm",
          {pointer(Elem::F16), pointer(Elem::F16), pointer(Elem::F16), integer(), integer(), real()},
          {.constexprs = {{"BLOCK", 4096}}, .num_warps = warps}};
}

Launch layer_norm(int block, int warps) {
  return {"tests/kernels/rows.py",
          "layer_norm",
          {pointer(Elem::F16), pointer(Elem::F16), pointer(Elem::F16), pointer(Elem::F16), pointer(Elem::F32),
           pointer(Elem::F32), integer(), integer(), real()},
          {.constexprs = {{"BLOCK", block}}, .num_warps = warps}};
}

Launch matmul(int m, int n, int k, int warps) {
  return {
      "tests/kernels/matmul.py",
      "matmul",
      {pointer(Elem::F16), pointer(Elem::F16), pointer(Elem::F16), integer(), integer(), integer(), integer(),
       integer(1), integer(), integer(1), integer(), integer(1)},
      {.constexprs = {{"BLOCK_M", m}, {"BLOCK_N", n}, {"BLOCK_K", k}, {"GROUP_M", 8}, {"OUT", Constexpr(Elem::F16)}},
       .num_warps = warps}};
}

// The dot of a product of 128 x 64 x 64 blocks, with B transposed in memory.
ProductCost cost_of_dot(Elem elem, const char* precision, std::string_view target_name, int rows = 128) {
  const Elem sums = is_float(elem) ? Elem::F32 : Elem::I32;
  const Launch launch{"tests/kernels/matmul.py",
                      "matmul",
                      {pointer(elem), pointer(elem), pointer(sums), integer(), integer(), integer(), integer(),
                       integer(1), integer(1), integer(), integer(), integer(1)},
                      {.constexprs = {{"BLOCK_M", rows},
                                      {"BLOCK_N", 64},
                                      {"BLOCK_K", 64},
                                      {"GROUP_M", 8},
                                      {"OUT", Constexpr(sums)},
                                      {"SUMS", Constexpr(sums)},
                                      {"PRECISION", precision}},
                       .num_warps = 4}};
  const Target target = *find_target(target_name);
  Diagnostics diags;
  auto func = lay_out(*kernel_of(launch).tile_func(launch.types, launch.options), target, diags);
  EXPECT_TRUE(func) << diags.render();
  std::optional<ProductCost> cost;
  ir::walk(func->body, [&](const ir::Op& op) {
    if (ir::is_product(op)) cost = family_of(op).cost(op, target);
  });
  return cost.value();
}

DeviceInfo h200() {
  DeviceInfo info;
  info.name = "NVIDIA H200";
  info.num_sms = 132;
  return info;
}

TEST(Cost, CountsBytesAndOperations) {
  CostEstimate e = estimate(softmax(Elem::F32, 1024, 4), {.programs = 100});
  EXPECT_EQ(e.bytes_read, 4096);
  EXPECT_EQ(e.bytes_written, 4096);
  EXPECT_EQ(e.bytes_shared, 0);
  EXPECT_EQ(e.flops, 5 * 1024);  // subtract, exponential, division, two reductions
  EXPECT_EQ(e.special, 1024);    // exponential; the quotients have one divisor, whose reciprocal is taken once
  EXPECT_EQ(e.dot_flops, 0);
  EXPECT_EQ(e.threads, 128);

  // The weights are the same for all programs.
  e = estimate(rms_norm(8), {.programs = 100});
  EXPECT_EQ(e.bytes_read, 2 * 8192);
  EXPECT_EQ(e.bytes_shared, 8192);
  EXPECT_EQ(e.bytes_written, 8192);
}

TEST(Cost, TripsOfLoopsFollowFromArguments) {
  const CostInputs known{.programs = 64, .arguments = {{"M", 512}, {"N", 512}, {"K", 1000}}};
  Launch product = matmul(64, 64, 32, 4);
  product.options.num_stages = 1;  // loads that run ahead have masks in the last iterations, which count as bytes
  CostEstimate e = estimate(product, known);
  const int64_t trips = 32;  // ceil(1000 / 32)
  EXPECT_EQ(e.dot_flops, trips * 2 * 64 * 64 * 32);
  EXPECT_EQ(e.bytes_read, trips * (64 * 32 + 32 * 64) * 2);
  EXPECT_EQ(e.bytes_written, 64 * 64 * 2);
  // Unknown ones have the same extent for all candidates, so that work is the same for each block size.
  EXPECT_EQ(estimate(layer_norm(256, 4), {.programs = 64}).bytes_read,
            estimate(layer_norm(1024, 4), {.programs = 64}).bytes_read);
}

TEST(Cost, OccupancyIsLimitedByWhatIsScarce) {
  CostEstimate e = estimate(softmax(Elem::F32, 256, 32), {.programs = 132 * 4});
  EXPECT_EQ(e.programs_per_sm, 2);  // 64 warps
  EXPECT_DOUBLE_EQ(e.waves, 2);
  EXPECT_EQ(estimate(softmax(Elem::F32, 256, 1), {.programs = 1}).programs_per_sm, 32);
  EXPECT_EQ(estimate(softmax(Elem::F32, 256, 32), {.programs = 1}, "sm_89").programs_per_sm, 1);  // 48 warps
  EXPECT_EQ(estimate(softmax(Elem::F32, 16384, 32), {.programs = 1}).register_limit, 64);
  Launch limited = softmax(Elem::F32, 4096, 4);
  limited.options.maxnreg = 32;
  e = estimate(limited, {.programs = 1});
  EXPECT_EQ(e.register_limit, 32);
  EXPECT_TRUE(e.spills());
  EXPECT_NE(e.text.find("spills:"), std::string::npos) << e.text;
}

TEST(Cost, WhatDoesNotFitSaysSo) {
  Launch transposed = matmul(256, 256, 64, 8);  // its sums go through shared memory
  std::swap(transposed.types[10], transposed.types[11]);
  CostEstimate e = estimate(transposed, {.programs = 256}, "sm_89");
  EXPECT_EQ(e.bound, "does not fit");
  EXPECT_EQ(e.programs_per_sm, 0);
  EXPECT_TRUE(std::isinf(e.predicted_us));
  EXPECT_EQ(e.text, "does not fit: a program needs 131072 bytes of shared memory, 101376 are there");
}

std::vector<int> ranked_warps(Elem elem, int block, int64_t programs) {
  const DeviceInfo device = h200();
  std::vector<std::pair<double, int>> ranked;
  for (int warps : {1, 2, 4, 8, 16, 32})
    ranked.emplace_back(estimate(softmax(elem, block, warps), {.programs = programs, .device = &device}).predicted_us,
                        warps);
  std::sort(ranked.begin(), ranked.end());
  std::vector<int> order;
  for (auto [us, warps] : ranked) order.push_back(warps);
  return order;
}

TEST(Cost, RanksSoftmax) {
  auto place = [](const std::vector<int>& order, int warps) {
    return std::find(order.begin(), order.end(), warps) - order.begin();
  };
  std::vector<int> order = ranked_warps(Elem::F32, 16384, 4096);
  EXPECT_EQ(order.back(), 1);  // spills
  EXPECT_EQ(place(order, 2), 4);
  order = ranked_warps(Elem::F32, 4096, 4096);
  for (int good : {4, 8})
    for (int bad : {1, 32}) EXPECT_LT(place(order, good), place(order, bad)) << good << " " << bad;
  // What was measured best on an H200, among the first three of six.
  const std::pair<int, int> fp32[] = {{256, 1}, {1024, 4}, {2048, 2}, {4096, 2}, {8192, 8}, {16384, 16}, {32768, 32}};
  for (auto [block, warps] : fp32) EXPECT_LT(place(ranked_warps(Elem::F32, block, 4096), warps), 3) << block;
  const std::pair<int, int> bf16[] = {{256, 1}, {1024, 1}, {2048, 4}, {4096, 4}, {8192, 8}, {16384, 16}};
  for (auto [block, warps] : bf16) EXPECT_LT(place(ranked_warps(Elem::BF16, block, 4096), warps), 3) << block;
}

// Where a loop's number decides how often loops within run and which branch is taken, each iteration counts by itself.
TEST(Cost, CountsWhatIterationsDecide) {
  const Kernel kernel = Program::parse(R"(
import triton.language as tl
@triton.jit
def triangle(out_ptr, x_ptr, rows):
    i = tl.arange(0, 128)
    total = tl.zeros([128], tl.float32)
    for row in range(0, rows):
        for k in range(0, row):
            total += tl.load(x_ptr + k * 128 + i)
        if row == rows - 1:
            tl.store(out_ptr + i, total)
)",
                                       "triangle.py")
                            .kernel("triangle");
  Diagnostics diags;
  const Target target = *find_target("sm_90a");
  const std::vector<ArgType> types{pointer(Elem::F32), pointer(Elem::F32), integer()};
  const auto func = lay_out(*kernel.tile_func(types, {}), target, diags);
  ASSERT_TRUE(func) << diags.render();
  const CostEstimate four = estimate_cost(*func, target, {.arguments = {{"rows", 4}}});
  EXPECT_EQ(four.bytes_read, (1 + 2 + 3) * 128 * 4);
  EXPECT_EQ(four.bytes_written, 128 * 4);
  // Of many iterations nobody looks at each.
  const CostEstimate many = estimate_cost(*func, target, {.arguments = {{"rows", 1000}}, .trips = 8});
  EXPECT_EQ(many.bytes_read, 1000 * 8 * 128 * 4);
}

// Of two ways the one counts that a program takes; where programs differ, as many of those that are looked at.
TEST(Cost, CountsTheBranchThatProgramsTake) {
  const Kernel kernel = Program::parse(R"(
import triton
import triton.language as tl


@triton.jit
def two_ways(out_ptr, x_ptr, n):
    pid = tl.program_id(1)
    i = pid * 128 + tl.arange(0, 128)
    if (pid + 1) * 128 <= n:
        tl.store(out_ptr + i, tl.load(x_ptr + i))
    else:
        tl.store(out_ptr + i, 0)
)",
                                       "two_ways.py")
                            .kernel("two_ways");
  Diagnostics diags;
  const Target target = *find_target("sm_90a");
  const std::vector<ArgType> types{pointer(Elem::F32), pointer(Elem::F32), integer()};
  const auto func = lay_out(*kernel.tile_func(types, {}), target, diags);
  ASSERT_TRUE(func) << diags.render();
  const auto read = [&](int64_t n, std::optional<std::array<int64_t, 3>> grid) {
    return estimate_cost(*func, target, {.programs = 64, .grid = grid, .arguments = {{"n", n}}}).bytes_read;
  };
  EXPECT_EQ(read(64 * 128, std::array<int64_t, 3>{1, 64, 1}), 128 * 4);
  EXPECT_EQ(read(16 * 128, std::array<int64_t, 3>{1, 64, 1}), 128 * 4 / 4);
  EXPECT_EQ(read(16 * 128, std::nullopt), 128 * 4);  // the first one's
  EXPECT_EQ(read(1, std::nullopt), 0);
  EXPECT_EQ(estimate_cost(*func, target, {.programs = 64}).bytes_read, 128 * 4);  // nothing is known of n
}

// A division takes more the less is known of its divisors; a remainder beside the quotient hardly any more.
TEST(Cost, DivisionsTakeWhatTheirDivisorsAsk) {
  const Target target = *find_target("sm_90a");
  const auto instructions = [&](const std::string& value) {
    const Kernel kernel = Program::parse(
                              "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
                              "def kernel(out_ptr, n):\n    i = tl.arange(0, 1024)\n"
                              "    tl.store(out_ptr + i, " +
                                  value + ")\n",
                              "kernel.py")
                              .kernel("kernel");
    Diagnostics diags;
    const std::vector<ArgType> types{pointer(Elem::I32), {Elem::I32, false, 1, {}}};
    const auto func = lay_out(*kernel.tile_func(types, {}), target, diags);
    EXPECT_TRUE(func) << diags.render();
    return func ? estimate_cost(*func, target, {.arguments = {{"n", 7}}}).instructions : 0.0;
  };
  const double shift = instructions("i // 8"), constant = instructions("i // 10"), few = instructions("i // n"),
               any = instructions("i // (i + n)");
  EXPECT_LT(shift, constant);
  EXPECT_LT(constant, few);
  EXPECT_LT(few, any);
  EXPECT_LT(instructions("i // n + i % n"), 2 * few - shift);
}

TEST(Cost, RanksProducts) {
  auto us = [](int m, int n, int k, int warps) {
    return estimate(matmul(m, n, k, warps),
                    {.programs = 4096 / m * (4096 / n), .arguments = {{"M", 4096}, {"N", 4096}, {"K", 4096}}})
        .predicted_us;
  };
  EXPECT_LT(us(128, 128, 64, 8), us(64, 64, 32, 4));
  EXPECT_LT(us(64, 64, 32, 4), us(32, 32, 32, 4));
  EXPECT_LT(us(128, 128, 64, 8), us(256, 256, 128, 8));  // spills in each trip
}

// Ahead of layouts: a bound of the time, which is near enough to it to tell slow products from fast ones.
TEST(Cost, IsBoundedAheadOfLayouts) {
  const Target& target = *find_target("sm_90a");
  const auto bound = [&](const Launch& launch, const CostInputs& inputs) {
    Diagnostics diags;
    auto staged = stage_products(*kernel_of(launch).tile_func(launch.types, launch.options), target, diags);
    EXPECT_TRUE(staged) << diags.render();
    return staged ? least_us(*staged, AxisAnalysis(*staged), target, inputs) : 0;
  };
  const std::array<std::array<int64_t, 3>, 5> shapes{
      {{4096, 4096, 4096}, {8192, 8192, 64}, {512, 768, 8192}, {64, 8192, 256}, {8, 8, 8}}};
  for (const auto& [m, n, k] : shapes)
    for (const auto& [rows, columns, step, warps] :
         std::vector<std::array<int, 4>>{{128, 128, 64, 8}, {64, 64, 32, 4}, {16, 32, 128, 4}, {256, 256, 64, 8}})
      for (const int stages : {1, 4}) {
        Launch launch = matmul(rows, columns, step, warps);
        launch.options.num_stages = stages;
        const CostInputs inputs{
            .programs = (m + rows - 1) / rows * ((n + columns - 1) / columns),
            .arguments = {{"M", m}, {"N", n}, {"K", k}, {"stride_am", k}, {"stride_bk", n}, {"stride_cm", n}},
            .array_bytes = {{"a_ptr", 2 * m * k}, {"b_ptr", 2 * k * n}, {"c_ptr", 2 * m * n}}};
        const double us = estimate(launch, inputs).predicted_us, least = bound(launch, inputs);
        EXPECT_LE(least, us) << m << " " << n << " " << k << ", " << rows << " x " << columns << ", " << stages;
        if (rows != 128) continue;
        if (m == 4096) {  // bound by the tensor cores
          EXPECT_GT(least, 0.65 * us) << stages;
        }
        if (m == 8192) {  // and by what is stored
          EXPECT_GT(least, 0.4 * us) << stages;
        }
      }
  EXPECT_EQ(bound(softmax(Elem::F32, 1024, 4), {.programs = 64}), 0);
}

// One row of blocks reads B once: no operand is read again, as the arrays' sizes tell.
TEST(Cost, ArraysComeFromMemoryOnce) {
  CostInputs inputs{.programs = 64, .arguments = {{"M", 64}, {"N", 4096}, {"K", 16384}}};
  const Launch launch = matmul(64, 64, 64, 4);
  const double guessed = estimate(launch, inputs).memory_us;
  inputs.array_bytes = {{"a_ptr", 64 * 16384 * 2}, {"b_ptr", 4096 * 16384 * 2}, {"c_ptr", 64 * 4096 * 2}};
  const double known = estimate(launch, inputs).memory_us;
  const double bytes = 2.0 * (64 * 16384 + 4096 * 16384 + 64 * 4096);
  EXPECT_NEAR(known, bytes / (find_target("sm_90a")->rates.memory_gb_s * 1e3 * 0.82), 1);
  EXPECT_LT(guessed, known / 2);
}

// Rows of 16 bytes times an odd number begin anywhere in a line of the L2 cache: a box of 128 bytes touches two.
TEST(Cost, BoxesOfTwoLinesTakeLonger) {
  const auto memory = [](int64_t depth) {
    CostInputs inputs{
        .programs = 64 * 64,
        .arguments = {{"M", 8192}, {"N", 8192}, {"K", depth}, {"stride_am", depth}, {"stride_bk", 8192}},
        .array_bytes = {{"a_ptr", 2 * 8192 * depth}, {"b_ptr", 2 * 8192 * depth}, {"c_ptr", 2 * 8192 * 8192}}};
    return estimate(matmul(128, 128, 64, 8), inputs).memory_us / double(depth);
  };
  EXPECT_GT(memory(4096 + 8), 1.2 * memory(4096));
  EXPECT_NEAR(memory(4096 + 64), memory(4096), 0.02 * memory(4096));
}

// So do copies by threads, of which eight take 128 bytes at a time, however long the rows are.
TEST(Cost, CopiesOfTwoLinesTakeLonger) {
  const auto memory = [](int64_t depth, int step) {
    CostInputs inputs{
        .programs = 64 * 64,
        .arguments = {{"M", 8192}, {"N", 8192}, {"K", depth}, {"stride_am", depth}, {"stride_bk", 8192}},
        .array_bytes = {{"a_ptr", 2 * 8192 * depth}, {"b_ptr", 2 * 8192 * depth}, {"c_ptr", 2 * 8192 * 8192}}};
    Launch launch = matmul(128, 128, step, 8);
    launch.options.bulk_copies = 1;
    return estimate(launch, inputs).memory_us / double(depth);
  };
  for (int step : {64, 128}) {
    EXPECT_GT(memory(4096 + 16, step), 1.2 * memory(4096, step)) << step;
    EXPECT_NEAR(memory(4096 + 64, step), memory(4096, step), 0.02 * memory(4096, step)) << step;
  }
}

// Of a box that reaches beyond all rows of an array no more comes from memory than the rows that there are.
TEST(Cost, BoxesBeyondAnArrayReadLess) {
  const auto read = [](int64_t rows) {
    return estimate(matmul(64, 64, 64, 4),
                    {.programs = 1, .arguments = {{"M", rows}, {"N", 64}, {"K", 4096}, {"stride_am", 4096}}})
        .bytes_read;
  };
  EXPECT_DOUBLE_EQ(read(64), 2.0 * (64 + 64) * 4096);
  EXPECT_DOUBLE_EQ(read(16), 2.0 * (16 + 64) * 4096);
}

// A program more than multiprocessors takes another wave; the tensor cores of a busy GPU run at a lower clock.
TEST(Cost, ProductsTakeWholeWaves) {
  ProductLaunch launch{
      .longest = {.steps = 64, .tensor_clocks = 64 * 500.0, .copied_bytes = 64 * 32768.0, .ahead = 64 * 3.0},
      .blocks = 132,
      .sms = 132,
      .all_sms = 132,
      .clock = 1.98e9};
  const double one = product_time(launch).all;
  launch.blocks = 133;
  EXPECT_GT(product_time(launch).all, 1.6 * one);
  launch.blocks = 16;
  EXPECT_LT(product_time(launch).all, 0.8 * one);
}

// Of the configurations that gemm.py lists for a shape the one that was measured best on an H200, or one within 2 % of
// it, is among the eight that the model ranks first: a small product, deep K, few rows.
TEST(Cost, RanksTheLibrarysProducts) {
  const Kernel kernel = Program::load(TEGULA_SOURCE_DIR "/kernels/gemm.py").kernel("gemm");
  const Target target = *find_target("sm_90a");
  const DeviceInfo device = h200();
  struct {
    int64_t m, n, k;
    std::vector<std::string> best;  // rows x columns x step, warps, stages, programs, parts, K-steps shared evenly
  } const measured[] = {{1536, 1536, 1536, {"160x128x64 w8 s5 p0 /0"}},
                        {768, 768, 12288, {"160x128x64 w8 s5 p1 /4", "192x128x64 w8 s4 p1 /4"}},
                        {64, 4096, 4096, {"64x32x128 w4 s8 p0 /0"}},
                        {17, 11008, 3000, {"24x128x64 w4 s5 p0 /0"}},
                        {20, 7168, 4600, {"24x128x64 w4 s10 p0 /0 c2"}},
                        {33, 5120, 5000, {"40x128x64 w4 s10 p0 /0 c2"}},
                        {2304, 2304, 8192, {"128x256x64 w8 s3 p1 /0 stream"}},
                        {1536, 3072, 12288, {"128x256x64 w8 s3 p1 /0 stream"}},
                        {3072, 3072, 3072, {"128x192x64 w8 s4 p1 /0"}}};
  for (const auto& shape : measured) {
    LaunchArgs launch;
    launch.set("M", shape.m), launch.set("N", shape.n), launch.set("K", shape.k);
    launch.set("partials_ptr", PointerArg{Elem::F32, 256});
    launch.set("stride_am", shape.k), launch.set("stride_ak", int64_t(1));
    launch.set("stride_bk", shape.n), launch.set("stride_bn", int64_t(1));
    std::vector<std::pair<double, std::string>> ranked;
    for (const Config& c : kernel.autotuning()->prune(kernel.autotuning()->configs, launch)) {
      if (c["TURNS"]) continue;  // were not timed beside these
      LaunchOptions options{.constexprs = c.constexprs,
                            .num_warps = *c.num_warps,
                            .num_stages = *c.num_stages,
                            .num_ctas = c.num_ctas.value_or(1)};
      for (auto [even, extent, block] :
           {std::tuple("EVEN_M", shape.m, "BLOCK_M"), {"EVEN_N", shape.n, "BLOCK_N"}, {"EVEN_K", shape.k, "BLOCK_K"}})
        options.constexprs.emplace_back(even, extent % c[block] == 0);
      options.constexprs.emplace_back("EPILOGUE", "none");
      std::vector<ArgType> types(16, integer());
      for (size_t i : {0, 1, 2}) types[i] = pointer(Elem::F16);
      types[3] = {Elem::F16, true, 16, 0};
      for (size_t i : {8, 10, 12}) types[i] = integer(1);
      types[14] = pointer(Elem::F32), types[15] = pointer(Elem::I32);
      Diagnostics diags;
      const auto func = lay_out(*kernel.tile_func(types, options), target, diags);
      ASSERT_TRUE(func) << diags.render();
      const int64_t tiles = (shape.m + c["BLOCK_M"] - 1) / c["BLOCK_M"] * ((shape.n + c["BLOCK_N"] - 1) / c["BLOCK_N"]);
      const int64_t at_once = c["PROGRAMS"] * 132 / options.num_ctas;
      const int64_t programs = c["PARTS"] > 0 ? at_once / tiles * tiles : at_once ? std::min(tiles, at_once) : tiles;
      const CostEstimate e = estimate_cost(*func, target,
                                           {.programs = programs,
                                            .grid = std::array<int64_t, 3>{programs, 1, 1},
                                            .device = &device,
                                            .arguments = {{"M", shape.m}, {"N", shape.n}, {"K", shape.k}},
                                            .array_bytes = {{"a_ptr", 2 * shape.m * shape.k},
                                                            {"b_ptr", 2 * shape.k * shape.n},
                                                            {"c_ptr", 2 * shape.m * shape.n},
                                                            {"partials_ptr", 132 * 128 * 256 * 4}}});
      ranked.emplace_back(
          e.predicted_us,
          fmt::format("{}x{}x{} w{} s{} p{} /{}{}{}", c["BLOCK_M"], c["BLOCK_N"], c["BLOCK_K"], *c.num_warps,
                      *c.num_stages, c["PROGRAMS"], c["PARTS"], c["STREAM"] ? " stream" : "",
                      options.num_ctas > 1 ? fmt::format(" c{}{}", options.num_ctas, c["SHARES"] > 1 ? " shared" : "")
                                           : std::string()));
    }
    std::sort(ranked.begin(), ranked.end());
    const auto place = std::find_if(ranked.begin(), ranked.end(), [&](const auto& r) {
      return std::find(shape.best.begin(), shape.best.end(), r.second) != shape.best.end();
    });
    EXPECT_LT(place - ranked.begin(), 8) << shape.m << " x " << shape.n << " x " << shape.k << " of " << ranked.size();
  }
}

// Tensor cores take fp16's time for 16 deep instructions of all types; mma.sync more of it where there is wgmma.
TEST(Cost, DotsAtTheRateOfTheirInstruction) {
  const double flops = 2.0 * 128 * 64 * 64;
  for (const char* target : {"sm_80", "sm_89", "sm_90a"}) {
    SCOPED_TRACE(target);
    const bool float8 = std::string(target) != "sm_80";
    auto work = [&](Elem elem, const char* precision = "ieee") {
      const ProductCost cost = cost_of_dot(elem, precision, target);
      EXPECT_EQ(cost.flops, flops);
      return cost.tensor_flops / flops;
    };
    EXPECT_EQ(work(Elem::F16), 1);
    EXPECT_EQ(work(Elem::BF16), 1);
    EXPECT_EQ(work(Elem::I8), 0.5);
    EXPECT_EQ(work(Elem::F8E4M3), float8 ? 0.5 : 1);  // sm_80 widens them
    EXPECT_EQ(work(Elem::F32, "tf32"), 2);
    EXPECT_NEAR(work(Elem::F32, "tf32x3"), std::string(target) == "sm_90a" ? 6 / 0.5 : 6, 1e-9);
  }
  // Rows of zeros are multiplied too.
  EXPECT_EQ(cost_of_dot(Elem::F16, "ieee", "sm_80", 8).tensor_flops, 2.0 * 16 * 64 * 64);
  const ProductCost ieee = cost_of_dot(Elem::F32, "ieee", "sm_90a");
  EXPECT_EQ(ieee.tensor_flops, 0);
  EXPECT_EQ(ieee.fmas, 128 * 64 / 128 * 64);
}

TEST(Cost, ProductsOfExactFloatsTakeLonger) {
  auto us = [](const char* precision) {
    Launch launch = matmul(128, 128, 32, 8);
    for (int i : {0, 1, 2}) launch.types[i] = pointer(Elem::F32);
    launch.options.constexprs.back().value = Constexpr(Elem::F32);
    launch.options.constexprs.push_back({"PRECISION", precision});
    return estimate(launch, {.programs = 1024, .arguments = {{"M", 4096}, {"N", 4096}, {"K", 4096}}}).predicted_us;
  };
  EXPECT_LT(us("tf32"), us("tf32x3"));
  EXPECT_LT(us("tf32x3"), us("ieee"));
}

TEST(Cost, PredictsTheTimeOfSoftmax) {
  // Measured on an H200: the best of one warp to 32, in us.
  const DeviceInfo device = h200();
  struct {
    Elem elem;
    int cols, warps;
    double us;
  } const measured[] = {{Elem::F32, 1024, 4, 12.5},    {Elem::F32, 4096, 2, 37.2},  {Elem::F32, 16384, 16, 133.5},
                        {Elem::F32, 32768, 32, 263.3}, {Elem::BF16, 4096, 4, 21.3}, {Elem::BF16, 16384, 16, 74.4}};
  for (const auto& m : measured) {
    CostEstimate e = estimate(softmax(m.elem, m.cols, m.warps), {.programs = 4096, .device = &device});
    EXPECT_NEAR(e.predicted_us / m.us, 1, 0.15) << m.cols << ": " << e.predicted_us << " us, " << e.text;
  }
}

TEST(Cost, DeviceRates) {
  EXPECT_EQ(memory_rate("NVIDIA H200"), 4800);
  EXPECT_EQ(memory_rate("NVIDIA H100 80GB HBM3"), 3350);
  EXPECT_EQ(memory_rate("NVIDIA H100 PCIe"), 2039);
  EXPECT_EQ(memory_rate("NVIDIA A100-SXM4-40GB"), 1555);
  EXPECT_EQ(memory_rate("NVIDIA L4"), 300);
  EXPECT_EQ(memory_rate("a GPU of tomorrow"), std::nullopt);
}

TEST(Cost, RegistersAreThoseOfTheAssembler) {
  SKIP_WITHOUT_PTXAS();
  const Launch launches[] = {softmax(Elem::F32, 1024, 1),
                             softmax(Elem::F32, 4096, 4),
                             softmax(Elem::BF16, 8192, 4),
                             softmax(Elem::F32, 4096, 32),
                             rms_norm(2),
                             rms_norm(8),
                             layer_norm(1024, 4),
                             layer_norm(4096, 8),
                             matmul(64, 64, 32, 4)};
  for (const Launch& launch : launches) {
    const PtxasRun run = assemble(kernel_of(launch).compile(launch.types, launch.options, "sm_90a").ptx, "sm_90a");
    if (knows_not_the_target(run)) GTEST_SKIP() << "this ptxas does not know sm_90a";
    std::smatch match;
    ASSERT_TRUE(std::regex_search(run.log, match, std::regex("Used (\\d+) registers"))) << run.log;
    double used = std::stod(match[1]);
    CostEstimate e = estimate(launch, {.programs = 1});
    // Behind dots what is computed is ordered by use, which takes fewer than all elements of a tile at once.
    EXPECT_LT(e.registers, (launch.kernel == "matmul" ? 3 : 2) * used)
        << launch.kernel << " with " << launch.options.num_warps << " warps";
    EXPECT_GT(e.registers, used / 2) << launch.kernel << " with " << launch.options.num_warps << " warps";
  }
}

// What follows a product is computed element by element on its way to memory.
TEST(Cost, EpiloguesHoldNoTilesOfTheirOwn) {
  const auto registers = [](const char* epilogue, bool turns) {
    Launch launch{"kernels/gemm.py", "gemm", std::vector<ArgType>(16, integer()), {}};
    for (size_t i : {0, 1, 2}) launch.types[i] = pointer(Elem::F16);
    for (size_t i : {3, 14, 15}) launch.types[i] = {Elem::F32, true, 16, 0};
    for (size_t i : {8, 10, 12}) launch.types[i] = integer(1);
    launch.options = {.constexprs = {{"EPILOGUE", epilogue},
                                     {"BLOCK_M", 128},
                                     {"BLOCK_N", turns ? 128 : 256},
                                     {"BLOCK_K", 64},
                                     {"GROUP_M", 8},
                                     {"PROGRAMS", 1},
                                     {"PARTS", 0},
                                     {"SWAP", false},
                                     {"EVEN_M", true},
                                     {"EVEN_N", true},
                                     {"EVEN_K", true},
                                     {"TURNS", turns}},
                      .num_warps = turns ? 4 : 8,
                      .num_stages = 3};
    return estimate(launch, {.programs = 132}).registers;
  };
  for (const bool turns : {false, true}) {
    const int64_t none = registers("none", turns);
    for (const char* epilogue : {"gelu_tanh_fast", "gelu_tanh", "silu"})
      EXPECT_LE(registers(epilogue, turns), none + 16) << epilogue << (turns ? ", tiles in turns" : "");
  }
}

}  // namespace
}  // namespace tegula
