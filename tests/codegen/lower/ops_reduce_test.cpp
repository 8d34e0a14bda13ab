// label: device
// heavy: Reductions.AllTypes
// Reductions: every kind over every axis of tiles of rank 1 to 3, types, warps, ties and NaNs.
#include <algorithm>
#include <numeric>

#include "tests/codegen/lower/ops_axes.h"

namespace tegula::ops {
namespace {

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

}  // namespace
}  // namespace tegula::ops
