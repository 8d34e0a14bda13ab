// label: device
// Loads, stores and atomics: masks, modifiers, strides, alignment, types.
#include <algorithm>
#include <functional>
#include <numeric>
#include <regex>

#include "tests/codegen/lower/ops_support.h"

namespace tegula::ops {
namespace {

// Elements past the stored ones must keep what they had.
template <class T>
void expect_untouched(const std::vector<T>& values, size_t from) {
  std::vector<uint8_t> fill(sizeof(T), 0xA5);
  for (size_t i = from; i < values.size(); ++i)
    EXPECT_EQ(std::memcmp(&values[i], fill.data(), sizeof(T)), 0) << "element " << i << " was written";
}

constexpr const char* kCopy = R"(
@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(y + i, tl.load(x + i, mask=m), mask=m)
)";

TEST(Memory, CopiesOfAllTypesLengthsAndAlignments) {
  for_types<AllTypes>([](auto type) {
    using T = decltype(type);
    auto x = random_values<T>(1100, 60);
    Array<T> in(x);
    int turn = 0;
    for (int block : {1, 2, 16, 128, 1024})
      for (int offset : {0, 1, 3}) {
        int n = block == 1 ? 1 : std::vector<int>{block, block - 1, 1000}[size_t(turn++ % 3)];
        SCOPED_TRACE(fmt::format("{} block {} offset {} n {}", tl<T>(), block, offset, n));
        Array<T> out(1100);
        unsigned programs = unsigned((n + block - 1) / block);
        run(kCopy, {.constexprs = {{"BLOCK", block}}, .num_warps = next_warps()}, {programs}, in.at(size_t(offset)),
            out.at(size_t(offset)), n);
        auto y = out.values();
        expect_untouched(std::vector<T>(y.begin() + offset + n, y.end()), 0);
        expect_untouched(std::vector<T>(y.begin(), y.begin() + offset), 0);
        y.resize(size_t(n + offset));
        for (int i = offset; i < n + offset; ++i)
          EXPECT_TRUE(same(y[size_t(i)], x[size_t(i)])) << i << ": " << show(y[size_t(i)]);
      }
  });
}

// Where the mask does not hold, `other` stands, converted to the element type; nothing is read there.
TEST(Memory, OtherWhereMasked) {
  for_types<AllTypes>([](auto type) {
    using T = decltype(type);
    auto x = random_values<T>(100, 61);
    Array<T> in(x);
    Array<T> out(1024);
    run(R"(
@triton.jit
def kernel(x, y, n):
    i = tl.arange(0, 256)
    tl.store(y + i, tl.load(x + i, mask=i < n, other=1))
    tl.store(y + 256 + i, tl.load(x + i, i < n, (i % 2).to(y.dtype.element_ty)))
    tl.store(y + 512 + i, tl.load(x + i, mask=(i < n) & (i % 3 == 0), other=0))
    tl.store(y + 768 + i, tl.load(x + i, mask=False, other=1))
)",
        {.num_warps = next_warps()}, {1}, in, out, 100);
    expect_equal(out.values(), tl<T>(), [&](size_t i) {
      size_t k = i % 256;
      if (i < 256) return k < 100 ? x[k] : T(1);
      if (i < 512) return k < 100 ? x[k] : T(int(k % 2));
      if (i < 768) return k < 100 && k % 3 == 0 ? x[k] : T(0);
      return T(1);
    });
  });
}

