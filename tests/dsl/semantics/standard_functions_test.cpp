// label: device
// Functions that are made of several ops: tiles put together and taken apart, orders of programs, products in several
// precisions and of operands in microscaling formats. Functions of the text, and what they give.
#include "runtime/base/float8.h"
#include "tests/codegen/lower/ops_support.h"

namespace tegula::ops {
namespace {

// ------------------------------------------------------------------------------------------ functions of the text

TEST(Standard, FullOfBooleans) {
  Array<int32_t> out(80);
  run(R"(
@triton.jit
def kernel(out):
    i = tl.arange(0, 16)
    tl.store(out + i, tl.full((16,), 1.5, tl.int1).to(tl.int32))
    tl.store(out + 16 + i, tl.full((16,), 2, tl.int1).to(tl.int32))
    tl.store(out + 32 + i, tl.full((16,), -1.0, tl.int1).to(tl.int32))
    tl.store(out + 48 + i, tl.full((16,), 0.0, tl.int1).to(tl.int32))
    tl.store(out + 64 + i, tl.full((16,), 0, tl.int1).to(tl.int32))
)",
      {}, {1}, out);
  const std::vector<int32_t> got = out.values();
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], i < 48 ? 1 : 0) << i;
}

// What a function that returns nothing gives is None, which a name may stand for.
TEST(Standard, NamesOfNothing) {
  Array<float> out(32);
  run(R"(
@triton.jit
def put(p, x):
    tl.store(p, x)

@triton.jit
def kernel(out, n):
    i = tl.arange(0, 16)
    r = put(out + i, 2.0)
    if n > 3:
        r = put(out + i, 3.0)
    if r is None:
        r = put(out + 16 + i, 4.0)
)",
      {}, {1}, out, 5);
  const std::vector<float> got = out.values();
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(got[i], i < 16 ? 3 : 4) << i;
}

// Functions that functions of the file define and return, each with the values around it.
TEST(Standard, FunctionsThatFunctionsMake) {
  Array<float> out(16);
  Array<int32_t> reduced(3);
  run(R"(
def times(c):
    @triton.jit
    def g(x):
        return x * c
    return g

def make_op(kind, scale=1):
    factor = tl.constexpr(scale)
    if kind == "max":
        @triton.jit
        def combine(a, b):
            return tl.maximum(a, b) * factor
    else:
        @triton.jit
        def combine(a, b):
            return a + b * factor
    scale = 100
    return combine

def twice(f):
    @triton.jit
    def of(x):
        return f(f(x))
    return of

three, four = times(tl.constexpr(3)), times(4)
nine = twice(three)
largest = make_op("max")
total = make_op("sum")

@triton.jit
def kernel(out, reduced):
    i = tl.arange(0, 16)
    x = i.to(tl.float32)
    tl.store(out + i, three(x) + four(x) + nine(x))
    tl.store(reduced, tl.reduce(i, 0, largest))
    tl.store(reduced + 1, tl.reduce(i, 0, total))
    tl.store(reduced + 2, twice_of(5))

twice_of = twice(times(2))
)",
      {}, {1}, out, reduced);
  const std::vector<float> got = out.values();
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(got[i], 16 * float(i));
  EXPECT_EQ(reduced.values(), (std::vector<int32_t>{15, 120, 20}));
}

// ------------------------------------------------------------------------------- tiles put together and taken apart

