// label: device
// Ops that bring elements into another order or look them up: sort, topk, bitonic_merge, gather, flip, histogram; and
// functions of single elements.
#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <random>

#include "tests/codegen/lower/ops_support.h"

namespace tegula::ops {
namespace {

// Sorts rows by `expression` of the tile x, loaded as [ROWS, N] (or [N] if there is one row), into R.
template <class R, class T>
std::vector<R> rows_by(const std::string& expression, const std::vector<T>& x, int rows, int n, int kept,
                       int num_warps) {
  Array<R> out(size_t(rows * kept));
  const std::string index =
      rows == 1 ? "tl.arange(0, {0})" : "tl.arange(0, {1})[:, None] * {0} + tl.arange(0, {0})[None, :]";
  run(fmt::format("@triton.jit\ndef kernel(p, out):\n    x = tl.load(p + {})\n    y = {}\n    tl.static_assert(y.dtype "
                  "== {})\n    tl.store(out + {}, y)\n",
                  fmt::format(fmt::runtime(index), n, rows), expression, tl<R>(),
                  fmt::format(fmt::runtime(index), kept, rows)),
      {.num_warps = num_warps}, {1}, Array<T>(x), out);
  return out.values();
}

// The order of sort: by value, -0 before 0, NaNs last.
template <class T>
bool comes_before(T a, T b) {
  if (is_nan(a) || is_nan(b)) return !is_nan(a) && is_nan(b);
  if (wide(a) != wide(b)) return wide(a) < wide(b);
  if constexpr (is_real<T>) return std::signbit(wide(a)) && !std::signbit(wide(b));
  return false;
}

template <class T>
std::vector<T> sorted_rows(std::vector<T> x, int n, bool descending) {
  for (auto row = x.begin(); row != x.end(); row += n) {
    std::stable_sort(row, row + n, comes_before<T>);
    if (descending) std::reverse(row, row + n);
  }
  return x;
}

template <class T>
void expect_same_bits(const std::vector<T>& got, const std::vector<T>& expected, const std::string& what) {
  expect_equal(got, what, [&](size_t i) { return expected[i]; });
  for (size_t i = 0; i < got.size(); ++i)
    if constexpr (is_real<T>) {
      if (is_nan(got[i])) continue;
      ASSERT_EQ(std::signbit(wide(got[i])), std::signbit(wide(expected[i]))) << what << " " << i;
    }
}

template <class T>
void check_sort(int rows, int n, int num_warps, bool descending = false) {
  SCOPED_TRACE(fmt::format("{} [{}, {}] num_warps {}", tl<T>(), rows, n, num_warps));
  auto x = random_values<T>(size_t(rows * n), unsigned(rows + n));
  auto special = specials<T>();
  for (size_t i = 0; i < special.size() && i < x.size() / 2; ++i) x[i * 2] = special[i];
  const std::string expression =
      descending ? fmt::format("x.sort(dim={}, descending=True)", rows == 1 ? 0 : 1) : std::string("tl.sort(x)");
  expect_same_bits(rows_by<T>(expression, x, rows, n, n, num_warps), sorted_rows(x, n, descending), expression);
}

TEST(Sort, AllTypes) {
  for_types<NumberTypes>([](auto type) { check_sort<decltype(type)>(1, 64, next_warps(), true); });
  for_types<NumberTypes>([](auto type) { check_sort<decltype(type)>(4, 16, next_warps()); });
}

TEST(Sort, ExtentsAndWarps) {
  for (int n : {1, 2, 16, 256})
    for (int num_warps : {1, 4}) check_sort<float>(1, n, num_warps, num_warps == 1);
  check_sort<float>(1, 512, 8);
  for (auto [rows, n] : {std::pair{2, 64}, std::pair{64, 8}, std::pair{6, 32}, std::pair{3, 4}})
    check_sort<int32_t>(rows, n, next_warps());
}

template <class T>
using TopOf = std::conditional_t<is_half<T>, float, std::conditional_t<is_real<T> || sizeof(T) >= 4, T, int32_t>>;

template <class T>
void check_topk(int rows, int n, int k, int num_warps, bool descending = true) {
  SCOPED_TRACE(fmt::format("{} [{}, {}] k {} num_warps {}", tl<T>(), rows, n, k, num_warps));
  auto x = random_values<T>(size_t(rows * n), unsigned(rows + n + k));
  auto all = sorted_rows(x, n, descending);
  std::vector<TopOf<T>> expected;
  for (auto row = all.begin(); row != all.end(); row += n)
    for (int i = 0; i < k; ++i) expected.push_back(TopOf<T>(wide(row[i])));
  const std::string expression = fmt::format("tl.topk(x, {}{})", k, descending ? "" : ", descending=False");
  expect_same_bits(rows_by<TopOf<T>>(expression, x, rows, n, k, num_warps), expected, expression);
}

// Long rows are sorted by the digits in which their elements differ.
TEST(Sort, ByDigits) {
  for_types<NumberTypes>([](auto type) { check_sort<decltype(type)>(1, 1024, 8, true); });
  check_sort<float>(1, 1024, 1);
  check_sort<int64_t>(1, 2048, 4);
  check_sort<uint16_t>(1, 1024, 32);
  check_sort<double>(1, 1024, 16);
}

TEST(Sort, ByFewDigits) {
  const int n = 1024;
  std::vector<int64_t> equal(n, -5), few(n), in_order(n), out_of_order(n);
  std::mt19937 random(3);
  for (int i = 0; i < n; ++i) {
    few[size_t(i)] = int64_t(random() % 3) << 40;
    in_order[size_t(i)] = int64_t(random() % 500) << 32 | i;
    out_of_order[size_t(i)] = int64_t(random() % 5) << 32 | (i == 32 ? 1023 : i);
  }
  for (const auto& x : {equal, few, in_order, out_of_order})
    for (bool descending : {false, true})
      expect_same_bits(rows_by<int64_t>(descending ? "tl.sort(x, descending=True)" : "tl.sort(x)", x, 1, n, n, 4),
                       sorted_rows(x, n, descending), "few digits");
}

// Rows of many different keys are sorted by buckets: those of any density, and with a few equal ones; others as before.
TEST(Sort, ByBuckets) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const int n : {1024, 2048}) {
    std::vector<float> dense(n), wide(n), pairs(n), rising(n), zeros(n);
    std::vector<int64_t> places(n);
    std::vector<uint32_t> words(n);
    for (size_t i = 0; i < size_t(n); ++i) {
      dense[i] = normal(random), wide[i] = std::exp(9 * normal(random)), rising[i] = float(i);
      pairs[i] = std::floor(dense[i] * 400), zeros[i] = std::max(dense[i], 0.0F);
      places[i] = int64_t(std::bit_cast<int32_t>(dense[i])) << 32 | int64_t(i);
      words[i] = uint32_t(random());
    }
    // Buckets of more keys than a thread sees: clusters of close ones that the sample knows little of.
    std::vector<float> clusters = wide;
    for (size_t i = 0; i < 20; ++i) clusters[i * 4 + 1] = std::ldexp(1.0F + float(i % 20) * 1e-6F, 120);
    for (const auto& x : {dense, wide, pairs, rising, zeros, clusters})
      for (const bool descending : {false, true})
        expect_same_bits(rows_by<float>(descending ? "tl.sort(x, descending=True)" : "tl.sort(x)", x, 1, n, n, 4),
                         sorted_rows(x, n, descending), "float32");
    std::vector<float16> halves(n);
    for (size_t i = 0; i < size_t(n); ++i) halves[i] = float16(dense[i]);
    expect_same_bits(rows_by<float16>("tl.sort(x)", halves, 1, n, n, 4), sorted_rows(halves, n, false), "float16");
    expect_same_bits(rows_by<int64_t>("tl.sort(x)", places, 1, n, n, 8), sorted_rows(places, n, false), "places");
    expect_same_bits(rows_by<uint32_t>("tl.sort(x)", words, 1, n, n, 2), sorted_rows(words, n, false), "words");
  }
}

