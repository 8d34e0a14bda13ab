// label: device
// What texts compute that Python's control flow, lists and names make up: each kernel writes integers to `out`, which
// are compared with what Python gives.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dsl/tegula.h"
#include "tests/message_of.h"

namespace tegula {
namespace {

/// The first numbers that `k(out, n)` writes. The body's lines are indented by four blanks; `more` goes before it.
std::vector<int> run(const std::string& body, size_t count, int n = 5, const std::string& more = {}) {
  Program program = Program::parse(
      "import triton\nimport triton.language as tl\n" + more + "@triton.jit\ndef k(out, n):\n" + body, "k.py");
  auto device = default_device();
  Buffer out(*device, std::vector<int>(64, -7));
  program.kernel("k").launch(*device, {1}, {}, out.as<int>(), n);
  std::vector<int> values = out.download<int>();
  values.resize(count);
  return values;
}
using Ints = std::vector<int>;

// ---- Functions that do not return

// A plain number as a condition is one of the run time in Triton: the function has a result, which nobody may read.
TEST(ControlFlow, ReturnThatAPlainNumberRulesOut) {
  const std::string helpers = R"(
@triton.jit
def only_if(x):
    flag = False
    if flag:
        return x.to(tl.float32), x

@triton.jit
def never(x, flag: tl.constexpr):
    if flag:
        return x
)";
  const std::string body = R"(
    a, b = only_if(n)
    tl.static_assert(a.dtype == tl.float32 and b.dtype == tl.int32)
    tl.static_assert(never(n, False) is None)
    tl.store(out, n)
)";
  EXPECT_EQ(run(body, 1, 5, helpers), (Ints{5}));
}

// ---- and, or

// As in Triton a compile-time operand that decides is the result, whatever stands ahead of it.
TEST(ControlFlow, CompileTimeOperandsThatDecide) {
  const std::string body = R"(
    SIZE: tl.constexpr = 16
    a = n or SIZE
    b = n and 0
    tl.store(out, a)
    tl.store(out + 1, b)
    tl.store(out + 2, n or 0)
    tl.store(out + 3, (n == 5) and SIZE)
    tl.store(out + 4, tl.sum(tl.arange(0, 4)) or n == 3 or 3)
)";
  EXPECT_EQ(run(body, 5), (Ints{16, 0, 5, 1, 3}));
}

// A plain name is a value of the run time in Triton, of one bit where it is True or False.
TEST(ControlFlow, PlainNamesOfOneBit) {
  const std::string body = R"(
    T = True
    Z = False
    ONE: tl.constexpr = True
    tl.store(out, T + T)
    tl.store(out + 1, Z - T)
    tl.store(out + 2, -T)
    tl.store(out + 3, ~T)
    tl.store(out + 4, ONE + ONE)
    tl.store(out + 5, -ONE)
    tl.store(out + 6, T * T + T * ONE)
    tl.store(out + 7, T + 1)
    five = 5
    tl.store(out + 8, five and 7)
    tl.store(out + 9, five or 16)
    tl.store(out + 10, T and 5)
    tl.store(out + 11, Z or T)
    tl.store(out + 12, five or n)
    tl.static_assert((T // T).dtype == tl.int1 and (T % T).dtype == tl.int1 and (T << Z).dtype == tl.int1)
)";
  EXPECT_EQ(run(body, 13), (Ints{0, 1, 1, 0, 2, -1, 0, 2, 5, 16, 1, 1, 5}));
}

// ---- Names on the left

TEST(ControlFlow, ValuesThatNoNameTakes) {
  const std::string body = R"(
    (largest,) = tl.max(tl.arange(0, 8) ^ 5, 0, return_indices=True)
    a, b = n, n + 1, n + 2
    tl.store(out, largest)
    tl.store(out + 1, a * 10 + b)
)";
  EXPECT_EQ(run(body, 2), (Ints{7, 56}));
}

// ---- Loops

// What is None before a loop is None in it, where its own tests rule out that it gets another value.
TEST(ControlFlow, NoneThatItsOwnTestsKeep) {
  const std::string body = R"(
    pointers = None
    last = None
    sum = n
    for i in range(n):
        copy = pointers
        if copy is not None:
            pointers = out
        copy = i
        if copy is not None:
            sum += 0
        if pointers is not None:
            sum += tl.load(pointers)
        if pointers is not None:
            pointers += 1
            last = pointers
        if last is not None:
            last = sum
        sum += i
    tl.static_assert(pointers is None and last is None)
    tl.store(out, sum)
)";
  EXPECT_EQ(run(body, 1), (Ints{5 + 0 + 1 + 2 + 3 + 4}));
}

