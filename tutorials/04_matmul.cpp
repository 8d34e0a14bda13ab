// Tutorial 04: matrix products, and what follows them for free.
//
// A product of matrices of M x K and K x N elements takes 2MNK operations and moves (MK + KN + MN) e bytes at least,
// for elements of e bytes: at 4096^3 in fp16 that is 1365 operations for a byte. Tensor cores of an H200 can do about
// 200 in the time in which it moves one (989 TFLOP/s against 4.8 TB/s). So a large product is bound by arithmetic, and
// unlike softmax it does not get faster by moving less. Fusing pays all the same: what often follows it, a bias and an
// activation, is bound by memory, and the accumulator is in registers already. Each kernel of its own reads and writes
// MN elements again:
//
//   kernels                     operations     moves
//   product                     2MNK           (MK + KN + MN) e
//   + bias                      MN             2MN e + N e
//   gelu                        some 10 MN     2MN e
//   product + bias, gelu fused  2MNK + ...     (MK + KN + MN) e + N e
//
// This program predicts that, runs both, and checks both. The kernel is written twice, in the kernel language
// (04_matmul.py) and in C++ below, with the function that follows the product as an argument of either; the tuner picks
// the size of the tiles (BLOCK_M, BLOCK_N, BLOCK_K), their order (GROUP_M), warps and pipeline stages.
//
//   04_matmul [--m M] [--n N] [--k K] [--plot FILE]
//
// The default is 4096^3 on a GPU and 96 x 80 x 64 on the emulator. On a GPU, TFLOP/s over sizes is printed and drawn
// into matmul.svg, or FILE, beside cuBLAS if that is installed. For products ready to use see kernels/gemm.h.

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "dsl/tegula.h"
#include "tools/svg_plot.h"
#include "tutorials/tutorial.h"

using namespace tegula;

