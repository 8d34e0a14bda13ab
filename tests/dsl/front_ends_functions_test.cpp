// label: device
// Operators, functions and types of parameters in both front ends: equal tile IR, and results against a reference.
#include "tests/dsl/front_ends_support.h"

namespace tegula {
namespace {

using namespace front_ends;
using ops::round_to;
using ops::small_values;
using ops::wide;

// `expected(i)` is what value i of the output is to be.
template <class Out, class Expected, class... In>
void check(const std::string& text, const Kernel& cpp, const LaunchOptions& options, Grid grid, size_t size,
           Expected expected, double tolerance, const In&... in) {
  std::vector<double> values;
  for (size_t i = 0; i < size; ++i) values.push_back(double(expected(i)));
  expect_agree<Out>(text, cpp, options, grid, values, tolerance, in...);
}

std::vector<float> numbers(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-4, 4);
  std::vector<float> out(n);
  for (float& x : out) x = uniform(random);
  return out;
}

TEST(FrontEndsFunctions, OperatorsOfIntegers) {
  auto a = small_values<int32_t>(64, 2, 1000), b = small_values<int32_t>(64, 3, 20);
  for (auto& v : b) v = v == 0 ? 7 : v;
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Ptr<"x"> x, Ptr<"y"> y) {
    Tile i = arange(0, 64);
    Tile a = load(x + i), b = load(y + i);
    Tile r = a * 3 + b - 2;
    r += floordiv(a, b);
    r ^= a % b;
    r -= (a & 255) | (b << 2);
    r *= 2;
    r |= 1;
    r = where(((a < b) & (a != 3)) | ~(b >= 4), r, -r);
    r = where(logical_not(a == b), r, a >> 1);
    store(out + i, r + (1 - a) + (5 | b) + (100 ^ a));
  });
  check<int32_t>(
      R"(@triton.jit
def kernel(out, x, y):
    i = tl.arange(0, 64)
    a = tl.load(x + i)
    b = tl.load(y + i)
    r = a * 3 + b - 2
    r += a // b
    r ^= a % b
    r -= (a & 255) | (b << 2)
    r *= 2
    r |= 1
    r = tl.where((a < b) & (a != 3) | ~(b >= 4), r, -r)
    r = tl.where(not (a == b), r, a >> 1)
    tl.store(out + i, r + (1 - a) + (5 | b) + (100 ^ a))
)",
      cpp, {}, {1}, 64,
      [&](size_t i) {
        int x = a[i], y = b[i];
        int r = x * 3 + y - 2;
        r += x / y;
        r ^= x % y;
        r -= (x & 255) | (y << 2);
        r *= 2;
        r |= 1;
        r = (x < y && x != 3) || !(y >= 4) ? r : -r;
        r = x != y ? r : x >> 1;
        return r + (1 - x) + (5 | y) + (100 ^ x);
      },
      0, Array<int32_t>(a), Array<int32_t>(b));
}

TEST(FrontEndsFunctions, FunctionsAndKeywords) {
  auto x = numbers(64, 4), y = numbers(64, 5);
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Ptr<"x"> x, Ptr<"y"> y, Float<"scale"> scale, Int<"n"> n) {
    Tile i = arange(0, 64);
    Tile a = load(x + i, "mask"_a = i < n, "other"_a = 0.5f);
    Tile b = load(y + i, "cache_modifier"_a = ".cg");
    Tile r = fma(a, b, scale) + sigmoid(a) * minimum(a, b) - maximum(a, 0.25f);
    r = r + sqrt(abs(b)) + rsqrt(exp2(a)) + log(exp(b)) + clamp(a, -1.0f, 1.0f) + floor(b) + fdiv(a, b * b + 1.0f);
    r += a.to(tl::float16).to(tl::float32) + erf(a) + x.dtype().element_ty().is_floating().to(tl::float32);
    store(out + i, r, "mask"_a = i < 60);
  });
  check<float>(
      R"(@triton.jit
def kernel(out, x, y, scale, n):
    i = tl.arange(0, 64)
    a = tl.load(x + i, mask=i < n, other=0.5)
    b = tl.load(y + i, cache_modifier=".cg")
    r = tl.fma(a, b, scale) + tl.sigmoid(a) * tl.minimum(a, b) - tl.maximum(a, 0.25)
    r = r + tl.sqrt(tl.abs(b)) + tl.rsqrt(tl.exp2(a)) + tl.log(tl.exp(b)) + tl.clamp(a, -1.0, 1.0) + tl.floor(b) + tl.fdiv(a, b * b + 1.0)
    r += a.to(tl.float16).to(tl.float32) + tl.erf(a) + 1.0
    tl.store(out + i, r, mask=i < 60)
)",
      cpp, {}, {1}, 64,
      [&](size_t i) -> double {
        if (i >= 60) return 0;
        double a = i < 50 ? x[i] : 0.5, b = y[i], half = wide(round_to<float16>(a));
        double r = a * b + 1.5 + 1 / (1 + std::exp(-a)) * std::min(a, b) - std::max(a, 0.25);
        r += std::sqrt(std::abs(b)) + 1 / std::sqrt(std::exp2(a)) + b + std::clamp(a, -1.0, 1.0) + std::floor(b) +
             a / (b * b + 1);
        return r + half + std::erf(a) + 1;
      },
      1e-5, Array<float>(x), Array<float>(y), 1.5f, 50);
}

