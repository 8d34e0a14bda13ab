// label: device
// Two groups of warps that take the tiles of a persistent program in turns.
#include <algorithm>
#include <random>

#include "codegen/exec/emulator.h"
#include "dsl/tegula.h"
#include "runtime/base/float16.h"
#include "tests/assembler.h"

namespace tegula {
namespace {

constexpr const char* kProduct = R"(
import triton
import triton.language as tl

@triton.jit
def product(c_ptr, a_ptr, b_ptr, bias_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, SWAP: tl.constexpr, ACTIVATION: tl.constexpr,
            ONE_PLACE: tl.constexpr, COUNTER: tl.constexpr):
    depth = tl.arange(0, 64)
    if COUNTER:
        place = tl.program_id(0) - tl.num_programs(0)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N), tl.num_programs(0)):
        row = tile // tl.cdiv(N, BLOCK_N) * BLOCK_M + tl.arange(0, BLOCK_M)
        col = tile % tl.cdiv(N, BLOCK_N) * BLOCK_N + tl.arange(0, BLOCK_N)
        acc = tl.zeros((BLOCK_N, BLOCK_M) if SWAP else (BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, 64):
            a = tl.load(a_ptr + row[:, None] * K + (k + depth)[None, :], mask=row[:, None] < M, other=0.0)
            b = tl.load(b_ptr + col[:, None] * K + (k + depth)[None, :], mask=col[:, None] < N, other=0.0)
            acc = tl.dot(b, a.T, acc) if SWAP else tl.dot(a, b.T, acc)
        if SWAP:
            acc = acc.T
        if bias_ptr is not None:
            acc += tl.load(bias_ptr + col, mask=col < N, other=0.0)[None, :]
        if ACTIVATION:
            acc = tl.maximum(acc, 0.0) * 2.0
        if COUNTER:  # as programs do whose loops were made one, for the results alone
            place += tl.num_programs(0)
            row = place // tl.cdiv(N, BLOCK_N) * BLOCK_M + tl.arange(0, BLOCK_M)
            col = place % tl.cdiv(N, BLOCK_N) * BLOCK_N + tl.arange(0, BLOCK_N)
        if ONE_PLACE:
            row = tl.arange(0, BLOCK_M)
            col = tl.arange(0, BLOCK_N)
        mask = (row[:, None] < M) & (col[None, :] < N)
        tl.store(c_ptr + row[:, None] * N + col[None, :], acc.to(c_ptr.dtype.element_ty), mask=mask)
)";

constexpr const char* kInTurns = "two groups of warps take tiles in turns";

struct Product {
  int m = 328, n = 264, k = 192;  // tiles in part outside
  int block_m = 64, block_n = 128;
  int programs = 2, stages = 3, bulk_copies = 0;
  bool swap = false, activation = false, bias = false, one_place = false, counter = false;
  int ctas = 1;
};

bool has_line(const KernelImage& image, std::string_view by) {
  return std::any_of(image.transfers.begin(), image.transfers.end(), [&](const Transfer& t) { return t.by == by; });
}

LaunchOptions options_of(const Product& p) {
  return {.constexprs = {{"BLOCK_M", p.block_m},
                         {"BLOCK_N", p.block_n},
                         {"SWAP", p.swap},
                         {"ACTIVATION", p.activation},
                         {"ONE_PLACE", p.one_place},
                         {"COUNTER", p.counter}},
          .num_warps = 4,
          .num_stages = p.stages,
          .warp_specialize = 3,
          .bulk_copies = p.bulk_copies,
          .num_ctas = p.ctas};
}

Kernel kernel_of() { return Program::parse(kProduct, "product.py").kernel("product"); }

KernelImage compiled(const Product& p, Elem result) {
  ArgType matrix{.elem = Elem::F16, .pointer = true, .divisible_by = 16}, number{.elem = Elem::I32, .divisible_by = 8};
  ArgType c = matrix, bias = matrix;
  c.elem = result;
  bias.elem = Elem::F32;
  if (!p.bias) bias.constant = 0;
  const std::vector<ArgType> types{c, matrix, matrix, bias, number, number, number};
  return kernel_of().compile(types, options_of(p), "sm_90a", true);
}

// Small whole numbers, so that each sum is exact.
std::vector<float16> numbers(int count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float16> all(static_cast<size_t>(count));
  for (float16& x : all) x = float16(float(int(random() % 9) - 4));
  return all;
}

template <class T>
std::vector<T> reference(const Product& p, const std::vector<float16>& a, const std::vector<float16>& b,
                         const std::vector<float>& bias) {
  std::vector<T> c(size_t(p.m * p.n), T(-99.0f));
  const int tiles_n = (p.n + p.block_n - 1) / p.block_n, tiles_m = (p.m + p.block_m - 1) / p.block_m;
  for (int tile = 0; tile < tiles_m * tiles_n; ++tile)
    for (int r = 0; r < p.block_m; ++r)
      for (int s = 0; s < p.block_n; ++s) {
        const int i = tile / tiles_n * p.block_m + r, j = tile % tiles_n * p.block_n + s;
        const bool exists = i < p.m && j < p.n;
        if (p.one_place ? r >= p.m || s >= p.n : !exists) continue;
        float sum = p.bias && j < p.n ? bias[size_t(j)] : 0;
        for (int k = 0; exists && k < p.k; ++k) sum += float(a[size_t(i * p.k + k)]) * float(b[size_t(j * p.k + k)]);
        if (p.activation) sum = std::max(sum, 0.0f) * 2;
        c[p.one_place ? size_t(r * p.n + s) : size_t(i * p.n + j)] = T(sum);
      }
  return c;
}