namespace {

// ---- The kernel in C++: a template that makes it for any epilogue, a C++ function of the accumulator's tile. What the
// kernel depends on are its parameters and template arguments: it captures nothing.

Tile leaky_relu(const Tile& x) { return where(x < 0, 0.01 * x, x); }
Tile gelu(const Tile& x) { return x * sigmoid(x * (1.5957691216057308 + 0.07135481627260025 * x * x)); }

template <auto epilogue, bool has_bias = false>
Kernel matmul_in_cpp(std::string name) {
  auto matmul = kernel(std::move(name), [](Ptr<"c"> c, Ptr<"a"> a, Ptr<"b"> b, Ptr<"bias"> bias, Int<"M"> M, Int<"N"> N,
                                           Int<"K"> K, Int<"stride_a"> stride_a, Int<"stride_b"> stride_b,
                                           Int<"stride_c"> stride_c, Const<"BLOCK_M"> BLOCK_M, Const<"BLOCK_N"> BLOCK_N,
                                           Const<"BLOCK_K"> BLOCK_K, Const<"GROUP_M"> GROUP_M) {
    Tile program = program_id(0);
    Tile group = GROUP_M * cdiv(N, BLOCK_N);
    Tile first = floordiv(program, group) * GROUP_M;
    Tile height = minimum(cdiv(M, BLOCK_M) - first, GROUP_M);
    Tile rows = (first + program % group % height) * BLOCK_M + arange(0, BLOCK_M);
    Tile cols = floordiv(program % group, height) * BLOCK_N + arange(0, BLOCK_N);
    Tile depth = arange(0, BLOCK_K);

    Tile in_rows = (rows < M)[{all, none}], in_cols = (cols < N)[{none, all}];
    Tile a_ptrs = a + rows[{all, none}] * stride_a + depth[{none, all}];
    Tile b_ptrs = b + depth[{all, none}] * stride_b + cols[{none, all}];
    Tile acc = zeros(list({BLOCK_M, BLOCK_N}), tl::float32);
    for (Tile k : range(0, cdiv(K, BLOCK_K))) {
      Tile in_depth = depth < K - k * BLOCK_K;
      Tile a_tile = load(a_ptrs, in_rows & in_depth[{none, all}], 0.0);
      Tile b_tile = load(b_ptrs, in_depth[{all, none}] & in_cols, 0.0);
      acc = dot(a_tile, b_tile, acc);
      a_ptrs += BLOCK_K;
      b_ptrs += BLOCK_K * stride_b;
    }

    if constexpr (has_bias) acc += load(bias + cols, cols < N, 0.0).to(tl::float32)[{none, all}];
    acc = epilogue(acc);
    store(c + rows[{all, none}] * stride_c + cols[{none, all}], acc.to(c.dtype().element_ty()), in_rows & in_cols);
  });

  // All combinations of these values that the pruning function leaves.
  Autotune tuning;
  tuning.configs = search_space({powers_of_two("BLOCK_M", 16, 256),
                                 powers_of_two("BLOCK_N", 32, 256),
                                 powers_of_two("BLOCK_K", 32, 128),
                                 {"GROUP_M", {int64_t(8)}},
                                 powers_of_two("num_warps", 2, 8),
                                 steps("num_stages", 3, 4)});
  tuning.key = {"M", "N", "K"};
  tuning.prune = [](const std::vector<Config>& configs, const LaunchArgs& args) {
    std::vector<Config> kept;
    for (const Config& config : configs) {
      const int64_t m = config["BLOCK_M"], n = config["BLOCK_N"], k = config["BLOCK_K"];
      const int64_t threads = 32 * *config.num_warps;
      // Half of a thread's registers, or somewhat less, for the accumulator of a large tile; longer K steps where three
      // of them fit shared memory.
      const bool deep = k == 64 || (k == 128 && m * n == 64 * 128 && *config.num_stages == 3);
      const bool large = m >= 64 && n >= 64 && m * n / threads >= 64 && deep;
      const bool small = m == 16 && n == 32 && threads == 64 && k == 64;
      const bool matrix_is_small = args.integer("M") < 64 || args.integer("N") < 64;
      if (m * n / threads <= 128 &&
          (matrix_is_small ? small : large && m <= args.integer("M") && n <= args.integer("N")))
        kept.push_back(config);
    }
    return kept;
  };
  return matmul.autotune(std::move(tuning));
}

// ---- cuBLAS, opened at run time: neither this program nor the library needs it.

class Cublas {
 public:
  Cublas() {
    for (const char* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"})
      if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
        const auto create = reinterpret_cast<int (*)(void**)>(dlsym(library, "cublasCreate_v2"));
        gemm_ = reinterpret_cast<Gemm>(dlsym(library, "cublasGemmEx"));
        if (create && gemm_ && create(&handle_) == 0) return;
        handle_ = nullptr;
      }
  }
  explicit operator bool() const { return handle_; }

  // c = a b of fp16 matrices with an fp32 accumulator. cuBLAS counts columns first, so it is asked for the transposed
  // product of b and a.
  void operator()(float16* c, const float16* a, const float16* b, int m, int n, int k) const {
    constexpr int kHalf = 2, kCompute32F = 68, kDefault = -1;  // CUDA_R_16F, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT
    const float one = 1, zero = 0;
    const int status =
        gemm_(handle_, 0, 0, n, m, k, &one, b, kHalf, n, a, kHalf, k, &zero, c, kHalf, n, kCompute32F, kDefault);
    if (status != 0) throw DeviceError("cublasGemmEx: status " + std::to_string(status));
  }

 private:
  using Gemm = int (*)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int,
                       const void*, void*, int, int, int, int);
  void* handle_ = nullptr;
  Gemm gemm_ = nullptr;
};

// ---- Sizes, data, checks.

struct Shape {
  int m, n, k;
  double flops() const { return 2.0 * m * n * k; }
};

struct Options {
  Shape shape;
  std::string plot;
};

