// label: device
// Block pointers against the arrays that they describe: which elements a block holds, what lies beyond, and what loops
// and branches do with them.
#include <algorithm>
#include <array>

#include "codegen/exec/emulator.h"
#include "dsl/tegula.h"
#include "tests/codegen/lower/ops_support.h"
#include "tests/devices.h"
#include "tests/dsl/semantics/windows.h"

namespace tegula {
namespace {

using namespace ops;

TEST(BlockPointer, LoadsWhatABlockHolds) {
  const std::vector<float> values = buffer_values();
  const Array<float> x(values);
  int round = 0;
  for (Window w : windows())
    for (const auto& checked : subsets(w.block.size())) {
      w.checked = checked;
      const Numbers numbers = std::array{Numbers::Literal, Numbers::Int32, Numbers::Int64}[round % 3];
      const char* padding = std::array{"", "zero", "nan", "zero"}[round++ % 4];
      const Text text = text_of(w, numbers);
      std::string order;
      for (size_t axis = w.block.size(); axis-- > 0;) order += fmt::format("{}, ", axis);
      const std::string body = fmt::format(
          "@triton.jit\ndef kernel(out, x{}):\n"
          "    p = tl.make_block_ptr(x + {}, {}, {}, {}, {}, ({}))\n"
          "    v = tl.load(p, boundary_check={}, padding_option='{}')\n"
          "    tl.static_assert(v.dtype == x.dtype.element_ty)\n"
          "    tl.store(out + tl.arange(0, {}), tl.ravel(v))\n",
          text.params, Window::kOrigin, text.shape, text.strides, text.offsets, joined(w.block), order, w.check_text(),
          padding, w.elements());
      Array<float> out(size_t(w.elements()));
      std::vector<Arg> args{out, x};
      for (const Arg& n : numbers_of(w, numbers)) args.push_back(n);
      launch(body, args);
      const float pad = *padding == 'n' ? NAN : 0.0f;
      expect_equal(out.values(), body, [&](size_t i) {
        const Window::Element e = w.element(int64_t(i));
        return e.inside ? values[size_t(e.at)] : pad;
      });
    }
}

TEST(BlockPointer, StoresWithinTheArray) {
  int round = 0;
  for (Window w : windows())
    for (const auto& checked : subsets(w.block.size())) {
      w.checked = checked;
      const Numbers numbers = std::array{Numbers::Int64, Numbers::Literal, Numbers::Int32}[round++ % 3];
      const Text text = text_of(w, numbers);
      std::string order;
      for (size_t axis = 0; axis < w.block.size(); ++axis) order += fmt::format("{}, ", axis);
      const std::string body = fmt::format(
          "@triton.jit\ndef kernel(x{}):\n"
          "    p = tl.make_block_ptr(x + {}, shape={}, strides={}, offsets={}, block_shape={}, order=[{}])\n"
          "    v = tl.reshape(tl.arange(0, {}).to(x.dtype.element_ty), {})\n"
          "    tl.store(p, v, boundary_check={})\n",
          text.params, Window::kOrigin, text.shape, text.strides, text.offsets, joined(w.block), order, w.elements(),
          joined(w.block), w.check_text());
      std::vector<float> expected(Window::kBuffer, -1);
      const Array<float> x(expected);
      std::vector<Arg> args{x};
      for (const Arg& n : numbers_of(w, numbers)) args.push_back(n);
      launch(body, args);
      for (int64_t i = 0; i < w.elements(); ++i)
        if (const Window::Element e = w.element(i); e.inside) expected[size_t(e.at)] = float(i);
      expect_equal(x.values(), body, [&](size_t i) { return expected[i]; });
    }
}

// Extents, offsets and distances beyond 32 bits; the base lies as far before the buffer as the block behind the base.
TEST(BlockPointer, CountsIn64Bits) {
  const std::vector<float> values = buffer_values();
  const Array<float> x(values);
  for (bool literal : {true, false}) {
    const std::string body = fmt::format(
        "@triton.jit\ndef kernel(out, x, rows: tl.int64, row: tl.int64):\n"
        "    p = tl.make_block_ptr(x - 3 * 2 ** 33, ({0} + 4, 2 ** 40), (3, 1), ({0}, 0), (8, 2), (1, 0))\n"
        "    p = tl.advance(p, (-{0}, 0))\n"
        "    p = p.advance(({0}, 0))\n"
        "    v = tl.load(p, boundary_check=(0, 1))\n"
        "    o = tl.arange(0, 8)[:, None] * 2 + tl.arange(0, 2)\n"
        "    tl.store(out + o, v)\n",
        literal ? "2 ** 33" : "row");
    Array<float> out(16);
    launch(body, {out, x, Arg(int64_t(1) << 40), Arg(int64_t(1) << 33)});
    expect_equal(out.values(), body, [&](size_t i) { return i < 8 ? values[i / 2 * 3 + i % 2] : 0.0f; });
  }
}

TEST(BlockPointer, TypesOfElements) {
  for_types<std::tuple<Boolean, int8_t, uint16_t, int64_t, float16, bfloat16, double>>([](auto type) {
    using T = decltype(type);
    const std::vector<T> values = small_values<T>(64, 1);
    const Array<T> x(values);
    Array<T> out(64);
    launch(
        "@triton.jit\ndef kernel(out, x, n):\n"
        "    p = tl.make_block_ptr(x, (n,), (1,), (0,), (64,), (0,))\n"
        "    q = tl.make_block_ptr(base=out, shape=64, strides=1, offsets=0, block_shape=64, order=0)\n"
        "    elem: tl.constexpr = tl.int8 if x.dtype.element_ty == tl.int1 else x.dtype.element_ty\n"
        "    tl.static_assert(p.dtype.element_ty.element_ty == elem)\n"
        "    tl.static_assert(p.type.element_ty.shape[0] == 64 and p.dtype.is_ptr() and not p.dtype.is_block())\n"
        "    tl.static_assert(p.dtype == q.dtype)\n"
        "    v = tl.load(p, boundary_check=[0], cache_modifier='.cg', eviction_policy='evict_first')\n"
        "    tl.store(q, v.to(q.dtype.element_ty), boundary_check=(0,))\n",
        {out, x, 40});
    expect_equal(out.values(), ops::tl<T>(), [&](size_t i) { return i < 40 ? values[i] : T(); });
  });
}

// ---------------------------------------------------------------------------------------------------- control flow

/// out[i] of a kernel (out, x, n), which has 8 elements a block, over x[i] = i + 0.5.
std::vector<float> of_kernel(const std::string& body, int n, size_t size = 8) {
  const Array<float> x(buffer_values());
  Array<float> out(std::vector<float>(size, -1));
  launch(body, {out, x, n});
  return out.values();
}

constexpr const char* kPrelude = R"(@triton.jit
def at(x, o):
    return tl.make_block_ptr(x, (1000,), (1,), (o,), (8,), (0,))

@triton.jit
def kernel(out, x, n):
    i = tl.arange(0, 8)
    p = at(x, 0)
)";

// Triton asks whether boundary_check is true, and 0 and False are not.
TEST(BlockPointers, ZeroByItselfNamesNoAxis) {
  for (const char* none : {"0", "False"}) {
    const std::vector<float> out =
        of_kernel(fmt::format("@triton.jit\ndef kernel(out, x, n):\n"
                              "    p = tl.make_block_ptr(x, (n,), (1,), (0,), (8,), (0,))\n"
                              "    tl.store(out + tl.arange(0, 8), tl.load(p, boundary_check={}))\n",
                              none),
                  3);
    for (int i = 0; i < 8; ++i) EXPECT_EQ(out[size_t(i)], i + 0.5f);
  }
}

void expect_kernel(const std::string& rest, int n, const std::function<double(int)>& expected) {
  const std::string body = kPrelude + rest;
  expect_equal(of_kernel(body, n), body, [&](size_t i) { return float(expected(int(i))); });
}

TEST(BlockPointer, LoopsMoveIt) {
  for (const char* loop : {"    for k in range(n):\n", "    k = 0\n    while k < n:\n        k += 1\n"})
    expect_kernel(fmt::format("    sum = tl.zeros((8,), tl.float32)\n{}"
                              "        sum += tl.load(p)\n"
                              "        p = tl.advance(p, (8,))\n"
                              "    tl.store(out + i, sum + tl.load(p))\n",
                              loop),
                  3, [](int i) { return 4 * (i + 0.5) + 8 * (1 + 2 + 3); });
}

TEST(BlockPointer, LoopsReplaceIt) {
  // Two block pointers change places, and one comes to point elsewhere.
  expect_kernel(R"(    q = tl.make_block_ptr(x + 100, (4,), (2,), (0,), (8,), (0,))
    sum = tl.zeros((8,), tl.float32)
    for k in range(n):
        sum = sum * 2 + tl.load(p, boundary_check=(0,))
        p, q = q, p
        if k == 1:
            q = at(x, 200)
    tl.store(out + i, sum)
)",
                3, [](int i) {
                  const double first = i + 0.5, second = i < 4 ? 100.5 + 2 * i : 0;
                  return 4 * first + 2 * second + first;
                });
}

