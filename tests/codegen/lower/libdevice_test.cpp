// label: device
// The functions of libdevice: errors within what codegen/ir/libdevice.def states, all else exactly. What is called is
// data, so that one test sees that every function of the table is.
#include "codegen/ir/libdevice.h"

#include <cfenv>
#include <functional>
#include <limits>
#include <map>
#include <regex>
#include <set>
#include <tuple>

#include "tests/codegen/lower/libdevice_references.h"
#include "tests/codegen/lower/ops_support.h"

namespace tegula::ops {
namespace {

using ir::LibdeviceFunction;

/// evaluate, with libdevice at hand.
template <class R, class... In>
std::vector<std::vector<R>> evaluate_libdevice(const std::vector<std::string>& expressions,
                                               const std::vector<In>&... in) {
  std::vector<std::string> full;
  for (const std::string& e : expressions) full.push_back("tl.extra.libdevice." + e);
  while (next_warps() != 1) {  // then come 8: threads have one element each, and the functions one copy
  }
  return evaluate<R>(full, in...);
}

/// Calls of functions of libdevice ("hypot(a, b)"), and what evaluates them and checks the results.
struct Check {
  std::vector<std::string> calls;
  std::function<void(const std::vector<std::string>& calls)> run;
};
using Checks = std::vector<Check>;

// ---- Functions with an error

template <class T>
void check_bound(const Function& f, const std::vector<T>& a, const std::vector<T>& b, const std::vector<T>& out) {
  double worst = 0;
  size_t where = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (f.name == std::string("lgamma") && wide(a[i]) < 0) continue;
    const double error = ulp_error(out[i], f.exact(wide(a[i]), wide(b[i])));
    if (error > worst) worst = error, where = i;
  }
  fmt::print("  {} {:10} {:.3g} ulp\n", tl<T>(), f.name, worst);
  EXPECT_LE(worst, (std::is_same_v<T, double> ? f.fp64 : f.fp32))
      << tl<T>() << " " << f.name << " of " << show(a[where]) << ", " << show(b[where]) << ": got " << show(out[where])
      << ", exact " << double(f.exact(wide(a[where]), wide(b[where])));
}

/// All functions of so many arguments in one kernel.
template <class T>
Check functions_of(int arguments) {
  constexpr bool kDouble = std::is_same_v<T, double>;
  std::vector<const Function*> list;
  std::vector<std::string> calls;
  for (const Function& f : functions()) {
    if (f.arguments != arguments || (kDouble ? f.fp64 : f.fp32) < 0) continue;
    list.push_back(&f);
    calls.push_back(fmt::format("{}({})", f.name, arguments == 1 ? "a" : "a, b"));
  }
  return {calls, [list](const std::vector<std::string>& calls) {
            std::vector<T> a, b;
            std::tie(a, b) = pairs<T>(700, 40);
            for (const Function* f : list)
              for (int i = 0; i < 200; ++i) {
                a.push_back(round_to<T>(f->from + (f->to - f->from) * i / 199));
                b.push_back(round_to<T>(-4 + Real(i % 97) / 12));
              }
            auto out = evaluate_libdevice<T>(calls, a, b);
            for (size_t k = 0; k < list.size(); ++k) check_bound(*list[k], a, b, out[k]);
          }};
}

// ---- Special functions, at recorded points

template <class T>
void check_values(const std::string& name, const std::vector<const Value*>& values, const std::vector<T>& results) {
  const double bound = std::is_same_v<T, float> ? kBounds.at(name).fp32 : kBounds.at(name).fp64;
  double worst = 0;
  for (const Value* v : values) {
    const T got = results[size_t(v - kValues)];
    double error = ulp_error(got, v->exact);
    // Beyond 1 the recurrence of Y loses relative precision alone.
    if (bound < 0) error = double(std::fabs(got - v->exact) / std::max<Real>(1, std::fabs(v->exact))) / -bound;
    worst = std::max(worst, error);
    EXPECT_LE(error, bound < 0 ? 1 : bound) << tl<T>() << " " << name << " of " << v->order << ", " << v->argument
                                            << ": got " << show(got) << ", exact " << double(v->exact);
  }
  fmt::print("  {} {:14} {:.3g}\n", tl<T>(), name, worst);
}

template <class T>
Check special_functions() {
  std::map<std::string, std::vector<const Value*>> by_name;
  for (const Value& v : kValues) by_name[v.name].push_back(&v);
  std::vector<std::string> calls;
  for (auto& [name, values] : by_name) {
    std::string function = name.substr(name.starts_with("far ") ? 4 : 0);
    calls.push_back(fmt::format("{}({}b)", function, function == "jn" || function == "yn" ? "a, " : ""));
  }
  return {calls, [by_name](const std::vector<std::string>& calls) {
            std::vector<int32_t> orders;
            std::vector<T> arguments;
            for (const Value& v : kValues) orders.push_back(v.order), arguments.push_back(T(v.argument));
            auto out = evaluate_libdevice<T>(calls, orders, arguments);
            size_t k = 0;
            for (auto& [name, values] : by_name) check_values<T>(name, values, out[k++]);
          }};
}

// ---- Directions of rounding

/// f(x, y, z) on the host in that direction.
template <class T, class F>
T directed(int mode, T x, T y, T z, F f) {
  volatile T a = x, b = y, c = z;
  std::fesetround(mode);
  volatile T result = f(a, b, c);
  std::fesetround(FE_TONEAREST);
  return result;
}

const std::pair<const char*, int> kModes[] = {
    {"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rd", FE_DOWNWARD}, {"ru", FE_UPWARD}};

template <class T>
Check directions() {
  struct Op {
    const char *name, *arguments;
    T (*f)(T, T, T);
  };
  static const Op ops[] = {{"add", "a, b", [](T x, T y, T) { return x + y; }},
                           {"sub", "a, b", [](T x, T y, T) { return x - y; }},
                           {"mul", "a, b", [](T x, T y, T) { return x * y; }},
                           {"div", "a, b", [](T x, T y, T) { return x / y; }},
                           {"rcp", "a", [](T x, T, T) { return 1 / x; }},
                           {"sqrt", "a", [](T x, T, T) { return std::sqrt(x); }},
                           {"fma", "a, b, c", [](T x, T y, T z) { return std::fma(x, y, z); }}};
  std::vector<std::string> calls;
  for (const Op& op : ops)
    for (auto& [suffix, mode] : kModes) calls.push_back(fmt::format("{}_{}({})", op.name, suffix, op.arguments));
  return {calls, [](const std::vector<std::string>& calls) {
            std::vector<T> a, b;
            std::tie(a, b) = pairs<T>(300, 90);
            auto c = random_values<T>(a.size(), 91);
            auto out = evaluate_libdevice<T>(calls, a, b, c);
            for (size_t k = 0; k < out.size(); ++k)
              expect_equal(out[k], calls[k],
                           [&](size_t i) { return directed<T>(kModes[k % 4].second, a[i], b[i], c[i], ops[k / 4].f); });
          }};
}

// ---- Conversions

/// x to an integer in that direction; out of range the nearest one, NaN 0, or 2^63 where 64 bits are involved.
template <class To, class From>
To to_integer(int mode, From x) {
  if (std::isnan(x)) return sizeof(To) == 8 || sizeof(From) == 8 ? To(uint64_t(1) << (8 * sizeof(To) - 1)) : 0;
  const long double r = mode == FE_TONEAREST  ? std::rint((long double)x)
                        : mode == FE_UPWARD   ? std::ceil((long double)x)
                        : mode == FE_DOWNWARD ? std::floor((long double)x)
                                              : std::trunc((long double)x);
  using L = std::numeric_limits<To>;
  if (r >= std::ldexp(1.0L, L::digits)) return L::max();
  if (r < (long double)L::min()) return L::min();
  return To(r);
}

std::vector<std::string> calls_in_modes(const std::string& name, size_t modes) {
  std::vector<std::string> calls;
  for (size_t k = 0; k < modes; ++k) calls.push_back(fmt::format("{}_{}(a)", name, kModes[k].first));
  return calls;
}

template <class To, class From>
Check float_to_integer(const std::string& name) {
  using Result = std::make_signed_t<To>;  // as Triton has it
  return {calls_in_modes(name, 4), [](const std::vector<std::string>& calls) {
            auto x = pairs<From>(400, 92).first;
            for (double v : {0.5, 1.5, 2.5, -0.5, -1.5, 2147483647.5, 4294967295.0, 3e9, -3e9, 1e19, -1e19})
              x.push_back(From(v));
            auto out = evaluate_libdevice<Result>(calls, x);
            for (size_t k = 0; k < calls.size(); ++k)
              expect_equal(
                  out[k], calls[k], [&](size_t i) { return Result(to_integer<To>(kModes[k].second, x[i])); },
                  [&](size_t i) { return " of " + show(x[i]); });
          }};
}

Checks floats_to_integers() {
  return {float_to_integer<int32_t, float>("float2int"),   float_to_integer<uint32_t, float>("float2uint"),
          float_to_integer<int64_t, float>("float2ll"),    float_to_integer<uint64_t, float>("float2ull"),
          float_to_integer<int32_t, double>("double2int"), float_to_integer<uint32_t, double>("double2uint"),
          float_to_integer<int64_t, double>("double2ll"),  float_to_integer<uint64_t, double>("double2ull")};
}

template <class To, class From>
Check to_float(const std::string& name, size_t modes = 4) {
  return {calls_in_modes(name, modes), [](const std::vector<std::string>& calls) {
            std::vector<From> x = random_values<From>(400, 93);
            for (From v : specials<From>()) x.push_back(v);
            auto out = evaluate_libdevice<To>(calls, x);
            for (size_t k = 0; k < calls.size(); ++k)
              expect_equal(out[k], calls[k], [&](size_t i) {
                volatile long double exact = (long double)x[i];
                std::fesetround(kModes[k].second);
                volatile To result = To(exact);
                std::fesetround(FE_TONEAREST);
                return To(result);
              });
          }};
}

Checks to_floats() {
  return {to_float<float, int32_t>("int2float"),      to_float<float, uint32_t>("uint2float"),
          to_float<float, int64_t>("ll2float"),       to_float<float, uint64_t>("ull2float"),
          to_float<double, int64_t>("ll2double"),     to_float<double, uint64_t>("ull2double"),
          to_float<double, int32_t>("int2double", 1), to_float<double, uint32_t>("uint2double", 1),
          to_float<float, double>("double2float")};
}

// ---- Integers and bits: the expression, what it should be

template <class R, class T>
struct Exact {
  std::string expression;
  std::function<R(T, T, T)> expected;
};

template <class R, class T>
Check exact(const std::vector<Exact<R, T>>& list) {
  std::vector<std::string> calls;
  for (auto& e : list) calls.push_back(e.expression);
  return {calls, [list](const std::vector<std::string>& calls) {
            std::vector<T> a, b;
            std::tie(a, b) = pairs<T>(200, 94);
            auto c = random_values<T>(a.size(), 95);
            auto out = evaluate_libdevice<R>(calls, a, b, c);
            for (size_t k = 0; k < list.size(); ++k)
              expect_equal(
                  out[k], calls[k], [&](size_t i) { return list[k].expected(a[i], b[i], c[i]); },
                  [&](size_t i) { return fmt::format(" of {}, {}, {}", show(a[i]), show(b[i]), show(c[i])); });
          }};
}

template <class T>
T reversed(T x) {
  std::make_unsigned_t<T> bits = std::make_unsigned_t<T>(x), result = 0;
  for (size_t k = 0; k < 8 * sizeof(T); ++k) result = decltype(result)(result << 1 | (bits >> k & 1));
  return T(result);
}
uint32_t low24(uint32_t x) { return x & 0xFFFFFF; }
int32_t low24(int32_t x) { return int32_t(uint32_t(x) << 8) >> 8; }

Checks integers() {
  using I = int32_t;
  using U = uint32_t;
  using L = int64_t;
  using UL = uint64_t;
  return {exact<I, I>({{"clz(a)", [](I x, I, I) { return std::countl_zero(U(x)); }},
                       {"popc(a)", [](I x, I, I) { return std::popcount(U(x)); }},
                       {"brev(a)", [](I x, I, I) { return reversed(x); }},
                       {"ffs(a)", [](I x, I, I) { return x ? std::countr_zero(U(x)) + 1 : 0; }},
                       {"abs(a)", [](I x, I, I) { return I(x < 0 ? -U(x) : U(x)); }},
                       {"mulhi(a, b)", [](I x, I y, I) { return I(L(x) * y >> 32); }},
                       {"mul24(a, b)", [](I x, I y, I) { return I(L(low24(x)) * low24(y)); }},
                       {"hadd(a, b)", [](I x, I y, I) { return I((L(x) + y) >> 1); }},
                       {"rhadd(a, b)", [](I x, I y, I) { return I((L(x) + y + 1) >> 1); }},
                       {"sad(a, b, c.to(tl.uint32))", [](I x, I y, I z) { return I(std::abs(L(x) - y) + z); }},
                       {"byte_perm(a, b, 0x2715)",
                        [](I x, I y, I) {
                          const UL all = U(x) | UL(U(y)) << 32;
                          return I(U(all >> 40 & 0xFF) | U(all >> 8 & 0xFF) << 8 | U(all >> 56 & 0xFF) << 16 |
                                   U(all >> 16 & 0xFF) << 24);
                        }}}),
          exact<U, U>({{"mulhi(a, b)", [](U x, U y, U) { return U(UL(x) * y >> 32); }},
                       {"mul24(a, b)", [](U x, U y, U) { return U(UL(low24(x)) * low24(y)); }},
                       {"hadd(a, b)", [](U x, U y, U) { return U((UL(x) + y) >> 1); }},
                       {"rhadd(a, b)", [](U x, U y, U) { return U((UL(x) + y + 1) >> 1); }},
                       {"sad(a, b, c)", [](U x, U y, U z) { return U((x < y ? y - x : x - y) + z); }}}),
          exact<L, L>({{"brev(a)", [](L x, L, L) { return reversed(x); }},
                       {"mulhi(a, b)", [](L x, L y, L) { return L(__int128(x) * y >> 64); }}}),
          exact<UL, UL>({{"mulhi(a, b)", [](UL x, UL y, UL) { return UL((unsigned __int128)x * y >> 64); }}}),
          exact<I, L>({{"clz(a)", [](L x, L, L) { return std::countl_zero(UL(x)); }},
                       {"popc(a)", [](L x, L, L) { return std::popcount(UL(x)); }},
                       {"ffs(a)", [](L x, L, L) { return x ? std::countr_zero(UL(x)) + 1 : 0; }}})};
}

Checks bits_and_classes() {
  using F = float;
  using D = double;
  using I = int32_t;
  using L = int64_t;
  return {
      exact<I, F>({{"float_as_int(a)", [](F x, F, F) { return std::bit_cast<I>(x); }},
                   {"float_as_uint(a)", [](F x, F, F) { return std::bit_cast<I>(x); }},
                   {"signbit(a)", [](F x, F, F) { return I(std::signbit(x)); }},
                   {"ilogb(a)",
                    [](F x, F, F) {
                      return x == 0 || std::isnan(x) ? INT32_MIN : std::isinf(x) ? INT32_MAX : std::ilogb(x);
                    }}}),
      exact<Boolean, F>({{"isnan(a)", [](F x, F, F) { return Boolean(std::isnan(x)); }},
                         {"isinf(a)", [](F x, F, F) { return Boolean(std::isinf(x)); }},
                         {"finitef(a)", [](F x, F, F) { return Boolean(std::isfinite(x)); }}}),
      exact<Boolean, D>({{"isnan(a)", [](D x, D, D) { return Boolean(std::isnan(x)); }},
                         {"isinf(a)", [](D x, D, D) { return Boolean(std::isinf(x)); }},
                         {"isfinited(a)", [](D x, D, D) { return Boolean(std::isfinite(x)); }}}),
      exact<L, D>({{"double_as_longlong(a)", [](D x, D, D) { return std::bit_cast<L>(x); }},
                   {"llrint(a)", [](D x, D, D) { return to_integer<L>(FE_TONEAREST, x); }},
                   {"llround(a)", [](D x, D, D) { return to_integer<L>(FE_TOWARDZERO, std::round(x)); }}}),
      exact<I, D>({{"double2hiint(a)", [](D x, D, D) { return I(std::bit_cast<L>(x) >> 32); }},
                   {"double2loint(a)", [](D x, D, D) { return I(std::bit_cast<L>(x)); }},
                   {"signbit(a)", [](D x, D, D) { return I(std::signbit(x)); }}}),
      exact<F, I>({{"int_as_float(a)", [](I x, I, I) { return std::bit_cast<F>(x); }},
                   {"uint_as_float(a)", [](I x, I, I) { return std::bit_cast<F>(x); }}}),
      exact<D, L>({{"longlong_as_double(a)", [](L x, L, L) { return std::bit_cast<D>(x); }}}),
      exact<D, I>({{"hiloint2double(a, b)", [](I x, I y, I) { return std::bit_cast<D>(L(x) << 32 | uint32_t(y)); }}})};
}

Checks exact_floats() {
  using F = float;
  using D = double;
  return {exact<F, F>({{"nextafter(a, b)", [](F x, F y, F) { return std::nextafter(x, y); }},
                       {"fma(a, b, c)", [](F x, F y, F z) { return std::fma(x, y, z); }},
                       {"ldexp(a, 3)", [](F x, F, F) { return std::ldexp(x, 3); }},
                       {"ldexp(a, -140)", [](F x, F, F) { return std::ldexp(x, -140); }},
                       {"scalbn(a, 3)", [](F x, F, F) { return std::ldexp(x, 3); }},
                       {"saturatef(a)", [](F x, F, F) { return std::isnan(x) ? 0 : std::clamp(x, 0.0f, 1.0f); }}}),
          exact<D, D>({{"nextafter(a, b)", [](D x, D y, D) { return std::nextafter(x, y); }},
                       {"fma(a, b, c)", [](D x, D y, D z) { return std::fma(x, y, z); }},
                       {"ldexp(a, -1060)", [](D x, D, D) { return std::ldexp(x, -1060); }}})};
}

// Approximations: relative errors, where arguments are ordinary.
Check fast() {
  using Exactly = std::function<Real(Real, Real)>;
  const std::vector<std::pair<std::string, Exactly>> list = {
      {"fast_sinf(a)", [](Real a, Real) { return std::sin(a); }},
      {"fast_cosf(a)", [](Real a, Real) { return std::cos(a); }},
      {"fast_tanf(b / 2)", [](Real, Real b) { return std::tan(b / 2); }},
      {"fast_expf(b)", [](Real, Real b) { return std::exp(b); }},
      {"fast_exp10f(b)", [](Real, Real b) { return std::pow(10.0L, b); }},
      {"fast_log2f(a)", [](Real a, Real) { return std::log2(a); }},
      {"fast_logf(a)", [](Real a, Real) { return std::log(a); }},
      {"fast_log10f(a)", [](Real a, Real) { return std::log10(a); }},
      {"fast_powf(a, b)", [](Real a, Real b) { return std::pow(a, b); }},
      {"fast_dividef(b, a)", [](Real a, Real b) { return b / a; }},
      {"rcp64h(a.to(tl.float64)).to(tl.float32)", [](Real a, Real) { return 1 / a; }},
  };
  std::vector<std::string> calls;
  for (auto& [call, exact] : list) calls.push_back(call);
  return {calls, [list](const std::vector<std::string>& calls) {
            std::vector<float> x, y;
            for (int i = 0; i < 300; ++i) x.push_back(0.02f + float(i) / 100), y.push_back(float(i % 17) / 4 - 2);
            auto out = evaluate_libdevice<float>(calls, x, y);
            for (size_t k = 0; k < list.size(); ++k)
              for (size_t i = 0; i < x.size(); ++i) {
                const double exact = double(list[k].second(x[i], y[i]));
                EXPECT_NEAR(out[k][i], exact, 3e-6 * std::max(0.2, std::fabs(exact)))
                    << calls[k] << " of " << x[i] << ", " << y[i];
              }
          }};
}

Check integer_powers() {
  return {{"pow(a, b)"}, [](const std::vector<std::string>& calls) {
            std::vector<double> x;
            std::vector<int32_t> n;
            for (int i = 0; i < 200; ++i) x.push_back(0.1 * i - 8), n.push_back(i % 21 - 10);
            auto out = evaluate_libdevice<double>(calls, x, n)[0];
            for (size_t i = 0; i < x.size(); ++i)
              EXPECT_LE(ulp_error(out[i], std::pow((Real)x[i], (Real)n[i])), 2) << x[i] << " ** " << n[i];
          }};
}

/// Norms of vectors, whose squares overflow if `scale` is large; bounds of a norm and of its reciprocal.
template <class T>
Check norms(Real scale, double bound, double bound_of_reciprocal) {
  return {{"norm3d(a, b, c)", "rnorm3d(a, b, c)", "norm4d(a, b, c, a)", "rnorm4d(a, b, c, a)"},
          [=](const std::vector<std::string>& calls) {
            auto a = random_values<float>(200, 96), b = random_values<float>(200, 97),
                 c = random_values<float>(200, 98);
            std::vector<T> x(a.begin(), a.end()), y(b.begin(), b.end()), z(c.begin(), c.end());
            for (auto* values : {&x, &y, &z})
              for (T& v : *values) v = T(v * scale);
            auto out = evaluate_libdevice<T>(calls, x, y, z);
            for (size_t i = 0; i < x.size(); ++i) {
              auto norm = [](Real x, Real y, Real z, Real w) { return std::sqrt(x * x + y * y + z * z + w * w); };
              const Real three = norm(x[i], y[i], z[i], 0), four = norm(x[i], y[i], z[i], x[i]);
              EXPECT_LE(ulp_error(out[0][i], three), bound) << i;
              EXPECT_LE(ulp_error(out[1][i], 1 / three), bound_of_reciprocal) << i;
              EXPECT_LE(ulp_error(out[2][i], four), bound) << i;
              EXPECT_LE(ulp_error(out[3][i], 1 / four), bound_of_reciprocal) << i;
            }
          }};
}

// ---- The tests

struct Part {
  const char* name;
  std::function<Checks()> checks;
};

const std::vector<Part>& parts() {
  static const std::vector<Part> list = {
      {"Float32OfOne", [] { return Checks{functions_of<float>(1)}; }},
      {"Float64OfOne", [] { return Checks{functions_of<double>(1)}; }},
      {"Float32OfTwo", [] { return Checks{functions_of<float>(2)}; }},
      {"Float64OfTwo", [] { return Checks{functions_of<double>(2)}; }},
      {"SpecialFloat32", [] { return Checks{special_functions<float>()}; }},
      {"SpecialFloat64", [] { return Checks{special_functions<double>()}; }},
      {"DirectionsFloat32", [] { return Checks{directions<float>()}; }},
      {"DirectionsFloat64", [] { return Checks{directions<double>()}; }},
      {"FloatsToIntegers", floats_to_integers},
      {"ToFloats", to_floats},
      {"Integers", integers},
      {"BitsAndClasses", bits_and_classes},
      {"ExactFloats", exact_floats},
      {"Fast", [] { return Checks{fast()}; }},
      {"IntegerPowers", [] { return Checks{integer_powers()}; }},
      {"Norms",
       [] {
         return Checks{norms<float>(1, 3, 2), norms<double>(0x1p890, 2, 1)};
       }},
  };
  return list;
}

class Libdevice : public testing::TestWithParam<size_t> {};

TEST_P(Libdevice, AsTheTableSays) {
  for (const Check& check : parts()[GetParam()].checks()) check.run(check.calls);
}

INSTANTIATE_TEST_SUITE_P(, Libdevice, testing::Range(size_t(0), parts().size()),
                         [](const auto& info) { return parts()[info.param].name; });

TEST(LibdeviceTable, EveryFunctionIsCalled) {
  std::set<std::string> called;
  for (const Part& part : parts())
    for (const Check& check : part.checks())
      for (const std::string& call : check.calls) called.insert(call.substr(0, call.find('(')));
  for (const LibdeviceFunction& f : ir::libdevice_functions())
    EXPECT_TRUE(called.contains(f.name)) << "no test calls libdevice." << f.name;
}

TEST(LibdeviceTable, Errors) {
  auto message = [](const std::string& expression) {
    std::string text =
        "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n\n"
        "@triton.jit\ndef kernel(x):\n    a = tl.load(x)\n    b = " +
        expression + "\n";
    try {
      const ArgType pointer{.elem = Elem::F16, .pointer = true};
      Program::parse(text, "k.py").kernel("kernel").compile(std::vector{pointer}, {}, "sm_90a");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message("libdevice.round(a)"),
            "k.py:8:9: error: libdevice.round takes float32 or float64, found float16\n"
            "        b = libdevice.round(a)\n"
            "            ^~~~~~~~~~~~~~~~~~\n"
            "  hint: convert with .to(tl.float32) first\n"
            "  see docs/language.md#libdevice\n");
  EXPECT_EQ(message("libdevice.pow(2.0)"),
            "k.py:8:9: error: libdevice.pow lacks its argument 'arg1'\n"
            "        b = libdevice.pow(2.0)\n"
            "            ^~~~~~~~~~~~~~~~~~\n"
            "  hint: it takes: arg0, arg1\n"
            "  see docs/language.md#libdevice\n");
}

ptrdiff_t count(const std::string& text, const char* pattern) {
  const std::regex expression(pattern);
  return std::distance(std::sregex_iterator(text.begin(), text.end(), expression), std::sregex_iterator());
}

// Of a kernel that computes one element a thread.
std::string ptx_of(const std::string& function, Elem elem = Elem::F32) {
  const std::string text = fmt::format(R"(
import triton, triton.language as tl
from triton.language.extra.cuda import libdevice
@triton.jit
def kernel(p):
    i = tl.arange(0, 128)
    tl.store(p + i, libdevice.{}(tl.load(p + i)))
)",
                                       function);
  const ArgType pointer{.elem = elem, .pointer = true};
  return Program::parse(text, "k.py").kernel("kernel").compile(std::vector{pointer}, {}, "sm_90a").ptx;
}

// Numbers around halves, where a sum with a half would be rounded to the wrong integer, up to those without fractions.
template <class T>
void check_round() {
  std::vector<T> x;
  const T huge = std::ldexp(T(1), std::numeric_limits<T>::digits - 2);
  for (T half : {T(0.5), T(1.5), T(2.5), T(1023.5), huge - T(0.5), huge + T(0.5), huge * 2 - T(1), huge * 4 - T(1)})
    for (T number : {std::nextafter(half, T(0)), half, std::nextafter(half, 2 * half)})
      x.push_back(number), x.push_back(-number);
  for (T number : {T(0), T(-0.0), std::numeric_limits<T>::infinity(), -std::numeric_limits<T>::infinity()})
    x.push_back(number);
  const std::vector<T> rounded = evaluate_libdevice<T>({"round(a)"}, x)[0];
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(rounded[i], std::round(x[i])) << tl<T>() << " " << show(x[i]);
    EXPECT_EQ(std::signbit(rounded[i]), std::signbit(x[i])) << tl<T>() << " " << show(x[i]);
  }
}

