// label: device
// heavy: Gemm.BiasAndActivation Gemm.Transposed Gemm.EveryConfigurationCompiles GemmKernel.EqualsTheText
// Matrix products of the kernel library, as text and with C++ epilogues, against double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "codegen/exec/emulator.h"
#include "codegen/target/target.h"
#include "kernels/gemm_kernel.h"
#include "kernels/kernels.h"
#include "kernels/lay_along.h"
#include "runtime/driver/driver.h"
#include "runtime/stream.h"
#include "runtime/workspace.h"

namespace tegula::kernels {
namespace {

std::string read_text(const std::string& kernel_file) {
  std::ifstream in(std::string(TEGULA_SOURCE_DIR) + "/kernels/" + kernel_file);
  return {std::istreambuf_iterator<char>(in), {}};
}

Device& device() {
  static const std::shared_ptr<Device> found = default_device();
  return *found;
}

/// A matrix on the host with its copy on the device; gaps between rows hold 77, which kernels must leave alone.
template <class T>
struct TestMatrix {
  TestMatrix(int64_t rows, int64_t cols, unsigned seed, int64_t gap = 0)
      : rows(rows), cols(cols), stride(cols + gap), host(size_t(rows * stride), T(77.0f)) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 1);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) host[size_t(r * stride + c)] = T(normal(random));
    if (!host.empty()) buffer = Buffer(device(), host);
  }
  double operator()(int64_t r, int64_t c) const { return float(host[size_t(r * stride + c)]); }
  Matrix<T> view() const { return {buffer, rows, cols, stride}; }
  Vector<T> vector() const { return {buffer, cols}; }

  int64_t rows, cols, stride;
  std::vector<T> host;
  Buffer buffer;
};

double activate(double y, Activation activation) {
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
constexpr double kRounding = std::is_same_v<T, float>     ? 1e-6
                             : std::is_same_v<T, float16> ? 4e-4
                                                          : 3e-3;

/// The relative error of C in the Frobenius norm; gaps are expected untouched.
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
  return std::sqrt(difference / norm);
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

template <class In, class Out>
void check(Shape s, bool ta = false, bool tb = false, Activation activation = Activation::None, bool bias = false) {
  SCOPED_TRACE(fmt::format("{} x {} x {}, gaps of {}, {} bytes out{}{}, activation {}{}", s.m, s.n, s.k, s.gap,
                           sizeof(Out), ta ? ", A transposed" : "", tb ? ", B transposed" : "", int(activation),
                           bias ? ", bias" : ""));
  const Product<In> p(s, ta, tb);
  TestMatrix<Out> c(s.m, s.n, 4, s.gap);
  gemm(device(), c.view(), p.a.view(), p.b.view(),
       {.bias = bias ? p.bias.vector() : Vector<In>(), .epilogue = activation, .transpose_a = ta, .transpose_b = tb});
  EXPECT_LE(relative_error(
                c, [&](int64_t i, int64_t j) { return activate(p(i, j) + (bias ? p.bias(0, j) : 0), activation); }),
            activation == Activation::GeluTanhFast ? std::max(kRounding<Out>, 5e-4) : kRounding<Out>);
}

// One row, few rows as in decoding, extents that no block divides, strides that 16 does not.
constexpr Shape kShapes[] = {{1, 48, 64},      {3, 40, 100, 3}, {16, 128, 256}, {17, 33, 47},
                             {125, 97, 41, 1}, {64, 64, 64, 8}, {70, 130, 20},  {128, 160, 96}};

TEST(Gemm, ShapesAndTypes) {
  for (Shape s : kShapes) {
    check<float16, float16>(s);
    check<bfloat16, bfloat16>(s);
    check<bfloat16, float>(s);
  }
}

TEST(Gemm, Transposed) {
  for (Shape s : kShapes)
    for (auto [ta, tb] : {std::pair(true, false), {false, true}, {true, true}}) check<float16, float16>(s, ta, tb);
}

TEST(Gemm, BiasAndActivation) {
  for (auto activation : {Activation::None, Activation::Relu, Activation::LeakyRelu, Activation::Silu, Activation::Gelu,
                          Activation::GeluTanh, Activation::GeluTanhFast}) {
    check<float16, float16>({33, 40, 24}, false, false, activation, true);
    check<bfloat16, float>({33, 40, 24, 5}, false, true, activation, false);
  }
}

TEST(LayAlong, CopiesOperandsOfAnyStrides) {
  for (const auto& [rows, depth] : {std::pair(19, 137), {130, 7}, {1, 33}}) {
    const TestMatrix<float16> a(rows, depth, 1), b(depth, rows, 2, 1);
    detail::Operand x{a.view(), true}, y{b.view(), false};
    EXPECT_EQ(detail::row_alignment(x.matrix), rows == 1 ? 16 : 2);
    EXPECT_FALSE(detail::is_aligned(x));
    const auto elements = size_t(detail::copied_bytes(x) + detail::copied_bytes(y)) / 2;
    const Buffer copies(device(), std::vector<float16>(elements, float16(5.0f)));
    detail::Operand* both[] = {&x, &y};
    detail::lay_along(device(), both, copies.address(), nullptr);
    const std::vector<float16> found = copies.download<float16>();
    int64_t place = 0, wrong = 0;
    for (const detail::Operand* copy : both) {
      EXPECT_TRUE(detail::is_aligned(*copy) && copy->along_k);
      EXPECT_EQ(copy->matrix.cols, detail::copied_depth(depth));
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t k = 0; k < copy->matrix.cols; ++k)
          wrong += float(found[size_t(place++)]) != (k >= depth ? 0.0 : copy == &x ? a(r, k) : b(k, r));
    }
    EXPECT_EQ(wrong, 0);
  }
}