// Runs of neighbours that begin and end anywhere within what a thread accesses at once.
TEST(Memory, MasksThatEndWithinVectors) {
  for_types<AllTypes>([](auto type) {
    using T = decltype(type);
    const auto x = random_values<T>(1024, 64);
    Array<T> in(x);
    for (auto [from, to] : std::vector<std::pair<int, int>>{{0, 1024}, {1, 1023}, {5, 517}, {100, 101}, {9, 9}}) {
      SCOPED_TRACE(fmt::format("{} from {} to {}", tl<T>(), from, to));
      Array<T> out(1024), kept(1024);
      run(R"(
@triton.jit
def kernel(x, out, kept, begin, end):
    i = tl.arange(0, 1024)
    m = (i >= begin) & (i < end)
    a = tl.load(x + i, mask=m, other=1)
    tl.store(out + i, a)
    tl.store(kept + i, a, mask=m)
)",
          {.num_warps = next_warps()}, {1}, in, out, kept, from, to);
      auto is_inside = [&, from = from, to = to](size_t i) { return int(i) >= from && int(i) < to; };
      expect_equal(out.values(), "loaded", [&](size_t i) { return is_inside(i) ? x[i] : T(1); });
      const std::vector<T> stored = kept.values();
      expect_untouched(std::vector<T>(stored.begin(), stored.begin() + from), 0);
      expect_untouched(stored, size_t(to));
      for (int i = from; i < to; ++i) EXPECT_TRUE(same(stored[size_t(i)], x[size_t(i)])) << i;
    }
  });
}

TEST(Memory, CacheAndEvictionModifiers) {
  auto x = random_values<float>(1000, 62);
  Array<float> in(x);
  std::vector<std::pair<const char*, const char*>> modifiers = {
      {"cache_modifier='.ca'", "cache_modifier='.wb'"},
      {"cache_modifier='.cg'", "cache_modifier='.cg'"},
      {"cache_modifier='.cs'", "cache_modifier='.cs'"},
      {"cache_modifier='.cv'", "cache_modifier='.wt'"},
      {"eviction_policy='evict_first'", "eviction_policy='evict_first'"},
      {"eviction_policy='evict_last'", "eviction_policy='evict_last'"},
      {"eviction_policy='evict_normal'", "eviction_policy='evict_normal'"},
      {"volatile=True", "eviction_policy=''"},
      {"cache_modifier='.ca', eviction_policy='evict_last'", "cache_modifier='.wb', eviction_policy='evict_first'"},
      {"cache_modifier='.cg', eviction_policy='evict_last'", "cache_modifier='.cs', eviction_policy='evict_first'"},
  };
  for (auto& [load, store] : modifiers) {
    SCOPED_TRACE(load);
    Array<float> out(1000);
    run(fmt::format(R"(
@triton.jit
def kernel(x, y, n):
    i = tl.program_id(0) * 512 + tl.arange(0, 512)
    a = tl.load(x + i, mask=i < n, other=0.0, {})
    tl.store(y + i, a, mask=i < n, {})
)",
                    load, store),
        {.num_warps = next_warps()}, {2}, in, out, 1000);
    expect_equal(out.values(), load, [&](size_t i) { return x[i]; });
  }
}

// PTX allows one of them only.
TEST(Memory, CacheOperatorOrEvictionPriority) {
  auto ptx = [](const char* load, const char* store) {
    return ptx_of<float>(
        fmt::format(
            "@triton.jit\ndef kernel(x, y):\n    i = tl.arange(0, 512)\n    tl.store(y + i, tl.load(x + i, {}), {})\n",
            load, store),
        2);
  };
  std::string text =
      ptx("cache_modifier='.ca', eviction_policy='evict_last'", "cache_modifier='.wb', eviction_policy='evict_first'");
  EXPECT_NE(text.find("ld.global.L1::evict_last.L2::cache_hint.v4"), std::string::npos) << text;
  EXPECT_NE(text.find("st.global.L1::evict_first.L2::cache_hint.v4"), std::string::npos) << text;
  text =
      ptx("cache_modifier='.cg', eviction_policy='evict_last'", "cache_modifier='.cs', eviction_policy='evict_first'");
  EXPECT_NE(text.find("ld.global.cg.v4"), std::string::npos) << text;
  EXPECT_NE(text.find("st.global.cs.v4"), std::string::npos) << text;
}

TEST(Memory, ScalarPointers) {
  for_types<AllTypes>([](auto type) {
    using T = decltype(type);
    auto x = random_values<T>(8, 63);
    Array<T> in(x);
    Array<T> out(8);
    run(R"(
@triton.jit
def kernel(x, y, n):
    p = tl.program_id(0)
    a = tl.load(x + p)
    tl.store(y + p, a, mask=p < n)
)",
        {.num_warps = next_warps()}, {8}, in, out, 7);
    auto y = out.values();
    expect_untouched(y, 7);
    y.resize(7);
    expect_equal(y, tl<T>(), [&](size_t i) { return x[i]; });
  });
}

