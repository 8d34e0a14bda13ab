// label: device
// Kernels written in both front ends: equal tile IR, and results against double precision.
#include "tests/dsl/front_ends_support.h"

namespace tegula {
namespace {

using namespace front_ends;

TEST(FrontEnds, VectorAddWithMasks) {
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Ptr<"x", float> x, Ptr<"y"> y, Int<"n"> n, Const<"BLOCK"> BLOCK) {
    Tile i = program_id(0) * BLOCK + arange(0, BLOCK);
    Tile mask = i < n;
    store(out + i, load(x + i, mask) + load(y + i, "mask"_a = mask, "other"_a = 1.0), mask);
  });
  auto x = floats(1000, 1), y = floats(1000, 2);
  expect_agree<float>(R"(@triton.jit
def kernel(out, x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask) + tl.load(y + i, mask=mask, other=1.0), mask)
)",
                      cpp, {.constexprs = {{"BLOCK", 256}}}, {4}, each(1000, [&](size_t i) { return x[i] + y[i]; }), 0,
                      Array<float>(x), Array<float>(y), 1000);
}

// Helper functions of C++ are plain functions of Tiles.
Tile shifted(const Tile& x, int axis) { return exp(x - max(x, axis)); }

TEST(FrontEnds, Softmax) {
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Ptr<"x"> in, Int<"n"> n, Const<"BLOCK"> BLOCK) {
    Tile row = program_id(0);
    Tile cols = arange(0, BLOCK);
    Tile x = load(in + row * n + cols, cols < n, -inf);
    Tile e = shifted(x, 0);
    store(out + row * n + cols, e / sum(e, 0), cols < n);
  });
  const int n = 100;
  auto x = floats(3 * n, 3);
  std::vector<double> expected;
  for (int r = 0; r < 3; ++r) {
    double total = 0;
    for (int i = 0; i < n; ++i) total += std::exp(double(x[size_t(r * n + i)]));
    for (int i = 0; i < n; ++i) expected.push_back(std::exp(double(x[size_t(r * n + i)])) / total);
  }
  expect_agree<float>(R"(@triton.jit
def shifted(x, axis: tl.constexpr):
    return tl.exp(x - tl.max(x, axis))

@triton.jit
def kernel(out, x, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x + row * n + cols, cols < n, -float('inf'))
    e = shifted(x, 0)
    tl.store(out + row * n + cols, e / tl.sum(e, 0), cols < n)
)",
                      cpp, {.constexprs = {{"BLOCK", 128}}}, {3}, expected, 1e-5, Array<float>(x), n);
}

TEST(FrontEnds, Reductions) {
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Ptr<"x"> x) {
    Tile r = arange(0, 8), c = arange(0, 16);
    Tile v = load(x + r[{all, none}] * 16 + c[{none, all}]);
    store(out + r, sum(v, 1));
    store(out + 8 + r[{all, none}], max(v, 1, "keep_dims"_a = true));
    store(out + 16 + r, reduce(v, 1, [](Tile a, Tile b) { return minimum(a, b); }));
    auto [value, index] = unpack<2>(max(v, 1, "return_indices"_a = true));
    store(out + 24 + r, value * 100 + index);
    store(out + 32 + r, v.argmax(1));
    Tile pair = reduce({v, v * 2}, 1, [](const Tile& a0, const Tile& a1, const Tile& b0, const Tile& b1) {
      return std::array<Tile, 2>{a0 + b0, maximum(a1, b1)};
    });
    auto [total, largest] = unpack<2>(pair);
    store(out + 40 + r, total + largest);
  });
  auto x = floats(128, 6);
  std::vector<double> expected(48);
  for (size_t r = 0; r < 8; ++r) {
    const float* row = &x[r * 16];
    double sum = 0, top = row[0], low = row[0], at = 0;
    for (int i = 0; i < 16; ++i) {
      sum += row[i], low = std::min<double>(low, row[i]);
      if (row[i] > top) top = row[i], at = i;
    }
    expected[r] = sum, expected[8 + r] = top, expected[16 + r] = low, expected[24 + r] = top * 100 + at;
    expected[32 + r] = at, expected[40 + r] = sum + 2 * top;
  }
  expect_agree<float>(R"(@triton.jit
def lower(a, b):
    return tl.minimum(a, b)

@triton.jit
def both(a0, a1, b0, b1):
    return a0 + b0, tl.maximum(a1, b1)

@triton.jit
def kernel(out, x):
    r = tl.arange(0, 8)
    c = tl.arange(0, 16)
    v = tl.load(x + r[:, None] * 16 + c[None, :])
    tl.store(out + r, tl.sum(v, 1))
    tl.store(out + 8 + r[:, None], tl.max(v, 1, keep_dims=True))
    tl.store(out + 16 + r, tl.reduce(v, 1, lower))
    value, index = tl.max(v, 1, return_indices=True)
    tl.store(out + 24 + r, value * 100 + index)
    tl.store(out + 32 + r, v.argmax(1))
    total, largest = tl.reduce((v, v * 2), 1, both)
    tl.store(out + 40 + r, total + largest)
)",
                      cpp, {}, {1}, expected, 1e-6, Array<float>(x));
}

