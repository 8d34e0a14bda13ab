// label: device
// Bulk stores and reductions: results of products that reach their arrays box by box, and what the emulator says of
// mistakes.
#include <limits>
#include <random>

#include "dsl/tegula.h"
#include "runtime/base/float16.h"
#include "tests/assembler.h"
#include "tests/checks_off.h"
#include "tests/codegen/exec/emulator/emulator_kernels.h"

namespace tegula {
namespace {

// ---- Products

constexpr const char* kProduct = R"(
import triton
import triton.language as tl

@triton.jit
def one(tile, c_ptr, a_ptr, b_ptr, M, N, K, stride_c, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, SWAP: tl.constexpr, WRAP: tl.constexpr):
    depth = tl.arange(0, 64)
    row = tile // tl.cdiv(N, BLOCK_N) * BLOCK_M + tl.arange(0, BLOCK_M)
    col = tile % tl.cdiv(N, BLOCK_N) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_N, BLOCK_M) if SWAP else (BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, 64):
        if WRAP:
            a = tl.load(a_ptr + (row % M)[:, None] * K + (k + depth)[None, :])
            b = tl.load(b_ptr + (col % N)[:, None] * K + (k + depth)[None, :])
        else:
            a = tl.load(a_ptr + row[:, None] * K + (k + depth)[None, :], mask=row[:, None] < M, other=0.0)
            b = tl.load(b_ptr + col[:, None] * K + (k + depth)[None, :], mask=col[:, None] < N, other=0.0)
        acc = tl.dot(b, a.T, acc) if SWAP else tl.dot(a, b.T, acc)
    if SWAP:
        acc = acc.T
    mask = (row[:, None] < M) & (col[None, :] < N)
    tl.store(c_ptr + row[:, None] * stride_c + col[None, :], acc.to(c_ptr.dtype.element_ty), mask=mask)

@triton.jit
def product(c_ptr, a_ptr, b_ptr, M, N, K, stride_c, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, LOOP: tl.constexpr, SWAP: tl.constexpr, WRAP: tl.constexpr):
    if LOOP:
        for tile in tl.range(tl.program_id(0), tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N), tl.num_programs(0)):
            one(tile, c_ptr, a_ptr, b_ptr, M, N, K, stride_c, BLOCK_M, BLOCK_N, SWAP, WRAP)
    else:
        one(tl.program_id(0), c_ptr, a_ptr, b_ptr, M, N, K, stride_c, BLOCK_M, BLOCK_N, SWAP, WRAP)
)";

struct Product {
  int m = 136, n = 200, k = 64;
  int block_m = 64, block_n = 128, warps = 4;
  bool loop = true, swap = false, wrap = false;
  int gap = 16, n_divides = 8;  // behind a row; N is known to be a multiple of it
};

// A product of small whole numbers, each sum exact, and what surrounds it in memory, for some seeds of the emulator.
template <class T>
void check(const Product& p, int bulk_copies, const std::string& by, const std::vector<uint64_t>& seeds = {0}) {
  SCOPED_TRACE(fmt::format("{}x{}x{} in tiles of {}x{}{}{}", p.m, p.n, p.k, p.block_m, p.block_n,
                           p.loop ? ", persistent" : "", p.swap ? ", transposed" : ""));
  std::mt19937 random(3);
  std::vector<float16> a(size_t(p.m * p.k)), b(size_t(p.n * p.k));
  for (auto* values : {&a, &b})
    for (float16& x : *values) x = float16(float(int(random() % 9) - 4));
  const int stride = p.n + p.gap;
  std::vector<T> expected(size_t(p.m * stride), T(-99.0f));
  for (int i = 0; i < p.m; ++i)
    for (int j = 0; j < p.n; ++j) {
      float sum = 0;
      for (int k = 0; k < p.k; ++k) sum += float(a[size_t(i * p.k + k)]) * float(b[size_t(j * p.k + k)]);
      expected[size_t(i * stride + j)] = T(sum);
    }
  const Kernel kernel = Program::parse(kProduct, "product.py").kernel("product");
  const LaunchOptions options{.constexprs = {{"BLOCK_M", p.block_m},
                                             {"BLOCK_N", p.block_n},
                                             {"LOOP", p.loop},
                                             {"SWAP", p.swap},
                                             {"WRAP", p.wrap}},
                              .num_warps = p.warps,
                              .bulk_copies = bulk_copies};
  ArgType matrix{.elem = Elem::F16, .pointer = true, .divisible_by = 16}, number{.elem = Elem::I32, .divisible_by = 8};
  ArgType result = matrix;
  result.elem = elem_of<T>().value();
  ArgType columns = number;
  columns.divisible_by = p.n_divides;
  const std::vector<ArgType> types{result, matrix, matrix, number, columns, number, number};
  const KernelImage image = kernel.compile(types, options, "sm_90a", true);
  ASSERT_FALSE(image.transfers.empty());
  EXPECT_EQ(image.transfers.back().by, by) << image.transfers.back().why_not;
  if (bulk_copies == 0) {
    EXPECT_EQ(image.transfers[0].why_not, "");
  }
  const unsigned tiles = unsigned((p.m + p.block_m - 1) / p.block_m * ((p.n + p.block_n - 1) / p.block_n));
  for (uint64_t seed : seeds) {
    auto device = make_emulator({.threads = 1, .seed = seed, .check_races = p.swap});
    Buffer da(*device, a), db(*device, b), dc(*device, std::vector<T>(expected.size(), T(-99.0f)));
    kernel.launch(*device, {p.loop ? std::min(tiles, 2u) : tiles}, options, dc.as<T>(), da.as<float16>(),
                  db.as<float16>(), p.m, p.n, p.k, stride);
    const std::vector<T> out = dc.download<T>();
    for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(float(out[i]), float(expected[i])) << i << ", seed " << seed;
  }
}