// A scalar loaded once is spread over a tile; one address stored by all elements holds one of them.
TEST(Memory, BroadcastPointers) {
  Array<float> in(std::vector<float>{3, 4});
  Array<float> out(300);
  run(R"(
@triton.jit
def kernel(x, y):
    i = tl.arange(0, 256)
    one = tl.load(x + i * 0 + 1)
    tl.store(y + i, one + tl.load(x))
    tl.store(y + 256 + i * 0, one)
)",
      {}, {1}, in, out);
  auto y = out.values();
  expect_untouched(y, 257);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(y[size_t(i)], 7);
  EXPECT_EQ(y[256], 4);
}

TEST(Memory, StridedTiles) {
  const int rows = 37, cols = 53;
  auto x = random_values<float>(size_t(rows * 64), 64);
  Array<float> in(x);
  for (auto [stride, block_rows, block_cols] : std::vector<std::tuple<int, int, int>>{
           {53, 16, 64}, {64, 64, 16}, {64, 8, 8}, {61, 1, 64}, {64, 64, 1}, {56, 32, 32}})
    for (bool transposed : {false, true}) {
      SCOPED_TRACE(fmt::format("stride {} tile {} x {} transposed {}", stride, block_rows, block_cols, transposed));
      Array<float> out(size_t(rows * cols));
      run(R"(
@triton.jit
def kernel(x, y, rows, cols, stride, out_row, out_col, R: tl.constexpr, C: tl.constexpr):
    i = tl.program_id(0) * R + tl.arange(0, R)
    j = tl.program_id(1) * C + tl.arange(0, C)
    m = (i[:, None] < rows) & (j[None, :] < cols)
    a = tl.load(x + i[:, None] * stride + j[None, :], mask=m, other=0.0)
    tl.store(y + i[:, None] * out_row + j[None, :] * out_col, a, mask=m)
)",
          {.constexprs = {{"R", block_rows}, {"C", block_cols}}, .num_warps = next_warps()},
          {unsigned((rows + block_rows - 1) / block_rows), unsigned((cols + block_cols - 1) / block_cols)}, in, out,
          rows, cols, stride, transposed ? 1 : cols, transposed ? rows : 1);
      expect_equal(out.values(), "tile", [&](size_t k) {
        int i = transposed ? int(k) % rows : int(k) / cols, j = transposed ? int(k) / rows : int(k) % cols;
        return x[size_t(i * stride + j)];
      });
    }
}

// Tiles whose rows lie along the other axis of memory, with arithmetic in float32 before they are turned or behind.
TEST(Memory, TurnedTiles) {
  for_types<std::tuple<float16, bfloat16, float, int8_t>>([](auto type) {
    using T = decltype(type);
    std::vector<T> x;
    for (int i = 0; i < 64 * 64; ++i) x.push_back(T(float(i * 37 % 120 + 2)));
    Array<T> in(x);
    for (auto [m, n] : std::vector<std::pair<int, int>>{{64, 64}, {32, 128}, {128, 16}, {32, 32}, {16, 64}}) {
      SCOPED_TRACE(fmt::format("{} {} x {}", tl<T>(), m, n));
      Array<T> out(size_t(m * n));
      run(R"(
@triton.jit
def kernel(x, y, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    a = tl.load(x + i + j * M).to(tl.float32) + 1
    tl.store(y + i * N + j, (a * a - a * (a - 1)).to(y.dtype.element_ty))
)",
          {.constexprs = {{"M", m}, {"N", n}}, .num_warps = next_warps()}, {1}, in, out);
      expect_equal(out.values(), tl<T>(),
                   [&, m = m, n = n](size_t k) { return T(float(x[k / size_t(n) + k % size_t(n) * size_t(m)]) + 1); });
    }
  });
}