std::vector<float16> random_numbers(size_t count, float scale, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float16> numbers(count);
  for (float16& number : numbers) number = float16(scale * float(int32_t(random())) * 0x1p-31f);
  return numbers;
}

// The matrices of one shape on the device. B is scaled so that the elements of the product are about 1.
struct Problem {
  Problem(Device& device, Shape s)
      : shape(s),
        host_a(random_numbers(size_t(s.m) * s.k, 1, 1)),
        host_b(random_numbers(size_t(s.k) * s.n, 3 / std::sqrt(float(s.k)), 2)),
        host_bias(random_numbers(s.n, 1, 3)),
        a(device, host_a),
        b(device, host_b),
        bias(device, host_bias),
        c(device, size_t(s.m) * s.n * sizeof(float16)) {}

  // Largest absolute error of c, of some rows if there are many, against double precision; exact values are about 1.
  double largest_error(bool with_bias, const std::function<double(double)>& activation) const {
    const std::vector<float16> found = c.download<float16>();
    double worst = 0;
    std::vector<double> exact(shape.n);
    for (int row = 0; row < shape.m; row += std::max(1, shape.m / 50)) {
      for (int j = 0; j < shape.n; ++j) exact[j] = with_bias ? float(host_bias[j]) : 0;
      for (int l = 0; l < shape.k; ++l) {
        const double x = float(host_a[size_t(row) * shape.k + l]);
        for (int j = 0; j < shape.n; ++j) exact[j] += x * float(host_b[size_t(l) * shape.n + j]);
      }
      for (int j = 0; j < shape.n; ++j) {
        const double error = std::abs(float(found[size_t(row) * shape.n + j]) - activation(exact[j]));
        if (std::isnan(error)) return error;
        worst = std::max(worst, error);
      }
    }
    return worst;
  }

  Shape shape;
  std::vector<float16> host_a, host_b, host_bias;
  Buffer a, b, bias, c;
};

// A product with what follows it.
struct Fusion {
  const char* name;
  const char* epilogue;  // by its name in the text
  bool bias;
  Kernel cpp;
  std::function<double(double)> exact;
  int apart() const { return 1 + bias + (std::string(epilogue) != "nothing"); }
  // The steps behind the product read and write C once more each, and a bias is read.
  double bytes(Shape s, bool fused) const {
    const double c = double(s.m) * s.n, product = double(s.m) * s.k + double(s.k) * s.n + c;
    return (product + (bias ? s.n : 0) + (fused ? 0 : 2 * c * (apart() - 1))) * sizeof(float16);
  }
};

// The kernels of 04_matmul.py, launched.
class Products {
 public:
  explicit Products(Device& device) : device_(device) {}

  void text(const Fusion& f, const Problem& p) const {
    launch(text_, p, {.constexprs = {{"EPILOGUE", f.epilogue}}}, f.bias);
  }
  void cpp(const Fusion& f, const Problem& p) const { launch(f.cpp, p, {}, f.bias); }
  // The same by a kernel for each step.
  void apart(const Fusion& f, const Problem& p) const {
    launch(text_, p, {.constexprs = {{"EPILOGUE", "nothing"}}}, false);
    const int count = p.shape.m * p.shape.n;
    const Grid grid{unsigned((count + 1023) / 1024)};
    if (f.bias)
      add_bias_.launch(device_, grid, {.constexprs = {{"BLOCK", 1024}}}, p.c.as<float16>(), p.bias.as<float16>(), count,
                       p.shape.n);
    if (f.apart() > 1 + f.bias)
      apply_.launch(device_, grid, {.constexprs = {{"EPILOGUE", f.epilogue}, {"BLOCK", 1024}}}, p.c.as<float16>(),
                    count);
  }
  // In how many elements text and C++ differ if both have one configuration: none, to the last bit.
  size_t differences(const Fusion& f, Problem& p) const {
    auto result = [&](const Kernel& kernel, std::vector<ConstexprArg> constexprs) {
      for (auto [name, value] : {std::pair("BLOCK_M", 32), {"BLOCK_N", 32}, {"BLOCK_K", 32}, {"GROUP_M", 2}})
        constexprs.emplace_back(name, value);
      p.c.fill(0xff);
      launch(kernel, p, {.constexprs = std::move(constexprs), .num_warps = 2}, f.bias);
      return p.c.download<float16>();
    };
    const std::vector<float16> from_text = result(text_, {{"EPILOGUE", f.epilogue}}), from_cpp = result(f.cpp, {});
    size_t different = 0;
    for (size_t i = 0; i < from_text.size(); ++i) different += float(from_text[i]) != float(from_cpp[i]);
    return different;
  }