template <class T>
void check_joins(int n, int num_warps) {
  SCOPED_TRACE(fmt::format("{} {} elements, num_warps {}", tl<T>(), n, num_warps));
  auto a = random_values<T>(size_t(n), 7), b = random_values<T>(size_t(n), 8);
  Array<T> joined(size_t(2 * n)), turns(size_t(2 * n)), both(size_t(2 * n)), halves(size_t(2 * n)), scalars(4);
  run(R"(
@triton.jit
def kernel(a, b, joined, turns, both, halves, scalars, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(a + i)
    y = tl.load(b + i)
    j = tl.join(x, y)
    tl.static_assert(j.dtype == x.dtype)
    tl.store(joined + i[:, None] * 2 + tl.arange(0, 2)[None, :], j)
    k = tl.arange(0, 2 * N)
    tl.store(turns + k, tl.interleave(x, y))
    tl.store(both + k, tl.cat(x, y, can_reorder=True))
    left, right = j.split()
    tl.static_assert(left.dtype == x.dtype)
    tl.store(halves + i, right)
    tl.store(halves + N + i, left)
    s, t = tl.split(tl.load(a + tl.arange(0, 2)))
    tl.store(scalars, t)
    tl.store(scalars + 1, s)
    tl.store(scalars + 2 + tl.arange(0, 2), tl.interleave(s, t))
)",
      {.constexprs = {{"N", n}}, .num_warps = num_warps}, {1}, Array<T>(a), Array<T>(b), joined, turns, both, halves,
      scalars);
  auto in_turns = [&](size_t i) { return i % 2 ? b[i / 2] : a[i / 2]; };
  auto bits_equal = [](const std::vector<T>& got, auto expected, const char* what) {
    for (size_t i = 0; i < got.size(); ++i) {
      T e = expected(i);
      ASSERT_EQ(std::memcmp(&got[i], &e, sizeof(T)), 0) << what << " " << i;
    }
  };
  bits_equal(joined.values(), in_turns, "join");
  bits_equal(turns.values(), in_turns, "interleave");
  bits_equal(
      both.values(), [&](size_t i) { return i < size_t(n) ? a[i] : b[i - size_t(n)]; }, "cat");
  bits_equal(
      halves.values(), [&](size_t i) { return i < size_t(n) ? b[i] : a[i - size_t(n)]; }, "split");
  bits_equal(
      scalars.values(), [&](size_t i) { return a[i == 0 || i == 3]; }, "scalars");
}

TEST(Joins, OfAllTypes) {
  for_types<AllTypes>([](auto type) { check_joins<decltype(type)>(64, next_warps()); });
}

TEST(Joins, OfManyExtents) {
  for (int n : {2, 8, 48, 96, 256, 1024})
    for (int num_warps : {1, 4}) check_joins<float>(n, num_warps);
}

TEST(Joins, HigherRanksAndPointers) {
  std::vector<int32_t> x(64);
  for (int i = 0; i < 64; ++i) x[size_t(i)] = i;
  Array<int32_t> in(x), out(64), far(64);
  run(R"(
@triton.jit
def kernel(x, y, z):
    o = tl.arange(0, 64)
    a = tl.load(x + o).reshape(4, 4, 2, 2)
    p, q = tl.split(a)
    r, s = tl.split(p)
    tl.static_assert(r.shape[0] == 4 and r.shape[1] == 4)
    tl.store(y + o, tl.join(tl.join(r, s), q).reshape(64))
    i = tl.arange(0, 32)
    p, q = tl.split(tl.join(x + i, x + 32 + i))
    tl.store(z + i, tl.load(q))
    tl.store(z + 32 + i, tl.load(p))
    tl.static_assert(tl.squeeze(a.reshape(4, 1, 16), 1).shape[1] == 16)
    tl.static_assert(tl.unsqueeze(r, -1).shape[2] == 1)
)",
      {}, {1}, in, out, far);
  // join(join(r, s), q): [i, j, k, 0] is a[i, j, k, 0], [i, j, k, 1] is a[i, j, k, 1]
  expect_equal(out.values(), "split and join", [](size_t i) { return int32_t(i); });
  expect_equal(far.values(), "pointers", [](size_t i) { return int32_t((i + 32) % 64); });
}

TEST(Joins, CatAlongAnyAxis) {
  const size_t extents[] = {4, 8, 16};
  std::vector<int32_t> x(512);
  for (int i = 0; i < 512; ++i) x[size_t(i)] = i;
  for (int dim : {0, 1, 2, -1}) {
    Array<int32_t> in(x), out(1024);
    run(R"(
@triton.jit
def kernel(x, y, DIM: tl.constexpr):
    a = tl.load(x + tl.arange(0, 512)).reshape(4, 8, 16)
    both = tl.cat(a, -a, dim=DIM)
    tl.static_assert(both.shape[DIM] == 2 * a.shape[DIM])
    tl.store(y + tl.arange(0, 1024), both.reshape(1024))
)",
        {.constexprs = {{"DIM", dim}}}, {1}, in, out);
    const size_t axis = dim < 0 ? 2 : size_t(dim);
    expect_equal(out.values(), "cat", [&](size_t i) {
      size_t at[3], shape[3];
      for (size_t d = 0; d < 3; ++d) shape[d] = extents[d] * (d == axis ? 2 : 1);
      for (size_t d = 3; d-- > 0; i /= shape[d]) at[d] = i % shape[d];
      const bool second = at[axis] >= extents[axis];
      if (second) at[axis] -= extents[axis];
      const int32_t value = int32_t((at[0] * extents[1] + at[1]) * extents[2] + at[2]);
      return second ? -value : value;
    });
  }
}

