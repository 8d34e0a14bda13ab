// label: device
// Reductions: every kind over every axis of tiles of rank 1 to 3, types, warps, ties and NaNs. Scans: axes, directions,
// types, tuples and functions that do not commute, over tiles smaller than a warp to several rounds of all warps.
#include <algorithm>
#include <functional>
#include <numeric>

#include "tests/codegen/lower/ops_support.h"

namespace tegula::ops {
namespace {

using Shape = std::vector<int>;

int elements(const Shape& shape) { return std::accumulate(shape.begin(), shape.end(), 1, std::multiplies<>()); }

// Text of the row-major offsets of a tile of this shape: "tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]".
std::string offsets(const Shape& shape) {
  std::string out;
  int stride = elements(shape);
  for (size_t i = 0; i < shape.size(); ++i) {
    stride /= shape[i];
    std::string index;
    for (size_t j = 0; j < shape.size(); ++j) index += (j ? ", " : "") + std::string(j == i ? ":" : "None");
    out += fmt::format("{}tl.arange(0, {})[{}] * {}", i ? " + " : "", shape[i], index, stride);
  }
  return out;
}

// The elements that are reduced together: groups[i] holds the places, in order along the axis, of result i.
std::vector<std::vector<int>> groups_along(const Shape& shape, std::optional<int> axis) {
  if (!axis) {
    std::vector<int> all(elements(shape));
    std::iota(all.begin(), all.end(), 0);
    return {all};
  }
  int inner = 1, extent = shape[*axis];
  for (size_t i = *axis + 1; i < shape.size(); ++i) inner *= shape[i];
  std::vector<std::vector<int>> groups(elements(shape) / extent);
  for (int i = 0; i < elements(shape); ++i) groups[i / (inner * extent) * inner + i % inner].push_back(i);
  return groups;
}

Shape without(const Shape& shape, std::optional<int> axis, bool keep_dims) {
  Shape out = shape;
  if (!axis) return keep_dims ? Shape(shape.size(), 1) : Shape();
  if (keep_dims)
    out[*axis] = 1;
  else
    out.erase(out.begin() + *axis);
  return out;
}

// Reduces a tile of `x` by each expression of `a` and stores results of type R.
template <class R, class T>
std::vector<std::vector<R>> reduce(const std::vector<T>& x, const Shape& shape, std::optional<int> axis, bool keep_dims,
                                   const std::vector<std::string>& expressions, int num_warps,
                                   const std::string& helpers = "") {
  Shape left = without(shape, axis, keep_dims);
  size_t n = size_t(elements(left));
  std::string body = fmt::format("a = tl.load(x + {})\n", offsets(shape));
  for (size_t k = 0; k < expressions.size(); ++k)
    body += fmt::format(
        "r{0} = {1}\ntl.static_assert(r{0}.dtype == {2}, 'type of expression {0}')\ntl.store(out + {3}{4}, r{0})\n", k,
        expressions[k], tl<R>(), k * n, left.empty() ? "" : " + " + offsets(left));
  Array<R> out(n * expressions.size());
  run(fmt::format("{}\n@triton.jit\ndef kernel(x, out):\n{}\n", helpers, indented(body)), {.num_warps = num_warps}, {1},
      Array<T>(x), out);
  std::vector<R> all = out.values();
  std::vector<std::vector<R>> results;
  for (size_t k = 0; k < expressions.size(); ++k)
    results.emplace_back(all.begin() + long(k * n), all.begin() + long((k + 1) * n));
  return results;
}

template <class T>
using SumOf = std::conditional_t<
    is_real<T>, T, std::conditional_t<sizeof(T) == 8, T, std::conditional_t<std::is_unsigned_v<T>, uint32_t, int32_t>>>;
template <class T>
using ExtremeOf = std::conditional_t<is_half<T>, float, std::conditional_t<is_real<T> || sizeof(T) >= 4, T, int32_t>>;

template <class T>
void check_reductions(const Shape& shape, std::optional<int> axis, bool keep_dims, int num_warps) {
  SCOPED_TRACE(
      fmt::format("{} [{}] axis {} num_warps {}", tl<T>(), fmt::join(shape, ", "), axis.value_or(-1), num_warps));
  int n = elements(shape);
  // Sums of halves stay exact with few distinct values.
  auto x = small_values<T>(size_t(n), unsigned(n + num_warps),
                           sizeof(T) == 1 ? 100
                           : is_half<T>   ? (n > 64 ? 1 : 6)
                                          : 50);
  auto groups = groups_along(shape, axis);
  std::string options =
      fmt::format("axis={}{}", axis ? std::to_string(*axis) : "None", keep_dims ? ", keep_dims=True" : "");
  auto at = [&](auto f) { return [&groups, f](size_t i) { return f(groups[i]); }; };
  using Sum = SumOf<T>;
  using Extreme = ExtremeOf<T>;
  auto largest = [&](const std::vector<int>& g) {
    return *std::max_element(g.begin(), g.end(), [&](int i, int j) { return wide(x[i]) < wide(x[j]); });
  };
  auto smallest = [&](const std::vector<int>& g) {
    return *std::min_element(g.begin(), g.end(), [&](int i, int j) { return wide(x[i]) < wide(x[j]); });
  };

  auto sum = reduce<Sum>(x, shape, axis, keep_dims, {fmt::format("tl.sum(a, {})", options)}, num_warps);
  expect_equal(sum[0], "sum", at([&](auto& g) {
                 if constexpr (is_real<T>) {
                   double total = 0;
                   for (int i : g) total += double(wide(x[i]));
                   return round_to<Sum>(total);
                 } else {
                   uint64_t total = 0;
                   for (int i : g) total += uint64_t(x[i]);
                   return Sum(total);
                 }
               }));
  auto extremes =
      reduce<Extreme>(x, shape, axis, keep_dims,
                      {fmt::format("tl.max(a, {})", options), fmt::format("tl.min(a, {})", options)}, num_warps);
  expect_equal(extremes[0], "max", at([&](auto& g) { return Extreme(wide(x[largest(g)])); }));
  expect_equal(extremes[1], "min", at([&](auto& g) { return Extreme(wide(x[smallest(g)])); }));
  // Of equal elements the first: min_element and max_element find it as well. The index counts along the axis.
  auto place = [](const std::vector<int>& g, int i) { return int32_t(std::find(g.begin(), g.end(), i) - g.begin()); };
  auto indices =
      reduce<int32_t>(x, shape, axis, keep_dims,
                      {fmt::format("tl.argmax(a, {})", options), fmt::format("tl.argmin(a, {})", options)}, num_warps);
  expect_equal(indices[0], "argmax", at([&](auto& g) { return place(g, largest(g)); }));
  expect_equal(indices[1], "argmin", at([&](auto& g) { return place(g, smallest(g)); }));
  if constexpr (!is_real<T>) {
    auto bits = reduce<T>(x, shape, axis, keep_dims, {fmt::format("tl.xor_sum(a, {})", options)}, num_warps);
    expect_equal(bits[0], "xor_sum", at([&](auto& g) {
                   T total = 0;
                   for (int i : g) total = T(total ^ x[i]);
                   return total;
                 }));
  }
}

TEST(Reductions, ShapesAxesAndWarps) {
  int turn = 0;
  for (const Shape& shape :
       std::vector<Shape>{{1},       {2},        {16},       {32},       {128},      {1024},     {4096},    {1, 1},
                          {4, 8},    {16, 16},   {1, 256},   {256, 1},   {64, 32},   {8, 512},   {2, 4096}, {1024, 2},
                          {2, 2, 2}, {4, 8, 16}, {16, 1, 8}, {1, 4, 32}, {2, 64, 4}, {32, 4, 16}}) {
    for (int axis = -1; axis < int(shape.size()); ++axis) {
      auto at = axis < 0 ? std::nullopt : std::optional(axis);
      check_reductions<float>(shape, at, turn % 2, next_warps());
      if (turn++ % 3 == 0) check_reductions<int32_t>(shape, at, turn % 2, next_warps());
    }
  }
}

TEST(Reductions, AcrossManyWarps) {
  for (int num_warps : {1, 2, 4, 8, 16}) {
    check_reductions<float>({2048}, 0, false, num_warps);
    check_reductions<double>({16, 64}, 0, false, num_warps);
    check_reductions<int64_t>({16, 64}, 1, false, num_warps);
  }
}

TEST(Reductions, AllTypes) {
  for_types<NumberTypes>([](auto type) {
    using T = decltype(type);
    check_reductions<T>({256}, 0, false, next_warps());
    check_reductions<T>({8, 64}, 0, false, next_warps());
    check_reductions<T>({8, 64}, 1, true, next_warps());
    check_reductions<T>({4, 4, 8}, 1, false, next_warps());
    check_reductions<T>({4, 32}, std::nullopt, false, next_warps());
  });
}

TEST(Reductions, OfBooleans) {
  auto x = random_values<Boolean>(512, 50);
  int count = 0;
  for (Boolean b : x) count += b;
  auto r = reduce<int32_t>(x, {512}, 0, false,
                           {"tl.max(a, axis=0)", "tl.min(a, axis=0)", "tl.sum(a.to(tl.int32), axis=0)"}, 4);
  EXPECT_EQ(r[0][0], 1);
  EXPECT_EQ(r[1][0], 0);
  EXPECT_EQ(r[2][0], count);
  EXPECT_EQ(reduce<uint32_t>(x, {512}, 0, false, {"tl.sum(a, axis=0)"}, 4)[0][0], uint32_t(count));
}

TEST(Reductions, ArgmaxOnTiesAndIndices) {
  std::vector<float> x(1024, 1.0f);
  for (int i : {700, 130, 900}) x[i] = 5;
  for (int i : {33, 1000}) x[i] = -5;
  for (int num_warps : {1, 4, 8}) {
    auto r = reduce<int32_t>(x, {1024}, 0, false,
                             {"tl.argmax(a, 0)", "tl.argmin(a, axis=0)", "tl.argmax(tl.where(a == 5, 1.0, 1.0), 0)",
                              "tl.max(a, 0, return_indices=True)[1]", "tl.argmax(a, 0, tie_break_left=False)"},
                             num_warps);
    EXPECT_EQ(r[0][0], 130);
    EXPECT_EQ(r[1][0], 33);
    EXPECT_EQ(r[2][0], 0);
    EXPECT_EQ(r[3][0], 130);
    EXPECT_TRUE(r[4][0] == 130 || r[4][0] == 700 || r[4][0] == 900) << r[4][0];
    auto v = reduce<float>(x, {1024}, 0, false,
                           {"tl.max(a, 0, return_indices=True)[0]", "tl.min(a, 0, return_indices=True)[0]"}, num_warps);
    EXPECT_EQ(v[0][0], 5);
    EXPECT_EQ(v[1][0], -5);
  }
}

TEST(Reductions, NanAndInfinity) {
  std::vector<float> x = small_values<float>(512, 51);
  x[3] = x[200] = x[511] = NAN;
  x[77] = 40;
  x[78] = -40;
  for (int num_warps : {1, 4}) {
    auto r = reduce<float>(x, {512}, 0, false, {"tl.max(a, 0)", "tl.min(a, 0)", "tl.sum(a, 0)"}, num_warps);
    EXPECT_EQ(r[0][0], 40);
    EXPECT_EQ(r[1][0], -40);
    EXPECT_TRUE(std::isnan(r[2][0]));
  }
  x[5] = INFINITY;
  x[9] = -INFINITY;
  auto r = reduce<float>(x, {512}, 0, false, {"tl.max(a, 0)", "tl.min(a, 0)"}, 4);
  EXPECT_EQ(r[0][0], INFINITY);
  EXPECT_EQ(r[1][0], -INFINITY);
  std::vector<float> nothing(64, NAN);
  EXPECT_TRUE(std::isnan(reduce<float>(nothing, {64}, 0, false, {"tl.max(a, 0)"}, 1)[0][0]));
}

TEST(Reductions, FloatSumsAreAccurate) {
  auto x = random_values<float>(4096, 52);
  for (float& v : x) v = std::fmod(v, 10.0f);
  double exact = 0, magnitude = 0;
  for (float v : x) exact += v, magnitude += std::fabs(v);
  for (int num_warps : {1, 8}) {
    auto r = reduce<float>(x, {4096}, 0, false, {"tl.sum(a, 0)"}, num_warps);
    // A tree of depth 12 and at most 128 additions in a row inside a thread.
    EXPECT_NEAR(r[0][0], exact, magnitude * 0x1p-24 * 12);
    auto wider = reduce<double>(x, {4096}, 0, false, {"tl.sum(a, 0, dtype=tl.float64)"}, num_warps);
    EXPECT_NEAR(wider[0][0], exact, magnitude * 0x1p-50);
  }
}

constexpr const char* kHelpers = R"(
@triton.jit
def largest_magnitude(a, b):
    return tl.where(tl.abs(a) > tl.abs(b), a, b)

@triton.jit
def gcd_step(a, b):
    return a | b

# Mean and spread of two groups put together (Welford).
@triton.jit
def merge(mean1, m21, n1, mean2, m22, n2):
    n = n1 + n2
    d = mean2 - mean1
    f = tl.where(n == 0.0, 0.0, n2 / n)
    return mean1 + d * f, m21 + m22 + d * d * n1 * f, n
)";

TEST(Reductions, ByAFunction) {
  for (const Shape& shape : std::vector<Shape>{{256}, {16, 32}, {4, 8, 16}})
    for (int axis = 0; axis < int(shape.size()); ++axis) {
      auto x = small_values<int32_t>(size_t(elements(shape)), 53, 1000);
      auto groups = groups_along(shape, axis);
      auto r = reduce<int32_t>(x, shape, axis, false, {fmt::format("tl.reduce(a, {}, gcd_step)", axis)}, next_warps(),
                               kHelpers);
      expect_equal(r[0], "reduce |", [&](size_t i) {
        int32_t total = 0;
        for (int k : groups[i]) total |= x[k];
        return total;
      });
      auto y = small_values<float>(size_t(elements(shape)), 54, 30);
      auto k = reduce<float>(
          y, shape, axis, true,
          {fmt::format("tl.abs(tl.reduce(a, axis={}, combine_fn=largest_magnitude, keep_dims=True))", axis)},
          next_warps(), kHelpers);
      expect_equal(k[0], "reduce magnitude", [&](size_t i) {
        float total = 0;
        for (int j : groups[i]) total = std::max(total, std::fabs(y[j]));
        return total;
      });
      auto w = reduce<float>(y, shape, axis, false,
                             {fmt::format("tl.reduce((a, a * 0.0, a * 0.0 + 1.0), {}, merge)[0]", axis),
                              fmt::format("tl.reduce((a, a * 0.0, a * 0.0 + 1.0), {}, merge)[1]", axis)},
                             next_warps(), kHelpers);
      for (size_t i = 0; i < groups.size(); ++i) {
        double mean = 0, spread = 0;
        for (int j : groups[i]) mean += y[j];
        mean /= double(groups[i].size());
        for (int j : groups[i]) spread += (y[j] - mean) * (y[j] - mean);
        EXPECT_NEAR(w[0][i], mean, 1e-3) << i;
        EXPECT_NEAR(w[1][i], spread, 1e-4 * spread + 1e-3) << i;
      }
    }
}

// The result of one reduction takes part in the next.
TEST(Reductions, Chained) {
  Shape shape{8, 16, 32};
  auto x = small_values<float>(4096, 55, 3);
  for (int num_warps : {1, 4, 8}) {
    auto r = reduce<float>(x, shape, std::nullopt, false,
                           {"tl.sum(tl.max(tl.sum(a, 2), 1), 0)", "tl.max(tl.sum(tl.max(a, 0), 0), 0)",
                            "tl.sum(tl.sum(a - tl.max(a, 1, keep_dims=True), 1))"},
                           num_warps);
    double expected[3] = {0, -1e9, 0};
    auto v = [&](int i, int j, int k) { return double(x[(i * 16 + j) * 32 + k]); };
    for (int i = 0; i < 8; ++i) {
      double best = -1e9;
      for (int j = 0; j < 16; ++j) {
        double s = 0;
        for (int k = 0; k < 32; ++k) s += v(i, j, k);
        best = std::max(best, s);
      }
      expected[0] += best;
      for (int k = 0; k < 32; ++k) {
        double most = -1e9, sum = 0;
        for (int j = 0; j < 16; ++j) most = std::max(most, v(i, j, k)), sum += v(i, j, k);
        expected[2] += sum - 16 * most;
      }
    }
    for (int k = 0; k < 32; ++k) {
      double s = 0;
      for (int j = 0; j < 16; ++j) {
        double most = -1e9;
        for (int i = 0; i < 8; ++i) most = std::max(most, v(i, j, k));
        s += most;
      }
      expected[1] = std::max(expected[1], s);
    }
    for (int k = 0; k < 3; ++k) EXPECT_EQ(r[k][0], expected[k]) << k << " num_warps " << num_warps;
  }
}

// ---------------------------------------------------------------------------------------------------------- scans

// The values of expressions of the tile `a`, each as large as it, of type R.
template <class R, class T>
std::vector<std::vector<R>> scan(const std::vector<T>& x, const Shape& shape,
                                 const std::vector<std::string>& expressions, int num_warps,
                                 const std::string& helpers = "") {
  std::string body = fmt::format("i = {}\na = tl.load(x + i)\n", offsets(shape));
  for (size_t k = 0; k < expressions.size(); ++k)
    body += fmt::format(
        "r{0} = {1}\ntl.static_assert(r{0}.dtype == {2}, 'type of expression {0}')\ntl.store(out + {3} + i, r{0})\n", k,
        expressions[k], tl<R>(), k * x.size());
  Array<R> out(x.size() * expressions.size());
  run(fmt::format("{}\n@triton.jit\ndef kernel(x, out):\n{}\n", helpers, indented(body)), {.num_warps = num_warps}, {1},
      Array<T>(x), out);
  std::vector<R> all = out.values();
  std::vector<std::vector<R>> results;
  for (size_t k = 0; k < expressions.size(); ++k)
    results.emplace_back(all.begin() + long(k * x.size()), all.begin() + long((k + 1) * x.size()));
  return results;
}

// What a scan gives: `step` combines what came before, nothing at first, with the next element.
template <class R, class State, class T, class Step>
std::vector<R> scan_reference(const std::vector<T>& x, const Shape& shape, int axis, bool reverse, Step step) {
  std::vector<R> out(x.size());
  for (std::vector<int> group : groups_along(shape, axis)) {
    if (reverse) std::reverse(group.begin(), group.end());
    std::optional<State> state;
    for (int i : group) {
      state = step(state, x[size_t(i)]);
      out[size_t(i)] = R(*state);
    }
  }
  return out;
}

// x -> scale * x + shift, one after the other: associative, and the order matters.
constexpr const char* kAffine = R"(
@triton.jit
def affine(scale1, shift1, scale2, shift2):
    return scale1 * scale2, shift1 * scale2 + shift2

@triton.jit
def first(a, b):
    return a

@triton.jit
def second(a, b):
    return b
)";