TEST(FrontEndsFunctions, ShapesAndTuples) {
  auto x = numbers(16 * 32, 6);
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Ptr<"x"> x) {
    Tile i = arange(0, 16), j = arange(0, 32);
    Tile v = load(x + i[{all, none}] * 32 + j[{none, all}]);
    auto [m, at] = unpack<2>(max(v, 1, "return_indices"_a = true));
    Tile t = v.T() + reshape(v, list({32, 16})) + trans(view(v, 16, 32)) * 2.0f;
    t -= broadcast_to(expand_dims(m, 0), list({32, 16}));
    auto [wide, zeros_like_t] = unpack<2>(broadcast(at.to(tl::float32)[{none, all}], zeros({32, 1}, tl::float32)));
    t += wide + zeros_like_t + full({32, 16}, 3.0f, tl::float32) + zeros_like(t) + v.argmin(1)[{none, all}];
    store(out + j[{all, none}] * 16 + i[{none, all}], t);
  });
  check<float>(
      R"(@triton.jit
def kernel(out, x):
    i = tl.arange(0, 16)
    j = tl.arange(0, 32)
    v = tl.load(x + i[:, None] * 32 + j[None, :])
    m, at = tl.max(v, 1, return_indices=True)
    t = v.T + tl.reshape(v, (32, 16)) + tl.trans(tl.view(v, 16, 32)) * 2.0
    t -= tl.broadcast_to(tl.expand_dims(m, 0), (32, 16))
    wide, zeros_like_t = tl.broadcast(at.to(tl.float32)[None, :], tl.zeros((32, 1), tl.float32))
    t += wide + zeros_like_t + tl.full((32, 16), 3.0, tl.float32) + tl.zeros_like(t) + v.argmin(1)[None, :]
    tl.store(out + j[:, None] * 16 + i[None, :], t)
)",
      cpp, {}, {1}, 512,
      [&](size_t k) {
        size_t j = k / 16, i = k % 16;
        auto row = x.begin() + long(i * 32);
        auto largest = std::max_element(row, row + 32), smallest = std::min_element(row, row + 32);
        return 3.0 * row[long(j)] + x[k] - *largest + double(largest - row) + 3 + double(smallest - row);
      },
      1e-5, Array<float>(x));
}

TEST(FrontEndsFunctions, OrderAndElements) {
  auto x = numbers(64, 7);
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Ptr<"x"> x) {
    Tile i = arange(0, 64);
    Tile v = load(x + i);
    auto [s, d] = unpack<2>(map_elementwise(
        [](Tile a, Tile b) {
          return std::array<Tile, 2>{a + b, a - b};
        },
        v, flip(v)));
    Tile r = map_elementwise([](Tile a) { return a * 2.0f; }, d);
    store(out + i, sort(s) + gather(r, i ^ 1, 0));
  });
  std::vector<float> sums;
  for (size_t i = 0; i < 64; ++i) sums.push_back(x[i] + x[63 - i]);
  std::sort(sums.begin(), sums.end());
  check<float>(
      R"(@triton.jit
def both(a, b):
    return a + b, a - b

@triton.jit
def twice(a):
    return a * 2.0

@triton.jit
def kernel(out, x):
    i = tl.arange(0, 64)
    v = tl.load(x + i)
    s, d = tl.map_elementwise(both, v, tl.flip(v))
    r = tl.map_elementwise(twice, d)
    tl.store(out + i, tl.sort(s) + tl.gather(r, i ^ 1, 0))
)",
      cpp, {}, {1}, 64, [&](size_t i) { return sums[i] + 2.0 * (x[i ^ 1] - x[63 - (i ^ 1)]); }, 1e-5, Array<float>(x));
}

