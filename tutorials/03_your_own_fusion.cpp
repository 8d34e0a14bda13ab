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
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "dsl/tegula.h"
#include "tutorials/tutorial.h"

using namespace tegula;

namespace {

constexpr float kEps = 1e-6f;
constexpr float kScale = 3.0f;

struct Shape {
  int rows, cols;
};

// A kernel of a chain, and how many matrices (M N elements), columns (M elements) and rows (N elements) it moves, which
// is the whole model. What it reads of a row is small and comes from a cache for all programs but the first.
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

// The inputs; the result; and what the separate kernels write and read again: two matrices and a column.
class Matrices {
 public:
  Matrices(Device& device, Shape shape)
      : device_(device),
        shape_(shape),
        host_x_(tutorial::random_numbers(elements(), 1)),
        host_residual_(tutorial::random_numbers(elements(), 2)),
        host_vector_(tutorial::random_numbers(size_t(shape.cols), 3)),
        x_(device, host_x_),
        residual_(device, host_residual_),
        vector_(device, host_vector_),
        out_(device, elements() * sizeof(float)),
        a_(device, elements() * sizeof(float)),
        b_(device, elements() * sizeof(float)),
        column_(device, size_t(shape.rows) * sizeof(float)) {}

  std::vector<Chain> chains() const { return {norm(), normalised_exp(), scaled_softmax()}; }

  // A step launched: its kernel is tuned the first time, as the @triton.autotune above it says.
  std::function<void()> launcher(const Step& step) const {
    return [this, args = step.args, kernel = program_.kernel(step.kernel)] {
      kernel.launch(device_, Grid{unsigned(shape_.rows)}, {}, std::span<const Arg>(args));
    };
  }
  double bytes(const Step& step) const {
    return (double(step.matrices) * double(elements()) + double(step.columns) * shape_.rows +
            double(step.vectors) * shape_.cols) *
           sizeof(float);
  }

  void clear_result() { out_.fill(0); }
  // The largest error of the result, relative to the exact value or to 1e-2 of the row's largest, where terms cancel.
  double largest_error(const Chain& chain) const {
    const std::vector<float> found = out_.download<float>();
    double worst = 0;
    for (int row = 0; row < shape_.rows; ++row) {
      const size_t start = size_t(row) * shape_.cols;
      const std::vector<double> exact = chain.exact(&host_x_[start], &host_residual_[start]);
      double largest = 0;
      for (double v : exact) largest = std::max(largest, std::abs(v));
      for (int c = 0; c < shape_.cols; ++c) {
        const double error = std::abs(found[start + c] - exact[c]) / std::max(std::abs(exact[c]), 1e-2 * largest);
        if (std::isnan(error)) return error;
        worst = std::max(worst, error);
      }
    }
    return worst;
  }

 private:
  size_t elements() const { return size_t(shape_.rows) * shape_.cols; }
  static Arg on_device(const Buffer& buffer) { return buffer.as<float>(); }

  Chain norm() const {
    const Arg x = on_device(x_), residual = on_device(residual_), vector = on_device(vector_), out = on_device(out_),
              a = on_device(a_), b = on_device(b_);
    const int cols = shape_.cols;
    return {"silu(rms_norm(x + r) * w)",
            {{"add", 3, 0, 0, {a, x, residual, cols}},
             {"rms_norm", 2, 0, 1, {b, a, vector, cols, kEps}},
             {"silu", 2, 0, 0, {out, b, cols}}},
            {"residual_rms_norm_silu", 3, 0, 1, {out, x, residual, vector, cols, kEps}},
            [this, cols](const float* row, const float* residual_row) {
              std::vector<double> y(cols);
              double squares = 0;
              for (int c = 0; c < cols; ++c) y[c] = double(row[c]) + residual_row[c], squares += y[c] * y[c];
              for (int c = 0; c < cols; ++c) {
                const double v = y[c] / std::sqrt(squares / cols + kEps) * host_vector_[c];
                y[c] = v / (1 + std::exp(-v));
              }
              return y;
            }};
  }

  Chain normalised_exp() const {
    const Arg x = on_device(x_), out = on_device(out_), a = on_device(a_), b = on_device(b_),
              column = on_device(column_);
    const int cols = shape_.cols;
    return {"(exp(x) + 1) / row sum",
            {{"exponential", 2, 0, 0, {a, x, cols}},
             {"add_one", 2, 0, 0, {b, a, cols}},
             {"row_sum", 1, 1, 0, {column, b, cols}},
             {"divide", 2, 1, 0, {out, b, column, cols}}},
            {"exp_normalize", 2, 0, 0, {out, x, cols}},
            [cols](const float* row, const float*) { return exact_shares(row, cols, 0, 1); }};
  }