void check_scans(const Shape& shape, int axis, int num_warps) {
  SCOPED_TRACE(fmt::format("[{}] axis {} num_warps {}", fmt::join(shape, ", "), axis, num_warps));
  auto x = small_values<int32_t>(size_t(elements(shape)), unsigned(axis + num_warps), 100);
  std::vector<std::string> expressions;
  for (const char* reverse : {"", ", reverse=True"}) {
    expressions.push_back(fmt::format("tl.cumsum(a, {}{})", axis, reverse));
    expressions.push_back(fmt::format("tl.associative_scan((a * 2 + 1, a), {}, affine{})[1]", axis, reverse));
    expressions.push_back(fmt::format("tl.associative_scan(a, {}, first{})", axis, reverse));
    expressions.push_back(fmt::format("a.associative_scan({}, second{})", axis, reverse));
  }
  auto r = scan<int32_t>(x, shape, expressions, num_warps, kAffine);
  using State = std::optional<uint32_t>;
  for (bool reverse : {false, true}) {
    auto reference = [&](auto step) { return scan_reference<int32_t, uint32_t>(x, shape, axis, reverse, step); };
    const size_t k = reverse ? 4 : 0;
    EXPECT_EQ(r[k], reference([](State s, int v) { return s.value_or(0) + uint32_t(v); })) << "cumsum " << reverse;
    EXPECT_EQ(r[k + 1], reference([](State s, int v) { return s.value_or(0) * uint32_t(2 * v + 1) + uint32_t(v); }))
        << "affine " << reverse;
    EXPECT_EQ(r[k + 2], reference([](State s, int v) { return s.value_or(uint32_t(v)); })) << "first " << reverse;
    EXPECT_EQ(r[k + 3], x) << "second " << reverse;
  }
}

