// label: device
// Loops, branches and what they change, in both front ends: equal tile IR, and results against double precision.
#include "tests/dsl/front_ends_support.h"

namespace tegula {
namespace {

using namespace front_ends;

TEST(FrontEnds, LoopsWithCarriedValues) {
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Ptr<"x"> x, Int<"n"> n, Const<"BLOCK"> BLOCK) {
    Tile i = arange(0, BLOCK);
    Tile total = zeros(list({BLOCK}), tl::float32);
    Tile count = 0;
    for (Tile k : range(0, n, BLOCK, {.num_stages = 2})) {
      for (Tile j : range(3, 0, -1)) {
        total += load(x + k + i, k + i < n, 0.0) * j;
        count += j;
      }
    }
    store(out + i, total + count);
  });
  auto x = floats(100, 4);
  expect_agree<float>(R"(@triton.jit
def kernel(out, x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    count = 0
    for k in tl.range(0, n, BLOCK, num_stages=2):
        for j in range(3, 0, -1):
            total += tl.load(x + k + i, k + i < n, 0.0) * j
            count += j
    tl.store(out + i, total + count)
)",
                      cpp, {.constexprs = {{"BLOCK", 32}}}, {1},
                      each(32,
                           [&](size_t i) {
                             double sum = 24;
                             for (size_t k = i; k < 100; k += 32) sum += 6 * double(x[k]);
                             return sum;
                           }),
                      1e-6, Array<float>(x), 100);
}

TEST(FrontEnds, Int64BoundsAndSwappedTiles) {
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Int<"n", int64_t> n) {
    Tile a = 0;
    Tile b = 1;
    for (Tile k : range(0, n)) {
      Tile c = a + b;
      a = b;
      b = c;
    }
    store(out, a);
  });
  expect_agree<int32_t>(R"(@triton.jit
def kernel(out, n: tl.int64):
    a = 0
    b = 1
    for k in range(0, n):
        c = a + b
        a = b
        b = c
    tl.store(out, a)
)",
                        cpp, {}, {1}, {55}, 0, int64_t(10));
}

TEST(FrontEnds, WhileInWhile) {
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Int<"n"> n) {
    Tile steps = 0;
    Tile i = 0;
    while_([&] { return i < n; },
           [&] {
             Tile j = i;
             while_([&] { return j > 0; },
                    [&] {
                      steps += 1;
                      j = floordiv(j, 2);
                    });
             i += 1;
           });
    store(out, steps);
  });
  double expected = 0;
  for (int i = 0; i < 20; ++i)
    for (int j = i; j > 0; j /= 2) ++expected;
  expect_agree<int32_t>(R"(@triton.jit
def kernel(out, n):
    i = 0
    steps = 0
    while i < n:
        j = i
        while j > 0:
            steps += 1
            j = j // 2
        i += 1
    tl.store(out, steps)
)",
                        cpp, {}, {1}, {expected}, 0, 20);
}

TEST(FrontEnds, Branches) {
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Ptr<"x"> x, Int<"n"> n) {
    Tile i = arange(0, 16);
    Tile p = program_id(0);
    Tile v = load(x + i);
    Tile s = 0.0f;
    if_(p > 0, [&] { v = v * 2; });
    if_(
        p < n, [&] { s = 1.0f; }, [&] { s = 3.0f; });
    Tile t = if_(
        p == 1, [&] { return v; }, [&] { return -v; });
    store(out + p * 16 + i, t + s);
  });
  auto x = floats(16, 5);
  expect_agree<float>(R"(@triton.jit
def kernel(out, x, n):
    i = tl.arange(0, 16)
    p = tl.program_id(0)
    v = tl.load(x + i)
    s = 0.0
    if p > 0:
        v = v * 2
    if p < n:
        s = 1.0
    else:
        s = 3.0
    if p == 1:
        t = v
    else:
        t = -v
    tl.store(out + p * 16 + i, t + s)
)",
                      cpp, {}, {3},
                      each(48,
                           [&](size_t i) {
                             size_t p = i / 16;
                             double v = double(x[i % 16]) * (p > 0 ? 2 : 1);
                             return (p == 1 ? v : -v) + (p < 2 ? 1 : 3);
                           }),
                      0, Array<float>(x), 2);
}

