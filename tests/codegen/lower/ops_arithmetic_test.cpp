// label: device
// Arithmetic, comparisons, bitwise operations, selection, minimum and maximum: every type, special values included.
#include <tuple>

#include "tests/codegen/lower/ops_support.h"

namespace tegula::ops {
namespace {

template <class A, class B>
auto shower(const std::vector<A>& a, const std::vector<B>& b) {
  return [&a, &b](size_t i) { return fmt::format(" of {} and {}", show(a[i]), show(b[i])); };
}

TEST(Arithmetic, IntegersWrapAndTruncate) {
  for_types<IntTypes>([](auto type) {
    using T = decltype(type);
    std::vector<T> a, b;
    std::tie(a, b) = pairs<T>(500, 1);
    // Division by zero is undefined and must do no harm.
    auto r = evaluate<T>({"a + b", "a - b", "a * b", "a // b", "a % b", "-a", "+a", "abs(a)", "tl.add(a, b)",
                          "tl.sub(a, b)", "tl.mul(a, b)", "tl.cdiv(a, b)"},
                         a, b);
    auto at = shower(a, b);
    auto expect = [&](size_t k, const char* what, auto f) {
      expect_equal(
          r[k], fmt::format("{} {}", tl<T>(), what), [&](size_t i) { return T(f(uint64_t(a[i]), uint64_t(b[i]))); },
          at);
    };
    expect(0, "a + b", [](uint64_t x, uint64_t y) { return x + y; });
    expect(1, "a - b", [](uint64_t x, uint64_t y) { return x - y; });
    expect(2, "a * b", [](uint64_t x, uint64_t y) { return x * y; });
    expect(5, "-a", [](uint64_t x, uint64_t) { return 0 - x; });
    expect(6, "+a", [](uint64_t x, uint64_t) { return x; });
    expect(7, "abs(a)", [](uint64_t x, uint64_t) { return std::is_signed_v<T> && T(x) < 0 ? 0 - x : x; });
    expect(8, "add", [](uint64_t x, uint64_t y) { return x + y; });
    expect(9, "sub", [](uint64_t x, uint64_t y) { return x - y; });
    expect(10, "mul", [](uint64_t x, uint64_t y) { return x * y; });
    auto quotient = [](T x, T y) -> T { return std::is_signed_v<T> && y == T(-1) ? T(0 - uint64_t(x)) : T(x / y); };
    for (size_t i = 0; i < a.size(); ++i) {
      if (b[i] == 0) r[3][i] = r[4][i] = 0;
      T up = T(uint64_t(a[i]) + uint64_t(b[i]) - 1);
      if (b[i] == 0)
        r[11][i] = 0;
      else
        EXPECT_EQ(r[11][i], quotient(up, b[i])) << "cdiv" << at(i);
    }
    expect_equal(
        r[3], tl<T>() + " a // b", [&](size_t i) { return b[i] == 0 ? T(0) : quotient(a[i], b[i]); }, at);
    expect_equal(
        r[4], tl<T>() + " a % b",
        [&](size_t i) {
          return b[i] == 0 ? T(0) : T(uint64_t(a[i]) - uint64_t(quotient(a[i], b[i])) * uint64_t(b[i]));
        },
        at);
  });
}

TEST(Arithmetic, FloatsRoundOnce) {
  for_types<FloatTypes>([](auto type) {
    using T = decltype(type);
    std::vector<T> a, b;
    std::tie(a, b) = pairs<T>(700, 2);
    auto r = evaluate<T>({"a + b", "a - b", "a * b", "-a", "abs(a)", "tl.abs(a)"}, a, b);
    auto at = shower(a, b);
    auto expect = [&](size_t k, const char* what, auto f) {
      expect_equal(
          r[k], fmt::format("{} {}", tl<T>(), what), [&](size_t i) { return round_to<T>(f(wide(a[i]), wide(b[i]))); },
          at);
    };
    using L = long double;
    // The sum of two doubles may need more bits than a long double has; the hardware of the host rounds it once.
    if constexpr (std::is_same_v<T, double>) {
      expect_equal(
          r[0], "float64 a + b", [&](size_t i) { return a[i] + b[i]; }, at);
      expect_equal(
          r[1], "float64 a - b", [&](size_t i) { return a[i] - b[i]; }, at);
      expect_equal(
          r[2], "float64 a * b", [&](size_t i) { return a[i] * b[i]; }, at);
    } else {
      // Exact or with an error far below half a unit of T in a long double, for ordinary magnitudes; else as fp32
      // rounds.
      expect(0, "a + b", [](L x, L y) { return is_half<T> ? x + y : L(float(x) + float(y)); });
      expect(1, "a - b", [](L x, L y) { return is_half<T> ? x - y : L(float(x) - float(y)); });
      expect(2, "a * b", [](L x, L y) { return x * y; });
    }
    expect(3, "-a", [](L x, L) { return -x; });
    expect(4, "abs(a)", [](L x, L) { return std::fabs(x); });
    expect(5, "tl.abs(a)", [](L x, L) { return std::fabs(x); });
    if constexpr (!is_half<T>) {
      auto whole = evaluate<T>({"tl.floor(a)", "tl.ceil(a)"}, a);
      expect_equal(
          whole[0], tl<T>() + " floor", [&](size_t i) { return std::floor(a[i]); }, at);
      expect_equal(
          whole[1], tl<T>() + " ceil", [&](size_t i) { return std::ceil(a[i]); }, at);
    }
    for (size_t i = 0; i < a.size(); ++i) {
      if (is_nan(a[i])) continue;
      EXPECT_NE(std::signbit(wide(r[3][i])), std::signbit(wide(a[i]))) << "sign of -" << show(a[i]);
      EXPECT_FALSE(std::signbit(wide(r[4][i]))) << "sign of abs " << show(a[i]);
    }
  });
}

TEST(Arithmetic, FloatRemainderIsExact) {
  auto test = [](auto type) {
    using T = decltype(type);
    std::vector<T> a, b;
    std::tie(a, b) = pairs<T>(300, 3);
    // Quotients of any magnitude take fmod many steps: ordinary ones are enough beside the special values.
    auto r = evaluate<T>({"a % b"}, a, b);
    expect_equal(
        r[0], tl<T>() + " a % b", [&](size_t i) { return T(std::fmod(a[i], b[i])); }, shower(a, b));
  };
  test(float());
  test(double());
}

// Half types are divided in float32, which is the result's type; fdiv rounds back to theirs.
TEST(Arithmetic, Division) {
  for_types<FloatTypes>([](auto type) {
    using T = decltype(type);
    using R = std::conditional_t<is_half<T>, float, T>;
    std::vector<T> a, b;
    std::tie(a, b) = pairs<T>(1500, 4);
    auto r = evaluate<R>({"a / b"}, a, b);
    auto f = evaluate<T>({"tl.fdiv(a, b)", "tl.fdiv(a, b, ieee_rounding=True)"}, a, b);
    auto at = shower(a, b);
    for (size_t i = 0; i < a.size(); ++i) {
      long double exact = wide(a[i]) / wide(b[i]);
      double bound = std::is_same_v<T, double> ? 0.5 : 2;
      EXPECT_LE(ulp_error(r[0][i], exact), bound) << tl<T>() << " a / b" << at(i) << " = " << r[0][i];
      EXPECT_LE(ulp_error(f[0][i], exact), bound) << tl<T>() << " fdiv" << at(i) << " = " << wide(f[0][i]);
    }
    expect_equal(
        f[1], tl<T>() + " fdiv rn", [&](size_t i) { return T(R(wide(a[i])) / R(wide(b[i]))); }, at);
  });
  std::vector<float> a, b;
  std::tie(a, b) = pairs<float>(1500, 5);
  auto r = evaluate<float>({"tl.div_rn(a, b)", "tl.sqrt_rn(a)"}, a, b);
  expect_equal(
      r[0], "div_rn", [&](size_t i) { return a[i] / b[i]; }, shower(a, b));
  expect_equal(
      r[1], "sqrt_rn", [&](size_t i) { return std::sqrt(a[i]); }, shower(a, b));
  // Integers are divided as float32.
  auto [x, y] = pairs<int32_t>(100, 6);
  auto q = evaluate<float>({"a / b"}, x, y);
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_LE(ulp_error(q[0][i], (long double)(float(x[i])) / float(y[i])), 2) << x[i] << " / " << y[i];
}

// Many quotients by one integer are products with its reciprocal.
TEST(Arithmetic, QuotientsByOneInteger) {
  Program program = Program::parse(R"(
import triton
import triton.language as tl

@triton.jit
def by_one(o, x, n):
    i = tl.arange(0, 4096)
    tl.store(o + i, tl.load(x + i) / n)
)",
                                   "by_one.py");
  std::vector<float> x = random_values<float>(4096, 11);
  x[0] = 0.0f, x[1] = -0.0f, x[2] = 1e-44f, x[3] = 3.4e38f, x[4] = INFINITY, x[5] = NAN;
  for (int32_t n : {1, -1, 3, -7, 1 << 20, INT32_MAX, INT32_MIN, 0}) {
    Array<float> o(x.size()), given(x);
    program.kernel("by_one").launch(device(), Grid{1}, {.num_warps = 4}, Arg(o), Arg(given), Arg(n));
    const std::vector<float> found = o.values();
    for (size_t i = 0; i < x.size(); ++i) {
      const float exact = x[i] / float(n);
      if (std::isnan(exact))
        EXPECT_TRUE(std::isnan(found[i])) << x[i] << " / " << n;
      else if (std::isinf(exact) || exact == 0 || std::abs(exact) < std::numeric_limits<float>::min())
        EXPECT_NEAR(found[i] == exact ? 0 : found[i] - exact, 0, 3e-45) << x[i] << " / " << n;
      else
        EXPECT_LE(ulp_error(found[i], (long double)(x[i]) / n), 2) << x[i] << " / " << n;
    }
  }
}

TEST(Arithmetic, Fma) {
  for_types<FloatTypes>([](auto type) {
    using T = decltype(type);
    std::vector<T> a, b;
    std::tie(a, b) = pairs<T>(500, 7);
    auto c = random_values<T>(a.size(), 9);
    auto r = evaluate<T>({"tl.fma(a, b, c)"}, a, b, c);
    expect_equal(
        r[0], tl<T>() + " fma",
        [&](size_t i) {
          if constexpr (std::is_same_v<T, double>) return std::fma(a[i], b[i], c[i]);
          // Half types: one rounding in float32, one to the type.
          else
            return round_to<T>(std::fma(float(a[i]), float(b[i]), float(c[i])));
        },
        shower(a, b));
  });
}

TEST(Arithmetic, Comparisons) {
  for_types<AllTypes>([](auto type) {
    using T = decltype(type);
    std::vector<T> a, b;
    std::tie(a, b) = pairs<T>(500, 10);
    auto r = evaluate<Boolean>({"a == b", "a != b", "a < b", "a <= b", "a > b", "a >= b"}, a, b);
    auto at = shower(a, b);
    auto expect = [&](size_t k, const char* what, auto f) {
      expect_equal(
          r[k], fmt::format("{} {}", tl<T>(), what), [&](size_t i) { return Boolean(f(wide(a[i]), wide(b[i]))); }, at);
    };
    expect(0, "==", [](auto x, auto y) { return x == y; });
    expect(1, "!=", [](auto x, auto y) { return x != y; });
    expect(2, "<", [](auto x, auto y) { return x < y; });
    expect(3, "<=", [](auto x, auto y) { return x <= y; });
    expect(4, ">", [](auto x, auto y) { return x > y; });
    expect(5, ">=", [](auto x, auto y) { return x >= y; });
  });
}

TEST(Arithmetic, BitwiseAndShifts) {
  for_types<IntTypes>([](auto type) {
    using T = decltype(type);
    std::vector<T> a, b;
    std::tie(a, b) = pairs<T>(300, 11);
    std::vector<T> by;
    for (size_t i = 0; i < a.size(); ++i) by.push_back(T(i % (8 * sizeof(T))));
    auto r = evaluate<T>({"a & b", "a | b", "a ^ b", "~a", "a << c", "a >> c"}, a, b, by);
    auto at = shower(a, b);
    expect_equal(
        r[0], tl<T>() + " &", [&](size_t i) { return T(a[i] & b[i]); }, at);
    expect_equal(
        r[1], tl<T>() + " |", [&](size_t i) { return T(a[i] | b[i]); }, at);
    expect_equal(
        r[2], tl<T>() + " ^", [&](size_t i) { return T(a[i] ^ b[i]); }, at);
    expect_equal(
        r[3], tl<T>() + " ~", [&](size_t i) { return T(~a[i]); }, at);
    auto by_at = shower(a, by);
    expect_equal(
        r[4], tl<T>() + " <<", [&](size_t i) { return T(uint64_t(a[i]) << by[i]); }, by_at);
    expect_equal(
        r[5], tl<T>() + " >>", [&](size_t i) { return T(a[i] >> by[i]); }, by_at);
  });
  std::vector<Boolean> a, b;
  std::tie(a, b) = pairs<Boolean>(100, 12);
  auto r = evaluate<Boolean>({"a & b", "a | b", "a ^ b", "~a", "not a", "a and b", "a or b"}, a, b);
  expect_equal(r[0], "int1 &", [&](size_t i) { return Boolean(a[i] && b[i]); });
  expect_equal(r[1], "int1 |", [&](size_t i) { return Boolean(a[i] || b[i]); });
  expect_equal(r[2], "int1 ^", [&](size_t i) { return Boolean(bool(a[i]) != bool(b[i])); });
  expect_equal(r[3], "int1 ~", [&](size_t i) { return Boolean(!a[i]); });
  expect_equal(r[4], "int1 not", [&](size_t i) { return Boolean(!a[i]); });
  expect_equal(r[5], "int1 and", [&](size_t i) { return Boolean(a[i] && b[i]); });
  expect_equal(r[6], "int1 or", [&](size_t i) { return Boolean(a[i] || b[i]); });
}

TEST(Arithmetic, ShiftsBeyondTheWidth) {
  auto a = random_values<int32_t>(300, 13);
  auto u = random_values<uint32_t>(300, 14);
  std::vector<int32_t> by(300, 32);
  std::vector<uint32_t> uby(300, 40);
  auto r = evaluate<int32_t>({"a << b", "a >> b"}, a, by);
  expect_equal(r[0], "<< 32", [&](size_t) { return 0; });
  expect_equal(r[1], ">> 32", [&](size_t i) { return a[i] < 0 ? -1 : 0; });
  auto ur = evaluate<uint32_t>({"a << b", "a >> b"}, u, uby);
  expect_equal(ur[0], "<< 40", [&](size_t) { return 0u; });
  expect_equal(ur[1], ">> 40", [&](size_t) { return 0u; });
}

TEST(Arithmetic, UpperHalfOfTheProduct) {
  auto test = [](auto type) {
    using T = decltype(type);
    std::vector<T> a, b;
    std::tie(a, b) = pairs<T>(500, 15);
    auto r = evaluate<T>({"tl.umulhi(a, b)"}, a, b);
    expect_equal(
        r[0], tl<T>() + " umulhi",
        [&](size_t i) { return T((unsigned __int128)(a[i]) * (unsigned __int128)(b[i]) >> (8 * sizeof(T))); },
        shower(a, b));
  };
  test(uint32_t());
  test(uint64_t());
  // Of signed operands as well the product is that of their bits without sign.
  std::vector<int32_t> a, b;
  std::tie(a, b) = pairs<int32_t>(200, 16);
  auto r = evaluate<int32_t>({"tl.umulhi(a, b)"}, a, b);
  expect_equal(
      r[0], "int32 umulhi", [&](size_t i) { return int32_t(uint64_t(uint32_t(a[i])) * uint32_t(b[i]) >> 32); },
      shower(a, b));
}

TEST(Arithmetic, MinimumAndMaximum) {
  for_types<NumberTypes>([](auto type) {
    using T = decltype(type);
    std::vector<T> a, b;
    std::tie(a, b) = pairs<T>(500, 17);
    auto at = shower(a, b);
    auto smaller = [&](size_t i) {
      return is_nan(a[i]) ? b[i] : is_nan(b[i]) ? a[i] : wide(a[i]) < wide(b[i]) ? a[i] : b[i];
    };
    auto larger = [&](size_t i) {
      return is_nan(a[i]) ? b[i] : is_nan(b[i]) ? a[i] : wide(a[i]) > wide(b[i]) ? a[i] : b[i];
    };
    // bfloat16 gives float32.
    auto r = evaluate<T>({"tl.minimum(a, b).to(a.dtype)", "tl.maximum(a, b).to(a.dtype)", "min(a, b).to(a.dtype)",
                          "max(a, b).to(a.dtype)"},
                         a, b);
    expect_equal(r[0], tl<T>() + " minimum", smaller, at);
    expect_equal(r[1], tl<T>() + " maximum", larger, at);
    expect_equal(r[2], tl<T>() + " min", smaller, at);
    expect_equal(r[3], tl<T>() + " max", larger, at);
    if constexpr (is_real<T>) {
      auto nan = [&](auto f) { return [&, f](size_t i) { return is_nan(a[i]) || is_nan(b[i]) ? T(NAN) : f(i); }; };
      auto p = evaluate<T>({"tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL).to(a.dtype)",
                            "tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL).to(a.dtype)",
                            // Against a literal, half types widen to float32.
                            "tl.clamp(a, -1.5, 2.0).to(a.dtype)",
                            "tl.clamp(a, -1.5, 2.0, propagate_nan=tl.PropagateNan.ALL).to(a.dtype)"},
                           a, b);
      expect_equal(p[0], tl<T>() + " minimum, NaN", nan(smaller), at);
      expect_equal(p[1], tl<T>() + " maximum, NaN", nan(larger), at);
      auto clamped = [&](size_t i) { return round_to<T>(std::fmin(std::fmax(wide(a[i]), -1.5L), 2.0L)); };
      expect_equal(p[2], tl<T>() + " clamp", clamped, at);
      expect_equal(
          p[3], tl<T>() + " clamp, NaN", [&](size_t i) { return is_nan(a[i]) ? a[i] : clamped(i); }, at);
    }
  });
}

TEST(Arithmetic, Where) {
  for_types<AllTypes>([](auto type) {
    using T = decltype(type);
    std::vector<T> a, b;
    std::tie(a, b) = pairs<T>(300, 18);
    auto c = random_values<Boolean>(a.size(), 19);
    auto r = evaluate<T>({"tl.where(c, a, b)", "tl.where(a == b, a, b)", "tl.where(c & (a != b), b, a)"}, a, b, c);
    expect_equal(r[0], tl<T>() + " where", [&](size_t i) { return c[i] ? a[i] : b[i]; });
    expect_equal(r[1], tl<T>() + " where ==", [&](size_t i) { return b[i]; });
    expect_equal(r[2], tl<T>() + " where &", [&](size_t i) { return c[i] && wide(a[i]) != wide(b[i]) ? b[i] : a[i]; });
  });
}

// The type in which two operands meet, and numbers written in the kernel.
TEST(Arithmetic, Promotion) {
  auto i8 = small_values<int8_t>(300, 20), b8 = small_values<int8_t>(300, 21);
  auto u8 = small_values<uint8_t>(300, 22);
  auto i32 = small_values<int32_t>(300, 23);
  auto i64 = small_values<int64_t>(300, 24);
  auto f16 = small_values<float16>(300, 25);
  auto bf16 = small_values<bfloat16>(300, 26);
  auto f32 = small_values<float>(300, 27);
  auto f64 = small_values<double>(300, 28);
  auto sums = [](auto type, const auto& x, const auto& y) {
    using R = decltype(type);
    auto r = evaluate<R>({"a + b", "b - a", "a * b"}, x, y);
    expect_equal(r[0], "a + b", [&](size_t i) { return R(wide(x[i]) + wide(y[i])); });
    expect_equal(r[1], "b - a", [&](size_t i) { return R(wide(y[i]) - wide(x[i])); });
    expect_equal(r[2], "a * b", [&](size_t i) { return R(wide(x[i]) * wide(y[i])); });
  };
  sums(uint8_t(), i8, u8);
  sums(int32_t(), i8, i32);
  sums(int64_t(), u8, i64);
  sums(float16(), i64, f16);
  sums(float(), i8, bf16);
  sums(float16(), f16, bf16);
  sums(float(), f32, f16);
  sums(double(), f64, i64);
  auto literal = evaluate<int8_t>({"a + 1", "3 - a", "a * True"}, i8);
  expect_equal(literal[0], "int8 + 1", [&](size_t i) { return int8_t(i8[i] + 1); });
  expect_equal(literal[1], "3 - int8", [&](size_t i) { return int8_t(3 - i8[i]); });
  expect_equal(literal[2], "int8 * True", [&](size_t i) { return i8[i]; });
  auto real = evaluate<float>({"a + 1.5", "a * 0.25"}, i8);
  expect_equal(real[0], "int8 + 1.5", [&](size_t i) { return i8[i] + 1.5f; });
  expect_equal(real[1], "int8 * 0.25", [&](size_t i) { return i8[i] * 0.25f; });
  auto half = evaluate<float16>({"a + 1.5", "2 * a"}, f16);
  expect_equal(half[0], "float16 + 1.5", [&](size_t i) { return float16(float(f16[i]) + 1.5f); });
  expect_equal(half[1], "2 * float16", [&](size_t i) { return float16(float(f16[i]) * 2); });
}

}  // namespace
}  // namespace tegula::ops