// Where a warp has several rows its lanes combine some of them each, and a result a lane is stored by one instruction.
TEST(Reductions, SeveralRowsOfAWarp) {
  auto text = [](int rows, int columns, const char* result) {
    return fmt::format(
        "@triton.jit\ndef kernel(x, out):\n    i = tl.arange(0, {0})\n    j = tl.arange(0, {1})\n"
        "    a = tl.load(x + i[:, None] * {1} + j)\n    tl.store(out + i * 40, {2})\n",
        rows, columns, result);
  };
  auto count = [](const std::string& ptx, const std::string& what) {
    int n = 0;
    for (size_t at = ptx.find(what); at != ptx.npos; at = ptx.find(what, at + 1)) ++n;
    return n;
  };
  const std::vector<ArgType> types(2, ArgType{.elem = elem<float>, .pointer = true, .divisible_by = 16});
  const std::string source = "import triton\nimport triton.language as tl\n\n" + text(16, 128, "tl.sum(a, 1)");
  const std::string ptx = Program::parse(source, "kernel.py")
                              .kernel("kernel")
                              .compile(types, {.num_warps = 1, .dependent_launch = false}, "sm_90a")
                              .ptx;
  EXPECT_EQ(count(ptx, "shfl.sync"), 15 + 1 + 16) << "not 5 for each of 16 rows\n" << ptx;
  EXPECT_EQ(count(ptx, "st.global"), 1) << ptx;
  EXPECT_EQ(count(ptx, "bar.sync"), 0) << ptx;

  for (int rows : {8, 64})
    for (int columns : {32, 128})
      for (int num_warps : {1, 4}) {
        const auto x = small_values<float>(size_t(rows) * size_t(columns), unsigned(rows + columns), 50);
        Array<float> sums(size_t(rows) * 40), places(size_t(rows) * 40);
        run(text(rows, columns, "tl.sum(a, 1)"), {.num_warps = num_warps}, {1}, Array<float>(x), sums);
        run(text(rows, columns, "tl.argmax(a, 1).to(tl.float32)"), {.num_warps = num_warps}, {1}, Array<float>(x),
            places);
        const std::vector<float> sum = sums.values(), place = places.values();
        for (int row = 0; row < rows; ++row) {
          const auto begin = x.begin() + row * columns, end = begin + columns;
          EXPECT_EQ(sum[size_t(row) * 40], std::accumulate(begin, end, 0.0f)) << rows << " " << columns;
          EXPECT_EQ(place[size_t(row) * 40], float(std::max_element(begin, end) - begin)) << rows << " " << columns;
        }
      }
}