// Rows of odd numbers of elements are copied where that pays, one operand or both.
TEST(Gemm, CopiesOperandsWhoseRowsAreNotAligned) {
  auto copied = [](Shape s, bool tb) {
    TestMatrix<float16> a(s.m, s.k, 1), b(tb ? s.n : s.k, tb ? s.k : s.n, 2), c(s.m, s.n, 3);
    detail::AnyGemmOptions options;
    options.transpose_b = tb;
    const auto call = detail::gemm_call(device(), c.view(), a.view(), b.view(), options, nullptr);
    return std::pair(call->args[1].u != a.buffer.address(), call->args[2].u != b.buffer.address());
  };
  EXPECT_EQ(copied({320, 321, 701}, true), std::pair(true, true));
  EXPECT_EQ(copied({320, 321, 701}, false), std::pair(false, false));  // too little to do
  EXPECT_EQ(copied({1000, 705, 704}, false), std::pair(false, true));
  EXPECT_EQ(copied({1000, 704, 704}, false), std::pair(false, false));
  EXPECT_EQ(copied({1, 705, 705}, true), std::pair(false, false));
  check<float16, float16>({320, 321, 701}, false, true);
  check<bfloat16, float>({801, 449, 401}, true, false);
}

TEST(Gemm, WithoutDepthTheBiasIsLeft) {
  TestMatrix<float16> a(20, 0, 1), b(0, 24, 2), bias(1, 24, 3), c(20, 24, 4);
  gemm(device(), c.view(), Matrix<float16>(nullptr, 20, 0), Matrix<float16>(nullptr, 0, 24),
       {.bias = bias.vector(), .epilogue = Activation::Relu});
  EXPECT_EQ(relative_error(c, [&](int64_t, int64_t j) { return std::max(bias(0, j), 0.0); }), 0);
}

// Whatever the shape, tuning has something to choose from and not too much; all of it compiles.
TEST(Gemm, EveryConfigurationCompiles) {
  const Kernel kernel = library_program("gemm.py").kernel("gemm");
  const Autotune& tuning = *kernel.autotuning();
  std::vector<Config> divided;
  for (int64_t m : {1, 16, 17, 48, 64, 65, 128, 1000, 4096})
    for (int64_t n : {1, 16, 50, 777, 4096})
      for (int64_t k : {0, 16, 333, 4096}) {
        LaunchArgs args;
        args.set("M", m), args.set("N", n), args.set("K", k), args.set("partials_ptr", PointerArg{Elem::F32, 256});
        args.set("stride_am", k), args.set("stride_ak", int64_t(1)), args.set("stride_bk", n);
        args.set("stride_bn", int64_t(1));
        for (Config& config : tuning.prune(tuning.configs, args)) {
          if (config["PARTS"] == 0 && config["SHARES"] == 1 && !config.num_ctas.has_value()) continue;
          for (ConstexprArg& c : config.constexprs)  // one number of parts of each tile will do
            if (c.name == "PARTS" && config["PARTS"] > 0) c.value = int64_t(2);
          divided.push_back(std::move(config));
        }
        args.set("partials_ptr", {});
        const std::vector<Config> left = tuning.prune(tuning.configs, args);
        EXPECT_TRUE(left.size() >= 1 && left.size() <= 60) << m << " x " << n << " x " << k << ": " << left.size();
        for (const Config& config : left) EXPECT_EQ(config["PARTS"], 0);
      }
  std::vector<Arg> args(16, 4096);
  for (int i : {0, 1, 2}) args[i] = Arg::pointer(1 << 20, Elem::F16, 0);
  args[3] = nullptr, args[8] = args[10] = args[12] = 1;
  args[14] = Arg::pointer(1 << 20, Elem::F32, 0), args[15] = Arg::pointer(1 << 20, Elem::I32, 0);
  std::vector<Config> configs = tuning.configs;
  for (Config& config : divided)
    if (std::find(configs.begin(), configs.end(), config) == configs.end()) configs.push_back(std::move(config));
  for (int64_t columns : {192, 192, 224, 96})  // beside them, blocks that are no powers of two
    configs.push_back(config({{"BLOCK_M", 128},
                              {"BLOCK_N", columns},
                              {"BLOCK_K", 64},
                              {"GROUP_M", 8},
                              {"PROGRAMS", columns == 96},
                              {"PARTS", 0},
                              {"SWAP", false}},
                             num_warps(8), num_stages(3)));
  for (const Config& config : configs) {
    LaunchOptions options{.constexprs = config.constexprs,
                          .num_warps = *config.num_warps,
                          .num_stages = *config.num_stages,
                          .num_ctas = config.num_ctas.value_or(1)};
    for (const char* even : {"EVEN_M", "EVEN_N", "EVEN_K"}) options.constexprs.emplace_back(even, true);
    options.constexprs.emplace_back("EPILOGUE", "gelu_tanh");
    const char* target = (&config - configs.data()) & 1 && options.num_ctas == 1 ? "sm_80" : "sm_90a";
    EXPECT_NO_THROW(kernel.compile(kernel.classify(args, options), options, target)) << config.to_string();
  }
}