// What tl.atomic_cas finds has the type of the number that it was given, as in Triton.
TEST(ControlFlow, LocksInUnsignedMemory) {
  const std::string body = R"(
    lock = out.to(tl.pointer_type(tl.uint32)) + 1
    tl.store(lock, 0)
    tl.debug_barrier()
    found = tl.full((), 1, tl.int32)
    while found != 0:
        found = tl.atomic_cas(lock, 0, 3)
    wide = tl.atomic_cas(lock, 3, found.to(tl.uint32))
    tl.static_assert(found.dtype == tl.int32 and wide.dtype == tl.uint32)
    tl.store(out, tl.atomic_cas(lock, 0, 0xFFFFFFFF) + wide)
)";
  EXPECT_EQ(run(body, 2), (Ints{3, -1}));
}

// ---- Text and versions

TEST(ControlFlow, TextAtCompileTime) {
  const std::string helpers = R"(
from packaging import version
from packaging.version import Version

def assembly(count):
    template = """
        add.s32 ${to}, ${0}, ${frm:>2};
    """
    out = ""
    for i in range(count):
        out += "{" + template.format(i + 7, to=i, frm=i + count) + "}\n"
    return " ".join(out.split("\n"))

TEXT = assembly(2)
CONSTRAINTS = ",".join("=r" for i in range(2)) + "," + ",".join(["r"] * 2)
NEW = version.parse(triton.__version__) >= version.parse("3.5.1") and Version("3.10") > Version("3.9.2rc1")
OLD = version.parse("3.6") != version.parse("3.6.0.0") or (3, 4) > (3, 4, 0) or (1, 2) >= (1, 3)
)";
  const std::string body = R"(
    tl.static_assert(" ".join(TEXT.split()) == "{ add.s32 $0, $7, $ 2; } { add.s32 $1, $8, $ 3; }", TEXT)
    tl.static_assert(CONSTRAINTS == "=r,=r,r,r" and NEW and not OLD)
    tl.static_assert("  a b ".strip() == "a b" and "xaxx".rstrip("x") == "xa" and "aXbX".replace("X", "--") == "a--b--")
    tl.static_assert("{{{}}} {!r} {1}".format(1, "a") == "{1} 'a' a" and "a,,b".split(",")[1] == "")
    tl.store(out, n)
    tl.store(out + 1, len("aüb") * 10 + len(""))
)";
  EXPECT_EQ(run(body, 2, 5, helpers), (Ints{5, 30}));
}

// ---- Jumps

TEST(ControlFlow, BreakOfARunTimeLoop) {
  const std::string body = R"(
    s = 0
    for i in range(0, 100, 3):
        if i > n:
            break
        s += i
    tl.store(out, s)
    tl.store(out + 1, i)
)";
  EXPECT_EQ(run(body, 2, 10), (Ints{0 + 3 + 6 + 9, 12}));
  EXPECT_EQ(run(body, 2, 1000), (Ints{33 * 34 / 2 * 3, 99}));
}

TEST(ControlFlow, ContinueAndNestedConditions) {
  const std::string body = R"(
    s = 0
    t = 0
    for i in range(n):
        if i % 2 == 0:
            t += 1
            if i == 4:
                continue
        else:
            if i == 7:
                s += 1000
                continue
        s += i
    tl.store(out, s)
    tl.store(out + 1, t)
)";
  EXPECT_EQ(run(body, 2, 10), (Ints{45 - 4 - 7 + 1000, 5}));
}

TEST(ControlFlow, BreakOfWhile) {
  const std::string body = R"(
    i = 0
    while True:
        i += 1
        if i == 3:
            continue
        if i * i > n:
            break
        tl.store(out + i, i)
    tl.store(out, i)
)";
  EXPECT_EQ(run(body, 6, 20), (Ints{5, 1, 2, -7, 4, -7}));
}

// The condition is not evaluated after a break: this one would read out of bounds.
TEST(ControlFlow, WhatEndsALoopIsNotAskedAgain) {
  const std::string body = R"(
    i = 0
    while tl.load(out + i) < 0:
        i += 9
        if i > 60:
            i = 1000000
            break
    tl.store(out, i)
)";
  EXPECT_EQ(run(body, 1), (Ints{1000000}));
}

TEST(ControlFlow, ReturnInLoops) {
  const std::string helper = R"(
@triton.jit
def find(n, limit):
    for i in range(limit):
        for j in range(limit):
            if i * j == n:
                return i, j * 2
    return -1, 0
@triton.jit
def first(n):
    for i in tl.static_range(1, 9):
        if i * i > n:
            return i
    return 0
)";
  const std::string body = R"(
    a, b = find(n, 10)
    tl.store(out, a)
    tl.store(out + 1, b)
    tl.store(out + 2, first(n))
    for i in range(3, 40):
        tl.store(out + i, i)
        if i == n:
            return
    tl.store(out + 3, 0)
)";
  EXPECT_EQ(run(body, 6, 35, helper), (Ints{5, 14, 6, 3, 4, 5}));
  EXPECT_EQ(run(body, 5, 4, helper), (Ints{1, 8, 3, 3, 4}));
  EXPECT_EQ(run(body, 4, 11 * 13, helper), (Ints{-1, 0, 0, 0}));
}

