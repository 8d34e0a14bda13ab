// What the functions of libdevice compute, in long double, and how far a result may be from it.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tegula::ops {

using Real = long double;

/// A function that is computed at samples.
struct Function {
  const char* name;
  int arguments;
  double fp32, fp64;  ///< bounds in ulp; below 0: there is no such form
  std::function<Real(Real, Real)> exact;
  Real from = -10, to = 10;  ///< where the samples lie densely; all magnitudes are tried as well
};

inline constexpr double kNone = -1;

/// sin(pi x), exact where it is 0.
inline Real sine_of_pi(Real x) {
  const Real r = std::remainder(x, 2.0L), distance = std::fabs(r) > 0.5L ? std::copysign(1 - std::fabs(r), r) : r;
  return std::fabs(distance) > 0.25L
             ? std::copysign(std::cos((0.5L - std::fabs(distance)) * 3.14159265358979323846L), r)
             : std::sin(distance * 3.14159265358979323846L);
}

inline Real cbrt_inverse(Real x) { return 1 / std::cbrt(x); }

inline const std::vector<Function>& functions() {
  static const std::vector<Function> list = {
      {"sqrt", 1, 1, 0.5, [](Real x, Real) { return std::sqrt(x); }, 0},
      {"rsqrt", 1, 2, 1, [](Real x, Real) { return 1 / std::sqrt(x); }, 0.01L},
      {"rsqrt_rn", 1, 0.5, kNone, [](Real x, Real) { return 1 / std::sqrt(x); }, 0.01L},
      {"cbrt", 1, 1, 1, [](Real x, Real) { return std::cbrt(x); }},
      {"rcbrt", 1, 1, 1, [](Real x, Real) { return cbrt_inverse(x); }},
      {"exp", 1, 2.1, 1, [](Real x, Real) { return std::exp(x); }, -20, 20},
      {"exp2", 1, 2, 1, [](Real x, Real) { return std::exp2(x); }, -30, 30},
      {"exp10", 1, 2.1, 1, [](Real x, Real) { return std::pow(10.0L, x); }},
      {"expm1", 1, 1, 1, [](Real x, Real) { return std::expm1(x); }, -2, 2},
      {"log", 1, 1, 1, [](Real x, Real) { return std::log(x); }, 0.01L},
      {"log2", 1, 1, 1, [](Real x, Real) { return std::log2(x); }, 0.01L},
      {"log10", 1, 1, 1, [](Real x, Real) { return std::log10(x); }, 0.01L},
      {"log1p", 1, 1, 1, [](Real x, Real) { return std::log1p(x); }, -0.9L, 2},
      {"sin", 1, 2, 2, [](Real x, Real) { return std::sin(x); }, -20, 20},
      {"cos", 1, 2, 2, [](Real x, Real) { return std::cos(x); }, -20, 20},
      {"sinpi", 1, 1, 2, [](Real x, Real) { return sine_of_pi(x); }},
      {"cospi", 1, 1, 2, [](Real x, Real) { return sine_of_pi(std::fabs(std::remainder(x, 2.0L)) + 0.5L); }},
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
      {"tgamma", 1, 5, 100, [](Real x, Real) { return std::tgamma(x); }, -9, 20},
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

// ---- Special functions, at recorded points

/// A value of a function that the host does not have; `order` is that of jn and yn.
struct Value {
  const char* name;
  int order;
  double argument;
  Real exact;
};
inline const Value kValues[] = {
#include "tests/codegen/lower/special_values.inc"
};

/// Bounds in ulp, or absolute ones below 0.
struct Bound {
  double fp32, fp64;
};
inline const std::map<std::string, Bound> kBounds = {
    {"erfcx", {4, 4}},
    {"erfinv", {2, 5}},
    {"erfcinv", {4, 6}},
    {"normcdf", {5, 5}},
    {"normcdfinv", {5, 8}},
    {"j0", {9, 7}},
    {"j1", {9, 7}},
    {"y0", {9, 7}},
    {"y1", {9, 7}},
    {"cyl_bessel_i0", {6, 6}},
    {"cyl_bessel_i1", {6, 6}},
    {"far j0", {-2.2e-6, -5e-12}},
    {"far j1", {-2.2e-6, -5e-12}},
    {"far y0", {-2.2e-6, -5e-12}},
    {"far y1", {-2.2e-6, -5e-12}},
    {"jn", {-2.2e-6, -5e-12}},
    {"yn", {-2.2e-6, -5e-12}},
};

}  // namespace tegula::ops
