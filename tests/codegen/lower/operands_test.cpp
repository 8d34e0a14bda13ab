// label: device
// Products whose operands are computed, or loaded other than by asynchronous copies: attention with an online softmax,
// scaled operands, rows that are not aligned.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "codegen/compile.h"
#include "codegen/passes/passes.h"
#include "codegen/target/target.h"
#include "dsl/tegula.h"
#include "runtime/base/float16.h"
#include "tests/codegen/lower/dot_support.h"
#include "tests/devices.h"

namespace tegula {
namespace {

// The GPU if there is one; else emulators, on which each copy and product happens as late as the waits allow.
const Devices& devices() {
  static const Devices all =
      gpu_or_emulators({{.target = "sm_80"}, {.target = "sm_90a"}, {.target = "sm_90a", .seed = 1}});
  return all;
}

Program& program() {
  static Program p = Program::load(TEGULA_SOURCE_DIR "/tests/kernels/operands.py");
  return p;
}

template <class T>
constexpr double tolerance() {
  return std::is_same_v<T, bfloat16> ? 2.5e-3 : 4e-4;
}

struct Attention {
  int queries, keys, depth;
  int block_rows, block_keys;
  int num_warps, num_stages;
  bool causal = false;
  int stride = 0;  // of a row in elements; 0: depth
  int warp_specialize = 0;
  int bulk_copies = 0;
};

template <class T>
void check_attention(Device& device, const Attention& p) {
  const int stride = p.stride ? p.stride : p.depth;
  SCOPED_TRACE(fmt::format("{}: {} queries, {} keys, depth {} (stride {}), blocks {} x {}, {} warps, {} stages{}{}{}",
                           device.info().name, p.queries, p.keys, p.depth, stride, p.block_rows, p.block_keys,
                           p.num_warps, p.num_stages, p.causal ? ", causal" : "",
                           p.warp_specialize == 2 ? ", warps that copy" : "", p.bulk_copies == 2 ? ", in bulk" : ""));
  auto q = random_values<T>(size_t(p.queries) * stride, 3);
  auto k = random_values<T>(size_t(p.keys) * stride, 4), v = random_values<T>(size_t(p.keys) * stride, 5);
  const float scale = 1 / std::sqrt(float(p.depth));
  std::vector<double> exact(size_t(p.queries) * p.depth);
  for (int i = 0; i < p.queries; ++i) {
    const int end = p.causal ? std::min(i + 1, p.keys) : p.keys;
    std::vector<double> weights(end);
    double total = 0;
    for (int j = 0; j < end; ++j) {
      double score = 0;
      for (int d = 0; d < p.depth; ++d) score += double(q[size_t(i) * stride + d]) * k[size_t(j) * stride + d];
      total += weights[j] = std::exp(score * scale);
    }
    for (int j = 0; j < end; ++j)
      for (int d = 0; d < p.depth; ++d)
        exact[size_t(i) * p.depth + d] += weights[j] / total * v[size_t(j) * stride + d];
  }
  Buffer dq(device, q), dk(device, k), dv(device, v), out(device, exact.size() * sizeof(float));
  device.fill(out.address(), 0xff, out.bytes());
  program()
      .kernel("flash_attention")
      .launch(device, {unsigned((p.queries + p.block_rows - 1) / p.block_rows)},
              {.constexprs = {{"ROWS", p.block_rows}, {"KEYS", p.block_keys}, {"DEPTH", p.depth}, {"CAUSAL", p.causal}},
               .num_warps = p.num_warps,
               .num_stages = p.num_stages,
               .warp_specialize = p.warp_specialize,
               .bulk_copies = p.bulk_copies},
              dq.as<T>(), dk.as<T>(), dv.as<T>(), out.as<float>(), scale, p.queries, p.keys, stride);
  // The weights are rounded to T before the second product.
  EXPECT_LE(relative_error(out.download<float>(), exact), tolerance<T>());
}

TEST(Operands, FlashAttention) {
  for (auto& device : devices())
    for (int num_stages : {1, 2, 3}) {
      check_attention<float16>(*device, {64, 128, 64, 64, 64, 4, num_stages});
      check_attention<float16>(*device, {128, 100, 32, 64, 32, 4, num_stages, true});
      check_attention<bfloat16>(*device, {128, 192, 64, 128, 64, 8, num_stages});
      check_attention<float16>(*device, {100, 70, 16, 64, 32, 8, num_stages});  // a warpgroup has half of the keys
      check_attention<float16>(*device, {64, 96, 32, 64, 32, 4, num_stages, true, 33});  // rows are not aligned
    }
}

// How many warps of a kernel copy, if that is asked for, on a GPU that has warpgroups.
int copy_warps(std::string_view kernel, std::span<const ArgType> types, const std::vector<ConstexprArg>& constexprs,
               int num_warps, std::string_view target = "sm_90a", int maxnreg = 0) {
  return program()
      .kernel(kernel)
      .compile(types, {.constexprs = constexprs, .num_warps = num_warps, .maxnreg = maxnreg, .warp_specialize = 2},
               target)
      .copy_warps;
}

TEST(Operands, WarpsThatCopy) {
  for (auto& device : devices()) {
    if (!target_for_sm(device->info().sm).has(Feature::Wgmma)) continue;
    for (int keys : {10, 65, 320}) check_attention<float16>(*device, {128, keys, 32, 128, 64, 8, 3, false, 0, 2});
    check_attention<float16>(*device, {128, 100, 32, 64, 32, 4, 2, true, 0, 2});
    check_attention<bfloat16>(*device, {256, 192, 32, 256, 64, 16, 3, true, 0, 2});
    check_attention<float16>(*device, {64, 96, 32, 64, 32, 4, 3, true, 33, 2});  // 2 bytes at a time
  }
}

TEST(Operands, BulkCopies) {
  for (auto& device : devices()) {
    if (!target_for_sm(device->info().sm).has(Feature::Tma)) continue;
    for (int warps : {1, 2}) {
      for (int keys : {10, 320}) check_attention<float16>(*device, {128, keys, 32, 128, 64, 8, 3, false, 0, warps, 2});
      check_attention<bfloat16>(*device, {128, 100, 64, 64, 32, 4, 2, true, 72, warps, 2});
    }
    check_attention<float16>(*device, {64, 96, 32, 64, 32, 4, 3, true, 33, 0, 2});  // rows are not aligned
  }
}

// Without keys there is no array that a tensor map describes.
TEST(Operands, LaunchesThatAllowNoTensorMap) {
  constexpr int kRows = 64, kDepth = 32;
  auto q = random_values<float16>(kRows * kDepth, 1);
  for (auto& device : devices()) {
    if (!target_for_sm(device->info().sm).has(Feature::Tma)) continue;
    Buffer dq(*device, q);
    auto run = [&](int bulk_copies, int keys) {
      Buffer out(*device, kRows * kDepth * sizeof(float));
      const LaunchOptions options{.constexprs = {{"ROWS", kRows}, {"KEYS", 32}, {"DEPTH", kDepth}, {"CAUSAL", false}},
                                  .bulk_copies = bulk_copies};
      const std::vector<Arg> args{
          dq.as<float16>(), dq.as<float16>(), dq.as<float16>(), out.as<float>(), 1.0f, kRows, keys, kDepth};
      Kernel kernel = program().kernel("flash_attention");
      EXPECT_EQ(kernel.prepare(*device, kernel.classify(args, options), options).image().tensor_maps.empty(),
                bulk_copies == 1);
      kernel.launch(*device, {1}, options, args);
      return out.download<uint32_t>();
    };
    for (int keys : {64, 0}) EXPECT_EQ(run(2, keys), run(1, keys)) << device->info().name << ", " << keys << " keys";
  }
}

TEST(Operands, WhereWarpsCopy) {
  const ArgType f16{.elem = Elem::F16, .pointer = true, .divisible_by = 16}, i32{.elem = Elem::I32};
  const ArgType f32{.elem = Elem::F32, .pointer = true, .divisible_by = 16}, number{.elem = Elem::F32};
  const ArgType by_16{.elem = Elem::I32, .divisible_by = 16};
  const std::vector<ArgType> types{f16, f16, f16, f32, number, i32, i32, by_16};
  const std::vector<ConstexprArg> constexprs{{"ROWS", 128}, {"KEYS", 64}, {"DEPTH", 64}, {"CAUSAL", false}};
  EXPECT_EQ(copy_warps("flash_attention", types, constexprs, 8), 4);
  EXPECT_EQ(copy_warps("flash_attention", types, constexprs, 8, "sm_80"), 0) << "no warpgroups";
  EXPECT_EQ(copy_warps("flash_attention", types, constexprs, 8, "sm_90a", 128), 0) << "registers are the user's";
  const std::vector<ArgType> paged{f16, f16, ArgType{.elem = Elem::I32, .pointer = true, .divisible_by = 16}, f32, i32};
  EXPECT_EQ(copy_warps("paged_product", paged, {{"M", 64}, {"N", 64}, {"K", 64}}, 4), 0)
      << "addresses follow from what the loop loads";
  const std::vector<ArgType> permuted{f16, f16, f32, i32};
  EXPECT_EQ(copy_warps("permuted_product", permuted, {{"M", 64}, {"N", 64}, {"K", 64}}, 4), 0)
      << "warps that copy would exchange addresses";
}

// Warps of the program wait for each other in the loop: between its products, behind them.
TEST(Operands, WarpsThatCopyAndSumsOverRows) {
  constexpr int kM = 128, kN = 32, kK = 32, kSteps = 3;
  auto a = random_values<float16>(kM * kK, 1), b = random_values<float16>(kN * kK * kSteps, 2);
  auto c = random_values<float16>(kN * kK * kSteps, 3);
  auto bias = random_values<float>(kN * kSteps, 4);
  for (auto& device : devices()) {
    if (!target_for_sm(device->info().sm).has(Feature::Wgmma)) continue;
    Buffer da(*device, a), db(*device, b), dc(*device, c), dbias(*device, bias);
    auto run = [&](int warp_specialize) {
      Buffer out(*device, kM * kK * sizeof(float)), between(*device, kN * sizeof(float));
      Buffer behind(*device, kK * sizeof(float));
      program()
          .kernel("summed_products")
          .launch(*device, {1},
                  {.constexprs = {{"M", kM}, {"N", kN}, {"K", kK}}, .num_warps = 8, .warp_specialize = warp_specialize},
                  da.as<float16>(), db.as<float16>(), dc.as<float16>(), dbias.as<float>(), out.as<float>(),
                  between.as<float>(), behind.as<float>(), kSteps);
      std::vector<float> values;
      for (const Buffer* buffer : {&out, &between, &behind})
        for (float value : buffer->download<float>()) values.push_back(value);
      return values;
    };
    EXPECT_EQ(run(2), run(1)) << device->info().name;
  }
}

// Rows that are copied 4 bytes at a time still lie along K, as products of tf32 by warpgroups want it.
TEST(Operands, CopiesOfUnalignedRowsLieAsTheProductWants) {
  const ArgType f32{.elem = Elem::F32, .pointer = true, .divisible_by = 16}, i32{.elem = Elem::I32};
  const std::vector<ArgType> types{f32, f32, f32, f32, {.elem = Elem::F32}, i32, i32, i32};
  for (int num_stages : {1, 2, 3})
    for (int num_warps : {4, 8})
      EXPECT_NO_THROW(program()
                          .kernel("flash_attention")
                          .compile(types,
                                   {.constexprs = {{"ROWS", 128}, {"KEYS", 32}, {"DEPTH", 128}, {"CAUSAL", false}},
                                    .num_warps = num_warps,
                                    .num_stages = num_stages},
                                   "sm_90a"));
}

// A's tile has the shape of the sums, whose layout its pointers then get: its copies do not run ahead, while B's do.
TEST(Operands, CopiesOfOneOperandRunAhead) {
  constexpr int kM = 64, kN = 128, kDepth = 3 * 128;
  auto a = random_values<float16>(kM * kDepth, 1), b = random_values<float16>(kDepth * kN, 2);
  std::vector<double> exact(kM * kN);
  for (int i = 0; i < kM; ++i)
    for (int k = 0; k < kDepth; ++k)
      for (int j = 0; j < kN; ++j)
        exact[size_t(i * kN + j)] += double(a[size_t(i * kDepth + k)]) * b[size_t(k * kN + j)];
  for (auto& device : devices()) {
    Buffer da(*device, a), db(*device, b), out(*device, exact.size() * sizeof(float));
    program()
        .kernel("masked_by_sums")
        .launch(*device, {1}, {}, da.as<float16>(), db.as<float16>(), out.as<float>(), kDepth);
    EXPECT_LE(relative_error(out.download<float>(), exact), 1e-5);
  }
}

// The pages of B come from a table, which the loop reads.
TEST(Operands, PagedProduct) {
  constexpr int kM = 64, kN = 64, kK = 64, kSteps = 5;
  std::vector<int> pages{3, 0, 4, 1, 2};
  auto a = random_values<float16>(kM * kK * kSteps, 1), b = random_values<float16>(kK * kN * kSteps, 2);
  std::vector<double> exact(kM * kN);
  for (int i = 0; i < kM; ++i)
    for (int k = 0; k < kK * kSteps; ++k)
      for (int j = 0; j < kN; ++j)
        exact[size_t(i * kN + j)] +=
            double(a[size_t(i * kK * kSteps + k)]) * b[size_t((pages[size_t(k / kK)] * kK + k % kK) * kN + j)];
  for (auto& device : devices())
    for (int warp_specialize : {0, 2}) {
      Buffer da(*device, a), db(*device, b), dp(*device, pages), out(*device, exact.size() * sizeof(float));
      program()
          .kernel("paged_product")
          .launch(*device, {1}, {.constexprs = {{"M", kM}, {"N", kN}, {"K", kK}}, .warp_specialize = warp_specialize},
                  da.as<float16>(), db.as<float16>(), dp.as<int>(), out.as<float>(), kSteps);
      EXPECT_LE(relative_error(out.download<float>(), exact), 1e-5);
    }
}

// Dots that a text unrolls, each scaled by itself, follow one another within an iteration: A, which is stored, has one
// place for all of them, and of B as many tiles are on their way as leave room for three other programs.
TEST(Operands, UnrolledDotsShareMemory) {
  const Kernel kernel = Program::parse(R"(
import triton
import triton.language as tl


@triton.jit
def grouped(a_ptr, b_ptr, scale_ptr, out_ptr, tiles, GROUPS: tl.constexpr):
    n = tl.arange(0, 64)
    d = tl.arange(0, 64)
    for tile in tl.range(0, tiles, num_stages=1):
        m = tile * 64 + tl.arange(0, 64)
        acc = tl.zeros((64, 64), tl.float32)
        for g in tl.static_range(GROUPS):
            k = g * 64 + d
            a = tl.load(a_ptr + m[:, None] * GROUPS * 64 + k[None, :]).to(tl.float16)
            b = tl.load(b_ptr + n[:, None] * GROUPS * 64 + k[None, :])
            acc += tl.dot(a, tl.trans(b)) * tl.load(scale_ptr + m * GROUPS + g)[:, None]
        tl.store(out_ptr + m[:, None] * 64 + n[None, :], acc)
)",
                                       "grouped.py")
                            .kernel("grouped");
  std::vector<ArgType> types(4, {.elem = Elem::F32, .pointer = true, .divisible_by = 16});
  types[0].elem = Elem::I8, types[1].elem = Elem::F16;
  types.push_back({.elem = Elem::I32, .divisible_by = 1});
  const auto options = [](int groups) { return LaunchOptions{.constexprs = {{"GROUPS", groups}}, .num_warps = 4}; };
  constexpr int kPlace = 64 * 64 * 2;
  for (const auto& [groups, places] : {std::pair(1, 2), {2, 3}, {16, 8}})
    EXPECT_LE(kernel.compile(types, options(groups), "sm_90a").shared_bytes, places * kPlace) << groups;

