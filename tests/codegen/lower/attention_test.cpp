// label: device
// heavy: Attention.NoSpillsAndProductsAreNotWaitedFor Attention.EachFormGetsItsEngines
// Attention forward in the forms that users write it in (tests/kernels/attention.py): its values, and by which engines
// each form copies and multiplies on a GPU that has warpgroups.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "codegen/exec/emulator.h"
#include "codegen/target/target.h"
#include "dsl/tegula.h"
#include "runtime/base/float16.h"
#include "runtime/base/float8.h"
#include "tests/assembler.h"
#include "tests/codegen/lower/dot_support.h"
#include "tests/codegen/lower/ptx_support.h"
#include "tests/devices.h"

namespace tegula {
namespace {

// The GPU if there is one; else an emulator, on which each copy and product happens as late as the waits allow.
const Devices& devices() {
  static const Devices all = gpu_or_emulators({{.target = "sm_90a", .seed = 1}});
  return all;
}

Program& program() {
  static Program p = Program::load(TEGULA_SOURCE_DIR "/tests/kernels/attention.py");
  return p;
}

// A sequence of one head in its arrays: where its rows of queries, keys and values, and of the result begin.
struct Sequence {
  int64_t q, k, out;
  int length;
};
struct Shape {
  int depth, depth_v, stride, stride_out;
  bool causal = false;
  int window = 0;  // 0: all keys
};

// The sum of squared errors of a sequence, and of the exact values.
template <class T>
void add_errors(const Sequence& s, const Shape& shape, const std::vector<T>& q, const std::vector<T>& k,
                const std::vector<T>& v, const std::vector<T>& out, double& difference, double& norm) {
  const double scale = 1 / std::sqrt(double(shape.depth));
  std::vector<double> weights(size_t(s.length)), exact(size_t(shape.depth_v));
  for (int i = 0; i < s.length; ++i) {
    const int end = shape.causal ? i + 1 : s.length, begin = shape.window ? std::max(0, i + 1 - shape.window) : 0;
    double total = 0;
    for (int j = begin; j < end; ++j) {
      double score = 0;
      for (int d = 0; d < shape.depth; ++d)
        score +=
            double(q[size_t(s.q + int64_t(i) * shape.stride + d)]) * k[size_t(s.k + int64_t(j) * shape.stride + d)];
      total += weights[size_t(j)] = std::exp(score * scale);
    }
    std::fill(exact.begin(), exact.end(), 0.0);
    for (int j = begin; j < end; ++j)
      for (int d = 0; d < shape.depth_v; ++d)
        exact[size_t(d)] += weights[size_t(j)] / total * v[size_t(s.k + int64_t(j) * shape.stride + d)];
    for (int d = 0; d < shape.depth_v; ++d) {
      const double found = out[size_t(s.out + int64_t(i) * shape.stride_out + d)], x = exact[size_t(d)];
      difference += (found - x) * (found - x), norm += x * x;
    }
  }
}

// Weights are rounded to T before the second product.
template <class T>
void expect_close(double difference, double norm) {
  EXPECT_LE(std::sqrt(difference / norm), (std::is_same_v<T, bfloat16> ? 4e-3 : 6e-4));
}

struct Form {
  const char *form, *mask;
  int length, depth, depth_v, group = 1, window = 0, rows = 128, columns = 64, num_warps = 8, num_stages = 2;
};

template <class T>
void check(Device& device, const Form& p) {
  SCOPED_TRACE(fmt::format("{}: {}, {}, {} rows, depth {} and {}, group {}, window {}", device.info().name, p.form,
                           p.mask, p.length, p.depth, p.depth_v, p.group, p.window));
  const int heads = 2 * p.group, stride = std::max(p.depth, p.depth_v);
  const int64_t stride_head = int64_t(stride) * (p.length + 16);
  auto q = random_values<T>(size_t(heads * stride_head), 1);
  auto k = random_values<T>(size_t(2 * stride_head), 2), v = random_values<T>(size_t(2 * stride_head), 3);
  Buffer dq(device, q), dk(device, k), dv(device, v);
  Buffer out(device, size_t(heads) * size_t(p.length) * size_t(p.depth_v) * sizeof(T));
  program().kernel("forward").launch(device, {unsigned((p.length + p.rows - 1) / p.rows), unsigned(heads)},
                                     {.constexprs = {{"GROUP", p.group},
                                                     {"FORM", std::string(p.form)},
                                                     {"MASK", std::string(p.mask)},
                                                     {"WINDOW", p.window},
                                                     {"ROWS", p.rows},
                                                     {"COLS", p.columns},
                                                     {"D", p.depth},
                                                     {"DV", p.depth_v}},
                                      .num_warps = p.num_warps,
                                      .num_stages = p.num_stages,
                                      .warp_specialize = 2},
                                     dq.as<T>(), dk.as<T>(), dv.as<T>(), out.as<T>(), 1 / std::sqrt(float(p.depth)),
                                     p.length, stride, stride_head);
  const auto found = out.download<T>();
  const Shape shape{p.depth, p.depth_v, stride, p.depth_v, std::string(p.mask) != "none", p.window};
  double difference = 0, norm = 0;
  for (int h = 0; h < heads; ++h)
    add_errors({h * stride_head, h / p.group * stride_head, int64_t(h) * p.length * p.depth_v, p.length}, shape, q, k,
               v, found, difference, norm);
  expect_close<T>(difference, norm);
}

TEST(Attention, FormsAndMasks) {
  for (auto& device : devices()) {
    for (const char* form : {"pointer", "masked", "block", "descriptor"}) {
      check<float16>(*device, {form, "none", 160, 32, 32});
      check<float16>(*device, {form, "causal", 256, 32, 32, 1, 0, 128, 128});
    }
    check<bfloat16>(*device, {"pointer", "window", 384, 32, 32, 1, 96});
    check<float16>(*device, {"descriptor", "window", 320, 32, 32, 1, 100});
  }
}

TEST(Attention, HeadDimensionsAndGroups) {
  for (auto& device : devices()) {
    check<float16>(*device, {"pointer", "causal", 128, 96, 96, 1, 0, 64, 64, 4});
    check<bfloat16>(*device, {"masked", "causal", 64, 192, 128, 1, 0, 64, 32, 4});
    check<float16>(*device, {"descriptor", "none", 64, 256, 256, 1, 0, 64, 32, 4});
    check<bfloat16>(*device, {"pointer", "causal", 128, 64, 64, 2});
  }
}

TEST(Attention, LengthsFromMemory) {
  constexpr int kHeads = 4, kDepth = 32, kStride = kHeads * kDepth;
  const std::vector<int32_t> begins{0, 37, 37, 200, 328};
  const auto count = size_t(begins.back()) * kStride;
  const auto q = random_values<float16>(count, 1), k = random_values<float16>(count, 2);
  const auto v = random_values<float16>(count, 3);
  for (auto& device : devices())
    for (const char* form : {"masked", "block", "descriptor"})
      for (bool causal : {false, true}) {
        SCOPED_TRACE(fmt::format("{}: {}{}", device->info().name, form, causal ? ", causal" : ""));
        Buffer dq(*device, q), dk(*device, k), dv(*device, v), db(*device, begins),
            out(*device, count * sizeof(float16));
        program()
            .kernel("forward_of_lengths")
            .launch(*device, {2, unsigned(begins.size() - 1) * kHeads},
                    {.constexprs =
                         {{"CAUSAL", causal}, {"FORM", std::string(form)}, {"ROWS", 128}, {"COLS", 64}, {"D", kDepth}},
                     .num_warps = 8,
                     .num_stages = 2,
                     .warp_specialize = 2},
                    dq.as<float16>(), dk.as<float16>(), dv.as<float16>(), out.as<float16>(), db.as<int32_t>(),
                    1 / std::sqrt(float(kDepth)), kStride, kHeads);
        const auto found = out.download<float16>();
        double difference = 0, norm = 0;
        for (size_t i = 0; i + 1 < begins.size(); ++i)
          for (int h = 0; h < kHeads; ++h) {
            const int64_t at = int64_t(begins[i]) * kStride + h * kDepth;
            add_errors({at, at, at, begins[i + 1] - begins[i]}, {kDepth, kDepth, kStride, kStride, causal}, q, k, v,
                       found, difference, norm);
          }
        expect_close<float16>(difference, norm);
      }
}

// Products of fp8 read V with the keys of a dimension side by side: it is stored so, or transposed in shared memory.
// Weights have four bits.
TEST(Attention, Float8) {
  constexpr int kHeads = 2, kDepth = 64, kLength = 384;
  const auto count = size_t(kHeads * kLength * kDepth);
  std::vector<float> values[3], found;
  std::vector<float8e4nv> q, k, v, by_keys(count);
  for (unsigned i = 0; i < 3; ++i)
    for (float x : random_values<float>(count, i + 1)) values[i].push_back(float(float8e4nv(x)));
  q.assign(values[0].begin(), values[0].end()), k.assign(values[1].begin(), values[1].end());
  v.assign(values[2].begin(), values[2].end());
  for (int h = 0; h < kHeads; ++h)
    for (int i = 0; i < kLength; ++i)
      for (int d = 0; d < kDepth; ++d)
        by_keys[size_t((h * kDepth + d) * kLength + i)] = v[size_t((h * kLength + i) * kDepth + d)];
  const Kernel kernel = Program::load(TEGULA_SOURCE_DIR "/bench/attention_kernels.py").kernel("forward");
  for (auto& device : devices())
    for (bool is_by_keys : {true, false}) {
      Buffer dq(*device, q), dk(*device, k), dv(*device, is_by_keys ? by_keys : v);
      Buffer out(*device, count * sizeof(float16)), lse(*device, size_t(kHeads * kLength) * sizeof(float));
      kernel.launch(
          *device, {kLength / 128, kHeads},
          {.constexprs =
               {{"D", kDepth}, {"CAUSAL", false}, {"BLOCK_M", 128}, {"BLOCK_N", 64}, {"V_BY_KEYS", is_by_keys}},
           .num_warps = 8,
           .num_stages = 2,
           .warp_specialize = 2},
          out.as<float16>(), lse.as<float>(), dq.as<float8e4nv>(), dk.as<float8e4nv>(), dv.as<float8e4nv>(),
          1 / std::sqrt(float(kDepth)), kLength);
      const auto stored = out.download<float16>();
      found.assign(stored.begin(), stored.end());
      double difference = 0, norm = 0;
      for (int64_t h = 0; h < kHeads; ++h) {
        const int64_t at = h * kLength * kDepth;
        add_errors({at, at, at, kLength}, {kDepth, kDepth, kDepth, kDepth}, values[0], values[1], values[2], found,
                   difference, norm);
      }
      EXPECT_LE(std::sqrt(difference / norm), 4e-2) << (is_by_keys ? "V by keys" : "V in rows");
    }
}

TEST(Attention, Persistent) {
  constexpr int kHeads = 3, kDepth = 32, kLength = 256;
  const auto count = size_t(kHeads * kLength * kDepth);
  const auto q = random_values<float16>(count, 1), k = random_values<float16>(count, 2);
  const auto v = random_values<float16>(count, 3);
  for (auto& device : devices())
    for (bool causal : {false, true}) {
      SCOPED_TRACE(fmt::format("{}{}", device->info().name, causal ? ", causal" : ""));
      Buffer dq(*device, q), dk(*device, k), dv(*device, v), out(*device, count * sizeof(float16));
      program()
          .kernel("forward_persistent")
          .launch(*device, {2},
                  {.constexprs = {{"CAUSAL", causal}, {"ROWS", 128}, {"COLS", 64}, {"D", kDepth}},
                   .num_warps = 8,
                   .num_stages = 2,
                   .warp_specialize = 2},
                  dq.as<float16>(), dk.as<float16>(), dv.as<float16>(), out.as<float16>(), 1 / std::sqrt(float(kDepth)),
                  kLength, kHeads);
      const auto found = out.download<float16>();
      double difference = 0, norm = 0;
      for (int64_t h = 0; h < kHeads; ++h) {
        const int64_t at = h * kLength * kDepth;
        add_errors({at, at, at, kLength}, {kDepth, kDepth, kDepth, kDepth, causal}, q, k, v, found, difference, norm);
      }
      expect_close<float16>(difference, norm);
    }
}

const char* const kStoringLoop = R"(
import triton
import triton.language as tl

@triton.jit
def storing(q_ptr, k_ptr, buffer, out, n, R: tl.constexpr, C: tl.constexpr, D: tl.constexpr):
    r, d = tl.arange(0, R)[:, None], tl.arange(0, D)
    q = tl.load(q_ptr + r * D + d[None, :])
    acc = tl.zeros((R, D), tl.float32)
    for j in range(0, n, C):
        bias = tl.load(buffer)
        k = tl.load(k_ptr + (j + tl.arange(0, C))[:, None] * D + d[None, :])
        p = tl.dot(q, tl.trans(k)) + bias
        tl.store(buffer, bias + 1.0)
        acc = tl.dot(p.to(tl.float16), k, acc * 0.5)
    tl.store(out + r * D + d[None, :], acc)
)";

// Threads wait for each other between the load and the store: a warpgroup that waits there must not hold the turn.
TEST(Attention, LoopsThatStoreTakeNoTurns) {
  constexpr int kRows = 128, kLength = 128, kStep = 64, kDepth = 32;
  const std::vector<float16> ones(size_t(kLength) * kDepth, float16(1.0f / 8));
  LaunchOptions options{.constexprs = {{"R", kRows}, {"C", kStep}, {"D", kDepth}}, .num_warps = 8, .num_stages = 2};
  options.warp_specialize = 2;
  for (auto& device : devices()) {
    const Buffer q(*device, ones), k(*device, ones), buffer(*device, std::vector<float>{0});
    const Buffer out(*device, kRows * kDepth * sizeof(float));
    Program::parse(kStoringLoop, "storing.py")
        .kernel("storing")
        .launch(*device, {1}, options, q.as<float16>(), k.as<float16>(), buffer.as<float>(), out.as<float>(), kLength);
    EXPECT_EQ(buffer.download<float>()[0], 2.0f);
    // Scores are 1/2 and, with the bias, 3/2; each iteration adds 64 of them times 1/8.
    for (float x : out.download<float>()) ASSERT_EQ(x, 0.5f * 64 * 0.5f / 8 + 64 * 1.5f / 8);
  }
}

// ------------------------------------------------------------------------------------------------------------ engines

struct Engines {
  const char *kernel, *arguments;
  int num_warps;
  bool copy_warps;  // a warp copies beside the program
  bool in_bulk;     // no thread of the program copies K or V
};

// With which a text is compiled for sm_90a by default.
constexpr Engines kEngines[] = {
    {"forward", "GROUP=1 FORM=pointer MASK=none WINDOW=0 ROWS=128 COLS=128 D=128 DV=128", 8, true, true},
    {"forward", "GROUP=1 FORM=pointer MASK=causal WINDOW=0 ROWS=128 COLS=128 D=128 DV=128", 8, true, true},
    {"forward", "GROUP=1 FORM=pointer MASK=window WINDOW=512 ROWS=128 COLS=128 D=128 DV=128", 8, true, true},
    {"forward", "GROUP=1 FORM=masked MASK=causal WINDOW=0 ROWS=128 COLS=128 D=128 DV=128", 8, true, true},
    {"forward", "GROUP=1 FORM=block MASK=none WINDOW=0 ROWS=128 COLS=128 D=128 DV=128", 8, true, true},
    {"forward", "GROUP=1 FORM=block MASK=causal WINDOW=0 ROWS=128 COLS=128 D=128 DV=128", 8, true, true},
    {"forward", "GROUP=1 FORM=descriptor MASK=causal WINDOW=0 ROWS=128 COLS=128 D=128 DV=128", 8, true, true},
    {"forward", "GROUP=1 FORM=descriptor MASK=window WINDOW=512 ROWS=128 COLS=128 D=128 DV=128", 8, true, true},
    {"forward", "GROUP=4 FORM=pointer MASK=causal WINDOW=0 ROWS=128 COLS=128 D=128 DV=128", 8, true, true},
    {"forward", "GROUP=1 FORM=pointer MASK=causal WINDOW=0 ROWS=64 COLS=64 D=64 DV=64", 4, false, true},
    {"forward", "GROUP=1 FORM=pointer MASK=causal WINDOW=0 ROWS=128 COLS=128 D=96 DV=96", 8, true, true},
    {"forward", "GROUP=1 FORM=descriptor MASK=causal WINDOW=0 ROWS=128 COLS=64 D=192 DV=128", 8, true, true},
    {"forward", "GROUP=1 FORM=pointer MASK=causal WINDOW=0 ROWS=64 COLS=64 D=256 DV=256", 4, false, true},
    {"forward", "GROUP=1 FORM=pointer MASK=causal WINDOW=0 ROWS=128 COLS=64 D=256 DV=256", 8, true, true},
    {"forward_of_lengths", "begins_ptr=*i32 CAUSAL=1 FORM=masked ROWS=128 COLS=128 D=128", 8, false, false},
    {"forward_of_lengths", "begins_ptr=*i32 CAUSAL=0 FORM=block ROWS=128 COLS=128 D=128", 8, false, false},
    {"forward_of_lengths", "begins_ptr=*i32 CAUSAL=1 FORM=descriptor ROWS=128 COLS=128 D=128", 8, false, false},
    {"forward_persistent", "CAUSAL=0 ROWS=128 COLS=128 D=128", 8, true, true},
    {"forward_persistent", "CAUSAL=1 ROWS=128 COLS=128 D=128", 8, true, true},
};

bool has_line(const KernelImage& image, std::string_view by) {
  return std::any_of(image.transfers.begin(), image.transfers.end(), [&](const Transfer& t) { return t.by == by; });
}

// Of a text with fp8: both products are of fp8, all copies in bulk; V in rows is transposed, and keeps nobody waiting.
TEST(Attention, Float8IsMultipliedAsItIs) {
  for (bool is_by_keys : {true, false}) {
    const std::string arguments = fmt::format(
        "out=*f16 lse=*f32 Q=*f8e4m3 K=*f8e4m3 V=*f8e4m3 scale=f32 D=128 CAUSAL=0 BLOCK_M=128 BLOCK_N=128 "
        "V_BY_KEYS={:d}",
        is_by_keys);
    const kernel_texts::Case text{"bench/attention_kernels.py", "forward", arguments.c_str(), 8};
    kernel_texts::Specialisation x = kernel_texts::specialisation(text, 8);
    x.options.num_stages = 2, x.options.warp_specialize = 2;
    const KernelImage image = x.kernel.compile(x.types, x.options, "sm_90a");
    EXPECT_GT(image.copy_warps, 0);
    EXPECT_NE(image.ptx.find("m64n128k32.f32.e4m3.e4m3"), std::string::npos);
    EXPECT_EQ(image.ptx.find("x4.trans") == std::string::npos, is_by_keys);
    EXPECT_TRUE(has_line(image, "two groups of warps multiply in turns"));
    for (const char* other : {"m64n128k16", "mma.sync", "cp.async.c"})
      EXPECT_EQ(image.ptx.find(other), std::string::npos) << other;
  }
}

KernelImage compiled(const Engines& e, const char* type) {
  const std::string arguments =
      fmt::format("q_ptr=*{0} k_ptr=*{0} v_ptr=*{0} out_ptr=*{0} scale=f32 {1}", type, e.arguments);
  const kernel_texts::Case text{"tests/kernels/attention.py", e.kernel, arguments.c_str(), e.num_warps};
  kernel_texts::Specialisation x = kernel_texts::specialisation(text, e.num_warps);
  x.options.num_stages = 2;
  return x.kernel.compile(x.types, x.options, "sm_90a");
}

TEST(Attention, EachFormGetsItsEngines) {
  for (const Engines& e : kEngines) {
    SCOPED_TRACE(fmt::format("{} {}", e.kernel, e.arguments));
    const KernelImage image = compiled(e, "bf16");
    EXPECT_EQ(image.copy_warps > 0, e.copy_warps);
    EXPECT_EQ(image.ptx.find("cp.async.bulk.tensor") != std::string::npos, e.in_bulk);
    EXPECT_EQ(image.ptx.find("cp.async.c") == std::string::npos, e.in_bulk) << "threads copy";
    EXPECT_EQ(image.ptx.find("mma.sync"), std::string::npos);
    EXPECT_NE(image.ptx.find("wgmma.mma_async"), std::string::npos);
    const bool longer_later = std::string_view(e.kernel) == "forward" &&
                              std::string_view(e.arguments).find("MASK=causal") != std::string_view::npos;
    EXPECT_EQ(has_line(image, "programs of eight numbers along axis 1 begin together, the longest first"),
              longer_later);
    EXPECT_EQ(has_line(image, "two groups of warps multiply in turns"), e.copy_warps && e.num_warps == 8);
    if (std::string_view(e.kernel) == "forward_persistent") {
      EXPECT_TRUE(has_line(image, "bulk copies ahead of the loops, issued by warps of their own")) << "Q";
    }
  }
}

TEST(Attention, NoSpillsAndProductsAreNotWaitedFor) {
  SKIP_WITHOUT_PTXAS();
  for (const Engines& e : kEngines) {
    SCOPED_TRACE(fmt::format("{} {}", e.kernel, e.arguments));
    const PtxasRun run = assemble(compiled(e, "f16").ptx, "sm_90a");
    EXPECT_EQ(run.status, 0) << run.log;
    EXPECT_FALSE(spills(run)) << run.log;
    EXPECT_EQ(run.log.find("C75"), std::string::npos) << run.log;
  }
}

}  // namespace
}  // namespace tegula
