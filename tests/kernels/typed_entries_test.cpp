// label: device
// Every typed function of the kernel library reaches its entry with its operands in their places: one call each,
// against values that can be told by hand. tests/kernels/test_*.py have shapes, types and extreme values.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "dsl/tegula.h"
#include "kernels/kernels.h"
#include "tests/message_of.h"

namespace tegula::kernels {
namespace {

Device& device() {
  static Device* const found = default_device();
  return *found;
}

/// A 2 x 2 matrix, or a vector of the first elements.
struct Values {
  explicit Values(std::vector<float> values) : buffer(device(), values) {}
  Matrix<float> matrix() const { return {buffer, 2, 2}; }
  Vector<float> vector() const { return {buffer, 2}; }
  Vector<float> number() const { return {buffer, 1}; }
  std::vector<float> now() const { return buffer.download<float>(); }

  Buffer buffer;
};

void expect_near(const Values& found, const std::vector<double>& exact) {
  const std::vector<float> values = found.now();
  for (size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(values[i], exact[i], 2e-5) << "element " << i;
}

struct TypedEntries : testing::Test {
  Values x{{3, 4, -1, 1}}, y{{0, 0, 0, 0}}, z{{0, 0, 0, 0}}, ones{{1, 1, 1, 1}}, v{{0, 0}}, w{{0, 0}};
  const double r1 = 1 / std::sqrt(12.5);
};

TEST_F(TypedEntries, Softmax) {
  const double p = 1 / (1 + std::exp(1.0)), q = 1 / (1 + std::exp(2.0));
  log_softmax(device(), y.matrix(), x.matrix());
  expect_near(y, {std::log(p), std::log(1 - p), std::log(q), std::log(1 - q)});
  softmax(device(), y.matrix(), x.matrix(), {.causal = true});
  expect_near(y, {1, 0, q, 1 - q});
  softmax(device(), y.matrix(), x.matrix());
  softmax_backward(device(), z.matrix(), x.matrix(), y.matrix());
  expect_near(z, {-p * (1 - p), p * (1 - p), -2 * q * (1 - q), 2 * q * (1 - q)});
  log_softmax(device(), y.matrix(), x.matrix());
  log_softmax_backward(device(), z.matrix(), ones.matrix(), y.matrix());
  expect_near(z, {1 - 2 * p, 2 * p - 1, 1 - 2 * q, 2 * q - 1});
}

TEST_F(TypedEntries, Norms) {
  l2_norm(device(), y.matrix(), x.matrix());
  expect_near(y, {0.6, 0.8, -std::sqrt(0.5), std::sqrt(0.5)});
  rms_norm_backward(device(), y.matrix(), v.vector(), ones.matrix(), x.matrix(), {}, {.eps = 0, .dsum = x.matrix()});
  const double along = 3.5 * r1;
  expect_near(y, {3 + r1 * (1 - 3 * r1 * along), 4 + r1 * (1 - 4 * r1 * along), 0, 2});
  expect_near(v, {3 * r1 - 1, 4 * r1 + 1});
  layer_norm_backward(device(), y.matrix(), v.vector(), w.vector(), x.matrix(), x.matrix(), {}, {.eps = 0});
  expect_near(y, {0, 0, 0, 0});
  expect_near(v, {-3 + 1, 4 + 1});
  expect_near(w, {2, 5});
  std::vector<int8_t> q(4);
  Buffer quantised(device(), q);
  rms_norm(device(), Matrix<int8_t>(quantised, 2, 2), x.matrix(), {}, {.scales = v.vector()});
  EXPECT_EQ(quantised.download<int8_t>(), (std::vector<int8_t>{95, 127, -127, 127}));
  expect_near(v, {4 * r1 / 127, 1.0 / 127});
}

TEST_F(TypedEntries, NormsOfImages) {
  auto image = [](const Values& values) { return Tensor(values.buffer.as<float>(), {1, 2, 2}); };
  group_norm(device(), image(y), image(x), 2, {.weight = x.vector(), .eps = 0});
  expect_near(y, {-3, 3, -4, 4});
  Buffer quantised(device(), std::vector<int8_t>(4));
  group_norm(device(), Tensor(quantised.as<int8_t>(), {1, 2, 2}), image(x), 2,
             {.weight = x.vector(), .eps = 0, .scales = Tensor(v.buffer.as<float>(), {1, 2})});
  EXPECT_EQ(quantised.download<int8_t>(), (std::vector<int8_t>{-127, 127, -127, 127}));
  expect_near(v, {3.0 / 127, 4.0 / 127});
  batch_norm(device(), image(y), image(x), x.vector(), ones.vector(),
             {.bias = ones.vector(), .eps = 0, .activation = Activation::Relu});
  expect_near(y, {1, 2, 0, 0});
  group_norm_backward(device(), image(y), v.vector(), w.vector(), image(ones), image(x), 1, ones.vector());
  expect_near(y, {0, 0, 0, 0});
  expect_near(w, {2, 2});
  l2_norm_backward(device(), y.matrix(), x.matrix(), x.matrix());
  expect_near(y, {0, 0, 0, 0});
}

TEST_F(TypedEntries, Losses) {
  Buffer targets(device(), std::vector<int64_t>{1, -100});
  Values logits{{0, 0, 5, 7}};
  cross_entropy(device(), v.vector(), logits.matrix(), Vector<int64_t>(targets, 2), {.lse = w.vector(), .mean = true});
  expect_near(v, {std::log(2.0), 0});
  expect_near(w, {std::log(2.0), 0});
  expect_near(logits, {0.5, -0.5, 0, 0});
  const float half = std::log(0.5f), quarter = std::log(0.25f), rest = std::log(0.75f);
  Values input{{half, half, quarter, rest}}, target{{quarter, rest, quarter, rest}};
  js_divergence(device(), v.vector(), input.matrix(), target.matrix(), 0.5f, 1, false);
  expect_near(v, {0.5 * (0.25 * std::log(0.25 / 0.375) + 0.75 * std::log(0.75 / 0.625) + 0.5 * std::log(0.5 / 0.375) +
                         0.5 * std::log(0.5 / 0.625)),
                  0});
  kl_divergence(device(), v.vector(), input.matrix(), target.matrix(), 2);
  expect_near(v, {2 * (0.25 * std::log(0.5) + 0.75 * std::log(1.5)), 0});
  expect_near(input, {-0.5, -1.5, -0.5, -1.5});
}

TEST_F(TypedEntries, Reductions) {
  reduce_rows(device(), v.vector(), x.matrix(), Reduction::Mean);
  expect_near(v, {3.5, 0});
  reduce_columns(device(), v.vector(), x.matrix(), Reduction::Max);
  expect_near(v, {3, 4});
  reduce_all(device(), w.number(), x.matrix(), Reduction::Sum);
  expect_near(w, {7});
  Buffer index(device(), std::vector<int32_t>{7, 7});
  arg_extreme(device(), Vector<int32_t>(index, 2), x.matrix(), Extreme::Min, v.vector());
  EXPECT_EQ(index.download<int32_t>(), (std::vector<int32_t>{0, 0}));
  expect_near(v, {3, -1});
  scan_rows(device(), y.matrix(), x.matrix(), Scan::Product);
  expect_near(y, {3, 12, -1, -1});
  variance(device(), v.vector(), x.matrix(), 1, w.vector());
  expect_near(v, {0.5, 2});
  expect_near(w, {3.5, 0});
  arg_extreme_columns(device(), Vector<int32_t>(index, 2), x.matrix(), Extreme::Min, v.vector());
  EXPECT_EQ(index.download<int32_t>(), (std::vector<int32_t>{1, 1}));
  variance_columns(device(), v.vector(), x.matrix(), 1, w.vector());
  expect_near(v, {8, 4.5});
  expect_near(w, {1, 2.5});
}

TEST_F(TypedEntries, Elementwise) {
  glu(device(), y.matrix(), x.matrix(), x.matrix(), Activation::Relu);
  expect_near(y, {9, 16, 0, 1});
  glu_backward(device(), y.matrix(), z.matrix(), ones.matrix(), x.matrix(), x.matrix(), Activation::LeakyRelu);
  expect_near(y, {3, 4, -0.01, 1});
  expect_near(z, {3, 4, -0.01, 1});
  dropout(device(), y.matrix(), x.matrix(), 0, 1);
  expect_near(y, {3, 4, -1, 1});
  Buffer a(device(), std::vector<float16>{float16(1), float16(0), float16(0), float16(-2)});
  const Matrix<float16> ab(a, 2, 2);
  linear_dropout(device(), y.matrix(), z.matrix(), ab, ab, 0, 1,
                 {.activation = Activation::Relu, .transpose_b = false});
  expect_near(y, {1, 0, 0, 4});
  expect_near(z, {1, 0, 0, 4});
  linear_dropout_backward(device(), y.matrix(), x.matrix(), z.matrix(), 0, 1, Activation::Relu);
  expect_near(y, {3, 0, 0, 1});
  Values cos{{0, 1}}, sin{{1, 0}};
  rope(device(), Tensor(y.buffer.as<float>(), {2, 1, 2}), Tensor(x.buffer.as<float>(), {2, 1, 2}),
       Tensor(cos.buffer.as<float>(), {2, 1}), Tensor(sin.buffer.as<float>(), {2, 1}));
  expect_near(y, {-4, 3, -1, 1});
}

TEST_F(TypedEntries, OrderAndIndices) {
  Buffer places(device(), std::vector<int32_t>(4));
  const Matrix<int32_t> index(places, 2, 2);
  sort_rows(device(), y.matrix(), index, x.matrix(), true);
  expect_near(y, {4, 3, 1, -1});
  EXPECT_EQ(places.download<int32_t>(), (std::vector<int32_t>{1, 0, 1, 0}));
  topk_rows(device(), Matrix<float>(v.buffer, 2, 1), Matrix<int32_t>(places, 2, 1), x.matrix(), false);
  expect_near(v, {3, -1});
  EXPECT_EQ(places.download<int32_t>(), (std::vector<int32_t>{0, 0, 1, 0}));
  Buffer rows(device(), std::vector<int64_t>{1, 1});
  const Vector<int64_t> both(rows, 2);
  embedding(device(), y.matrix(), x.matrix(), both);
  expect_near(y, {-1, 1, -1, 1});
  embedding_backward(device(), z.matrix(), x.matrix(), both);
  expect_near(z, {0, 0, 2, 5});
  index_add(device(), z.matrix(), x.matrix(), both);
  expect_near(z, {0, 0, 4, 10});
  Buffer counts(device(), std::vector<int32_t>(2));
  histogram(device(), Vector<int32_t>(counts, 2), x.matrix(), 0, 4);
  EXPECT_EQ(counts.download<int32_t>(), (std::vector<int32_t>{1, 2}));
}

TEST_F(TypedEntries, Quantisation) {
  Buffer bytes(device(), std::vector<int8_t>(4)), halves(device(), std::vector<uint8_t>(2)),
      powers = Buffer(device(), 2);
  const Matrix<int8_t> q(bytes, 2, 2);
  const Matrix<uint8_t> packed(halves, 2, 1), exponents(powers, 2, 1);
  const Matrix<float> scales(v.buffer, 2, 1), one(w.buffer, 1, 1);
  quantise_rows(device(), q, v.vector(), x.matrix());
  EXPECT_EQ(bytes.download<int8_t>(), (std::vector<int8_t>{95, 127, -127, 127}));
  expect_near(v, {4.0 / 127, 1.0 / 127});
  quantise_groups(device(), packed, exponents, x.matrix(), Group::Of32, Tall::One, Packed::E2M1);
  EXPECT_EQ(halves.download<uint8_t>(), (std::vector<uint8_t>{0x65, 0x6e}));
  EXPECT_EQ(powers.download<uint8_t>(), (std::vector<uint8_t>{127, 125}));
  dequantise(device(), y.matrix(), packed, exponents, GroupRead::Of32, TallRead::One, Packed::E2M1);
  expect_near(y, {3, 4, -1, 1});
  tensor_scale(device(), w.number(), x.matrix(), Quantised::Int4);
  expect_near(w, {4.0 / 7});
  quantise_tensor(device(), packed, x.matrix(), w.number());
  dequantise(device(), y.matrix(), packed, one, GroupRead::All, TallRead::All);
  expect_near(y, {5 * 4.0 / 7, 4, -2 * 4.0 / 7, 2 * 4.0 / 7});
}

TEST_F(TypedEntries, Products) {
  Buffer halves(device(), std::vector<float16>{float16(1), float16(2), float16(0), float16(-1)});
  const Matrix<float16> a(halves, 2, 2);
  const auto halves_of = [&](std::initializer_list<int64_t> shape) { return Tensor(halves.as<float16>(), shape); };
  batched_gemm(device(), Tensor(v.buffer.as<float>(), {2, 1, 1}), halves_of({2, 1, 2}), halves_of({2, 2, 1}),
               {.bias = ones.number(), .epilogue = Activation::Relu});
  expect_near(v, {6, 2});
  Buffer bytes(device(), std::vector<int8_t>{3, -1, 5, 7}), zeros(device(), std::vector<int8_t>{1, 0});
  Values scales{{2, 1}};
  quantised_gemm(device(), y.matrix(), a, Matrix<int8_t>(bytes, 2, 2), Matrix<float>(scales.buffer, 2, 1),
                 {.zeros = Matrix<int8_t>(zeros, 2, 1), .bias = ones.vector(), .epilogue = Activation::Relu});
  expect_near(y, {0, 20, 5, 0});  // the rows of weights are 4, -4 and 5, 7
  conv2d(device(), Tensor(v.buffer.as<float>(), {1, 2, 1, 1}), halves_of({1, 2, 2, 1}), halves_of({1, 2, 2, 1}),
         {.bias = ones.number(), .stride = {2, 1}, .padding = {1, 0}});
  expect_near(v, {1 + 1 * 0 - 2, 1 + 0 * 1 - 1 * 2});
}

TEST_F(TypedEntries, Samples) {
  Buffer tokens(device(), std::vector<int32_t>(2)), one(device(), std::vector<int32_t>{1, 1});
  const Vector<int32_t> out(tokens, 2);
  sample_rows(device(), out, x.matrix(), 3, {.temperature = v.vector()});
  EXPECT_EQ(tokens.download<int32_t>(), (std::vector<int32_t>{1, 1}));
  sample_rows(device(), out, x.matrix(), 3, {.top_k = Vector<int32_t>(one, 2), .top_p = ones.vector()});
  EXPECT_EQ(tokens.download<int32_t>(), (std::vector<int32_t>{1, 1}));
}

TEST_F(TypedEntries, LinearNorm) {
  Buffer halves(device(), std::vector<float16>{float16(3), float16(0), float16(0), float16(1)}),
      results(device(), std::vector<float16>(4)), sums(device(), std::vector<float16>(4));
  const Matrix<float16> both(halves, 2, 2), result(results, 2, 2);
  const Vector<float16> weight(halves, 2);
  linear_rms_norm(device(), result, both, both, weight,
                  {.eps = 0, .residual = both, .sum = Matrix<float16>(sums, 2, 2)});
  EXPECT_EQ(float(sums.download<float16>()[0]), 12);
  EXPECT_NEAR(float(results.download<float16>()[0]), 3 * std::sqrt(2.0), 1e-2);
  linear_layer_norm(device(), result, both, both, {}, weight, {.eps = 0});
  EXPECT_NEAR(float(results.download<float16>()[0]), 4, 1e-2);
  EXPECT_NEAR(float(results.download<float16>()[1]), -1, 1e-2);
}

TEST_F(TypedEntries, LinearCrossEntropy) {
  Buffer halves(device(), std::vector<float16>{float16(1), float16(0), float16(0), float16(1)}),
      logits(device(), std::vector<float16>(2)), targets(device(), std::vector<int32_t>{0, 1});
  const Matrix<float16> both(halves, 2, 2);
  Buffer gradient(device(), std::vector<float16>(4));
  linear_cross_entropy(device(), v.vector(), Matrix<float16>(gradient, 2, 2), z.matrix(), both, both,
                       Vector<int32_t>(targets, 2), Matrix<float16>(logits, 1, 2), {.lse = w.vector(), .factor = 2});
  const double lse = std::log(1 + std::exp(1.0)), p = std::exp(1 - lse);
  expect_near(v, {2 * (lse - 1), 2 * (lse - 1)});
  expect_near(w, {lse, lse});
  for (float16 dx : {gradient.download<float16>()[0], gradient.download<float16>()[3]})
    EXPECT_NEAR(float(dx), 2 * (p - 1), 1e-3);
  EXPECT_NEAR(z.now()[0], 2 * (p - 1), 1e-3);
  EXPECT_NEAR(z.now()[1], 2 * (1 - p), 1e-3);
}

TEST_F(TypedEntries, Optimisers) {
  Values p{{1, 2}}, g{{3, 4}}, m{{0, 0}}, s{{0, 0}}, norm{{0}}, clip{{0}};
  auto list = [](const Values& values) { return std::vector<Tensor>{values.vector()}; };
  gradient_norm(device(), norm.number(), TensorLists(device(), {list(p), list(g)}), clip.number(), 2.5f);
  expect_near(norm, {5});
  expect_near(clip, {0.5});
  adamw(device(), TensorLists(device(), {list(p), list(g), list(m), list(s)}), 1,
        {.rate = 0.5f, .decay = 0.1f, .clip = clip.number()});
  expect_near(p, {1 * 0.95 - 0.5, 2 * 0.95 - 0.5});
  expect_near(m, {0.15, 0.2});
  lion(device(), TensorLists(device(), {list(p), list(g), list(m)}), {.rate = 1});
  expect_near(p, {-0.55, 0.4});
  sgd(device(), TensorLists(device(), {list(p), list(g)}), {.rate = 0.1f});
  expect_near(p, {-0.85, 0});
  sgd(device(), TensorLists(device(), {list(p), list(g), list(m)}), {.rate = 0.1f, .momentum = 0.9f, .first = true});
  expect_near(m, {3, 4});
  EXPECT_EQ(message_of<LaunchError>([&] {
              TensorLists(device(), {list(p), {}});
            }),
            "list 1 has 0 tensors, but list 0 has 1");
  EXPECT_EQ(message_of<LaunchError>([&] {
              lion(device(), TensorLists(device(), {list(p), list(g)}));
            }),
            "lion takes 3 lists of tensors, found 2");
}

}  // namespace
}  // namespace tegula::kernels