  constexpr int kTiles = 3, kGroups = 3, kRows = 64 * kTiles, kDepth = 64 * kGroups;
  const auto a = random_values<int8_t>(kRows * kDepth, 1);
  const auto b = random_values<float16>(64 * kDepth, 2);
  const auto scales = random_values<float>(kRows * kGroups, 3);
  std::vector<double> exact(kRows * 64);
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < 64; ++j)
      for (int k = 0; k < kDepth; ++k)
        exact[size_t(i * 64 + j)] +=
            double(a[size_t(i * kDepth + k)]) * b[size_t(j * kDepth + k)] * scales[size_t(i * kGroups + k / 64)];
  for (auto& device : devices()) {
    Buffer da(*device, a), db(*device, b), ds(*device, scales), out(*device, exact.size() * sizeof(float));
    kernel.launch(*device, {1}, options(kGroups), da.as<int8_t>(), db.as<float16>(), ds.as<float>(), out.as<float>(),
                  kTiles);
    EXPECT_LE(relative_error(out.download<float>(), exact), 1e-5);
  }
}

TEST(Operands, RowsInAnotherOrder) {
  constexpr int kM = 64, kN = 64, kK = 64, kSteps = 3;
  auto a = random_values<float16>(kM * kK * kSteps, 1), b = random_values<float16>(kK * kSteps * kN, 2);
  std::vector<double> exact(kM * kN);
  for (int i = 0; i < kM; ++i)
    for (int k = 0; k < kK * kSteps; ++k) {
      const int row = k / kK * kK + k * 5 % kK;
      for (int j = 0; j < kN; ++j) exact[i * kN + j] += double(a[i * kK * kSteps + k]) * b[row * kN + j];
    }
  for (auto& device : devices())
    for (int warp_specialize : {0, 2}) {
      Buffer da(*device, a), db(*device, b), out(*device, exact.size() * sizeof(float));
      program()
          .kernel("permuted_product")
          .launch(*device, {1}, {.constexprs = {{"M", kM}, {"N", kN}, {"K", kK}}, .warp_specialize = warp_specialize},
                  da.as<float16>(), db.as<float16>(), out.as<float>(), kSteps);
      EXPECT_LE(relative_error(out.download<float>(), exact), 1e-5);
    }
}