TEST(BlockPointer, BranchesChooseIt) {
  for (int n : {-1, 0, 7})
    expect_kernel(R"(    if n > 0:
        p = tl.advance(p, (n,))
    elif n < 0:
        p = tl.make_block_ptr(x + 50, (5,), (3,), (1,), (8,), (0,))
    q = p if n != 7 else at(x, 70)
    tl.store(out + i, tl.load(p, boundary_check=(0,)) + tl.load(q, boundary_check=(0,)))
)",
                  n, [n](int i) -> double {
                    if (n == 0) return 2 * (i + 0.5);
                    if (n < 0) return i + 1 < 5 ? 2 * (50.5 + 3 * (i + 1)) : 0;
                    return i + 7 + 0.5 + i + 70 + 0.5;
                  });
}

TEST(BlockPointer, TuplesAndHelpersCarryIt) {
  expect_kernel(R"(    pair = (p, at(x, 40), n)
    for k in range(2):
        pair = (pair[1].advance((pair[2],)), pair[0], pair[2] + 1)
    a, b, m = pair
    tl.store(out + i, tl.load(a) + 1000 * tl.load(b) + m)
)",
                3, [](int i) { return i + 4 + 0.5 + 1000 * (i + 43 + 0.5) + 5; });
  const std::string body = std::string(R"(@triton.jit
def first_of(p, q, n):
    if n > 2:
        return p, n
    return q, 2 * n

)") + kPrelude + R"(    p, m = first_of(p, at(x, 40), n)
    tl.store(out + i, tl.load(p) + m)
)";
  for (int n : {1, 3})
    expect_equal(of_kernel(body, n), body, [n](size_t i) { return float(i) + (n > 2 ? 3.5f : 42.5f); });
}