TEST(Scans, Rank1) {
  for (int extent : {1, 2, 16, 32, 64, 96, 224, 1024, 3072})
    for (int num_warps : {1, 4, 8}) check_scans({extent}, 0, num_warps);
}

TEST(Scans, Axes) {
  for (const Shape& shape : std::vector<Shape>{{4, 8},
                                               {32, 32},
                                               {2, 128},
                                               {128, 2},
                                               {48, 16},
                                               {16, 48},
                                               {8, 4, 16},
                                               {2, 3, 32},
                                               {4, 2, 2, 8},
                                               {2, 2, 4, 2, 4}})
    for (int axis = 0; axis < int(shape.size()); ++axis) check_scans(shape, axis, next_warps());
  check_scans({64, 64}, 0, 4);
  check_scans({4, 512}, 1, 16);
  for (const Shape& shape : std::vector<Shape>{{128, 32}, {96, 64}, {256, 8}, {64, 2, 16}}) check_scans(shape, 0, 8);
}

// Operands that come from elsewhere than from memory: transposed, flattened, sums of products.
TEST(Scans, OfOtherLayouts) {
  for (int num_warps : {1, 4}) {
    Shape shape{32, 64};
    auto x = small_values<float>(2048, 3, 4);
    auto r =
        scan<float>(x, shape,
                    {"tl.trans(tl.cumsum(tl.trans(a), 1))", "tl.reshape(tl.cumsum(tl.reshape(a, (2048,))), (32, 64))",
                     "tl.sum(tl.cumsum(tl.dot(a.to(tl.float16), tl.trans(a).to(tl.float16)), 1), 1)[:, None] + a"},
                    num_warps);
    auto sum = [](std::optional<double> s, float v) { return s.value_or(0) + v; };
    const auto columns = scan_reference<float, double>(x, shape, 0, false, sum);
    const auto all = scan_reference<float, double>(x, {2048}, 0, false, sum);
    EXPECT_EQ(r[0], columns);
    EXPECT_EQ(r[1], all);
    for (int row = 0; row < 32; ++row) {
      double total = 0, before = 0;
      for (int column = 0; column < 32; ++column) {
        double product = 0;
        for (int k = 0; k < 64; ++k) product += double(x[size_t(row * 64 + k)]) * x[size_t(column * 64 + k)];
        before += product, total += before;
      }
      for (int k = 0; k < 64; ++k)
        ASSERT_EQ(r[2][size_t(row * 64 + k)], float(total) + x[size_t(row * 64 + k)]) << row << " " << k;
    }
  }
}

