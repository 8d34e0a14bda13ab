// What tests of matrix products share: the devices, random operands, products in double.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <type_traits>
#include <vector>

#include "dsl/tegula.h"
#include "runtime/base/float16.h"
#include "tests/devices.h"

namespace tegula {

/// The GPU if there is one; else one emulator for each generation of tensor cores.
inline const Devices& tensor_core_devices() {
  static const Devices all = gpu_or_emulators({{.target = "sm_80"}, {.target = "sm_90a"}});
  return all;
}

/// Normally distributed, with a deviation of 1, of 40 for integers.
template <class T>
std::vector<T> random_values(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, std::is_integral_v<T> ? 40 : 1);
  std::vector<T> values(count);
  for (T& v : values) {
    const float x = normal(random);
    if constexpr (std::is_integral_v<T>)
      v = T(int(x));
    else
      v = T(x);
  }
  return values;
}

template <class T>
double number(T x) {
  if constexpr (std::is_integral_v<T> || std::is_same_v<T, double>)
    return double(x);
  else
    return double(float(x));
}

/// Converted once, for sums of products that take each of them many times.
template <class T>
std::vector<double> numbers(const std::vector<T>& values) {
  std::vector<double> converted;
  converted.reserve(values.size());
  for (T x : values) converted.push_back(number(x));
  return converted;
}

/// Frobenius norm of the difference over that of the exact result.
template <class T>
double relative_error(const std::vector<T>& found, const std::vector<double>& exact) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    difference += (number(found[i]) - exact[i]) * (number(found[i]) - exact[i]);
    norm += exact[i] * exact[i];
  }
  return std::sqrt(difference / norm);
}

}  // namespace tegula
