// label: device
// Products of the library beyond gemm(), float8 with scales and groups of rows, against double precision: odd and tiny
// shapes, rows apart; what they refuse.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/kernels/gemm_support.h"
#include "tests/message_of.h"

namespace tegula::kernels {
namespace {

// ---- Float8 with scales

const std::uniform_real_distribution<float> scales(0.5, 2);

enum class Kind { Tensor, Rows, Blocks, BlocksAcross };

template <class A, class B, class Out>
void check_scaled(int64_t m, int64_t n, int64_t k, Kind kind, int64_t gap, bool promote, Activation activation) {
  SCOPED_TRACE(fmt::format("{} x {} x {}, kind {}, gap {}, promote {}", m, n, k, int(kind), gap, promote));
  const bool blocks = kind >= Kind::Blocks;
  const int64_t kb = (k + 127) / 128, nb = (n + 127) / 128;
  const TestMatrix<A> a(m, k, 1, gap);
  const TestMatrix<B> b(n, k, 2, gap);
  const int64_t sa_rows = kind == Kind::Tensor ? 1 : m, sb_rows = blocks ? nb : kind == Kind::Rows ? n : 1;
  const bool across = kind == Kind::BlocksAcross;
  const TestMatrix<float> sa =
      across ? TestMatrix<float>(kb, sa_rows, 3, 0, scales) : TestMatrix<float>(sa_rows, blocks ? kb : 1, 3, 0, scales);
  const TestMatrix<float> sb(sb_rows, blocks ? kb : 1, 4, 0, scales);
  const TestMatrix<Out> bias(1, n, 5), c(m, n, 6, gap);
  const Scales scale_a = across ? Scales::transposed(sa.view()) : blocks ? Scales(sa.view()) : Scales(sa.vector());
  const Scales scale_b = blocks ? Scales(sb.view()) : Scales(sb.vector());
  scaled_gemm(device(), c.view(), a.view(), b.view(), scale_a, scale_b,
              {.bias = bias.vector(), .epilogue = activation, .promote = promote});
  const double error = relative_error<Out>(c, [&](int64_t i, int64_t j) {
    double sum = bias(0, j);
    for (int64_t l = 0; l < k; ++l) {
      const int64_t ka = blocks ? l / 128 : 0;
      const double fa = across ? sa(ka, i) : sa(sa_rows == 1 ? 0 : i, ka);
      const double fb = sb(blocks ? j / 128 : sb_rows == 1 ? 0 : j, ka);
      sum += fa * a(i, l) * fb * b(j, l);
    }
    return activation == Activation::Relu ? std::max(sum, 0.0) : sum;
  });
  EXPECT_LE(error, sizeof(Out) == 2 ? 4e-3 : 5e-4);
}

TEST(ScaledGemm, KindsOfScalesAndShapes) {
  check_scaled<float8e4nv, float8e4nv, float>(70, 140, 300, Kind::Tensor, 0, true, Activation::None);
  check_scaled<float8e4nv, float8e4nv, bfloat16>(70, 140, 272, Kind::Rows, 16, true, Activation::Relu);
  check_scaled<float8e4nv, float8e5, float16>(5, 130, 257, Kind::Rows, 3, false, Activation::None);
  check_scaled<float8e4nv, float8e4nv, float>(70, 140, 300, Kind::Blocks, 0, true, Activation::None);
  check_scaled<float8e5, float8e4nv, bfloat16>(17, 200, 256, Kind::BlocksAcross, 16, true, Activation::Relu);
  check_scaled<float8e4nv, float8e4nv, float>(1, 1, 1, Kind::Rows, 0, true, Activation::None);
}

TEST(ScaledGemm, Refuses) {
  const TestMatrix<float8e4nv> a(8, 256, 1), b(16, 256, 2);
  const TestMatrix<float> c(8, 16, 3), three(3, 1, 4), eight(8, 1, 5), one(1, 1, 6), blocks(8, 2, 7);
  auto call = [&](const Scales& sa, const Scales& sb) {
    return message_of<LaunchError>([&] { scaled_gemm(device(), c.view(), a.view(), b.view(), sa, sb); });
  };
  const std::string hint =
      "but a b is 8 x 16 with 256 products each\n  hint: one scale a tensor (1 x 1), one a row of a (8 x 1) and column "
      "of b "
      "(1 x 16), or of blocks of 128 (8 x 2 and 2 x 1)";
  EXPECT_EQ(call(three.vector(), one.vector()), "scaled_gemm: scale_a is 3 x 1 and scale_b is 1 x 1, " + hint);
  EXPECT_EQ(call(eight.vector(), eight.vector()), "scaled_gemm: scale_a is 8 x 1 and scale_b is 1 x 8, " + hint);
  EXPECT_EQ(call(blocks.view(), one.vector()), "scaled_gemm: scale_a is 8 x 2 and scale_b is 1 x 1, " + hint);
}

// ---- Groups of rows

template <class In, class Out>
void check_grouped(const std::vector<int64_t>& counts, int64_t n, int64_t k, bool moved, int64_t gap) {
  SCOPED_TRACE(fmt::format("{} groups, {} x {}, moved {}, gap {}", counts.size(), n, k, moved, gap));
  const auto groups = int64_t(counts.size()), rows = std::accumulate(counts.begin(), counts.end(), int64_t(0));
  std::vector<int32_t> ends, group_of;
  for (int64_t g = 0; g < groups; ++g) {
    group_of.insert(group_of.end(), size_t(counts[size_t(g)]), int32_t(g));
    ends.push_back(int32_t(group_of.size()));
  }
  std::vector<int32_t> from(size_t(rows), 0), to(size_t(rows), 0);
  std::iota(from.begin(), from.end(), 0), std::iota(to.begin(), to.end(), 0);
  std::mt19937 random(1);
  if (moved) std::shuffle(from.begin(), from.end(), random), std::shuffle(to.begin(), to.end(), random);
  const TestMatrix<In> a(rows + (moved ? 3 : 0), k, 1, gap), b(groups * n, k, 2, gap);
  const TestMatrix<float> scale(rows, 1, 3, 0, scales);
  const TestMatrix<Out> c(rows, n, 4, gap);
  const Buffer d_ends(device(), ends), d_from(device(), from), d_to(device(), to);
  GroupedGemmOptions options{.epilogue = Activation::Relu};
  if (moved) {
    options.gather = Vector<int32_t>(d_from, rows);
    options.scatter = Vector<int32_t>(d_to, rows);
    options.scale = scale.vector();
  }
  grouped_gemm(device(), c.view(), a.view(), b.view(), Vector<int32_t>(d_ends, groups), options);
  std::vector<int64_t> row_of(size_t(rows), 0);
  for (int64_t i = 0; i < rows; ++i) row_of[size_t(to[size_t(i)])] = i;
  const double error = relative_error<Out>(c, [&](int64_t r, int64_t j) {
    const int64_t i = row_of[size_t(r)];
    double sum = 0;
    for (int64_t l = 0; l < k; ++l) sum += a(from[size_t(i)], l) * b(group_of[size_t(i)] * n + j, l);
    return std::max(sum, 0.0) * (moved ? scale(i, 0) : 1);
  });
  EXPECT_LE(error, sizeof(Out) == 4 ? 1e-5 : 4e-3);
}

TEST(GroupedGemm, RaggedGroups) {
  check_grouped<float16, float>({3, 0, 40, 17, 0, 1}, 96, 80, false, 0);
  check_grouped<bfloat16, bfloat16>({3, 0, 40, 17, 0, 1}, 96, 80, true, 8);
  check_grouped<float16, float16>({70, 130, 5}, 130, 100, true, 3);
  check_grouped<bfloat16, float>({1}, 1, 1, false, 0);
  check_grouped<float16, float>({0, 0, 9}, 33, 64, false, 0);
}

TEST(GroupedGemm, Refuses) {
  const TestMatrix<float16> a(8, 32, 1), b(15, 32, 2), even(16, 32, 2);
  const TestMatrix<float> c(8, 8, 3), short_c(7, 8, 3), scale(7, 1, 4);
  const Buffer ends(device(), std::vector<int32_t>{4, 8});
  const Vector<int32_t> two(ends, 2);
  EXPECT_EQ(message_of<LaunchError>([&] { grouped_gemm(device(), c.view(), a.view(), b.view(), two); }),
            "grouped_gemm: b has 15 rows for 2 groups\n  hint: the groups' matrices have equal shapes and lie below "
            "one another");
  EXPECT_EQ(
      message_of<LaunchError>([&] { grouped_gemm(device(), short_c.view(), a.view(), even.view(), two); }),
      "grouped_gemm: out has 7 rows, but the groups 8\n  hint: without scatter each row of a group is one of out");
  EXPECT_EQ(
      message_of<LaunchError>(
          [&] { grouped_gemm(device(), c.view(), a.view(), even.view(), two, {.scale = scale.vector()}); }),
      "grouped_gemm: a has 8 rows, but 7 rows are scattered or scaled\n  hint: without gather these are a's rows");
}

// ---- Which tiles are chosen from

std::vector<Config> fitting(const char* file, const char* name, const LaunchArgs& args) {
  const Kernel kernel = library_program(file).kernel(name);
  return kernel.autotuning()->prune(kernel.autotuning()->configs, args);
}

bool has_tile(const std::vector<Config>& configs, int64_t rows, int64_t cols, int blocks, int64_t programs) {
  return std::ranges::any_of(configs, [&](const Config& c) {
    return c["BLOCK_M"] == rows && c["BLOCK_N"] == cols && c.num_ctas.value_or(1) == blocks &&
           c["PROGRAMS"] == programs;
  });
}

TEST(BatchedGemm, ClustersTakeTilesInTurns) {
  const auto tiles = [](int64_t batch, int64_t m, int64_t n, int64_t k) {
    LaunchArgs args;
    args.set("batch", batch), args.set("M", m), args.set("N", n), args.set("K", k);
    args.set("a_stride_1", k), args.set("b_stride_2", int64_t(1));
    return fitting("batched_gemm.py", "batched_gemm", args);
  };
  EXPECT_TRUE(has_tile(tiles(24, 136, 1000, 824), 136, 512, 4, 1));
  EXPECT_TRUE(has_tile(tiles(64, 1360, 760, 224), 256, 128, 2, 1));
  EXPECT_FALSE(has_tile(tiles(64, 100, 100, 224), 104, 512, 4, 1)) << "more blocks than columns";
}

// Weights of few bits: tiles of the rows that there are, of more than 64; of fewer those of their class.
TEST(QuantisedGemm, TilesHaveTheRowsThatThereAre) {
  const auto tiles = [](int64_t m, int64_t n, int64_t k) {
    LaunchArgs args;
    args.set("M", m), args.set("N", n), args.set("K", k), args.set("GROUP", int64_t(0));
    args.set("a_ptr", PointerArg{Elem::F16, 16}), args.set("b_ptr", PointerArg{Elem::I8, 16});
    args.set("scales_ptr", PointerArg{Elem::F16, 16});
    return fitting("quantised_gemm.py", "quantised_gemm", args);
  };
  EXPECT_TRUE(has_tile(tiles(100, 3072, 3072), 104, 64, 1, 1));
  EXPECT_TRUE(has_tile(tiles(777, 4096, 11008), 200, 128, 1, 0));
  EXPECT_TRUE(has_tile(tiles(40, 4096, 4096), 48, 64, 1, 1));
}

}  // namespace
}  // namespace tegula::kernels