TEST(FrontEnds, Scans) {
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Ptr<"x"> x) {
    Tile r = arange(0, 8), c = arange(0, 16);
    Tile at = r[{all, none}] * 16 + c[{none, all}];
    Tile v = load(x + at);
    store(out + at, cumsum(v, 1));
    store(out + 128 + at, v.cumsum(1, "reverse"_a = true));
    Tile pair = associative_scan({v, v * 2}, 1, [](const Tile& a0, const Tile& a1, const Tile& b0, const Tile& b1) {
      return std::array<Tile, 2>{a0 + b0, maximum(a1, b1)};
    });
    auto [total, largest] = unpack<2>(pair);
    store(out + 256 + at, total + largest);
  });
  auto x = ops::small_values<float>(128, 6);
  std::vector<double> expected(384);
  for (size_t r = 0; r < 8; ++r) {
    double sum = 0, top = x[r * 16], behind = 0;
    for (size_t i = r * 16; i < r * 16 + 16; ++i) {
      sum += x[i], top = std::max<double>(top, x[i]);
      expected[i] = sum, expected[256 + i] = sum + 2 * top;
    }
    for (size_t i = r * 16 + 16; i-- > r * 16;) expected[128 + i] = behind += x[i];
  }
  expect_agree<float>(R"(@triton.jit
def both(a0, a1, b0, b1):
    return a0 + b0, tl.maximum(a1, b1)

@triton.jit
def kernel(out, x):
    r = tl.arange(0, 8)
    c = tl.arange(0, 16)
    at = r[:, None] * 16 + c[None, :]
    v = tl.load(x + at)
    tl.store(out + at, tl.cumsum(v, 1))
    tl.store(out + 128 + at, v.cumsum(1, reverse=True))
    total, largest = tl.associative_scan((v, v * 2), 1, both)
    tl.store(out + 256 + at, total + largest)
)",
                      cpp, {}, {1}, expected, 1e-6, Array<float>(x));
}

TEST(FrontEnds, MatmulWithPointersAsCarriedValues) {
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Ptr<"a"> a, Ptr<"b"> b, Int<"K"> K, Const<"BK"> BK) {
    Tile i = arange(0, 16), k = arange(0, BK);
    Tile acc = zeros({16, 16}, tl::float32);
    Tile pa = a + i[{all, none}] * K + k[{none, all}];
    Tile pb = b + k[{all, none}] * 16 + i[{none, all}];
    for (Tile step : range(0, K, BK)) {
      acc = dot(load(pa), load(pb), acc);
      pa += BK;
      pb += BK * 16;
    }
    store(out + i[{all, none}] * 16 + i[{none, all}], acc);
  });
  auto a = ops::small_values<float16>(16 * 64, 7), b = ops::small_values<float16>(64 * 16, 8);
  expect_agree<float>(R"(@triton.jit
def kernel(out, a, b, K, BK: tl.constexpr):
    i = tl.arange(0, 16)
    k = tl.arange(0, BK)
    pa = a + i[:, None] * K + k[None, :]
    pb = b + k[:, None] * 16 + i[None, :]
    acc = tl.zeros((16, 16), tl.float32)
    for step in range(0, K, BK):
        acc = tl.dot(tl.load(pa), tl.load(pb), acc)
        pa += BK
        pb += BK * 16
    tl.store(out + i[:, None] * 16 + i[None, :], acc)
)",
                      cpp, {.constexprs = {{"BK", 16}}}, {1},
                      each(256,
                           [&](size_t i) {
                             double sum = 0;
                             for (size_t k = 0; k < 64; ++k)
                               sum += float(a[i / 16 * 64 + k]) * float(b[k * 16 + i % 16]);
                             return sum;
                           }),
                      1e-6, Array<float16>(a), Array<float16>(b), 64);
}

