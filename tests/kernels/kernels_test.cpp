// label: device
// heavy: Kernels.Affine Kernels.RmsNorm Kernels.LayerNorm
// heavy: Kernels.EveryConfigurationOfNorm Kernels.EveryConfigurationOfSoftmax
// heavy: Kernels.SoftmaxScaleBias Kernels.ExpNormalize
// The kernel library against double precision: every entry, element type and kind of shape; what it refuses.
#include "kernels/kernels.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/message_of.h"

namespace tegula::kernels {
namespace {

struct Shape {
  int64_t rows, cols, stride = 0;  ///< stride 0: cols
};

// One row, one column, lengths that no power of two divides, several rows a program, gaps between rows.
constexpr Shape kShapes[] = {{1, 1}, {5, 1}, {7, 3, 8}, {1, 1000}, {3, 781}, {37, 64}, {2, 4096, 4112}, {2, 12672}};

Device& device() {
  static Device* const found = default_device();
  return *found;
}

template <class T>
constexpr double kRounding = std::is_same_v<T, float>     ? 4e-6
                             : std::is_same_v<T, float16> ? 0x1p-11
                                                          : 0x1p-8;

/// A matrix on the host with its copy on the device; gaps between rows hold 77, which kernels must leave alone.
template <class T>
struct TestMatrix {
  TestMatrix(Shape shape, unsigned seed, double low = -4, double high = 4)
      : shape(shape), stride(shape.stride ? shape.stride : shape.cols) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> uniform(low, high);
    host.resize(size_t(shape.rows * stride), T(77.0f));
    for (int64_t r = 0; r < shape.rows; ++r)
      for (int64_t c = 0; c < shape.cols; ++c) host[size_t(r * stride + c)] = T(float(uniform(random)));
    buffer = Buffer(device(), host);
  }
  double operator()(int64_t r, int64_t c) const { return float(host[size_t(r * stride + c)]); }
  Matrix<T> view() const { return {buffer, shape.rows, shape.cols, stride}; }
  Vector<T> vector() const { return {buffer, shape.cols}; }

