// Support for the tests of operations: kernels as text, run on the default device, compared with references on the
// host.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "dsl/program.h"
#include "runtime/base/float16.h"

namespace tegula::ops {

/// int1 as memory holds it: a byte.
struct Boolean {
  static constexpr Elem kElem = Elem::I1;
  uint8_t byte = 0;
  Boolean() = default;
  Boolean(bool value) : byte(value) {}
  operator bool() const { return byte; }
};

using SignedTypes = std::tuple<int8_t, int16_t, int32_t, int64_t>;
using UnsignedTypes = std::tuple<uint8_t, uint16_t, uint32_t, uint64_t>;
using IntTypes = decltype(std::tuple_cat(SignedTypes(), UnsignedTypes()));
using FloatTypes = std::tuple<float16, bfloat16, float, double>;
using NumberTypes = decltype(std::tuple_cat(IntTypes(), FloatTypes()));
using AllTypes = decltype(std::tuple_cat(std::tuple<Boolean>(), NumberTypes()));

/// Calls f(T()) for each type T of the tuple.
template <class Types, class F>
void for_types(F f) {
  std::apply([&](auto... type) { (f(type), ...); }, Types());
}

template <class T>
constexpr Elem elem = *elem_of<T>();
template <class T>
inline constexpr bool is_half = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;
template <class T>
inline constexpr bool is_real = is_half<T> || std::is_floating_point_v<T>;
template <class T>
inline constexpr bool is_bool = std::is_same_v<T, Boolean>;

/// The type's name in the kernel language.
template <class T>
std::string tl() {
  return std::string("tl.") + elem_info(elem<T>).tl;
}

/// Bits of the significand, the hidden one included, and the smallest normal exponent.
template <class T>
constexpr int kPrecision = std::is_same_v<T, float16>    ? 11
                           : std::is_same_v<T, bfloat16> ? 8
                           : std::is_same_v<T, float>    ? 24
                                                         : 53;
template <class T>
constexpr int kMinExponent = std::is_same_v<T, float16>  ? -14
                             : std::is_same_v<T, double> ? -1022
                                                         : -126;
template <class T>
constexpr int kMaxExponent = std::is_same_v<T, float16>  ? 15
                             : std::is_same_v<T, double> ? 1023
                                                         : 127;

/// The distance of neighbouring values of T around x.
template <class T>
long double ulp_at(long double x) {
  int exponent = x == 0 || !std::isfinite(x) ? kMinExponent<T> : std::ilogb(x);
  exponent = std::min(std::max(exponent, kMinExponent<T>), kMaxExponent<T>);
  return std::ldexp(1.0L, exponent - (kPrecision<T> - 1));
}

/// x rounded once to T: to nearest even, or towards zero.
template <class T>
T round_to(long double x, bool toward_zero = false) {
  if (x == 0 || !std::isfinite(x)) return T(float(x));
  long double unit = ulp_at<T>(x);
  long double r = (toward_zero ? std::trunc(x / unit) : std::nearbyint(x / unit)) * unit;
  if (r == 0) return T(std::signbit(x) ? -0.0f : 0.0f);
  if constexpr (is_half<T>)
    return T(float(r));
  else
    return T(r);
}

/// A number as the references compute with it: floats as long double, integers as they are.
template <class T>
auto wide(T x) {
  if constexpr (is_half<T>)
    return (long double)float(x);
  else if constexpr (is_real<T>)
    return (long double)x;
  else if constexpr (is_bool<T>)
    return bool(x);
  else
    return x;
}

template <class T>
std::string show(T x) {
  if constexpr (is_half<T>)
    return fmt::format("{} ({:#06x})", float(x), x.bits);
  else if constexpr (is_bool<T>)
    return fmt::format("{}", bool(x));
  else if constexpr (sizeof(T) == 1)
    return fmt::format("{}", int(x));
  else
    return fmt::format("{}", x);
}

template <class T>
bool is_nan(T x) {
  if constexpr (is_real<T>)
    return std::isnan(wide(x));
  else
    return false;
}

/// Equal, NaNs being alike and zeros too.
template <class T>
bool same(T a, T b) {
  return (is_nan(a) && is_nan(b)) || wide(a) == wide(b);
}

/// Checks out[i] == expected(i) for all i; reports the first few that differ with what `describe(i)` says.
template <class T, class Expected, class Describe>
void expect_equal(const std::vector<T>& out, const std::string& what, Expected expected, Describe describe) {
  int wrong = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    T e = expected(i);
    if (same(out[i], e)) continue;
    if (++wrong <= 4)
      ADD_FAILURE() << what << " [" << i << "]" << describe(i) << ": got " << show(out[i]) << ", expected " << show(e);
  }
  EXPECT_EQ(wrong, 0) << what << ": of " << out.size() << " values";
}
template <class T, class Expected>
void expect_equal(const std::vector<T>& out, const std::string& what, Expected expected) {
  expect_equal(out, what, expected, [](size_t) { return ""; });
}