  Chain scaled_softmax() const {
    const Arg x = on_device(x_), vector = on_device(vector_), out = on_device(out_), a = on_device(a_),
              b = on_device(b_), column = on_device(column_);
    const int cols = shape_.cols;
    return {"softmax(x) * scale + bias",
            {{"row_max", 1, 1, 0, {column, x, cols}},
             {"subtract", 2, 1, 0, {a, x, column, cols}},
             {"exponential", 2, 0, 0, {b, a, cols}},
             {"row_sum", 1, 1, 0, {column, b, cols}},
             {"divide", 2, 1, 0, {a, b, column, cols}},
             {"multiply", 2, 0, 0, {b, a, kScale, cols}},
             {"add_vector", 2, 0, 1, {out, b, vector, cols}}},
            {"softmax_scale_bias", 2, 0, 1, {out, x, kScale, vector, cols}},
            [this, cols](const float* row, const float*) {
              std::vector<double> y = exact_shares(row, cols, *std::max_element(row, row + cols), 0);
              for (int c = 0; c < cols; ++c) y[c] = y[c] * kScale + host_vector_[c];
              return y;
            }};
  }

  // Of e = exp(x - top) + more each element's share of the sum.
  static std::vector<double> exact_shares(const float* row, int cols, double top, double more) {
    std::vector<double> y(row, row + cols);
    double sum = 0;
    for (double& v : y) sum += v = std::exp(v - top) + more;
    for (double& v : y) v /= sum;
    return y;
  }

  Device& device_;
  Shape shape_;
  std::vector<float> host_x_, host_residual_, host_vector_;
  Buffer x_, residual_, vector_, out_, a_, b_, column_;
  Program program_ = Program::load(TEGULA_TUTORIALS "/03_your_own_fusion.py");
};

void print_heading(bool gpu) {
  std::printf("%-28s %8s %10s %10s %10s", "chain", "kernels", "MB apart", "MB fused", "predicted");
  if (gpu) std::printf(" %10s %10s %9s %10s %10s", "ms apart", "ms fused", "measured", "in a row", "GB/s fused");
  std::printf(" %10s\n", "error");
}

// One row of the table; whether the results are right. Each is wrong by a few roundings of fp32, 1e-5 being far above
// those and far below any mistake. Times are medians, each run with a cold L2 cache, since in a real program the matrix
// comes from elsewhere. A separate kernel may find what the one before it wrote still in the cache, if it fits: so the
// chain is timed as a whole, too.
bool compare(Device& device, Matrices& matrices, const Chain& chain) {
  std::vector<std::function<void()>> apart;
  double bytes_apart = 0;
  for (const Step& step : chain.steps) {
    apart.push_back(matrices.launcher(step));
    bytes_apart += matrices.bytes(step);
  }
  const std::function<void()> fused = matrices.launcher(chain.fused);
  auto all_apart = [&] {
    for (const auto& launch : apart) launch();
  };

  all_apart();
  const double error_apart = matrices.largest_error(chain);
  matrices.clear_result();
  fused();
  const double error_fused = matrices.largest_error(chain);

  const double bytes_fused = matrices.bytes(chain.fused);
  std::printf("%-28s %3zu -> 1 %10.1f %10.1f %9.2fx", chain.name, apart.size(), bytes_apart / 1e6, bytes_fused / 1e6,
              bytes_apart / bytes_fused);
  if (!device.info().emulator) {
    double us_apart = 0;
    for (const auto& launch : apart) us_apart += tutorial::median_us(device, launch);
    const double us_fused = tutorial::median_us(device, fused), us_chain = tutorial::median_us(device, all_apart);
    std::printf(" %10.4f %10.4f %8.2fx %9.2fx %10.0f", us_apart / 1e3, us_fused / 1e3, us_apart / us_fused,
                us_chain / us_fused, bytes_fused / us_fused / 1e3);
  }
  std::printf(" %10.2g\n", std::max(error_apart, error_fused));
  return error_apart < 1e-5 && error_fused < 1e-5;
}

}  // namespace

int main(int argc, char** argv) try {
  Device* const device = default_device();
  const bool gpu = !device->info().emulator;
  Shape shape = gpu ? Shape{4096, 4096} : Shape{64, 512};
  if (!tutorial::read_options(argc, argv, {{"--rows", &shape.rows, 1 << 20}, {"--cols", &shape.cols, 32768}})) {
    std::fprintf(stderr, "usage: %s [--rows M] [--cols N]   (1 to 1048576, 1 to 32768)\n", argv[0]);
    return 2;
  }
  std::printf("Three chains on a %d x %d fp32 matrix on %s\n\n", shape.rows, shape.cols, device->info().name.c_str());

  Matrices matrices(*device, shape);
  print_heading(gpu);
  bool right = true;
  for (const Chain& chain : matrices.chains()) right = compare(*device, matrices, chain) && right;
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