TEST(Gemm, NothingToDo) {
  TestMatrix<float16> a(5, 8, 1);
  gemm(device(), Matrix<float16>(), Matrix<float16>(nullptr, 0, 8), Matrix<float16>(nullptr, 8, 0));
}

TEST(Gemm, RefusesWhatDoesNotFit) {
  TestMatrix<float16> a(5, 8, 1), b(9, 7, 2), c(5, 7, 3);
  auto message = [](const std::function<void()>& f) -> std::string {
    try {
      f();
    } catch (const LaunchError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message([&] { gemm(device(), c.view(), a.view(), b.view()); }),
            "gemm: a is 5 x 8 and b is 9 x 7: 8 columns against 9 rows");
  EXPECT_EQ(message([&] { gemm(device(), c.view(), a.view(), b.view(), {.transpose_b = true}); }),
            "gemm: a is 5 x 8 and b is 9 x 7, transposed: 8 columns against 7 rows");
  TestMatrix<float16> fitting(8, 7, 2), wrong(7, 5, 3);
  EXPECT_EQ(message([&] { gemm(device(), wrong.view(), a.view(), fitting.view()); }),
            "gemm: out is 7 x 5, but a b is 5 x 7");
  EXPECT_EQ(message([&] { gemm(device(), c.view(), a.view(), fitting.view(), {.bias = a.vector()}); }),
            "gemm: bias has 8 elements, but out is 5 x 7\n  hint: one element a column");
  TestMatrix<float16> square(8, 8, 1);
  EXPECT_EQ(message([&] { gemm(device(), square.view(), square.view(), square.view()); }),
            "gemm: out is an input, which other programs still read");
}

// The kernel in C++ computes exactly what the text does.
TEST(GemmKernel, EqualsTheText) {
  static const auto kernel = gemm_kernel("linear_gelu", [](Tile acc) { return gelu_tanh(acc); });
  for (Shape s : kShapes) {
    const Product<float16> p(s);
    TestMatrix<float16> c(s.m, s.n, 4, s.gap), d(s.m, s.n, 4, s.gap);
    kernel.launch(device(), c.view(), p.a.view(), p.b.view(), {.bias = p.bias.vector()});
    gemm(device(), d.view(), p.a.view(), p.b.view(), {.bias = p.bias.vector(), .epilogue = Activation::GeluTanh});
    const auto found = c.buffer.download<float16>(), expected = d.buffer.download<float16>();
    int wrong = 0;
    for (size_t i = 0; i < found.size(); ++i) wrong += float(found[i]) != float(expected[i]);
    EXPECT_EQ(wrong, 0) << s.m << " x " << s.n << " x " << s.k;
  }
}

TEST(GemmKernel, EpilogueWithParameters) {
  static const auto kernel =
      gemm_kernel("scaled_sum", [](Tile acc, const GemmTile& at, Float<"scale"> scale, Ptr<"r"> r, Int<"stride"> stride,
                                   Ptr<"column_scale"> column_scale) {
        return relu(acc * scale * at.of_columns(column_scale) + at.of_matrix(r, stride));
      });
  for (Shape s : {Shape{33, 40, 24, 5}, {64, 64, 64}}) {
    const Product<bfloat16> p(s, false, true);
    TestMatrix<float> c(s.m, s.n, 4, s.gap), r(s.m, s.n, 5, s.gap);
    kernel.launch(device(), c.view(), p.a.view(), p.b.view(), {.transpose_b = true}, nullptr, 0.25f,
                  r.buffer.as<float>(), r.stride, p.bias.buffer.as<bfloat16>());
    EXPECT_LE(
        relative_error(c, [&](int64_t i, int64_t j) { return std::max(p(i, j) * 0.25 * p.bias(0, j) + r(i, j), 0.0); }),
        kRounding<float>);
  }
}

TEST(GemmKernel, TakesNoSecondEpilogue) {
  static const auto kernel = gemm_kernel("plain", [](Tile acc) { return acc; });
  TestMatrix<float16> a(8, 8, 1), c(8, 8, 2);
  try {
    kernel.launch(device(), c.view(), a.view(), a.view(), {.epilogue = Activation::Relu});
    FAIL() << "no error";
  } catch (const LaunchError& error) {
    EXPECT_STREQ(error.what(), "plain: the kernel has an epilogue; expected Activation::None");
  }
}

// A result that would be broadcast to the accumulator's shape is refused, whether the shapes happen to fit or not.
TEST(GemmKernel, EpilogueKeepsTheShape) {
  TestMatrix<float16> a(64, 64, 1), b(64, 64, 2), c(64, 64, 3);
  auto message = [&](const auto& kernel, const LaunchOptions& blocks) -> std::string {
    std::vector<ArgType> types(16);
    for (int i = 0; i < 3; ++i) types[size_t(i)] = {Elem::F16, true, 16};
    for (size_t i : {3, 14, 15}) types[i] = {Elem::F16, true, 16, 0};
    try {
      kernel.kernel().tile_ir(types, blocks);
    } catch (const CompileError& error) {
      return error.diags().front().message + "\n  hint: " + error.diags().front().hint;
    }
    return "no error";
  };
  LaunchOptions blocks;
  blocks.constexprs = {{"BLOCK_M", 64},     {"BLOCK_N", 64},   {"BLOCK_K", 32},   {"GROUP_M", 8},    {"PROGRAMS", 0},
                       {"PARTS", 0},        {"SWAP", false},   {"EVEN_M", false}, {"EVEN_N", false}, {"EVEN_K", false},
                       {"HAS_BIAS", false}, {"STREAM", false}, {"ATOMIC", false}, {"SHARES", 1}};
  static const auto rows = gemm_kernel("sum_rows", [](Tile acc) { return sum(acc, 1); });
  EXPECT_EQ(
      message(rows, blocks),
      "the epilogue of 'sum_rows' gives tile of [64] float32, expected the accumulator's shape: tile of [64, 64] "
      "float32\n  hint: it maps the accumulator element by element: what a whole row gives, such as a sum, takes a "
      "kernel of its own; a vector is brought to the shape by broadcast_to(x[{all, none}], ...)");
  static const auto column = gemm_kernel("sum_column", [](Tile acc) { return sum(acc, 1)[{all, none}]; });
  EXPECT_NE(message(column, blocks).find("of 'sum_column' gives tile of [64, 1] float32"), std::string::npos);
  static const auto zero = gemm_kernel("zero", [](Tile) { return Tile(0.0f); });
  EXPECT_NE(message(zero, blocks).find("of 'zero' gives float32,"), std::string::npos);
  static const auto comparison = gemm_kernel("comparison", [](Tile acc) { return acc > 0; });
  EXPECT_EQ(message(comparison, blocks), "no error");
  // A launch says it too, where it tunes of each configuration.
  try {
    rows.launch(device(), c.view(), a.view(), b.view());
    ADD_FAILURE() << "no error";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("the epilogue of 'sum_rows' gives"), std::string::npos) << error.what();
  }

  // In text the error names the function.
  std::string text = read_text("gemm.py");
  text += "\n\n@triton.jit\ndef sum_rows(acc):\n    return tl.sum(acc, 1)\n";
  const Kernel kernel = Program::parse(text, TEGULA_SOURCE_DIR "/kernels/gemm.py").kernel("gemm");
  LaunchOptions with_epilogue = blocks;
  std::erase_if(with_epilogue.constexprs, [](const ConstexprArg& arg) { return arg.name == "HAS_BIAS"; });
  with_epilogue.constexprs.emplace_back("EPILOGUE", "sum_rows");
  struct Text {
    const Kernel& kernel() const { return k; }
    Kernel k;
  };
  EXPECT_EQ(message(Text{kernel}, with_epilogue).substr(0, 104),
            "static_assert failed: EPILOGUE sum_rows gives a tile of shape (64,), expected acc's: (64, 64)\n  hint: ");
}