template <class T>
void check_scan_types() {
  using Sum = std::conditional_t<std::is_same_v<T, bfloat16>, float, SumOf<T>>;
  using Product = std::conditional_t<std::is_same_v<T, bfloat16>, float, T>;
  SCOPED_TRACE(tl<T>());
  const Shape shape{8, 64};
  auto x = small_values<T>(512, 7, is_half<T> ? 2 : 9);
  auto sums = scan<Sum>(x, shape, {"tl.cumsum(a, 1)", "a.cumsum(-1, reverse=True)"}, 4);
  for (bool reverse : {false, true})
    expect_equal(sums[reverse], "cumsum", [&, r = scan_reference<double, double>(x, shape, 1, reverse, [](auto s, T v) {
                                                return s.value_or(0.0) + double(wide(v));
                                              })](size_t i) {
      if constexpr (is_real<Sum>)
        return round_to<Sum>(r[i]);
      else
        return Sum(int64_t(r[i]));
    });
  // Products of ones, twos and minus ones, few of them.
  std::vector<T> few(512, T(1));
  for (size_t i = 0; i < few.size(); i += 11) few[i] = i % 2 ? T(2) : T(is_real<T> || std::is_signed_v<T> ? -1 : 1);
  auto products = scan<Product>(few, shape, {"tl.cumprod(a, 1)", "tl.cumprod(a, axis=1, reverse=True)"}, 4);
  for (bool reverse : {false, true})
    expect_equal(products[reverse], "cumprod",
                 [&, r = scan_reference<double, double>(few, shape, 1, reverse, [](auto s, T v) {
                       return s.value_or(1.0) * double(wide(v));
                     })](size_t i) {
                   if constexpr (is_real<Product>)
                     return round_to<Product>(r[i]);
                   else
                     return Product(int64_t(r[i]));
                 });
}