template <class T>
void check(const Product& p, const std::vector<uint64_t>& seeds = {0}) {
  SCOPED_TRACE(fmt::format("{}x{}x{} in tiles of {}x{}, {} programs, {} stages, bulk_copies {}", p.m, p.n, p.k,
                           p.block_m, p.block_n, p.programs, p.stages, p.bulk_copies));
  const KernelImage image = compiled(p, elem_of<T>().value());
  ASSERT_TRUE(has_line(image, kInTurns));
  EXPECT_EQ(image.num_warps, 8);
  EXPECT_EQ(image.threads(), 384);
  const std::vector<float16> a = numbers(p.m * p.k, 1), b = numbers(p.n * p.k, 2);
  std::vector<float> bias(size_t(p.n), 0);
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = float(i % 5);
  const std::vector<T> expected = reference<T>(p, a, b, bias);
  for (uint64_t seed : seeds) {
    auto device = make_emulator({.threads = 1, .seed = seed, .check_races = true});
    Buffer da(*device, a), db(*device, b), dbias(*device, bias),
        dc(*device, std::vector<T>(expected.size(), T(-99.0f)));
    const auto launch = [&](const auto& row) {
      kernel_of().launch(*device, {unsigned(p.programs)}, options_of(p), dc.as<T>(), da.as<float16>(), db.as<float16>(),
                         row, p.m, p.n, p.k);
    };
    p.bias ? launch(dbias.as<float>()) : launch(nullptr);
    const std::vector<T> out = dc.template download<T>();
    for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(float(out[i]), float(expected[i])) << i << ", seed " << seed;
  }
}

TEST(TilesInTurns, Products) {
  check<float16>({}, {0, 1, 2, 3});
  check<float>({.block_n = 64, .activation = true, .bias = true}, {0, 1, 2});
  check<float16>({.n = 256, .block_n = 192, .bias = true}, {0, 4});
  check<float16>({.m = 264, .n = 264, .block_m = 128, .swap = true}, {0, 1});
  check<float16>({.bulk_copies = 2}, {0, 5});
  check<float16>({.counter = true}, {0, 1});
  check<float16>({.block_m = 128, .bias = true, .ctas = 2}, {0, 1, 2});  // whose blocks copy for each other
}

TEST(TilesInTurns, AnyNumberOfTilesAndSteps) {
  for (int k : {0, 64, 128, 256, 320, 576})
    check<float16>({.m = 192, .n = 136, .k = k, .programs = 1, .stages = k % 128 ? 3 : 2}, {uint64_t(k)});
  for (int tiles : {1, 2, 3, 4, 7})  // more programs than tiles, too
    for (int programs : {1, 3}) check<float16>({.m = 64 * tiles, .n = 64, .block_n = 64, .programs = programs}, {0, 1});
}

// What tiles store to the same place is stored in their order, in bulk and by threads.
TEST(TilesInTurns, StoresKeepTheOrderOfTiles) {
  const std::vector<uint64_t> seeds{0, 1, 2, 3, 4, 5};
  check<float16>({.m = 192, .n = 256, .k = 64, .programs = 1, .one_place = true}, seeds);
  check<float>({.m = 192, .n = 256, .k = 64, .programs = 1, .activation = true, .one_place = true}, seeds);
}

// ---- Where it is not possible

constexpr const char* kRefused = R"(
import triton
import triton.language as tl

@triton.jit
def refused(c_ptr, a_ptr, b_ptr, M, N, K, FORM: tl.constexpr):
    depth = tl.arange(0, 64)
    row, col = tl.arange(0, 64), tl.arange(0, 64)
    total = 0.0
    for tile in tl.range(tl.program_id(0), M // 64 if FORM != "once" else tl.program_id(0) + 1, tl.num_programs(0)):
        acc = tl.zeros((64, 64), dtype=tl.float32)
        if FORM == "store ahead":
            tl.store(c_ptr + tile * 4096 + row, 0.0)
        for k in range(0, K if FORM != "causal" else tile * 64, 64):
            a = tl.load(a_ptr + (tile * 64 + row)[:, None] * K + (k + depth)[None, :])
            b = tl.load(b_ptr + col[:, None] * K + (k + depth)[None, :])
            acc = tl.dot(a, b.T, acc)
        if FORM == "print":
            tl.device_print("tile", tile)
        if FORM == "atomic":
            tl.atomic_add(c_ptr + row, 1.0, sem="relaxed")
        if FORM == "reads":
            acc += tl.load(c_ptr + row)[:, None]
        if FORM == "carries":
            total += tl.sum(acc)
        tl.store(c_ptr + tile * 4096 + row[:, None] * 64 + col[None, :], acc)
    if FORM == "store behind":
        tl.store(c_ptr + row, 0.0)
    if FORM == "carries":
        tl.store(c_ptr, total)
)";

