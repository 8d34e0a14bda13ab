// label: device
// Math functions: the largest error over dense samples and special values stays within what codegen/ir/ops.def states.
#include <functional>
#include <tuple>

#include "tests/codegen/lower/ops_support.h"

namespace tegula::ops {
namespace {

using Real = long double;

struct Function {
  const char* expression;
  std::function<Real(Real, Real)> exact;
  /// Ulp in fp32 and fp64; fp32's grows by `per_magnitude` times |x|.
  double fp32, fp64;
  Real from, to;  ///< where the samples lie densely; all magnitudes are tried as well
  double per_magnitude = 0;
};

constexpr double kFastTanh = 0x1p13 * 1.0718;  // ulp, of a value just below a power of two

const std::vector<Function>& functions() {
  static const std::vector<Function> list = {
      {"tl.sqrt(a)", [](Real x, Real) { return std::sqrt(x); }, 2, 0.5, 0, 10},
      {"tl.sqrt_rn(a)", [](Real x, Real) { return std::sqrt(x); }, 0.5, 0.5, 0, 10},
      {"tl.rsqrt(a)", [](Real x, Real) { return 1 / std::sqrt(x); }, 2, 2, 0.01, 10},
      {"tl.exp(a)", [](Real x, Real) { return std::exp(x); }, 2, 1, -20, 20, 1.25},
      {"tl.exp2(a)", [](Real x, Real) { return std::exp2(x); }, 2, 1, -30, 30},
      {"tl.log(a)", [](Real x, Real) { return std::log(x); }, 1, 2, 0.01, 10},
      {"tl.log2(a)", [](Real x, Real) { return std::log2(x); }, 1, 2, 0.01, 10},
      {"tl.sin(a)", [](Real x, Real) { return std::sin(x); }, 2, 2, -20, 20},
      {"tl.cos(a)", [](Real x, Real) { return std::cos(x); }, 2, 2, -20, 20},
      {"tl.tanh(a)", [](Real x, Real) { return std::tanh(x); }, 3, 3, -5, 5},
      {"tl.tanh(a, approx=True)", [](Real x, Real) { return std::tanh(x); }, kFastTanh, 3, -5, 5},
      {"tl.fast_tanhf(a)", [](Real x, Real) { return std::tanh(x); }, kFastTanh, 3, -5, 5},
      {"tl.erf(a)", [](Real x, Real) { return std::erf(x); }, 2, 2, -4, 4},
      {"tl.pow(a, b)", [](Real x, Real y) { return std::pow(x, y); }, 2, 2, 0, 10},
      {"a ** b", [](Real x, Real y) { return std::pow(x, y); }, 2, 2, 0, 10},
  };
  return list;
}

template <class T>
void check_functions() {
  for (size_t k = 0; k < functions().size(); ++k) {
    const Function& f = functions()[k];
    std::vector<T> a, b;
    std::tie(a, b) = pairs<T>(3000, 40);
    for (int i = 0; i < 6000; ++i) {
      a.push_back(round_to<T>(f.from + (f.to - f.from) * i / 5999));
      b.push_back(round_to<T>(-4 + Real(i % 97) / 12));
    }
    auto out = evaluate<T>({f.expression}, a, b)[0];
    double worst = 0;
    size_t where = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      double error = ulp_error(out[i], f.exact(wide(a[i]), wide(b[i])));
      if constexpr (!std::is_same_v<T, double>) {
        if (std::isfinite(error))
          error = std::max(0.0, error - f.per_magnitude * double(std::min(std::fabs(wide(a[i])), 110.0L)));
      }
      if (error > worst) worst = error, where = i;
    }
    double bound = std::is_same_v<T, double> ? f.fp64 : f.fp32;
    fmt::print("  {} {:14} {:.3g} ulp\n", tl<T>(), f.expression, worst);
    EXPECT_LE(worst, bound) << tl<T>() << " " << f.expression << " of " << show(a[where]) << ", " << show(b[where])
                            << ": got " << show(out[where]) << ", exact "
                            << double(f.exact(wide(a[where]), wide(b[where])));
  }
}

TEST(Math, Float32) { check_functions<float>(); }
TEST(Math, Float64) { check_functions<double>(); }

constexpr const char* kOneExpression =
    "@triton.jit\ndef kernel(x, y):\n    i = tl.arange(0, 128)\n    a = tl.load(x + i)\n    tl.store(y + i, {})\n";

// A kernel's own products and sums may become one fma. Those of the library's functions must not: their exact
// remainders of products would be lost, and sin of a large argument with them.
TEST(Math, OnlyTheKernelsOwnProductsAreFused) {
  std::string own = ptx_of<float>(fmt::format(fmt::runtime(kOneExpression), "a * 3.5 + a"), 2);
  EXPECT_NE(own.find("fma.rn.f32"), std::string::npos) << own;
  std::string library = ptx_of<float>(fmt::format(fmt::runtime(kOneExpression), "tl.sin(a)"), 2);
  EXPECT_NE(library.find("sub.rn.f32"), std::string::npos) << library;
  // Without a rounding the assembler is free to fuse.
  for (const char* op : {"add.f32", "sub.f32", "mul.f32"}) EXPECT_EQ(library.find(op), std::string::npos) << op;
}

TEST(Math, Sigmoid) {
  auto x = random_values<float>(1000, 41);
  auto out = evaluate<float>({"tl.sigmoid(a)"}, x)[0];
  for (size_t i = 0; i < x.size(); ++i) {
    double exact = 1 / (1 + std::exp(-double(x[i])));
    EXPECT_NEAR(out[i], exact, 1e-6) << x[i];
  }
  const std::vector<float> far = {-200, -100, -88, -80, 80, 88, 100, 200};
  out = evaluate<float>({"tl.sigmoid(a)"}, far)[0];
  for (size_t i = 0; i < far.size(); ++i) {
    const double exact = 1 / (1 + std::exp(-double(far[i])));
    EXPECT_NEAR(out[i], exact, 1e-4 * exact + 0x1p-126) << far[i];
  }
}

// A number below the normal ones, added to 1, is as good as 0: no instructions for such results of exp.
TEST(Math, SubnormalResultsOfExpThatVanish) {
  struct Row {
    const char* expression;
    bool vanish;
  };
  for (const Row& row : {Row{"tl.sigmoid(a)", true}, Row{"a / (tl.exp(-a) + 1)", true}, Row{"tl.exp(a) + 1e-35", false},
                         Row{"tl.exp(a)", false}, Row{"tl.exp(a) + a", false}}) {
    const std::string ptx = ptx_of<float>(fmt::format(fmt::runtime(kOneExpression), row.expression), 2);
    EXPECT_EQ(ptx.find("ex2.approx.ftz.f32") != std::string::npos, row.vanish) << row.expression << ptx;
    EXPECT_EQ(ptx.find("ex2.approx.f32") == std::string::npos, row.vanish) << row.expression << ptx;
  }
}

}  // namespace
}  // namespace tegula::ops