TEST(LibdeviceRound, HalvesGoAwayFromZero) {
  check_round<float>();
  check_round<double>();
}

// Conversions are what kernels that quantise rows wait for.
TEST(LibdeviceRound, TakesOneConversion) {
  for (Elem elem : {Elem::F32, Elem::F64}) {
    const std::string ptx = ptx_of("round", elem);
    EXPECT_EQ(count(ptx, "cvt\\.rzi"), count(ptx, "\\.entry")) << ptx;
    EXPECT_EQ(count(ptx, "setp|selp"), 0) << ptx;
  }
}

// Lanes look up different places: constant memory serves these one after the other.
template <class T>
void check_known_powers() {
  std::vector<T> x;
  for (int exponent = -1080; exponent <= 1030; ++exponent)
    for (double factor : {1.0, 1.2345678901234567, -1.7654321098765432}) {
      const T number = std::ldexp(T(factor), exponent);
      if (std::isfinite(number)) x.push_back(number);
    }
  for (T number : {std::numeric_limits<T>::infinity(), -std::numeric_limits<T>::infinity(), T(-0.0)})
    x.push_back(number);
  for (int n = 1; n <= 4; ++n) {
    const auto powers = evaluate_libdevice<T>({fmt::format("pow(a, {})", n), fmt::format("pow(a, {}.0)", n)}, x);
    for (const std::vector<T>& power : powers)
      for (size_t i = 0; i < x.size(); ++i) {
        const T expected = T(std::pow(Real(x[i]), Real(n)));
        EXPECT_EQ(std::signbit(power[i]), std::signbit(expected)) << show(x[i]) << " to the power " << n;
        if (!std::isfinite(expected)) {
          EXPECT_EQ(power[i], expected) << show(x[i]) << " to the power " << n;
        } else if (!std::isnormal(expected)) {
          EXPECT_NEAR(power[i], expected, 2 * std::numeric_limits<T>::denorm_min());
        } else {
          EXPECT_LE(ulp_error(power[i], std::pow(Real(x[i]), Real(n))), 2) << show(x[i]) << " to the power " << n;
        }
      }
  }
}