TEST(Memory, GatherAndScatter) {
  for (int num_warps : {1, 4, 8}) {
    std::vector<int32_t> order(512);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(65));
    auto x = random_values<double>(512, 66);
    Array<int32_t> places(order);
    Array<double> in(x), out(512), scattered(512);
    run(R"(
@triton.jit
def kernel(x, places, y, z):
    i = tl.arange(0, 512)
    p = tl.load(places + i)
    tl.store(y + i, tl.load(x + p))
    tl.store(z + p, tl.load(x + i))
)",
        {.num_warps = num_warps}, {1}, in, places, out, scattered);
    auto z = scattered.values();
    expect_equal(out.values(), "gather", [&](size_t i) { return x[size_t(order[i])]; });
    for (size_t i = 0; i < 512; ++i) EXPECT_EQ(z[size_t(order[i])], x[i]);
  }
}

// What a program stores it loads back, across threads after a barrier.
TEST(Memory, StoreThenLoadInOneProgram) {
  Array<int32_t> scratch(1024), out(1024);
  run(R"(
@triton.jit
def kernel(scratch, y):
    i = tl.arange(0, 1024)
    tl.store(scratch + i, i * 3)
    tl.debug_barrier()
    tl.store(y + i, tl.load(scratch + (1023 - i)))
)",
      {.num_warps = 8}, {1}, scratch, out);
  expect_equal(out.values(), "reversed", [](size_t i) { return int32_t(1023 - i) * 3; });
}

// A program has one order, whichever threads load and store.
TEST(Memory, KeepsTheOrderOfAProgram) {
  struct Case {
    const char* body;
    std::function<int32_t(int)> exact;  // of z, which holds 0, 1, ... before
  };
  const std::vector<Case> cases = {
      // What one thread stores another one loads.
      {"tl.store(z + i, i * 3)\nx = tl.load(z + 511 - i)\ntl.store(z + i, x)", [](int i) { return (511 - i) * 3; }},
      // Rows that take a row which is stored too.
      {"m = tl.arange(0, 16)[:, None]\nn = tl.arange(0, 32)\nrow = tl.load(z + n)\nx = tl.load(z + m * 32 + n[None, "
       ":])\n"
       "tl.store(z + m * 32 + n[None, :], x + row[None, :])",
       [](int i) { return i + i % 32; }},
      // The later store stays.
      {"tl.store(z + i, 7)\ntl.store(z + 511 - i, i)", [](int i) { return 511 - i; }},
      {"for k in range(4):\n    at = (tl.load(w + i) * 3 + k) % 512\n    tl.store(z + at, at + k)",
       [](int i) { return i + 3; }},
      // Every thread has loaded the scalar that one of them changes.
      {"c = tl.load(z + 5)\ntl.store(z + 5, c + 1)\ntl.store(z + i, i + c)", [](int i) { return i + 5; }},
      // From iteration to iteration.
      {"for k in range(8):\n    x = tl.load(z + (i + 1) % 512)\n    tl.store(z + i, x)",
       [](int i) { return (i + 8) % 512; }},
  };
  std::vector<int32_t> numbers(512);
  std::iota(numbers.begin(), numbers.end(), 0);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.body);
    Array<int32_t> z(numbers), w(numbers);
    run(fmt::format("@triton.jit\ndef kernel(z, w):\n    i = tl.arange(0, 512)\n{}\n", indented(c.body)),
        {.num_warps = next_warps()}, {1}, z, w);
    expect_equal(z.values(), "z", [&](size_t i) { return c.exact(int(i)); });
  }
}