// ---- Where they do not pay

constexpr const char* kFewProducts = R"(
import triton
import triton.language as tl

@triton.jit
def few(c_ptr, a_ptr, b_ptr, n, HOW: tl.constexpr, PLUS: tl.constexpr = 0):
    i = tl.arange(0, 64)
    at = i[:, None] * 64 + i[None, :]
    acc = tl.zeros((64, 64), tl.float32)
    if HOW == 'loop':
        for k in range(n):
            acc = tl.dot(tl.load(a_ptr + k * 4096 + at), tl.load(b_ptr + k * 4096 + at), acc)
    elif HOW == 'branch':
        if n > 3:
            acc = tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at))
    else:
        acc = tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at))
    tl.store(c_ptr + at, acc + PLUS * tl.program_id(0))
)";

// A program that multiplies once has nothing to do beside its stores.
TEST(BulkStore, ThreadsStoreWhereNoLoopMultiplies) {
  const Kernel kernel = Program::parse(kFewProducts, "few.py").kernel("few");
  ArgType matrix{.elem = Elem::F16, .pointer = true, .divisible_by = 16}, result = matrix;
  result.elem = Elem::F32;
  const std::vector<ArgType> types{result, matrix, matrix, {.elem = Elem::I32}};
  auto last = [&](const char* how, int bulk_copies) {
    const LaunchOptions options{.constexprs = {{"HOW", how}}, .num_warps = 4, .bulk_copies = bulk_copies};
    return kernel.compile(types, options, "sm_90a", true).transfers.back();
  };
  EXPECT_EQ(last("loop", 0).by, "bulk stores");
  for (const char* how : {"branch", "once"}) {
    EXPECT_EQ(last(how, 0).by, "stores by threads") << how;
    EXPECT_EQ(last(how, 0).why_not, "no loop multiplies beside the program") << how;
    EXPECT_EQ(last(how, 2).by, "bulk stores") << how << ": " << last(how, 2).why_not;
  }
}

// Two programs that store the same are no race, as where threads store it.
TEST(BulkStore, OfWhatStandsThereAreNoRace) {
  const Kernel kernel = Program::parse(kFewProducts, "few.py").kernel("few");
  auto device = make_emulator({.check_races = true});
  Buffer a(*device, std::vector<float16>(8192, float16(1.0f))), b(*device, std::vector<float16>(8192, float16(0.5f)));
  for (const auto& [plus, found] : {std::pair{0, "no error"}, {1, "nothing orders the two programs"}}) {
    const LaunchOptions options{.constexprs = {{"HOW", "loop"}, {"PLUS", plus}}, .num_warps = 4};
    Buffer c(*device, std::vector<float>(4096));
    EXPECT_CONTAINS(
        error_of([&] { kernel.launch(*device, {2}, options, c.as<float>(), a.as<float16>(), b.as<float16>(), 2); }),
        found);
  }
}