TEST(FrontEnds, ShapesCastsAndArithmetic) {
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Ptr<"x", int> x) {
    Tile i = arange(0, 32);
    Tile v = load(x + i);
    static_assert_(v.dtype().attribute("primitive_bitwidth") == 32, "32 bits");
    Tile m = reshape(v, list({4, 8}));
    Tile t = trans(m), u = permute(m, list({1, 0}));
    Tile f = where(t > 2, t, u * 3).to(tl::float32);
    Tile g = fdiv(f, f * f + 1) + power(2, 3) + cdiv(v.reshape(8, 4), 3) + v.reshape(8, 4) % 5;
    debug_barrier();
    Tile h = where(logical_and(g > 0, g < 100), g, abs(g));
    store(out + i, h.ravel().to(out.dtype().element_ty()));
  });
  auto x = ops::small_values<int32_t>(32, 9);
  expect_agree<float>(R"(@triton.jit
def kernel(out, x):
    i = tl.arange(0, 32)
    v = tl.load(x + i)
    tl.static_assert(v.dtype.primitive_bitwidth == 32, "32 bits")
    m = tl.reshape(v, (4, 8))
    t = tl.trans(m)
    u = tl.permute(m, (1, 0))
    f = tl.where(t > 2, t, u * 3).to(tl.float32)
    g = tl.fdiv(f, f * f + 1) + 2 ** 3 + tl.cdiv(v.reshape(8, 4), 3) + v.reshape(8, 4) % 5
    tl.debug_barrier()
    h = tl.where((g > 0) and (g < 100), g, tl.abs(g))
    tl.store(out + i, h.ravel().to(out.dtype.element_ty))
)",
                      cpp, {}, {1},
                      each(32,
                           [&](size_t i) {
                             int t = x[i % 4 * 8 + i / 4], v = x[i];
                             double f = t > 2 ? t : 3 * t, g = f / (f * f + 1) + 8 + (v + 2) / 3 + v % 5;
                             return g > 0 && g < 100 ? g : std::fabs(g);
                           }),
                      1e-6, Array<int32_t>(x));
}

TEST(FrontEnds, Atomics) {
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Bool<"twice"> twice, Float<"by"> by, Ptr<"bias"> bias) {
    Tile i = arange(0, 8);
    Tile v = full({8}, by, tl::float32);
    if_(bias != none, [&] { v += load(bias + i); });
    atomic_add(out + i, v, "mask"_a = i < 6);
    if_(twice, [&] { atomic_add(out + i, v); });
  });
  const char* text = R"(@triton.jit
def kernel(out, twice, by, bias):
    i = tl.arange(0, 8)
    v = tl.full((8,), by, tl.float32)
    if bias is not None:
        v += tl.load(bias + i)
    tl.atomic_add(out + i, v, mask=i < 6)
    if twice:
        tl.atomic_add(out + i, v)
)";
  std::vector<float> bias{1, 2, 3, 4, 5, 6, 7, 8};
  auto expected = [&](bool with_bias) {
    return each(8, [&](size_t i) { return (1.5 + with_bias * bias[i]) * (i < 6 ? 6 : 3); });
  };
  expect_agree<float>(text, cpp, {}, {3}, expected(true), 1e-6, true, 1.5f, Array<float>(bias));
  expect_agree<float>(text, cpp, {}, {3}, expected(false), 1e-6, true, 1.5f, nullptr);
}

TEST(FrontEnds, ConstantsOfAllTypes) {
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Const<"N"> N, Const<"ADD", bool> ADD, Const<"EPS", double> EPS,
                                 Const<"MODE", std::string> MODE, Const<"TYPE", Elem> TYPE, Const<"M", int64_t, 3> M,
                                 Const<"SIGN", bool, true> SIGN, Const<"HOW", std::string, Name("fast")> HOW,
                                 Const<"TO", Elem, tl::float32> TO) {
    Tile i = arange(0, N);
    Tile v = i.to(TYPE).to(TO) + EPS;
    if (ADD) v += M;
    if (MODE == "square") v *= v;
    if (SIGN && HOW == "fast") v = -v;
    store(out + i, v);
  });
  expect_agree<float>(R"(@triton.jit
def kernel(out, N: tl.constexpr, ADD: tl.constexpr, EPS: tl.constexpr, MODE: tl.constexpr, TYPE: tl.constexpr,
           M: tl.constexpr = 3, SIGN: tl.constexpr = True, HOW: tl.constexpr = 'fast', TO: tl.constexpr = tl.float32):
    i = tl.arange(0, N)
    v = i.to(TYPE).to(TO) + EPS
    if ADD:
        v += M
    if MODE == 'square':
        v *= v
    if SIGN and HOW == 'fast':
        v = -v
    tl.store(out + i, v)
)",
                      cpp,
                      {.constexprs = {{"N", 8}, {"ADD", true}, {"EPS", 0.5}, {"MODE", "square"}, {"TYPE", Elem::F16}}},
                      {1}, each(8, [](size_t i) { return -(double(i) + 3.5) * (double(i) + 3.5); }), 1e-6);
}

