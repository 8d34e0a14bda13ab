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
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "dsl/tegula.h"
#include "tools/svg_plot.h"

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

// Reads the command line; false if it says something else.
bool read_arguments(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) return false;
    if (name == "--plot") {
      options.plot = argv[i + 1];
      continue;
    }
    int* value = name == "--rows" ? &options.rows : name == "--cols" ? &options.cols : nullptr;
    char* end = nullptr;
    const long number = std::strtol(argv[i + 1], &end, 10);
    if (!value || *end || number < 1 || number > (name == "--cols" ? 32768 : 1 << 20)) return false;
    *value = int(number);
  }
  return true;
}

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

struct Step {
  const char* name;
  double bytes;  // predicted traffic
  std::function<void()> launch;
};

void print_row(const char* name, double bytes, double ms) {
  std::printf("%-24s %12.1f %12.4f %12.1f\n", name, bytes / 1e6, ms, bytes / ms / 1e6);
}

}  // namespace

int main(int argc, char** argv) try {
  const std::shared_ptr<Device> device = default_device();
  const bool gpu = !device->info().emulator;
  Options options = gpu ? Options{4096, 4096, "fused_softmax.svg"} : Options{64, 512, ""};
  if (!read_arguments(argc, argv, options)) {
    std::fprintf(stderr, "usage: %s [--rows M] [--cols N] [--plot FILE]   (M to 1048576, N to 32768)\n", argv[0]);
    return 2;
  }
  std::printf("Softmax of a %d x %d fp32 matrix on %s\n\n", options.rows, options.cols, device->info().name.c_str());

  // The matrix and the result; between them, what the naive way writes and reads again: a matrix and a column.
  const size_t elements = size_t(options.rows) * options.cols;
  std::vector<float> host(elements);
  std::mt19937 random(2);
  std::normal_distribution<float> normal(0, 2);
  for (float& value : host) value = normal(random);
  Buffer x_buffer(*device, host);
  Buffer y_buffer(*device, elements * sizeof(float));
  Buffer between_buffer(*device, elements * sizeof(float));
  Buffer column_buffer(*device, std::max(size_t(options.rows), elements / 256) * sizeof(float));

  float* x = x_buffer.as<float>();  // addresses on the device
  float* y = y_buffer.as<float>();
  float* between = between_buffer.as<float>();
  float* column = column_buffer.as<float>();

  // The naive kernels have one program a row, take it as one tile, whose extent is a power of two, and are told so; the
  // fused ones leave their constexprs to the tuner, and have a program for each ROWS rows.
  Program program = Program::load(TEGULA_TUTORIALS "/02_fused_softmax.py");
  const Kernel fused_text = program.kernel("softmax"), fused_cpp = softmax_in_cpp();
  auto naive_steps = [&](int rows, int cols) {
    int block = 1;
    while (block < cols) block *= 2;
    const LaunchOptions naive{.constexprs = {{"BLOCK", block}}, .num_warps = std::clamp(block / 1024, 4, 32)};
    auto step = [&](const char* name, double bytes, const char* kernel_name, std::vector<Arg> args) {
      return Step{name, bytes, [=, &device, kernel = program.kernel(kernel_name)] {
                    kernel.launch(*device, Grid{unsigned(rows)}, naive, std::span<const Arg>(args));
                  }};
    };
    const double matrix = double(rows) * cols * sizeof(float), row_results = double(rows) * sizeof(float);
    return std::vector<Step>{
        step("row maximum", matrix + row_results, "row_max", {column, x, cols}),
        step("x - maximum", 2 * matrix + row_results, "subtract", {between, x, column, cols}),
        step("exp", 2 * matrix, "exponential", {y, between, cols}),
        step("row sum", matrix + row_results, "row_sum", {column, y, cols}),
        step("divide by sum", 2 * matrix + row_results, "divide", {between, y, column, cols}),
    };
  };
  auto programs = [](int rows) {
    return [rows](const Config& config) {
      const int64_t tile_rows = config["ROWS"];
      return Grid{unsigned((rows + tile_rows - 1) / tile_rows)};
    };
  };
  auto fused_launch = [&](const Kernel& kernel, int rows, int cols) {
    return [=, &device, &kernel] { kernel.launch(*device, programs(rows), {}, y, x, rows, cols); };
  };

  // First the results. An element may differ from the exact one by the roundings of exp and of the sums: 1e-5 is far
  // above those and far below any mistake.
  const int rows = options.rows, cols = options.cols;
  bool right = true;
  auto error_of = [&](const Buffer& result, int m, int n) {
    const double error = largest_error(host, result.download<float>(), m, n);
    right = right && error < 1e-5;
    return error;
  };
  auto check = [&](const char* name, const Buffer& result) {
    std::printf("%-24s largest relative error %.2g\n", name, error_of(result, rows, cols));
  };
  const std::vector<Step> naive = naive_steps(rows, cols);
  for (const Step& step : naive) step.launch();
  check("naive", between_buffer);
  const auto text_launch = fused_launch(fused_text, rows, cols), cpp_launch = fused_launch(fused_cpp, rows, cols);
  text_launch();
  check("fused, text", y_buffer);
  y_buffer.fill(0);
  cpp_launch();
  check("fused, C++", y_buffer);

  // Then the times: medians, each run with a cold L2 cache, since in a real program the matrix comes from elsewhere.
  const TimingOptions timing{.warmup = gpu ? 3 : 0, .runs = gpu ? 21 : 1, .flush_l2 = gpu};
  auto median_ms = [&](const std::function<void()>& work) { return time_on_device(*device, work, timing).median_ms; };
  const double fused_bytes = 2.0 * double(elements) * sizeof(float);
  double naive_bytes = 0, naive_ms = 0;
  for (const Step& step : naive) naive_bytes += step.bytes;
  if (gpu) {
    std::printf("\n%-24s %12s %12s %12s\n", "kernel", "MB moved", "time (ms)", "GB/s");
    for (const Step& step : naive) {
      const double ms = median_ms(step.launch);
      print_row(step.name, step.bytes, ms);
      naive_ms += ms;
    }
    print_row("naive, five kernels", naive_bytes, naive_ms);
    const double text_ms = median_ms(text_launch);
    print_row("fused softmax, text", fused_bytes, text_ms);
    print_row("fused softmax, C++", fused_bytes, median_ms(cpp_launch));
    std::printf("\nThe traffic says that fusing is %.2f times as fast; measured: %.2f.\n", naive_bytes / fused_bytes,
                naive_ms / text_ms);
  } else {
    std::printf("\nThe traffic, %.2f MB against %.2f MB, says that fusing is %.2f times as fast on a GPU.\n",
                naive_bytes / 1e6, fused_bytes / 1e6, naive_bytes / fused_bytes);
  }

  // The same bytes in rows of other lengths, beside a copy of the matrix, which no kernel that reads and writes it can
  // beat. GB/s counts 2MN e for all of them, so that the heights in the plot are times upside down.
  const double copy_ms =
      median_ms([&] { device->copy_on_device(y_buffer.address(), x_buffer.address(), elements * 4); });
  const double copy_rate = fused_bytes / copy_ms / 1e6;
  PlotSeries text_line{"fused, text", {}}, cpp_line{"fused, C++", {}}, naive_line{"naive", {}},
      predicted_line{"naive, predicted", {}, true}, copy_line{"copy", {}, true};
  if (gpu)
    std::printf("\nGB/s over the row length (copy: %.0f GB/s)\n%8s %8s %8s %8s %8s %10s  %s\n", copy_rate, "rows", "N",
                "text", "C++", "naive", "predicted", "chosen for the text");
  else
    std::printf("\nErrors over the row length\n%8s %8s %12s %12s  %s\n", "rows", "N", "text", "C++",
                "the model's choice for the text");
  for (int n : {256, 781, 1024, 2048, 4096, 8192, 12672, 16384, 32768}) {
    const int m = int(elements / size_t(n));
    if (m < 1) continue;
    const auto text = fused_launch(fused_text, m, n), cpp = fused_launch(fused_cpp, m, n);
    const std::vector<Arg> args{y, x, m, n};
    const auto grid = programs(m);
    const std::string chosen = fused_text.ready(*device, tegula::detail::GridRef(grid), {}, args).config->to_string();
    if (!gpu) {
      text();
      const double text_error = error_of(y_buffer, m, n);
      cpp();
      std::printf("%8d %8d %12.2g %12.2g  %s\n", m, n, text_error, error_of(y_buffer, m, n), chosen.c_str());
      continue;
    }
    double steps_bytes = 0, steps_ms = 0;
    for (const Step& step : naive_steps(m, n)) {
      steps_ms += median_ms(step.launch);
      steps_bytes += step.bytes;
    }
    const double bytes = 2.0 * m * n * sizeof(float);
    const double text_rate = bytes / median_ms(text) / 1e6, cpp_rate = bytes / median_ms(cpp) / 1e6;
    const double naive_rate = bytes / steps_ms / 1e6, predicted = copy_rate * bytes / steps_bytes;
    std::printf("%8d %8d %8.0f %8.0f %8.0f %10.0f  %s\n", m, n, text_rate, cpp_rate, naive_rate, predicted,
                chosen.c_str());
    text_line.points.emplace_back(n, text_rate);
    cpp_line.points.emplace_back(n, cpp_rate);
    naive_line.points.emplace_back(n, naive_rate);
    predicted_line.points.emplace_back(n, predicted);
    copy_line.points.emplace_back(n, copy_rate);
  }
  if (!right) {
    std::printf("WRONG: an error above 1e-5\n");
    return 1;
  }
  if (!options.plot.empty()) {
    write_svg_plot(options.plot,
                   {.title = "Softmax, fp32, " + device->info().name,
                    .x_label = "columns N",
                    .y_label = "GB/s (2MN e / time)",
                    .log_x = true},
                   {text_line, cpp_line, naive_line, predicted_line, copy_line});
    std::printf("\nThe plot is in %s\n", options.plot.c_str());
  }
  if (!gpu) std::printf("\n(The emulator checks results; its times say nothing about a GPU.)\n");
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
