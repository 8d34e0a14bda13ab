// label: device
// heavy: SpreadWeights.OneScaleARow
// Products with weights of few bits by way of weights of 16 bits, against double precision, several launches each;
// which calls may go that way.
#include "kernels/spread_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <type_traits>

#include "tests/kernels/gemm_support.h"

namespace tegula::kernels {
namespace {

using Integers = std::uniform_int_distribution<int>;
const std::uniform_real_distribution<float> kScales(0.5, 2);

constexpr int64_t kGroups[] = {0, 32, 64, 128};  // of WeightGroup

template <class Weight>
double value_of(const TestMatrix<Weight>& b, int64_t n, int64_t k, PackedWeights packed) {
  if constexpr (!std::is_same_v<Weight, uint8_t>) {
    return b(n, k);
  } else {
    const int code = int(b(n, k / 2)) >> k % 2 * 4 & 15;
    constexpr double kOfThreeBits[] = {0, .5, 1, 1.5, 2, 3, 4, 6};
    if (packed == PackedWeights::E2M1) return code < 8 ? kOfThreeBits[code] : -kOfThreeBits[code - 8];
    return packed == PackedWeights::Int4 && code >= 8 ? code - 16 : code;
  }
}

template <class Scale>
double factor(const TestMatrix<Scale>& scales, int64_t n, int64_t g) {
  return std::is_same_v<Scale, uint8_t> ? std::exp2(scales(n, g) - 127) : scales(n, g);
}

struct How {
  Shape shape;
  PackedWeights packed = PackedWeights::Int4;
  WeightGroup group = WeightGroup::All;
  Activation activation = Activation::None;
  bool zeros = false, bias = false;
};

/// Operands of a call.
template <class Out, class In, class Weight, class Scale>
struct Weights {
  explicit Weights(const How& how)
      : how(how),
        group(kGroups[size_t(how.group)]),
        a(how.shape.m, how.shape.k, 1, how.shape.gap),
        b(weights(how.shape)),
        scales(scales_of(how.shape.n, group ? (how.shape.k + group - 1) / group : 1)),
        zeros(how.shape.n, scales.cols, 4, 0, Integers(0, 15)),
        bias(1, how.shape.n, 5),
        c(how.shape.m, how.shape.n, 6, how.shape.gap) {}

  static TestMatrix<Weight> weights(const Shape& s) {
    if constexpr (std::is_same_v<Weight, uint8_t>)
      return TestMatrix<Weight>(s.n, s.k / 2, 2, 4, Integers(0, 255));
    else if constexpr (std::is_same_v<Weight, int8_t>)
      return TestMatrix<Weight>(s.n, s.k, 2, s.gap, Integers(-128, 127));
    else
      return TestMatrix<Weight>(s.n, s.k, 2, s.gap);
  }
  static TestMatrix<Scale> scales_of(int64_t rows, int64_t groups) {
    if constexpr (std::is_same_v<Scale, uint8_t>)
      return TestMatrix<Scale>(rows, groups, 3, 0, Integers(120, 130));
    else
      return TestMatrix<Scale>(rows, groups, 3, 0, kScales);
  }
  BoundCall call() const {
    const std::vector<Operand> operands{
        Operand(c.view()),
        Operand(a.view()),
        Operand(b.view()),
        Operand(scales.view()),
        how.zeros ? Operand(zeros.view()) : Operand(),
        how.bias ? Operand(bias.vector()) : Operand(),
        Operand(how.activation),
        Operand(how.packed),
        Operand(how.group),
    };
    return BoundCall(entry(EntryId::quantised_gemm), operands);
  }
  /// What the call gives, of the weights as a product of 16 bits has them if they are in groups.
  double exact(int64_t i, int64_t j) const {
    double sum = 0;
    for (int64_t k = 0; k < a.cols; ++k) {
      const int64_t g = group ? k / group : 0;
      const double w = (value_of(b, j, k, how.packed) - (how.zeros ? zeros(j, g) : 0)) * factor(scales, j, g);
      sum += a(i, k) * (group ? double(float(In(float(w)))) : w);
    }
    return activate(sum + (how.bias ? bias(0, j) : 0), how.activation);
  }

