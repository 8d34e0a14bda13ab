#include "dsl/language/python_math.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace tegula::language {

namespace {

using dsl::Int;

constexpr int64_t kMostFactorial = 2000;  ///< its value has some 19000 bits

struct Unary {
  std::string_view name;
  double (*f)(double);
};
constexpr Unary kUnary[] = {
    {"acos", [](double x) { return std::acos(x); }},
    {"acosh", [](double x) { return std::acosh(x); }},
    {"asin", [](double x) { return std::asin(x); }},
    {"asinh", [](double x) { return std::asinh(x); }},
    {"atan", [](double x) { return std::atan(x); }},
    {"atanh", [](double x) { return std::atanh(x); }},
    {"cbrt", [](double x) { return std::cbrt(x); }},
    {"cos", [](double x) { return std::cos(x); }},
    {"cosh", [](double x) { return std::cosh(x); }},
    {"degrees", [](double x) { return x * (180 / std::numbers::pi); }},
    {"erf", [](double x) { return std::erf(x); }},
    {"erfc", [](double x) { return std::erfc(x); }},
    {"exp", [](double x) { return std::exp(x); }},
    {"exp2", [](double x) { return std::exp2(x); }},
    {"expm1", [](double x) { return std::expm1(x); }},
    {"fabs", [](double x) { return std::fabs(x); }},
    {"gamma", [](double x) { return std::tgamma(x); }},
    {"lgamma", [](double x) { return std::lgamma(x); }},
    {"log", [](double x) { return std::log(x); }},
    {"log10", [](double x) { return std::log10(x); }},
    {"log1p", [](double x) { return std::log1p(x); }},
    {"log2", [](double x) { return std::log2(x); }},
    {"radians", [](double x) { return x * (std::numbers::pi / 180); }},
    {"sin", [](double x) { return std::sin(x); }},
    {"sinh", [](double x) { return std::sinh(x); }},
    {"sqrt", [](double x) { return std::sqrt(x); }},
    {"tan", [](double x) { return std::tan(x); }},
    {"tanh", [](double x) { return std::tanh(x); }},
};

struct Binary {
  std::string_view name;
  double (*f)(double, double);
};
constexpr Binary kBinary[] = {
    {"atan2", [](double x, double y) { return std::atan2(x, y); }},
    {"copysign", [](double x, double y) { return std::copysign(x, y); }},
    {"fmod", [](double x, double y) { return std::fmod(x, y); }},
    {"hypot", [](double x, double y) { return std::hypot(x, y); }},
    {"log", [](double x, double base) { return std::log(x) / std::log(base); }},
    {"pow", [](double x, double y) { return std::pow(x, y); }},
    {"remainder", [](double x, double y) { return std::remainder(x, y); }},
};

struct Rounding {
  std::string_view name;
  double (*f)(double);
};
constexpr Rounding kRoundings[] = {
    {"ceil", [](double x) { return std::ceil(x); }},
    {"floor", [](double x) { return std::floor(x); }},
    {"trunc", [](double x) { return std::trunc(x); }},
};

struct Predicate {
  std::string_view name;
  bool (*f)(double);
};
constexpr Predicate kPredicates[] = {
    {"isfinite", [](double x) { return std::isfinite(x); }},
    {"isinf", [](double x) { return std::isinf(x); }},
    {"isnan", [](double x) { return std::isnan(x); }},
};

Int absolute(const Int& x) { return x < Int(0) ? -x : x; }

Int gcd(Int a, Int b) {
  while (b) a = std::exchange(b, floor_mod(a, b));
  return absolute(a);
}

Int integer_square_root(const Int& x) {
  if (!x) return x;
  Int root = Int(1) << (x.bits() / 2 + 1);  // above the root, from where Newton's steps go down to it
  for (Int next = floor_div(root + floor_div(x, root), Int(2)); next < root;
       next = floor_div(root + floor_div(x, root), Int(2)))
    root = next;
  return root;
}

struct OfIntegers {
  std::string_view name;
  size_t arguments;
};
constexpr OfIntegers kOfIntegers[] = {{"factorial", 1}, {"gcd", 2}, {"isqrt", 1}, {"lcm", 2}};

MathResult call_of_integers(std::string_view name, const std::vector<MathNumber>& args) {
  std::vector<Int> x;
  for (const MathNumber& arg : args) {
    if (!std::holds_alternative<Int>(arg)) return fmt::format("math.{} takes integers", name);
    x.push_back(std::get<Int>(arg));
  }
  if (name == "gcd") return gcd(x[0], x[1]);
  if (name == "lcm") return x[0] && x[1] ? absolute(floor_div(x[0], gcd(x[0], x[1])) * x[1]) : Int(0);
  if (x[0] < Int(0)) return fmt::format("math.{} of {} has no value", name, x[0]);
  if (name == "isqrt") return integer_square_root(x[0]);
  if (x[0] > Int(kMostFactorial)) return fmt::format("math.factorial goes to {}, found {}", kMostFactorial, x[0]);
  Int product = 1;
  for (int64_t i = 2; i <= x[0].clamped(); ++i) product = product * Int(i);
  return product;
}

double as_double(const MathNumber& x) {
  return std::holds_alternative<Int>(x) ? std::get<Int>(x).to_double() : std::get<double>(x);
}

template <class Table>
auto find(const Table& table, std::string_view name) {
  const auto at = std::find_if(std::begin(table), std::end(table), [&](const auto& row) { return row.name == name; });
  return at == std::end(table) ? nullptr : &*at;
}

// How many arguments a function takes; `log` one or two.
std::pair<size_t, size_t> arguments_of(std::string_view name) {
  if (const auto* f = find(kOfIntegers, name)) return {f->arguments, f->arguments};
  const bool one = find(kUnary, name) || find(kRoundings, name) || find(kPredicates, name), two = find(kBinary, name);
  return {one ? 1 : 2, two ? 2 : 1};
}

}  // namespace

std::vector<std::string> math_functions() {
  std::vector<std::string> names;
  const auto add = [&](const auto& table) {
    for (const auto& row : table) names.emplace_back(row.name);
  };
  add(kUnary), add(kBinary), add(kRoundings), add(kPredicates), add(kOfIntegers);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

bool is_math_function(std::string_view name) {
  return find(kUnary, name) || find(kBinary, name) || find(kRoundings, name) || find(kPredicates, name) ||
         find(kOfIntegers, name);
}

MathResult call_math_function(std::string_view name, const std::vector<MathNumber>& args) {
  const auto [least, most] = arguments_of(name);
  if (args.size() < least || args.size() > most)
    return fmt::format("math.{} takes {} argument{}, found {}", name, least, least == 1 ? "" : "s", args.size());
  if (find(kOfIntegers, name)) return call_of_integers(name, args);
  const double x = as_double(args[0]);
  if (const Predicate* f = find(kPredicates, name)) return f->f(x);
  if (const Rounding* f = find(kRoundings, name)) {
    if (std::holds_alternative<Int>(args[0])) return std::get<Int>(args[0]);
    if (!std::isfinite(x)) return fmt::format("math.{} of {} is no integer", name, x);
    return Int::truncate(f->f(x));
  }
  const double result = args.size() == 1 ? find(kUnary, name)->f(x) : find(kBinary, name)->f(x, as_double(args[1]));
  if (std::isnan(result) &&
      std::none_of(args.begin(), args.end(), [](const MathNumber& a) { return std::isnan(as_double(a)); }))
    return fmt::format("math.{} of {} has no value", name, x);
  return result;
}

}  // namespace tegula::language
