// label: device
// The functions of libdevice: errors within what codegen/ir/libdevice.def states, all else exactly; and every row of it.
#include <cfenv>
#include <functional>
#include <set>

#include "codegen/ir/libdevice.h"
#include "tests/codegen/lower/ops_support.h"

namespace tegula::ops {
namespace {

using Real = long double;
using ir::LibdeviceFunction;

constexpr const char* kImport = "from triton.language.extra import libdevice\n\n";

/// evaluate, with libdevice at hand.
template <class R, class... In>
std::vector<std::vector<R>> evaluate_libdevice(const std::vector<std::string>& expressions,
                                               const std::vector<In>&... in) {
  std::vector<std::string> full;
  for (const std::string& e : expressions) full.push_back("tl.extra.libdevice." + e);
  return evaluate<R>(full, in...);
}

/// The names that a test of this file has evaluated.
std::set<std::string>& covered() {
  static std::set<std::string> names;
  return names;
}

// ---- Functions with an error

struct Function {
  const char* name;
  int arguments;
  double fp32, fp64;  ///< bounds in ulp; below 0: there is no such form
  std::function<Real(Real, Real)> exact;
  Real from = -10, to = 10;  ///< where the samples lie densely; all magnitudes are tried as well
};

constexpr double kNone = -1;

Real cbrt_inverse(Real x) { return 1 / std::cbrt(x); }

const std::vector<Function>& functions() {
  static const std::vector<Function> list = {
      {"sqrt", 1, 1, 0.5, [](Real x, Real) { return std::sqrt(x); }, 0},
      {"rsqrt", 1, 2, 1, [](Real x, Real) { return 1 / std::sqrt(x); }, 0.01L},
      {"rsqrt_rn", 1, 0.5, kNone, [](Real x, Real) { return 1 / std::sqrt(x); }, 0.01L},
      {"cbrt", 1, 1, 1, [](Real x, Real) { return std::cbrt(x); }},
      {"rcbrt", 1, 1, 1, [](Real x, Real) { return cbrt_inverse(x); }},
      {"exp", 1, 2, 1, [](Real x, Real) { return std::exp(x); }, -20, 20},
      {"exp2", 1, 2, 1, [](Real x, Real) { return std::exp2(x); }, -30, 30},
      {"exp10", 1, 2, 1, [](Real x, Real) { return std::pow(10.0L, x); }},
      {"expm1", 1, 1, 1, [](Real x, Real) { return std::expm1(x); }, -2, 2},
      {"log", 1, 1, 1, [](Real x, Real) { return std::log(x); }, 0.01L},
      {"log2", 1, 1, 1, [](Real x, Real) { return std::log2(x); }, 0.01L},
      {"log10", 1, 2, 1, [](Real x, Real) { return std::log10(x); }, 0.01L},
      {"log1p", 1, 1, 1, [](Real x, Real) { return std::log1p(x); }, -0.9L, 2},
      {"sin", 1, 2, 2, [](Real x, Real) { return std::sin(x); }, -20, 20},
      {"cos", 1, 2, 2, [](Real x, Real) { return std::cos(x); }, -20, 20},
      {"tan", 1, 4, 2, [](Real x, Real) { return std::tan(x); }, -20, 20},
      {"asin", 1, 2, 2, [](Real x, Real) { return std::asin(x); }, -1, 1},
      {"acos", 1, 2, 2, [](Real x, Real) { return std::acos(x); }, -1, 1},
      {"atan", 1, 2, 2, [](Real x, Real) { return std::atan(x); }},
      {"sinh", 1, 3, 2, [](Real x, Real) { return std::sinh(x); }},
      {"cosh", 1, 2, 1, [](Real x, Real) { return std::cosh(x); }},
      {"tanh", 1, 2, 1, [](Real x, Real) { return std::tanh(x); }, -4, 4},
      {"asinh", 1, 3, 3, [](Real x, Real) { return std::asinh(x); }},
      {"acosh", 1, 4, 3, [](Real x, Real) { return std::acosh(x); }, 1},
      {"atanh", 1, 3, 2, [](Real x, Real) { return std::atanh(x); }, -1, 1},
      {"erf", 1, 2, 2, [](Real x, Real) { return std::erf(x); }, -4, 4},
      {"erfc", 1, 4, 5, [](Real x, Real) { return std::erfc(x); }, -4},
      {"lgamma", 1, 6, 4, [](Real x, Real) { return x < 0 && std::isfinite(x) ? NAN : std::lgamma(x); }, 0.01L, 20},
      {"tgamma", 1, 5, 10, [](Real x, Real) { return std::tgamma(x); }, -9, 20},
      {"hypot", 2, 3, 2, [](Real x, Real y) { return std::hypot(x, y); }},
      {"rhypot", 2, 2, 1, [](Real x, Real y) { return 1 / std::hypot(x, y); }},
      {"atan2", 2, 3, 2, [](Real x, Real y) { return std::atan2(x, y); }},
      {"pow", 2, 4, 2, [](Real x, Real y) { return std::pow(x, y); }, 0},
      {"fmod", 2, 0, 0, [](Real x, Real y) { return std::fmod(x, y); }},
      {"remainder", 2, 0, 0, [](Real x, Real y) { return std::remainder(x, y); }},
      {"fdim", 2, 0.5, 0.5, [](Real x, Real y) { return std::fdim(x, y); }},
      {"copysign", 2, 0, 0, [](Real x, Real y) { return std::copysign(x, y); }},
      {"round", 1, 0, 0, [](Real x, Real) { return std::round(x); }},
      {"rint", 1, 0, 0, [](Real x, Real) { return std::rint(x); }},
      {"nearbyint", 1, 0, 0, [](Real x, Real) { return std::rint(x); }},
      {"trunc", 1, 0, 0, [](Real x, Real) { return std::trunc(x); }},
      {"floor", 1, 0, 0, [](Real x, Real) { return std::floor(x); }},
      {"ceil", 1, 0, 0, [](Real x, Real) { return std::ceil(x); }},
      {"logb", 1, 0, 0, [](Real x, Real) { return std::logb(x); }},
      {"abs", 1, 0, 0, [](Real x, Real) { return std::fabs(x); }},
  };
  return list;
}

/// All functions of so many arguments in one kernel.
template <class T>
void check_functions(int arguments, size_t begin, size_t end) {
  constexpr bool kDouble = std::is_same_v<T, double>;
  std::vector<const Function*> list;
  std::vector<std::string> expressions;
  for (const Function& f : functions())
    if (f.arguments == arguments && (kDouble ? f.fp64 : f.fp32) >= 0) list.push_back(&f);
  list = {list.begin() + long(std::min(begin, list.size())), list.begin() + long(std::min(end, list.size()))};
  for (const Function* f : list) expressions.push_back(fmt::format("{}({})", f->name, arguments == 1 ? "a" : "a, b"));
  auto [a, b] = pairs<T>(700, 40);
  for (const Function* f : list)
    for (int i = 0; i < 200; ++i) {
      a.push_back(round_to<T>(f->from + (f->to - f->from) * i / 199));
      b.push_back(round_to<T>(-4 + Real(i % 97) / 12));
    }
  auto out = evaluate_libdevice<T>(expressions, a, b);
  for (size_t k = 0; k < list.size(); ++k) {
    const Function& f = *list[k];
    covered().insert(f.name);
    double worst = 0;
    size_t where = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      const double error = ulp_error(out[k][i], f.exact(wide(a[i]), wide(b[i])));
      if (f.name == std::string("lgamma") && wide(a[i]) < 0) continue;
      if (error > worst) worst = error, where = i;
    }
    fmt::print("  {} {:10} {:.3g} ulp\n", tl<T>(), f.name, worst);
    EXPECT_LE(worst, kDouble ? f.fp64 : f.fp32)
        << tl<T>() << " " << f.name << " of " << show(a[where]) << ", " << show(b[where]) << ": got "
        << show(out[k][where]) << ", exact " << double(f.exact(wide(a[where]), wide(b[where])));
  }
}

TEST(Libdevice, Float32OfOne) { check_functions<float>(1, 0, 99); }
TEST(Libdevice, Float64OfOne) { check_functions<double>(1, 0, 99); }
TEST(Libdevice, Float32OfTwo) { check_functions<float>(2, 0, 99); }
TEST(Libdevice, Float64OfTwo) { check_functions<double>(2, 0, 99); }

}  // namespace
}  // namespace tegula::ops
