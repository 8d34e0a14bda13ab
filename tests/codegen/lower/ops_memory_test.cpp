// label: device
// Loads and stores: masks, modifiers, strides, alignment, types.
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

// Rows of odd length are not as aligned as the program promises, and do not run on where they wrap around: under masks
// that may end between any two elements neither does harm.
TEST(Memory, PromisesThatDoNotHold) {
  for_types<std::tuple<float, float16, int8_t>>([](auto type) {
    using T = decltype(type);
    constexpr int kRows = 3, kCols = 1001;
    const auto x = random_values<T>(kRows * kCols, 65);
    Array<T> in(x);
    for (const char* row : {"tl.multiple_of(row * n, 16) + i", "tl.multiple_of(row * n + i, 16)", "row * n + i"}) {
      SCOPED_TRACE(fmt::format("{} {}", tl<T>(), row));
      Array<T> out(kRows * kCols), turned(kRows * kCols);
      run(fmt::format(R"(
@triton.jit
def kernel(x, out, turned, n, shift):
    row = tl.program_id(0)
    i = tl.arange(0, 1024)
    at = {}
    m = i < n
    a = tl.load(tl.multiple_of(x + at, 16), mask=m, other=0)
    tl.store(tl.multiple_of(out + at, 16), a, mask=m)
    wrapped = tl.max_contiguous(tl.multiple_of((i + shift) % n, 8), 1024)
    tl.store(turned + row * n + i, tl.load(tl.multiple_of(x + row * n, 16) + wrapped, mask=m), mask=m)
)",
                      row),
          {.num_warps = next_warps()}, {kRows}, in, out, turned, kCols, 8);
      expect_equal(out.values(), "copied", [&](size_t i) { return x[i]; });
      expect_equal(turned.values(), "turned", [&](size_t i) { return x[i / kCols * kCols + (i % kCols + 8) % kCols]; });
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
      expect_equal(out.values(), "tile", [&, &rows = rows, &cols = cols, &stride = stride](size_t k) {
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
      // Behind a loop, whose iterations store to different addresses or to one.
      {"for k in range(8):\n    tl.store(z + 8 * k + tl.arange(0, 8), 7)\ntl.store(z + 63 - tl.arange(0, 64), 5)",
       [](int i) { return i < 64 ? 5 : i; }},
      {"for k in range(8):\n    tl.store(z + k + tl.arange(0, 2), 7)\ntl.store(z + 8 - tl.arange(0, 8), 5)\n"
       "tl.store(z, 6)",
       [](int i) { return i == 0  ? 6
                          : i < 9 ? 5
                                  : i; }},
      // In the next iteration of a loop around one that stores.
      {"for k in range(2):\n    tl.store(z + i, i + k)\n    for j in range(4):\n"
       "        tl.store(z + 128 * j + 127 - tl.arange(0, 128), 7, mask=tl.arange(0, 128) >= 128 * k)",
       [](int i) { return i + 1; }},
      {"for k in range(2):\n    for j in range(4):\n        tl.store(z + 128 * j + tl.arange(0, 128), k)\n"
       "    for j in range(4):\n"
       "        tl.store(z + 128 * j + 127 - tl.arange(0, 128), 7, mask=tl.arange(0, 128) >= 128 * k)",
       [](int) { return 1; }},
      {"for k in range(2):\n    for j in range(4):\n        x = tl.load(z + 128 * j + tl.arange(0, 128))\n"
       "        tl.store(z + 128 * j + 127 - tl.arange(0, 128), x + 1)",
       [](int i) { return i + 2; }},
      // At the same addresses, though that is not how they are written.
      {"for k in range(2):\n    j = (511 - i).to(tl.uint32) - (k * 16).to(tl.uint32) + (k * 16).to(tl.uint32)\n"
       "    j = j.to(tl.int32)\n"
       "    tl.store(z + i, i + k)\n    tl.store(z + (j & 1) + (j & ~1), 7, mask=i >= 512 * k)",
       [](int i) { return i + 1; }},
      // Pieces of which each has elements of the one before.
      {"j = tl.arange(0, 256)\nfor k in range(0, 257, 64):\n    tl.store(z + k + j, tl.load(z + k + j) * 2)",
       [](int i) { return i << (std::min(i / 64, 4) - std::max(0, i / 64 - 3) + 1); }},
      // Pieces of rows: each element once.
      {"r = tl.arange(0, 4)[:, None]\nj = tl.arange(0, 32)[None, :]\nfor k in range(0, 100, 32):\n    c = k + j\n    "
       "p = z + r * 100 + c\n    tl.store(p, tl.load(p, mask=c < 100) + 1, mask=c < 100)",
       [](int i) { return i < 400 ? i + 1 : i; }},
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
  // Iterations that access different elements: pieces of a row, tiles in turn, pieces of several rows that end with
  // them.
  EXPECT_EQ(barriers("for k in range(0, 4096, 1024):\n    tl.store(x + k + i, tl.load(x + k + i) + 1)"), 0u);
  EXPECT_EQ(barriers("for t in range(tl.program_id(0), 64, tl.num_programs(0)):\n    p = x + t * 1024 + i\n    "
                     "tl.store(p, tl.load(p) + 1)"),
            0u);
  // Again and again, too; but not where they begin elsewhere each time.
  EXPECT_EQ(
      barriers("for t in range(8):\n    for k in range(0, 4096, 1024):\n        tl.store(x + k + i, tl.load(x + k + i) "
               "+ 1)"),
      0u);
  EXPECT_GT(
      barriers("for t in range(8):\n    for k in range(t, 4096, 1024):\n        tl.store(x + k + i, tl.load(x + k + i) "
               "+ 1)"),
      0u);
  auto rows = [&](const char* at, const char* mask) {
    return barriers(
        fmt::format("r = tl.arange(0, 4)[:, None]\nj = tl.arange(0, 256)[None, :]\nfor k in range(0, 1000, "
                    "256):\n    c = k + j\n    p = x + {}\n    m = {}\n    tl.store(p, tl.load(p, "
                    "mask=m) + 1, mask=m)",
                    at, mask));
  };
  EXPECT_EQ(rows("r * 1000 + c", "c < 1000"), 0u);
  EXPECT_EQ(rows("(r + tl.program_id(0) * 4) * 2000 + c", "(c < 1000) & (r < 3)"), 0u);
  EXPECT_GT(rows("r * 1000 + c", "r < 3"), 0u);
  EXPECT_GT(rows("r * 900 + c", "c < 1000"), 0u);
  EXPECT_GT(rows("r * 1000 + c", "c - 256 < 1000"), 0u);
  EXPECT_GT(barriers("for k in range(0, 4096, 512):\n    tl.store(x + k + i, tl.load(x + k + i) + 1)"), 0u);
  EXPECT_GT(barriers("j = tl.arange(0, 32)\nfor k in range(8):\n    p = x + k + j[:, None] - j[None, :] + 64\n    "
                     "tl.store(p, tl.load(p) + 1)"),
            0u);
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

// Elements that follow an index which is loaded once for all of them lie side by side.
TEST(Memory, RowsByLoadedIndices) {
  const std::string kernel = R"(
@triton.jit
def kernel(x, at, sums, y):
    i = tl.program_id(0) * 256 + tl.arange(0, 256)
    row = tl.load(at + i // 64{0})
    row = tl.where(row < 0, row + 16, row)
    v = tl.load(x + i % 64 + 64 * row)
    tl.store(y + i, v)
    tl.atomic_add(sums + i % 64 + 64 * row, v, sem='relaxed')
)";
  const std::vector<float> numbers = random_values<float>(1024, 71);
  std::vector<int32_t> rows(16);
  for (int i = 0; i < 16; ++i) rows[size_t(i)] = i * 7 % 16 - (i % 3 ? 16 : 0);
  for (const char* options : {"  ", ", mask=i < 960, other=3", ", volatile=True"}) {
    const std::string text = fmt::format(fmt::runtime(kernel), options);
    const ArgType floats{.elem = Elem::F32, .pointer = true, .divisible_by = 16};
    const ArgType integers{.elem = Elem::I32, .pointer = true, .divisible_by = 16};
    const std::string ptx = Program::parse("import triton\nimport triton.language as tl\n\n" + text, "kernel.py")
                                .kernel("kernel")
                                .compile(std::vector{floats, integers, floats, floats}, {.num_warps = 2}, "sm_90a")
                                .ptx;
    const bool is_volatile = options[2] == 'v';
    EXPECT_EQ(ptx.find("ld.global.v4") == ptx.npos, is_volatile) << ptx;
    EXPECT_EQ(ptx.find("relaxed.add.v4.f32") == ptx.npos, is_volatile) << ptx;
    Array<float> x(numbers), y(1024), sums(std::vector<float>(1024));
    Array<int32_t> at(rows);
    run(text, {.num_warps = next_warps()}, {4}, x, at, sums, y);
    std::vector<float> expected(1024);
    expect_equal(y.values(), options, [&](size_t i) {
      const int row = options[2] == 'm' && i >= 960 ? 3 : (rows[i / 64] + 16) % 16;
      const size_t from = i % 64 + 64 * size_t(row);
      expected[from] += numbers[from];
      return numbers[from];
    });
    expect_equal(sums.values(), options, [&](size_t i) { return expected[i]; });
  }
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
