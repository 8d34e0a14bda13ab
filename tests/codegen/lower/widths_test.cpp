// label: device
// Tiles whose extents are q * 2^k: elementwise ops, reductions, shapes and products, and what is said of other extents.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "codegen/exec/emulator.h"
#include "dsl/tegula.h"
#include "runtime/base/float16.h"
#include "tests/devices.h"

namespace tegula {
namespace {

const Devices& devices() {
  static const Devices all = gpu_or_emulators({{.target = "sm_80"}, {.target = "sm_90a"}});
  return all;
}

Program& program() {
  static Program p = Program::load(TEGULA_SOURCE_DIR "/tests/kernels/widths.py");
  return p;
}

void check_statistics(Device& device, int block_m, int block_n, int m, int n, int num_warps) {
  SCOPED_TRACE(fmt::format("{}: {} x {} in {} x {}, {} warps", device.info().name, m, n, block_m, block_n, num_warps));
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> x(size_t(m) * n);
  for (float& v : x) v = normal(random);
  std::vector<double> softmax(x.size()), transposed(x.size()), columns(n), numbers(5);
  float largest = -INFINITY;
  for (int i = 0; i < m; ++i) {
    double total = 0;
    for (int j = 0; j < n; ++j) total += std::exp(double(x[size_t(i) * n + j]));
    for (int j = 0; j < n; ++j) {
      double y = std::exp(double(x[size_t(i) * n + j])) / total;
      softmax[size_t(i) * n + j] = transposed[size_t(j) * m + i] = y;
      columns[j] += y, numbers[0] += y;
      numbers[2 + (int64_t(i) * block_n + j) / (block_m * block_n / 3)] += y;
      if (x[size_t(i) * n + j] > largest) largest = x[size_t(i) * n + j], numbers[1] = double(i) * block_n + j;
    }
  }
  Buffer dx(device, x), ds(device, x.size() * 4), dt(device, x.size() * 4), dc(device, n * 4), dn(device, 5 * 4);
  program()
      .kernel("statistics")
      .launch(device, {1}, {.constexprs = {{"BM", block_m}, {"BN", block_n}}, .num_warps = num_warps}, dx.as<float>(),
              ds.as<float>(), dt.as<float>(), dc.as<float>(), dn.as<float>(), m, n);
  auto compare = [](const char* what, const std::vector<float>& found, const std::vector<double>& exact) {
    double worst = 0;
    for (size_t i = 0; i < exact.size(); ++i)
      worst = std::max(worst, std::fabs(found[i] - exact[i]) / std::max(1e-6, std::fabs(exact[i])));
    EXPECT_LE(worst, 1e-5) << what;
  };
  compare("softmax", ds.download<float>(), softmax);
  compare("transposed", dt.download<float>(), transposed);
  compare("sums of columns", dc.download<float>(), columns);
  compare("numbers", dn.download<float>(), numbers);
}

TEST(Widths, RowsAndColumns) {
  for (auto& device : devices()) {
    check_statistics(*device, 96, 192, 96, 192, 4);
    check_statistics(*device, 96, 192, 77, 150, 8);
    check_statistics(*device, 12, 224, 10, 224, 1);
    check_statistics(*device, 48, 20, 48, 20, 2);
    check_statistics(*device, 3, 64, 3, 50, 4);
    check_statistics(*device, 16, 192, 16, 190, 16);
    check_statistics(*device, 15, 3, 15, 3, 4);
    check_statistics(*device, 6, 272, 5, 270, 4);
    check_statistics(*device, 24, 29, 20, 29, 2);
  }
}

// Accesses are as wide, and masks as coarse, as the numbers of the rows allow.
TEST(Widths, RowsOfOddNumbers) {
  for (auto& device : devices())
    for (auto [rows, columns] : {std::pair{3, 64}, {6, 32}, {12, 48}, {5, 128}, {31, 16}}) {
      SCOPED_TRACE(fmt::format("{}: {} x {}", device->info().name, rows, columns));
      const int n = 5;
      std::vector<int32_t> x(size_t(rows) * 17 + columns), exact;
      for (size_t i = 0; i < x.size(); ++i) x[i] = int32_t(i);
      for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j) exact.push_back(j < i * n ? i * 17 + j : -1);
      Buffer dx(*device, x), dy(*device, exact.size() * 4);
      program().kernel("slanted").launch(*device, {1},
                                         {.constexprs = {{"ROWS", rows}, {"COLUMNS", columns}}, .num_warps = 1},
                                         dx.as<int32_t>(), dy.as<int32_t>(), n);
      EXPECT_EQ(dy.download<int32_t>(), exact);
    }
}

TEST(Widths, Shapes) {
  for (auto& device : devices())
    for (auto [a, b, c] :
         {std::array{3, 4, 16}, {4, 6, 8}, {5, 3, 8}, {64, 3, 2}, {2, 7, 32}, {3, 5, 1}, {16, 12, 8}, {17, 4, 8}})
      for (int num_warps : {1, 4}) {
        SCOPED_TRACE(fmt::format("{}: {} x {} x {}, {} warps", device->info().name, a, b, c, num_warps));
        std::vector<int32_t> x(size_t(a) * b * c);
        for (size_t i = 0; i < x.size(); ++i) x[i] = int32_t(i) * 7 % 1001;
        Buffer dx(*device, x), dy(*device, x.size() * 4);
        program().kernel("shapes").launch(*device, {1},
                                          {.constexprs = {{"A", a}, {"B", b}, {"C", c}}, .num_warps = num_warps},
                                          dx.as<int32_t>(), dy.as<int32_t>());
        std::vector<int32_t> y = dy.download<int32_t>();
        int wrong = 0;
        for (size_t i = 0; i < x.size(); ++i) wrong += y[i] != 2 * x[i] + int32_t(i / size_t(c)) % b;
        EXPECT_EQ(wrong, 0);
      }
}

// Columns in blocks of eight: as many rows of a swizzle pattern, of which K may take several.
TEST(Widths, ColumnsOfProducts) {
  for (auto& device : devices())
    for (auto [m, n, k] : {std::array{64, 24, 128}, {64, 40, 64}, {128, 72, 256}, {64, 8, 128}, {80, 56, 96}}) {
      SCOPED_TRACE(fmt::format("{}: {} x {} x {}", device->info().name, m, n, k));
      std::vector<float16> a, b;
      for (int i = 0; i < m * k; ++i) a.push_back(float16(float(i * 7 % 31 % 5 - 2)));
      for (int i = 0; i < k * n; ++i) b.push_back(float16(float(i * 5 % 29 % 7 - 3)));
      std::vector<float> exact(size_t(m) * n);
      for (int i = 0; i < m * k; ++i)
        for (int j = 0; j < n; ++j) exact[size_t(i / k) * n + j] += float(a[i]) * float(b[size_t(i % k) * n + j]);
      Buffer da(*device, a), db(*device, b), dc(*device, exact.size() * 4);
      program().kernel("product").launch(*device, {1}, {.constexprs = {{"M", m}, {"N", n}, {"K", k}}}, da.as<float16>(),
                                         db.as<float16>(), dc.as<float>());
      EXPECT_EQ(dc.download<float>(), exact);
    }
}

}  // namespace
}  // namespace tegula
