// label: device
// What texts compute that Python's lists, functions and names make up: each kernel writes integers to `out`, which are
// compared with what Python gives.
#include <fmt/format.h>

#include "tests/dsl/language/kernel_fixture.h"

namespace tegula {
namespace {

TEST(Names, ListsAndComprehensions) {
  const std::string body = R"(
    xs = []
    for i in tl.static_range(4):
        xs.append(n + i)
    xs[1] = 100
    xs[-1] += 1
    ys = [x * 2 for x in xs if True] + [len(xs)]
    for i in tl.static_range(len(ys)):
        tl.store(out + i, ys[i])
    first, *rest = ys
    tl.store(out + 5, first + rest[-1])
    d = {"a": 3, "b": n}
    tl.store(out + 6, d["a"] + d["b"])
    twice = lambda v: v * 2
    tl.store(out + 7, twice(n))
    if (m := n + 1) > 3:
        tl.store(out + 8, m)
    tl.store(out + 9, sum([x for x in range(5)]))
)";
  EXPECT_EQ(run(body, 10), (Ints{10, 200, 14, 18, 4, 14, 8, 10, 6, 10}));
}

TEST(Names, ALambdaWhoseNamesChange) {
  EXPECT_EQ(run("    m = n\n    f = lambda v: v * m\n    tl.store(out, f(3))\n    m = m + 0 * n\n", 1, 4), (Ints{12}));
  const std::string found = message_of<CompileError>(
      [] { run("    m = n\n    f = lambda v: v * m\n    m = 7\n    tl.store(out, f(3))\n", 1); });
  EXPECT_NE(found.find("error: 'm' changes behind the lambda that reads it"), found.npos) << found;
}

// Triton has tuples in their place, which do not change.
TEST(Names, AListWithTwoNamesDoesNotChange) {
  const std::string wrong[] = {"ys = xs\n    xs.append(n)",
                               "t = (xs, n)\n    xs[0] = n",
                               "ys = xs if n > 3 else [n, n]\n    ys[0] = 5",
                               "ys = [n, n]\n    if n > 3:\n        ys = xs\n    ys[0] = 5",
                               "ys = [n, n]\n    if n > 3:\n        ys = xs\n    xs[0] = 5",
                               "ys = xs\n    for i in range(n):\n        xs[0] += i",
                               "ys = [n, n]\n    for i in range(n):\n        xs[0] += i\n        ys = xs",
                               "changed(xs)",
                               "changed_behind(xs)",
                               "for ys in [xs, xs]:\n        ys[0] = 5",
                               "zs = [1, 2]\n    grown_by_host(zs)"};
  const std::string functions = R"(
@triton.jit
def changed(l):
    l[0] = 3
@triton.jit
def changed_behind(l):
    m = l
    l = 3
    m.append(4)
def grown_by_host(l):
    l.append(3)
    return len(l)
)";
  for (const std::string& text : wrong) {
    const std::string body = "    xs = [n, n + 1]\n    " + text + "\n    tl.store(out, xs[0])\n";
    const std::string found = message_of<CompileError>([&] { run(body, 1, 5, functions); });
    const bool told = found.find("which may be held by another name too") != found.npos ||
                      found.find("another name has the list 'ys' too") != found.npos ||
                      found.find("another name has the list 'xs' too") != found.npos ||
                      found.find("an argument of 'grown_by_host' changes here") != found.npos;
    EXPECT_TRUE(told) << text << "\n" << found;
  }
  const std::string right = R"(
    xs = [n, n + 1]
    ys = xs
    ys = list(xs)
    for i in range(n):
        xs[0] += i
        ys[1] += xs[0]
    if n > 3:
        xs[1] = 7
    xs[1] += 1
    tl.store(out, xs[0] * 100 + xs[1])
    tl.store(out + 1, ys[1])
)";
  EXPECT_EQ(run(right, 2, 4), (Ints{1008, 31}));
}

