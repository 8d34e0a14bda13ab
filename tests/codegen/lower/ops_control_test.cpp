// label: device
// Control flow: loops of all kinds, branches with merged values, early return, helper functions, compile-time values.
#include <functional>

#include "tests/codegen/lower/ops_support.h"

namespace tegula::ops {
namespace {

// Runs `body`, which has i = arange(0, 64), a = the input's elements and n, and leaves its result in a variable a.
std::vector<int32_t> run_body(const std::string& body, const std::vector<int32_t>& x, int n, LaunchOptions options = {},
                              const std::string& helpers = "") {
  Array<int32_t> in(x), out(64);
  run(fmt::format("{}\n@triton.jit\ndef kernel(x, y, n):\n    i = tl.arange(0, 64)\n    a = tl.load(x + i)\n{}\n    "
                  "tl.store(y + i, a)\n",
                  helpers, indented(body)),
      options, {1}, in, out, n);
  return out.values();
}

struct Case {
  std::string body;
  std::function<int32_t(int32_t a, int32_t i, int32_t n)> exact;
};

void check(const std::vector<Case>& cases, const std::vector<int>& counts, const std::string& helpers = "") {
  auto x = small_values<int32_t>(64, 80, 100);
  for (const Case& c : cases)
    for (int n : counts) {
      LaunchOptions options{.num_warps = next_warps()};
      SCOPED_TRACE(fmt::format("n = {} num_warps {}\n{}", n, options.num_warps, c.body));
      expect_equal(run_body(c.body, x, n, options, helpers), "body",
                   [&](size_t i) { return c.exact(x[i], int32_t(i), n); });
    }
}

TEST(Control, ForLoops) {
  check({{"for k in range(n):\n    a += k",
          [](int a, int, int n) { return a + std::max(n, 0) * (std::max(n, 0) - 1) / 2; }},
         {"for k in range(3, n):\n    a = a * 2 + k",
          [](int a, int, int n) {
            for (int k = 3; k < n; ++k) a = int(unsigned(a) * 2 + unsigned(k));
            return a;
          }},
         {"for k in range(0, n, 3):\n    a = a - k",
          [](int a, int, int n) {
            for (int k = 0; k < n; k += 3) a -= k;
            return a;
          }},
         {"for k in range(n, 0, -1):\n    a = a + k * k",
          [](int a, int, int n) {
            for (int k = n; k > 0; --k) a += k * k;
            return a;
          }},
         {"for k in range(n - 1, -1, -2):\n    a = a * 3 - k",
          [](int a, int, int n) {
            for (int k = n - 1; k > -1; k -= 2) a = int(unsigned(a) * 3 - unsigned(k));
            return a;
          }},
         {"for k in tl.range(0, n, num_stages=3):\n    a += k",
          [](int a, int, int n) {
            for (int k = 0; k < n; ++k) a += k;
            return a;
          }},
         {"for k in tl.range(2, n, 2):\n    a ^= k",
          [](int a, int, int n) {
            for (int k = 2; k < n; k += 2) a ^= k;
            return a;
          }},
         {"b = a\nfor k in range(n):\n    t = a + b\n    a = b\n    b = t",
          [](int a, int, int n) {
            unsigned x = unsigned(a), b = x;
            for (int k = 0; k < n; ++k) {
              unsigned t = x + b;
              x = b, b = t;
            }
            return int(x);
          }},
         {"s = 0\nfor k in range(n):\n    for j in range(k):\n        s += j * k\n    a += s",
          [](int a, int, int n) {
            int s = 0;
            for (int k = 0; k < n; ++k) {
              for (int j = 0; j < k; ++j) s += j * k;
              a += s;
            }
            return a;
          }},
         {"for k in range(n):\n    if k % 2 == 0:\n        a += k\n    else:\n        a -= i",
          [](int a, int i, int n) {
            for (int k = 0; k < n; ++k) k % 2 == 0 ? a += k : a -= i;
            return a;
          }}},
        {-3, 0, 1, 2, 7, 20});
}

// Behind a loop its variable has what it had in the last iteration, also where the step's sign is known at run time
// only.
TEST(Control, VariablesOfLoopsThatAreOver) {
  const auto last = [](int first, int end, int step, int before) {
    int k = before;
    for (int64_t at = first; step > 0 ? at < end : at > end; at += step) k = int(at);
    return k;
  };
  check({{"k = 50\nfor k in range(2, n, 3):\n    a += 1\na = k", [=](int, int, int n) { return last(2, n, 3, 50); }},
         {"k = 50\nfor k in range(9, n, -4):\n    a += 1\na = k", [=](int, int, int n) { return last(9, n, -4, 50); }},
         {"k = 50\nfor k in range(n, n + 10, n * n + 1):\n    a += 1\na = k",
          [=](int, int, int n) { return last(n, n + 10, n * n + 1, 50); }},
         {"k = 50\nfor k in range(5, 3 * n, 2 * n - 1):\n    a += 1\na = k",
          [=](int, int, int n) { return last(5, 3 * n, 2 * n - 1, 50); }},
         {"k = 50\nfor k in range(-2147483648, n, 2147483647):\n    a += 1\na = k",
          [=](int, int, int n) { return last(INT32_MIN, n, INT32_MAX, 50); }},
         {"for k in range(5, 5 + 4 * n, 2 * n - 1):\n    a += 1\na = k",
          [=](int, int, int n) { return last(5, 5 + 4 * n, 2 * n - 1, 5); }}},
        {-7, -3, 0, 1, 2, 7, 20});
}

TEST(Control, LoopsWithKnownBounds) {
  check({{"for k in range(5):\n    a += k", [](int a, int, int) { return a + 10; }},
         {"for k in range(4, 4):\n    a += 100", [](int a, int, int) { return a; }},
         {"for k in range(10, 0, -4):\n    a += k", [](int a, int, int) { return a + 10 + 6 + 2; }},
         {"for k in tl.static_range(4):\n    a += k * k", [](int a, int, int) { return a + 14; }},
         {"for k in tl.static_range(6, 0, -2):\n    tl.static_assert(k % 2 == 0)\n    a = a * 2 + k",
          [](int a, int, int) { return ((a * 2 + 6) * 2 + 4) * 2 + 2; }},
         {"for k in tl.static_range(3):\n    for j in range(k + n):\n        a += j",
          [](int a, int, int n) {
            for (int k = 0; k < 3; ++k)
              for (int j = 0; j < k + n; ++j) a += j;
            return a;
          }}},
        {2});
}

// A number that is assigned is a scalar with a type, although it is known at compile time.
TEST(Control, AssignedNumbersHaveTypes) {
  check(
      {{"r = 100000\na += r * r", [](int a, int, int) { return int(unsigned(a) + 1410065408u); }},
       {"d = -7\na += d // 2", [](int a, int, int) { return a - 3; }},
       {"d = -7\na += d % 3 * 10 + (-7) % 3", [](int a, int, int) { return a - 10 + 2; }},
       {"d = 7\nd //= -2\na += d", [](int a, int, int) { return a - 3; }},
       {"d = -7\na += d >> 1", [](int a, int, int) { return a - 4; }},
       {"d = 1 << 32\na = ((a & (d - 1)) >> 16).to(tl.int32)", [](int a, int, int) { return int(uint32_t(a) >> 16); }},
       {"m = 2147483647\na = tl.where(m + 1 < 0, a, 0)", [](int a, int, int) { return a; }},
       {"m = 3000000000\na = tl.where(m + 2000000000 == 705032704, a, 0)", [](int a, int, int) { return a; }},
       {"m = 3000000000\nk = 5\na = tl.where(m - k > 0, a, 0)", [](int a, int, int) { return a; }},
       {"f = 1e-9\na = tl.where((f + 1 - 1) == 0, a, 0)", [](int a, int, int) { return a; }},
       {"f = 16777216.0\na += (f + 1.0 - f).to(tl.int32)", [](int a, int, int) { return a; }},
       {"k = 16777217\na = tl.where(k / 1 == 16777216.0, a, 0)", [](int a, int, int) { return a; }},
       {"f: tl.constexpr = 1e-9\na = tl.where((f + 1 - 1) == 0, 0, a)", [](int a, int, int) { return a; }},
       {"k: tl.constexpr = -7\na += k // 2", [](int a, int, int) { return a - 4; }}},
      {2});
}

// Warps exchange x through shared memory in the loop's body and again behind the loop, the first time before its
// condition is read.
TEST(Control, ConditionsBetweenExchanges) {
  const int n = 3;
  std::vector<int32_t> x(64 * 64);
  for (int i = 0; i < 64; ++i)
    for (int j = 0; j < 64; ++j) x[i * 64 + j] = i * 1000 + j;
  Array<int32_t> in(x), out(64 * 64);
  run(R"(
@triton.jit
def kernel(x_ptr, y_ptr, n):
    i = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    x = tl.load(x_ptr + tl.arange(0, 64)[:, None] + tl.arange(0, 64)[None, :] * 64)
    for k in range(0, n):
        tl.store(y_ptr + i, x + k)
        tl.debug_barrier()
        j = n + 0
        while j > 0:
            tl.debug_barrier()
            x = tl.load(x_ptr + i)
            j -= 1
    tl.store(y_ptr + i, x)
)",
      {.num_warps = 4}, {1}, in, out, n);
  EXPECT_EQ(out.values(), x);
}

TEST(Control, WhileLoops) {
  check({{"k = 0\nwhile k < n:\n    a += k\n    k += 2",
          [](int a, int, int n) {
            for (int k = 0; k < n; k += 2) a += k;
            return a;
          }},
         {"k = n\nwhile k > 0 and k != 4:\n    a = a + k\n    k -= 1",
          [](int a, int, int n) {
            for (int k = n; k > 0 && k != 4; --k) a += k;
            return a;
          }},
         {"k = n\nwhile (k := k - 2) > 0:\n    a = a * 2 + k\na -= k",  // the condition changes what the loop carries
          [](int a, int, int n) {
            int k = n;
            while ((k -= 2) > 0) a = int(unsigned(a) * 2 + unsigned(k));
            return a - k;
          }}},
        {0, 1, 5, 9});
}

// A condition that all threads compute from a tile.
TEST(Control, WhileOnAReduction) {
  auto x = small_values<int32_t>(64, 83, 100);
  for (int n : {0, 1, 5, 9, 1000}) {
    auto expected = x;
    while (*std::max_element(expected.begin(), expected.end()) > n)
      for (int32_t& v : expected) v /= 2;
    auto out = run_body("s = tl.max(a, 0)\nwhile s > n:\n    a = a // 2\n    s = tl.max(a, 0)", x, n,
                        {.num_warps = next_warps()});
    expect_equal(out, fmt::format("n = {}", n), [&](size_t i) { return expected[i]; });
  }
}

TEST(Control, Branches) {
  check({{"if n > 3:\n    a = a + 1\nelse:\n    a = a - 1", [](int a, int, int n) { return n > 3 ? a + 1 : a - 1; }},
         {"if n > 3:\n    a = a * 2", [](int a, int, int n) { return n > 3 ? a * 2 : a; }},
         {"if n == 0:\n    b = i\nelif n == 1:\n    b = a\nelif n < 5:\n    b = i * 2\nelse:\n    b = a - i\na = b",
          [](int a, int i, int n) { return n == 0   ? i
                                           : n == 1 ? a
                                           : n < 5  ? 2 * i
                                                    : a - i; }},
         {"if n > 1:\n    if n > 6:\n        a = i\n    else:\n        a += 3\n        if n % 2 == 0:\n            a = "
          "-a\nk = 5\na = a + k",
          [](int a, int i, int n) {
            if (n > 1) {
              if (n > 6)
                a = i;
              else {
                a += 3;
                if (n % 2 == 0) a = -a;
              }
            }
            return a + 5;
          }},
         {"b = 1 if n > 3 else 2\na = a * b", [](int a, int, int n) { return n > 3 ? a : a * 2; }},
         {"a = a + (i if n > 3 else i * n)", [](int a, int i, int n) { return a + (n > 3 ? i : i * n); }},
         {"if n > 3 and n < 8 or n == 1:\n    a += 1000",
          [](int a, int, int n) { return (n > 3 && n < 8) || n == 1 ? a + 1000 : a; }},
         {"if not n > 3:\n    a += 7", [](int a, int, int n) { return n > 3 ? a : a + 7; }},
         // What one branch stores the other must not.
         {"if n > 3:\n    tl.store(x + i, a * 5)\n    tl.debug_barrier()\n    a = tl.load(x + i)",
          [](int a, int, int n) { return n > 3 ? a * 5 : a; }}},
        {0, 1, 2, 4, 7, 8});
}

TEST(Control, Helpers) {
  check({{"a, b = both(a, i)\na = a + b * 3", [](int a, int i, int) { return a + i + (a - i) * 3; }},
         {"a = pick(a, i, n)", [](int a, int i, int n) { return n > 2 ? a : i; }},
         {"a = twice(twice(a, 3))", [](int a, int, int) { return 4 * a + 6; }},
         {"a = guarded(a, n)", [](int a, int, int n) { return n > 100 ? 0 : a; }},
         {"a = gauss(a, n)", [](int a, int, int n) { return a + n * (n - 1) / 2; }}},
        {0, 1, 3, 6},
        R"(
@triton.jit
def both(p, q):
    return p + q, p - q

@triton.jit
def pick(p, q, n):
    if n > 2:
        r = p
    else:
        r = q
    return r

@triton.jit
def twice(p, by: tl.constexpr = 0):
    return p * 2 + by

@triton.jit
def guarded(p, n):
    if n > 100:
        return p * 0
    return p

@triton.jit
def gauss(p, n):
    for k in range(n):
        p += k
    return p
)");
}

TEST(Control, EarlyReturn) {
  Array<int32_t> out(8 * 32, 0);
  run(R"(
@triton.jit
def kernel(y, n):
    p = tl.program_id(0)
    i = tl.arange(0, 32)
    if p >= n:
        return
    if p == 2:
        tl.store(y + p * 32 + i, -i)
        return
    tl.store(y + p * 32 + i, i + p)
)",
      {.num_warps = 4}, {8}, out, 5);
  expect_equal(out.values(), "rows", [](size_t k) {
    int p = int(k / 32), i = int(k % 32);
    return p >= 5 ? 0 : p == 2 ? -i : i + p;
  });
}