TEST(Sort, TriesBucketsWhereThreadsHoldSeveralKeys) {
  const char* text = R"(
@triton.jit
def kernel(x):
    o = tl.arange(0, 1024)
    tl.store(x + o, tl.sort(tl.load(x + o)))
)";
  EXPECT_NE(ptx_of<int64_t>(text, 1).find("atom.shared.add"), std::string::npos);
  EXPECT_NE(ptx_of<float>(text, 1).find("atom.shared.add"), std::string::npos);
  EXPECT_EQ(ptx_of<int16_t>(text, 1).find("atom.shared.add"), std::string::npos);
}

/// PTX of a sort of n elements of int64.
std::string ptx_of_sort(int n) {
  return ptx_of<int64_t>(fmt::format(R"(
@triton.jit
def kernel(x):
    o = tl.arange(0, {})
    tl.store(x + o, tl.sort(tl.load(x + o)))
)",
                                     n),
                         1);
}

// The sample is of a quarter of the keys, of each four of a thread one by its lane: where those of a thread stand far
// apart in the row, the same ones of all threads would leave out three quarters of it.
TEST(Sort, SamplesTheWholeRow) {
  const std::string ptx = ptx_of_sort(1024);
  const size_t begin = ptx.find("red.shared.add"), end = ptx.find("atom.shared.add");
  ASSERT_LT(begin, end);
  int sampled = 0;
  for (size_t at = begin; at < end; at = ptx.find("red.shared.add", at + 1)) ++sampled;
  EXPECT_EQ(sampled, 1024 / 128 / 4);
  int chosen = 0;
  for (size_t at = ptx.find("selp.b32"); at < end; at = ptx.find("selp.b32", at + 1)) ++chosen;
  EXPECT_GE(chosen, 3 * sampled);
}