TEST(FrontEnds, NumbersTakeTheTypeTheyMeetInBranchesAndLoops) {
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Ptr<"x", float16> x, Int<"n"> n) {
    Tile v = load(x);
    if_(n > 2, [&] { v = 0; });
    for (Tile k : range(0, n)) {
      store(out + k, v);
      v = 5;
    }
  });
  expect_agree<float16>(R"(@triton.jit
def kernel(out, x, n):
    v = tl.load(x)
    if n > 2:
        v = 0
    for k in range(0, n):
        tl.store(out + k, v)
        v = 5
)",
                        cpp, {}, {1}, {3, 5}, 0, Array<float16>(std::vector<float16>{float16(3.0f)}), 2);
}

// An argument that is 1 is a compile-time value, which loops may change nevertheless.
TEST(FrontEnds, LoopsChangeCompileTimeValues) {
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Int<"n"> n, Const<"A"> A, Const<"B"> B) {
    Tile at = cdiv(A, B);
    for (Tile k : range(0, 3)) {
      store(out + at, n);
      while_([&] { return n < 10 * k; }, [&] { n = n * 3; });
      at += 1;
    }
    store(out, n);
  });
  expect_agree<int32_t>(R"(@triton.jit
def kernel(out, n, A: tl.constexpr, B: tl.constexpr):
    at = tl.cdiv(A, B)
    for k in range(0, 3):
        tl.store(out + at, n)
        while n < 10 * k:
            n = n * 3
        at += 1
    tl.store(out, n)
)",
                        cpp, {.constexprs = {{"A", 8}, {"B", 4}}}, {1}, {27, 0, 1, 1, 27}, 0, 1);
}

// Tuples are carried; a Tile that the condition of while_ assigns is what the body and the code behind the loop see.
TEST(FrontEnds, TuplesAndAssignmentsInConditions) {
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Int<"n"> n) {
    Tile both = broadcast(arange(0, 4), full({4}, 1, tl::int32));
    Tile left = n + 0;
    Tile none_before;
    while_(
        [&] {
          left -= 1;
          none_before = left > 0;
          return none_before;
        },
        [&] {
          auto [a, b] = unpack<2>(both);
          both = broadcast(a + b, b * 2);
        });
    auto [a, b] = unpack<2>(both);
    store(out + arange(0, 4), a * 100 + b + left);
  });
  Array<int32_t> out(4, 0);
  cpp.launch(device(), {1}, {}, out.at(0), 4);
  EXPECT_EQ(out.values(), (std::vector<int32_t>{708, 808, 908, 1008}));
}

TEST(FrontEnds, LoopsInBranchesInLoops) {
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Int<"n"> n, Float<"f"> f) {
    Tile i = arange(0, 4);
    Tile s = 0;
    Tile v = zeros({4}, tl::float32);
    for (Tile k : range(n)) {
      auto loop = [&] {
        for (Tile j : range(1, k)) s += j;
        v += sum(i, 0) * f;
      };
      auto halve = [&] {
        while_([&] { return s > 2; }, [&] { s = floordiv(s, 2); });
        v = v + s;
      };
      if_(k % 2 == 0, loop, halve);
    }
    Tile t = if_(
        s > 1, [&] { return v; }, [] { return 7; });
    store(out + i, t + s);
  });
  double v = 0, s = 0;
  for (int k = 0; k < 9; ++k) {
    if (k % 2 == 0) {
      for (int j = 1; j < k; ++j) s += j;
      v += 6 * 0.5;
    } else {
      while (s > 2) s = std::floor(s / 2);
      v += s;
    }
  }
  if (s <= 1) v = 7;
  expect_agree<float>(R"(@triton.jit
def kernel(out, n, f):
    i = tl.arange(0, 4)
    v = tl.zeros((4,), tl.float32)
    s = 0
    for k in range(n):
        if k % 2 == 0:
            for j in range(1, k):
                s += j
            v += tl.sum(i, 0) * f
        else:
            while s > 2:
                s = s // 2
            v = v + s
    t = v if s > 1 else tl.full((4,), 7.0, tl.float32)
    tl.store(out + i, t + s)
)",
                      cpp, {}, {1}, {v + s, v + s, v + s, v + s}, 1e-6, 9, 0.5);
}

