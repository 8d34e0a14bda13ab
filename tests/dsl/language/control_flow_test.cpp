// label: device
// What texts compute that Python's control flow makes up: each kernel writes integers to `out`, which are compared with
// what Python gives.
#include <fmt/format.h>

#include "tests/dsl/language/kernel_fixture.h"

namespace tegula {
namespace {

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

// What the numbers are that the variable takes does not follow from its type: it runs from -2 to 3 where that is
// uint32.
TEST(ControlFlow, TheVariableHasTheTypeInWhichItsBoundsMeet) {
  const std::string body = R"(
    for i in range(-2, n.to(tl.uint32)):
        tl.static_assert(i.dtype == tl.uint32)
        tl.store(out, tl.load(out) * 2 + (1 - 3 * n <= i * 4))
    for i in range(n.to(tl.uint16), 0, n.to(tl.int64) - 10):
        tl.static_assert(i.dtype == tl.int64)
        tl.store(out + 1, i)
    for i in range(0, n.to(tl.uint64)):
        tl.static_assert(i.dtype == tl.uint64)
        tl.store(out + 2, -i < 5)
    for i in range(n.to(tl.int8), 100 + n.to(tl.int8), 20 + n.to(tl.int8)):
        tl.static_assert(i.dtype == tl.int8)
        tl.store(out + 3, i * 2)
    for i in range(n.to(tl.int8), n.to(tl.uint8) + 5, n.to(tl.int8)):
        tl.static_assert(i.dtype == tl.uint8)
        tl.store(out + 4, i - 7)
    for i in range(n.to(tl.int16)):
        tl.static_assert(i.dtype == tl.int32)
    for i in range(5000000000, 5000000003):
        tl.static_assert(i.dtype == tl.int64)
    for i in range(3000000000, 3000000003):
        tl.static_assert(i.dtype == tl.uint32)
        tl.store(out + 5, i < -1000)
)";
  EXPECT_EQ(run(body, 6, 3), (Ints{-7 * 32 + 24, 3, 0, -66, 255, 1}));
}

TEST(ControlFlow, TheVariableKeepsItsTypeWhereItsLoopIsLeft) {
  const std::string body = R"(
    for i in range(-1, n.to(tl.uint32)):
        tl.static_assert(i.dtype == tl.uint32)
        if i == 3:
            break
    tl.static_assert(i.dtype == tl.uint32)
    tl.store(out, i - 4 > 5)
    for j in range(-7, n.to(tl.uint32), 5):
        pass
    tl.static_assert(j.dtype == tl.uint32)
    tl.store(out + 1, j)
    for k in range(n.to(tl.uint32) - 9, 4):
        pass
    tl.store(out + 2, k > 5)
)";
  EXPECT_EQ(run(body, 3, 6), (Ints{1, 3, 1}));
}

}  // namespace
}  // namespace tegula
