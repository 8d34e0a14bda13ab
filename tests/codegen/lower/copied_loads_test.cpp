// label: device
// heavy: CopiedLoads.AreWhatTheyLoad
// Loops whose products' operands are computed from more than registers hold ahead: what is loaded comes through shared
// memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "dsl/tegula.h"
#include "runtime/base/float16.h"
#include "tests/codegen/lower/dot_support.h"
#include "tests/codegen/lower/ptx_support.h"
#include "tests/devices.h"

namespace tegula {
namespace {

// The state S of a delta rule with gates, chunk by chunk: X = U - W S, S = S / 2 + (K 2^G)^T X.
constexpr const char* kKernels = R"(
import triton
import triton.language as tl

@triton.jit
def states(k, g, w, u, states, T, K: tl.constexpr, V: tl.constexpr, BT: tl.constexpr, REVERSE: tl.constexpr):
    chunks = tl.cdiv(T, BT)
    ks, vs = tl.arange(0, K), tl.arange(0, V)
    s = tl.zeros((K, V), tl.float32)
    for i in range(chunks):
        at = chunks - 1 - i if REVERSE else i
        t = at * BT + tl.arange(0, BT)
        row, column = t[:, None] < T, t[None, :] < T
        tl.store(states + at * K * V + ks[:, None] * V + vs[None, :], s)
        b_w = tl.load(w + t[:, None] * K + ks[None, :], mask=row, other=0.0)
        x = tl.load(u + t[:, None] * V + vs[None, :], mask=row, other=0.0) - tl.dot(b_w, s.to(b_w.dtype))
        b_k = tl.load(k + ks[:, None] + t[None, :] * K, mask=column, other=0.0)
        b_g = tl.load(g + ks[:, None] + t[None, :] * K, mask=column, other=0.0)
        b_k = (b_k * tl.exp2(b_g)).to(b_k.dtype)
        s = tl.dot(b_k, x.to(b_k.dtype), s * 0.5)

@triton.jit
def beside(a, b, c, product, total, K, STAGES: tl.constexpr):
    i, j = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    acc, s = tl.zeros((64, 64), tl.float32), tl.zeros((64, 64), tl.float32)
    for k in tl.range(0, K, 64, num_stages=STAGES):
        acc = tl.dot(tl.load(a + i * K + k + j), tl.load(b + (k + i) * 64 + j), acc)
        s += tl.load(c + (k + i) * 64 + j)
    tl.store(product + i * 64 + j, acc)
    tl.store(total + i * 64 + j, s)

@triton.jit
def paged(out, pages, a, b, n, M: tl.constexpr, K: tl.constexpr):
    m, k, j = tl.arange(0, M)[:, None], tl.arange(0, K), tl.arange(0, 64)[None, :]
    acc = tl.zeros((M, 64), tl.float32)
    for i in range(n):
        page = tl.load(pages + i)
        x = tl.load(a + (page * M + m) * K + k[None, :])
        y = tl.load(b + (page * K + k[:, None]) * 64 + j)
        acc = acc * 0.5 + tl.dot(tl.exp2(x).to(tl.bfloat16), y)
    tl.store(out + m * 64 + j, acc)

@triton.jit
def reflected(x, w, out, n, K: tl.constexpr, BT: tl.constexpr):
    i, j = tl.arange(0, K)[:, None], tl.arange(0, K)[None, :]
    s = tl.zeros((K, K), tl.float32)
    for c in range(n):
        t = c * BT + tl.arange(0, BT)
        b_x = tl.load(x + t[:, None] * K + j)
        b_w = tl.load(w + i + t[None, :] * K)
        tl.store(out + t[:, None] * K + j, b_x - tl.dot(b_x, tl.trans(s.to(b_x.dtype))))
        s = tl.dot((b_w - tl.dot(s.to(b_w.dtype), b_w)).to(b_x.dtype), b_x, s)

@triton.jit
def scaled(x, w, out, n, K: tl.constexpr):
    i, j = tl.arange(0, K)[:, None], tl.arange(0, K)[None, :]
    a = tl.load(w + i + j * K)
    s = tl.zeros((K, K), tl.float32)
    for c in range(n):
        b_x = tl.load(x + (c * K + i) * K + j)
        scale = tl.load(w + c * K + tl.arange(0, K))
        s += tl.dot(tl.trans(b_x * scale[:, None]), a)
        s += tl.dot(a, b_x) * b_x
    tl.store(out + i * K + j, s)
)";

Kernel kernel_named(const char* name) {
  static Program program = Program::parse(kKernels, "states.py");
  return program.kernel(name);
}

Kernel& kernel() {
  static Kernel kernel = kernel_named("states");
  return kernel;
}

struct Case {
  int rows;
  int k = 64, v = 64, chunk = 64;
  bool reverse = false;
  LaunchOptions options = {};
};

void check(Device& device, const Case& c) {
  SCOPED_TRACE(fmt::format("{}: {} rows of {} and {} in chunks of {}{}, {} warps, {} stages", device.info().name,
                           c.rows, c.k, c.v, c.chunk, c.reverse ? ", the last one first" : "", c.options.num_warps,
                           c.options.num_stages));
  auto few = [&](int columns, unsigned seed) {
    auto values = random_values<float>(size_t(c.rows) * columns, seed);
    for (float& x : values) x *= 0.125f;
    return values;
  };
  auto halves = [](const std::vector<float>& values) { return std::vector<bfloat16>(values.begin(), values.end()); };
  const auto k = halves(few(c.k, 1)), w = halves(few(c.k, 2)), u = halves(few(c.v, 3));
  const auto g = few(c.k, 4);
  const int chunks = (c.rows + c.chunk - 1) / c.chunk;
  std::vector<double> s(size_t(c.k) * c.v), exact(size_t(chunks) * s.size());
  for (int i = 0; i < chunks; ++i) {
    const int at = c.reverse ? chunks - 1 - i : i;
    std::copy(s.begin(), s.end(), exact.begin() + int64_t(at) * int64_t(s.size()));
    std::vector<double> next = s;
    for (double& x : next) x /= 2;
    for (int t = at * c.chunk; t < std::min(c.rows, (at + 1) * c.chunk); ++t)
      for (int j = 0; j < c.v; ++j) {
        double x = double(float(u[size_t(t) * c.v + j]));
        for (int l = 0; l < c.k; ++l) x -= double(float(w[size_t(t) * c.k + l])) * s[size_t(l) * c.v + j];
        for (int l = 0; l < c.k; ++l)
          next[size_t(l) * c.v + j] +=
              double(float(k[size_t(t) * c.k + l])) * std::exp2(double(g[size_t(t) * c.k + l])) * x;
      }
    s = std::move(next);
  }
  Buffer dk(device, k), dg(device, g), dw(device, w), du(device, u), out(device, exact.size() * sizeof(float));
  device.fill(out.address(), 0xff, out.bytes());
  LaunchOptions options = c.options;
  options.constexprs = {{"K", c.k}, {"V", c.v}, {"BT", c.chunk}, {"REVERSE", c.reverse}};
  kernel().launch(device, {1}, options, dk.as<bfloat16>(), dg.as<float>(), dw.as<bfloat16>(), du.as<bfloat16>(),
                  out.as<float>(), c.rows);
  EXPECT_LE(relative_error(out.download<float>(), exact), 1e-2);
}

TEST(CopiedLoads, AreWhatTheyLoad) {
  const Devices devices =
      gpu_or_emulators({{.target = "sm_80"}, {.target = "sm_90a"}, {.target = "sm_90a", .seed = 1}});
  for (auto& device : devices)
    for (const bool reverse : {false, true}) {
      check(*device, {.rows = 448, .reverse = reverse});
      check(*device, {.rows = 200, .reverse = reverse, .options = {.num_stages = 2}});
      check(*device, {.rows = 330, .reverse = reverse, .options = {.num_stages = 4, .bulk_copies = 1}});
      check(*device, {.rows = 300, .k = 128, .reverse = reverse, .options = {.num_warps = 8}});
      check(*device, {.rows = 100, .k = 32, .v = 32, .chunk = 32, .reverse = reverse});
      check(*device, {.rows = 260, .v = 128, .reverse = reverse, .options = {.maxnreg = 128}});
    }
}

// A loop that does nothing else but sum up a product, beside loads that it has run ahead too.
TEST(CopiedLoads, BesideSumsInFlight) {
  const Devices devices = gpu_or_emulators({{.target = "sm_90a"}, {.target = "sm_90a", .seed = 1}});
  constexpr int kDepth = 512;
  const auto a = random_values<bfloat16>(64 * kDepth, 1), b = random_values<bfloat16>(64 * kDepth, 2);
  const auto c = random_values<float>(64 * kDepth, 3);
  std::vector<double> product(64 * 64), total(64 * 64);
  for (int i = 0; i < 64; ++i)
    for (int k = 0; k < kDepth; ++k)
      for (int j = 0; j < 64; ++j)
        product[size_t(i) * 64 + j] += double(float(a[size_t(i) * kDepth + k])) * double(float(b[size_t(k) * 64 + j]));
  for (int k = 0; k < kDepth; ++k)
    for (int j = 0; j < 64; ++j) total[size_t(k % 64) * 64 + j] += c[size_t(k) * 64 + j];
  Kernel beside = kernel_named("beside");
  for (auto& device : devices)
    for (const int stages : {2, 3, 6})
      for (const int maxnreg : {0, 96}) {
        SCOPED_TRACE(fmt::format("{} stages, {} registers", stages, maxnreg));
        Buffer da(*device, a), db(*device, b), dc(*device, c), dp(*device, 4 * product.size()),
            dt(*device, 4 * total.size());
        beside.launch(*device, {1}, {.constexprs = {{"STAGES", stages}}, .maxnreg = maxnreg}, da.as<bfloat16>(),
                      db.as<bfloat16>(), dc.as<float>(), dp.as<float>(), dt.as<float>(), kDepth);
        EXPECT_LE(relative_error(dp.download<float>(), product), 1e-5);
        EXPECT_LE(relative_error(dt.download<float>(), total), 1e-5);
      }
}

// More iterations are asked for than registers hold indices ahead, so that no more slots than these can be filled.
TEST(CopiedLoads, GoNoFurtherThanIndicesThatAreLoadedAhead) {
  const Devices devices =
      gpu_or_emulators({{.target = "sm_80"}, {.target = "sm_90a"}, {.target = "sm_90a", .seed = 1}});
  constexpr int kPages = 23;
  Kernel paged = kernel_named("paged");
  for (auto [m, k] : {std::pair{64, 32}, {64, 16}, {32, 64}}) {
    std::vector<int32_t> pages(kPages);
    for (int i = 0; i < kPages; ++i) pages[size_t(i)] = i * 7 % kPages;
    const auto a = random_values<float>(size_t(kPages) * m * k, 1);
    const auto b = random_values<bfloat16>(size_t(kPages) * k * 64, 2);
    std::vector<double> exact(size_t(m) * 64);
    for (const int page : pages)
      for (int i = 0; i < m; ++i)
        for (int j = 0; j < 64; ++j) {
          double& sum = exact[size_t(i) * 64 + j];
          sum /= 2;
          for (int l = 0; l < k; ++l)
            sum += std::exp2(double(a[(size_t(page) * m + i) * k + l])) *
                   double(float(b[(size_t(page) * k + l) * 64 + j]));
        }
    for (auto& device : devices)
      for (const int stages : {3, 8, 12})
        for (const int maxnreg : {0, 24}) {
          SCOPED_TRACE(fmt::format("{}: {} x {}, {} stages, {} registers", device->info().name, m, k, stages, maxnreg));
          Buffer dp(*device, pages), da(*device, a), db(*device, b), out(*device, 4 * exact.size());
          paged.launch(*device, {1}, {.constexprs = {{"M", m}, {"K", k}}, .num_stages = stages, .maxnreg = maxnreg},
                       out.as<float>(), dp.as<int32_t>(), da.as<float>(), db.as<bfloat16>(), kPages);
          EXPECT_LE(relative_error(out.download<float>(), exact), 1e-2);
        }
  }
}

KernelImage image(LaunchOptions options, bool reverse, int columns = 128) {
  const ArgType halves{.elem = Elem::BF16, .pointer = true, .divisible_by = 16};
  const ArgType floats{.elem = Elem::F32, .pointer = true, .divisible_by = 16}, number{.elem = Elem::I32};
  options.constexprs = {{"K", 64}, {"V", columns}, {"BT", 64}, {"REVERSE", reverse}};
  const std::vector<ArgType> types{halves, floats, halves, halves, floats, number};
  return kernel().compile(types, options, "sm_90a");
}

std::string code(const LaunchOptions& options, bool reverse) { return image(options, reverse).ptx; }

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// Operands that other ops take too.
TEST(CopiedLoads, AreReadFromTheirPlacesBesideProducts) {
  constexpr int kWidth = 128, kRows = 64, kBlocks = 3;
  Kernel reflected = kernel_named("reflected");
  auto with = [](int num_stages) {
    return LaunchOptions{.constexprs = {{"K", kWidth}, {"BT", kRows}}, .num_warps = 8, .num_stages = num_stages};
  };
  const ArgType halves{.elem = Elem::BF16, .pointer = true, .divisible_by = 16};
  const ArgType sums{.elem = Elem::F32, .pointer = true, .divisible_by = 16};
  const std::vector<ArgType> types{halves, halves, sums, {.elem = Elem::I32}};
  const std::string ptx = reflected.compile(types, with(3), "sm_90a").ptx;
  EXPECT_EQ(count(ptx, "ld.global"), 0u);
  EXPECT_LE(count(ptx, "bar.sync"), 3u);  // 6 where they are stored a second time, into places of the products' own

  std::vector<bfloat16> x = random_values<bfloat16>(kBlocks * kRows * kWidth, 1);
  std::vector<bfloat16> w = random_values<bfloat16>(kBlocks * kRows * kWidth, 2);
  for (bfloat16& value : w) value = bfloat16(float(value) / 128);
  for (auto& device : gpu_or_emulators({{.target = "sm_90a"}, {.target = "sm_90a", .seed = 1}})) {
    auto results = [&](int num_stages) {
      Buffer dx(*device, x), dw(*device, w), out(*device, x.size() * sizeof(float));
      reflected.launch(*device, {1}, with(num_stages), dx.as<bfloat16>(), dw.as<bfloat16>(), out.as<float>(), kBlocks);
      return out.download<float>();
    };
    const std::vector<double> expected = numbers(results(1));
    for (int num_stages : {2, 3}) EXPECT_LE(relative_error(results(num_stages), expected), 1e-2) << num_stages;
  }
}

// Elements that lie side by side are read together, though another operand is loaded across.
TEST(CopiedLoads, AreReadAsTheyWereCopiedToBeStoredAgain) {
  Kernel scaled = kernel_named("scaled");
  const ArgType halves{.elem = Elem::BF16, .pointer = true, .divisible_by = 16};
  const ArgType sums{.elem = Elem::F32, .pointer = true, .divisible_by = 16};
  const std::vector<ArgType> types{halves, halves, sums, {.elem = Elem::I32}};
  const LaunchOptions options{.constexprs = {{"K", 64}}, .num_warps = 4, .num_stages = 3};
  const std::string ptx = scaled.compile(types, options, "sm_90a").ptx;
  EXPECT_LE(count(ptx, "ld.shared.b16"), 8u);  // 32 more of a column
  EXPECT_GE(count(ptx, "ldmatrix"), 4u);
}

TEST(CopiedLoads, RunAheadInSharedMemory) {
  for (const bool reverse : {false, true}) {
    const std::string by_threads = code({.bulk_copies = 1}, reverse);
    EXPECT_EQ(count(by_threads, "ld.global"), 0u);
    EXPECT_GT(count(by_threads, "cp.async.cg.shared.global"), 0u);
  }
  EXPECT_EQ(count(code({}, false), "ld.global"), 0u);
}

// They fit the registers of one iteration, and take more of them than other programs could do without.
TEST(CopiedLoads, LeaveRegistersToOtherPrograms) { EXPECT_EQ(count(image({}, false, 32).ptx, "ld.global"), 0u); }

// Registers hold each program's own part ahead; what all programs read is in a cache. Blocks of K that are there or are
// not take no more instructions than those of steps that divide K.
TEST(CopiedLoads, LeaveWhatAllProgramsReadInPlace) {
  for (const char* even : {"EVEN_K=1", "EVEN_K=0"}) {
    const std::string arguments = fmt::format(
        "out_ptr=*f16 a_ptr=*f16 b_ptr=*u8 scales_ptr=*f16 zeros_ptr=*u8=0 bias_ptr=*f16=0 partials_ptr=*f32 "
        "counters_ptr=*i32 EPILOGUE=none PACKED=int4 GROUP=128 BLOCK_M=2 BLOCK_N=8 STEP=2048 PROGRAMS=0 STAGES=2 "
        "SHARES=4 BLOCK_K=128 {} EVEN_BLOCKS=1 SCALED=0 TOGETHER=0 BYTES=0",
        even);
    kernel_texts::Specialisation weights =
        kernel_texts::specialisation({"kernels/quantised_gemm.py", "quantised_gemm", arguments.c_str(), 4}, 4);
    weights.options.maxnreg = 128;
    const std::string ptx = weights.kernel.compile(weights.types, weights.options, "sm_90a").ptx;
    EXPECT_EQ(count(ptx, "cp.async"), 0u) << even;
    EXPECT_EQ(count(ptx, "ld.global.b32"), 0u) << even;
    EXPECT_GE(count(ptx, "ld.global.v4"), 8u) << even;
  }
}

TEST(CopiedLoads, ByThreadsAreNotBesideBulkStores) {
  std::string why_not;
  for (const Transfer& transfer : image({}, true).transfers)
    if (transfer.by == "stores by threads") why_not += transfer.why_not;
  EXPECT_EQ(why_not, "threads copy in the loop around it");
}

}  // namespace
}  // namespace tegula