// A number that a loop changes makes branches on it those of the kernel, in this loop and in a later one.
TEST(FrontEnds, RecordingsAreRepeatedUntilTheyHold) {
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Int<"n"> n, Const<"A"> A) {
    Tile first = cdiv(A, 4), count = cdiv(A, 8), other = cdiv(A, 8);
    for (Tile k : range(n)) {
      if_(first == 1, [&] { count += 10; });
      first += 1;
    }
    for (Tile k : range(n)) {
      if_(other > 2, [&] { count += 100; });
      other += 1;
    }
    store(out, count);
    store(out + 1 + arange(0, cdiv(A, 1)), first + arange(0, cdiv(A, 1)));
  });
  Array<int32_t> out(5, 0);
  cpp.launch(device(), {1}, {.constexprs = {{"A", 4}}}, out.at(0), 4);
  EXPECT_EQ(out.values(), (std::vector<int32_t>{211, 5, 6, 7, 8}));
}

TEST(FrontEnds, BlockPointersInLoopsAndBranches) {
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Ptr<"x"> x, Int<"n"> n, Int<"m"> m) {
    Tile sum = zeros({4, 8}, tl::float32);
    Tile p = make_block_ptr(x, list({n, 8}), list({8, 1}), list({0, 0}), list({4, 8}), list({1, 0}));
    Tile q = make_block_ptr(x + 64, list({n, 4}), list({4, 1}), list({1, 0}), list({4, 8}), list({1, 0}));
    for (Tile k : range(m)) {
      sum += load(p, "boundary_check"_a = list({0, 1}));
      p = p.advance({2, k});
      Tile other = p;
      if_(k == 1, [&] { p = q; });
      q = other;
    }
    Tile to = make_block_ptr(out, list({4, 8}), list({8, 1}), list({0, 0}), list({4, 8}), list({1, 0}));
    store(to, sum);
  });
  const auto x = floats(200, 3);
  struct Position {
    size_t first, row, column, columns;
  };
  expect_agree<float>(R"(@triton.jit
def kernel(out, x, n, m):
    p = tl.make_block_ptr(x, (n, 8), (8, 1), (0, 0), (4, 8), (1, 0))
    q = tl.make_block_ptr(x + 64, (n, 4), (4, 1), (1, 0), (4, 8), (1, 0))
    sum = tl.zeros((4, 8), tl.float32)
    for k in range(m):
        sum += tl.load(p, boundary_check=(0, 1))
        p = tl.advance(p, (2, k))
        other = p
        if k == 1:
            p = q
        q = other
    to = tl.make_block_ptr(out, (4, 8), (8, 1), (0, 0), (4, 8), (1, 0))
    tl.store(to, sum)
)",
                      cpp, {}, {1},
                      each(32,
                           [&](size_t i) {
                             Position p{0, 0, 0, 8}, q{64, 1, 0, 4};
                             double sum = 0;
                             for (size_t k = 0; k < 4; ++k) {
                               const size_t row = p.row + i / 8, column = p.column + i % 8;
                               if (row < 7 && column < p.columns) sum += x[p.first + row * p.columns + column];
                               p.row += 2, p.column += k;
                               const Position other = p;
                               if (k == 1) p = q;
                               q = other;
                             }
                             return sum;
                           }),
                      1e-6, Array<float>(x), 7, 4);
}

TEST(FrontEnds, TensorDescriptors) {
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Desc<"d", float> d, Int<"n"> n) {
    Descriptor to = make_tensor_descriptor(out, list({n, 8}), list({8, 1}), list({4, 8}));
    to.store(list({1, 0}), d.load({n, -2}));
  });
  const auto x = floats(100, 3);
  const Array<float> array(x);
  const TensorDescriptor d{array.at(0), {7, 9}, {10, 1}, {4, 8}};
  expect_agree<float>(R"(@triton.jit
def kernel(out, d, n):
    to = tl.make_tensor_descriptor(out, [n, 8], [8, 1], [4, 8])
    to.store([1, 0], d.load([n, -2]))
)",
                      cpp, {}, {1},
                      each(40,
                           [&](size_t i) {
                             const size_t row = i / 8 + 3, column = i % 8;
                             if (i < 8 || i >= 32 || row >= 7 || column < 2) return 0.0;
                             return double(x[row * 10 + column - 2]);
                           }),
                      0, d, 4);
  Array<float> out(40, 0);
  EXPECT_NE(message_of([&] {
              cpp.kernel().launch(device(), {1}, {}, out.at(0), array.at(0), 4);
            }).find("the argument 'd' is a pointer to float32, expected a tensor descriptor of float32"),
            std::string::npos);
}

}  // namespace
}  // namespace tegula