// ---- Products divided along K.

/// A tile, and how K is divided or programs share tiles.
struct Division {
  int64_t m, n, k;
  int splits = 1;
  int64_t parts = 0;
  bool swap = false;
  int warps = 4;
  bool atomic = false;
  int64_t programs = 0;  ///< that share all K-steps evenly; 0: K is divided
  int shares = 1;        ///< of K, each of a block of a cluster
  int blocks = 1;        ///< of a cluster that share the tile
};

/// C of one launch of `kernel` with these blocks on the workspace of a stream, which is checked to be as it was.
template <class Out, class In>
std::vector<Out> launch_divided(Device& on, const Kernel& kernel, const Division& d, const Product<In>& p,
                                TestMatrix<Out>& c, bool bias, StreamHandle stream = nullptr,
                                std::vector<ConstexprArg> more = {}) {
  const int64_t m = p.a.rows, n = p.b.cols, k = p.a.cols;
  const int64_t tiles = (m + d.m - 1) / d.m * ((n + d.n - 1) / d.n);
  const int64_t programs = d.programs ? std::min(d.programs, tiles) : tiles * d.splits;
  const Workspace workspace = on.workspace(stream, size_t(programs * d.m * d.n) * sizeof(float));
  on.fill(workspace.partials, 0xff, workspace.bytes, stream);  // NaNs
  LaunchOptions how{.constexprs = std::move(more), .num_warps = d.warps, .stream = stream};
  how.num_ctas = d.shares * d.blocks;
  const std::pair<const char*, int64_t> blocks[] = {{"BLOCK_M", d.m}, {"BLOCK_N", d.n}, {"BLOCK_K", d.k},
                                                    {"GROUP_M", 8},   {"PROGRAMS", 1},  {"PARTS", d.parts}};
  for (const auto& [name, value] : blocks) how.constexprs.emplace_back(name, value);
  how.constexprs.emplace_back("SWAP", d.swap);
  how.constexprs.emplace_back("STREAM", d.programs > 0);
  how.constexprs.emplace_back("ATOMIC", d.atomic);
  how.constexprs.emplace_back("SHARES", d.shares);
  how.constexprs.emplace_back("EVEN_M", m % d.m == 0);
  how.constexprs.emplace_back("EVEN_N", n % d.n == 0);
  how.constexprs.emplace_back("EVEN_K", k % d.k == 0);
  const Arg bias_arg = bias ? Arg(p.bias.buffer.template as<In>()) : Arg(nullptr);
  kernel.launch(on, Grid{unsigned(programs)}, how, c.buffer.template as<Out>(), p.a.buffer.template as<In>(),
                p.b.buffer.template as<In>(), bias_arg, m, n, k, p.a.stride, 1, p.b.stride, 1, c.stride, 1, 16,
                reinterpret_cast<float*>(workspace.partials), reinterpret_cast<int32_t*>(workspace.counters));
  std::vector<int32_t> counters(Workspace::kCounters);
  if (!on.is_capturing(stream)) {
    on.copy_to_host(counters.data(), workspace.counters, 4 * counters.size(), stream);
    EXPECT_EQ(counters, std::vector<int32_t>(counters.size())) << "counters are left for the next launch";
  }
  return on.is_capturing(stream) ? std::vector<Out>() : c.buffer.template download<Out>(stream);
}