// Keys of one bucket may lie in the parts of two warps: buckets of one size after the other, up to more than a bucket
// may have, so that each part begins somewhere else in one.
TEST(Sort, BucketsOfTwoWarps) {
  std::mt19937 random(7);
  for (const int n : {1024, 4096})
    for (const int size : {2, 3, 17, 31, 32, 33}) {
      std::vector<float> close(n);
      std::vector<int64_t> wide(n);
      for (int i = 0; i < n; ++i) {
        const uint32_t group = uint32_t((i + 5) / size), within = uint32_t((i + 5) % size);
        close[size_t(i)] = std::bit_cast<float>(std::bit_cast<uint32_t>(float(1 + group)) + within);
        wide[size_t(i)] = int64_t(group) << 50 | within;
      }
      std::shuffle(close.begin(), close.end(), random), std::shuffle(wide.begin(), wide.end(), random);
      for (const int num_warps : {1, 4, 8}) {
        const std::string what = fmt::format("{} of {}, {} warps", size, n, num_warps);
        if (n <= 1024 * num_warps)
          expect_same_bits(rows_by<float>("tl.sort(x)", close, 1, n, n, num_warps), sorted_rows(close, n, false), what);
        if (n <= 1024 * num_warps)
          expect_same_bits(rows_by<int64_t>("tl.sort(x)", wide, 1, n, n, num_warps), sorted_rows(wide, n, false), what);
      }
    }
}

// Warps exchange neighbours as often as the largest bucket of their own part has keys: one bucket that is larger than
// all others, wherever it lies, and in two parts as well.
TEST(Sort, OneLargeBucket) {
  constexpr int n = 2048, size = 24;
  std::mt19937 random(13);
  for (const int num_warps : {2, 4, 8, 16})
    for (int first = 0; first < n; first += 111) {
      std::vector<float> close(n);
      std::vector<int64_t> wide(n);
      for (int i = 0; i < n; ++i) {
        const uint32_t within = uint32_t(std::clamp(i - first, 0, size)), group = uint32_t(i) - within;
        close[size_t(i)] =
            std::bit_cast<float>(std::bit_cast<uint32_t>(float(4 + group)) + (within < size ? within : 0));
        wide[size_t(i)] = int64_t(group) << 50 | (within < size ? within : 0);
      }
      std::shuffle(close.begin(), close.end(), random), std::shuffle(wide.begin(), wide.end(), random);
      const std::string what = fmt::format("a bucket at {}, {} warps", first, num_warps);
      expect_same_bits(rows_by<float>("tl.sort(x)", close, 1, n, n, num_warps), sorted_rows(close, n, false), what);
      expect_same_bits(rows_by<int64_t>("tl.sort(x)", wide, 1, n, n, num_warps), sorted_rows(wide, n, false), what);
    }
}