TEST(Standard, Swizzle2d) {
  for (auto [rows, columns, group] : {std::array{4, 4, 2}, std::array{5, 3, 2}, std::array{7, 2, 8}}) {
    Array<int32_t> out(64);
    run(R"(
@triton.jit
def kernel(out, rows, columns, group):
    p = tl.arange(0, 32)
    i, j = tl.swizzle2d(p // columns, p % columns, rows, columns, group)
    tl.store(out + p * 2, i)
    tl.store(out + p * 2 + 1, j)
    a, b = tl.swizzle2d(1, 1, 4, 4, 2)
    tl.static_assert(a == 1 and b == 2)
    tl.static_assert(tl.standard._log2(96) == 6 and tl.standard._log2(1) == 0)
)",
        {}, {1}, out, rows, columns, group);
    std::vector<int32_t> got = out.values();
    // Groups of rows, each column by column.
    std::vector<std::pair<int, int>> order;
    for (int first = 0; first < rows; first += group)
      for (int j = 0; j < columns; ++j)
        for (int i = first; i < std::min(rows, first + group); ++i) order.emplace_back(i, j);
    for (size_t p = 0; p < order.size(); ++p)
      EXPECT_EQ(std::pair(got[2 * p], got[2 * p + 1]), order[p]) << rows << " x " << columns << " at " << p;
  }
}

// ------------------------------------------------------------------------------------------------------- products

TEST(Products, Bfloat16Parts) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> a(32 * 64), b(64 * 16);
  for (float& x : a) x = normal(random);
  for (float& x : b) x = normal(random);
  a[5] = INFINITY;  // its parts are infinite and NaN; the row is infinite or NaN all the same, and no other one is
  for (auto [precision, tolerance] : {std::pair{"bf16x3", 1e-3}, std::pair{"BF16x6", 2e-5}}) {
    Array<float> out(32 * 16);
    run(R"(
@triton.jit
def kernel(a, b, c, P: tl.constexpr):
    m, n, k = tl.arange(0, 32), tl.arange(0, 16), tl.arange(0, 64)
    x = tl.load(a + m[:, None] * 64 + k[None, :])
    y = tl.load(b + k[:, None] * 16 + n[None, :])
    acc = tl.full((32, 16), 3.0, tl.float32)
    tl.store(c + m[:, None] * 16 + n[None, :], tl.dot(x, y, acc, input_precision=P))
)",
        {.constexprs = {{"P", precision}}}, {1}, Array<float>(a), Array<float>(b), out);
    std::vector<float> got = out.values();
    double worst = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      double sum = 3;
      for (size_t k = 0; k < 64; ++k) sum += double(a[i / 16 * 64 + k]) * b[k * 16 + i % 16];
      if (i < 16) {
        EXPECT_TRUE(std::isinf(got[i]) && got[i] == float(sum)) << i << " " << got[i];
      } else {
        worst = std::max(worst, std::fabs(got[i] - sum));
      }
    }
    EXPECT_LT(worst, tolerance) << precision;
  }
}

TEST(Products, OfHigherRank) {
  auto a = small_values<float16>(4 * 16 * 32, 11, 3), b = small_values<float16>(4 * 32 * 16, 12, 3);
  Array<float> out(4 * 16 * 16);
  run(R"(
@triton.jit
def kernel(a, b, c):
    x = tl.load(a + tl.arange(0, 2048)).reshape(2, 2, 16, 32)
    y = tl.load(b + tl.arange(0, 2048)).reshape(2, 2, 32, 16)
    z = tl.dot(x, y, acc=tl.full((2, 2, 16, 16), 1.0, tl.float32))
    tl.store(c + tl.arange(0, 1024), z.reshape(1024))
)",
      {}, {1}, Array<float16>(a), Array<float16>(b), out);
  expect_equal(out.values(), "dot", [&](size_t i) {
    float sum = 1;
    for (size_t k = 0; k < 32; ++k) sum += float(a[i / 16 * 32 + k]) * float(b[i / 256 * 512 + k * 16 + i % 16]);
    return sum;
  });
}