TEST(ControlFlow, TilesThatALoopReturns) {
  const std::string helper = R"(
@triton.jit
def grow(x, n):
    while True:
        if tl.sum(x, 0) > n:
            return x
        x = x * 2
)";
  EXPECT_EQ(run("    tl.store(out + tl.arange(0, 4), grow(tl.arange(0, 4), n))\n", 4, 30, helper),
            (Ints{0, 8, 16, 24}));
}

TEST(ControlFlow, ElseOfALoop) {
  const std::string body = R"(
    for i in range(2, n):
        if n % i == 0:
            tl.store(out, i)
            break
    else:
        tl.store(out, 1)
    for j in tl.static_range(3):
        tl.store(out + 1, j)
    else:
        tl.store(out + 2, 9)
)";
  EXPECT_EQ(run(body, 3, 35), (Ints{5, 2, 9}));
  EXPECT_EQ(run(body, 3, 37), (Ints{1, 2, 9}));
}

TEST(ControlFlow, ElseOfALoopThatBreaksAndReturns) {
  const std::string helper = R"(
@triton.jit
def f(n, limit):
    for i in range(n):
        if i > limit:
            return 100 + i
        if i * 2 == limit:
            break
    else:
        n = 2000
        if limit == 77:
            return 3000
    for j in range(n):
        if j == 3:
            return n
    return 7
)";
  const std::string body = R"(
    tl.store(out, f(n, 3))
    tl.store(out + 1, f(n, 4))
    tl.store(out + 2, f(n, 50))
    tl.store(out + 3, f(n, 77))
    tl.store(out + 4, f(2, 2))
    t = 0
    for k in range(4):
        for i in range(n):
            if i == 3 and k == 2:
                break
            if k == 3:
                return
        else:
            t += 10
        t += 1
        tl.store(out + 5, t)
)";
  EXPECT_EQ(run(body, 6, 6, helper), (Ints{104, 6, 2000, 3000, 7, 23}));
}

TEST(ControlFlow, JumpsOfUnrolledLoops) {
  const std::string body = R"(
    s = 0
    for i in tl.static_range(10):
        if i == 2:
            continue
        if i == 6:
            break
        if s > n:
            break
        s += i
    tl.store(out, s)
)";
  EXPECT_EQ(run(body, 1, 100), (Ints{0 + 1 + 3 + 4 + 5}));
  EXPECT_EQ(run(body, 1, 3), (Ints{4}));
}

TEST(ControlFlow, TheVariableBehindItsLoop) {
  const std::string body = R"(
    for i in range(1, n, 4):
        pass
    tl.store(out, i)
    j = 77
    for j in range(n, 50):
        pass
    tl.store(out + 1, j)
    for k in range(10, n, -3):
        pass
    tl.store(out + 2, k)
)";
  EXPECT_EQ(run(body, 3, 6), (Ints{5, 49, 7}));
  EXPECT_EQ(run(body, 2, 60), (Ints{57, 77}));
}

// ---- Names and values

TEST(ControlFlow, ListsAndComprehensions) {
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

TEST(ControlFlow, ALambdaWhoseNamesChange) {
  EXPECT_EQ(run("    m = n\n    f = lambda v: v * m\n    tl.store(out, f(3))\n    m = m + 0 * n\n", 1, 4), (Ints{12}));
  const std::string found = message_of<CompileError>(
      [] { run("    m = n\n    f = lambda v: v * m\n    m = 7\n    tl.store(out, f(3))\n", 1); });
  EXPECT_NE(found.find("error: 'm' changes behind the lambda that reads it"), found.npos) << found;
}

// Triton has tuples in their place, which do not change.
TEST(ControlFlow, AListWithTwoNamesDoesNotChange) {
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

TEST(ControlFlow, ArgumentsOfHelpers) {
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
TEST(ControlFlow, FunctionsThatCallThemselves) {
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

TEST(ControlFlow, FieldsThatAreFunctions) {
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

TEST(ControlFlow, Reflection) {
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
TEST(ControlFlow, CodeOfTheModule) {
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
TEST(ControlFlow, NamesOfTheModuleBoundAgain) {
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

TEST(ControlFlow, IndicesOfTiles) {
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

TEST(ControlFlow, OperatorsAsMethods) {
  const std::string body = R"(
    i = tl.arange(0, 4)
    tl.store(out + i, i.__lshift__(n).__rshift__(1).__add__(i))
    tl.store(out + 4 + i, i.__rsub__(n) * n.__mod__(3))
    tl.store(out + 8 + i, i.__and__(2).__or__(n))
)";
  EXPECT_EQ(run(body, 12), (Ints{0, 17, 34, 51, 10, 8, 6, 4, 5, 5, 7, 7}));
}

TEST(ControlFlow, LargeIntegers) {
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