/// A product's operands and result on some device.
template <class In>
struct ProductOn {
  ProductOn(Device& device, const Shape& shape)
      : product(shape), c(std::make_unique<TestMatrix<float>>(shape.m, shape.n, 4, shape.gap)) {
    auto put = [&](auto& matrix) { matrix.buffer = Buffer(device, matrix.host); };
    put(product.a), put(product.b), put(product.bias), put(*c);
  }
  Product<In> product;
  std::unique_ptr<TestMatrix<float>> c;
};

const Kernel& text() {
  static const Kernel kernel = library_program("gemm.py").kernel("gemm");
  return kernel;
}

// Shares of K of unequal size and empty ones, a tile for all, parts that are more or fewer than the shares, tiles that
// reach beyond C; products by mma.sync and by wgmma, transposed or not. The same launch twice gives the same bits.
TEST(GemmDivided, ShapesAndTypes) {
  const std::pair<Shape, Division> cases[] = {
      {{33, 40, 100, 3}, {16, 32, 32, 3, 4}},     {{20, 70, 333}, {16, 32, 32, 5, 2}},
      {{16, 32, 64}, {16, 32, 32, 7, 16}},        {{64, 64, 160}, {64, 64, 32, 2, 1}},
      {{50, 96, 200}, {64, 64, 64, 3, 8}},        {{10, 130, 96, 1}, {16, 64, 32, 2, 4, true}},
      {{90, 64, 130}, {96, 64, 32, 4, 32, true}}, {{40, 40, 31}, {32, 32, 32, 1, 2}}};
  for (const auto& [shape, division] : cases) {
    SCOPED_TRACE(fmt::format("{} x {} x {} over {}", shape.m, shape.n, shape.k, division.splits));
    const Product<bfloat16> p(shape);
    TestMatrix<float> c(shape.m, shape.n, 4, shape.gap);
    const auto first = launch_divided(device(), text(), division, p, c, true, nullptr, {{"EPILOGUE", "relu"}});
    EXPECT_LE(relative_error(c, [&](int64_t i, int64_t j) { return std::max(p(i, j) + p.bias(0, j), 0.0); }),
              kRounding<float>);
    EXPECT_EQ(launch_divided(device(), text(), division, p, c, true, nullptr, {{"EPILOGUE", "relu"}}), first);
  }
}