TEST(FrontEndsFunctions, LoopsDownwardsAndSwappedValues) {
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Int<"n"> n) {
    Tile a = 0, b = 1;
    for (Tile k : range(n, 0, -2)) {
      Tile t = a + b * k;
      a = b;
      b = t;
    }
    store(out, a);
    store(out + 1, b);
  });
  for (int n : {-2, 0, 1, 5, 8}) {
    int32_t a = 0, b = 1;
    for (int k = n; k > 0; k -= 2) {
      int32_t t = a + b * k;
      a = b, b = t;
    }
    check<int32_t>(
        R"(@triton.jit
def kernel(out, n):
    a = 0
    b = 1
    for k in range(n, 0, -2):
        t = a + b * k
        a = b
        b = t
    tl.store(out, a)
    tl.store(out + 1, b)
)",
        cpp, {}, {1}, 2, [&](size_t i) { return i ? b : a; }, 0, n);
  }
}

// A helper is a C++ function: of Tiles, and of what is known when the kernel is recorded.
Tile horner(const Tile& x, const std::vector<double>& coefficients) {
  Tile y = full(list({64}), coefficients[0], tl::float32);
  for (size_t i = 1; i < coefficients.size(); ++i) y = y * x + coefficients[i];
  return y;
}

TEST(FrontEndsFunctions, HelpersAndCompileTimeValues) {
  auto x = numbers(64, 10);
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Ptr<"x"> x, Const<"ACT", std::string> ACT, Const<"DT", Elem> DT,
                                 Const<"REPEAT"> REPEAT) {
    Tile i = arange(0, 64);
    auto activate = [&](const Tile& v) {
      if (ACT.value == "relu") return maximum(v, 0.0f);
      if (ACT.value == "poly") return horner(v, {0.5, -1.0, 2.0});
      return Tile(v);
    };
    Tile v = load(x + i);
    for (int64_t k = 0; k < REPEAT; ++k) v = activate(v).to(DT).to(tl::float32) * 0.5f;
    store(out + i, v);
  });
  for (std::string act : {"relu", "poly", "none"})
    for (Elem dtype : {Elem::F32, Elem::F16})
      check<float>(
          R"(@triton.jit
def activate(v, ACT: tl.constexpr):
    if ACT == "relu":
        return tl.maximum(v, 0.0)
    elif ACT == "poly":
        y = tl.full([64], 0.5, tl.float32)
        y = y * v + -1.0
        return y * v + 2.0
    else:
        return v

@triton.jit
def kernel(out, x, ACT: tl.constexpr, DT: tl.constexpr, REPEAT: tl.constexpr):
    i = tl.arange(0, 64)
    v = tl.load(x + i)
    for k in tl.static_range(REPEAT):
        v = activate(v, ACT).to(DT).to(tl.float32) * 0.5
    tl.store(out + i, v)
)",
          cpp, {.constexprs = {{"ACT", act}, {"DT", dtype}, {"REPEAT", 3}}}, {1}, 64,
          [&](size_t i) {
            double v = x[i];
            for (int k = 0; k < 3; ++k) {
              v = act == "relu" ? std::max(v, 0.0) : act == "poly" ? 0.5 * v * v - v + 2 : v;
              if (dtype == Elem::F16) v = double(wide(round_to<float16>(v)));
              v *= 0.5;
            }
            return v;
          },
          dtype == Elem::F16 ? 2e-3 : 1e-5, Array<float>(x));
}

#if __cpp_nontype_template_args >= 201911L  // numbers with fractions as template arguments: not of clang 14
TEST(FrontEndsFunctions, TypesOfParameters) {
  auto cpp = kernel("kernel", [](Ptr<"out", double> out, Int<"a", int64_t> a, Float<"b", double> b, Bool<"c"> c,
                                 Const<"D", int64_t, 4> D,
                                 Const<"E", double, 0.5> E) { store(out, where(c, a * 2 + b, 0.0f) + D * E); });
  std::string text = R"(@triton.jit
def kernel(out, a: tl.int64, b: tl.float64, c: tl.int1, D: tl.constexpr = 4, E: tl.constexpr = 0.5):
    tl.store(out, tl.where(c, a * 2 + b, 0.0) + D * E)
)";
  check<double>(
      text, cpp, {}, {1}, 1, [](size_t) { return 2.0 * 5000000000 + 0.25 + 2; }, 0, int64_t(5000000000), 0.25, true);
  check<double>(
      text, cpp, {.constexprs = {{"D", 10}}}, {1}, 1, [](size_t) { return 5.0; }, 0, 1, 0.25, false);
}
#endif

}  // namespace
}  // namespace tegula
