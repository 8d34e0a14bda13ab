// label: device
// Block pointers and tensor descriptors against the arrays that they describe: which elements a block holds, what lies
// beyond, and what loops and branches do with them.
#include <algorithm>
#include <array>

#include "codegen/exec/emulator.h"
#include "dsl/tegula.h"
#include "tests/codegen/lower/ops_support.h"
#include "tests/devices.h"

namespace tegula {
namespace {

using namespace ops;

std::string joined(const std::vector<int64_t>& numbers) {
  std::string text;
  for (int64_t n : numbers) text += fmt::format("{}, ", n);
  return "(" + text + ")";
}

/// A block of an array whose first element is number kOrigin of a buffer.
struct Window {
  std::vector<int64_t> shape, strides, offsets, block;
  std::vector<int> checked;

  static constexpr int64_t kOrigin = 2000, kBuffer = 6000;

  int64_t elements() const {
    int64_t n = 1;
    for (int64_t extent : block) n *= extent;
    return n;
  }
  struct Element {
    int64_t at;  ///< in the buffer
    bool inside;
  };
  /// Element number i of the block, in row-major order.
  Element element(int64_t i) const {
    Element e{kOrigin, true};
    for (size_t axis = block.size(); axis-- > 0; i /= block[axis]) {
      const int64_t position = offsets[axis] + i % block[axis];
      e.at += position * strides[axis];
      const bool is_checked = std::find(checked.begin(), checked.end(), int(axis)) != checked.end();
      if (is_checked && (position < 0 || position >= shape[axis])) e.inside = false;
    }
    return e;
  }
  std::string check_text() const {
    std::string text;
    for (int axis : checked) text += fmt::format("{}, ", axis);
    return "(" + text + ")";
  }
};

/// Every subset of the axes.
std::vector<std::vector<int>> subsets(size_t rank) {
  std::vector<std::vector<int>> all;
  for (unsigned bits = 0; bits < 1u << rank; ++bits) {
    all.emplace_back();
    for (size_t axis = 0; axis < rank; ++axis)
      if (bits >> axis & 1) all.back().push_back(int(axis));
  }
  return all;
}

const std::vector<Window>& windows() {
  static const std::vector<Window> all = {
      {{21}, {1}, {8}, {16}, {}},
      {{21}, {3}, {-5}, {16}, {}},
      {{0}, {1}, {0}, {8}, {}},
      {{12, 20}, {24, 1}, {8, 8}, {8, 16}, {}},
      {{12, 20}, {1, 12}, {-3, 7}, {8, 16}, {}},  // columns are contiguous
      {{5, 7, 9}, {80, 10, 1}, {2, 4, -2}, {4, 4, 8}, {}},
      {{5, 7, 9}, {1, 5, 40}, {3, -1, 5}, {4, 8, 4}, {}},
  };
  return all;
}

/// Whether numbers are written out, or arguments of the kernel of this type.
enum class Numbers { Literal, Int32, Int64 };

/// The parameters of a kernel for the window's numbers, and the lists of their names or values.
struct Text {
  std::string params, shape, strides, offsets;
};
Text text_of(const Window& w, Numbers numbers) {
  if (numbers == Numbers::Literal) return {"", joined(w.shape), joined(w.strides), joined(w.offsets)};
  Text text;
  const char* type = numbers == Numbers::Int32 ? "tl.int32" : "tl.int64";
  for (auto [name, list] : {std::pair("n", &text.shape), {"s", &text.strides}, {"o", &text.offsets}}) {
    *list = "(";
    for (size_t axis = 0; axis < w.block.size(); ++axis) {
      text.params += fmt::format(", {}{}: {}", name, axis, type);
      *list += fmt::format("{}{}, ", name, axis);
    }
    *list += ")";
  }
  return text;
}
std::vector<Arg> numbers_of(const Window& w, Numbers numbers) {
  std::vector<Arg> args;
  if (numbers != Numbers::Literal)
    for (const auto* list : {&w.shape, &w.strides, &w.offsets})
      for (int64_t n : *list) args.emplace_back(n);
  return args;
}

void launch(const std::string& body, std::vector<Arg> args, const LaunchOptions& options = {}) {
  const std::string text = "import triton\nimport triton.language as tl\n\n" + body;
  try {
    Program::parse(text, "kernel.py").kernel("kernel").launch(device(), Grid{1}, options, args);
    device().synchronize();
  } catch (const Error& error) {
    ADD_FAILURE() << error.what() << "\n" << text;
  }
}

std::vector<float> buffer_values() {
  std::vector<float> values(Window::kBuffer);
  for (size_t i = 0; i < values.size(); ++i) values[i] = float(i) + 0.5f;
  return values;
}

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

// Triton asks whether boundary_check is true, and 0 is not.
TEST(BlockPointers, ZeroByItselfNamesNoAxis) {
  const std::vector<float> out = of_kernel(
      "@triton.jit\ndef kernel(out, x, n):\n"
      "    p = tl.make_block_ptr(x, (n,), (1,), (0,), (8,), (0,))\n"
      "    tl.store(out + tl.arange(0, 8), tl.load(p, boundary_check=0))\n",
      3);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(out[size_t(i)], i + 0.5f);
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

// ---------------------------------------------------------------------------------------------- tensor descriptors

/// The windows that a descriptor can have: rows are contiguous, 16 bytes of them at least are read.
std::vector<Window> descriptor_windows() {
  std::vector<Window> all;
  for (Window w : windows())
    if (w.strides.back() == 1 && w.block.back() >= 4) {
      for (size_t axis = 0; axis < w.block.size(); ++axis) w.checked.push_back(int(axis));
      all.push_back(w);
    }
  return all;
}

TEST(TensorDescriptor, LoadsWithinTheArray) {
  const std::vector<float> values = buffer_values();
  const Array<float> x(values);
  int round = 0;
  for (const Window& w : descriptor_windows())
    for (const char* padding : {"", ", padding_option='zero'", ", 'nan'"}) {
      const Numbers numbers = std::array{Numbers::Literal, Numbers::Int32, Numbers::Int64}[round % 3];
      const Text text = text_of(w, numbers);
      const bool function = round++ % 2;
      const size_t rank = w.block.size();
      const std::string last = fmt::format("s{}, )", rank - 1);
      std::string strides = text.strides;
      if (strides.ends_with(last)) strides = strides.substr(0, strides.size() - last.size()) + "1, )";
      const std::string body = fmt::format(
          "@triton.jit\ndef kernel(out, x{}):\n"
          "    d = tl.make_tensor_descriptor(x + {}, {}, {}, {}{})\n"
          "    tl.static_assert(len(d.shape) == {rank} and len(d.strides) == {rank})\n"
          "    tl.static_assert(d.block_shape[{rank} - 1] == {} and d.dtype == tl.float32)\n"
          "    tl.static_assert(d.block_type.shape[0] == d.block_shape[0])\n"
          "    v = {}\n"
          "    tl.store(out + tl.arange(0, {}), tl.ravel(v))\n",
          text.params, Window::kOrigin, text.shape, strides, joined(w.block), padding, w.block.back(),
          fmt::format(fmt::runtime(function ? "tl.load_tensor_descriptor(d, {})" : "d.load({})"), text.offsets),
          w.elements(), fmt::arg("rank", rank));
      Array<float> out(size_t(w.elements()));
      std::vector<Arg> args{out, x};
      for (const Arg& n : numbers_of(w, numbers)) args.push_back(n);
      launch(body, args);
      const float pad = std::string_view(padding).ends_with("'nan'") ? NAN : 0.0f;
      expect_equal(out.values(), body, [&](size_t i) {
        const Window::Element e = w.element(int64_t(i));
        return e.inside ? values[size_t(e.at)] : pad;
      });
    }
}

TEST(TensorDescriptor, StoresAndAddsWithinTheArray) {
  for (const Window& w : descriptor_windows())
    for (const char* call : {"d.store({}, v)", "tl.store_tensor_descriptor(d, {}, v)", "d.atomic_add({}, v)"}) {
      const std::string body = fmt::format(
          "@triton.jit\ndef kernel(x):\n"
          "    d = tl.make_tensor_descriptor(x + {}, shape={}, strides={}, block_shape={})\n"
          "    v = tl.reshape(tl.arange(0, {}), {}).to({})\n    {}\n",
          Window::kOrigin, joined(w.shape), joined(w.strides), joined(w.block), w.elements(), joined(w.block),
          std::string_view(call).starts_with("d.store") ? "tl.int16" : "tl.float32",
          fmt::format(fmt::runtime(call), joined(w.offsets)));
      std::vector<float> expected(Window::kBuffer, -1);
      const Array<float> x(expected);
      launch(body, {x});
      const float old = std::string_view(call).starts_with("d.atomic") ? -1 : 0;
      for (int64_t i = 0; i < w.elements(); ++i)
        if (const Window::Element e = w.element(i); e.inside) expected[size_t(e.at)] = float(i) + old;
      expect_equal(x.values(), body, [&](size_t i) { return expected[i]; });
    }
}

TEST(TensorDescriptor, GathersAndScattersRows) {
  const std::vector<float> values = buffer_values();
  const Array<float> x(values);
  Array<float> out(std::vector<float>(16 * 12, -1));
  const std::string body = R"(@triton.jit
def kernel(out, x):
    rows = tl.arange(0, 8) * 3 - 2
    d = tl.make_tensor_descriptor(x, [15, 10], [100, 1], [1, 8])
    v = d.gather(rows, 4)
    to = tl.make_tensor_descriptor(out, [16, 12], [12, 1], [1, 8])
    to.scatter(v, 17 - 2 * tl.arange(0, 8), 5)
)";
  launch(body, {out, x});
  std::vector<float> expected(16 * 12, -1);
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 8; ++j) {
      const int row = 3 * i - 2, column = 4 + j, to = 17 - 2 * i;
      if (to >= 0 && to < 16 && 5 + j < 12)
        expected[size_t(to * 12 + 5 + j)] =
            row >= 0 && row < 15 && column < 10 ? values[size_t(row * 100 + column)] : 0.0f;
    }
  expect_equal(out.values(), body, [&](size_t i) { return expected[i]; });
}

TEST(TensorDescriptor, InLoopsBranchesAndHelpers) {
  const Array<float> x(buffer_values());
  const std::string body = R"(@triton.jit
def rows_of(p, n):
    if isinstance(p, tl.tensor_descriptor):
        return p
    return tl.make_tensor_descriptor(p, [n, 8], [8, 1], [2, 8])

@triton.jit
def kernel(out, x, n):
    d, e = rows_of(rows_of(x, 20), None), rows_of(x + 800, n)
    if n > 3:
        e = rows_of(x + 1600, n + 1)
    sum = tl.zeros((2, 8), tl.float32)
    for i in range(0, d.shape[0], 5):
        sum += d.load([i, 0])
        d, e = e, d
    rows_of(out, 2).store([0, 0], sum)
)";
  for (int n : {3, 11}) {
    Array<float> out(size_t(16));
    launch(body, {out, x, n});
    expect_equal(out.values(), body, [n](size_t i) {
      double sum = 0;
      for (int k = 0; k < 4; ++k) {
        const bool second = k % 2;
        const int row = 5 * k + int(i) / 8, extent = second ? n + (n > 3) : 20;
        if (row < extent) sum += (second ? (n > 3 ? 1600 : 800) : 0) + row * 8 + int(i) % 8 + 0.5;
      }
      return float(sum);
    });
  }
}