TEST(BulkStore, ResultsOfProducts) {
  check<float16>({}, 0, "bulk stores", {0, 1, 2});              // tiles in part outside
  check<float>({.loop = false}, 0, "bulk stores", {0, 1});      // the place is where operands were
  check<float16>({.n = 96, .block_n = 192}, 0, "bulk stores");  // three pieces, one of them outside
  check<float16>({.m = 72, .n = 136, .block_m = 96, .block_n = 128, .warps = 8, .loop = false, .swap = true}, 0,
                 "bulk stores", {0, 1});  // four warps fill a box together
  // Rows of 128 + 32 + 8 columns, and of 64 + 32 + 8: a store for each stretch.
  check<float16>({.n = 336, .block_m = 128, .block_n = 168, .warps = 8, .loop = false}, 0, "bulk stores", {0, 1});
  check<float16>({.n = 200, .block_n = 104}, 0, "bulk stores", {0, 1});
  check<bfloat16>({.m = 64, .n = 136}, 1, "stores by threads");
  // Of rows that end within 16 bytes a bulk store would write what lies behind them.
  check<float16>({.n = 196, .gap = 12, .n_divides = 4}, 2, "stores by threads");
  check<float>({.n = 196, .loop = false, .gap = 12, .n_divides = 4}, 0, "bulk stores");
  check<float>({.n = 198, .gap = 10, .n_divides = 2}, 2, "stores by threads");
  // Rows modulo their number: a launch with whole tiles takes bulk copies, the other one code without.
  check<float16>({.m = 128, .n = 256, .wrap = true}, 0, "bulk stores");
  check<float16>({.m = 72, .wrap = true}, 0, "bulk stores");
}

// ---- Products that are combined into an array, by two programs each

constexpr const char* kCombine = R"(
import triton
import triton.language as tl

@triton.jit
def combine(c_ptr, a_ptr, b_ptr, M, K, HOW: tl.constexpr, LOOP: tl.constexpr):
    depth = tl.arange(0, 64)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, 64), tl.num_programs(0) if LOOP else 1000):
        row = tile * 64 + depth
        acc = tl.zeros((64, 64), dtype=tl.float32)
        for k in range(tl.program_id(1) * 64, K, 128):
            a = tl.load(a_ptr + row[:, None] * K + (k + depth)[None, :], mask=row[:, None] < M, other=0.0)
            b = tl.load(b_ptr + depth[:, None] * K + (k + depth)[None, :])
            acc = tl.dot(a, b.T, acc)
        value = acc.to(c_ptr.dtype.element_ty)
        if HOW == "relaxed" or HOW == "acq_rel":
            tl.atomic_add(c_ptr + row[:, None] * 64 + depth[None, :], value, mask=row[:, None] < M, sem=HOW)
        else:
            c = tl.make_tensor_descriptor(c_ptr, [M, 64], [64, 1], [64, 64])
            if HOW == "add":
                c.atomic_add([tile * 64, 0], value)
            elif HOW == "min":
                c.atomic_min([tile * 64, 0], value)
            elif HOW == "max":
                c.atomic_max([tile * 64, 0], value)
            elif HOW == "and":
                c.atomic_and([tile * 64, 0], value)
            elif HOW == "or":
                c.atomic_or([tile * 64, 0], value)
            else:
                c.atomic_xor([tile * 64, 0], value)

@triton.jit
def ordered(c_ptr, a_ptr, b_ptr, K):
    depth = tl.arange(0, 64)
    acc = tl.zeros((64, 64), dtype=tl.float32)
    for k in range(tl.program_id(0) * 64, K, 128):
        a = tl.load(a_ptr + depth[:, None] * K + (k + depth)[None, :])
        b = tl.load(b_ptr + depth[:, None] * K + (k + depth)[None, :])
        acc = tl.dot(a, b.T, acc)
    tl.atomic_add(c_ptr + depth[:, None] * 64 + depth[None, :], acc)
)";

float combined(const std::string& how, float a, float b) {
  if (how == "min") return std::min(a, b);
  if (how == "max") return std::max(a, b);
  if (how == "and") return float(int(a) & int(b));
  if (how == "or") return float(int(a) | int(b));
  if (how == "xor") return float(int(a) ^ int(b));
  return a + b;
}

ArgType pointer_to(Elem elem) { return {.elem = elem, .pointer = true, .divisible_by = 16}; }