// By the blocks of a cluster: empty shares, tiles that reach beyond C, the transposed product; in text and in C++.
TEST(GemmDivided, SharesOfACluster) {
  if (!target_for_sm(device().info().sm).has(Feature::Cluster)) GTEST_SKIP() << "no clusters of thread blocks";
  static const auto relu = gemm_kernel("shared_relu", [](Tile acc) { return maximum(acc, 0.0); });
  const std::pair<Shape, Division> cases[] = {{{70, 72, 300}, {64, 64, 32, 1, 0, false, 4, false, 0, 4}},
                                              {{64, 64, 96}, {64, 64, 32, 1, 0, false, 8, false, 0, 8}},
                                              {{48, 130, 512}, {48, 64, 64, 1, 0, true, 4, false, 0, 2}}};
  for (const auto& [shape, division] : cases) {
    SCOPED_TRACE(fmt::format("{} x {} x {} by {} blocks", shape.m, shape.n, shape.k, division.shares));
    const Product<float16> p(shape);
    TestMatrix<float> c(shape.m, shape.n, 4, shape.gap), d(shape.m, shape.n, 4, shape.gap);
    const auto first = launch_divided(device(), text(), division, p, c, true, nullptr, {{"EPILOGUE", "relu"}});
    EXPECT_LE(relative_error(c, [&](int64_t i, int64_t j) { return std::max(p(i, j) + p.bias(0, j), 0.0); }),
              kRounding<float>);
    EXPECT_EQ(launch_divided(device(), relu.kernel(), division, p, d, true, nullptr, {{"HAS_BIAS", true}}), first);
  }
}

// By clusters whose blocks share each tile: the order of programs shows in no bit.
TEST(GemmDivided, TilesOfTwoBlocks) {
  const std::pair<Shape, Division> cases[] = {
      {{70, 200, 300}, {.m = 128, .n = 64, .k = 32, .splits = 3, .parts = 2, .blocks = 2}},
      {{40, 136, 200, 8}, {.m = 48, .n = 128, .k = 32, .splits = 2, .parts = 4, .swap = true, .blocks = 2}}};
  for (const auto& [shape, division] : cases) {
    SCOPED_TRACE(fmt::format("{} x {} x {} over {}", shape.m, shape.n, shape.k, division.splits));
    std::vector<float> known;
    for (const EmulatorOptions& options : {EmulatorOptions{.threads = 1, .resident_programs = 1},
                                           EmulatorOptions{.threads = 2, .seed = 3, .resident_programs = 16}}) {
      const auto emulator = make_emulator(options);
      const ProductOn<float16> p(*emulator, shape);
      const auto found =
          launch_divided(*emulator, text(), division, p.product, *p.c, true, nullptr, {{"EPILOGUE", "relu"}});
      EXPECT_LE(relative_error(
                    *p.c, [&](int64_t i, int64_t j) { return std::max(p.product(i, j) + p.product.bias(0, j), 0.0); }),
                kRounding<float>);
      if (known.empty()) known = found;
      EXPECT_EQ(found, known);
    }
  }
}

// Sums that are added as they come: of one share, two and many, empty ones among them.
TEST(GemmDivided, Atomically) {
  const std::pair<Shape, Division> cases[] = {{{33, 40, 100, 3}, {16, 32, 32, 3, 4}},
                                              {{16, 32, 64}, {16, 32, 32, 7, 16}},
                                              {{40, 40, 31}, {32, 32, 32, 1, 2}},
                                              {{64, 64, 160}, {64, 64, 32, 2, 2, false, 8}},
                                              {{10, 130, 96, 1}, {16, 64, 32, 2, 4, true}}};
  for (const EmulatorOptions& options :
       {EmulatorOptions{.threads = 1, .resident_programs = 1}, EmulatorOptions{.seed = 3}})
    for (auto [shape, division] : cases) {
      division.atomic = true;
      SCOPED_TRACE(fmt::format("{} x {} x {} over {}", shape.m, shape.n, shape.k, division.splits));
      const auto emulator = make_emulator(options);
      const ProductOn<float16> p(*emulator, shape);
      for (int run = 0; run < 2; ++run) {
        launch_divided(*emulator, text(), division, p.product, *p.c, true, nullptr, {{"EPILOGUE", "relu"}});
        EXPECT_LE(
            relative_error(*p.c,
                           [&](int64_t i, int64_t j) { return std::max(p.product(i, j) + p.product.bias(0, j), 0.0); }),
            kRounding<float>);
      }
    }
}

