// Tutorial 02: why fuse? Softmax as five kernels and as one, and the one tuned.
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
// The fused kernel is written twice, in the kernel language (02_fused_softmax.py) and in C++ below; both say the same,
// and run the same. How large a tile is (ROWS rows of BLOCK_SIZE elements) and how many warps share it is for the tuner
// to say: it times the candidates on the GPU at hand, for each row length anew, and remembers the best one in a file.
//
//   02_fused_softmax [--rows M] [--cols N] [--plot FILE]
//
// The default is 4096 x 4096 on a GPU and 64 x 512 on the emulator. On a GPU, bandwidth over row lengths is printed and
// drawn into fused_softmax.svg, or FILE.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "dsl/tegula.h"
#include "tools/svg_plot.h"
#include "tutorials/tutorial.h"

using namespace tegula;

namespace {

// ---- The fused kernel in C++. The function runs once for each choice of ROWS, BLOCK_SIZE and WHOLE, and records what
// it does to its Tiles; `if` on a Const decides then, `for` over a range() becomes a loop of the kernel.

Kernel softmax_in_cpp() {
  auto softmax = kernel("softmax", [](Ptr<"out"> out, Ptr<"x"> x, Int<"rows"> rows, Int<"cols"> cols,
                                      Const<"ROWS"> ROWS, Const<"BLOCK_SIZE"> BLOCK_SIZE, Const<"WHOLE", bool> WHOLE) {
    if (WHOLE && ROWS == 1 && BLOCK_SIZE >= 8192) {
      // A long row; softmax_of_long_row of 02_fused_softmax.py says how.
      Tile row = program_id(0) * cols;
      Tile col = arange(0, BLOCK_SIZE / 4)[{all, none}] * 4 + arange(0, 4)[{none, all}];
      Tile values = load(x + row + col, col < cols, -inf);
      Tile top = maximum(max(values, 1), -1e38);
      Tile numerator = exp(values - top[{all, none}]);
      Tile scale = exp(top - max(top, 0));
      Tile factor = scale * (1.0 / sum(sum(numerator, 1) * scale, 0));
      store(out + row + col, numerator * factor[{all, none}], col < cols);
      return;
    }
    if (WHOLE) {
      Tile row = program_id(0) * ROWS + arange(0, ROWS)[{all, none}];
      Tile col = arange(0, BLOCK_SIZE)[{none, all}];
      Tile inside = (row < rows) & (col < cols);
      Tile values = load(x + row * cols + col, inside, -inf);
      Tile numerator = exp(values - max(values, 1)[{all, none}]);
      store(out + row * cols + col, numerator / sum(numerator, 1)[{all, none}], inside);
      return;
    }
    // In pieces; softmax_in_pieces of 02_fused_softmax.py says how.
    Tile row = program_id(0) * cols;
    Tile offsets = arange(0, BLOCK_SIZE);
    Tile top = full(list({BLOCK_SIZE}), -1e38, tl::float32);
    Tile total = zeros(list({BLOCK_SIZE}), tl::float32);
    for (Tile start : range(0, cols, BLOCK_SIZE, {.num_stages = 3})) {
      Tile values = load(x + row + start + offsets, start + offsets < cols, -inf);
      Tile higher = maximum(top, values);
      total = total * exp(top - higher) + exp(values - higher);
      top = higher;
    }
    Tile row_top = max(top, 0);
    Tile factor = 1.0 / sum(total * exp(top - row_top), 0);
    for (Tile start : range(0, cols, BLOCK_SIZE, {.num_stages = 3})) {
      Tile mask = start + offsets < cols;
      Tile values = load(x + row + start + offsets, mask, -inf);
      store(out + row + start + offsets, exp(values - row_top) * factor, mask);
    }
  });

  // What @triton.autotune and @triton.heuristics say in the text. Candidates are all combinations of these values that
  // the pruning function leaves.
  Autotune tuning;
  tuning.configs = search_space({powers_of_two("BLOCK_SIZE", 256, 32768),
                                 {"ROWS", {int64_t(1), int64_t(4), int64_t(16)}},
                                 powers_of_two("num_warps", 1, 32)});
  tuning.key = {"cols"};
  tuning.prune = [](const std::vector<Config>& configs, const LaunchArgs& args) {
    const int64_t cols = args.integer("cols");
    int64_t block = 256;
    while (block < cols) block *= 2;
    std::vector<Config> kept;
    for (const Config& config : configs) {
      const int64_t size = config["BLOCK_SIZE"], rows = config["ROWS"], threads = 32 * *config.num_warps;
      const bool fits = size <= block && rows * size <= 64 * threads && (rows * size >= 4 * threads || threads == 32);
      const bool whole = size >= cols && (rows == 1 || rows * size <= 8192);
      if (fits && (whole || (rows == 1 && size >= 4096 && size <= 8192))) kept.push_back(config);
    }
    return kept;
  };
  return softmax.autotune(std::move(tuning)).heuristics({{"WHOLE", [](const LaunchArgs& args) {
                                                            return args.integer("BLOCK_SIZE") >= args.integer("cols");
                                                          }}});
}

struct Options {
  int rows, cols;
  std::string plot;
};

// The largest relative error of `y` as the softmax of `x` along rows, against double precision.
double largest_error(const std::vector<float>& x, const std::vector<float>& y, int rows, int cols) {
  double worst = 0;
  std::vector<double> exact(cols);
  for (int row = 0; row < rows; ++row) {
    const float* in = x.data() + size_t(row) * cols;
    const float* out = y.data() + size_t(row) * cols;
    const double largest = *std::max_element(in, in + cols);
    double sum = 0;
    for (int i = 0; i < cols; ++i) sum += exact[i] = std::exp(in[i] - largest);
    for (int i = 0; i < cols; ++i) {
      const double error = std::abs(out[i] * sum / exact[i] - 1);
      if (std::isnan(error)) return error;
      worst = std::max(worst, error);
    }
  }
  return worst;
}

// One kernel of the naive way.
struct Step {
  const char* name;
  double bytes;  // predicted traffic
  std::function<void()> launch;
};

double bytes_of(const std::vector<Step>& steps) {
  double bytes = 0;
  for (const Step& step : steps) bytes += step.bytes;
  return bytes;
}

// The matrix, the result, and between them what the naive way writes and reads again: a matrix and a column. The same
// elements are taken as rows of any length.
class Softmax {
 public:
  Softmax(Device& device, int rows, int cols)
      : device_(device),
        elements_(size_t(rows) * cols),
        host_(tutorial::random_numbers(elements_, 2)),
        x_buffer_(device, host_),
        y_buffer_(device, elements_ * sizeof(float)),
        between_buffer_(device, elements_ * sizeof(float)),
        column_buffer_(device, std::max(size_t(rows), elements_ / 256) * sizeof(float)) {}

