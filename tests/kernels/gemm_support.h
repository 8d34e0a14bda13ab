// Operands of products with their exact results, for tests of the kernel library.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace tegula::kernels {

inline Device& device() {
  static Device* const found = default_device();
  return *found;
}

/// A matrix on the host with its copy on the device; gaps between rows hold 77, which kernels must leave alone.
/// Elements are normally distributed, if nothing else is said.
template <class T>
struct TestMatrix {
  template <class Distribution = std::normal_distribution<float>>
  TestMatrix(int64_t rows, int64_t cols, unsigned seed, int64_t gap = 0, Distribution distribution = {})
      : rows(rows), cols(cols), stride(cols + gap), host(size_t(rows * stride), T(77.0f)) {
    std::mt19937 random(seed);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) host[size_t(r * stride + c)] = T(distribution(random));
    if (!host.empty()) buffer = Buffer(device(), host);
  }
  double operator()(int64_t r, int64_t c) const { return float(host[size_t(r * stride + c)]); }
  Matrix<T> view() const { return {buffer, rows, cols, stride}; }
  Vector<T> vector() const { return {buffer, rows * cols}; }

  int64_t rows, cols, stride;
  std::vector<T> host;
  Buffer buffer;
};

inline double activate(double y, Activation activation) {
  switch (activation) {
    case Activation::None:
      return y;
    case Activation::Relu:
      return std::max(y, 0.0);
    case Activation::LeakyRelu:
      return y < 0 ? 0.01 * y : y;
    case Activation::Silu:
      return y / (1 + std::exp(-y));
    case Activation::Gelu:
      return 0.5 * y * std::erfc(-y / std::sqrt(2.0));
    case Activation::GeluTanh:
    case Activation::GeluTanhFast:
      return 0.5 * y * (1 + std::tanh(std::sqrt(2 / M_PI) * (y + 0.044715 * y * y * y)));
  }
  return NAN;
}

/// Error in the Frobenius norm that rounding the result to T leaves, nearly reached.
template <class T>
inline constexpr double kRounding = std::is_same_v<T, float>     ? 1e-6
                                    : std::is_same_v<T, float16> ? 4e-4
                                                                 : 3e-3;

/// The relative error of C in the Frobenius norm, 0 where both are 0; gaps are expected untouched.
template <class Out>
double relative_error(const TestMatrix<Out>& c, const std::function<double(int64_t, int64_t)>& exact) {
  const std::vector<Out> found = c.buffer.template download<Out>();
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < c.rows; ++i)
    for (int64_t j = 0; j < c.stride; ++j) {
      const double value = float(found[size_t(i * c.stride + j)]);
      if (j >= c.cols) {
        EXPECT_EQ(value, 77) << "row " << i << ": written beyond column " << c.cols;
        continue;
      }
      const double e = exact(i, j);
      difference += (value - e) * (value - e), norm += e * e;
    }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

struct Shape {
  int64_t m, n, k;
  int64_t gap = 0;  ///< elements between the rows of each matrix
};

/// Operands of a product, some transposed, and the exact result.
template <class In>
struct Product {
  Product(Shape s, bool ta = false, bool tb = false)
      : a(ta ? s.k : s.m, ta ? s.m : s.k, 1, s.gap),
        b(tb ? s.n : s.k, tb ? s.k : s.n, 2, s.gap),
        bias(1, s.n, 3),
        exact(size_t(s.m * s.n)) {
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t l = 0; l < s.k; ++l)
        for (int64_t j = 0; j < s.n; ++j)
          exact[size_t(i * s.n + j)] += (ta ? a(l, i) : a(i, l)) * (tb ? b(j, l) : b(l, j));
  }
  double operator()(int64_t i, int64_t j) const { return exact[size_t(i * b_cols() + j)]; }
  int64_t b_cols() const { return bias.cols; }

  TestMatrix<In> a, b, bias;
  std::vector<double> exact;
};

}  // namespace tegula::kernels
