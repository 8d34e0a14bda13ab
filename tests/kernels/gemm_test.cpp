// label: device
// heavy: Gemm.BiasAndActivation Gemm.Transposed Gemm.EveryConfigurationCompiles GemmKernel.EqualsTheText
// heavy: Gemm.CopiesOperandsWhoseRowsAreNotAligned Gemm.ShapesAndTypes
// Matrix products of the kernel library, as text and with C++ epilogues, against double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "codegen/compile.h"
#include "codegen/target/target.h"
#include "kernels/gemm_kernel.h"
#include "kernels/kernels.h"
#include "kernels/lay_along.h"
#include "tests/kernels/gemm_support.h"
#include "tests/message_of.h"
#include "tests/random_count.h"

namespace tegula::kernels {
namespace {

std::string read_text(const std::string& kernel_file) {
  std::ifstream in(std::string(TEGULA_SOURCE_DIR) + "/kernels/" + kernel_file);
  return {std::istreambuf_iterator<char>(in), {}};
}

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
    EXPECT_EQ(detail::row_alignment(x), rows == 1 ? 16 : 2);
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

// Matrices of a batch lie anywhere; their copies follow each other. One that stands for all is copied once.
TEST(LayAlong, CopiesBatches) {
  constexpr int64_t kBatch = 3, kRows = 70, kDepth = 37, kGap = 5;
  const TestMatrix<float16> a(kBatch * kRows + kGap * kBatch, kDepth, 1), b(kBatch * (kDepth + kGap), kRows, 2);
  detail::Operand x{a.view(), true, kBatch, (kRows + kGap) * kDepth},
      y{b.view(), false, kBatch, (kDepth + kGap) * kRows};
  x.matrix.rows = kRows, y.matrix.rows = kDepth;
  EXPECT_EQ(detail::row_alignment(x), 2);
  EXPECT_EQ(detail::copied_bytes(x), kBatch * kRows * 40 * 2);
  const Buffer copies(device(), size_t(detail::copied_bytes(x) + detail::copied_bytes(y)));
  detail::Operand* both[] = {&x, &y};
  detail::lay_along(device(), both, copies.address(), nullptr);
  const std::vector<float16> found = copies.download<float16>();
  int64_t place = 0, wrong = 0;
  for (const detail::Operand* copy : both) {
    EXPECT_TRUE(detail::is_aligned(*copy) && copy->along_k);
    EXPECT_EQ(copy->batch_stride, kRows * 40);
    for (int64_t i = 0; i < kBatch; ++i)
      for (int64_t r = 0; r < kRows; ++r)
        for (int64_t k = 0; k < copy->matrix.cols; ++k) {
          const double expected = copy == &x ? a(i * (kRows + kGap) + r, k) : b(i * (kDepth + kGap) + k, r);
          wrong += float(found[size_t(place++)]) != (k >= kDepth ? 0.0 : expected);
        }
  }
  EXPECT_EQ(wrong, 0);
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
        EXPECT_TRUE(left.size() >= 1 && left.size() <= 72) << m << " x " << n << " x " << k << ": " << left.size();
        std::map<std::string, int64_t> orders;
        for (Config config : left) {
          EXPECT_EQ(config["PARTS"], 0);
          EXPECT_TRUE(config.num_warps != 4 || config["SWAP"] || config["BLOCK_N"] <= 256) << config.to_string();
          if (config.num_ctas.value_or(1) > 1) continue;
          const int64_t order = config["GROUP_M"];
          std::erase_if(config.constexprs, [](const ConstexprArg& c) { return c.name == "GROUP_M"; });
          EXPECT_EQ(orders.emplace(config.to_string(), order).first->second, order) << config.to_string();
        }
      }
  std::vector<Arg> args(16, 4096);
  for (int i : {0, 1, 2}) args[i] = Arg::pointer(1 << 20, Elem::F16, 0);
  args[3] = nullptr, args[8] = args[10] = args[12] = 1;
  args[14] = Arg::pointer(1 << 20, Elem::F32, 0), args[15] = Arg::pointer(1 << 20, Elem::I32, 0);
  std::vector<Config> configs = tuning.configs;
  std::set<std::string> seen;
  for (const Config& config : configs) seen.insert(config.to_string());
  for (Config& config : divided)
    if (seen.insert(config.to_string()).second) configs.push_back(std::move(config));
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
    const ptrdiff_t at = &config - configs.data();
    const char* target = at & 1 && options.num_ctas == 1 ? "sm_80" : "sm_90a";
    // Passes may refuse a configuration, lowering refuses nothing that they let through, and PTX takes longest.
    const bool all = random_count(1) > 1, to_ptx = all || at % 32 < 2, lowered = to_ptx || at % 8 < 2;
    const std::vector<ArgType> types = kernel.classify(args, options);
    if (lowered) {
      EXPECT_NO_THROW(kernel.compile(types, options, target, !to_ptx)) << config.to_string();
    } else {
      Diagnostics diags;
      EXPECT_TRUE(lay_out(*kernel.tile_func(types, options, target), *find_target(target), diags))
          << config.to_string() << diags.render();
    }
  }
}