  size_t elements() const { return elements_; }
  double fused_bytes() const { return 2.0 * double(elements_) * sizeof(float); }

  // The five kernels have one program a row, take it as one tile, whose extent is a power of two, and are told so.
  std::vector<Step> naive(int rows, int cols) const {
    float *x = x_buffer_.as<float>(), *y = y_buffer_.as<float>();  // addresses on the device
    float *between = between_buffer_.as<float>(), *column = column_buffer_.as<float>();
    int block = 1;
    while (block < cols) block *= 2;
    const LaunchOptions how{.constexprs = {{"BLOCK", block}}, .num_warps = std::clamp(block / 1024, 4, 32)};
    auto step = [&](const char* name, double bytes, const char* kernel_name, std::vector<Arg> args) {
      return Step{name, bytes, [=, this, kernel = program_.kernel(kernel_name)] {
                    kernel.launch(device_, Grid{unsigned(rows)}, how, std::span<const Arg>(args));
                  }};
    };
    const double matrix = double(rows) * cols * sizeof(float), row_results = double(rows) * sizeof(float);
    return {
        step("row maximum", matrix + row_results, "row_max", {column, x, cols}),
        step("x - maximum", 2 * matrix + row_results, "subtract", {between, x, column, cols}),
        step("exp", 2 * matrix, "exponential", {y, between, cols}),
        step("row sum", matrix + row_results, "row_sum", {column, y, cols}),
        step("divide by sum", 2 * matrix + row_results, "divide", {between, y, column, cols}),
    };
  }

  // The fused kernels leave their constexprs to the tuner, and have a program for each ROWS rows.
  std::function<void()> fused(const Kernel& kernel, int rows, int cols) const {
    return [=, this] {
      kernel.launch(device_, programs(rows), {}, y_buffer_.as<float>(), x_buffer_.as<float>(), rows, cols);
    };
  }
  std::function<void()> fused_text(int rows, int cols) const { return fused(text_, rows, cols); }
  std::function<void()> fused_cpp(int rows, int cols) const { return fused(cpp_, rows, cols); }