 private:
  void launch(const Kernel& kernel, const Problem& p, const LaunchOptions& how, bool bias) const {
    const Shape s = p.shape;
    auto grid = [s](const Config& config) {
      const int64_t m = config["BLOCK_M"], n = config["BLOCK_N"];
      return Grid{unsigned((s.m + m - 1) / m * ((s.n + n - 1) / n))};
    };
    const Arg bias_or_none = bias ? Arg(p.bias.as<float16>()) : Arg(nullptr);
    kernel.launch(device_, grid, how, p.c.as<float16>(), p.a.as<float16>(), p.b.as<float16>(), bias_or_none, s.m, s.n,
                  s.k, s.k, s.n, s.n);
  }

  Device& device_;
  Program program_ = Program::load(TEGULA_TUTORIALS "/04_matmul.py");
  Kernel text_ = program_.kernel("matmul"), add_bias_ = program_.kernel("add_bias"), apply_ = program_.kernel("apply");
};

void print_heading(bool gpu) {
  std::printf("%-18s %8s %10s %10s %10s", "", "kernels", "MB apart", "MB fused", "saved");
  if (gpu) std::printf(" %10s %10s %9s %10s", "ms apart", "ms fused", "gain", "TFLOP/s");
  std::printf(" %10s\n", "error");
}

// One row of the table; whether the results are right. Rounding C to fp16 costs 2^-11 of an element, and elements are
// below 8; kernels of their own round twice or three times.
bool compare(Device& device, const Products& products, const Fusion& f, Problem& problem) {
  products.apart(f, problem);
  const double error_apart = problem.largest_error(f.bias, f.exact);
  problem.c.fill(0xff);
  products.text(f, problem);
  const double error_fused = problem.largest_error(f.bias, f.exact);
  const size_t different = products.differences(f, problem);

  const Shape shape = problem.shape;
  const double bytes_apart = f.bytes(shape, false), bytes_fused = f.bytes(shape, true);
  std::printf("%-18s %3d -> 1 %10.2f %10.2f %9.0f%%", f.name, f.apart(), bytes_apart / 1e6, bytes_fused / 1e6,
              100 * (1 - bytes_fused / bytes_apart));
  if (!device.info().emulator) {
    const double us_apart = tutorial::median_us(device, [&] { products.apart(f, problem); }),
                 us_fused = tutorial::median_us(device, [&] { products.text(f, problem); });
    std::printf(" %10.4f %10.4f %8.2fx %10.1f", us_apart / 1e3, us_fused / 1e3, us_apart / us_fused,
                shape.flops() / us_fused / 1e6);
  }
  std::printf(" %10.2g\n", std::max(error_apart, error_fused));
  const bool exact = error_apart < 0.01 && error_fused < 0.005;
  if (!exact) std::printf("WRONG: the error is too large\n");
  if (different > 0) std::printf("WRONG: text and C++ differ in %zu elements\n", different);
  return exact && different == 0;
}

