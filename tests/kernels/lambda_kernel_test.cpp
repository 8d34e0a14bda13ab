// label: device
// heavy: RowKernel.ResidualNormQuantise
// Kernels that the library makes of C++ functions, elementwise and on whole rows, against double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "codegen/exec/emulator.h"
#include "dsl/tegula.h"
#include "kernels/kernels.h"
#include "tests/message_of.h"

namespace tegula::kernels {
namespace {

/// Another device than the default one, for the tests of a scope.
Device* other_device = nullptr;

Device& device() {
  static Device* const found = default_device();
  return other_device ? *other_device : *found;
}

/// Numbers between -2 and 2 that are exact in 16 bits.
template <class T>
std::vector<T> numbers(size_t count, unsigned seed = 1) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = T(float(int((i * 37 + seed * 101) % 129) - 64) / 32);
  return values;
}

/// A tensor with its memory, whose elements lie by strides of its own; `offset` elements stand in front.
template <class T>
struct Strided {
  Strided(std::vector<int64_t> shape, std::vector<int64_t> strides, unsigned seed = 1, int64_t offset = 0)
      : shape(std::move(shape)), strides(std::move(strides)), offset(offset) {
    int64_t last = offset;
    for (size_t d = 0; d < this->shape.size(); ++d) last += (this->shape[d] - 1) * this->strides[d];
    host = numbers<T>(size_t(last + 1), seed);
    buffer = Buffer(device(), host);
  }
  static Strided contiguous(std::vector<int64_t> shape, unsigned seed = 1) {
    std::vector<int64_t> strides(shape.size(), 1);
    for (size_t d = shape.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * shape[d];
    return Strided(std::move(shape), std::move(strides), seed);
  }
  operator Tensor() const {
    Tensor t;
    t.address = buffer.address() + uint64_t(offset) * sizeof(T);
    t.elem = *elem_of<T>();
    t.rank = int(shape.size());
    std::copy(shape.begin(), shape.end(), t.shape.begin());
    std::copy(strides.begin(), strides.end(), t.strides.begin());
    return t;
  }
  int64_t at(const std::vector<int64_t>& index) const {
    int64_t place = offset;
    for (size_t d = 0; d < shape.size(); ++d) {
      const int64_t i = index[index.size() - shape.size() + d];
      place += (shape[d] == 1 ? 0 : i) * strides[d];
    }
    return place;
  }
  double value(const std::vector<int64_t>& index) const { return float(host[size_t(at(index))]); }

  std::vector<int64_t> shape, strides;
  int64_t offset;
  std::vector<T> host;
  Buffer buffer;
};

/// Calls f with each index of a shape.
void for_each(const std::vector<int64_t>& shape, const std::function<void(const std::vector<int64_t>&)>& f) {
  std::vector<int64_t> index(shape.size(), 0);
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    for (size_t d = shape.size(); d-- > 0;) index[d] = rest % shape[d], rest /= shape[d];
    f(index);
  }
}

/// Each element of `out` is as `exact` says, and what lies between them is as it was.
template <class T>
void expect_values(const Strided<T>& out, const std::function<double(const std::vector<int64_t>&)>& exact,
                   double tolerance) {
  const std::vector<T> now = out.buffer.template download<T>();
  std::vector<bool> written(now.size());
  int wrong = 0;
  for_each(out.shape, [&](const std::vector<int64_t>& index) {
    const size_t at = size_t(out.at(index));
    written[at] = true;
    const double found = float(now[at]), expected = exact(index);
    if (!(std::abs(found - expected) <= tolerance * std::max(1.0, std::abs(expected))) && wrong++ < 3)
      ADD_FAILURE() << "element " << at << " is " << found << ", expected " << expected;
  });
  for (size_t i = 0; i < now.size(); ++i)
    if (!written[i] && float(now[i]) != float(out.host[i])) ADD_FAILURE() << "written beside the tensor, at " << i;
}

const auto gated = elementwise_kernel("gated", [](Tile x, Tile y) { return silu(x) * y; });
double gated_exact(double x, double y) { return x / (1 + std::exp(-x)) * y; }

TEST(ElementwiseKernel, ContiguousTensorsOfAnyShape) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{1}, {7}, {3, 5}, {2, 3, 5, 7}, {1, 1, 1, 1, 2}, {4, 1030}}) {
    auto x = Strided<float>::contiguous(shape, 1), y = Strided<float>::contiguous(shape, 2);
    auto out = Strided<float>::contiguous(shape, 3);
    gated.launch(device(), out, {x, y});
    expect_values<float>(
        out, [&](auto& i) { return gated_exact(x.value(i), y.value(i)); }, 1e-6);
  }
}

