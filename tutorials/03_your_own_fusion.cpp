// Tutorial 03: your own fusion.
//
// When is it worth to write one kernel for a chain of operations? Count bytes first. An operation along the rows of a
// matrix with M rows, N columns and elements of e bytes does a few arithmetic operations for each element that it
// moves: softmax about 0.6 for a byte. A GPU can do some 14 fp32 operations in the time in which it moves one byte (67
// TFLOP/s against 4.8 TB/s on an H200). So such a kernel takes as long as its bytes do, and a chain of them as long as
// all their bytes together. One kernel for the chain reads the inputs once and writes the result once:
//
//   predicted speed-up = bytes of the separate kernels / bytes of the fused one
//
// The questions to ask, in this order:
//
//   1. Are all steps bound by memory?  Two large matrix products are not: fused they only crowd each other.
//   2. Does what must stay on the chip fit?  Here a row. Keep below 0.6 of what there is: at the limit the compiler
//      spills, fewer programs run at a time, and the fused kernel loses.
//   3. Do the steps work along the same axis?  A reduction over rows and then one over columns has to see the whole
//      matrix in between.
//   4. Is it worth it?  From a predicted 1.5 on.
//   5. Then measure. Far below the prediction means: not bound by memory, spilled, or waiting for one reduction after
//      another.
//
// This program does so for three chains: RMSNorm of a sum through SiLU, as it stands in a transformer; exp(x) + 1
// divided by its row sum; softmax(x) * scale + bias. The kernels stand in 03_your_own_fusion.py.
//
//   03_your_own_fusion [--rows M] [--cols N]
//
// The default is 4096 x 4096 on a GPU and 64 x 512 on the emulator. For kernels of this kind ready to use see
// kernels/kernels.h.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "dsl/tegula.h"

using namespace tegula;

namespace {

constexpr float kEps = 1e-6f;
constexpr float kScale = 3.0f;

struct Shape {
  int rows, cols;
};

// Reads --rows and --cols into `shape`; false if the command line says something else.
bool read_arguments(int argc, char** argv, Shape& shape) {
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    int* value = name == "--rows" ? &shape.rows : name == "--cols" ? &shape.cols : nullptr;
    if (!value || i + 1 == argc) return false;
    char* end = nullptr;
    const long number = std::strtol(argv[i + 1], &end, 10);
    if (*end || number < 1 || number > (name == "--cols" ? 32768 : 1 << 20)) return false;
    *value = int(number);
  }
  return true;
}

// A kernel of a chain, and how many matrices (M N elements), columns (M elements) and rows (N elements) it moves. What
// it reads of a row is small and comes from a cache for all programs but the first.
struct Step {
  const char* kernel;
  int matrices, columns, vectors;
  std::vector<Arg> args;
};

struct Chain {
  const char* name;
  std::vector<Step> steps;
  Step fused;
  // The exact row, from the row of x and of the residual.
  std::function<std::vector<double>(const float* x, const float* residual)> exact;
};

