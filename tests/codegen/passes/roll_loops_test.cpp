// label: unit
// Loops of statements that a text unrolled: what they give, on the emulator, and what stays unrolled.
// heavy: RollLoops.CodeIsAsLongForManyCopies
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <string>
#include <vector>

#include "codegen/exec/emulator.h"
#include "codegen/ir/ir.h"
#include "dsl/tegula.h"

namespace tegula {
namespace {

constexpr const char* kKernels = R"(
import triton
import triton.language as tl

@triton.jit
def nested(o, x, n, N: tl.constexpr, M: tl.constexpr, ODD: tl.constexpr):
    i = tl.arange(0, 1024)
    s = tl.zeros((1024,), tl.int32)
    t = s + 1
    for a in tl.static_range(N):
        s = s * 3 + a
        for b in tl.static_range(M):
            v = tl.load(x + (a * M + b) * 2 + i, mask=i + b < n, other=a)
            s = s + v * (b + 1)
            if ODD and b == M // 2:
                s = s ^ 5
            u = t
            t = tl.maximum(s, u + b)
    tl.store(o + i, s)
    tl.store(o + 1024 + i, t)
    tl.store(o + 2048 + i, v + u)

@triton.jit
def branches(o, x, n, N: tl.constexpr, M: tl.constexpr, ODD: tl.constexpr):
    i = tl.arange(0, 1024)
    s = tl.load(x + i)
    for a in tl.static_range(N):
        if n > a * 7:
            s = s * 3 + a
        else:
            s = s - tl.sum(s, 0) * a
    tl.store(o + i, s)

@triton.jit
def sums(o, x, n, N: tl.constexpr, M: tl.constexpr, ODD: tl.constexpr):
    i = tl.arange(0, 1024)
    s = 0
    for a in tl.static_range(N):
        if n > a * 7:
            d = 0
            for b in range(0, n, 1024):
                d += tl.sum(tl.load(x + b + i), 0)
            s += d * a
    tl.store(o + i, s + i)

@triton.jit
def squares(o, x, n, N: tl.constexpr, M: tl.constexpr, ODD: tl.constexpr):
    i = tl.arange(0, 1024)
    s = tl.load(x + i)
    for a in tl.static_range(N):
        s = s * 3 + a * a
    tl.store(o + i, s)

@triton.jit
def weights(o, x, n, N: tl.constexpr, M: tl.constexpr, ODD: tl.constexpr):
    i = tl.arange(0, 1024)
    s = tl.load(x + i).to(tl.float32)
    for a in tl.static_range(N):
        s = tl.where(s > a * 2.0, s - a * 0.5, s + (a * 1.5 - 7))
    tl.store(o + i, (s * 2).to(tl.int32))

@triton.jit
def thousandths(o, x, n, N: tl.constexpr, M: tl.constexpr, ODD: tl.constexpr):
    i = tl.arange(0, 1024)
    s = tl.zeros([1024], tl.float64)
    for a in tl.static_range(N):
        s = tl.where(i == a, tl.full([1024], a * 0.001, tl.float64), s)
    tl.store(o + i, s.to(tl.int64, bitcast=True).to(tl.int32))

@triton.jit
def eighths(o, x, n, N: tl.constexpr, M: tl.constexpr, ODD: tl.constexpr):
    i = tl.arange(0, 1024)
    s = tl.load(x + i).to(tl.float64)
    for a in tl.static_range(N):
        s = tl.where(s > a * 0.125, s * 0.5, s + a * 0.125)
    tl.store(o + i, s.to(tl.int32))

@triton.jit
def thirds(o, x, n, N: tl.constexpr, M: tl.constexpr, ODD: tl.constexpr):
    i = tl.arange(0, 1024)
    s = tl.load(x + i).to(tl.float32)
    for a in tl.static_range(N):
        s = tl.where(s > a / 3, s * 0.5, s + a / 3)
    tl.store(o + i, s.to(tl.int32))

@triton.jit
def kept(o, x, n, N: tl.constexpr, M: tl.constexpr, ODD: tl.constexpr):
    i = tl.arange(0, 1024)
    s = tl.load(x + i)
    first = s
    for a in tl.static_range(N):
        s = s * 3 + a
        if a == 1:
            first = s
    tl.store(o + i, s + first)
)";

constexpr int kWidth = 1024;

struct Shape {
  int n, outer, inner;
  bool odd;
};

Kernel kernel(const char* name) { return Program::parse(kKernels, "unrolled.py").kernel(name); }

LaunchOptions options(const Shape& s) {
  return {.constexprs = {{"N", s.outer}, {"M", s.inner}, {"ODD", s.odd}}, .num_warps = 1};
}

size_t count(const char* name, const Shape& shape, const std::function<bool(const ir::Op&)>& wanted) {
  const ArgType array{.elem = Elem::I32, .pointer = true, .divisible_by = 16};
  const auto func = kernel(name).tile_func(std::vector<ArgType>{array, array, {.elem = Elem::I32}}, options(shape));
  size_t found = 0;
  ir::walk(func->body, [&](const ir::Op& op) { found += wanted(op); });
  return found;
}

size_t loops(const char* name, const Shape& shape) {
  return count(name, shape, [](const ir::Op& op) { return op.opcode == ir::Opcode::For; });
}

size_t length(const char* name, const Shape& shape) {
  return count(name, shape, [](const ir::Op&) { return true; });
}

std::vector<int32_t> inputs(const Shape& s) {
  std::vector<int32_t> x;
  for (int i = 0; i < kWidth + 2 * s.outer * s.inner; ++i) x.push_back(i * 1103 % 2003 - 1000);
  return x;
}

std::vector<int32_t> run(const char* name, const Shape& shape, int results) {
  auto device = make_emulator({.target = "sm_90a"});
  Buffer o(*device, std::vector<int32_t>(size_t(results * kWidth))), x(*device, inputs(shape));
  kernel(name).launch(*device, Grid{1}, options(shape), o.as<int32_t>(), x.as<int32_t>(), shape.n);
  return o.download<int32_t>();
}

std::vector<int32_t> nested_on_host(const Shape& shape) {
  const std::vector<int32_t> x = inputs(shape);
  std::vector<int32_t> o(3 * kWidth);
  for (int i = 0; i < kWidth; ++i) {
    uint32_t s = 0, t = 1, u = 0, v = 0;
    for (int a = 0; a < shape.outer; ++a) {
      s = s * 3 + uint32_t(a);
      for (int b = 0; b < shape.inner; ++b) {
        v = uint32_t(i + b < shape.n ? x[size_t((a * shape.inner + b) * 2 + i)] : a);
        s += v * uint32_t(b + 1);
        if (shape.odd && b == shape.inner / 2) s ^= 5;
        u = t;
        t = uint32_t(std::max(int32_t(s), int32_t(u + uint32_t(b))));
      }
    }
    o[size_t(i)] = int32_t(s), o[size_t(kWidth + i)] = int32_t(t), o[size_t(2 * kWidth + i)] = int32_t(v + u);
  }
  return o;
}

TEST(RollLoops, NestedLoopsGiveTheSame) {
  for (const Shape& shape : {Shape{1000, 9, 16, false}, Shape{1024, 8, 29, false}, Shape{1001, 40, 8, false},
                             Shape{1000, 6, 40, true}, Shape{900, 1, 128, false}, Shape{900, 128, 1, false}}) {
    SCOPED_TRACE(testing::Message() << shape.outer << " x " << shape.inner << (shape.odd ? ", one differs" : ""));
    EXPECT_GE(loops("nested", shape), 1u);
    EXPECT_EQ(run("nested", shape, 3), nested_on_host(shape));
  }
}

// The text's two loops, and the inner one of the last copy, whose last values are needed.
TEST(RollLoops, CodeIsAsLongForManyCopies) {
  EXPECT_EQ(loops("nested", {1000, 60, 60, false}), 3u);
  EXPECT_EQ(length("nested", {1000, 60, 60, false}), length("nested", {1000, 30, 60, false}));
  EXPECT_LT(length("nested", {1000, 60, 60, false}), 400u);
}

TEST(RollLoops, ShortOnesStayUnrolled) { EXPECT_EQ(loops("nested", {1000, 4, 4, false}), 0u); }

// Each copy is 96 instructions of a thread.
TEST(RollLoops, CodeThatTheInstructionCacheHoldsStaysUnrolled) {
  EXPECT_EQ(loops("kept", {1000, 80, 1, false}), 0u);
  EXPECT_EQ(loops("kept", {1000, 120, 1, false}), 1u);
}

TEST(RollLoops, BranchesAndReductionsGoAlong) {
  const Shape shape{301, 200, 1, false};
  EXPECT_EQ(loops("branches", shape), 1u);
  std::vector<int32_t> x = inputs(shape), s(x.begin(), x.begin() + kWidth);
  for (int a = 0; a < shape.outer; ++a) {
    uint32_t sum = 0;
    for (int32_t value : s) sum += uint32_t(value);
    for (int32_t& value : s)
      value = int32_t(shape.n > a * 7 ? uint32_t(value) * 3 + uint32_t(a) : uint32_t(value) - sum * uint32_t(a));
  }
  EXPECT_EQ(run("branches", shape, 1), s);
}

// The number that a sum begins with stands in a branch of the first copy.
TEST(RollLoops, SumsOfBranchesBeginAtTheirNumber) {
  const Shape shape{301, 400, 1, false};
  EXPECT_GE(loops("sums", shape), 1u);
  const std::vector<int32_t> x = inputs(shape);
  uint32_t sum = 0;
  for (int i = 0; i < kWidth; ++i) sum += uint32_t(x[size_t(i)]);
  uint32_t s = 0;
  for (int a = 0; a < shape.outer; ++a) s += shape.n > a * 7 ? sum * uint32_t(a) : 0;
  std::vector<int32_t> expected;
  for (int i = 0; i < kWidth; ++i) expected.push_back(int32_t(s + uint32_t(i)));
  EXPECT_EQ(run("sums", shape, 1), expected);
}

TEST(RollLoops, ConstantsThatGrowUnevenlyStayUnrolled) {
  const Shape shape{1000, 400, 1, false};
  EXPECT_EQ(loops("squares", shape), 0u);
  EXPECT_GE(loops("kept", shape), 1u);
}

// Floating-point constants grow where a loop computes exactly what the text says.
TEST(RollLoops, FloatingPointConstantsGrow) {
  const Shape shape{1000, 300, 1, false};
  EXPECT_GE(loops("weights", shape), 1u);
  EXPECT_EQ(loops("thirds", shape), 0u);
  EXPECT_GE(loops("eighths", shape), 1u);
  std::vector<int32_t> x = inputs(shape), expected;
  for (int i = 0; i < kWidth; ++i) {
    double s = x[size_t(i)];
    for (int a = 0; a < shape.outer; ++a) s = s > a * 2.0 ? s - a * 0.5 : s + (a * 1.5 - 7);
    expected.push_back(int32_t(s * 2));
  }
  EXPECT_EQ(run("weights", shape, 1), expected);
}

// Products that were rounded grow by something else from one copy to the next.
TEST(RollLoops, RoundedConstantsStayWhatTheyAre) {
  const Shape shape{1000, 400, 1, false};
  std::vector<int32_t> expected;
  for (int i = 0; i < kWidth; ++i) expected.push_back(int32_t(std::bit_cast<int64_t>(i < 400 ? i * 0.001 : 0.0)));
  EXPECT_EQ(run("thousandths", shape, 1), expected);
}

TEST(RollLoops, WhatAnEarlyCopyMadeIsKept) {
  const Shape shape{1000, 400, 1, false};
  std::vector<int32_t> x = inputs(shape), expected;
  for (int i = 0; i < kWidth; ++i) {
    uint32_t s = uint32_t(x[size_t(i)]), first = s;
    for (int a = 0; a < shape.outer; ++a) {
      s = s * 3 + uint32_t(a);
      if (a == 1) first = s;
    }
    expected.push_back(int32_t(s + first));
  }
  EXPECT_EQ(run("kept", shape, 1), expected);
}

}  // namespace
}  // namespace tegula