template <class T>
KernelImage image_of(const LaunchOptions& options, bool emulator = true) {
  const ArgType number{.elem = Elem::I32, .divisible_by = 8};
  const std::vector<ArgType> types{pointer_to(elem_of<T>().value()), pointer_to(Elem::F16), pointer_to(Elem::F16),
                                   number, number};
  return Program::parse(kCombine, "combine.py").kernel("combine").compile(types, options, "sm_90a", emulator);
}

// Small whole numbers, so that sums are exact in any order.
template <class T>
void check_combined(const std::string& how, bool loop) {
  SCOPED_TRACE(fmt::format("{} of {}", how, elem_info(elem_of<T>().value()).text));
  constexpr int m = 72, n = 64, k = 256;
  std::mt19937 random(5);
  std::vector<float16> a(m * k), b(n * k);
  for (auto* values : {&a, &b})
    for (float16& x : *values) x = float16(float(int(random() % 3) - 1));
  const LaunchOptions options{.constexprs = {{"HOW", how}, {"LOOP", loop}}, .bulk_copies = sizeof(T) == 2 ? 2 : 0};
  const KernelImage image = image_of<T>(options);
  EXPECT_EQ(image.transfers.back().by, "bulk reductions") << image.transfers.back().why_not;
  std::vector<T> start(m * n, T(3.0f)), expected = start;
  for (int i = 0; i < m * n; ++i)
    for (int split : {0, 64}) {
      float sum = 0;
      for (int p = 0; p < k; ++p)
        if (p % 128 / 64 == split / 64) sum += float(a[size_t(i / n * k + p)]) * float(b[size_t(i % n * k + p)]);
      expected[size_t(i)] = T(combined(how, float(expected[size_t(i)]), sum));
    }
  const Kernel kernel = Program::parse(kCombine, "combine.py").kernel("combine");
  for (uint64_t seed : {0, 1, 2}) {
    auto device = make_emulator({.threads = 2, .seed = seed, .check_races = seed == 2});
    Buffer da(*device, a), db(*device, b), dc(*device, start);
    kernel.launch(*device, {loop ? 1u : 2u, 2}, options, dc.as<T>(), da.as<float16>(), db.as<float16>(), m, k);
    const std::vector<T> out = dc.download<T>();
    for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(float(out[i]), float(expected[i])) << i << ", seed " << seed;
  }
}

TEST(BulkReduction, ResultsOfProducts) {
  check_combined<float>("relaxed", true);
  check_combined<float>("add", false);
  check_combined<float16>("add", false);
  check_combined<bfloat16>("max", false);
  for (const char* how : {"add", "min", "max", "and", "or", "xor"}) check_combined<int32_t>(how, false);
}

TEST(BulkReduction, WhatOrdersMemoryStaysWithThreads) {
  auto transfer = [](const std::string& how, auto zero) {
    return image_of<decltype(zero)>({.constexprs = {{"HOW", how}, {"LOOP", true}}}).transfers.back();
  };
  constexpr const char* kWhy =
      "bulk reductions order no memory (sem='relaxed' says so), have scope 'gpu' or 'cta', and types that a "
      "descriptor's atomic functions take";
  EXPECT_EQ(transfer("acq_rel", 0.0f).by, "atomic operations by threads");
  EXPECT_EQ(transfer("acq_rel", 0.0f).why_not, kWhy) << "the next iteration reads";
  EXPECT_EQ(transfer("relaxed", int64_t(0)).why_not, kWhy) << "no sums of such numbers";
  // Where there is nothing that it could order.
  const std::vector<ArgType> types{
      pointer_to(Elem::F32), pointer_to(Elem::F16), pointer_to(Elem::F16), {.elem = Elem::I32, .divisible_by = 8}};
  const KernelImage alone = Program::parse(kCombine, "combine.py").kernel("ordered").compile(types, {}, "sm_90a", true);
  EXPECT_EQ(alone.transfers.back().by, "bulk reductions") << alone.transfers.back().why_not;
}

TEST(BulkReduction, AcceptedByTheAssembler) {
  SKIP_WITHOUT_PTXAS();
  auto check_code = [](const std::string& how, const char* instruction, auto zero) {
    const KernelImage image = image_of<decltype(zero)>({.constexprs = {{"HOW", how}, {"LOOP", false}}}, false);
    EXPECT_CONTAINS(image.ptx,
                    fmt::format("cp.reduce.async.bulk.tensor.2d.global.shared::cta.{}.bulk_group", instruction));
    const PtxasRun run = assemble(image.ptx, "sm_90a");
    EXPECT_EQ(run.status, 0) << run.log;
  };
  check_code("relaxed", "add", 0.0f);
  check_code("min", "min", int32_t(0));
  check_code("xor", "xor", int32_t(0));
}