// The threads that load a tile store it: no barrier. Nor between arrays of different parameters.
TEST(Memory, ThreadsKeepTheirOwnOrder) {
  auto barriers = [](const std::string& body) {
    const std::string ptx = ptx_of<float>(
        fmt::format("@triton.jit\ndef kernel(x, y):\n    i = tl.arange(0, 1024)\n{}\n", indented(body)), 2);
    size_t count = 0;
    for (size_t at = 0; (at = ptx.find("bar.sync", at)) != ptx.npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(barriers("tl.store(x + i, tl.load(x + i) + 1)\ntl.store(x + i, tl.load(x + i) * 2)"), 0u);
  EXPECT_EQ(barriers("tl.store(x + i, tl.load(y + 1023 - i))\ntl.store(x + i, tl.load(y + i))"), 0u);
  EXPECT_EQ(barriers("for k in range(8):\n    tl.store(x + i, tl.load(x + i) + tl.load(y + k))"), 0u);
  EXPECT_EQ(barriers("tl.store(x + i, 1.0)\ntl.store(y + i, tl.load(x + 1023 - i))"), 1u);
  // One ahead of the loop serves all its iterations.
  EXPECT_EQ(barriers("tl.store(x + i, 1.0)\nfor k in range(8):\n    tl.store(y + i, tl.load(x + k + i))"), 1u);
}

TEST(Memory, OffsetsOf64Bits) {
  auto x = random_values<int16_t>(600, 67);
  Array<int16_t> in(x);
  Array<int16_t> out(512);
  run(R"(
@triton.jit
def kernel(x, y, k: tl.int64):
    i = tl.arange(0, 512).to(tl.int64)
    q = x + 600
    tl.store(y + i, tl.load(q - k + i))
)",
      {}, {1}, in, out, int64_t(550));
  expect_equal(out.values(), "int64 offsets", [&](size_t i) { return i < 550 ? x[50 + i] : int16_t(0); });
}

// ------------------------------------------------------------------------------------------------------- atomics

using AtomicTypes = std::tuple<int32_t, int64_t, uint32_t, uint64_t, float16, bfloat16, float, double>;

TEST(Atomics, ManyProgramsOneAddress) {
  for_types<AtomicTypes>([](auto type) {
    using T = decltype(type);
    // As many additions of 1 as the type counts exactly.
    int programs = std::is_same_v<T, bfloat16> ? 200 : 500;
    for (const char* options :
         {"", ", sem='relaxed'", ", sem='release', scope='sys'", ", sem='acquire', scope='gpu'"}) {
      Array<T> sum(std::vector<T>(1, T(0)));
      Array<T> old(size_t(programs), 0);
      run(fmt::format(R"(
@triton.jit
def kernel(total, old):
    before = tl.atomic_add(total, 1{})
    tl.static_assert(before.dtype == total.dtype.element_ty)
    tl.store(old + tl.program_id(0), before)
)",
                      options),
          {.num_warps = next_warps()}, {unsigned(programs)}, sum, old);
      EXPECT_EQ(wide(sum.values()[0]), programs) << tl<T>() << options;
      // Every program saw another number: each of 0 .. programs - 1 once.
      std::vector<int> seen;
      for (T v : old.values()) seen.push_back(int(wide(v)));
      std::sort(seen.begin(), seen.end());
      for (int i = 0; i < programs; ++i) EXPECT_EQ(seen[size_t(i)], i) << tl<T>() << options;
    }
  });
}

TEST(Atomics, TilesAndMasks) {
  for_types<AtomicTypes>([](auto type) {
    using T = decltype(type);
    for (int num_warps : {1, 4, 8}) {
      SCOPED_TRACE(fmt::format("{} num_warps {}", tl<T>(), num_warps));
      auto x = small_values<T>(256, 68, 7);
      Array<T> in(x), bins(std::vector<T>(16, T(0))), each(std::vector<T>(256, T(2))), old(256);
      run(R"(
@triton.jit
def kernel(x, bins, each, old, n):
    i = tl.arange(0, 256)
    a = tl.load(x + i)
    tl.atomic_add(bins + i % 16, a, mask=i < n)
    tl.store(old + i, tl.atomic_add(each + i, a))
)",
          {.num_warps = num_warps}, {1}, in, bins, each, old, 200);
      std::vector<double> sums(16);
      for (size_t i = 0; i < 200; ++i) sums[i % 16] += double(wide(x[i]));
      expect_equal(bins.values(), "bins", [&](size_t i) { return T(float(sums[i])); });
      expect_equal(each.values(), "each", [&](size_t i) { return T(float(wide(x[i])) + 2); });
      expect_equal(old.values(), "old", [&](size_t) { return T(2); });
    }
  });
}