TEST(ElementwiseKernel, BroadcastsAndStrides) {
  auto column = Strided<float>::contiguous({33, 1}, 1), row = Strided<float>::contiguous({70}, 2);
  Strided<float> out({33, 70}, {80, 1}, 3);
  gated.launch(device(), out, {column, row});
  expect_values<float>(
      out, [&](auto& i) { return gated_exact(column.value(i), row.value(i)); }, 1e-6);

  auto one = Strided<float>::contiguous({1}, 5);
  Strided<bfloat16> halves({2, 6, 10}, {200, 20, 2}, 4, 3), result({2, 6, 10}, {60, 10, 1}, 6);
  gated.launch(device(), result, {halves, one});
  expect_values<bfloat16>(
      result, [&](auto& i) { return gated_exact(halves.value(i), one.value(i)); }, 4e-3);
}

// More rows than the second axis of a grid has programs.
TEST(ElementwiseKernel, ManyRows) {
  Strided<float> x({66000, 40}, {41, 1}, 1), out({66000, 40}, {42, 1}, 2);
  gated.launch(device(), out, {x, x});
  expect_values<float>(
      out, [&](auto& i) { return gated_exact(x.value(i), x.value(i)); }, 1e-6);
}

TEST(ElementwiseKernel, TransposedViews) {
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{70, 45}, {64, 64}, {1, 9}, {130, 3}}) {
    Strided<bfloat16> x({m, n}, {1, m}, 1), out({m, n}, {n, 1}, 3);
    auto y = Strided<bfloat16>::contiguous({m, n}, 2);
    gated.launch(device(), out, {x, y});
    expect_values<bfloat16>(
        out, [&](auto& i) { return gated_exact(x.value(i), y.value(i)); }, 4e-3);
  }
  // Extents 0 and 2 changed places: batches of both sides.
  Strided<float> x({5, 3, 40}, {1, 5, 15}, 1), y({5, 3, 40}, {120, 40, 1}, 2), out({5, 3, 40}, {120, 40, 1}, 3);
  gated.launch(device(), out, {x, y});
  expect_values<float>(
      out, [&](auto& i) { return gated_exact(x.value(i), y.value(i)); }, 1e-6);
}

TEST(ElementwiseKernel, SeveralOutputsInPlaceWithParameters) {
  const auto step = elementwise_kernel("step", [](Tile x, Tile m, Float<"rate"> rate, Ptr<"clip", float> clip) {
    Tile next = 0.5f * m + x * load(clip);
    return std::array{x - rate * next, next};
  });
  auto x = Strided<float>::contiguous({6, 700}, 1), m = Strided<float>::contiguous({6, 700}, 2);
  Buffer clip(device(), std::vector<float>{0.25f});
  step.launch(device(), {x, m}, {x, m}, nullptr, 0.125f, clip.as<float>());
  auto next = [&](auto& i) { return 0.5 * m.value(i) + 0.25 * x.value(i); };
  expect_values<float>(
      x, [&](auto& i) { return x.value(i) - 0.125 * next(i); }, 1e-6);
  expect_values<float>(m, next, 1e-6);
}

TEST(ElementwiseKernel, NumbersOfElements) {
  const auto numbered = elementwise_kernel(
      "numbered", [](const ElementTile& at, Tile x) { return at.number.to(tl::int32) * 10 + x.to(tl::int32); });
  for (const std::vector<int64_t>& strides : {std::vector<int64_t>{12, 4, 1}, {1, 10, 30}}) {
    Strided<int32_t> x({2, 3, 4}, {12, 4, 1}, 1), out({2, 3, 4}, strides, 3);
    numbered.launch(device(), out, x);
    expect_values<int32_t>(
        out, [&](auto& i) { return (i[0] * 12 + i[1] * 4 + i[2]) * 10 + x.value(i); }, 0);
  }
}