// ---- Mistakes by hand: one thread stores words to a place, and copies a box of 16 x 8 of them to an array.

const char* const kRows = R"(
declare void @tegula.hw.bulk_store_2d(i32, i64, i32, i32, i1, i32)
declare void @tegula.hw.bulk_add_2d(i32, i64, i32, i32, i1, i32)
declare void @tegula.hw.bulk_max_2d(i32, i64, i32, i32, i1, i32)
declare void @tegula.hw.bulk_store_commit()
declare void @tegula.hw.bulk_store_wait.0()
declare void @tegula.hw.bulk_store_wait.1()
declare void @tegula.hw.bulk_store_wait_all()
declare void @tegula.hw.fence_async_shared()
)";
constexpr int kRowsOfArray = 12, kColumns = 20;

std::string put(int word, int value) {
  return fmt::format(
      "  %a{0} = add i32 %place, {1}\n  call void @tegula.hw.st_shared_b32(i32 %a{0}, i32 {2}, i1 true, i32 1)\n",
      value, 4 * word, value);
}
std::string store(int x, int y, int site = 2) {
  return fmt::format("  call void @tegula.hw.bulk_store_2d(i32 %place, i64 %map, i32 {}, i32 {}, i1 true, i32 {})\n", x,
                     y, site);
}
std::string call(const char* row) { return fmt::format("  call void @tegula.hw.{}()\n", row); }

// The array afterwards, or what the emulator says.
std::string run(const std::string& steps, std::vector<int>* out = nullptr, uint64_t seed = 0,
                int allocated = kRowsOfArray * kColumns, int extent = kColumns) {
  TensorMaps maps;
  maps.steps = {{LaunchStep::Argument, Elem::U64, {}, 0},
                {LaunchStep::Constant, Elem::I32, {}, kColumns},
                {LaunchStep::Constant, Elem::I32, {}, kRowsOfArray},
                {LaunchStep::Constant, Elem::I32, {}, extent}};
  maps.maps = {{Elem::I32, 0, {16, 8}, 0, {3, 2}, {1}}};
  const KernelImage image = make_image({pointer("x", Elem::I32)},
                                       fmt::format(R"(
  %t = call i32 @tegula.hw.thread_id()
  %first = icmp eq i32 %t, 0
  %place = call i32 @tegula.hw.shared_base()
  %map = ptrtoint ptr %map0 to i64
  br i1 %first, label %one, label %end
one:
{}  br label %end
end:
  ret void)",
                                                   steps),
                                       1, 1024, kRows, std::move(maps));
  auto device = make_emulator({.threads = 1, .seed = seed});
  return error_of([&] {
    auto kernel = device->load(image);
    Array<int> x(*device, std::vector<int>(size_t(allocated), -1));
    launch(*kernel, {1}, x.address());
    if (out) *out = x.values();
  });
}

constexpr const char* kTwoResults = R"(
import triton
import triton.language as tl

@triton.jit
def two(wide, narrow, a, b, K, N: tl.constexpr):
    m, n, k = tl.arange(0, 16), tl.arange(0, N), tl.arange(0, 64)
    first = tl.program_id(0) * 16
    acc = tl.zeros((16, N), tl.float32)
    for i in range(0, K, 64):
        acc = tl.dot(tl.load(a + (first + m[:, None]) * K + i + k[None, :]), tl.load(b + (i + k[:, None]) * N + n[None, :]), acc)
    tl.store(wide + (first + m[:, None]) * N + n[None, :], acc)
    tl.store(narrow + (first + m[:, None]) * N + n[None, :], acc.to(tl.float16))
)";

