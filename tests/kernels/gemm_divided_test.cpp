// label: device
// heavy: GemmDivided.TilesOfTwoBlocks GemmDivided.ShapesAndTypes GemmStreamed.HasTheBitsOfWholeTiles
// Products of the kernel library whose K is divided, shared by clusters or streamed, against double precision.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "codegen/exec/emulator.h"
#include "codegen/target/target.h"
#include "kernels/gemm_kernel.h"
#include "kernels/kernels.h"
#include "kernels/library.h"
#include "runtime/driver/driver.h"
#include "runtime/stream.h"
#include "runtime/workspace.h"
#include "tests/kernels/gemm_support.h"

namespace tegula::kernels {
namespace {

/// A tile, and how K is divided or programs share tiles.
struct Division {
  int64_t m, n, k;
  int splits = 1;
  int64_t parts = 0;
  bool swap = false;
  int warps = 4;
  bool atomic = false;
  int64_t programs = 0;  ///< that share all K-steps evenly; 0: K is divided
  int shares = 1;        ///< of K, each of a block of a cluster; where K is divided: whose sums are loaded at a time
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
  how.num_ctas = d.parts > 0 ? d.blocks : d.shares * d.blocks;
  const std::pair<const char*, int64_t> blocks[] = {{"BLOCK_M", d.m}, {"BLOCK_N", d.n}, {"BLOCK_K", d.k},
                                                    {"GROUP_M", 8},   {"PROGRAMS", 1},  {"PARTS", d.parts}};
  for (const auto& [name, value] : blocks) how.constexprs.emplace_back(name, value);
  how.constexprs.emplace_back("SWAP", d.swap);
  how.constexprs.emplace_back("STREAM", d.programs > 0);
  how.constexprs.emplace_back("ATOMIC", d.atomic);
  how.constexprs.emplace_back("SHARES", d.shares);
  how.constexprs.emplace_back("TURNS", false);
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
      {{33, 40, 100, 3}, {16, 32, 32, 3, 4}},
      {{20, 70, 333}, {16, 32, 32, 5, 2}},
      {{16, 32, 64}, {16, 32, 32, 7, 16}},
      {{64, 64, 160}, {64, 64, 32, 2, 1}},
      {{50, 96, 200}, {64, 64, 64, 3, 8}},
      {{10, 130, 96, 1}, {16, 64, 32, 2, 4, true}},
      {{90, 64, 130}, {96, 64, 32, 4, 32, true}},
      {{40, 40, 31}, {32, 32, 32, 1, 2}},
      {{33, 90, 200}, {64, 40, 64, 1, 1}},
      {{100, 70, 500, 1}, {.m = 56, .n = 64, .k = 32, .splits = 5, .parts = 3, .swap = true, .shares = 2}},
      {{70, 100, 200}, {.m = 64, .n = 40, .k = 32, .splits = 3, .parts = 2, .shares = 4}}};
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
      {{40, 136, 200, 8}, {.m = 48, .n = 128, .k = 32, .splits = 2, .parts = 4, .swap = true, .blocks = 2}},
      {{50, 300, 300}, {.m = 40, .n = 256, .k = 32, .splits = 3, .parts = 2, .swap = true, .shares = 2, .blocks = 2}},
      {{33, 200, 200, 8}, {.m = 64, .n = 80, .k = 64, .splits = 1, .parts = 1, .blocks = 2}}};
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
      auto run = [&, &division = division](int64_t programs) {
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

}  // namespace
}  // namespace tegula::kernels