// ------------------------------------------------------------------------------------------- microscaling formats

float of_e2m1(int x) {
  constexpr float kValues[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  return x & 8 ? -kValues[x & 7] : kValues[x & 7];
}

struct Format {
  const char* name;
  int per_byte;  ///< elements in a byte
  std::function<float(uint8_t byte, int which)> value;
};
const Format kE2m1 = {"e2m1", 2, [](uint8_t byte, int which) { return of_e2m1(byte >> 4 * which & 15); }};
const Format kE4m3 = {"e4m3", 1, [](uint8_t byte, int) { return float(float8e4nv::of_bits(byte)); }};
const Format kE5m2 = {"e5m2", 1, [](uint8_t byte, int) { return float(float8e5::of_bits(byte)); }};

float of_e8m0(uint8_t x) { return x == 255 ? NAN : x == 0 ? 0 : std::ldexp(1.0f, int(x) - 127); }

// A matrix [rows, columns] of a format with `pack` axis 0 or 1 along which two elements share a byte.
struct Packed {
  const Format& format;
  int rows, columns, pack;
  std::vector<uint8_t> bytes;

  Packed(const Format& f, int rows, int columns, int pack, unsigned seed)
      : format(f), rows(rows), columns(columns), pack(pack), bytes(size_t(rows * columns / f.per_byte)) {
    std::mt19937 random(seed);
    for (uint8_t& x : bytes)  // no NaN, no infinity, and sums that stay small
      x = f.per_byte == 2 ? uint8_t(random()) : uint8_t((random() % 0x48) | (random() & 0x80));
  }
  int byte_columns() const { return pack == 1 ? columns / format.per_byte : columns; }
  int byte_rows() const { return pack == 0 ? rows / format.per_byte : rows; }
  float at(int i, int j) const {
    const int n = format.per_byte, which = n == 1 ? 0 : (pack == 0 ? i : j) % n;
    return format.value(bytes[size_t((pack == 0 ? i / n : i) * byte_columns() + (pack == 1 ? j / n : j))], which);
  }
};

void check_scaled(const Format& left, const Format& right, bool left_k, bool right_k, bool fast) {
  SCOPED_TRACE(fmt::format("{} x {}, k_pack {} {}", left.name, right.name, left_k, right_k));
  constexpr int m = 32, n = 16, k = 64, groups = 2;
  Packed a(left, m, k, left_k ? 1 : 0, 21), b(right, k, n, right_k ? 0 : 1, 22);
  std::mt19937 random(23);
  std::vector<uint8_t> sa(m * groups), sb(n * groups);
  for (auto* scales : {&sa, &sb})
    for (uint8_t& x : *scales) x = uint8_t(124 + random() % 6);
  sa[7] = 0;
  if (!fast) sa[4] = 255;
  Array<float> out(m * n);
  run(R"(
@triton.jit
def kernel(a, b, sa, sb, c, MA: tl.constexpr, KA: tl.constexpr, KB: tl.constexpr, NB: tl.constexpr, FA: tl.constexpr, FB: tl.constexpr, PA: tl.constexpr, PB: tl.constexpr, FAST: tl.constexpr):
    m, n, g = tl.arange(0, 32), tl.arange(0, 16), tl.arange(0, 2)
    x = tl.load(a + tl.arange(0, MA)[:, None] * KA + tl.arange(0, KA)[None, :])
    y = tl.load(b + tl.arange(0, KB)[:, None] * NB + tl.arange(0, NB)[None, :])
    s = tl.load(sa + m[:, None] * 2 + g[None, :])
    t = tl.load(sb + n[:, None] * 2 + g[None, :])
    z = tl.dot_scaled(x, s, FA, y, t, FB, fast_math=FAST, lhs_k_pack=PA, rhs_k_pack=PB)
    tl.store(c + m[:, None] * 16 + n[None, :], z)
)",
      {.constexprs = {{"MA", a.byte_rows()},
                      {"KA", a.byte_columns()},
                      {"KB", b.byte_rows()},
                      {"NB", b.byte_columns()},
                      {"FA", left.name},
                      {"FB", right.name},
                      {"PA", left_k},
                      {"PB", right_k},
                      {"FAST", fast}}},
      {1}, Array<uint8_t>(a.bytes), Array<uint8_t>(b.bytes), Array<uint8_t>(sa), Array<uint8_t>(sb), out);
  std::vector<float> got = out.values();
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int p = 0; p < k; ++p)
        sum += double(a.at(i, p)) * of_e8m0(sa[size_t(i * groups + p / 32)]) * b.at(p, j) *
               of_e8m0(sb[size_t(j * groups + p / 32)]);
      const float x = got[size_t(i * n + j)];
      if (std::isnan(sum)) {
        EXPECT_TRUE(std::isnan(x)) << i << " " << j;
      } else {
        ASSERT_NEAR(x, sum, 1e-5 * (1 + std::fabs(sum))) << i << " " << j;
      }
    }
}