  // What the tuner chose for the text.
  std::string chosen(int rows, int cols) const {
    const std::vector<Arg> args{y_buffer_.as<float>(), x_buffer_.as<float>(), rows, cols};
    const auto grid = programs(rows);
    return text_.ready(device_, tegula::detail::GridRef(grid), {}, args).config->to_string();
  }

  std::function<void()> copy() const {
    return [this] { device_.copy_on_device(y_buffer_.address(), x_buffer_.address(), elements_ * sizeof(float)); };
  }

  // An element may differ from the exact one by the roundings of exp and of the sums: 1e-5 is far above those and far
  // below any mistake.
  double naive_error(int rows, int cols) { return error_of(between_buffer_, rows, cols); }
  double fused_error(int rows, int cols) { return error_of(y_buffer_, rows, cols); }
  void clear_result() { y_buffer_.fill(0); }
  bool right() const { return right_; }

 private:
  static std::function<Grid(const Config&)> programs(int rows) {
    return [rows](const Config& config) {
      const int64_t tile_rows = config["ROWS"];
      return Grid{unsigned((rows + tile_rows - 1) / tile_rows)};
    };
  }
  double error_of(const Buffer& result, int rows, int cols) {
    const double error = largest_error(host_, result.download<float>(), rows, cols);
    right_ = right_ && error < 1e-5;
    return error;
  }

  Device& device_;
  size_t elements_;
  std::vector<float> host_;
  Buffer x_buffer_, y_buffer_, between_buffer_, column_buffer_;
  Program program_ = Program::load(TEGULA_TUTORIALS "/02_fused_softmax.py");
  Kernel text_ = program_.kernel("softmax"), cpp_ = softmax_in_cpp();
  bool right_ = true;
};

// Medians, each run with a cold L2 cache, since in a real program the matrix comes from elsewhere.
double median_ms(Device& device, const std::function<void()>& work) { return tutorial::median_us(device, work) / 1e3; }

// First the results.
void check(Softmax& softmax, int rows, int cols) {
  auto print = [](const char* name, double error) { std::printf("%-24s largest relative error %.2g\n", name, error); };
  for (const Step& step : softmax.naive(rows, cols)) step.launch();
  print("naive", softmax.naive_error(rows, cols));
  softmax.clear_result();
  softmax.fused_text(rows, cols)();
  print("fused, text", softmax.fused_error(rows, cols));
  softmax.clear_result();
  softmax.fused_cpp(rows, cols)();
  print("fused, C++", softmax.fused_error(rows, cols));
}

// Then the prediction, and on a GPU the times beside it.
void predict(const Softmax& softmax, int rows, int cols) {
  const double apart = bytes_of(softmax.naive(rows, cols)), fused = softmax.fused_bytes();
  std::printf("\nThe traffic, %.2f MB against %.2f MB, says that fusing is %.2f times as fast on a GPU.\n", apart / 1e6,
              fused / 1e6, apart / fused);
}

void measure(Device& device, const Softmax& softmax, int rows, int cols) {
  auto print_row = [](const char* name, double bytes, double ms) {
    std::printf("%-24s %12.1f %12.4f %12.1f\n", name, bytes / 1e6, ms, bytes / ms / 1e6);
  };
  std::printf("\n%-24s %12s %12s %12s\n", "kernel", "MB moved", "time (ms)", "GB/s");
  const std::vector<Step> naive = softmax.naive(rows, cols);
  double naive_ms = 0;
  for (const Step& step : naive) {
    const double ms = median_ms(device, step.launch);
    print_row(step.name, step.bytes, ms);
    naive_ms += ms;
  }
  const double naive_bytes = bytes_of(naive), fused_bytes = softmax.fused_bytes();
  print_row("naive, five kernels", naive_bytes, naive_ms);
  const double text_ms = median_ms(device, softmax.fused_text(rows, cols));
  print_row("fused softmax, text", fused_bytes, text_ms);
  print_row("fused softmax, C++", fused_bytes, median_ms(device, softmax.fused_cpp(rows, cols)));
  std::printf("\nThe traffic says that fusing is %.2f times as fast; measured: %.2f.\n", naive_bytes / fused_bytes,
              naive_ms / text_ms);
}

// The same bytes in rows of other lengths.
constexpr int kLengths[] = {256, 781, 1024, 2048, 4096, 8192, 12672, 16384, 32768};

void check_lengths(Softmax& softmax) {
  std::printf("\nErrors over the row length\n%8s %8s %12s %12s  %s\n", "rows", "N", "text", "C++",
              "the model's choice for the text");
  for (int n : kLengths) {
    const int m = int(softmax.elements() / size_t(n));
    if (m < 1) continue;
    softmax.fused_text(m, n)();
    const double text_error = softmax.fused_error(m, n);
    softmax.fused_cpp(m, n)();
    std::printf("%8d %8d %12.2g %12.2g  %s\n", m, n, text_error, softmax.fused_error(m, n),
                softmax.chosen(m, n).c_str());
  }
}

// Beside a copy of the matrix, which no kernel that reads and writes it can beat. GB/s counts 2MN e for all of them, so
// that the heights in the plot are times upside down.
std::vector<PlotSeries> measure_lengths(Device& device, const Softmax& softmax) {
  const double copy_rate = softmax.fused_bytes() / median_ms(device, softmax.copy()) / 1e6;
  PlotSeries text{"fused, text", {}}, cpp{"fused, C++", {}}, naive{"naive", {}},
      predicted{"naive, predicted", {}, true}, copy{"copy", {}, true};
  std::printf("\nGB/s over the row length (copy: %.0f GB/s)\n%8s %8s %8s %8s %8s %10s  %s\n", copy_rate, "rows", "N",
              "text", "C++", "naive", "predicted", "chosen for the text");
  for (int n : kLengths) {
    const int m = int(softmax.elements() / size_t(n));
    if (m < 1) continue;
    const double bytes = 2.0 * m * n * sizeof(float);
    auto rate = [&](double ms) { return bytes / ms / 1e6; };
    const std::vector<Step> steps = softmax.naive(m, n);
    double steps_ms = 0;
    for (const Step& step : steps) steps_ms += median_ms(device, step.launch);
    text.points.emplace_back(n, rate(median_ms(device, softmax.fused_text(m, n))));
    cpp.points.emplace_back(n, rate(median_ms(device, softmax.fused_cpp(m, n))));
    naive.points.emplace_back(n, rate(steps_ms));
    predicted.points.emplace_back(n, copy_rate * bytes / bytes_of(steps));
    copy.points.emplace_back(n, copy_rate);
    std::printf("%8d %8d %8.0f %8.0f %8.0f %10.0f  %s\n", m, n, text.points.back().second, cpp.points.back().second,
                naive.points.back().second, predicted.points.back().second, softmax.chosen(m, n).c_str());
  }
  return {text, cpp, naive, predicted, copy};
}

}  // namespace