  Shape shape;
  int64_t stride;
  std::vector<T> host;
  Buffer buffer;
};

using Reference = std::function<double(int64_t row, int64_t col)>;

/// What the device holds against the reference: relative to the value, or to `scale` where terms may cancel.
template <class T>
void expect_near(const TestMatrix<T>& m, const Reference& reference, const std::string& what, double scale = 0) {
  const std::vector<T> found = m.buffer.template download<T>();
  int wrong = 0;
  for (int64_t r = 0; r < m.shape.rows && wrong < 5; ++r)
    for (int64_t c = 0; c < m.stride && wrong < 5; ++c) {
      const double value = float(found[size_t(r * m.stride + c)]);
      const double exact = c < m.shape.cols ? reference(r, c) : 77;
      const double allowed = kRounding<T> * std::max(std::abs(exact), scale) + (sizeof(T) == 2 ? 1e-7 : 1e-37);
      if (std::abs(value - exact) <= allowed) continue;
      ++wrong;
      ADD_FAILURE() << fmt::format("{}: {} x {} of {} bytes, row {}, column {}: found {}, expected {}", what,
                                   m.shape.rows, m.shape.cols, sizeof(T), r, c, value, exact);
    }
}

/// A function of each row's elements that is asked for once a row.
Reference by_row(std::function<std::vector<double>(int64_t row)> row_values) {
  struct Cache {
    int64_t row = -1;
    std::vector<double> values;
  };
  auto cache = std::make_shared<Cache>();
  return [=](int64_t row, int64_t col) {
    if (cache->row != row) cache->values = row_values(row), cache->row = row;
    return cache->values[size_t(col)];
  };
}

template <class T>
Reference softmax_reference(const TestMatrix<T>& x, bool plus_one = false) {
  return by_row([&x, plus_one](int64_t r) {
    std::vector<double> y(size_t(x.shape.cols));
    double top = -INFINITY, sum = 0;
    for (int64_t c = 0; c < x.shape.cols; ++c) top = std::max(top, x(r, c));
    for (int64_t c = 0; c < x.shape.cols; ++c)
      sum += y[size_t(c)] = plus_one ? std::exp(x(r, c)) + 1 : std::exp(x(r, c) - top);
    for (double& v : y) v /= sum;
    return y;
  });
}

/// Calls test(T()) for each element type.
template <class F>
void for_types(F test) {
  test(float());
  test(float16());
  test(bfloat16());
}

TEST(Kernels, Softmax) {
  for_types([](auto type) {
    using T = decltype(type);
    for (Shape shape : kShapes) {
      TestMatrix<T> x(shape, 1), y(shape, 2);
      softmax(device(), y.view(), x.view());
      expect_near(y, softmax_reference(x), "softmax");
    }
  });
}

TEST(Kernels, SoftmaxOfLargeValuesAndMinusInfinity) {
  TestMatrix<float> x({2, 300}, 1, 900, 1000), y({2, 300}, 2);
  for (int c = 3; c < 300; c += 7) x.host[size_t(c)] = -INFINITY;
  x.buffer.upload(x.host);
  softmax(device(), y.view(), x.view());
  expect_near(y, softmax_reference(x), "softmax");
}

TEST(Kernels, SoftmaxScaleBias) {
  for_types([](auto type) {
    using T = decltype(type);
    for (Shape shape : kShapes) {
      TestMatrix<T> x(shape, 1), y(shape, 2), bias({1, shape.cols}, 3);
      softmax_scale_bias(device(), y.view(), x.view(), 2.5f, bias.vector());
      const Reference plain = softmax_reference(x);
      expect_near(
          y, [&](int64_t r, int64_t c) { return plain(r, c) * 2.5 + bias(0, c); }, "softmax_scale_bias", 1);
    }
  });
}

TEST(Kernels, ExpNormalize) {
  for_types([](auto type) {
    using T = decltype(type);
    for (Shape shape : kShapes) {
      TestMatrix<T> x(shape, 1), y(shape, 2);
      exp_normalize(device(), y.view(), x.view());
      expect_near(y, softmax_reference(x, true), "exp_normalize");
    }
  });
}

double silu(double y) { return y / (1 + std::exp(-y)); }

/// h = x + residual, normalised, times weight, plus bias; `center`: LayerNorm.
template <class T>
Reference norm_reference(const TestMatrix<T>& x, const TestMatrix<T>* residual, const TestMatrix<T>* weight,
                         const TestMatrix<T>* bias, bool center, bool with_silu, double eps) {
  return by_row([=, &x](int64_t r) {
    const int64_t cols = x.shape.cols;
    std::vector<double> h(x.shape.cols);
    double mean = 0, square = 0;
    for (int64_t c = 0; c < cols; ++c) mean += h[size_t(c)] = x(r, c) + (residual ? (*residual)(r, c) : 0);
    for (double& v : h) {
      if (center) v -= mean / double(cols);
      square += v * v;
    }
    for (int64_t c = 0; c < cols; ++c) {
      double& y = h[size_t(c)];
      y = y / std::sqrt(square / double(cols) + eps) * (weight ? (*weight)(0, c) : 1) + (bias ? (*bias)(0, c) : 0);
      if (with_silu) y = silu(y);
    }
    return h;
  });
}

TEST(Kernels, RmsNorm) {
  for_types([](auto type) {
    using T = decltype(type);
    for (Shape shape : kShapes) {
      TestMatrix<T> x(shape, 1), y(shape, 2), weight({1, shape.cols}, 3), r({shape.rows, shape.cols}, 4), h(shape, 5);
      rms_norm(device(), y.view(), x.view(), weight.vector());
      expect_near(y, norm_reference<T>(x, nullptr, &weight, nullptr, false, false, 1e-6), "rms_norm");
      rms_norm(device(), y.view(), x.view(), weight.vector(), {.eps = 1e-3f, .residual = r.view()});
      expect_near(y, norm_reference<T>(x, &r, &weight, nullptr, false, false, 1e-3), "rms_norm of a sum", 1);
      rms_norm(device(), y.view(), x.view(), weight.vector(),
               {.residual = r.view(), .sum = h.view(), .activation = Activation::Silu});
      expect_near(y, norm_reference<T>(x, &r, &weight, nullptr, false, true, 1e-6), "silu(rms_norm) of a sum", 1);
      expect_near(
          h, [&](int64_t row, int64_t col) { return x(row, col) + r(row, col); }, "the sum");
      rms_norm(device(), y.view(), x.view(), {}, {.activation = Activation::Silu});
      expect_near(y, norm_reference<T>(x, nullptr, nullptr, nullptr, false, true, 1e-6), "without weight");
    }
  });
}

TEST(Kernels, LayerNorm) {
  for_types([](auto type) {
    using T = decltype(type);
    for (Shape shape : kShapes) {
      TestMatrix<T> x(shape, 1), y(shape, 2), w({1, shape.cols}, 3), b({1, shape.cols}, 4), r(shape, 5), h(shape, 6);
      layer_norm(device(), y.view(), x.view(), w.vector(), b.vector(), {.eps = 1e-5f});
      expect_near(y, norm_reference<T>(x, nullptr, &w, &b, true, false, 1e-5), "layer_norm", 2);
      layer_norm(device(), y.view(), x.view(), {}, {}, {.eps = 1e-5f, .residual = r.view(), .sum = h.view()});
      expect_near(y, norm_reference<T>(x, &r, nullptr, nullptr, true, false, 1e-5), "layer_norm of a sum", 2);
    }
  });
}

// Values far from zero: the variance must not be a difference of large numbers.
TEST(Kernels, LayerNormOfValuesFarFromZero) {
  TestMatrix<float> x({2, 1000}, 1, 1000, 1001), y({2, 1000}, 2);
  layer_norm(device(), y.view(), x.view(), {}, {}, {.eps = 0});
  expect_near(y, norm_reference<float>(x, nullptr, nullptr, nullptr, true, false, 0), "layer_norm", 100);
}

TEST(Kernels, Affine) {
  for_types([](auto type) {
    using T = decltype(type);
    for (Shape shape : kShapes) {
      TestMatrix<T> x(shape, 1), y(shape, 2), b({1, shape.cols}, 3), s({1, shape.cols}, 4), o({1, shape.cols}, 5);
      affine(device(), y.view(), x.view(), {.bias = b.vector(), .scale = s.vector(), .offset = o.vector()});
      expect_near(
          y, [&](int64_t r, int64_t c) { return (x(r, c) + b(0, c)) * s(0, c) + o(0, c); }, "(x + b) * s + o", 8);
      affine(device(), y.view(), x.view(), {.scale = s.vector(), .offset = b.vector(), .activation = Activation::Relu});
      expect_near(
          y, [&](int64_t r, int64_t c) { return std::max(0.0, x(r, c) * s(0, c) + b(0, c)); }, "relu(x * s + b)", 8);
      affine(device(), y.view(), x.view(), {.activation = Activation::Silu});
      expect_near(
          y, [&](int64_t r, int64_t c) { return silu(x(r, c)); }, "silu(x)");
      for (Activation activation :
           {Activation::LeakyRelu, Activation::Gelu, Activation::GeluTanh, Activation::GeluTanhFast}) {
        // The hardware's tanh is 2^-10.9 off at most, half of which counts for values up to 6.
        const double scale = activation == Activation::GeluTanhFast ? 0.1 + 1.6e-3 / kRounding<T> : 0.1;
        affine(device(), y.view(), x.view(), {.activation = activation});
        expect_near(
            y,
            [&](int64_t r, int64_t c) {
              const double v = x(r, c);
              if (activation == Activation::LeakyRelu) return v < 0 ? 0.01 * v : v;
              if (activation == Activation::Gelu) return 0.5 * v * std::erfc(-v / std::sqrt(2.0));
              return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
            },
            "leaky relu or gelu", scale);
      }
    }
  });
}

TEST(Kernels, SwiGlu) {
  for_types([](auto type) {
    using T = decltype(type);
    for (Shape shape : kShapes) {
      TestMatrix<T> gate(shape, 1), up(shape, 2), y(shape, 3);
      swiglu(device(), y.view(), gate.view(), up.view());
      expect_near(
          y, [&](int64_t r, int64_t c) { return silu(gate(r, c)) * up(r, c); }, "swiglu");
    }
    TestMatrix<T> both({3, 200}, 1), y({3, 100}, 2);
    const T* halves = both.buffer.template as<T>();
    swiglu(device(), y.view(), Matrix<const T>(halves, 3, 100, 200), Matrix<const T>(halves + 100, 3, 100, 200));
    expect_near(
        y, [&](int64_t r, int64_t c) { return silu(both(r, c)) * both(r, 100 + c); }, "swiglu of halves");
  });
}

TEST(Kernels, NotANumberStays) {
  TestMatrix<float> x({1, 40}, 1), y({1, 40}, 2);
  x.host[7] = NAN;
  x.buffer.upload(x.host);
  affine(device(), y.view(), x.view(), {.activation = Activation::Relu});
  EXPECT_TRUE(std::isnan(y.buffer.download<float>()[7]));
  EXPECT_FALSE(std::isnan(y.buffer.download<float>()[8]));
}

TEST(Kernels, InPlace) {
  for (Shape shape : {Shape{3, 781}, Shape{40, 32}}) {
    TestMatrix<float> x(shape, 1), r(shape, 2), y(shape, 3);
    softmax(device(), x.view(), x.view());
    expect_near(x, softmax_reference(x), "softmax in place");
    x.buffer.upload(x.host);
    rms_norm(device(), y.view(), x.view(), {}, {.residual = r.view(), .sum = r.view()});  // r += x; y = norm(r)
    expect_near(
        r, [&](int64_t row, int64_t col) { return x(row, col) + r(row, col); }, "the residual");
    expect_near(y, norm_reference<float>(x, &r, nullptr, nullptr, false, false, 1e-6), "rms_norm", 1);
  }
}

// Rows that do not fit the registers are read twice.
TEST(Kernels, WideRows) {
  const Shape shape{1, 70000};
  TestMatrix<float> x(shape, 1), y(shape, 2);
  softmax(device(), y.view(), x.view());
  expect_near(y, softmax_reference(x), "softmax");
  exp_normalize(device(), y.view(), x.view());
  expect_near(y, softmax_reference(x, true), "exp_normalize");
  TestMatrix<float> w(shape, 3), b(shape, 4), r(shape, 5), h(shape, 6);
  softmax_scale_bias(device(), y.view(), x.view(), 3, b.vector());
  const Reference plain = softmax_reference(x);
  expect_near(
      y, [&](int64_t row, int64_t col) { return plain(row, col) * 3 + b(row, col); }, "softmax_scale_bias", 1);
  rms_norm(device(), y.view(), x.view(), w.vector());
  expect_near(y, norm_reference<float>(x, nullptr, &w, nullptr, false, false, 1e-6), "rms_norm");
  layer_norm(device(), y.view(), x.view(), w.vector(), b.vector(), {.residual = r.view(), .sum = h.view()});
  expect_near(y, norm_reference<float>(x, &r, &w, &b, true, false, 1e-6), "layer_norm", 2);
}

// Every configuration that a launch may choose, on a shape where it fits.
template <class... Args>
void check_configs(const std::string& file, const std::string& name, Shape shape, std::vector<ConstexprArg> flags,
                   const std::function<void()>& check, const Args&... args) {
  const Kernel kernel = library_program(file).kernel(name);
  const Autotune& tuning = *kernel.autotuning();
  const std::vector<Arg> list{Arg(args)...};
  const std::vector<Config> configs = tuning.prune(tuning.configs, kernel.named(list));
  EXPECT_GT(configs.size(), 1u) << name;
  EXPECT_LT(configs.size(), 40u) << name << ": many to time";
  for (const Config& config : configs) {
    SCOPED_TRACE(config.to_string());
    LaunchOptions options{.constexprs = config.constexprs};
    for (const ConstexprArg& flag : flags) options.constexprs.push_back(flag);
    options.num_warps = config.num_warps.value_or(4);
    options.num_ctas = config.num_ctas.value_or(1);
    int64_t tiles = (shape.rows + config["ROWS"] - 1) / config["ROWS"];
    if (config.find("COLS")) tiles *= (shape.cols + config["COLS"] - 1) / config["COLS"];
    if (config.find("STAGES") && config["STAGES"] > 0 && config["PIECE"] == 0) tiles = std::min<int64_t>(tiles, 2);
    kernel.launch(device(), Grid{unsigned(tiles)}, options, std::span<const Arg>(list));
    check();
    if (testing::Test::HasFailure()) break;
  }
}

TEST(Kernels, EveryConfigurationOfSoftmax) {
  for (Shape shape : {Shape{5, 500}, Shape{1, 16500}, Shape{2, 50000}}) {
    TestMatrix<float> x(shape, 1), y(shape, 2);
    check_configs(
        "softmax.py", "softmax", shape, {},
        [&] {
          expect_near(y, softmax_reference(x), "softmax");
          y.buffer.fill(0);
        },
        y.buffer.as<float>(), x.buffer.as<float>(), nullptr, nullptr, int(y.stride), int(x.stride), 0, int(shape.rows),
        int(shape.cols), 1, 0, 1.0f, 0);
  }
}

TEST(Kernels, EveryConfigurationOfNorm) {
  for (Shape shape : {Shape{5, 500}, Shape{1, 7168}, Shape{1, 16500}, Shape{2, 50000}}) {
    TestMatrix<bfloat16> x(shape, 1), y(shape, 2), r(shape, 3), h(shape, 4), w({1, shape.cols}, 5),
        b({1, shape.cols}, 6);
    check_configs(
        "norm.py", "norm", shape, {{"CENTER", Constexpr(true)}, {"ACTIVATION", Constexpr("silu")}},
        [&] {
          expect_near(y, norm_reference<bfloat16>(x, &r, &w, &b, true, true, 1e-5), "norm", 2);
          y.buffer.fill(0);
        },
        y.buffer.as<bfloat16>(), x.buffer.as<bfloat16>(), r.buffer.as<bfloat16>(), h.buffer.as<bfloat16>(), nullptr,
        nullptr, w.buffer.as<bfloat16>(), b.buffer.as<bfloat16>(), int(y.stride), int(x.stride), int(r.stride),
        int(h.stride), int(shape.rows), int(shape.cols), 1e-5f, 0);
  }
}

// Rows divided over a cluster's blocks, far from 0, with the sum in the residual's place: each block reads the
// beginnings of rows that another one overwrites.
TEST(Kernels, LayerNormOfDividedRowsInPlace) {
  const Kernel kernel = library_program("norm.py").kernel("norm");
  for (Shape shape : {Shape{3, 12500}, Shape{2, 12301}}) {
    TestMatrix<float> x(shape, 1, 1000, 1001), y(shape, 2), r(shape, 3, -8, -7), w({1, shape.cols}, 4);
    for (int stages : {0, 2}) {
      r.buffer = Buffer(device(), r.host);
      const LaunchOptions options{.constexprs = {{"CENTER", true},
                                                 {"ACTIVATION", "none"},
                                                 {"ROWS", 1},
                                                 {"STAGES", stages},
                                                 {"PIECE", 0},
                                                 {"EVICTION", ""}},
                                  .num_warps = 4,
                                  .num_ctas = 2};
      kernel.launch(device(), {stages ? 1u : unsigned(shape.rows)}, options, y.buffer.as<float>(), x.buffer.as<float>(),
                    r.buffer.as<float>(), r.buffer.as<float>(), nullptr, nullptr, w.buffer.as<float>(), nullptr,
                    int(y.stride), int(x.stride), int(r.stride), int(r.stride), int(shape.rows), int(shape.cols), 1e-5f,
                    0);
      // What the sums are rounded to, and what that is in units of the deviation.
      expect_near(y, norm_reference<float>(x, &r, &w, nullptr, true, false, 1e-5), "layer_norm", 150);
      expect_near(
          r, [&](int64_t row, int64_t col) { return x(row, col) + r(row, col); }, "the sum");
    }
  }
}

TEST(Kernels, EveryConfigurationOfSwiGlu) {
  for (Shape shape : {Shape{5, 60}, Shape{9, 1000}}) {
    TestMatrix<float16> gate(shape, 1), up(shape, 2), y(shape, 3);
    check_configs(
        "elementwise.py", "glu", shape, {{"ACTIVATION", Constexpr("silu")}},
        [&] {
          expect_near(
              y, [&](int64_t r, int64_t c) { return silu(gate(r, c)) * up(r, c); }, "swiglu");
          y.buffer.fill(0);
        },
        y.buffer.as<float16>(), gate.buffer.as<float16>(), up.buffer.as<float16>(), int(y.stride), int(gate.stride),
        int(up.stride), int(shape.rows), int(shape.cols), 0);
  }
}

TEST(Kernels, EmptyMatricesLaunchNothing) {
  for (Shape shape : {Shape{0, 16}, Shape{16, 0}, Shape{0, 0}}) {
    const Matrix<float> none(nullptr, shape.rows, shape.cols);
    softmax(device(), none, none);
    exp_normalize(device(), none, none);
    softmax_scale_bias(device(), none, none, 1.0f, Vector<float>(nullptr, shape.cols));
    rms_norm(device(), none, none, {});
    layer_norm(device(), none, none, {}, {});
    affine(device(), none, none, {});
    swiglu(device(), none, none, none);
  }
}

TEST(Kernels, RowsWithoutElementsAreReduced) {
  const Buffer out(device(), std::vector<float>(3, 7.0f));
  const Vector<float> sums(out, 3);
  const Matrix<float> none(nullptr, 3, 0);
  reduce_rows(device(), sums, none, Reduction::Sum);
  EXPECT_EQ(out.download<float>(), std::vector<float>(3, 0.0f));
  reduce_rows(device(), sums, none, Reduction::Max);
  EXPECT_EQ(out.download<float>(), std::vector<float>(3, -INFINITY));
}

TEST(Kernels, ProductsOverNothingAreZero) {
  const Buffer out(device(), std::vector<float>(3 * 8, 7.0f));
  gemm(device(), Matrix<float>(out, 3, 8), Matrix<float16>(nullptr, 3, 0), Matrix<float16>(nullptr, 0, 8));
  EXPECT_EQ(out.download<float>(), std::vector<float>(3 * 8, 0.0f));
}

TEST(Kernels, FromManyThreads) {
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<TestMatrix<float>>> x, y;
  for (int t = 0; t < 4; ++t) {
    x.push_back(std::make_unique<TestMatrix<float>>(Shape{3, 90 + t % 2}, t));
    y.push_back(std::make_unique<TestMatrix<float>>(Shape{3, 90 + t % 2}, 9));
  }
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 3; ++i) softmax(device(), y[t]->view(), x[t]->view());
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < 4; ++t) expect_near(*y[t], softmax_reference(*x[t]), "softmax");
}