// What a launch passes is compiled for its blocks, its padding, and what divides its numbers; the rest may change.
TEST(TensorDescriptor, AsArgument) {
  const std::vector<float> values = buffer_values();
  const Array<float> x(values);
  const Kernel kernel = Program::parse(R"(import triton
import triton.language as tl

@triton.jit
def kernel(out, d, row):
    BLOCK: tl.constexpr = d.block_shape[0] * d.block_shape[1]
    tl.static_assert(d.shape[0].dtype == tl.int32 and d.strides[0].dtype == tl.int64)
    tl.store(out + tl.arange(0, BLOCK), tl.ravel(d.load([row, 4])))
    tl.store(out + BLOCK, d.shape[0] * 10 + d.shape[1] + d.strides[0] * 1000 + d.strides[1] * 100000)
)",
                                       "kernel.py")
                            .kernel("kernel");
  struct Case {
    int rows, columns, stride, row, block_rows, block_columns;
    bool pad_nan;
  };
  const Case cases[] = {{8, 16, 16, 0, 4, 8, false},
                        {8, 16, 16, 6, 4, 8, true},
                        {7, 9, 12, 5, 4, 8, true},
                        {7, 9, 20, 5, 2, 16, true},
                        {7, 9, 21, -1, 2, 16, false}};
  for (const Case& c : cases) {
    const TensorDescriptor d{x.at(16), {c.rows, c.columns}, {c.stride, 1}, {c.block_rows, c.block_columns}, c.pad_nan};
    const size_t block = size_t(c.block_rows * c.block_columns);
    auto check = [&](const std::vector<float>& out) {
      expect_equal(out, fmt::format("{} x {}", c.rows, c.columns), [&](size_t i) {
        if (i == block) return float(c.rows * 10 + c.columns + c.stride * 1000 + 100000);
        const int row = c.row + int(i) / c.block_columns, column = 4 + int(i) % c.block_columns;
        if (row < 0 || row >= c.rows || column >= c.columns) return c.pad_nan ? NAN : 0.0f;
        return values[size_t(16 + row * c.stride + column)];
      });
    };
    for (int round = 0; round < 2; ++round) {
      Array<float> out(block + 1);
      kernel.launch(device(), {1}, {}, out, d, c.row);
      check(out.values());
    }
    Array<float> out(block + 1);
    const Arg args[] = {out, d, c.row};
    LaunchHandle handle = kernel.prepare(device(), kernel.classify(args, {}), {});
    handle(nullptr, {1}, Arg(out), d, c.row);
    check(out.values());
  }
  EXPECT_EQ(kernel.written_args(std::vector<Arg>{x, TensorDescriptor{x.at(0), {8, 8}, {8, 1}, {8, 8}}, 0}, {}),
            (std::vector<bool>{true, false, false}));
}