// Keys that end in their place: none are equal, and of 32 bits half are in order already, so digits take two passes.
TEST(Sort, KeysThatEndInTheirPlace) {
  auto sorting = [](const char* type, int bits, const char* place) {
    return fmt::format(R"(
@triton.jit
def kernel(x):
    o = tl.arange(0, 1024)
    number = tl.load(x + o).to(tl.{0})
    tl.store(x + o, tl.sort(number << {1} | {2}))
)",
                       type, bits, place);
  };
  const char* doubled = "o.to(tl.uint64) << 1 | (number == 7).to(tl.uint64)";
  for (const char* place : {"o.to(tl.uint64)", doubled}) {
    const std::string ptx = ptx_of<uint32_t>(sorting("uint64", 32, place), 1);
    EXPECT_NE(ptx.find("atom.shared.add"), std::string::npos);
  }
  EXPECT_EQ(ptx_of<uint32_t>(sorting("uint32", 16, "o.to(tl.uint32)"), 1).find("atom.shared.add"), std::string::npos);
  // Where places fill the lower half, buckets are tried first, as keys of equal numbers lie apart then.
  for (const char* step : {"* 64", "<< 6"}) {
    const auto place = fmt::format("o.to(tl.uint32) {} | (number == 7).to(tl.uint32)", step);
    const std::string ptx = ptx_of<uint32_t>(sorting("uint32", 16, place.c_str()), 1);
    EXPECT_NE(ptx.find("atom.shared.add"), std::string::npos);
    EXPECT_NE(ptx.find("vote.sync.ballot"), std::string::npos);
  }
  const char* narrow = "o.to(tl.uint32) * 32 | (number == 7).to(tl.uint32)";
  EXPECT_EQ(ptx_of<uint32_t>(sorting("uint32", 16, narrow), 1).find("atom.shared.add"), std::string::npos);
  EXPECT_NE(ptx_of<uint32_t>(sorting("uint32", 15, "o.to(tl.uint32)"), 1).find("atom.shared.add"), std::string::npos);
}

