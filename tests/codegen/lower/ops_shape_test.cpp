// label: device
// Shape operations, alone and in chains that move elements between threads: within registers, between lanes, through
// shared memory.
#include <functional>
#include <numeric>

#include "tests/codegen/lower/ops_support.h"

namespace tegula::ops {
namespace {

using Shape = std::vector<int>;

int elements(const Shape& shape) { return std::accumulate(shape.begin(), shape.end(), 1, std::multiplies<>()); }

// A tile on the host, with the same operations.
struct Tile {
  Shape shape;
  std::vector<int> x;

  Tile reshape(Shape to) const { return {std::move(to), x}; }
  Tile expand(int axis) const {
    Shape to = shape;
    to.insert(to.begin() + axis, 1);
    return {to, x};
  }
  template <class At>  // at(coordinates) gives the place in x
  static Tile make(const Shape& shape, At at) {
    Tile out{shape, {}};
    for (int i = 0; i < elements(shape); ++i) {
      Shape c(shape.size());
      for (int d = int(shape.size()) - 1, rest = i; d >= 0; rest /= shape[size_t(d)], --d)
        c[size_t(d)] = rest % shape[size_t(d)];
      out.x.push_back(at(c));
    }
    return out;
  }
  int at(const Shape& c) const {
    int place = 0;
    for (size_t d = 0; d < shape.size(); ++d) place = place * shape[d] + (shape[d] == 1 ? 0 : c[d]);
    return x[size_t(place)];
  }
  Tile permute(const Shape& order) const {
    Shape to;
    for (int d : order) to.push_back(shape[size_t(d)]);
    return make(to, [&](const Shape& c) {
      Shape from(c.size());
      for (size_t d = 0; d < order.size(); ++d) from[size_t(order[d])] = c[d];
      return at(from);
    });
  }
  Tile broadcast(const Shape& to) const {
    return make(to, [&](const Shape& c) { return at(c); });
  }
};

template <class T>
std::vector<T> run_chain(const std::string& body, const Tile& in, int out_elements, int num_warps) {
  std::vector<T> x;
  for (int v : in.x) x.push_back(T(v));
  Array<T> input(x), out{size_t(out_elements)};
  run(fmt::format("@triton.jit\ndef kernel(x, y):\n    a = tl.load(x + tl.arange(0, {}))\n{}\n    tl.store(y + "
                  "tl.arange(0, {}), tl.ravel(a))\n",
                  elements(in.shape), indented(body), out_elements),
      {.num_warps = num_warps}, {1}, input, out);
  return out.values();
}

Tile counted(const Shape& shape, int modulus) {
  return Tile::make(shape, [&, i = 0](const Shape&) mutable { return i++ * 7 % modulus; });
}

struct Chain {
  Shape shape;  ///< of the input, loaded as a tile of rank 1 and brought to this shape first
  std::string body;
  std::function<Tile(const Tile&)> exact;
};

const std::vector<Chain>& chains() {
  static const std::vector<Chain> list = {
      {{256}, "", [](const Tile& t) { return t; }},
      {{16, 32},
       "a = tl.trans(a)",
       [](const Tile& t) {
         return t.permute({1, 0});
       }},
      {{1, 64},
       "a = a.T",
       [](const Tile& t) {
         return t.permute({1, 0});
       }},
      {{64, 64},
       "a = tl.trans(a)\na = a + tl.trans(a)",
       [](const Tile& t) {
         Tile u = t.permute({1, 0}), v = u.permute({1, 0});
         for (size_t i = 0; i < u.x.size(); ++i) u.x[i] += v.x[i];
         return u;
       }},
      {{4, 8, 16},
       "a = tl.permute(a, (2, 0, 1))",
       [](const Tile& t) {
         return t.permute({2, 0, 1});
       }},
      {{4, 8, 16},
       "a = tl.trans(a, 1, 2, 0)",
       [](const Tile& t) {
         return t.permute({1, 2, 0});
       }},
      {{4, 8, 16},
       "a = a.permute(2, 1, 0)",
       [](const Tile& t) {
         return t.permute({2, 1, 0});
       }},
      {{2, 1, 128},
       "a = tl.trans(a)",
       [](const Tile& t) {
         return t.permute({0, 2, 1});
       }},
      {{8, 64},
       "a = tl.reshape(a, (64, 8))\na = tl.trans(a)\na = tl.reshape(a, (4, 4, 32))\na = tl.permute(a, (1, 2, 0))",
       [](const Tile& t) {
         return t.reshape({64, 8}).permute({1, 0}).reshape({4, 4, 32}).permute({1, 2, 0});
       }},
      {{1024},
       "a = tl.view(a, (32, 32)).T\na = a.reshape(2, 16, 32)\na = a.trans(0, 2, 1)",
       [](const Tile& t) {
         return t.reshape({32, 32}).permute({1, 0}).reshape({2, 16, 32}).permute({0, 2, 1});
       }},
      {{64},
       "a = a[:, None] + tl.zeros((64, 8), x.dtype.element_ty)",
       [](const Tile& t) {
         return t.expand(1).broadcast({64, 8});
       }},
      {{64},
       "a = a[None, :] + tl.zeros((8, 64), x.dtype.element_ty)",
       [](const Tile& t) {
         return t.expand(0).broadcast({8, 64});
       }},
      {{64},
       "a = tl.broadcast_to(tl.expand_dims(a, 1), (64, 16))",
       [](const Tile& t) {
         return t.expand(1).broadcast({64, 16});
       }},
      {{64},
       "a = tl.broadcast_to(tl.expand_dims(a, (0, 2)), 2, 64, 4)",
       [](const Tile& t) {
         return t.reshape({1, 64, 1}).broadcast({2, 64, 4});
       }},
      {{16},
       "b, c = tl.broadcast(a[:, None], a[None, :])\na = b * 16 + c",
       [](const Tile& t) {
         Tile b = t.expand(1).broadcast({16, 16}), c = t.expand(0).broadcast({16, 16});
         for (size_t i = 0; i < b.x.size(); ++i) b.x[i] = b.x[i] * 16 + c.x[i];
         return b;
       }},
      {{32, 16},
       "s = tl.max(a, 1)\na = tl.trans(s[:, None] + tl.zeros((32, 4), x.dtype.element_ty))",
       [](const Tile& t) {
         Tile s{{32, 1}, {}};
         for (int i = 0; i < 32; ++i) s.x.push_back(*std::max_element(t.x.begin() + i * 16, t.x.begin() + i * 16 + 16));
         return s.broadcast({32, 4}).permute({1, 0});
       }},
      {{32, 32},
       "r = tl.max(a, 0)\nc = tl.max(a, 1)\na = r[:, None] - c[None, :]",
       [](const Tile& t) {
         std::vector<int> r(32), c(32);
         for (int i = 0; i < 32; ++i)
           for (int j = 0; j < 32; ++j) r[j] = std::max(r[j], t.x[i * 32 + j]), c[i] = std::max(c[i], t.x[i * 32 + j]);
         return Tile::make({32, 32}, [&](const Shape& p) { return r[size_t(p[0])] - c[size_t(p[1])]; });
       }},
      {{2, 2, 2},
       "a = tl.permute(a, (1, 0, 2))",
       [](const Tile& t) {
         return t.permute({1, 0, 2});
       }},
      {{1}, "a = tl.broadcast_to(a, (128,))", [](const Tile& t) { return t.broadcast({128}); }},
      {{4096},
       "a = a.reshape(16, 16, 16).permute(2, 0, 1)",
       [](const Tile& t) {
         return t.reshape({16, 16, 16}).permute({2, 0, 1});
       }},
  };
  return list;
}

template <class T>
void check_chain(const Chain& chain, int num_warps) {
  SCOPED_TRACE(fmt::format("{} num_warps {}\n{}", tl<T>(), num_warps, chain.body));
  Tile in = counted(chain.shape, is_bool<T> ? 2 : 97);
  Tile expected = chain.exact(in);
  std::string body = (chain.shape.size() > 1 ? fmt::format("a = tl.reshape(a, ({}))\n", fmt::join(chain.shape, ", "))
                                             : std::string()) +
                     chain.body;
  auto out = run_chain<T>(body, in, elements(expected.shape), num_warps);
  expect_equal(out, "chain", [&](size_t i) { return T(expected.x[i]); });
}

TEST(Shapes, ChainsUnderAllWarps) {
  for (const Chain& chain : chains())
    for (int num_warps : {1, 4, 8}) check_chain<int32_t>(chain, num_warps);
}

TEST(Shapes, ChainsOfAllWidths) {
  for (const Chain& chain : chains()) {
    check_chain<double>(chain, next_warps());
    check_chain<float16>(chain, next_warps());
    check_chain<int8_t>(chain, next_warps());
  }
}

TEST(Shapes, MovesBooleans) {
  for (int num_warps : {1, 4, 8})
    for (size_t i : {1u, 4u, 8u, 9u, 19u}) check_chain<Boolean>(chains()[i], num_warps);
}

// Random chains of reshape and permute, with arithmetic between so that layouts must agree.
TEST(Shapes, RandomChains) {
  std::mt19937 random(70);
  for (int turn = 0; turn < 40; ++turn) {
    int bits = 5 + int(random() % 7);
    Tile in = counted({1 << bits}, 127), expected = in;
    std::string body;
    for (int step = 0; step < 4; ++step) {
      int first = int(random() % unsigned(bits + 1)), second = int(random() % unsigned(bits - first + 1));
      Shape to{1 << first, 1 << second, 1 << (bits - first - second)};
      Shape order{0, 1, 2};
      std::shuffle(order.begin(), order.end(), random);
      body += fmt::format("a = tl.permute(tl.reshape(a, ({})), ({}))\n", fmt::join(to, ", "), fmt::join(order, ", "));
      expected = expected.reshape(to).permute(order);
      if (random() & 1) {
        body += "a = a * 3 - 1\n";
        for (int& v : expected.x) v = v * 3 - 1;
      }
    }
    int num_warps = next_warps();
    SCOPED_TRACE(fmt::format("num_warps {}\n{}", num_warps, body));
    expect_equal(run_chain<int32_t>(body, in, 1 << bits, num_warps), "chain", [&](size_t i) { return expected.x[i]; });
  }
}

// Tiles that shared memory does not hold at once: they change threads in rounds.
template <class T>
void check_large_tile(int m, int n, int num_warps) {
  SCOPED_TRACE(fmt::format("{} {} x {} num_warps {}", tl<T>(), m, n, num_warps));
  const Tile tile = counted({m, n}, 97);
  std::vector<T> values;
  for (int v : tile.x) values.push_back(T(v));
  Array<T> x(values), y(values), out{values.size()};
  run(R"(
@triton.jit
def kernel(x, y, out, M: tl.constexpr, N: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    a = tl.load(x + m[:, None] * N + n[None, :])
    b = tl.load(y + n[:, None] * M + m[None, :])
    tl.store(out + m[:, None] * N + n[None, :], a + tl.trans(b))
)",
      {.constexprs = {{"M", m}, {"N", n}}, .num_warps = num_warps}, {1}, x, y, out);
  const Tile turned = tile.reshape({n, m}).permute({1, 0});
  expect_equal(out.values(), "sum", [&](size_t i) { return T(tile.x[i] + turned.x[i]); });
}

TEST(Shapes, LargeTilesChangeThreadsInRounds) {
  check_large_tile<float>(256, 256, 8);
  check_large_tile<int32_t>(512, 128, 4);
  check_large_tile<int16_t>(512, 256, 16);
  check_large_tile<double>(64, 512, 8);
  check_large_tile<double>(256, 256, 16);
  check_large_tile<float>(192, 512, 8);
}

TEST(Shapes, Creation) {
  Array<float> out(1024);
  Array<int32_t> ints(64);
  run(R"(
@triton.jit
def kernel(y, z):
    i = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tl.store(y + i, tl.full((16, 32), 2.5, tl.float32))
    tl.store(y + 512 + i, tl.zeros_like(i) + tl.zeros([16, 32], dtype=tl.float32))
    j = tl.arange(8, 40)
    tl.static_assert(j.shape[0] == 32 and j.numel == 32)
    tl.store(z + tl.arange(0, 32), j)
    tl.store(z + 32 + tl.arange(0, 32), tl.full([32], tl.program_id(0) + 7, tl.int32))
)",
      {}, {1}, out, ints);
  expect_equal(out.values(), "full", [](size_t i) { return i < 512 ? 2.5f : 0.0f; });
  expect_equal(ints.values(), "arange", [](size_t i) { return i < 32 ? int32_t(8 + i) : 7; });
}

TEST(Shapes, Dot) {
  auto a = small_values<float16>(32 * 64, 71, 4), b = small_values<float16>(64 * 16, 72, 4);
  Array<float16> x(a), y(b);
  for (int num_warps : {1, 4}) {
    Array<float> out(32 * 16);
    run(R"(
@triton.jit
def kernel(x, y, z):
    m = tl.arange(0, 32)
    n = tl.arange(0, 16)
    k = tl.arange(0, 64)
    a = tl.load(x + m[:, None] * 64 + k[None, :])
    b = tl.load(y + k[:, None] * 16 + n[None, :])
    c = tl.dot(a, b, acc=tl.full((32, 16), 1.0, tl.float32))
    tl.store(z + m[:, None] * 16 + n[None, :], tl.trans(tl.trans(c)) * 2.0)
)",
        {.num_warps = num_warps}, {1}, x, y, out);
    expect_equal(out.values(), "dot", [&](size_t i) {
      float sum = 1;
      for (size_t k = 0; k < 64; ++k) sum += float(a[i / 16 * 64 + k]) * float(b[k * 16 + i % 16]);
      return 2 * sum;
    });
  }
}

}  // namespace
}  // namespace tegula::ops