// Programs that share the last tiles evenly: a program's sums go on from those of the one before, so that the bits are
// those of whole tiles, however many programs there are, and in whatever order they run.
TEST(GemmStreamed, HasTheBitsOfWholeTiles) {
  struct Case {
    Shape shape;
    Division division;
    std::vector<int64_t> programs;
  };
  const Case cases[] = {{{100, 70, 200, 3}, {32, 32, 32}, {1, 2, 3, 5, 7, 11, 12, 40}},
                        {{50, 130, 95, 1}, {16, 64, 32, 1, 0, true}, {3, 7}},
                        {{64, 320, 333}, {64, 128, 64, 1, 0, false, 8}, {2}}};
  const EmulatorOptions orders[] = {{.threads = 1, .resident_programs = 1},
                                    {.threads = 3, .seed = 5, .resident_programs = 3},
                                    {.target = "sm_80", .seed = 2}};
  for (const auto& [shape, division, counts] : cases)
    for (const EmulatorOptions& options : orders) {
      SCOPED_TRACE(fmt::format("{} x {} x {}, {} seed {}", shape.m, shape.n, shape.k, options.target, options.seed));
      const auto emulator = make_emulator(options);
      const ProductOn<bfloat16> p(*emulator, shape);
      auto run = [&](int64_t programs) {
        Division with = division;
        with.programs = programs;
        return launch_divided(*emulator, text(), with, p.product, *p.c, true, nullptr, {{"EPILOGUE", "relu"}});
      };
      const auto whole = run(1);
      EXPECT_LE(relative_error(
                    *p.c, [&](int64_t i, int64_t j) { return std::max(p.product(i, j) + p.product.bias(0, j), 0.0); }),
                kRounding<float>);
      for (const int64_t programs : counts) EXPECT_EQ(run(programs), whole) << programs;
    }
}

// In whatever order programs and their threads run, and however many at a time: some wait for each other, some leave
// their part of the sums to the last one.
TEST(GemmDivided, TheOrderOfProgramsShowsInNoBit) {
  const Shape shape{20, 40, 300};
  std::vector<float> known;
  for (const EmulatorOptions& options : {EmulatorOptions{}, EmulatorOptions{.threads = 1, .resident_programs = 1},
                                         EmulatorOptions{.threads = 2, .seed = 3, .resident_programs = 16},
                                         EmulatorOptions{.threads = 3, .seed = 5, .resident_programs = 3}}) {
    const auto emulator = make_emulator(options);
    const ProductOn<float16> p(*emulator, shape);
    const auto found =
        launch_divided(*emulator, text(), {16, 32, 32, 6, 4}, p.product, *p.c, false, nullptr, {{"EPILOGUE", "none"}});
    EXPECT_LE(relative_error(*p.c, [&](int64_t i, int64_t j) { return p.product(i, j); }), kRounding<float>);
    if (known.empty()) known = found;
    EXPECT_EQ(found, known);
  }
}

// Launches of all sizes take the workspace of their stream in turn; streams and graphs have their own.
TEST(GemmDivided, SharesTheWorkspaceOfAStream) {
  const Stream streams[] = {Stream(device()), Stream(device())};
  const Product<float16> small({20, 40, 100}), large({70, 100, 200});
  TestMatrix<float16> c(20, 40, 4), d(70, 100, 5);
  for (int round = 0; round < 2; ++round)
    for (const Stream& stream : streams) {
      launch_divided(device(), text(), {16, 32, 32, 3, 2}, small, c, false, stream, {{"EPILOGUE", "none"}});
      launch_divided(device(), text(), {32, 32, 32, 6, 4}, large, d, false, stream, {{"EPILOGUE", "none"}});
      EXPECT_LE(relative_error(c, [&](int64_t i, int64_t j) { return small(i, j); }), kRounding<float16>);
      EXPECT_LE(relative_error(d, [&](int64_t i, int64_t j) { return large(i, j); }), kRounding<float16>);
    }
  const Graph graph = capture(device(), streams[0], [&] {
    launch_divided(device(), text(), {16, 32, 32, 3, 2}, small, c, false, streams[0], {{"EPILOGUE", "none"}});
  });
  for (int run = 0; run < 2; ++run) {
    c.buffer.fill(0xff);
    device().launch_graph(graph.get(), streams[1]);
    launch_divided(device(), text(), {32, 32, 32, 6, 4}, large, d, false, streams[0], {{"EPILOGUE", "none"}});
    streams[1].synchronize();
    EXPECT_LE(relative_error(c, [&](int64_t i, int64_t j) { return small(i, j); }), kRounding<float16>);
  }
}

// A launch that ends early on the emulator leaves the counters as the next one wants them.
TEST(GemmDivided, FaultsSpoilNoLaterLaunch) {
  const auto emulator = make_emulator();
  const ProductOn<float16> p(*emulator, {20, 40, 100});
  for (const Division& division : {Division{16, 32, 32, 3, 2}, Division{16, 32, 32, 3, 2, false, 4, true},
                                   Division{16, 32, 32, 1, 0, false, 4, false, 3}}) {
    auto launch = [&] {
      launch_divided(*emulator, text(), division, p.product, *p.c, false, nullptr, {{"EPILOGUE", "none"}});
    };
    p.c->buffer = Buffer(*emulator, 16);
    EXPECT_THROW(launch(), DeviceError);
    p.c->buffer = Buffer(*emulator, p.c->host);
    launch();
    EXPECT_LE(relative_error(*p.c, [&](int64_t i, int64_t j) { return p.product(i, j); }), kRounding<float>);
  }
}