TEST(Kernels, Refuses) {
  TestMatrix<float> a({4, 8}, 1), b({4, 9}, 2);
  const std::string shapes = message_of<LaunchError>([&] { softmax(device(), a.view(), b.view()); });
  EXPECT_NE(shapes.find("softmax: x is 4 x 9, but out is 4 x 8"), std::string::npos) << shapes;
  const std::string bias =
      message_of<LaunchError>([&] { softmax_scale_bias(device(), a.view(), a.view(), 1.0f, b.vector()); });
  EXPECT_NE(bias.find("softmax_scale_bias: bias has 9 elements, but out is 4 x 8"), std::string::npos) << bias;
  const std::string overlap =
      message_of<LaunchError>([&] { softmax(device(), Matrix<float>(a.buffer, 4, 8, 7), a.view()); });
  EXPECT_NE(overlap.find("the rows of out overlap: they have 8 elements and lie 7 apart"), std::string::npos)
      << overlap;
  const std::string none = message_of<LaunchError>([&] { softmax(device(), a.view(), Matrix<float>(nullptr, 4, 8)); });
  EXPECT_NE(none.find("softmax: x has no address"), std::string::npos) << none;
  const std::string small = message_of<LaunchError>([&] { Matrix<float>(a.buffer, 5, 8); });
  EXPECT_NE(small.find("a 5 x 8 matrix with rows 8 elements of 4 bytes apart does not fit a buffer of 128 bytes"),
            std::string::npos)
      << small;
  const std::string strides = message_of<LaunchError>(
      [&] { softmax(device(), Matrix<float>(a.buffer, 2, 4, 8), Matrix<float>(a.buffer, 2, 4, 4)); });
  EXPECT_NE(strides.find("softmax: out is x in place, which needs equal types and strides"), std::string::npos)
      << strides;
  const std::string negative =
      message_of<LaunchError>([&] { softmax(device(), Matrix<float>(a.buffer, -1, 4), a.view()); });
  EXPECT_NE(negative.find("out is -1 x 4, expected extents from 0 to 2147352575"), std::string::npos) << negative;
  const std::string norm =
      message_of<LaunchError>([&] { rms_norm(device(), a.view(), a.view(), {}, {.residual = b.view()}); });
  EXPECT_NE(norm.find("rms_norm: residual is 4 x 9, but out is 4 x 8"), std::string::npos) << norm;
  const std::string weight = message_of<LaunchError>([&] { layer_norm(device(), a.view(), a.view(), b.vector(), {}); });
  EXPECT_NE(weight.find("layer_norm: weight has 9 elements, but out is 4 x 8"), std::string::npos) << weight;
  const std::string sum =
      message_of<LaunchError>([&] { rms_norm(device(), a.view(), a.view(), {}, {.sum = a.view()}); });
  EXPECT_NE(sum.find("rms_norm: out and sum are the same memory"), std::string::npos) << sum;
  const std::string offset =
      message_of<LaunchError>([&] { affine(device(), a.view(), a.view(), {.offset = b.vector()}); });
  EXPECT_NE(offset.find("affine: offset has 9 elements, but out is 4 x 8"), std::string::npos) << offset;
  const std::string up = message_of<LaunchError>([&] { swiglu(device(), a.view(), a.view(), b.view()); });
  EXPECT_NE(up.find("swiglu: up is 4 x 9, but out is 4 x 8"), std::string::npos) << up;
  const std::string probability = message_of<LaunchError>([&] { dropout(device(), a.view(), a.view(), 1.5f, 7); });
  EXPECT_NE(probability.find("dropout: p is 1.5, expected 0 to 1"), std::string::npos) << probability;
  const std::string queries =
      message_of<LaunchError>([&] { softmax(device(), a.view(), a.view(), {.causal = true, .queries = -1}); });
  EXPECT_NE(queries.find("softmax: queries is -1, expected 0 or more"), std::string::npos) << queries;
  const Tensor heads(a.buffer.as<float>(), {4, 1, 8});
  TestMatrix<float> angles({4, 5}, 3);
  const std::string half = message_of<LaunchError>([&] { rope(device(), heads, heads, angles.view(), angles.view()); });
  EXPECT_NE(half.find("rope: cos and sin have 5 columns, expected 4 at most: half of the 8 elements of a head"),
            std::string::npos)
      << half;
  const Buffer counts(device(), std::vector<int32_t>(4));
  const std::string bounds =
      message_of<LaunchError>([&] { histogram(device(), Vector<int32_t>(counts, 4), a.view(), 1.0f, 0.0f); });
  EXPECT_NE(bounds.find("histogram: low is 1 and high 0, expected low to be less"), std::string::npos) << bounds;
  const std::string file = message_of<LaunchError>([] { library_program("soft.py"); });
  EXPECT_NE(file.find("the kernel library has no file 'soft.py'"), std::string::npos) << file;
}

}  // namespace
}  // namespace tegula::kernels