TEST(ScaledProducts, OfAllFormats) {
  check_scaled(kE2m1, kE2m1, true, true, false);
  check_scaled(kE2m1, kE4m3, true, true, false);
  check_scaled(kE5m2, kE2m1, true, true, true);
  check_scaled(kE4m3, kE5m2, true, true, false);
  check_scaled(kE2m1, kE2m1, false, false, false);
}

// Multiplied as they are, with as many bits as products of float8 have.
TEST(ScaledProducts, OfFloat8WithoutScales) {
  constexpr int m = 64, n = 16, k = 128;
  const Packed a(kE4m3, m, k, 1, 31), b(kE5m2, k, n, 0, 32);
  Array<float> out(m * n);
  run(R"(
@triton.jit
def kernel(a, b, c):
    m, n, k = tl.arange(0, 64), tl.arange(0, 16), tl.arange(0, 128)
    x = tl.load(a + m[:, None] * 128 + k[None, :])
    y = tl.load(b + k[:, None] * 16 + n[None, :])
    z = tl.dot_scaled(x, None, "e4m3", y, None, "e5m2", tl.full((64, 16), 2.0, tl.float32))
    tl.store(c + m[:, None] * 16 + n[None, :], z)
)",
      {}, {1}, Array<uint8_t>(a.bytes), Array<uint8_t>(b.bytes), out);
  const std::vector<float> got = out.values();
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 2, all = 2;
      for (int p = 0; p < k; ++p) {
        const double term = double(a.at(i, p)) * b.at(p, j);
        sum += term, all += std::fabs(term);
      }
      ASSERT_NEAR(got[size_t(i * n + j)], sum, all * 0x1p-11) << i << " " << j;
    }
}

// What kernels import of Triton's own library; masks by method.
TEST(StandardLibrary, CombineFunctions) {
  Array<int32_t> out(9);
  run(R"(
from triton.language.standard import _sum_combine, _argmax_combine_tie_break_left, _is_power_of_two

@triton.jit
def kernel(out):
    i = tl.arange(0, 8)
    x = (i * 5) % 8 // 2
    tl.static_assert(_is_power_of_two(64) and not _is_power_of_two(0) and not tl.standard._is_power_of_two(12))
    tl.store(out, tl.reduce(x, 0, _sum_combine))
    tl.store(out + 1, tl.reduce(x, 0, tl.standard._elementwise_max))
    tl.store(out + 2, tl.reduce(x, 0, tl.standard._xor_combine))
    value, index = tl.reduce((x, i), 0, _argmax_combine_tie_break_left)
    tl.store(out + 3, value)
    tl.store(out + 4, index)
    value, index = tl.reduce((x, i), 0, tl.standard._argmin_combine_tie_break_left)
    tl.store(out + 5, index)
    tl.store(out + 6, tl.max(tl.associative_scan(x + 1, 0, tl.standard._prod_combine), 0))
    tl.store(out + 7, tl.sum((x > 1).logical_and(i < 4).to(tl.int32), 0))
    tl.store(out + 8, tl.sum((x > 1).logical_or(i == 0).to(tl.int32), 0))
)",
      {}, {1}, out);
  // x = 0, 2, 1, 3, 2, 0, 3, 1
  EXPECT_EQ(out.values(), (std::vector<int32_t>{12, 3, 0, 3, 3, 0, 576, 2, 5}));
}