// C++ containers of Tiles, lambdas and loops; Tiles that move in vectors and swaps keep their place in loops.
TEST(FrontEnds, ContainersOfTiles) {
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Ptr<"x"> x, Int<"n"> n) {
    Tile i = arange(0, 8);
    std::vector<Tile> sums;
    for (int k = 0; k < 3; ++k) sums.push_back(zeros({8}, tl::float32));
    auto add = [](Tile& to, const Tile& value) { to += value; };
    for (Tile step : range(0, n)) {
      Tile v = load(x + step * 8 + i);
      for (int k = 0; k < 3; ++k) add(sums[size_t(k)], v * (k + 1));
      std::swap(sums[0], sums[2]);
      sums.push_back(v);
      sums.pop_back();
    }
    for (int k = 0; k < 3; ++k) store(out + 8 * k + i, sums[size_t(k)]);
  });
  auto x = floats(24, 10);
  double sums[24] = {};
  for (size_t step = 0; step < 3; ++step) {
    for (size_t i = 0; i < 24; ++i) sums[i] += double(x[step * 8 + i % 8]) * double(i / 8 + 1);
    for (size_t i = 0; i < 8; ++i) std::swap(sums[i], sums[16 + i]);
  }
  expect_agree<float>(R"(@triton.jit
def kernel(out, x, n):
    i = tl.arange(0, 8)
    a = tl.zeros((8,), tl.float32)
    b = tl.zeros((8,), tl.float32)
    c = tl.zeros((8,), tl.float32)
    for step in range(0, n):
        v = tl.load(x + step * 8 + i)
        a += v * 1
        b += v * 2
        c += v * 3
        a, c = c, a
    tl.store(out + i, a)
    tl.store(out + 8 + i, b)
    tl.store(out + 16 + i, c)
)",
                      cpp, {}, {1}, std::vector<double>(sums, sums + 24), 1e-6, Array<float>(x), 3);
}

TEST(FrontEnds, NumbersAsArguments) {
  auto cpp = kernel("kernel", [](Ptr<"out", float> out, Float<"f"> f, Float<"g", double> g, Int<"n", int64_t> n,
                                 Int<"m", uint8_t> m, Bool<"b"> b) { store(out, f + g.to(tl::float32) + n + m + b); });
  Array<float> out(1, 0);
  cpp.launch(device(), {1}, {}, out.at(0), 0.5, 0.25f, 3, 4, true);
  EXPECT_EQ(out.values()[0], 8.75f);
  EXPECT_EQ(message_of([&] { cpp.launch(device(), {1}, {}, out.at(0), 0.5, 0.25f, 3, 400, true); }),
            "kernel 'kernel', argument 'm': 400 does not fit u8 (0 to 255)");
}

Tile twice(Tile x) {
  x += x;
  return x;
}

// What C++ does with copies, moves and captures is what the kernel does.
TEST(FrontEnds, TilesAreVariables) {
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Int<"n"> n) {
    Tile a = n + 0, kept = a;
    auto by_copy = [a] { return a + 1; };
    a = twice(a);
    Tile moved = std::move(a);
    a += 1;
    struct Pair {
      Tile first, second;
    } pair{moved, a};
    std::optional<Pair> held;
    for (Tile k : range(3)) {
      held = pair;
      pair.first += held->second;
      Tile& alias = pair.second;
      alias = alias + k;
      Tile unused = std::move(moved);
      unused += 100;
    }
    std::array<Tile, 6> results{kept, by_copy(), a, moved, pair.first, pair.second};
    for (size_t i = 0; i < results.size(); ++i) store(out + i, results[i]);
  });
  Array<int32_t> out(6, 0);
  cpp.launch(device(), {1}, {}, out.at(0), 5);
  EXPECT_EQ(out.values(), (std::vector<int32_t>{5, 6, 11, 10, 10 + 11 + 11 + 12, 14}));
}

}  // namespace
}  // namespace tegula