// A tile with fewer elements than threads: each addition happens once, and all threads get its old value.
TEST(Atomics, CopiesAddOnce) {
  for (int num_warps : {1, 4, 8}) {
    Array<int32_t> counters(std::vector<int32_t>(8, 10)), out(64);
    run(R"(
@triton.jit
def kernel(counters, out):
    i = tl.arange(0, 8)
    before = tl.atomic_add(counters + i, i + 1)
    wide = tl.broadcast_to(before[:, None], 8, 8)
    j = tl.arange(0, 8)
    tl.store(out + i[:, None] * 8 + j[None, :], wide + j[None, :])
)",
        {.num_warps = num_warps}, {3}, counters, out);
    expect_equal(counters.values(), "counters", [](size_t i) { return int32_t(10 + 3 * (i + 1)); });
    for (int32_t v : out.values()) EXPECT_GE(v, 10);
  }
}

/// What memory and the old value are after each kind of atomic, elementwise beside the host; also where the mask keeps
/// an element out, and in a tile that several threads hold.
template <class T>
void check_kinds(const std::vector<std::pair<std::string, std::function<T(T, T)>>>& kinds) {
  auto x = random_values<T>(64, 70), y = random_values<T>(64, 71);
  for (auto& [kind, combine] : kinds) {
    SCOPED_TRACE(kind);
    for (const char* options : {"", ", sem='relaxed', scope='cta'", ", sem='acquire', scope='sys'"}) {
      Array<T> memory(x), values(y), old(64);
      run(fmt::format(R"(
@triton.jit
def kernel(memory, values, old):
    i = tl.arange(0, 64)
    before = tl.atomic_{}(memory + i, tl.load(values + i), mask=i < 60{})
    tl.store(old + i, before, mask=i < 60)
)",
                      kind, options),
          {.num_warps = next_warps()}, {1}, memory, values, old);
      expect_equal(memory.values(), kind, [&](size_t i) { return i < 60 ? combine(x[i], y[i]) : x[i]; });
      auto before = old.values();
      before.resize(60);
      expect_equal(before, kind + ": old", [&](size_t i) { return x[i]; });
    }
  }
}

template <class T>
T smaller(T a, T b) {
  return std::min(a, b);
}
template <class T>
T larger(T a, T b) {
  return std::max(a, b);
}
template <class T>
T second(T, T b) {
  return b;
}

TEST(Atomics, KindsOfIntegers) {
  for_types<std::tuple<int32_t, uint32_t, int64_t, uint64_t>>([](auto type) {
    using T = decltype(type);
    SCOPED_TRACE(tl<T>());
    check_kinds<T>({{"min", smaller<T>},
                    {"max", larger<T>},
                    {"and", [](T a, T b) { return T(a & b); }},
                    {"or", [](T a, T b) { return T(a | b); }},
                    {"xor", [](T a, T b) { return T(a ^ b); }},
                    {"xchg", second<T>}});
  });
}

TEST(Atomics, KindsOfFloats) {
  check_kinds<float>({{"min", smaller<float>}, {"max", larger<float>}, {"xchg", second<float>}});
  check_kinds<double>({{"min", smaller<double>}, {"max", larger<double>}, {"xchg", second<double>}});
  check_kinds<float16>({{"min", smaller<float16>}, {"max", larger<float16>}});
  check_kinds<bfloat16>({{"min", smaller<bfloat16>}, {"max", larger<bfloat16>}});
}

TEST(Atomics, CompareAndSwap) {
  for_types<std::tuple<int16_t, float16, int32_t, float, uint64_t, double>>([](auto type) {
    using T = decltype(type);
    std::vector<T> x;
    for (int i = 0; i < 64; ++i) x.push_back(T(float(i % 3)));
    Array<T> memory(x), old(64);
    run(R"(
@triton.jit
def kernel(memory, old):
    i = tl.arange(0, 64)
    tl.store(old + i, tl.atomic_cas(memory + i, 1, 7, sem='acq_rel', scope='gpu'))
)",
        {.num_warps = next_warps()}, {1}, memory, old);
    expect_equal(memory.values(), tl<T>(), [&](size_t i) { return i % 3 == 1 ? T(7.0f) : x[i]; });
    expect_equal(old.values(), tl<T>() + ": old", [&](size_t i) { return x[i]; });
  });
}