/// The error of `got` in units of the last place of T at the exact value. Infinite where one is NaN and the other not.
/// A result beyond the largest finite value counts as the next value after it.
template <class T>
double ulp_error(T got, long double exact) {
  long double value = wide(got), limit = std::ldexp(1.0L, kMaxExponent<T> + 1);
  if (std::isnan(value) || std::isnan(exact)) return std::isnan(value) && std::isnan(exact) ? 0 : INFINITY;
  auto clipped = [&](long double x) { return std::min(std::max(x, -limit), limit); };
  if (clipped(value) == clipped(exact)) return 0;
  return double(std::fabs(clipped(value) - clipped(exact)) / ulp_at<T>(exact));
}

/// The values worth trying first.
template <class T>
std::vector<T> specials() {
  if constexpr (is_bool<T>) {
    return {false, true};
  } else if constexpr (is_real<T>) {
    std::vector<T> out;
    long double largest = (2 - std::ldexp(1.0L, 1 - kPrecision<T>)) * std::ldexp(1.0L, kMaxExponent<T>);
    for (long double x :
         {0.0L, -0.0L, 1.0L, -1.0L, (long double)INFINITY, -(long double)INFINITY, (long double)NAN, largest, -largest,
          std::ldexp(1.0L, kMinExponent<T>), ulp_at<T>(0), -ulp_at<T>(0), 0.5L, 1.5L, 2.0L, 3.0L, -7.25L, 100.0L})
      out.push_back(round_to<T>(x));
    return out;
  } else {
    using L = std::numeric_limits<T>;
    return {0, 1, 2, 3, 7, 100, T(-1), T(-2), L::min(), T(L::min() + 1), L::max(), T(L::max() - 1)};
  }
}

/// Random values: integers of all magnitudes; floats half of ordinary magnitude, half of any (finite).
template <class T>
T random_value(std::mt19937_64& random) {
  uint64_t bits = random();
  if constexpr (is_bool<T>) {
    return bool(bits & 1);
  } else if constexpr (is_real<T>) {
    bool ordinary = random() & 1;
    double fraction = double(bits >> 12) * 0x1p-52 + 1;
    int exponent = ordinary ? int(random() % 12) - 6
                            : kMinExponent<T> + int(random() % uint64_t(kMaxExponent<T> - kMinExponent<T>));
    return round_to<T>(std::ldexp(bits & 1 ? fraction : -fraction, exponent));
  } else {
    return T(T(bits) >> (random() % (8 * sizeof(T))));
  }
}

template <class T>
std::vector<T> random_values(size_t n, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<T> out(n);
  for (T& x : out) x = random_value<T>(random);
  return out;
}

/// Small integers, which every type holds and whose sums are exact: -span..span, or 0..span for unsigned types.
template <class T>
std::vector<T> small_values(size_t n, unsigned seed, int span = 8) {
  std::mt19937_64 random(seed);
  bool negative = is_real<T> || std::is_signed_v<T>;
  std::vector<T> out;
  for (size_t i = 0; i < n; ++i) {
    int x = int(random() % uint64_t(span + 1)) * (negative && random() & 1 ? -1 : 1);
    if constexpr (is_bool<T>)
      out.push_back(bool(x & 1));
    else
      out.push_back(T(x));
  }
  return out;
}