TEST(Operands, TrianglesComeAsTheyLie) {
  constexpr int kM = 64, kN = 128;
  const std::vector<ConstexprArg> constexprs{{"M", kM}, {"N", kN}};
  auto a = random_values<float16>(kM * kM, 1), b = random_values<float16>(kM * kN, 2);
  std::vector<double> lower(kM * kM), product(kM * kN);
  for (int i = 0; i < kM; ++i)
    for (int k = 0; k < kM; ++k)
      for (int j = 0; j < kN; ++j) {
        if (k <= i) lower[i * kM + k] += double(b[i * kN + j]) * b[k * kN + j];
        if (i <= k) product[i * kN + j] += double(a[i + k * kM]) * b[k * kN + j];
      }
  for (auto& device : devices()) {
    Buffer da(*device, a), db(*device, b), c(*device, kM * kM * sizeof(float)), d(*device, kM * kN * sizeof(float));
    program()
        .kernel("triangle_products")
        .launch(*device, {1}, {.constexprs = constexprs}, da.as<float16>(), db.as<float16>(), c.as<float>(),
                d.as<float>());
    EXPECT_LE(relative_error(c.download<float>(), lower), 1e-5);
    EXPECT_LE(relative_error(d.download<float>(), product), 1e-5);
  }
  // Nothing asks for another layout than the memory's, though the mask is also that of the sums.
  const ArgType f16{.elem = Elem::F16, .pointer = true, .divisible_by = 16};
  const ArgType f32{.elem = Elem::F32, .pointer = true, .divisible_by = 16};
  const std::vector<ArgType> types{f16, f16, f32, f32};
  const std::string ptx =
      program().kernel("triangle_products").compile(types, {.constexprs = constexprs}, "sm_90a").ptx;
  EXPECT_EQ(ptx.find("ld.global.b16"), std::string::npos) << ptx;
}