// A lock as in the layer norm of Triton's tutorials: programs take it by compare and swap, and give it back by
// exchange.
TEST(Atomics, Lock) {
  Array<int32_t> lock(std::vector<int32_t>(1, 0)), sums(std::vector<int32_t>(32, 0));
  run(R"(
@triton.jit
def kernel(lock, sums):
    i = tl.arange(0, 32)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(sums + i, tl.load(sums + i) + i)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)
)",
      {.num_warps = 2}, {20}, lock, sums);
  expect_equal(sums.values(), "sums", [](size_t i) { return int32_t(20 * i); });
}

TEST(Atomics, AdjacentHalvesGoTogether) {
  const char* text =
      "@triton.jit\ndef kernel(x, y):\n    i = tl.arange(0, 1024)\n    tl.atomic_add(x + i, tl.load(y + i), mask=i < "
      "{})\n";
  EXPECT_NE(ptx_of<float16>(fmt::format(fmt::runtime(text), 510), 2).find("add.noftz.f16x2"), std::string::npos);
  EXPECT_NE(ptx_of<bfloat16>(fmt::format(fmt::runtime(text), 510), 2).find("add.noftz.bf16x2"), std::string::npos);
  // The mask parts a pair.
  EXPECT_EQ(ptx_of<float16>(fmt::format(fmt::runtime(text), 511), 2).find("add.noftz.f16x2"), std::string::npos);
}

// Sums of 16 bytes of floats, where the GPU has them, between two fences for all of a thread's.
TEST(Atomics, VectorsOfSums) {
  const auto ptx = [](Elem elem, const char* target, const char* how, const char* use) {
    const ArgType pointer{.elem = elem, .pointer = true, .divisible_by = 16};
    const std::string text = fmt::format(
        "import triton\nimport triton.language as tl\n\n@triton.jit\ndef kernel(x, y):\n    i = tl.arange(0, 4096)\n   "
        " old = tl.atomic_add(x + i, tl.load(y + i), "
        "mask=i < 1024{})\n{}",
        how, use);
    return Program::parse(text, "k.py").kernel("kernel").compile(std::vector{pointer, pointer}, {}, target).ptx;
  };
  auto count = [](const std::string& text, const std::string& part) {
    int found = 0;
    for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++found;
    return found;
  };
  const char* store = "    tl.store(y + i, old)\n";
  for (const auto& [elem, form] : std::vector<std::pair<Elem, std::string>>{
           {Elem::F32, "add.v4.f32"}, {Elem::F16, "add.noftz.v4.f16x2"}, {Elem::BF16, "add.noftz.v4.bf16x2"}}) {
    const std::string found = ptx(elem, "sm_90a", "", store);
    EXPECT_EQ(count(found, "atom.relaxed.gpu.global." + form), elem == Elem::F32 ? 8 : 4) << found;
    EXPECT_EQ(count(found, "fence.acq_rel.gpu"), 2) << found;
    EXPECT_EQ(count(found, "atom."), elem == Elem::F32 ? 8 : 4) << found;
  }
  EXPECT_EQ(count(ptx(Elem::F32, "sm_80", "", store), "atom.relaxed.gpu.global.add.f32"), 32);
  EXPECT_EQ(count(ptx(Elem::F64, "sm_90a", "", store), "atom.relaxed.gpu.global.add.f64"), 32);
  // What nobody looks at acquires nothing.
  EXPECT_EQ(count(ptx(Elem::F32, "sm_90a", "", ""), "fence"), 1);
  EXPECT_EQ(count(ptx(Elem::F32, "sm_90a", ", sem='release', scope='sys'", store), "fence.acq_rel.sys"), 1);
  EXPECT_EQ(count(ptx(Elem::F32, "sm_90a", ", sem='acquire'", store), "fence.acq_rel.gpu"), 1);
  EXPECT_EQ(count(ptx(Elem::F32, "sm_90a", ", sem='relaxed'", store), "fence"), 0);
}

