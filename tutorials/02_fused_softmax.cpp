// Tutorial 02: why fuse? Softmax as five kernels and as one.
//
// Softmax turns each row x of a matrix into exp(x - max(x)) / sum(exp(x - max(x))). Written step by step, as an array
// library would run it, every step is a kernel that reads its input from device memory and writes its output back.
// With M rows, N columns and elements of e bytes:
//
//   step               reads          writes
//   m = max(x)         MN e           M e
//   y = x - m          MN e + M e     MN e
//   y = exp(y)         MN e           MN e
//   s = sum(y)         MN e           M e
//   y = y / s          MN e + M e     MN e
//   together           8MN e + 4M e
//
// The arithmetic is a handful of operations an element; moving the elements is what takes the time. A kernel that keeps
// a row on the chip from the first step to the last reads the matrix once and writes it once: 2MN e, a quarter of the
// traffic, hence about a quarter of the time. This program predicts that, runs both, checks both, and measures.
//
//   02_fused_softmax [--rows M] [--cols N]
//
// The default is 4096 x 4096 on a GPU and 1024 x 1024 on the emulator.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "dsl/tegula.h"

using namespace tegula;

namespace {

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
    if (*end || number < 1 || number > 1 << 20) return false;
    *value = int(number);
  }
  return true;
}

// The largest relative error of `y` as the softmax of `x` along rows, against double precision.
double largest_error(const std::vector<float>& x, const std::vector<float>& y, Shape shape) {
  double worst = 0;
  std::vector<double> exact(shape.cols);
  for (int row = 0; row < shape.rows; ++row) {
    const float* in = x.data() + size_t(row) * shape.cols;
    const float* out = y.data() + size_t(row) * shape.cols;
    const double largest = *std::max_element(in, in + shape.cols);
    double sum = 0;
    for (int i = 0; i < shape.cols; ++i) sum += exact[i] = std::exp(in[i] - largest);
    for (int i = 0; i < shape.cols; ++i) {
      const double error = std::abs(out[i] * sum / exact[i] - 1);
      if (std::isnan(error)) return error;
      worst = std::max(worst, error);
    }
  }
  return worst;
}

struct Step {
  const char* name;
  double bytes;  // predicted traffic
  Kernel kernel;
  std::vector<Arg> args;
};

void print_row(const char* name, double bytes, double ms) {
  std::printf("%-24s %12.1f %12.4f %12.1f\n", name, bytes / 1e6, ms, bytes / ms / 1e6);
}

}  // namespace

int main(int argc, char** argv) try {
  const std::shared_ptr<Device> device = default_device();
  const bool gpu = !device->info().emulator;
  Shape shape = gpu ? Shape{4096, 4096} : Shape{1024, 1024};
  if (!read_arguments(argc, argv, shape)) {
    std::fprintf(stderr, "usage: %s [--rows M] [--cols N]   (1 to 1048576)\n", argv[0]);
    return 2;
  }
  std::printf("Softmax of a %d x %d fp32 matrix on %s\n\n", shape.rows, shape.cols, device->info().name.c_str());

  // The matrix and the result; between them, what the naive way writes and reads again: a matrix and a column.
  const size_t elements = size_t(shape.rows) * shape.cols;
  std::vector<float> host(elements);
  std::mt19937 random(2);
  std::normal_distribution<float> normal(0, 2);
  for (float& value : host) value = normal(random);
  Buffer x_buffer(*device, host);
  Buffer y_buffer(*device, elements * sizeof(float));
  Buffer between_buffer(*device, elements * sizeof(float));
  Buffer column_buffer(*device, shape.rows * sizeof(float));

  float* x = x_buffer.as<float>();  // addresses on the device
  float* y = y_buffer.as<float>();
  float* between = between_buffer.as<float>();
  float* column = column_buffer.as<float>();

  // All kernels have one program a row, and take the row as one tile. A tile's extent is a power of two.
  Program program = Program::load(TEGULA_TUTORIALS "/02_fused_softmax.py");
  int block = 1;
  while (block < shape.cols) block *= 2;
  const LaunchOptions options{.constexprs = {{"BLOCK", block}}, .num_warps = block >= 8192 ? 8 : 4};
  const Grid grid{unsigned(shape.rows)};
  const int cols = shape.cols;

  // The steps, with the bytes that each has to move.
  const double matrix = double(elements) * sizeof(float);
  const double row_results = double(shape.rows) * sizeof(float);
  Step naive[] = {
      {"row maximum", matrix + row_results, program.kernel("row_max"), {column, x, cols}},
      {"x - maximum", 2 * matrix + row_results, program.kernel("subtract"), {between, x, column, cols}},
      {"exp", 2 * matrix, program.kernel("exponential"), {y, between, cols}},
      {"row sum", matrix + row_results, program.kernel("row_sum"), {column, y, cols}},
      {"divide by sum", 2 * matrix + row_results, program.kernel("divide"), {between, y, column, cols}},
  };
  Step fused = {"fused softmax", 2 * matrix, program.kernel("softmax"), {y, x, cols}};
  auto launch = [&](Step& step) { step.kernel.launch(*device, grid, options, std::span<const Arg>(step.args)); };

  // First the results. An element may differ from the exact one by the roundings of exp and of the sums: 1e-5 is far
  // above those and far below any mistake.
  auto check = [&](const char* name, const Buffer& result) {
    const double error = largest_error(host, result.download<float>(), shape);
    std::printf("%-24s largest relative error %.2g\n", name, error);
    return error < 1e-5;
  };
  for (Step& step : naive) launch(step);
  bool right = check("naive", between_buffer);
  launch(fused);
  right = check("fused", y_buffer) && right;
  if (!right) {
    std::printf("WRONG: an error above 1e-5\n");
    return 1;
  }

  // Then the times: medians, each run with a cold L2 cache, since in a real program the matrix comes from elsewhere.
  const TimingOptions timing{.warmup = gpu ? 3 : 0, .runs = gpu ? 21 : 1, .flush_l2 = gpu};
  auto median_ms = [&](Step& step) {
    auto work = [&] { launch(step); };
    return time_on_device(*device, work, timing).median_ms;
  };
  std::printf("\n%-24s %12s %12s %12s\n", "kernel", "MB moved", "time (ms)", "GB/s");
  double naive_bytes = 0, naive_ms = 0;
  for (Step& step : naive) {
    const double ms = median_ms(step);
    print_row(step.name, step.bytes, ms);
    naive_bytes += step.bytes;
    naive_ms += ms;
  }
  print_row("naive, five kernels", naive_bytes, naive_ms);
  const double fused_ms = median_ms(fused);
  print_row(fused.name, fused.bytes, fused_ms);
  std::printf("\nThe traffic says that fusing is %.2f times as fast", naive_bytes / fused.bytes);
  if (gpu) {
    std::printf("; measured: %.2f.\n", naive_ms / fused_ms);
  } else {
    std::printf(" on a GPU.\n(The emulator checks results; its times say nothing about a GPU.)\n");
  }
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