// A number of 16 bits and the place, which fills the lower half of a key.
TEST(Sort, PlacesFillHalfOfTheKey) {
  constexpr int n = 1024;
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::vector<uint32_t> dense(n), few(n), equal(n, 9), sparse(n), halves(n);
  for (size_t i = 0; i < size_t(n); ++i) {
    dense[i] = std::bit_cast<uint32_t>(normal(random)) >> 16, few[i] = uint32_t(random() % 5);
    sparse[i] = i % 100 == 0 ? 0xFFFF - uint32_t(i) : 3, halves[i] = dense[i] < 0x8000 ? 0 : dense[i];
  }
  const char* text = R"(
@triton.jit
def kernel(x, out, N: tl.constexpr):
    o = tl.arange(0, N)
    number = tl.load(x + o)
    keys = tl.sort(number << 16 | o.to(tl.uint32) * (65536 // N) | (number == 3).to(tl.uint32))
    tl.store(out + o, keys)
)";
  for (const auto& x : {dense, few, equal, sparse, halves}) {
    std::vector<uint32_t> expected;
    for (size_t i = 0; i < size_t(n); ++i)
      expected.push_back(x[i] << 16 | uint32_t(i) * (65536 / n) | uint32_t(x[i] == 3));
    std::sort(expected.begin(), expected.end());
    for (const int num_warps : {1, 4, 8}) {
      Array<uint32_t> out(n);
      run(text, {.constexprs = {{"N", n}}, .num_warps = num_warps}, {1}, Array<uint32_t>(x), out);
      EXPECT_EQ(out.values(), expected);
    }
  }
}

TEST(Sort, TopK) {
  for_types<NumberTypes>([](auto type) { check_topk<decltype(type)>(1, 64, 4, next_warps()); });
  for (auto [rows, n, k] : {std::tuple{1, 512, 16}, std::tuple{1, 256, 1}, std::tuple{1, 64, 32}, std::tuple{16, 64, 4},
                            std::tuple{5, 32, 2}})
    check_topk<float>(rows, n, k, next_warps(), n == 64);
}

TEST(Sort, BitonicMerge) {
  for (auto [rows, n] : {std::pair{1, 256}, std::pair{4, 64}}) {
    const int num_warps = n == 64 ? 1 : 4;
    auto x = random_values<int32_t>(size_t(rows * n), 9);
    for (int row = 0; row < rows; ++row) {
      auto begin = x.begin() + row * n, middle = begin + (row + 1) * n / 5;
      std::sort(begin, middle);
      std::sort(middle, begin + n, std::greater<>());
    }
    expect_same_bits(rows_by<int32_t>("tl.bitonic_merge(x)", x, rows, n, n, num_warps), sorted_rows(x, n, false), "up");
    expect_same_bits(rows_by<int32_t>("tl.bitonic_merge(x, descending=True)", x, rows, n, n, num_warps),
                     sorted_rows(x, n, true), "down");
  }
}

TEST(Sort, LanesCompareTheirWideKeysOnce) {
  const std::string ptx = ptx_of_sort(32);
  EXPECT_NE(ptx.find("shfl.sync.bfly"), std::string::npos) << ptx;
  EXPECT_EQ(ptx.find("max.s64"), std::string::npos) << ptx;
  EXPECT_EQ(ptx.find("shr.u64"), std::string::npos) << ptx;  // a key's halves part in the exchange itself
}

// Sorting what follows from a reduction, within a loop: scratch is used again and again.
TEST(Sort, InLoops) {
  auto x = random_values<int32_t>(4 * 256, 13);
  Array<int32_t> out(256);
  run(R"(
@triton.jit
def kernel(p, out):
    i = tl.arange(0, 256)
    best = tl.full((256,), -2147483648, tl.int32)
    for k in range(4):
        x = tl.load(p + k * 256 + i)
        y = tl.sort(x ^ tl.max(x, 0))
        best = tl.maximum(best, tl.flip(tl.sort(y, descending=True)))
    tl.store(out + i, best)
)",
      {}, {1}, Array<int32_t>(x), out);
  std::vector<int32_t> expected(256, INT32_MIN);
  for (int k = 0; k < 4; ++k) {
    std::vector<int32_t> row(x.begin() + k * 256, x.begin() + k * 256 + 256);
    const int32_t largest = *std::max_element(row.begin(), row.end());
    for (int32_t& v : row) v ^= largest;
    std::sort(row.begin(), row.end());
    for (size_t i = 0; i < 256; ++i) expected[i] = std::max(expected[i], row[i]);
  }
  EXPECT_EQ(out.values(), expected);
}

// ------------------------------------------------------------------------------------------------------- looked up

template <class T, class I>
void check_gather(int rows, int columns, int axis, int extent, int num_warps) {
  SCOPED_TRACE(fmt::format("{} by {} [{}, {}] axis {} extent {}", tl<T>(), tl<I>(), rows, columns, axis, extent));
  auto x = random_values<T>(size_t(rows * columns), 5);
  const int out_rows = axis == 0 ? extent : rows, out_columns = axis == 1 ? extent : columns;
  std::mt19937 random(6);
  std::vector<I> index(size_t(out_rows * out_columns));
  for (I& i : index) i = I(random() % unsigned(axis == 0 ? rows : columns));
  Array<T> out(index.size());
  run(R"(
@triton.jit
def kernel(x, index, out, M: tl.constexpr, N: tl.constexpr, P: tl.constexpr, Q: tl.constexpr, AXIS: tl.constexpr):
    a = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    o = tl.arange(0, P)[:, None] * Q + tl.arange(0, Q)[None, :]
    tl.store(out + o, tl.gather(a, tl.load(index + o), AXIS))
)",
      {.constexprs = {{"M", rows}, {"N", columns}, {"P", out_rows}, {"Q", out_columns}, {"AXIS", axis - 2}},
       .num_warps = num_warps},
      {1}, Array<T>(x), Array<I>(index), out);
  expect_equal(out.values(), "gather", [&](size_t i) {
    const size_t row = i / size_t(out_columns), column = i % size_t(out_columns);
    return axis == 0 ? x[size_t(index[i]) * size_t(columns) + column] : x[row * size_t(columns) + size_t(index[i])];
  });
}