int main(int argc, char** argv) try {
  Device* const device = default_device();
  const bool gpu = !device->info().emulator;
  Options options = gpu ? Options{4096, 4096, "fused_softmax.svg"} : Options{64, 512, ""};
  if (!tutorial::read_options(argc, argv, {{"--rows", &options.rows, 1 << 20}, {"--cols", &options.cols, 32768}},
                              &options.plot)) {
    std::fprintf(stderr, "usage: %s [--rows M] [--cols N] [--plot FILE]   (M to 1048576, N to 32768)\n", argv[0]);
    return 2;
  }
  const auto& [rows, cols, plot] = options;
  std::printf("Softmax of a %d x %d fp32 matrix on %s\n\n", rows, cols, device->info().name.c_str());

  Softmax softmax(*device, rows, cols);
  check(softmax, rows, cols);
  if (gpu) {
    measure(*device, softmax, rows, cols);
  } else {
    predict(softmax, rows, cols);
    check_lengths(softmax);
  }
  if (!softmax.right()) {
    std::printf("WRONG: an error above 1e-5\n");
    return 1;
  }
  if (!gpu) {
    std::printf("\n(The emulator checks results; its times say nothing about a GPU.)\n");
    return 0;
  }
  const std::vector<PlotSeries> lines = measure_lengths(*device, softmax);
  if (!plot.empty()) {
    write_svg_plot(plot,
                   {.title = "Softmax, fp32, " + device->info().name,
                    .x_label = "columns N",
                    .y_label = "GB/s (2MN e / time)",
                    .log_x = true},
                   lines);
    std::printf("\nThe plot is in %s\n", plot.c_str());
  }
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