// ------------------------------------------------------------------------------------------------- pipelined loops

const Devices& devices() {
  static const Devices all = gpu_or_emulators({{.target = "sm_80"}, {.target = "sm_90a"}});
  return all;
}

Kernel kernel_of(const char* file, const char* name) {
  return Program::load(std::string(TEGULA_SOURCE_DIR "/tests/kernels/") + file).kernel(name);
}

template <class T>
std::vector<double> doubles(const std::vector<T>& values) {
  std::vector<double> out;
  for (T x : values) out.push_back(double(wide(x)));
  return out;
}

void expect_product(Device& device, const Kernel& kernel, const LaunchOptions& options, int m, int n, int k,
                    bool transposed_b) {
  const auto a = small_values<float16>(size_t(m * k), 1), b = small_values<float16>(size_t(k * n), 2);
  Buffer a_buffer(device, a), b_buffer(device, b), c_buffer(device, std::vector<float>(size_t(m * n), -1));
  kernel.launch(device, Grid{unsigned(m + 63) / 64, unsigned(n + 63) / 64}, options, a_buffer.as<float16>(),
                b_buffer.as<float16>(), c_buffer.as<float>(), m, n, k, k, 1, transposed_b ? 1 : n, transposed_b ? k : 1,
                n, 1);
  const auto c = c_buffer.download<float>();
  const auto x = doubles(a), y = doubles(b);
  expect_equal(c, fmt::format("{} x {} x {}", m, n, k), [&](size_t i) {
    const size_t row = i / size_t(n), col = i % size_t(n);
    double sum = 0;
    for (size_t j = 0; j < size_t(k); ++j)
      sum += x[row * size_t(k) + j] * y[transposed_b ? col * size_t(k) + j : j * size_t(n) + col];
    return float(sum);
  });
}

TEST(BlockPointer, Products) {
  const Kernel kernel = kernel_of("blocks.py", "matmul");
  for (auto& device : devices())
    for (bool transposed_b : {false, true}) {
      const LaunchOptions options{.constexprs = {{"BLOCK_M", 64}, {"BLOCK_N", 64}, {"BLOCK_K", 32}}, .num_warps = 4};
      expect_product(*device, kernel, options, 128, 64, 160, transposed_b);
      expect_product(*device, kernel, options, 72, 80, 40, transposed_b);
      expect_product(*device, kernel, options, 33, 37, 75, transposed_b);
    }
}

TEST(BlockPointer, Attention) {
  constexpr int kQueries = 50, kKeys = 83, kDepth = 32;
  const auto q = small_values<float16>(kQueries * kDepth, 1, 2), k = small_values<float16>(kKeys * kDepth, 2, 2),
             v = small_values<float16>(kKeys * kDepth, 3, 4);
  const auto dq = doubles(q), dk = doubles(k), dv = doubles(v);
  std::vector<double> expected;
  for (int row = 0; row < kQueries; ++row) {
    std::vector<double> weights;
    double total = 0;
    for (int key = 0; key < kKeys; ++key) {
      double score = 0;
      for (int d = 0; d < kDepth; ++d) score += dq[size_t(row * kDepth + d)] * dk[size_t(key * kDepth + d)];
      total += weights.emplace_back(std::exp(score / 8));
    }
    for (int d = 0; d < kDepth; ++d) {
      double sum = 0;
      for (int key = 0; key < kKeys; ++key) sum += weights[size_t(key)] * dv[size_t(key * kDepth + d)];
      expected.push_back(sum / total);
    }
  }
  for (auto& device : devices()) {
    Buffer buffers[] = {Buffer(*device, q), Buffer(*device, k), Buffer(*device, v),
                        Buffer(*device, std::vector<float>(kQueries * kDepth, -1))};
    kernel_of("blocks.py", "attention")
        .launch(*device, Grid{1}, {.constexprs = {{"ROWS", 64}, {"COLS", 32}, {"DEPTH", kDepth}}, .num_warps = 4},
                buffers[0].as<float16>(), buffers[1].as<float16>(), buffers[2].as<float16>(), buffers[3].as<float>(),
                0.125f, kQueries, kKeys);
    const auto out = buffers[3].download<float>();
    for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], expected[i], 5e-3) << i;
  }
}

}  // namespace
}  // namespace tegula