// Another library may capture a stream in the mode that forbids allocations and waits.
TEST(GemmDivided, BeginsWithinACapture) {
  if (device().info().emulator) GTEST_SKIP() << "no GPU";
  const Product<float16> p({20, 40, 100});
  TestMatrix<float> c(20, 40, 4);
  auto launch = [&](StreamHandle stream) {
    launch_divided(device(), text(), {16, 32, 32, 3, 2}, p, c, false, stream, {{"EPILOGUE", "none"}});
  };
  launch(nullptr);
  const cuda::Driver driver = cuda::Driver::open();
  const Stream stream(device());
  const auto handle = static_cast<cuda::Stream>(stream.get());
  driver.call(driver.stream_begin_capture, handle, cuda::CaptureMode::Global);
  EXPECT_NO_THROW(launch(stream));
  cuda::Graph graph = nullptr;
  driver.call(driver.stream_end_capture, handle, &graph);
  driver.call(driver.graph_destroy, graph);
}

// Sums in any order, if asked for; the kernel is chosen as for other products.
TEST(GemmDivided, AtomicsOnDemand) {
  static const auto squares = gemm_kernel("squares_of_sums", [](Tile acc) { return acc * acc; });
  const Product<float16> p({24, 40, 600});
  TestMatrix<float> c(24, 40, 4);
  gemm(device(), c.view(), p.a.view(), p.b.view(), {.epilogue = Activation::Relu, .atomic_sums = true});
  EXPECT_LE(relative_error(c, [&](int64_t i, int64_t j) { return std::max(p(i, j), 0.0); }), kRounding<float>);
  squares.launch(device(), c.view(), p.a.view(), p.b.view(), {.atomic_sums = true});
  EXPECT_LE(relative_error(c, [&](int64_t i, int64_t j) { return p(i, j) * p(i, j); }), 2 * kRounding<float>);
}

// An epilogue in C++ sees each row of C once, with its place.
TEST(GemmDivided, EpilogueWithParameters) {
  static const auto kernel = gemm_kernel("divided_sum", [](Tile acc, const GemmTile& at) {
    return gelu_tanh(acc) + at.rows.to(tl::float32)[{all, none}] * at.cols.to(tl::float32)[{none, all}];
  });
  const Shape shape{40, 72, 210};
  const Product<float16> p(shape);
  for (const Division& d :
       {Division{16, 32, 32, 4, 2}, Division{64, 64, 32, 3, 4, true}, Division{16, 32, 32, 2, 4, false, 4, true},
        Division{16, 32, 32, 1, 0, false, 4, false, 5}}) {
    TestMatrix<float> c(shape.m, shape.n, 4);
    launch_divided(device(), kernel.kernel(), d, p, c, true, nullptr, {{"HAS_BIAS", true}});
    EXPECT_LE(relative_error(c,
                             [&](int64_t i, int64_t j) {
                               return activate(p(i, j) + p.bias(0, j), Activation::GeluTanh) + double(i * j);
                             }),
              kRounding<float>);
  }
}

// A function of the file as a compile-time argument, by its name.
TEST(GemmText, FunctionsAsArguments) {
  const Program program = Program::parse(R"(
import triton.language as tl
@triton.jit
def double(x):
    return x + x
@triton.jit
def square(x):
    return x * x
@triton.jit
def apply(x, F: tl.constexpr):
    return F(x)
@triton.jit
def kernel(out_ptr, x_ptr, F: tl.constexpr):
    i = tl.arange(0, 8)
    tl.store(out_ptr + i, apply(F(tl.load(x_ptr + i)), F) + apply(1.0, double))
)",
                                         "functions.py");
  const std::vector<float> x{0, 1, 2, 3, 4, 5, 6, 7};
  Buffer in(device(), x), out(device(), in.bytes());
  auto run = [&](const char* name) {
    program.kernel("kernel").launch(device(), Grid{1}, {.constexprs = {{"F", name}}}, out.as<float>(), in.as<float>());
    return out.download<float>();
  };
  const auto doubled = run("double"), squared = run("square");
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(doubled[i], 4 * x[i] + 2);
    EXPECT_EQ(squared[i], x[i] * x[i] * x[i] * x[i] + 2);
  }
  try {
    run("squire");
    FAIL() << "no error";
  } catch (const CompileError& error) {
    EXPECT_NE(std::string(error.what()).find("'F' is no function, found 'squire'"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("did you mean 'square'?"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tegula::kernels