// Prefetching must not change what a loop computes, whatever its length, and must read nothing past the mask.
TEST(Control, StagesDoNotChangeResults) {
  const int cols = 300;
  for (int rows : {0, 1, 2, 3, 4, 9})
    for (int num_stages : {1, 2, 3, 4}) {
      auto x = small_values<float>(size_t(std::max(1, rows * cols)), 81);
      Array<float> in(x), out(size_t(std::max(1, rows * cols))), sums(1024);
      int num_warps = next_warps();
      SCOPED_TRACE(fmt::format("rows {} num_stages {} num_warps {}", rows, num_stages, num_warps));
      run(R"(
@triton.jit
def kernel(x, y, sums, rows, cols, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    i = tl.arange(0, BLOCK)
    m = i < cols
    total = tl.zeros((BLOCK,), tl.float32)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        a = tl.load(x + row * cols + i, mask=m, other=-1000.0)
        b = a - tl.max(a, axis=0)
        tl.store(y + row * cols + i, b, mask=m)
        total += tl.where(m, a, 0.0)
    tl.store(sums + tl.program_id(0) * BLOCK + i, total)
)",
          {.constexprs = {{"BLOCK", 512}, {"STAGES", num_stages}}, .num_warps = num_warps, .num_stages = num_stages},
          {2}, in, out, sums, rows, cols);
      if (rows > 0)
        expect_equal(out.values(), "rows", [&](size_t k) {
          auto row = x.begin() + long(k / cols * cols);
          return x[k] - *std::max_element(row, row + cols);
        });
      expect_equal(sums.values(), "sums", [&](size_t k) {
        int p = int(k / 512), i = int(k % 512);
        float sum = 0;
        if (i < cols)
          for (int row = p; row < rows; row += 2) sum += x[size_t(row * cols + i)];
        return sum;
      });
    }
}

