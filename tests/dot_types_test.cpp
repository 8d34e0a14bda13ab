// label: device
// Dots of every type and extent against sums in double.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "codegen/exec/emulator.h"
#include "dsl/tegula.h"
#include "runtime/base/float8.h"

namespace tegula {
namespace {

std::vector<std::shared_ptr<Device>> devices() {
  static const auto all = [] {
    std::vector<std::shared_ptr<Device>> list{default_device()};
    if (list[0]->info().emulator) {
      list.clear();
      for (const char* target : {"sm_80", "sm_90a"}) list.emplace_back(make_emulator({.target = target}));
    }
    return list;
  }();
  return all;
}

Program& program() {
  static Program p = Program::load(TEGULA_SOURCE_DIR "/tests/kernels/dot_types.py");
  return p;
}

template <class T>
std::vector<T> random_values(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, std::is_integral_v<T> ? 40 : 1);
  std::vector<T> values(count);
  for (T& v : values) {
    const float x = normal(random);
    if constexpr (std::is_integral_v<T>)
      v = T(int(x));
    else
      v = T(x);
  }
  return values;
}

template <class T>
double number(T x) {
  if constexpr (std::is_integral_v<T> || std::is_same_v<T, double>)
    return double(x);
  else
    return double(float(x));
}

struct Extents {
  int batch, m, n, k;
};

template <class In, class Sum>
void expect_near(const std::vector<Sum>& found, const std::vector<double>& exact, double tolerance) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    difference += (number(found[i]) - exact[i]) * (number(found[i]) - exact[i]);
    norm += exact[i] * exact[i];
  }
  EXPECT_LE(std::sqrt(difference / norm), tolerance);
}

template <class In, class Sum, class Other = In>
void check(const Extents& e, Elem out, double tolerance) {
  for (auto& device : devices())
    for (int num_warps : {1, 4}) {
      SCOPED_TRACE(fmt::format("{}: {} x ({} x {} x {}) of {} bytes, {} warps", device->info().name, e.batch, e.m, e.n,
                               e.k, sizeof(In), num_warps));
      auto a = random_values<In>(size_t(e.batch) * e.m * e.k, 1),
           b = random_values<Other>(size_t(e.batch) * e.k * e.n, 2);
      auto c = random_values<Sum>(size_t(e.batch) * e.m * e.n, 3);
      std::vector<double> exact;
      for (int i = 0; i < e.batch; ++i)
        for (int m = 0; m < e.m; ++m)
          for (int n = 0; n < e.n; ++n) {
            double sum = number(c[exact.size()]);
            for (int k = 0; k < e.k; ++k)
              sum += number(a[(size_t(i) * e.m + m) * e.k + k]) * number(b[(size_t(i) * e.k + k) * e.n + n]);
            exact.push_back(sum);
          }
      Buffer da(*device, a), db(*device, b), dc(*device, c);
      program().kernel("product").launch(
          *device, {1},
          {.constexprs = {{"BATCH", e.batch}, {"M", e.m}, {"N", e.n}, {"K", e.k}, {"OUT", out}},
           .num_warps = num_warps},
          da.as<In>(), db.as<Other>(), dc.as<Sum>());
      expect_near<In>(dc.download<Sum>(), exact, tolerance);
    }
}

// Below the matrix instruction's extents in every direction, and batches.
TEST(DotTypes, TensorCores) {
  for (const Extents& e : {Extents{1, 1, 32, 64},
                           {1, 2, 8, 16},
                           {1, 4, 16, 8},
                           {1, 8, 4, 4},
                           {1, 16, 2, 2},
                           {1, 1, 1, 1},
                           {1, 32, 1, 32},
                           {4, 16, 16, 16},
                           {2, 4, 32, 32},
                           {2, 64, 32, 2}}) {
    check<float16, float>(e, Elem::F32, 1e-6);
    check<bfloat16, float>(e, Elem::F32, 1e-6);
    check<float8e4nv, float>(e, Elem::F32, 1e-6);
    check<float8e5, float, float8e4nv>(e, Elem::F32, 1e-6);
  }
}

TEST(DotTypes, Elementwise) {
  for (const Extents& e : {Extents{1, 16, 16, 16}, {1, 1, 32, 8}, {1, 32, 64, 16}, {4, 8, 4, 16}, {1, 1, 1, 1}}) {
    check<float16, float16>(e, Elem::F16, 4e-4);
    check<float8e4nv, float16, float8e5>(e, Elem::F16, 4e-4);
    check<float, float>(e, Elem::F32, 5e-7);
    check<double, double>(e, Elem::F64, 1e-15);
    check<int8_t, int32_t>(e, Elem::I32, 0);
    check<uint8_t, int32_t>(e, Elem::I32, 0);
  }
}

// Operands in a pipelined loop, the second one transposed.
template <class In, class Sum>
void check_long(int m, int n, int block_k, Elem zero, double tolerance) {
  const int k = 4096;
  for (auto& device : devices()) {
    SCOPED_TRACE(fmt::format("{}: {} x {}, steps of {}, {} bytes", device->info().name, m, n, block_k, sizeof(In)));
    auto a = random_values<In>(size_t(m) * k, 1), b = random_values<In>(size_t(n) * k, 2);
    std::vector<double> exact;
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) {
        double sum = 0;
        for (int l = 0; l < k; ++l) sum += number(a[size_t(i) * k + l]) * number(b[size_t(j) * k + l]);
        exact.push_back(sum);
      }
    Buffer da(*device, a), db(*device, b), dc(*device, exact.size() * sizeof(Sum));
    program()
        .kernel("long_product")
        .launch(*device, {1},
                {.constexprs = {{"M", m}, {"N", n}, {"BLOCK_K", block_k}, {"ZERO", zero}}, .num_warps = 4}, da.as<In>(),
                db.as<In>(), dc.as<Sum>(), k);
    expect_near<In>(dc.download<Sum>(), exact, tolerance);
  }
}

TEST(DotTypes, LongSums) {
  for (int m : {1, 8, 32}) {
    check_long<float16, float>(m, 32, 64, Elem::F32, 4e-4);
    check_long<bfloat16, float>(m, 16, 32, Elem::F32, 3e-3);
    check_long<float8e4nv, float>(m, 32, 64, Elem::F32, 1e-5);
    check_long<float8e5, float>(m, 32, 128, Elem::F32, 1e-5);
    check_long<float, float>(m, 32, 32, Elem::F32, 2e-6);
    check_long<double, double>(m, 16, 16, Elem::F64, 1e-14);
    check_long<int8_t, int32_t>(m, 16, 32, Elem::I32, 0);
  }
}

}  // namespace
}  // namespace tegula