std::vector<float> random_numbers(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = normal(random);
  return numbers;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::shared_ptr<Device> device = default_device();
  const bool gpu = !device->info().emulator;
  Shape shape = gpu ? Shape{4096, 4096} : Shape{64, 512};
  if (!read_arguments(argc, argv, shape)) {
    std::fprintf(stderr, "usage: %s [--rows M] [--cols N]   (1 to 1048576, 1 to 32768)\n", argv[0]);
    return 2;
  }
  const auto [rows, cols] = shape;
  std::printf("Three chains on a %d x %d fp32 matrix on %s\n\n", rows, cols, device->info().name.c_str());

  // The inputs; the result; and what the separate kernels write and read again: two matrices and a column.
  const size_t elements = size_t(rows) * cols;
  const std::vector<float> host_x = random_numbers(elements, 1), host_residual = random_numbers(elements, 2),
                           host_vector = random_numbers(cols, 3);
  const Buffer x_buffer(*device, host_x), residual_buffer(*device, host_residual), vector_buffer(*device, host_vector);
  Buffer out_buffer(*device, elements * sizeof(float));
  const Buffer first_buffer(*device, elements * sizeof(float)), second_buffer(*device, elements * sizeof(float)),
      column_buffer(*device, rows * sizeof(float));
  float *x = x_buffer.as<float>(), *residual = residual_buffer.as<float>(), *vector = vector_buffer.as<float>();
  float *out = out_buffer.as<float>(), *a = first_buffer.as<float>(), *b = second_buffer.as<float>(),
        *column = column_buffer.as<float>();

  auto exact_softmax = [&](const float* row, bool plus_one) {
    std::vector<double> y(row, row + cols);
    const double top = plus_one ? 0 : *std::max_element(row, row + cols);
    double sum = 0;
    for (double& v : y) sum += v = std::exp(v - top) + plus_one;
    for (double& v : y) v /= sum;
    return y;
  };

  // Each step with the matrices, columns and rows that it reads or writes, which is the whole model.
  const Chain chains[] = {
      {"silu(rms_norm(x + r) * w)",
       {{"add", 3, 0, 0, {a, x, residual, cols}},
        {"rms_norm", 2, 0, 1, {b, a, vector, cols, kEps}},
        {"silu", 2, 0, 0, {out, b, cols}}},
       {"residual_rms_norm_silu", 3, 0, 1, {out, x, residual, vector, cols, kEps}},
       [&](const float* row, const float* residual_row) {
         std::vector<double> y(cols);
         double squares = 0;
         for (int c = 0; c < cols; ++c) y[c] = double(row[c]) + residual_row[c], squares += y[c] * y[c];
         for (int c = 0; c < cols; ++c) {
           const double v = y[c] / std::sqrt(squares / cols + kEps) * host_vector[c];
           y[c] = v / (1 + std::exp(-v));
         }
         return y;
       }},
      {"(exp(x) + 1) / row sum",
       {{"exponential", 2, 0, 0, {a, x, cols}},
        {"add_one", 2, 0, 0, {b, a, cols}},
        {"row_sum", 1, 1, 0, {column, b, cols}},
        {"divide", 2, 1, 0, {out, b, column, cols}}},
       {"exp_normalize", 2, 0, 0, {out, x, cols}},
       [&](const float* row, const float*) { return exact_softmax(row, true); }},
      {"softmax(x) * scale + bias",
       {{"row_max", 1, 1, 0, {column, x, cols}},
        {"subtract", 2, 1, 0, {a, x, column, cols}},
        {"exponential", 2, 0, 0, {b, a, cols}},
        {"row_sum", 1, 1, 0, {column, b, cols}},
        {"divide", 2, 1, 0, {a, b, column, cols}},
        {"multiply", 2, 0, 0, {b, a, kScale, cols}},
        {"add_vector", 2, 0, 1, {out, b, vector, cols}}},
       {"softmax_scale_bias", 2, 0, 1, {out, x, kScale, vector, cols}},
       [&](const float* row, const float*) {
         std::vector<double> y = exact_softmax(row, false);
         for (int c = 0; c < cols; ++c) y[c] = y[c] * kScale + host_vector[c];
         return y;
       }},
  };

  // A step launched: its kernel is tuned the first time, as the @triton.autotune above it says.
  Program program = Program::load(TEGULA_TUTORIALS "/03_your_own_fusion.py");
  const Grid grid{unsigned(rows)};
  auto launcher = [&](const Step& step) {
    return [&, kernel = program.kernel(step.kernel)] {
      kernel.launch(*device, grid, {}, std::span<const Arg>(step.args));
    };
  };
  auto bytes = [&](const Step& step) {
    return (double(step.matrices) * elements + double(step.columns) * rows + double(step.vectors) * cols) *
           sizeof(float);
  };

  // The largest error of `out`, relative to the exact value or to 1e-2 of the row's largest, where terms cancel.
  auto largest_error = [&](const Chain& chain) {
    const std::vector<float> found = out_buffer.download<float>();
    double worst = 0;
    for (int row = 0; row < rows; ++row) {
      const size_t start = size_t(row) * cols;
      const std::vector<double> exact = chain.exact(&host_x[start], &host_residual[start]);
      double largest = 0;
      for (double v : exact) largest = std::max(largest, std::abs(v));
      for (int c = 0; c < cols; ++c) {
        const double error = std::abs(found[start + c] - exact[c]) / std::max(std::abs(exact[c]), 1e-2 * largest);
        if (std::isnan(error)) return error;
        worst = std::max(worst, error);
      }
    }
    return worst;
  };

  // Times are medians, each run with a cold L2 cache, since in a real program the matrix comes from elsewhere. A
  // separate kernel may find what the one before it wrote still in the cache, if it fits: so the chain is timed as a
  // whole, too.
  const TimingOptions timing{.warmup = 3, .runs = 21, .flush_l2 = true};
  auto median_ms = [&](const std::function<void()>& work) { return time_on_device(*device, work, timing).median_ms; };

  std::printf("%-28s %8s %10s %10s %10s", "chain", "kernels", "MB apart", "MB fused", "predicted");
  if (gpu) std::printf(" %10s %10s %9s %10s %10s", "ms apart", "ms fused", "measured", "in a row", "GB/s fused");
  std::printf(" %10s\n", "error");
  bool right = true;
  for (const Chain& chain : chains) {
    std::vector<std::function<void()>> apart;
    double bytes_apart = 0;
    for (const Step& step : chain.steps) {
      apart.push_back(launcher(step));
      bytes_apart += bytes(step);
    }
    const std::function<void()> fused = launcher(chain.fused);
    auto all_apart = [&] {
      for (const auto& launch : apart) launch();
    };

    // First the results: a few roundings of fp32, 1e-5 being far above those and far below any mistake.
    all_apart();
    const double error_apart = largest_error(chain);
    out_buffer.fill(0);
    fused();
    const double error_fused = largest_error(chain);
    right = right && error_apart < 1e-5 && error_fused < 1e-5;

    std::printf("%-28s %3zu -> 1 %10.1f %10.1f %9.2fx", chain.name, apart.size(), bytes_apart / 1e6,
                bytes(chain.fused) / 1e6, bytes_apart / bytes(chain.fused));
    if (gpu) {
      double ms_apart = 0;
      for (const auto& launch : apart) ms_apart += median_ms(launch);
      const double ms_fused = median_ms(fused), ms_chain = median_ms(all_apart);
      std::printf(" %10.4f %10.4f %8.2fx %9.2fx %10.0f", ms_apart, ms_fused, ms_apart / ms_fused, ms_chain / ms_fused,
                  bytes(chain.fused) / ms_fused / 1e6);
    }
    std::printf(" %10.2g\n", std::max(error_apart, error_fused));
  }
  if (!right) {
    std::printf("WRONG: an error above 1e-5\n");
    return 1;
  }
  if (!gpu) std::printf("\n(The emulator checks results; what fusing gains is measured on a GPU.)\n");
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