  How how;
  int64_t group;
  TestMatrix<In> a;
  TestMatrix<Weight> b;
  TestMatrix<Scale> scales;
  TestMatrix<int8_t> zeros;
  TestMatrix<float> bias;
  TestMatrix<Out> c;
};

template <class Out, class In, class Weight, class Scale>
void check(const How& how, int64_t most_bytes = detail::kMostSpread) {
  SCOPED_TRACE(fmt::format("{} x {} x {}, gap {}", how.shape.m, how.shape.n, how.shape.k, how.shape.gap));
  const Weights<Out, In, Weight, Scale> w(how);
  const BoundCall call = w.call();
  EXPECT_TRUE(detail::can_spread_weights(call));
  detail::multiply_spread_weights(device(), call, nullptr, most_bytes);
  EXPECT_LE(relative_error<Out>(w.c, [&](int64_t i, int64_t j) { return w.exact(i, j); }), kRounding<Out>);
}

TEST(SpreadWeights, OneScaleARow) {
  check<float, float16, int8_t, float>({.shape = {70, 140, 264}});
  check<bfloat16, bfloat16, int8_t, bfloat16>(
      {.shape = {100, 33, 72, 8}, .activation = Activation::Gelu, .zeros = true, .bias = true});
  check<float, bfloat16, float8e4nv, float16>({.shape = {65, 64, 128}, .activation = Activation::Relu, .bias = true});
  check<float16, float16, float8e5, float16>({.shape = {65, 64, 128}});
  check<float, float16, uint8_t, float>({.shape = {65, 40, 88}, .packed = PackedWeights::UInt4, .zeros = true});
  check<float, bfloat16, uint8_t, float>({.shape = {65, 40, 88}, .packed = PackedWeights::E2M1});
}

TEST(SpreadWeights, Groups) {
  check<float, float16, uint8_t, float16>({.shape = {70, 140, 296}, .group = WeightGroup::Of32});
  check<bfloat16, bfloat16, uint8_t, bfloat16>({.shape = {100, 33, 200, 8},
                                                .packed = PackedWeights::UInt4,
                                                .group = WeightGroup::Of64,
                                                .activation = Activation::Silu,
                                                .zeros = true,
                                                .bias = true});
  check<float, float16, uint8_t, float16>({.shape = {70, 48, 256}, .group = WeightGroup::Of128, .zeros = true});
  check<float, bfloat16, uint8_t, uint8_t>(
      {.shape = {65, 40, 256}, .packed = PackedWeights::E2M1, .group = WeightGroup::Of32});
  check<float, bfloat16, int8_t, bfloat16>({.shape = {70, 48, 256}, .group = WeightGroup::Of128});
}

// The weights of 256 columns at a time, the last time of fewer.
TEST(SpreadWeights, SomeColumnsAtATime) {
  check<float, float16, uint8_t, float16>(
      {.shape = {65, 600, 64, 8}, .group = WeightGroup::Of32, .zeros = true, .bias = true}, 1);
  check<bfloat16, bfloat16, int8_t, float>(
      {.shape = {65, 300, 64, 8}, .activation = Activation::Relu, .zeros = true, .bias = true}, 256 * 64 * 2);
}

TEST(SpreadWeights, OnlyWhereResultsAreThoseOfTheKernel) {
  auto can = []<class Scale>(std::type_identity<Scale>, const How& how) {
    return detail::can_spread_weights(Weights<float, float16, int8_t, Scale>(how).call());
  };
  constexpr std::type_identity<float16> halves;
  constexpr std::type_identity<float> floats;
  EXPECT_TRUE(can(floats, {.shape = {65, 16, 64}}));
  EXPECT_FALSE(can(floats, {.shape = {64, 16, 64}})) << "few rows";
  EXPECT_FALSE(can(floats, {.shape = {65, 16, 60}})) << "rows that begin anywhere";
  EXPECT_FALSE(can(floats, {.shape = {65, 16, 0}})) << "no depth";
  EXPECT_FALSE(can(floats, {.shape = {65, 16, 64}, .group = WeightGroup::Of32})) << "sums are scaled in fp32";
  EXPECT_TRUE(can(halves, {.shape = {65, 16, 64}, .group = WeightGroup::Of32}));
  EXPECT_FALSE(can(std::type_identity<uint8_t>(), {.shape = {65, 16, 64}})) << "exponents";
}

// Below, weights become numbers on their way to the tensor cores.
TEST(SpreadWeights, OnlyWhereItPays) {
  const Weights<float16, float16, int8_t, float> w({.shape = {128, 64, 64}});
  EXPECT_FALSE(detail::spread_weights(device(), w.call(), nullptr));
}

}  // namespace
}  // namespace tegula::kernels