// Pairs of warps hold the boxes of one result, and four warps those of the other: a pair may be at the second store
// while another one is at the first.
TEST(BulkStore, WarpsThatShareBoxesInPairsAndInFours) {
  constexpr int kPrograms = 6, kDepth = 128;
  std::vector<float16> a, b;
  for (int i = 0; i < kPrograms * 16 * kDepth; ++i) a.push_back(float16(float(i * 7 % 5 - 2)));
  for (int i = 0; i < kDepth * 128; ++i) b.push_back(float16(float(i * 11 / 3 % 5 - 2)));
  const Kernel kernel = Program::parse(kTwoResults, "two.py").kernel("two");
  for (const uint64_t seed : {0, 1, 3})
    for (auto [columns, warps] : {std::pair{64, 4}, {128, 4}, {128, 8}}) {
      auto device = make_emulator({.seed = seed});
      std::vector<float> exact(size_t(kPrograms) * 16 * columns);
      for (int m = 0; m < kPrograms * 16; ++m)
        for (int n = 0; n < columns; ++n)
          for (int k = 0; k < kDepth; ++k)
            exact[size_t(m) * columns + n] += float(a[size_t(m) * kDepth + k]) * float(b[size_t(k) * columns + n]);
      Buffer da(*device, a), db(*device, b), wide(*device, 4 * exact.size()), narrow(*device, 2 * exact.size());
      const LaunchOptions options{.constexprs = {{"N", columns}}, .num_warps = warps, .bulk_copies = 2};
      Kernel(kernel).launch(*device, {kPrograms}, options, wide.as<float>(), narrow.as<float16>(), da.as<float16>(),
                            db.as<float16>(), kDepth);
      EXPECT_EQ(wide.download<float>(), exact) << seed << ", " << columns << ", " << warps;
      const auto halves = narrow.download<float16>();
      EXPECT_EQ(std::vector<float>(halves.begin(), halves.end()), exact) << seed << ", " << columns << ", " << warps;
    }
}

TEST(BulkStore, WritesWhatIsInside) {
  const ChecksOff checks_off;
  for (uint64_t seed : {0, 1, 2}) {
    std::vector<int> x;
    const std::string stored =
        put(0, 5) + put(16 * 3 + 2, 7) + call("fence_async_shared") + store(8, 8) + call("bulk_store_commit");
    EXPECT_EQ(run(stored + call("bulk_store_wait.0") + put(0, 6), &x, seed), "no error");
    EXPECT_EQ(x[8 * kColumns + 8], 5);
    EXPECT_EQ(x[11 * kColumns + 10], 7);
    EXPECT_EQ(x[7 * kColumns + 19], -1);
    EXPECT_EQ(x[9 * kColumns], -1) << "what is behind the end of a row is not the next row's";
    EXPECT_EQ(run(stored + call("bulk_store_wait_all") + put(0, 6), &x, seed), "no error");
    EXPECT_EQ(x[8 * kColumns + 8], 5);
    EXPECT_EQ(run(put(0, 5) + call("fence_async_shared") + store(-4, -8) + call("bulk_store_commit") +
                      call("bulk_store_wait.0"),
                  &x, seed),
              "no error");
    EXPECT_EQ(std::count(x.begin(), x.end(), -1), kRowsOfArray * kColumns) << "a box outside";
    EXPECT_EQ(run(put(9, 5) + put(10, 6) + put(12, 7) + call("fence_async_shared") + store(8, 8) +
                      call("bulk_store_commit") + call("bulk_store_wait.0"),
                  &x, seed, kRowsOfArray * kColumns, 18),
              "no error");
    EXPECT_EQ(x[8 * kColumns + 17], 5);
    EXPECT_EQ(x[8 * kColumns + 18], 6) << "the last 16 bytes of a row are written whole, as GPUs do";
  }
}

// Of a tile of three axes, the first of which lies side by side in memory.
TEST(BulkStore, RowsAlongTheFirstOfThreeAxes) {
  const ChecksOff checks_off;
  const Program program = Program::parse(R"(import triton
import triton.language as tl

@triton.jit
def kernel(out, x, stride):
    i = tl.arange(0, 32)
    v = tl.load(x + i[:, None, None] * 32 + tl.arange(0, 1)[None, :, None] * 1024 + i[None, None, :])
    tl.store(out + i[None, None, :] * stride + i[:, None, None] + tl.arange(0, 1)[None, :, None], v)
)",
                                         "k.py");
  auto device = make_emulator();
  std::vector<float16> numbers;
  for (int i = 0; i < 1024; ++i) numbers.push_back(float16(float(i)));
  Array<float16> x(*device, numbers), out(*device, 1024);
  program.kernel("kernel").launch(*device, {1}, {.num_warps = 1, .bulk_copies = 2},
                                  reinterpret_cast<float16*>(out.address()), reinterpret_cast<float16*>(x.address()),
                                  32);
  const std::vector<float16> values = out.values();
  for (size_t i = 0; i < 1024; ++i) EXPECT_EQ(float(values[i]), float(i % 32 * 32 + i / 32)) << i;
}