// The loop writes what a later trip reads: prefetching the load past the store would show.
TEST(Control, StagesRespectStoresOfEarlierTrips) {
  for (int num_stages : {1, 2, 3, 4}) {
    std::vector<int32_t> x(64 * 10, 1);
    Array<int32_t> in(x);
    run(R"(
@triton.jit
def kernel(x, rows, STAGES: tl.constexpr):
    i = tl.arange(0, 64)
    for row in tl.range(1, rows, num_stages=STAGES):
        a = tl.load(x + (row - 1) * 64 + i)
        tl.store(x + row * 64 + i, a * 2)
)",
        {.constexprs = {{"STAGES", num_stages}}, .num_warps = 2, .num_stages = num_stages}, {1}, in, 10);
    expect_equal(in.values(), fmt::format("num_stages {}", num_stages), [](size_t k) { return 1 << (k / 64); });
  }
}

TEST(Control, CarriedPointersAndTiles) {
  auto x = small_values<float>(16 * 256, 82);
  for (int num_stages : {1, 3})
    for (int num_warps : {1, 4, 8}) {
      SCOPED_TRACE(fmt::format("num_stages {} num_warps {}", num_stages, num_warps));
      Array<float> in(x), out(256), columns(16);
      run(R"(
@triton.jit
def kernel(x, y, c, n):
    rows = tl.arange(0, 16)
    cols = tl.arange(0, 32)
    p = x + rows[:, None] * 256 + cols[None, :]
    acc = tl.zeros((16, 32), tl.float32)
    best = tl.full((16,), -1000.0, tl.float32)
    q = y
    for k in range(0, n, 32):
        a = tl.load(p)
        acc += a
        best = tl.maximum(best, tl.max(a, 1))
        tl.store(q + cols, tl.sum(a, 0))
        p += 32
        q += 32
    tl.store(c + rows, best + tl.sum(acc, axis=1))
)",
          {.num_warps = num_warps, .num_stages = num_stages}, {1}, in, out, columns, 256);
      expect_equal(out.values(), "column sums", [&](size_t j) {
        float sum = 0;
        for (size_t i = 0; i < 16; ++i) sum += x[i * 256 + j];
        return sum;
      });
      expect_equal(columns.values(), "rows", [&](size_t i) {
        float best = -1000, sum = 0;
        for (size_t j = 0; j < 256; ++j) best = std::max(best, x[i * 256 + j]), sum += x[i * 256 + j];
        return best + sum;
      });
    }
}