struct Scaled {
  int m, n, k;
  int block_m, block_n, block_k;
  int num_warps, num_stages;
};

template <class A, class B>
void check_scaled(Device& device, const Scaled& p) {
  SCOPED_TRACE(fmt::format("{}: {} x {} x {}, blocks {} x {} x {}, {} warps, {} stages", device.info().name, p.m, p.n,
                           p.k, p.block_m, p.block_n, p.block_k, p.num_warps, p.num_stages));
  auto a = random_values<A>(size_t(p.m) * p.k, 1);
  auto b = random_values<B>(size_t(p.k) * p.n, 2);
  std::vector<float> a_scale(p.k), b_scale(p.n);
  for (int i = 0; i < p.k; ++i) a_scale[i] = std::ldexp(1.0f, -(i % 3));  // exact in fp16
  for (int i = 0; i < p.n; ++i) b_scale[i] = std::ldexp(1.0f, -(i % 5));
  std::vector<double> exact(size_t(p.m) * p.n);
  for (int i = 0; i < p.m; ++i)
    for (int l = 0; l < p.k; ++l)
      for (int j = 0; j < p.n; ++j)
        exact[size_t(i) * p.n + j] +=
            double(float(a[size_t(i) * p.k + l])) * a_scale[l] * double(float(b[size_t(l) * p.n + j])) * b_scale[j];
  Buffer da(device, a), db(device, b), das(device, a_scale), dbs(device, b_scale);
  Buffer dc(device, exact.size() * sizeof(float));
  device.fill(dc.address(), 0xff, dc.bytes());
  program().kernel("scaled").launch(
      device, {unsigned((p.m + p.block_m - 1) / p.block_m), unsigned((p.n + p.block_n - 1) / p.block_n)},
      {.constexprs = {{"BLOCK_M", p.block_m}, {"BLOCK_N", p.block_n}, {"BLOCK_K", p.block_k}, {"TYPE", Elem::F16}},
       .num_warps = p.num_warps,
       .num_stages = p.num_stages},
      da.as<A>(), db.as<B>(), das.as<float>(), dbs.as<float>(), dc.as<float>(), p.m, p.n, p.k, p.k, p.n);
  EXPECT_LE(relative_error(dc.download<float>(), exact), 1e-6);
}