TEST(TilesInTurns, SaysWhyNot) {
  struct Case {
    const char* form;
    int num_warps;
    std::string why;
  };
  const std::vector<Case> cases{
      {"none", 4, ""},
      {"none", 8, "groups have 4 warps (num_warps)"},
      {"store ahead", 4, "something is stored ahead of the products"},
      {"causal", 4, "the loop has another number of iterations in each tile"},
      {"print", 4, "the two would do 'device_print' in no order"},
      {"atomic", 4, "the two would do 'atomic_rmw' in no order"},
      {"reads", 4, "the two would do 'load' in no order"},
      {"carries", 4, "the loop over tiles hands values on"},
      {"store behind", 4, "the two would do 'store' in no order"},
  };
  ArgType matrix{.elem = Elem::F16, .pointer = true, .divisible_by = 16}, number{.elem = Elem::I32, .divisible_by = 64};
  ArgType result = matrix;
  result.elem = Elem::F32;
  const std::vector<ArgType> types{result, matrix, matrix, number, number, number};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.form);
    const LaunchOptions options{
        .constexprs = {{"FORM", c.form}}, .num_warps = c.num_warps, .num_stages = 3, .warp_specialize = 3};
    const KernelImage image =
        Program::parse(kRefused, "refused.py").kernel("refused").compile(types, options, "sm_90a");
    EXPECT_EQ(has_line(image, kInTurns), c.why.empty());
    EXPECT_EQ(image.num_warps, c.why.empty() ? 8 : c.num_warps);
    if (!c.why.empty()) {
      EXPECT_TRUE(has_line(image, "one group of warps takes all tiles, not two in turns: " + c.why));
    }
  }
}

// The loop over tiles may ask for it itself.
TEST(TilesInTurns, ByTheLoop) {
  std::string text = kProduct;
  const std::string before = "tl.num_programs(0)):";
  text.replace(text.find(before), before.size(), "tl.num_programs(0), warp_specialize=True):");
  LaunchOptions options = options_of({});
  options.warp_specialize = 0;
  ArgType matrix{.elem = Elem::F16, .pointer = true, .divisible_by = 16}, number{.elem = Elem::I32, .divisible_by = 8};
  ArgType bias = matrix;
  bias.constant = 0;
  const std::vector<ArgType> types{matrix, matrix, matrix, bias, number, number, number};
  EXPECT_TRUE(
      has_line(Program::parse(text, "product.py").kernel("product").compile(types, options, "sm_90a"), kInTurns));
}

// ---- What an assembler makes of it

TEST(TilesInTurns, NoSpillsAndProductsAreNotWaitedFor) {
  SKIP_WITHOUT_PTXAS();
  for (const Product& p : std::vector<Product>{
           {.block_m = 128, .block_n = 192, .activation = true, .bias = true},
           {.block_m = 192, .block_n = 128, .swap = true},
           {.block_m = 64, .block_n = 256, .bias = true},
           {.block_m = 256, .block_n = 192, .activation = true, .bias = true, .ctas = 2},
           {.block_m = 128, .block_n = 128, .stages = 5},
       }) {
    SCOPED_TRACE(fmt::format("{}x{}, {} blocks", p.block_m, p.block_n, p.ctas));
    ArgType matrix{.elem = Elem::F16, .pointer = true, .divisible_by = 16};
    ArgType number{.elem = Elem::I32, .divisible_by = 16}, bias = matrix;
    if (!p.bias) bias.constant = 0;
    const std::vector<ArgType> types{matrix, matrix, matrix, bias, number, number, number};
    const KernelImage image = kernel_of().compile(types, options_of(p), "sm_90a");
    EXPECT_TRUE(has_line(image, kInTurns));
    EXPECT_NE(image.ptx.find("setmaxnreg.inc.sync.aligned.u32 232"), std::string::npos);
    EXPECT_NE(image.ptx.find("setmaxnreg.dec.sync.aligned.u32 40"), std::string::npos);
    const PtxasRun run = assemble(image.ptx, "sm_90a");
    EXPECT_EQ(run.status, 0) << run.log;
    EXPECT_FALSE(spills(run)) << run.log;
    EXPECT_EQ(run.log.find("C75"), std::string::npos) << run.log;
  }
}

// heavy: TilesInTurns.Products
// heavy: TilesInTurns.ManySeeds
TEST(TilesInTurns, ManySeeds) {
  std::vector<uint64_t> seeds(40);
  for (size_t i = 0; i < seeds.size(); ++i) seeds[i] = i + 100;
  check<float16>({.m = 192, .n = 136, .k = 320, .programs = 1, .bias = true}, seeds);
}

}  // namespace
}  // namespace tegula