TEST(LibdevicePow, KnownPowersAreAsExact) {
  check_known_powers<float>();
  check_known_powers<double>();
}

TEST(LibdevicePow, KnownPowersAreProducts) {
  for (const char* power : {"{0}.pow(x, 2)", "{0}.pow(x, 3.0)", "tl.math.pow(x, 4.0)", "x ** 2.0"}) {
    const std::string text = fmt::format(
        "import triton, triton.language as tl\nfrom triton.language.extra.cuda import libdevice\n@triton.jit\n"
        "def kernel(p):\n    i = tl.arange(0, 128)\n    x = tl.load(p + i)\n    tl.store(p + i, {})\n",
        fmt::format(fmt::runtime(power), "libdevice"));
    const ArgType pointer{.elem = Elem::F32, .pointer = true};
    const std::string ptx =
        Program::parse(text, "k.py").kernel("kernel").compile(std::vector{pointer}, {}, "sm_90a").ptx;
    EXPECT_LE(count(ptx, "mul\\.(rn\\.)?f32"), 2 * count(ptx, "\\.entry")) << power << ptx;
    EXPECT_EQ(count(ptx, "fma|selp"), 0) << power << ptx;
  }
}

TEST(LibdeviceTable, TablesLieInGlobalMemory) {
  for (const char* function : {"log", "log2", "log10", "log1p", "cbrt", "sinh"}) {
    const std::string ptx = ptx_of(function);
    const bool has_table = ptx.find("_TBL") != std::string::npos;
    EXPECT_EQ(has_table, std::string(function).find("log") == std::string::npos) << function << ptx;
    EXPECT_EQ(ptx.find("ld.const"), std::string::npos) << function << ptx;
  }
}

}  // namespace
}  // namespace tegula::ops