TEST(Names, ArgumentsOfHelpers) {
  const std::string functions = R"(
@triton.jit
def add(first, *others, scale=1 + 1):
    for x in others:
        first += x * scale
    return first
@triton.jit
def bound(n, LIMIT: tl.constexpr):
    s = 0
    for i in range(LIMIT):
        s += i
    doubled: tl.constexpr = n * 2
    return s + doubled
)";
  const std::string body = R"(
    tl.store(out, add(1, n, n))
    tl.store(out + 1, add(1, *(n, 2), scale=3))
    tl.store(out + 2, bound(0, n))
    v = 5
    tl.store(out + 3, v.to(tl.float32).to(tl.int32) + (1 if v.dtype == tl.int32 else 0))
    x = n[:, None]
    tl.store(out + 4 + x * 0, x)
)";
  EXPECT_EQ(run(body, 5, 5, functions), (Ints{21, 22, 10, 6, 5}));
}

// Inlined call by call, until the extents or constants that change with each call end it.
TEST(Names, FunctionsThatCallThemselves) {
  const std::string functions = R"(
@triton.jit
def total(x):
    if x.shape[0] == 1:
        return x
    else:
        even, odd = x.reshape((x.shape[0] // 2, 2)).split()
        return total(even) + 3 * total(odd)
@triton.jit
def power(x, N: tl.constexpr):
    if N == 0:
        return 1
    half = power(x, N // 2)
    return half * half * x if N % 2 else half * half
@triton.jit
def last(xs):
    return last(xs[1:]) if len(xs) > 1 else xs[0]
@triton.jit
def even(N: tl.constexpr):
    return True if N == 0 else odd(N - 1)
@triton.jit
def odd(N: tl.constexpr):
    return False if N == 0 else even(N - 1)
)";
  const std::string body = R"(
    tl.store(out + tl.arange(0, 1), total(tl.arange(0, 4)))
    tl.store(out + 1, power(n, 5))
    tl.store(out + 2, last((1, n, 7)))
    tl.store(out + 3, even(6))
    tl.store(out + 4, odd(6))
)";
  EXPECT_EQ(run(body, 5, 3, functions), (Ints{0 + 3 * 1 + 3 * 2 + 9 * 3, 243, 7, 1, 0}));
}

TEST(Names, FieldsThatAreFunctions) {
  const std::string definitions = R"(
from typing import NamedTuple
class Closure(NamedTuple):
    function: tl.constexpr
    captured: tuple
@triton.jit
def add(x, a, b):
    return x + 10 * a + b
)";
  const std::string body = R"(
    f = Closure(add, (n, 2))
    tl.store(out, f.function(1, *f.captured))
)";
  EXPECT_EQ(run(body, 1, 3, definitions), (Ints{33}));
}

TEST(Names, Reflection) {
  const std::string body = R"(
    tl.store(out, 1 if isinstance(n, tl.tensor) else 0)
    tl.store(out + 1, 1 if isinstance(3, (float, int)) and not isinstance(n, tl.constexpr) else 0)
    tl.store(out + 2, 1 if hasattr(n, "dtype") and not hasattr(n, "nothing") else 0)
    tl.store(out + 3, n.to(getattr(tl, "int16")))
    tl.store(out + 4, 1 if tl.dtype("fp32") == tl.float32 and type(n) == tl.tensor else 0)
    tl.store(out + 5, 1 if tl.target_info.is_cuda() and tl.target_info.cuda_capability_geq(7, 5) else 0)
    tl.store(out + 6, 1 if f"{255:#x}|{1.5:.2f}|{'a'!r}|{7:>3}" == "0xff|1.50|'a'|  7" else 0)
    i = 0
    while tl.condition(i < n, disable_licm=True):
        i += 2
    tl.store(out + 7, i)
    with tl.async_task([0]):
        tl.store(out + 8, 8)
)";
  EXPECT_EQ(run(body, 9), (Ints{1, 1, 1, 5, 1, 1, 1, 6, 8}));
}