// Up to 64 rows: a tile for each multiprocessor, whatever the number of columns.
TEST(Gemm, FewRowsHaveTilesForAllMultiprocessors) {
  const Kernel kernel = library_program("gemm.py").kernel("gemm");
  const Autotune& tuning = *kernel.autotuning();
  for (const auto& [m, n, columns] : {std::tuple(33, 5120, 40), {64, 11008, 88}, {17, 14336, 112}}) {
    LaunchArgs args;
    args.set("M", int64_t(m)), args.set("N", int64_t(n)), args.set("K", int64_t(4096)), args.set("partials_ptr", {});
    args.set("stride_am", int64_t(4096)), args.set("stride_ak", int64_t(1));
    args.set("stride_bk", int64_t(1)), args.set("stride_bn", int64_t(4096));
    const std::vector<Config> left = tuning.prune(tuning.configs, args);
    EXPECT_TRUE(std::ranges::any_of(left, [&, columns = columns](const Config& c) { return c["BLOCK_N"] == columns; }))
        << m;
    // Clusters that share the rows of A, by K-steps of which each row of B is read for longer.
    EXPECT_TRUE(std::ranges::any_of(left, [&, rows = (m + 7) / 8 * 8](const Config& c) {
      return c["BLOCK_M"] == rows && c["BLOCK_K"] == 128 && c.num_ctas == 4;
    })) << m;
  }
}

// Where K is short or tiles are few: extents that leave least of the last round of tiles unused.
TEST(Gemm, TilesSuitTheMatrix) {
  const Kernel kernel = library_program("gemm.py").kernel("gemm");
  const Autotune& tuning = *kernel.autotuning();
  auto has = [&](std::tuple<int64_t, int64_t, int64_t> shape, auto expected, bool columns_of_b = true) {
    const auto [m, n, k] = shape;
    LaunchArgs args;
    args.set("M", m), args.set("N", n), args.set("K", k), args.set("partials_ptr", {});
    args.set("stride_am", k), args.set("stride_ak", int64_t(1));
    args.set("stride_bk", columns_of_b ? int64_t(1) : n), args.set("stride_bn", columns_of_b ? k : int64_t(1));
    return std::ranges::any_of(tuning.prune(tuning.configs, args), expected);
  };
  auto tile = [](int64_t rows, int64_t cols, bool swap, bool turns, int blocks) {
    return [=](const Config& c) {
      return c["BLOCK_M"] == rows && c["BLOCK_N"] == cols && c["SWAP"] == swap && c["TURNS"] == turns &&
             c.num_ctas.value_or(1) == blocks;
    };
  };
  EXPECT_TRUE(has({14400, 320, 320}, tile(128, 160, false, true, 1)));
  EXPECT_TRUE(has({14400, 320, 320}, tile(184, 64, true, true, 1)));
  EXPECT_TRUE(has({11272, 1024, 328}, tile(176, 256, true, true, 2)));
  EXPECT_TRUE(has({390, 10240, 1064}, tile(136, 1024, true, false, 4)));
  EXPECT_TRUE(has({430, 6144, 3200}, tile(88, 256, true, false, 1)));
  // Columns of a B whose rows lie side by side are 64 or a multiple of it.
  EXPECT_TRUE(has({14624, 152, 1264}, tile(512, 152, false, false, 4)));
  EXPECT_FALSE(has({14624, 152, 1264}, tile(512, 152, false, false, 4), false));
  EXPECT_TRUE(has({14624, 152, 1264}, tile(512, 192, false, false, 4), false));
}

// Few tiles run one on each multiprocessor, by code without a loop over programs; the same by text and by an epilogue
// in C++.
TEST(Gemm, LoopsOverProgramsWhereTilesAreMany) {
  const Kernel text = library_program("gemm.py").kernel("gemm");
  const auto typed = gemm_kernel("plain", [](Tile acc) { return acc; });
  for (const Kernel& kernel : {text, typed.kernel()})
    for (const auto& [m, n, few] : {std::tuple(256, 11008, true), {1024, 11008, false}}) {
      std::vector<Arg> args(16, 4096);
      for (int i : {0, 1, 2}) args[i] = Arg::pointer(1 << 20, Elem::F16, 0);
      for (int i : {3, 14, 15}) args[i] = nullptr;
      args[4] = m, args[5] = n, args[13] = m;
      const LaunchOptions found = kernel.with_first_config(args, {});
      EXPECT_EQ(found.program_loop, few ? 1 : 0) << m;
    }
}

TEST(Gemm, NothingToDo) {
  TestMatrix<float16> a(5, 8, 1);
  gemm(device(), Matrix<float16>(), Matrix<float16>(nullptr, 0, 8), Matrix<float16>(nullptr, 8, 0));
}

TEST(Gemm, RefusesWhatDoesNotFit) {
  TestMatrix<float16> a(5, 8, 1), b(9, 7, 2), c(5, 7, 3);
  EXPECT_EQ(message_of<LaunchError>([&] { gemm(device(), c.view(), a.view(), b.view()); }),
            "gemm: a is 5 x 8 and b is 9 x 7: 8 columns against 9 rows");
  EXPECT_EQ(message_of<LaunchError>([&] { gemm(device(), c.view(), a.view(), b.view(), {.transpose_b = true}); }),
            "gemm: a is 5 x 8 and b is 9 x 7, transposed: 8 columns against 7 rows");
  TestMatrix<float16> fitting(8, 7, 2), wrong(7, 5, 3);
  EXPECT_EQ(message_of<LaunchError>([&] { gemm(device(), wrong.view(), a.view(), fitting.view()); }),
            "gemm: out is 7 x 5, but a b is 5 x 7");
  EXPECT_EQ(message_of<LaunchError>([&] { gemm(device(), c.view(), a.view(), fitting.view(), {.bias = a.vector()}); }),
            "gemm: bias has 40 elements, but out is 5 x 7\n  hint: one element a column");
  TestMatrix<float16> square(8, 8, 1);
  EXPECT_EQ(message_of<LaunchError>([&] { gemm(device(), square.view(), square.view(), square.view()); }),
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
                       {"HAS_BIAS", false}, {"STREAM", false}, {"ATOMIC", false}, {"SHARES", 1},     {"TURNS", false}};
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