TEST(ElementwiseKernel, ConvertsResults) {
  const auto doubled = elementwise_kernel("doubled", [](Tile x) { return x * 2.0f; });
  Buffer in(device(), std::vector<float>{0.25f, 0.75f, -0.75f, 1000, -1000, 63.4f});
  Buffer bytes(device(), std::vector<int8_t>(6)), unsigned_bytes(device(), std::vector<uint8_t>(6));
  doubled.launch(device(), Vector<int8_t>(bytes, 6), Vector<float>(in, 6));
  EXPECT_EQ(bytes.download<int8_t>(), (std::vector<int8_t>{0, 2, -2, 127, -128, 127}));
  doubled.launch(device(), Vector<uint8_t>(unsigned_bytes, 6), Vector<float>(in, 6));
  EXPECT_EQ(unsigned_bytes.download<uint8_t>(), (std::vector<uint8_t>{0, 2, 0, 255, 0, 127}));
}

TEST(ElementwiseKernel, RefusesWhatDoesNotFit) {
  Buffer memory(device(), std::vector<float>(100));
  const Matrix<float> out(memory, 4, 5), x(memory.as<float>() + 50, 4, 6), y(memory.as<float>() + 50, 4, 5);
  const std::string hint = "\n  hint: extents, the last ones under each other, are equal, or 1 in an input";
  auto launch = [&](const Tensor& result, const Tensor& first, const Tensor& second) {
    return message_of([&] { gated.launch(device(), result, {first, second}); });
  };
  EXPECT_EQ(launch(out, y, x), "gated: input 1 is 4 x 6, but output 0 is 4 x 5" + hint);
  EXPECT_EQ(launch(out, y, Tensor()), "gated: input 1 is not given");
  EXPECT_EQ(launch(Tensor(out.data, {1}), y, y), "gated: output 0 has 1 elements, but input 0 is 4 x 5" + hint);
  EXPECT_EQ(launch(out, Matrix<float>(memory, 4, 5, 6), y),
            "gated: output 0 is input 0 in place, which needs equal types, shapes and strides");
  Tensor repeated = out;
  repeated.strides = {0, 1};
  EXPECT_EQ(launch(repeated, y, y), "gated: output 0 has several places in one element");
  Tensor backwards = y;
  backwards.strides = {-5, 1};
  EXPECT_EQ(launch(out, backwards, y), "gated: input 0 has the negative stride -5");
  Tensor nowhere = y;
  nowhere.address = 0;
  EXPECT_EQ(launch(out, y, nowhere), "gated: input 1 has no address");
  EXPECT_EQ(launch(Matrix<float>(memory, 0, 5), Matrix<float>(memory, 0, 5), Tensor(y.data, {5})), "no error");
}

// A GPU tunes, so that the error is told of each configuration; without one the first configuration's is thrown.
void expect_compile_error(const std::string& found, const std::string& expected) {
  if (device().info().emulator) {
    EXPECT_EQ(found, expected);
  } else {
    EXPECT_NE(found.find(expected.substr(0, expected.find('\n'))), std::string::npos) << found;
  }
}

TEST(ElementwiseKernel, TellsWhatTheFunctionGives) {
  const auto wrong = elementwise_kernel(
      "wrong", [](Tile x) { return sum(x, 1); }, "user.cpp", 12);
  Buffer memory(device(), std::vector<float>(64));
  const Vector<float> x(memory, 64);
  expect_compile_error(
      message_of([&] { wrong.launch(device(), x, x); }),
      "user.cpp:12: error: the function of 'wrong' gives tile of [1] float32, expected tiles of its inputs' shape: "
      "[1, 64]\n  hint: it maps elements; what a whole row gives, such as a sum, takes row_kernel()\n"
      "  see docs/cpp.md\n");
}

// ---- Whole rows

constexpr float kEps = 1e-5f;

/// A residual, a norm, a weight, and the quantisation of the result by a scale for each row.
const auto norm_quantise = row_kernel("norm_quantise", [](const RowTile& row, Tile x, Tile residual, Tile weight) {
  Tile h = x + residual;
  Tile y = h * rsqrt(row.mean(h * h) + kEps) * weight;
  Tile scale = row.max(abs(y)) / 127.0f;
  return std::array{y / scale, h, scale};
});