TEST(TensorDescriptor, ArgumentsThatAreNone) {
  const Array<float> x(size_t(64));
  const Kernel kernel = Program::parse(R"(import triton
import triton.language as tl

@triton.jit
def kernel(d):
    d.store([0, 0], tl.zeros((8, 8), tl.float32))
)",
                                       "kernel.py")
                            .kernel("kernel");
  auto message = [&](const TensorDescriptor& d) -> std::string {
    try {
      kernel.launch(device(), {1}, {}, d);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(message({x.at(0), {8, 8}, {8, 1}, {8, 8}}), "no error");
  EXPECT_EQ(message({x.at(0), {8, 8}, {8}, {8, 8}}),
            "kernel 'kernel', argument 'd': a tensor descriptor with 2 extents, 1 strides and 2 extents of its blocks\n"
            "  hint: give one of each a dimension");
  EXPECT_EQ(message({x.at(0), {}, {}, {}}),
            "kernel 'kernel', argument 'd': a tensor descriptor of 0 dimensions\n  hint: it has 1 to 5");
  EXPECT_EQ(message({nullptr, {8, 8}, {8, 1}, {8, 8}}),
            "kernel 'kernel', argument 'd': a tensor descriptor whose base is no typed pointer\n"
            "  hint: pass a pointer such as buffer.as<float>() or Arg::pointer(address, type)");
  EXPECT_EQ(message({x.at(0), {8, 8}, {1, 8}, {8, 8}}),
            "kernel 'kernel', argument 'd': a tensor descriptor whose last stride is 8, expected 1\n"
            "  hint: the array's rows are contiguous");
  EXPECT_EQ(message({x.at(0), {8, 8}, {8, 1}, {8, 51}}),
            "kernel 'kernel', argument 'd': a tensor descriptor of blocks of extent 51\n"
            "  hint: extents are those of tiles: powers of two");
  const Array<int> n(size_t(64));
  EXPECT_EQ(
      message({n.at(0), {8, 8}, {8, 1}, {8, 8}, true}),
      "kernel 'kernel', argument 'd': a tensor descriptor of integers that is padded with NaN\n  hint: pad with 0");
}

}  // namespace
}  // namespace tegula