// Functions of reductions and scans may branch and loop, call others and have defaults.
TEST(StandardLibrary, CombineFunctionsWithControlFlow) {
  constexpr int kRows = 8, kColumns = 64;
  std::vector<int32_t> values;
  for (int i = 0; i < kRows * kColumns; ++i) values.push_back((i * 37 % 101 + 1) * 12 * (i % 3 ? 1 : -5));
  for (int num_warps : {1, 4}) {
    Array<int32_t> out(kRows + kRows * kColumns + kColumns + 1);
    run(R"(
@triton.jit
def gcd(a, b):
    a = tl.abs(a)
    b = tl.abs(b)
    while b != 0:
        rest = a % b
        a = b
        b = rest
    return a

@triton.jit
def larger_magnitude(a, b, unused=None):
    x = tl.abs(a)
    y = tl.abs(b)
    if x > y:
        return a
    if x < y:
        return b
    return tl.maximum(a, b)

@triton.jit
def sum_by_assembly(a, b):
    total = 0
    for i in range(2):
        total = tl.inline_asm_elementwise("add.s32 $0, $1, $2;", "=r,r,r", [a, b], tl.int32, is_pure=False, pack=1)
    return total

@triton.jit
def kernel(out, x, R: tl.constexpr, C: tl.constexpr):
    i, j = tl.arange(0, R), tl.arange(0, C)
    v = tl.load(x + i[:, None] * C + j[None, :])
    tl.store(out + i, tl.reduce(v, 1, gcd))
    out += R
    tl.store(out + i[:, None] * C + j[None, :], tl.associative_scan(v, 0, larger_magnitude))
    out += R * C
    tl.store(out + j, tl.reduce(v, 0, larger_magnitude))
    tl.store(out + C, tl.reduce(tl.ravel(v), 0, sum_by_assembly))
)",
        {.constexprs = {{"R", kRows}, {"C", kColumns}}, .num_warps = num_warps}, {1}, out, Array<int32_t>(values));
    auto larger = [](int a, int b) {
      return std::abs(a) == std::abs(b) ? std::max(a, b) : std::abs(a) > std::abs(b) ? a : b;
    };
    std::vector<int32_t> expected(kRows), scan(values), last(values.end() - kColumns, values.end());
    for (int i = 0; i < kRows * kColumns; ++i)
      expected[size_t(i / kColumns)] = std::gcd(expected[size_t(i / kColumns)], values[size_t(i)]);
    for (int i = kColumns; i < kRows * kColumns; ++i)
      scan[size_t(i)] = larger(scan[size_t(i - kColumns)], scan[size_t(i)]);
    expected.insert(expected.end(), scan.begin(), scan.end());
    expected.insert(expected.end(), scan.end() - kColumns, scan.end());
    expected.push_back(std::accumulate(values.begin(), values.end(), 0));
    EXPECT_EQ(out.values(), expected) << num_warps;
  }
}

// Scales of float8e4nv for 16 elements each, beside an operand without scales.
TEST(ScaledProducts, Nvfp4) {
  Packed a(kE2m1, 32, 64, 1, 31);
  std::vector<uint8_t> scales(32 * 4);
  std::mt19937 random(32);
  for (uint8_t& x : scales) x = uint8_t(0x30 + random() % 16);
  auto b = small_values<float16>(64 * 16, 33, 3);
  Array<float> out(32 * 16);
  run(R"(
@triton.jit
def kernel(a, b, s, c):
    m, n, k = tl.arange(0, 32), tl.arange(0, 16), tl.arange(0, 64)
    x = tl.load(a + m[:, None] * 32 + tl.arange(0, 32)[None, :])
    scale = tl.load(s + m[:, None] * 4 + tl.arange(0, 4)[None, :]).to(tl.float8e4nv, bitcast=True)
    y = tl.load(b + k[:, None] * 16 + n[None, :])
    acc = tl.full((32, 16), 1.0, tl.float32)
    tl.store(c + m[:, None] * 16 + n[None, :], tl.dot_scaled(x, scale, "e2m1", y, None, "fp16", acc))
)",
      {}, {1}, Array<uint8_t>(a.bytes), Array<float16>(b), Array<uint8_t>(scales), out);
  std::vector<float> got = out.values();
  for (int i = 0; i < 32; ++i)
    for (int j = 0; j < 16; ++j) {
      double sum = 1;
      for (int p = 0; p < 64; ++p)
        sum += double(a.at(i, p)) * float(float8e4nv::of_bits(scales[size_t(i * 4 + p / 16)])) *
               float(b[size_t(p * 16 + j)]);
      ASSERT_NEAR(got[size_t(i * 16 + j)], sum, 1e-5 * (1 + std::fabs(sum))) << i << " " << j;
    }
}

}  // namespace
}  // namespace tegula::ops