TEST(RowKernel, ResidualNormQuantise) {
  for (const auto& [rows, cols] :
       {std::pair<int64_t, int64_t>{1, 1}, {5, 3}, {3, 781}, {37, 64}, {2, 4096}, {1, 40000}}) {
    auto x = Strided<float>::contiguous({rows, cols}, 1), r = Strided<float>::contiguous({rows, cols}, 2);
    auto weight = Strided<float>::contiguous({cols}, 3), scales = Strided<float>::contiguous({rows, 1}, 4);
    auto q = Strided<int8_t>::contiguous({rows, cols});
    std::vector<double> factor(size_t(rows), 0), most(size_t(rows), 0);
    auto h = [&](auto& i) { return x.value(i) + r.value(i); };
    for_each(x.shape, [&, cols = double(cols)](auto& i) { factor[size_t(i[0])] += h(i) * h(i) / cols; });
    for (double& f : factor) f = 1 / std::sqrt(f + kEps);
    auto y = [&](auto& i) { return h(i) * factor[size_t(i[0])] * weight.value(i); };
    for_each(x.shape, [&](auto& i) { most[size_t(i[0])] = std::max(most[size_t(i[0])], std::abs(y(i))); });
    norm_quantise.launch(device(), {q, r, scales}, {x, r, weight});
    expect_values<float>(r, h, 1e-6);
    expect_values<float>(
        scales, [&](auto& i) { return most[size_t(i[0])] / 127; }, 1e-5);
    const std::vector<int8_t> found = q.buffer.download<int8_t>();
    for_each(x.shape, [&](auto& i) {
      EXPECT_NEAR(found[size_t(q.at(i))], y(i) / most[size_t(i[0])] * 127, 0.501) << i[0] << ", " << i[1];
    });
  }
}

/// What a block of a diffusion transformer does between two products: h = x + gate branch, its LayerNorm modulated by a
/// scale and a shift for each image, and the result quantised to float8.
const auto modulate =
    row_kernel("modulate", [](const RowTile& row, Tile x, Tile branch, Tile gate, Tile scale, Tile shift) {
      Tile h = x + gate * branch;
      Tile centered = h - row.mean(h);
      Tile y = centered * rsqrt(row.mean(centered * centered) + kEps) * (1.0f + scale) + shift;
      Tile most = maximum(row.max(abs(y)) / 448.0f, 1e-12f);
      return std::array{y / most, h, most};
    });

TEST(RowKernel, GateResidualNormModulationQuantise) {
  const int64_t batch = 2, tokens = 3;
  for (int64_t cols : {96, 1000}) {
    auto x = Strided<bfloat16>::contiguous({batch, tokens, cols}, 1),
         branch = Strided<bfloat16>::contiguous({batch, tokens, cols}, 2);
    const std::vector<int64_t> each{batch, 1, cols};
    auto modulation = Strided<float>::contiguous(each, 5), shift = Strided<float>::contiguous(each, 7);
    Strided<float> scale(each, {3 * cols, cols, 1}, 6);
    auto h = Strided<bfloat16>::contiguous({batch, tokens, cols}, 8);
    auto most = Strided<float>::contiguous({batch, tokens, 1}, 9);
    auto q = Strided<float8e4nv>::contiguous({batch, tokens, cols}, 3);
    modulate.launch(device(), {q, h, most}, {x, branch, modulation, scale, shift});
    const std::vector<float> scales = most.buffer.download<float>();
    const std::vector<float8e4nv> found = q.buffer.download<float8e4nv>();
    auto sum = [&](const auto& i) { return x.value(i) + modulation.value(i) * branch.value(i); };
    expect_values<bfloat16>(h, sum, 4e-3);
    for (int64_t r = 0; r < batch * tokens; ++r) {
      std::vector<double> y(static_cast<size_t>(cols));
      double mean = 0, square = 0, largest = 0;
      auto place = [&](int64_t c) { return std::vector<int64_t>{r / tokens, r % tokens, c}; };
      for (int64_t c = 0; c < cols; ++c) mean += (y[size_t(c)] = sum(place(c))) / double(cols);
      for (double& v : y) square += (v - mean) * (v - mean) / double(cols);
      for (int64_t c = 0; c < cols; ++c) {
        double& v = y[size_t(c)];
        v = (v - mean) / std::sqrt(square + kEps) * (1 + scale.value(place(c))) + shift.value(place(c));
        largest = std::max(largest, std::abs(v));
      }
      EXPECT_NEAR(scales[size_t(r)], largest / 448, largest / 448 * 1e-5);
      for (int64_t c = 0; c < cols; ++c)
        EXPECT_NEAR(float(found[size_t(r * cols + c)]) * scales[size_t(r)], y[size_t(c)],
                    std::max(std::abs(y[size_t(c)]) / 15, largest / 448 / 256));
    }
  }
}

