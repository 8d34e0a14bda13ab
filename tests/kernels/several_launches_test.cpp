// label: device
// Entries of several launches, which leave data for each other in the stream's workspace, called by threads on one
// stream.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/kernels/gemm_support.h"

namespace tegula::kernels {
namespace {

/// Calls check(number of the thread) in several threads at a time.
template <class Check>
void by_threads(const Check& check) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([&, i] { check(i); });
  for (std::thread& t : threads) t.join();
}

TEST(SeveralLaunches, SortsByThreads) {
  constexpr int64_t kCols = 20000;
  by_threads([](int thread) {
    const TestMatrix<float> x(1, kCols, unsigned(thread));
    const TestMatrix<float> values(1, kCols, 9);
    std::vector<float> sorted = x.host;
    std::sort(sorted.begin(), sorted.end());
    for (int time = 0; time < 2; ++time) {
      sort_rows(device(), values.view(), Matrix<int32_t>(), x.view());
      EXPECT_EQ(values.buffer.download<float>(), sorted) << "thread " << thread << ", call " << time;
    }
  });
}

TEST(SeveralLaunches, SumsByIndexByThreads) {
  constexpr int64_t kRows = 3000, kCols = 8, kTable = 1500;
  by_threads([](int thread) {
    const TestMatrix<float> x(kRows, kCols, unsigned(thread)), table(kTable, kCols, 9);
    std::vector<int32_t> index(kRows);
    std::vector<double> exact(kTable * kCols);
    for (int64_t r = 0; r < kRows; ++r) {
      index[size_t(r)] = int32_t((r * 7 + thread) % kTable);
      for (int64_t c = 0; c < kCols; ++c) exact[size_t(index[size_t(r)] * kCols + c)] += x(r, c);
    }
    const Buffer indices(device(), index);
    for (int time = 0; time < 3; ++time) {
      embedding_backward(device(), table.view(), x.view(), Vector<int32_t>(indices, kRows));
      const double error =
          relative_error<float>(table, [&](int64_t r, int64_t c) { return exact[size_t(r * kCols + c)]; });
      EXPECT_LE(error, 1e-6) << "thread " << thread << ", call " << time;
    }
  });
}

}  // namespace
}  // namespace tegula::kernels