TEST(Atomics, VectorsOfFloatsInRowsAndMasks) {
  for_types<std::tuple<float, float16, bfloat16>>([](auto type) {
    using T = decltype(type);
    for (int width : {64, 61, 58}) {  // columns of a row of 64 that count
      SCOPED_TRACE(fmt::format("{} width {}", tl<T>(), width));
      auto x = small_values<T>(32 * 64, 69, 7);
      Array<T> in(x), sums(std::vector<T>(32 * 64, T(2))), old(32 * 64);
      run(R"(
@triton.jit
def kernel(x, sums, old, n):
    at = tl.arange(0, 32)[:, None] * 64 + tl.arange(0, 64)[None, :]
    inside = (tl.arange(0, 64) < n)[None, :]
    a = tl.load(x + at)
    tl.atomic_add(sums + at, a, mask=inside)
    tl.debug_barrier()
    tl.store(old + at, tl.atomic_add(sums + at, a, mask=inside), mask=inside)
)",
          {.num_warps = 4}, {1}, in, sums, old, width);
      auto value = [&](size_t i) { return float(wide(x[i])); };
      auto counts = [&](size_t i) { return int(i % 64) < width; };
      expect_equal(sums.values(), "sums", [&](size_t i) { return T(2 + (counts(i) ? 2 * value(i) : 0)); });
      auto seen = old.values();
      for (size_t i = 0; i < seen.size(); ++i)
        if (counts(i)) {
          EXPECT_EQ(float(wide(seen[i])), 2 + value(i)) << i;
        }
    }
  });
}

// The taps of a channel lie side by side: what the steps of an unrolled loop load of them is one load.
TEST(Memory, NeighboursOfUnrolledLoopsAreOneLoad) {
  const Kernel kernel = Program::parse(R"(
import triton
import triton.language as tl


@triton.jit
def taps(out_ptr, w_ptr, x_ptr, n, TAPS: tl.constexpr, STORES: tl.constexpr, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + c)
    total = tl.zeros([BLOCK], tl.float32)
    for k in tl.static_range(TAPS):
        w = tl.load(w_ptr + c * 4 + k, mask=c < n, other=3)
        total = total * 7 + w.to(tl.float32) * x
        if STORES:
            tl.store(out_ptr + c, total)
    tl.store(out_ptr + c, total)
)",
                                       "taps.py")
                            .kernel("taps");
  constexpr int kBlock = 64, kChannels = 50;
  auto test = [&]<class T>(T) {
    std::vector<T> w(4 * kBlock);
    for (size_t i = 0; i < w.size(); ++i) w[i] = T(float(int(i * 37 % 23) - 11));
    std::vector<float> x(kBlock);
    std::iota(x.begin(), x.end(), 1.0f);
    Buffer weights(device(), w), factors(device(), x), out(device(), 4 * kBlock);
    for (const int taps : {2, 3, 4})
      for (const bool stores : {false, true}) {
        const LaunchOptions options{.constexprs = {{"TAPS", taps}, {"STORES", stores}, {"BLOCK", kBlock}},
                                    .num_warps = 2};
        kernel.launch(device(), {1}, options, out.as<float>(), weights.as<T>(), factors.as<float>(), kChannels);
        expect_equal(out.download<float>(), fmt::format("{} taps", taps), [&](size_t i) {
          float total = 0;
          for (int k = 0; k < taps; ++k) total = total * 7 + (i < kChannels ? float(w[4 * i + size_t(k)]) : 3) * x[i];
          return total;
        });
        if (taps != 4) continue;
        std::vector<ArgType> types{{.elem = Elem::F32, .pointer = true, .divisible_by = 16}};
        types.push_back({.elem = elem<T>, .pointer = true, .divisible_by = 16});
        types.push_back({.elem = Elem::F32, .pointer = true, .divisible_by = 16});
        types.push_back({.elem = Elem::I32});
        const std::string ptx = kernel.compile(types, options, "sm_90a").ptx;
        const std::regex loads(R"(ld\.global)");  // of x, and of one or each tap, in two entries
        EXPECT_EQ(std::distance(std::sregex_iterator(ptx.begin(), ptx.end(), loads), {}), stores ? 10 : 4) << ptx;
      }
  };
  test(float16());
  test(float());
  test(int8_t());
}

}  // namespace
}  // namespace tegula::ops