TEST(Gather, AxesTypesAndExtents) {
  for (int axis : {0, 1}) {
    const int num_warps = axis == 0 ? 4 : 1;
    check_gather<float, int32_t>(16, 32, axis, 64, num_warps);
    check_gather<int8_t, int64_t>(8, 8, axis, 4, num_warps);
    check_gather<double, uint8_t>(12, 16, axis, 8, num_warps);
    check_gather<float16, int16_t>(32, 64, axis, 1, num_warps);
  }
  check_gather<Boolean, uint32_t>(4, 64, 1, 32, 4);
}

// Far from the tile, too, and in more than 32 bits: where nothing uses the element it is any, and no fault.
TEST(Gather, IndicesOutsideWhereNothingUsesTheElement) {
  for (int extent : {8, 64, 1024})
    for (const char* index : {"-1", "1 << 30", "-(1 << 31)", "tl.full([N], 1, tl.int64) << 40", "EXTENT"}) {
      SCOPED_TRACE(fmt::format("{} of {}", index, extent));
      const auto x = random_values<float>(size_t(extent), 5);
      Array<float> out(x.size());
      const std::string text = fmt::format(R"(
@triton.jit
def kernel(x, out, N: tl.constexpr, EXTENT: tl.constexpr):
    o = tl.arange(0, N)
    g = tl.gather(tl.load(x + o), tl.where(o % 3 == 1, {}, N - 1 - o), 0)
    tl.store(out + o, tl.where(o % 3 == 1, 0, g))
)",
                                           index);
      run(text, {.constexprs = {{"N", extent}, {"EXTENT", extent}}, .num_warps = 4}, {1}, Array<float>(x), out);
      expect_equal(out.values(), "gather", [&](size_t i) { return i % 3 == 1 ? 0.0f : x[size_t(extent) - 1 - i]; });
    }
}

TEST(Gather, RowsByShuffles) {
  const char* text = R"(
@triton.jit
def kernel(x, y):
    o = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tl.store(y + o, tl.gather(tl.load(x + o), tl.load(y + o).to(tl.int32), 1))
)";
  const std::string ptx = ptx_of<float>(text, 2);
  EXPECT_NE(ptx.find("shfl.sync.idx"), std::string::npos) << ptx;
  EXPECT_EQ(ptx.find("bar.sync"), std::string::npos) << ptx;
}

TEST(Gather, FlipsAllExtents) {
  for (int n : {1, 2, 64, 96, 1024}) {
    auto x = random_values<int16_t>(size_t(n), 8);
    Array<int16_t> out(x.size()), rows(x.size() * 4);
    run(R"(
@triton.jit
def kernel(p, out, rows, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(p + i)
    tl.store(out + i, x.flip())
    o = tl.arange(0, 4)[:, None] * N + i[None, :]
    y = x[None, :] + tl.arange(0, 4)[:, None].to(tl.int16)
    tl.store(rows + o, tl.flip(y, 0))
)",
        {.constexprs = {{"N", n}}, .num_warps = next_warps()}, {1}, Array<int16_t>(x), out, rows);
    expect_equal(out.values(), "flip", [&](size_t i) { return x[x.size() - 1 - i]; });
    expect_equal(rows.values(), "rows", [&](size_t i) { return int16_t(x[i % x.size()] + 3 - int(i / x.size())); });
  }
}