// ---- Ends that follow from memory

constexpr const char* kWindow = R"(
import triton
import triton.language as tl

@triton.jit
def window(c_ptr, a_ptr, b_ptr, ends_ptr, K, stride):
    begin, end = tl.load(ends_ptr), tl.load(ends_ptr + 1)
    row, depth = begin + tl.arange(0, 64), tl.arange(0, 64)
    acc = tl.zeros((64, 64), dtype=tl.float32)
    for k in range(0, K, 64):
        a = tl.load(a_ptr + row[:, None] * stride + (k + depth)[None, :], mask=row[:, None] < end, other=0.0)
        b = tl.load(b_ptr + (k + depth)[:, None] * 64 + depth[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + row[:, None] * stride + depth[None, :], acc.to(tl.float16), mask=row[:, None] < end)
)";

// Row i of A has i everywhere in its first 64 columns and 1 behind them; B is the identity, and zeros below.
TEST(BulkStore, TilesThatEndAtNumbersFromMemory) {
  constexpr int kBefore = 64, kRows = 256, kStride = 128;  // rows before the pointer, and all
  constexpr int32_t kFar = std::numeric_limits<int32_t>::max();
  std::vector<float16> a(size_t(kRows) * kStride, float16(1.0f)), b(size_t(kStride) * 64, float16(0.0f));
  for (int i = 0; i < kRows; ++i) std::fill_n(a.begin() + i * kStride, 64, float16(float(i - kBefore)));
  for (int i = 0; i < 64; ++i) b[size_t(i * 64 + i)] = float16(1.0f);
  const Kernel kernel = Program::parse(kWindow, "window.py").kernel("window");
  const LaunchOptions options{.num_warps = 4};
  const ArgType matrix{.elem = Elem::F16, .pointer = true, .divisible_by = 16};
  const ArgType number{.elem = Elem::I32, .divisible_by = 16}, ends{.elem = Elem::I32, .pointer = true};
  const std::vector<ArgType> types{matrix, matrix, matrix, ends, number, number};
  const KernelImage image = kernel.compile(types, options, "sm_90a", true);
  for (const Transfer& transfer : image.transfers)
    EXPECT_EQ(transfer.why_not, "it may begin before its array, and lie outside of it altogether") << transfer.by;
  auto device = make_emulator({.threads = 1, .seed = 1});
  for (const auto& [begin, end] : std::initializer_list<std::pair<int32_t, int32_t>>{{30, 40},
                                                                                     {30, 94},
                                                                                     {30, 93},
                                                                                     {0, 1},
                                                                                     {7, 7},
                                                                                     {-20, 9},
                                                                                     {-64, kFar},
                                                                                     {30, kFar},
                                                                                     {30, (1 << 30) - 100},
                                                                                     {5, (1 << 30) + 4},
                                                                                     {90, -kFar - 1},
                                                                                     {1 << 20, 20},
                                                                                     {(1 << 30) + 5, 3},
                                                                                     {kFar - 100, -5},
                                                                                     {-kFar, -kFar}}) {
    SCOPED_TRACE(fmt::format("{} to {}", begin, end));
    Buffer da(*device, a), db(*device, b), dc(*device, std::vector<float16>(a.size(), float16(-99.0f)));
    Buffer de(*device, std::vector<int32_t>{begin, end});
    const int64_t first = int64_t(kBefore) * kStride;
    kernel.launch(*device, {1}, options, dc.as<float16>() + first, da.as<float16>() + first, db.as<float16>(),
                  de.as<int32_t>(), kStride, kStride);
    const auto out = dc.download<float16>();
    for (int row = -kBefore; row < kRows - kBefore; ++row)
      for (int column : {0, 1, 63, 64}) {
        const bool stored = row >= begin && row < int64_t(begin) + 64 && row < end && column < 64;
        ASSERT_EQ(float(out[size_t((row + kBefore) * kStride + column)]), stored ? float(row) : -99.0f)
            << row << ", " << column;
      }
  }
}

