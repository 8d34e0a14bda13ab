// What the tutorials share: options, numbers to work on, errors to look at, times.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "dsl/tegula.h"

namespace tegula::tutorial {

/// An option of the command line that takes a number from 1 to `most`.
struct NumberOption {
  std::string name;  // "--rows"
  int* value;
  int most;
};

/// Reads pairs of an option and its value, `--plot FILE` too unless `plot` is null; false if the command line says
/// something else.
inline bool read_options(int argc, char** argv, const std::vector<NumberOption>& numbers, std::string* plot = nullptr) {
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) return false;
    if (plot && name == "--plot") {
      *plot = argv[i + 1];
      continue;
    }
    char* end = nullptr;
    const long number = std::strtol(argv[i + 1], &end, 10);
    auto option = std::find_if(numbers.begin(), numbers.end(), [&](const NumberOption& o) { return o.name == name; });
    if (option == numbers.end() || *end || number < 1 || number > option->most) return false;
    *option->value = int(number);
  }
  return true;
}

inline std::vector<float> random_numbers(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = normal(random);
  return numbers;
}

/// The largest error of `found`, relative to the largest exact value; NaN if one is there.
inline double largest_error(const std::vector<float>& found, const std::vector<double>& exact) {
  double most = 0, worst = 0;
  auto fits = [](double v) { return std::abs(v) <= std::numeric_limits<float>::max(); };
  for (double v : exact)
    if (fits(v)) most = std::max(most, std::abs(v));
  for (size_t i = 0; i < exact.size(); ++i) {
    if (!fits(exact[i]) && double(found[i]) == std::copysign(INFINITY, exact[i])) continue;  // beyond float32's range
    const double error = std::abs(found[i] - exact[i]);
    if (std::isnan(error)) return error;
    worst = std::max(worst, error);
  }
  return most > 0 ? worst / most : worst;
}

/// The median time of what `work` puts on the device, each run with a cold L2 cache.
inline double median_us(Device& device, const std::function<void()>& work) {
  return time_on_device(device, work, {.warmup = 3, .runs = 21, .flush_l2 = true}).median_ms * 1e3;
}

}  // namespace tegula::tutorial