template <class T>
void check_histogram(int n, int bins, int num_warps) {
  SCOPED_TRACE(fmt::format("{} {} elements {} bins num_warps {}", tl<T>(), n, bins, num_warps));
  std::mt19937 random(unsigned(n + bins));
  std::vector<T> x(static_cast<size_t>(n));
  for (T& v : x) v = random() % 8 ? T(random() % unsigned(bins)) : T(random());
  Array<int32_t> all(size_t(bins), 0), some(size_t(bins), 0);
  run(R"(
@triton.jit
def kernel(p, all, some, N: tl.constexpr, BINS: tl.constexpr):
    i, b = tl.arange(0, N), tl.arange(0, BINS)
    x = tl.load(p + i)
    h = tl.histogram(x, BINS)
    tl.static_assert(h.dtype == tl.int32)
    tl.store(all + b, h)
    tl.store(some + b, x.histogram(BINS, mask=i < N // 3))
)",
      {.constexprs = {{"N", n}, {"BINS", bins}}, .num_warps = num_warps}, {1}, Array<T>(x), all, some);
  auto count = [&](size_t end, size_t bin) {
    return int32_t(std::count_if(x.begin(), x.begin() + long(end), [&](T v) { return v >= 0 && uint64_t(v) == bin; }));
  };
  expect_equal(all.values(), "histogram", [&](size_t bin) { return count(x.size(), bin); });
  expect_equal(some.values(), "masked", [&](size_t bin) { return count(x.size() / 3, bin); });
}

TEST(Histogram, TypesAndExtents) {
  for_types<IntTypes>([](auto type) { check_histogram<decltype(type)>(256, 16, next_warps()); });
  for (auto [n, bins] : {std::pair{16, 2}, std::pair{96, 64}, std::pair{1024, 256}, std::pair{64, 96}})
    for (int num_warps : {1, 4}) check_histogram<int32_t>(n, bins, num_warps);
}

// ----------------------------------------------------------------------------------------- functions of one element

TEST(MapElementwise, BranchesAndLoops) {
  auto x = random_values<int32_t>(512, 3);
  for (int32_t& v : x) v &= 255;
  Array<int32_t> steps(512), logs(512);
  run(R"(
@triton.jit
def collatz(n, limit):
    count = 0
    while (n > 1) & (count < limit):
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        count += 1
    return count

@triton.jit
def sign_and_half(x, bias):
    if x > 128:
        return 1, x // 2 + bias
    elif x < 64:
        return -1, x
    return 0, bias

@triton.jit
def kernel(p, steps, logs):
    i = tl.arange(0, 512)
    x = tl.load(p + i)
    tl.store(steps + i, tl.map_elementwise(collatz, x, 50))
    s, h = tl.map_elementwise(sign_and_half, x, i)
    tl.static_assert(s.dtype == tl.int32)
    tl.store(logs + i, s * 10000 + h)
)",
      {.num_warps = next_warps()}, {1}, Array<int32_t>(x), steps, logs);
  expect_equal(steps.values(), "collatz", [&](size_t i) {
    int count = 0;
    for (int n = x[i]; n > 1 && count < 50; ++count) n = n % 2 ? 3 * n + 1 : n / 2;
    return count;
  });
  expect_equal(logs.values(), "two results", [&](size_t i) {
    return x[i] > 128 ? 10000 + x[i] / 2 + int(i) : x[i] < 64 ? -10000 + x[i] : int(i);
  });
}

TEST(MapElementwise, Packs) {
  auto x = random_values<float>(256, 3);
  for (int num_warps : {1, 4, 8}) {
    Array<float> out(256), high(256);
    run(R"(
@triton.jit
def two(a, b, c, d):
    return a + c, b + d, a * 2.0, b * 2.0

@triton.jit
def kernel(p, out, high):
    i = tl.arange(0, 256)
    x = tl.load(p + i)
    s, t = tl.map_elementwise(two, x, 1.0, pack=2)
    tl.store(out + i, s)
    tl.store(high + i, t)
)",
        {.num_warps = num_warps}, {1}, Array<float>(x), out, high);
    expect_equal(out.values(), "sum", [&](size_t i) { return x[i] + 1; });
    expect_equal(high.values(), "product", [&](size_t i) { return x[i] * 2; });
  }
}

}  // namespace
}  // namespace tegula::ops
