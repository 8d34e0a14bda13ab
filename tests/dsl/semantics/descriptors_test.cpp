// label: device
// Tensor descriptors against the arrays that they describe: which elements a block holds, what lies beyond, and what
// loops and branches do with them.
#include <algorithm>
#include <array>

#include "codegen/exec/emulator.h"
#include "dsl/tegula.h"
#include "tests/codegen/lower/ops_support.h"
#include "tests/dsl/semantics/windows.h"
#include "tests/message_of.h"

namespace tegula {
namespace {

using namespace ops;

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
  auto message = [&](const TensorDescriptor& d) { return message_of([&] { kernel.launch(device(), {1}, {}, d); }); };
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