// Functions of the file run at compile time; which definition counts is decided by conditions of the module.
TEST(Names, CodeOfTheModule) {
  const std::string module = R"(
def table(size):
    out = []
    for i in range(size):
        out.append(i * i)
    return out
@triton.constexpr_function
def biggest(values):
    return max(values)
SQUARES = table(4)
if hasattr(tl, "no_such_function"):
    pick = tl.maximum
else:
    pick = tl.minimum
try:
    KIND = 1
except ImportError:
    KIND = 2
if KIND == 2:
    @triton.jit
    def kind():
        return 20
else:
    @triton.jit
    def kind():
        return 10
)";
  const std::string body = R"(
    tl.store(out, biggest(SQUARES))
    tl.store(out + 1, pick(n, 3))
    tl.store(out + 2, kind())
)";
  EXPECT_EQ(run(body, 3, 5, module), (Ints{9, 3, 10}));
}

// A name bound again by what it was before: each use means the binding that came ahead of it.
TEST(Names, NamesOfTheModuleBoundAgain) {
  const std::string module = R"(
SIZE = 4
SIZE = SIZE * 2
SIZE = SIZE + 1
int_type = tl.core.get_int_dtype
if SIZE > 8:
    int_type = triton.constexpr_function(int_type)
)";
  const std::string body = R"(
    tl.store(out, SIZE)
    tl.store(out + 1, 1 if int_type(bitwidth=16, signed=True) == tl.int16 else 0)
)";
  EXPECT_EQ(run(body, 2, 5, module), (Ints{9, 1}));
}

TEST(Names, IndicesOfTiles) {
  const std::string body = R"(
    x = tl.arange(0, 8) * 3
    tl.store(out, x[n])
    tl.store(out + 1, x[-1])
    tl.store(out + 2 + tl.arange(0, 4), x[2:6])
    tl.store(out + 6 + tl.arange(0, 4), x[1::2])
    y = x[:, None] * 10 + tl.arange(0, 4)[None, :]
    tl.store(out + 10 + tl.arange(0, 4), y[n, :])
    tl.store(out + 14, tl.sum(y[4:, 1], 0))
    f = x.to(tl.float32) - 6
    tl.store(out + 15, (f[0] * 2).to(tl.int32))
    tl.store(out + 16, (x > 10)[4].to(tl.int32))
    z = (out + x)[1]
    tl.store(z + 16, 1)
)";
  EXPECT_EQ(
      run(body, 20),
      (Ints{15, 21, 6, 9, 12, 15, 3, 9, 15, 21, 150, 151, 152, 153, (12 + 15 + 18 + 21) * 10 + 4, -12, 1, -7, -7, 1}));
}

TEST(Names, OperatorsAsMethods) {
  const std::string body = R"(
    i = tl.arange(0, 4)
    tl.store(out + i, i.__lshift__(n).__rshift__(1).__add__(i))
    tl.store(out + 4 + i, i.__rsub__(n) * n.__mod__(3))
    tl.store(out + 8 + i, i.__and__(2).__or__(n))
)";
  EXPECT_EQ(run(body, 12), (Ints{0, 17, 34, 51, 10, 8, 6, 4, 5, 5, 7, 7}));
}

TEST(Names, LargeIntegers) {
  const std::string body = R"(
    h = n.to(tl.uint64) * 0x9E3779B97F4A7C15
    tl.store(out, (h >> 32).to(tl.int32, bitcast=False))
    tl.store(out + 1, 1 if 1.0 * 0xFFFFFFFFFFFFFFFF == 2.0 ** 64 else 0)
    tl.store(out + 2, ((1 << 63) >> 60) + (2 ** 100) // (2 ** 99))
    small = tl.full((4,), 100, tl.int8)
    tl.store(out + 4 + tl.arange(0, 4), (small < 300).to(tl.int32))
    tl.assume(1 == 2)
)";
  const uint64_t hash = 5 * 0x9E3779B97F4A7C15u;
  EXPECT_EQ(run(body, 8), (Ints{int(uint32_t(hash >> 32)), 1, 8 + 2, -7, 1, 1, 1, 1}));
}

}  // namespace
}  // namespace tegula