/// Every special value of A with every one of B, then random ones.
template <class A, class B = A>
std::pair<std::vector<A>, std::vector<B>> pairs(size_t random_count, unsigned seed) {
  std::vector<A> a;
  std::vector<B> b;
  for (A x : specials<A>())
    for (B y : specials<B>()) a.push_back(x), b.push_back(y);
  std::vector<A> more_a = random_values<A>(random_count, seed);
  std::vector<B> more_b = random_values<B>(random_count, seed + 1);
  a.insert(a.end(), more_a.begin(), more_a.end());
  b.insert(b.end(), more_b.begin(), more_b.end());
  return {a, b};
}

// ------------------------------------------------------------------------------------------------------- running

inline Device& device() {
  static Device* const device = default_device();
  return *device;
}

/// An array on the device.
template <class T>
class Array {
 public:
  explicit Array(const std::vector<T>& values) : buffer_(device(), values) {}
  explicit Array(size_t n, uint8_t fill = 0xA5) : buffer_(device(), n * sizeof(T)) { buffer_.fill(fill); }
  operator Arg() const { return Arg(buffer_.as<T>()); }
  T* at(size_t i) const { return buffer_.as<T>() + i; }
  std::vector<T> values() const { return buffer_.download<T>(); }

 private:
  Buffer buffer_;
};

inline std::string indented(const std::string& body) {
  std::string out = "    ";
  for (char c : body) out += c == '\n' ? std::string("\n    ") : std::string(1, c);
  return out;
}

/// Compiles `body` (functions of the kernel language, imports left out) and launches its function `kernel`; what is
/// wrong with the text is a failure with the compiler's words.
template <class... Args>
void run(const std::string& body, const LaunchOptions& options, Grid grid, const Args&... args) {
  std::string text = "import triton\nimport triton.language as tl\n\n" + body;
  try {
    Program program = Program::parse(text, "kernel.py");
    program.kernel("kernel").launch(device(), grid, options, Arg(args)...);
    device().synchronize();
  } catch (const Error& error) {
    ADD_FAILURE() << error.what() << "\n" << text;
  }
}

/// PTX of the function `kernel` of `body` whose arguments all are pointers to T.
template <class T>
std::string ptx_of(const std::string& body, size_t arguments) {
  Program program = Program::parse("import triton\nimport triton.language as tl\n\n" + body, "kernel.py");
  std::vector<ArgType> types(arguments, ArgType{.elem = elem<T>, .pointer = true, .divisible_by = 16});
  return program.kernel("kernel").compile(types, {.dependent_launch = false}, "sm_90a").ptx;
}

/// num_warps to try where all of them would take too long: one of 1, 4, 8, another at each call.
inline int next_warps() {
  static int calls = 0;
  constexpr int kWarps[] = {4, 1, 8};
  return kWarps[calls++ % 3];
}

/// The values of expressions of a, b, ... (tiles of the inputs' elements), each of type R. Programs of 256 elements,
/// the last of them masked.
template <class R, class... In>
std::vector<std::vector<R>> evaluate(const std::vector<std::string>& expressions, const std::vector<In>&... in) {
  size_t n = std::min({in.size()...});
  std::string params, body;
  for (size_t k = 0; k < sizeof...(In); ++k) {
    params += fmt::format("x{}, ", k);
    body += fmt::format("{} = tl.load(x{} + i, mask=m)\n", char('a' + k), k);
  }
  for (size_t k = 0; k < expressions.size(); ++k)
    body += fmt::format(
        "r{0} = {1}\ntl.static_assert(r{0}.dtype == {2}, 'type of expression {0}')\ntl.store(out + {0} * n + i, r{0}, "
        "mask=m)\n",
        k, expressions[k], tl<R>());
  std::string text = fmt::format("@triton.jit\ndef kernel({}out, n, BLOCK: tl.constexpr):\n{}\n", params,
                                 indented("i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\nm = i < n\n" + body));
  Array<R> out(n * expressions.size());
  run(text, {.constexprs = {{"BLOCK", 256}}, .num_warps = next_warps()}, {unsigned((n + 255) / 256)}, Array<In>(in)...,
      out, int(n));
  std::vector<R> all = out.values();
  std::vector<std::vector<R>> results;
  for (size_t k = 0; k < expressions.size(); ++k)
    results.emplace_back(all.begin() + long(k * n), all.begin() + long((k + 1) * n));
  return results;
}

}  // namespace tegula::ops