TEST(Scans, Types) {
  check_scan_types<int8_t>();
  check_scan_types<uint8_t>();
  check_scan_types<int16_t>();
  check_scan_types<uint16_t>();
  check_scan_types<int32_t>();
  check_scan_types<uint32_t>();
  check_scan_types<int64_t>();
  check_scan_types<uint64_t>();
  check_scan_types<float16>();
  check_scan_types<bfloat16>();
  check_scan_types<float>();
  check_scan_types<double>();
  // int1 counts in uint32; `dtype` comes first.
  auto x = small_values<float>(256, 9, 3);
  auto count = scan<uint32_t>(x, {256}, {"tl.cumsum(a > 0)", "tl.cumsum((a > 0).to(tl.int8), 0, dtype=tl.uint32)"}, 2);
  auto expected = scan_reference<uint32_t, uint32_t>(x, {256}, 0, false,
                                                     [](auto s, float v) { return s.value_or(0) + uint32_t(v > 0); });
  EXPECT_EQ(count[0], expected);
  EXPECT_EQ(count[1], expected);
}

// Scans in a loop share scratch with what comes before and behind.
TEST(Scans, InLoops) {
  auto x = small_values<int32_t>(1024, 5, 9);
  for (int num_warps : {4, 8}) {
    Array<int32_t> out(1024);
    run(R"(
@triton.jit
def kernel(x, out, n):
    i = tl.arange(0, 1024)
    a = tl.load(x + i)
    for k in range(n):
        a = tl.cumsum(a, 0) - tl.max(a, 0)
        a = tl.cumsum(a, 0, reverse=True) & 1023
    tl.store(out + i, a)
)",
        {.num_warps = num_warps}, {1}, Array<int32_t>(x), out, 5);
    std::vector<int32_t> a = x;
    for (int k = 0; k < 5; ++k) {
      const uint32_t most = uint32_t(*std::max_element(a.begin(), a.end()));
      uint32_t sum = 0;
      std::vector<uint32_t> next;
      for (int v : a) sum += uint32_t(v), next.push_back(sum - most);
      sum = 0;
      for (size_t i = a.size(); i-- > 0;) sum += next[i], a[i] = int32_t(sum & 1023);
    }
    EXPECT_EQ(out.values(), a);
  }
}