TEST(RowKernel, RowsOfColumns) {
  // Rows along an extent whose elements lie apart, one result for each.
  const auto range_of = row_kernel("range_of", [](const RowTile& row, Tile x) {
    return std::array{row.max(x) - row.min(x), row.sum(x)};
  });
  Strided<int32_t> x({7, 300}, {1, 7}, 1), out({7, 1}, {1, 1}, 2), total({7, 1}, {1, 1}, 3);
  range_of.launch(device(), {out, total}, x);
  auto over = [&](auto& i, double start, auto f) {
    double found = start;
    for (int64_t c = 0; c < 300; ++c) found = f(found, x.value({i[0], c}));
    return found;
  };
  expect_values<int32_t>(
      out,
      [&](auto& i) {
        return over(i, -1e9, [](double a, double b) { return std::max(a, b); }) -
               over(i, 1e9, [](double a, double b) { return std::min(a, b); });
      },
      0);
  expect_values<int32_t>(
      total, [&](auto& i) { return over(i, 0, std::plus<>()); }, 0);
}

TEST(RowKernel, PlacesAndParameters) {
  const auto causal =
      row_kernel("causal", [](const RowTile& row, Tile x, Float<"scale"> scale, Int<"queries"> queries) {
        Tile seen = where(row.col <= row.index % queries, x * scale, -inf);
        Tile e = exp(seen - row.max(seen));
        return e / row.sum(e);
      });
  auto x = Strided<float>::contiguous({2, 9, 9}, 1), out = Strided<float>::contiguous({2, 9, 9}, 2);
  causal.launch(device(), out, x, nullptr, 0.5f, 9);
  expect_values<float>(
      out,
      [&](auto& i) {
        double total = 0;
        for (int64_t c = 0; c <= i[1]; ++c) total += std::exp(0.5 * x.value({i[0], i[1], c}));
        return i[2] <= i[1] ? std::exp(0.5 * x.value(i)) / total : 0;
      },
      1e-6);
}

void check_wide_row(int64_t cols) {
  auto x = Strided<bfloat16>::contiguous({1, cols}, 1), r = Strided<bfloat16>::contiguous({1, cols}, 2);
  auto weight = Strided<bfloat16>::contiguous({cols}, 3), out = Strided<bfloat16>::contiguous({1, cols}, 4);
  auto h = Strided<bfloat16>::contiguous({1, cols}, 5);
  auto scales = Strided<float>::contiguous({1, 1}, 6);
  norm_quantise.launch(device(), {out, h, scales}, {x, r, weight});
  double square = 0, most = 0;
  for_each(x.shape, [&](auto& i) { square += std::pow(x.value(i) + r.value(i), 2) / double(cols); });
  auto y = [&](auto& i) { return (x.value(i) + r.value(i)) / std::sqrt(square + kEps) * weight.value(i); };
  for_each(x.shape, [&](auto& i) { most = std::max(most, std::abs(y(i))); });
  expect_values<bfloat16>(
      out, [&](auto& i) { return y(i) / most * 127; }, 4e-3);
}

TEST(RowKernel, WideRows) {
  for (int64_t cols : {65536, 131072, 262144}) check_wide_row(cols);
}

// Without clusters wide rows are read in pieces.
TEST(RowKernel, WideRowsInPieces) {
  const auto emulator = make_emulator({.target = "sm_80"});
  other_device = emulator.get();
  for (int64_t cols : {70001, 131072}) check_wide_row(cols);
  other_device = nullptr;
}

TEST(RowKernel, RefusesWhatDoesNotFit) {
  Buffer memory(device(), std::vector<float>(200));
  const Matrix<float> x(memory, 4, 5), narrow(memory.as<float>() + 100, 4, 1), out(memory.as<float>() + 50, 3, 5);
  const auto copied = row_kernel(
      "copied", [](const RowTile&, Tile v) { return v; }, "user.cpp", 7);
  expect_compile_error(
      message_of([&] { copied.launch(device(), narrow, x); }),
      "user.cpp:7: error: result 0 of the function of 'copied' gives tile of [1, 8] float32, expected a tile of [1, "
      "1]: the output has one number a row\n  hint: row.sum(x), row.max(x) and their like give one number a row\n"
      "  see docs/cpp.md\n");
  EXPECT_EQ(
      message_of([&] { copied.launch(device(), out, x); }),
      "copied: input 0 is 4 x 5, but output 0 is 3 x 5\n  hint: extents, the last ones under each other, are equal, "
      "or 1 in an input and at the end of an output");
}

}  // namespace
}  // namespace tegula::kernels