TEST(BulkReduction, CombinesWhatIsInside) {
  const ChecksOff checks_off;
  auto reduce = [](const char* kind) {
    return fmt::format("  call void @tegula.hw.bulk_{}_2d(i32 %place, i64 %map, i32 8, i32 8, i1 true, i32 2)\n", kind);
  };
  const std::string filled = put(0, 5) + put(16 * 3 + 2, 7) + call("fence_async_shared");
  const std::string done = call("bulk_store_commit") + call("bulk_store_wait.0");
  for (uint64_t seed : {0, 1, 2}) {
    std::vector<int> x;
    EXPECT_EQ(run(filled + reduce("add") + reduce("add") + done, &x, seed), "no error");
    EXPECT_EQ(x[8 * kColumns + 8], -1 + 5 + 5);
    EXPECT_EQ(x[11 * kColumns + 10], -1 + 7 + 7);
    EXPECT_EQ(x[7 * kColumns + 19], -1);
    EXPECT_EQ(x[9 * kColumns], -1) << "what is behind the end of a row is not the next row's";
    EXPECT_EQ(run(filled + reduce("max") + done, &x, seed), "no error");
    EXPECT_EQ(x[8 * kColumns + 8], 5);
    EXPECT_CONTAINS(run(filled + reduce("add") + done, nullptr, seed, 100), "out-of-bounds atomic ");
    EXPECT_CONTAINS(run(filled + reduce("add") + call("bulk_store_commit") + put(4, 6), nullptr, seed),
                    "which a bulk store issued at k.py:2:5 reads; a wait for it is missing");
  }
}

// What threads store beside what the asynchronous proxy reads.
TEST(BulkStore, ProxyFaults) {
  const std::string fence = call("fence_async_shared"), commit = call("bulk_store_commit"),
                    wait = call("bulk_store_wait.0");
  const std::string add = "  call void @tegula.hw.bulk_add_2d(i32 %place, i64 %map, i32 8, i32 8, i1 true, i32 2)\n",
                    max = "  call void @tegula.hw.bulk_max_2d(i32 %place, i64 %map, i32 8, i32 8, i1 true, i32 2)\n";
  const std::string at_issue = "\n  at k.py:2:5, program (0, 0, 0), thread 0",
                    at_store = "\n  at k.py:1:5, program (0, 0, 0), thread 0";
  const std::string
      unseen = " that thread 0 stored at k.py:1:5, and no fence_async_shared lies between",
      read =
          "kernel 'k': a write to shared memory at offset 16, which a bulk store issued at k.py:2:5 reads; "
          "a wait for it is missing";
  const std::string issued = put(0, 5) + fence + store(0, 0);
  expect_planted({0, 1, 2}, [&](uint64_t seed) {
    const auto of = [&](const std::string& steps) { return run(steps, nullptr, seed); };
    return std::vector<PlantedFault>{
        {"no fence",
         of(put(0, 5) + store(0, 0) + commit + wait),
         {"a bulk store reads shared memory at offset 0" + unseen, at_issue}},
        {"a fence ahead of the store",
         of(fence + put(0, 5) + store(0, 0) + commit + wait),
         {"offset 0" + unseen, at_issue}},
        {"one of two stores is behind the fence",
         of(put(0, 5) + fence + put(8, 6) + store(0, 0) + commit + wait),
         {"offset 32" + unseen, at_issue}},
        {"a sum without a fence", of(put(0, 5) + add + commit + wait), {"offset 0" + unseen, at_issue}},
        {"a maximum without a fence", of(put(0, 5) + max + commit + wait), {"offset 0" + unseen, at_issue}},
        {"a store, no wait", of(issued + commit + put(4, 6)), {read, at_store}},
        {"a wait that leaves it pending",
         of(issued + commit + call("bulk_store_wait.1") + put(4, 6)),
         {read, at_store}},
        {"it is in no group", of(issued + wait + put(4, 6)), {read, at_store}},
        {"a store while a sum reads", of(put(0, 5) + fence + add + commit + put(4, 6)), {read, at_store}},
        {"the program ends",
         of(issued + commit),
         {"a bulk store may still read shared memory at offset 0 when the program ends; a wait for it is missing",
          at_issue}},
    };
  });
  for (uint64_t seed : {0, 1, 2}) {
    EXPECT_CONTAINS(run(issued + commit + wait, nullptr, seed, 100), "kernel 'k': out-of-bounds write of 64 bytes at ");
    EXPECT_EQ(run(put(0, 5) + fence + store(2, 0), nullptr, seed),
              "kernel 'k': a bulk copy from element 2 of rows on, which is not a multiple of 4" + at_issue);
  }
}

}  // namespace
}  // namespace tegula