int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// What the warps have of columns lies lane by lane, four columns of a thread in an access: else all lanes of a warp
// would meet in one bank of shared memory.
TEST(Scans, WarpsExchangeColumnsInWideAccesses) {
  const std::string ptx = ptx_of<float>(
      "@triton.jit\ndef kernel(x, out):\n    i = tl.arange(0, 128)[:, None] * 32 + tl.arange(0, 32)[None, :]\n"
      "    tl.store(out + i, tl.cumsum(tl.load(x + i), 0))\n",
      2);
  constexpr int kRounds = 8, kWarps = 4;
  EXPECT_EQ(count(ptx, "st.shared.v4"), kRounds) << ptx;
  EXPECT_EQ(count(ptx, "ld.shared.v4"), kRounds * kWarps - 1) << "nothing is behind the last\n" << ptx;
}

// As many exchanges as a reduction needs: one for each bit of the lanes, and one barrier between warps.
TEST(Scans, FewExchanges) {
  auto kernel = [](int extent) {
    return ptx_of<float>(fmt::format("@triton.jit\ndef kernel(x, out):\n    i = tl.arange(0, {})\n"
                                     "    tl.store(out + i, tl.cumsum(tl.load(x + i)))\n",
                                     extent),
                         2);
  };
  const std::string warp = kernel(32), warps = kernel(512), rounds = kernel(4096);
  EXPECT_EQ(count(warp, "shfl.sync"), 5) << warp;
  EXPECT_EQ(count(warp, "bar.sync"), 0) << warp;
  EXPECT_EQ(count(warps, "shfl.sync"), 5) << warps;
  EXPECT_EQ(count(warps, "bar.sync"), 1) << warps;
  EXPECT_EQ(count(warps, "ld.global.v4"), 1) << "one layout from load to store\n" << warps;
  EXPECT_EQ(count(rounds, "shfl.sync"), 8 * 5) << rounds;
  EXPECT_EQ(count(rounds, "bar.sync"), 1) << rounds;
}

}  // namespace
}  // namespace tegula::ops