TEST(Operands, ScaledBeforeTheProduct) {
  for (auto& device : devices())
    for (int num_stages : {1, 2, 3}) {
      check_scaled<float16, float16>(*device, {64, 64, 128, 64, 64, 32, 4, num_stages});
      check_scaled<float16, int8_t>(*device, {128, 64, 160, 128, 64, 32, 8, num_stages});
      check_scaled<int8_t, int8_t>(*device, {70, 48, 64, 64, 32, 64, 4, num_stages});
      check_scaled<float16, int8_t>(*device, {65, 33, 77, 64, 32, 16, 4, num_stages});
    }
}

// Sums become an operand: within warps, elements of 8 bits go from lane to lane four at a time.
TEST(Operands, ProductOfAProduct) {
  const Kernel kernel = Program::parse(R"(
import triton
import triton.language as tl


@triton.jit
def chained(a_ptr, b_ptr, c_ptr, out_ptr, TYPE: tl.constexpr, SUMS: tl.constexpr):
    i = tl.arange(0, 64)
    a = tl.load(a_ptr + i[:, None] * 64 + i[None, :])
    b = tl.load(b_ptr + i[:, None] + i[None, :] * 64)
    c = tl.load(c_ptr + i[:, None] + i[None, :] * 64)
    middle = tl.dot(a, b, out_dtype=SUMS).to(TYPE)
    tl.store(out_ptr + i[:, None] * 64 + i[None, :], tl.dot(middle, c, out_dtype=SUMS))
)",
                                       "chained.py")
                            .kernel("chained");
  auto options = [](Elem type, int num_warps) {
    const Elem sums = is_float(type) ? Elem::F32 : Elem::I32;
    return LaunchOptions{.constexprs = {{"TYPE", Constexpr(type)}, {"SUMS", Constexpr(sums)}}, .num_warps = num_warps};
  };
  // Numbers of products that fit int8, and such that do not.
  for (int range : {2, 128}) {
    std::mt19937 random(6);
    std::vector<int8_t> a(64 * 64), b(64 * 64), c(64 * 64);
    for (auto* x : {&a, &b, &c})
      for (int8_t& v : *x) v = int8_t(int(random() % (2 * range)) - range);
    std::vector<int32_t> exact(64 * 64);
    for (int i = 0; i < 64; ++i) {
      std::vector<int8_t> middle(64);
      for (int j = 0; j < 64; ++j) {
        int sum = 0;
        for (int k = 0; k < 64; ++k) sum += a[i * 64 + k] * b[j * 64 + k];
        middle[j] = int8_t(sum);
      }
      for (int j = 0; j < 64; ++j)
        for (int k = 0; k < 64; ++k) exact[i * 64 + j] += middle[k] * c[j * 64 + k];
    }
    for (auto& device : devices())
      for (int num_warps : {1, 2, 4}) {
        SCOPED_TRACE(fmt::format("{}: {} warps, numbers below {}", device->info().name, num_warps, range));
        Buffer da(*device, a), db(*device, b), dc(*device, c), out(*device, exact.size() * sizeof(int32_t));
        kernel.launch(*device, {1}, options(Elem::I8, num_warps), da.as<int8_t>(), db.as<int8_t>(), dc.as<int8_t>(),
                      out.as<int32_t>());
        EXPECT_EQ(out.download<int32_t>(), exact);
      }
  }

  auto shuffles = [&](Elem type, const char* target, int num_warps) {
    std::vector<ArgType> types(4, {.elem = type, .pointer = true, .divisible_by = 16});
    types[3].elem = is_float(type) ? Elem::F32 : Elem::I32;
    const std::string ptx = kernel.compile(types, options(type, num_warps), target).ptx;
    int count = 0;
    for (size_t at = 0; (at = ptx.find("shfl.sync", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  // A word of the operand may come from either of two; half of the sums go to another lane before they are stored.
  const int chosen = 8 * 2, stored = 32 / 2;
  // One warp holds four times as much. b and c go two ways, half of their words each time.
  const int loaded = 2 * 2 * 32 / 2;
  for (Elem type : {Elem::I8, Elem::F8E4M3}) {
    EXPECT_EQ(shuffles(type, "sm_90a", 4), chosen + stored) << elem_info(type).tl;
    EXPECT_EQ(shuffles(type, "sm_89", 1), loaded + 4 * (chosen + stored)) << elem_info(type).tl;
  }
}

// What a loop exchanges through shared memory beside its dot leaves room for fewer stages than asked for.
TEST(Operands, FewerStagesWhereSharedMemoryEnds) {
  const Kernel kernel = Program::parse(R"(
import triton
import triton.language as tl


@triton.jit
def turned(a_ptr, b_ptr, c_ptr, K):
    rows = tl.arange(0, 128)
    depth = tl.arange(0, 32)
    acc = tl.zeros((128, 128), tl.float32)
    for k in range(0, K, 32):
        a = tl.load(a_ptr + rows[:, None] * K + (k + depth)[None, :])
        b = tl.load(b_ptr + (k + depth)[:, None] * 128 + rows[None, :])
        acc = tl.trans(acc) + tl.dot(a, b)
    tl.store(c_ptr + rows[:, None] * 128 + rows[None, :], acc)
)",
                                       "turned.py")
                            .kernel("turned");
  std::vector<ArgType> types(3, {.elem = Elem::F16, .pointer = true, .divisible_by = 16});
  types[2].elem = Elem::F32;
  types.push_back({.elem = Elem::I32, .divisible_by = 16});
  for (const char* target : {"sm_80", "sm_86", "sm_90a"}) {
    const KernelImage image = kernel.compile(types, {.num_warps = 8, .num_stages = 8, .bulk_copies = 1}, target);
    EXPECT_LE(image.shared_bytes, find_target(target)->shared_per_program) << target;
    EXPECT_NE(image.ptx.find("cp.async.c"), std::string::npos) << target;

    // The passes run more than once: the last time is shown.
    std::vector<std::string> expected, dumped, timed;
    for (const PassInfo& pass : pass_table()) expected.push_back(pass.name);
    expected.insert(expected.end(), std::begin(kStages), std::end(kStages));
    std::vector<PassTime> times;
    CompileOptions options;
    options.target = *find_target(target);
    options.times = &times;
    options.dump = [&](const std::string& pass, const std::string&) { dumped.push_back(pass); };
    Diagnostics diags;
    ASSERT_TRUE(compile(*kernel.tile_func(types, {.num_warps = 8, .num_stages = 8, .bulk_copies = 1}), options, diags))
        << diags.render();
    for (const PassTime& time : times) timed.push_back(time.pass);
    EXPECT_EQ(dumped, expected) << target;
    EXPECT_EQ(timed, expected) << target;
  }
}

}  // namespace
}  // namespace tegula