TEST(Control, CompileTimeValues) {
  Array<int32_t> out(32);
  run(R"(
WIDTH = tl.constexpr(16)
LIST = (3, 1, 4)

@triton.jit
def kernel(y, N: tl.constexpr, FLAG: tl.constexpr, NAME: tl.constexpr, T: tl.constexpr):
    i = tl.arange(0, WIDTH * 2)
    half: tl.constexpr = N // 2 + (-7) % 4 - (-7) // 2
    tl.static_assert(half == 6 + 1 + 4)
    tl.static_assert(N ** 2 == 144 and N / 8 == 1.5 and 1 << 4 == WIDTH)
    tl.static_assert(triton.next_power_of_2(N) == 16 and triton.cdiv(N, 5) == 3)
    a = i.to(T) + half
    if FLAG:
        a += LIST[2]
    else:
        a += undefined_name
    if NAME == 'double':
        a = a * 2
    tl.store(y + i, a)
)",
      {.constexprs = {{"N", 12}, {"FLAG", Constexpr(true)}, {"NAME", "double"}, {"T", Constexpr(Elem::I64)}}}, {1},
      out);
  expect_equal(out.values(), "values", [](size_t i) { return int32_t(i + 11 + 4) * 2; });
}

TEST(Control, GridOfThreeDimensions) {
  Array<int32_t> out(2 * 3 * 4 * 8);
  run(R"(
@triton.jit
def kernel(y):
    a = tl.program_id(0)
    b = tl.program_id(1)
    c = tl.program_id(2)
    p = (a * tl.num_programs(1) + b) * tl.num_programs(2) + c
    tl.store(y + p * 8 + tl.arange(0, 8), a * 100 + b * 10 + c)
)",
      {.num_warps = 1}, {2, 3, 4}, out);
  expect_equal(out.values(), "grid", [](size_t k) {
    int p = int(k / 8);
    return p / 12 * 100 + p / 4 % 3 * 10 + p % 4;
  });
}

}  // namespace
}  // namespace tegula::ops