// TFLOP/s over sizes, tuned for each.
std::vector<PlotSeries> measure_sizes(Device& device, const Products& products, const Fusion& plain,
                                      const Fusion& linear) {
  const Cublas cublas;
  if (!cublas)
    std::printf("cuBLAS is not there (libcublas.so; LD_LIBRARY_PATH tells where to look): its line is left out\n");
  std::vector<PlotSeries> series{
      {"product", {}}, {"product + bias + gelu", {}}, {"in C++", {}, true}, {"cuBLAS", {}, true}};
  std::printf("\nTFLOP/s of square products\n%8s %10s %22s %10s %10s\n", "size", "product", "product + bias + gelu",
              "in C++", "cuBLAS");
  for (int size : {256, 512, 1024, 2048, 4096, 8192}) {
    const Problem p(device, {size, size, size});
    auto point = [&](PlotSeries& s, const std::function<void()>& work) {
      const double tflops = p.shape.flops() / tutorial::median_us(device, work) / 1e6;
      s.points.emplace_back(size, tflops);
      return tflops;
    };
    std::printf("%8d %10.1f", size, point(series[0], [&] { products.text(plain, p); }));
    std::printf(" %22.1f", point(series[1], [&] { products.text(linear, p); }));
    std::printf(" %10.1f", point(series[2], [&] { products.cpp(plain, p); }));
    if (cublas)
      std::printf(" %10.1f", point(series[3], [&] {
                    cublas(p.c.as<float16>(), p.a.as<float16>(), p.b.as<float16>(), size, size, size);
                  }));
    std::printf("\n");
  }
  return series;
}

double exact_gelu(double x) { return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }

}  // namespace

int main(int argc, char** argv) try {
  Device* const device = default_device();
  const bool gpu = !device->info().emulator;
  Options options = gpu ? Options{{4096, 4096, 4096}, "matmul.svg"} : Options{{96, 80, 64}, ""};
  auto& [m, n, k] = options.shape;
  if (!tutorial::read_options(argc, argv, {{"--m", &m, 16384}, {"--n", &n, 16384}, {"--k", &k, 16384}},
                              &options.plot)) {
    std::fprintf(stderr, "usage: %s [--m M] [--n N] [--k K] [--plot FILE]   (1 to 16384)\n", argv[0]);
    return 2;
  }
  const Shape shape = options.shape;
  std::printf("Products of %d x %d and %d x %d fp16 matrices on %s: %.1f operations for a byte\n\n", shape.m, shape.k,
              shape.k, shape.n, device->info().name.c_str(),
              shape.flops() / (2.0 * shape.m * shape.k + 2.0 * shape.k * shape.n + 2.0 * shape.m * shape.n));

  const Products products(*device);
  const Fusion fusions[] = {
      {"a b", "nothing", false, matmul_in_cpp<[](Tile acc) { return acc; }>("matmul"), [](double x) { return x; }},
      {"leaky_relu(a b)", "leaky_relu", false, matmul_in_cpp<leaky_relu>("matmul_leaky_relu"),
       [](double x) { return x < 0 ? 0.01 * x : x; }},
      {"gelu(a b)", "gelu", false, matmul_in_cpp<gelu>("matmul_gelu"), exact_gelu},
      {"gelu(a b + bias)", "gelu", true, matmul_in_cpp<gelu, true>("linear_gelu"), exact_gelu},
  };
  Problem problem(*device, shape);
  print_heading(gpu);
  bool right = true;
  for (const Fusion& f : fusions) right = compare(*device, products, f, problem) && right;
  if (!right) return 1;
  std::printf("\nText and C++ gave the same results.\n");
  if (!gpu) {
    std::printf("(The emulator checks results; how fast they come is measured on a GPU.)\n");
    return 0;
  }
  write_svg_plot(
      options.plot,
      {.title = "fp16 products on " + device->info().name, .x_label = "M = N = K", .y_label = "TFLOP/s", .log_x = true},
      measure_sizes(*device, products, fusions[0], fusions[3]));
  std::printf("\nThe plot is in %s\n", options.plot.c_str());
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
