// label: unit
// Whether warps of their own copy for a loop that asks for it, and what users are told where they do not.
#include "codegen/pipeline/partition.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "codegen/exec/emulator.h"
#include "dsl/tegula.h"
#include "runtime/base/float16.h"
#include "runtime/base/float8.h"

namespace tegula {
namespace {

constexpr const char* kKernels = R"(
import triton
import triton.language as tl

@triton.jit
def product(a, b, c, M, N, K, FORM: tl.constexpr, ASKS: tl.constexpr):
    m, n, k = tl.program_id(0) * 64 + tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, 64)
    acc = tl.zeros((64, 64), tl.float32)
    if FORM == "condition":
        if M > 64:
            for i in range(0, K, 64):
                acc = tl.dot(tl.load(a + m[:, None] * K + (i + k)), tl.load(b + (i + k)[:, None] * N + n), acc)
    elif FORM == "acquired":
        while tl.atomic_add(c, 0, sem="acquire") == 0:
            pass
        for i in range(0, K, 64):
            acc = tl.dot(tl.load(a + m[:, None] * K + (i + k)), tl.load(b + (i + k)[:, None] * N + n), acc)
    elif FORM == "assert":
        tl.device_assert(K > 0, "no K")
        for i in range(0, K, 64):
            acc = tl.dot(tl.load(a + m[:, None] * K + (i + k)), tl.load(b + (i + k)[:, None] * N + n), acc)
    elif FORM == "by the loop":
        for i in tl.range(0, K, 64, warp_specialize=ASKS):
            acc = tl.dot(tl.load(a + m[:, None] * K + (i + k)), tl.load(b + (i + k)[:, None] * N + n), acc)
    elif FORM == "one stage":
        for i in tl.range(0, K, 64, warp_specialize=True, num_stages=1):
            acc = tl.dot(tl.load(a + m[:, None] * K + (i + k)), tl.load(b + (i + k)[:, None] * N + n), acc)
    elif FORM == "exchange ahead":
        acc += tl.sum(tl.load(b + tl.arange(0, 1024)).to(tl.float32), axis=0)
        for i in tl.range(0, K, 64, warp_specialize=ASKS):
            acc = tl.dot(tl.load(a + m[:, None] * K + (i + k)), tl.load(b + (i + k)[:, None] * N + n), acc)
    elif FORM == "sums":
        for i in tl.range(0, K, 64, warp_specialize=True, num_stages=3):
            acc += tl.load(a + m[:, None] * K + (i + k))
    else:
        for i in range(0, K, 64):
            acc = tl.dot(tl.load(a + m[:, None] * K + (i + k)), tl.load(b + (i + k)[:, None] * N + n), acc)
    tl.store(c + m[:, None] * N + n, acc)
)";

struct Case {
  const char* form;
  LaunchOptions options;
  std::string why_not;  ///< empty: they copy
  const char* target = "sm_90a";
  bool loop_asks = true;
};

KernelImage image_of(const Case& c) {
  ArgType matrix{.elem = Elem::F16, .pointer = true, .divisible_by = 16}, number{.elem = Elem::I32, .divisible_by = 64};
  ArgType result = matrix;
  result.elem = Elem::F32;
  LaunchOptions options = c.options;
  options.constexprs = {{"FORM", c.form}, {"ASKS", c.loop_asks}};
  options.num_stages = 3;
  options.debug = 1;
  options.sanitize_overflow = false;  // which asserts in loops
  const std::vector<ArgType> types{matrix, matrix, result, number, number, number};
  return Program::parse(kKernels, "partition.py").kernel("product").compile(types, options, c.target);
}

TEST(Partition, SaysWhyNot) {
  const std::vector<Case> cases{
      {"", {.warp_specialize = 2}, ""},
      {"", {.warp_specialize = 2, .bulk_copies = 1}, ""},
      {"by the loop", {}, ""},
      {"by the loop", {.num_warps = 2}, "num_warps is no multiple of 4"},
      {"", {.num_warps = 32, .warp_specialize = 2}, "a program has 1024 threads at most"},
      {"", {.maxnreg = 128, .warp_specialize = 2}, "maxnreg is given"},
      {"condition", {.warp_specialize = 2}, "the loop stands in something else than loops"},
      {"assert", {.warp_specialize = 2}, "all threads may have to meet at an assert or in inline assembly"},
      {"acquired", {.warp_specialize = 2}, "it may read what is acquired ahead of it"},
      {"one stage", {}, "num_stages is 1"},
      {"sums", {}, "it copies nothing to shared memory"},
      {"", {.warp_specialize = 2}, "warps of sm_80 pass each other no registers", "sm_80"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(std::string(c.form) + " " + c.why_not);
    const KernelImage image = image_of(c);
    EXPECT_EQ(image.copy_warps > 0, c.why_not.empty());
    std::string told;
    for (const Transfer& transfer : image.transfers)
      if (transfer.by.starts_with("no warps of their own copy: ")) told += transfer.by.substr(28);
    EXPECT_EQ(told, c.why_not);
  }
}

size_t count(std::string_view text, std::string_view what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++found;
  return found;
}

// Slots begin empty; the program's warps say so only where they have used the room before.
TEST(Partition, CopiesBeginAtOnceUnlessTheirRoomWasUsed) {
  const auto arrivals = [](const char* form) { return count(image_of({form, {}, ""}).ptx, " mbarrier.arrive.shared"); };
  const size_t within = 2;  // an iteration's, one later, and the last one's
  EXPECT_EQ(arrivals("by the loop"), within);
  EXPECT_GT(arrivals("exchange ahead"), within);
}

// Whole numbers about 0, as many as `different`, in an order that follows from `times` and `over`.
std::vector<float16> operand(int count, int times, int over, int different = 5) {
  std::vector<float16> numbers;
  for (int i = 0; i < count; ++i) numbers.push_back(float16(float(i * times / over % different - different / 2)));
  return numbers;
}

constexpr const char* kOneOperand = R"(
import triton
import triton.language as tl

@triton.jit
def squares(out, other_out, a, b, K):
    m, n, k = tl.arange(0, 128), tl.arange(0, 64), tl.arange(0, 32)
    acc, other = tl.zeros((128, 64), tl.float32), tl.zeros((128, 128), tl.float32)
    for i in range(0, K, 32):
        x = tl.trans(tl.load(a + (i + k[:, None]) * 128 + m[None, :]))
        acc = acc * 0.5 + tl.dot(x, tl.load(b + (i + k[:, None]) * 64 + n[None, :]))
        other += tl.dot(x, tl.trans(x))
    tl.store(out + m[:, None] * 64 + n[None, :], acc)
    tl.store(other_out + m[:, None] * 128 + m[None, :], other)
)";

// Both read its place, so that the second product cannot run an iteration behind. With two slots that threads fill, one
// would wait for what there is room for after the other.
TEST(Partition, TwoProductsOfOneOperand) {
  constexpr int kDepth = 160;
  const std::vector<float16> a = operand(kDepth * 128, 7, 1), b = operand(kDepth * 64, 11, 3);
  std::vector<float> sums(128 * 64), squares(128 * 128);
  for (int first = 0; first < kDepth; first += 32)
    for (int m = 0; m < 128; ++m) {
      for (int n = 0; n < 64; ++n) {
        float& sum = sums[size_t(m) * 64 + n] *= 0.5f;
        for (int k = first; k < first + 32; ++k) sum += float(a[size_t(k) * 128 + m]) * float(b[size_t(k) * 64 + n]);
      }
      for (int n = 0; n < 128; ++n)
        for (int k = first; k < first + 32; ++k)
          squares[size_t(m) * 128 + n] += float(a[size_t(k) * 128 + m]) * float(a[size_t(k) * 128 + n]);
    }
  auto emulator = make_emulator({.seed = 1});
  Buffer da(*emulator, a), db(*emulator, b), out(*emulator, 4 * sums.size()), other(*emulator, 4 * squares.size());
  for (const LaunchOptions& options :
       {LaunchOptions{.num_warps = 4}, LaunchOptions{.num_warps = 4, .warp_specialize = 2},
        LaunchOptions{.num_warps = 4, .warp_specialize = 2, .bulk_copies = 1},
        LaunchOptions{.num_warps = 8, .warp_specialize = 2},
        LaunchOptions{.num_warps = 4, .num_stages = 2, .warp_specialize = 2, .bulk_copies = 1},
        LaunchOptions{.num_warps = 8, .num_stages = 2, .warp_specialize = 2, .bulk_copies = 1},
        LaunchOptions{.num_warps = 8, .num_stages = 3, .warp_specialize = 2, .bulk_copies = 1}}) {
    Program::parse(kOneOperand, "squares.py")
        .kernel("squares")
        .launch(*emulator, {1}, options, out.as<float>(), other.as<float>(), da.as<float16>(), db.as<float16>(),
                kDepth);
    EXPECT_EQ(out.download<float>(), sums) << options.num_warps << ", " << options.bulk_copies;
    EXPECT_EQ(other.download<float>(), squares) << options.num_warps << ", " << options.bulk_copies;
  }
}

constexpr const char* kRowsTwice = R"(
import triton
import triton.language as tl

@triton.jit
def rows_twice(out, other_out, a, b, K):
    m, n, k = tl.arange(0, 128), tl.arange(0, 16), tl.arange(0, 32)
    acc, other = tl.full((128, 16), 1, tl.float32), tl.zeros((128, 128), tl.float32)
    for i in range(0, K, 32):
        x = tl.load(a + m[:, None] * K + (i + k[None, :]))
        acc += tl.dot(x, tl.load(b + (i + k[:, None]) * 16 + n[None, :]))
        other = other + tl.dot(x, tl.trans(x))
    tl.store(out + m[:, None] * 16 + n[None, :], acc)
    tl.store(other_out + m[:, None] * 128 + m[None, :], other)
)";

// The rows' slot is empty behind the second product alone, and the first one of the next iteration waits for operands
// that threads copy in order.
TEST(Partition, RowsOfTwoProductsInTwoSlots) {
  constexpr int kDepth = 224;
  const std::vector<float16> a = operand(128 * kDepth, 7, 1), b = operand(16 * kDepth, 11, 3);
  std::vector<float> sums(128 * 16, 1), squares(128 * 128);
  for (int m = 0; m < 128; ++m)
    for (int k = 0; k < kDepth; ++k) {
      const float x = float(a[size_t(m * kDepth + k)]);
      for (int n = 0; n < 16; ++n) sums[size_t(m * 16 + n)] += x * float(b[size_t(k * 16 + n)]);
      for (int n = 0; n < 128; ++n) squares[size_t(m * 128 + n)] += x * float(a[size_t(n * kDepth + k)]);
    }
  const Kernel kernel = Program::parse(kRowsTwice, "rows.py").kernel("rows_twice");
  for (const uint64_t seed : {1, 2}) {
    auto emulator = make_emulator({.seed = seed});
    Buffer da(*emulator, a), db(*emulator, b), out(*emulator, 4 * sums.size()), other(*emulator, 4 * squares.size());
    for (const int stages : {2, 3}) {
      kernel.launch(*emulator, {1}, {.num_warps = 4, .num_stages = stages, .warp_specialize = 2, .bulk_copies = 1},
                    out.as<float>(), other.as<float>(), da.as<float16>(), db.as<float16>(), kDepth);
      EXPECT_EQ(out.download<float>(), sums) << stages;
      EXPECT_EQ(other.download<float>(), squares) << stages;
    }
  }
}

constexpr const char* kTransposed = R"(
import triton
import triton.language as tl

@triton.jit
def transposed(out, other_out, a, b, K):
    m, n, k = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, 64)
    acc, other = tl.zeros((64, 64), tl.float32), tl.zeros((64, 64), tl.float32)
    for i in range(0, K, 64):
        x = tl.load(a + m[:, None] * K + (i + k[None, :]))
        acc = tl.dot(x, tl.load(b + (i + k[:, None]) * 64 + n[None, :]), acc * 0.5)
        other = other + tl.dot(x, tl.trans(x))
    tl.store(out + m[:, None] * 64 + n[None, :], acc)
    tl.store(other_out + m[:, None] * 64 + m[None, :], other)
)";

// All warps transpose the first product's operand together, which a group of warps that waits for its turn does not.
TEST(Partition, FirstProductOfATransposedOperand) {
  constexpr int kDepth = 256;
  const std::vector<float16> a = operand(64 * kDepth, 7, 1, 3), b = operand(64 * kDepth, 5, 2, 3);
  std::vector<float> sums(64 * 64), squares(64 * 64);
  for (int m = 0; m < 64; ++m)
    for (int k = 0; k < kDepth; ++k)
      for (int n = 0; n < 64; ++n) {
        const float x = float(a[size_t(m * kDepth + k)]);
        float& sum = sums[size_t(m * 64 + n)];
        sum = (k % 64 == 0 ? sum * 0.5f : sum) + x * float(b[size_t(k * 64 + n)]);
        squares[size_t(m * 64 + n)] += x * float(a[size_t(n * kDepth + k)]);
      }
  auto emulator = make_emulator({.seed = 1});
  const std::vector<float8e4nv> short_a(a.begin(), a.end()), short_b(b.begin(), b.end());
  Buffer da(*emulator, short_a), db(*emulator, short_b), out(*emulator, 4 * sums.size()),
      other(*emulator, 4 * squares.size());
  for (const int bulk : {0, 1}) {
    Program::parse(kTransposed, "transposed.py")
        .kernel("transposed")
        .launch(*emulator, {1}, {.num_warps = 8, .num_stages = 3, .warp_specialize = 2, .bulk_copies = bulk},
                out.as<float>(), other.as<float>(), da.as<float8e4nv>(), db.as<float8e4nv>(), kDepth);
    EXPECT_EQ(out.download<float>(), sums) << bulk;
    EXPECT_EQ(other.download<float>(), squares) << bulk;
  }
}

constexpr const char* kBackwards = R"(
import triton
import triton.language as tl

@triton.jit
def chained(out, q, keys, values, K, D: tl.constexpr):
    m, d, n = tl.arange(0, 128), tl.arange(0, D), tl.arange(0, 64)
    x = tl.load(q + m[:, None] * D + d[None, :])
    acc = tl.zeros((128, D), tl.float32)
    for at in range(K - 64, -1, -64):
        p = tl.dot(x, tl.trans(tl.load(keys + (at + n[:, None]) * D + d[None, :])))
        acc = acc * 0.5 + tl.dot(p.to(tl.float16), tl.load(values + (at + n[:, None]) * D + d[None, :]))
    tl.store(out + m[:, None] * D + d[None, :], acc)
)";

// Whether there is a next iteration, for whom groups of warps pass on a turn and products run ahead, is another
// question where the loop's number goes down.
TEST(Partition, TwoProductsOfALoopThatGoesBackwards) {
  const Kernel kernel = Program::parse(kBackwards, "chained.py").kernel("chained");
  auto emulator = make_emulator({.seed = 1});
  for (const int width : {64, 128})
    for (const int depth : {0, 192}) {
      const int rows = std::max(depth, 64);
      const std::vector<float16> q = operand(128 * width, 7, 1, 3), keys = operand(rows * width, 11, 3, 3),
                                 values = operand(rows * width, 5, 2, 3);
      const auto at = [&](const std::vector<float16>& of, int row, int column) {
        return float(of[size_t(row) * size_t(width) + size_t(column)]);
      };
      std::vector<float> expected(size_t(128 * width));
      for (int first = depth - 64; first >= 0; first -= 64)
        for (int m = 0; m < 128; ++m) {
          for (int d = 0; d < width; ++d) expected[size_t(m * width + d)] *= 0.5f;
          for (int n = first; n < first + 64; ++n) {
            float p = 0;
            for (int d = 0; d < width; ++d) p += at(q, m, d) * at(keys, n, d);
            for (int d = 0; d < width; ++d) expected[size_t(m * width + d)] += p * at(values, n, d);
          }
        }
      Buffer dq(*emulator, q), dk(*emulator, keys), dv(*emulator, values), out(*emulator, 4 * expected.size());
      for (const int specialize : {0, 2}) {
        kernel.launch(*emulator, {1},
                      {.constexprs = {{"D", width}}, .num_warps = 8, .num_stages = 3, .warp_specialize = specialize},
                      out.as<float>(), dq.as<float16>(), dk.as<float16>(), dv.as<float16>(), depth);
        EXPECT_EQ(out.download<float>(), expected) << width << ", " << depth << ", " << specialize;
      }
    }
}

constexpr const char* kUnsigned = R"(
import triton
import triton.language as tl

@triton.jit
def product(out, a, b, K):
    m, k = tl.arange(0, 64), tl.arange(0, 64)
    acc = tl.zeros((64, 64), tl.float32)
    for first in range(64, K + 64, 64):
        c = ((first + k).to(tl.uint32) - 64).to(tl.int32)
        x = tl.load(a + m[:, None] * K + c[None, :], mask=c[None, :] < K, other=0)
        y = tl.load(b + c[:, None] * 64 + m[None, :], mask=c[:, None] < K, other=0)
        acc = tl.dot(x, y, acc)
    tl.store(out + m[:, None] * 64 + m[None, :], acc)
)";

// Less 64 is 2^32 - 64 more to a number without a sign, but not to the place of a copy.
TEST(Partition, CopiesAtNumbersWithoutASign) {
  constexpr int kDepth = 256;
  const std::vector<float16> a = operand(64 * kDepth, 7, 1), b = operand(64 * kDepth, 11, 3);
  std::vector<float> expected(64 * 64);
  for (int m = 0; m < 64; ++m)
    for (int n = 0; n < 64; ++n)
      for (int k = 0; k < kDepth; ++k)
        expected[size_t(m * 64 + n)] += float(a[size_t(m * kDepth + k)]) * float(b[size_t(k * 64 + n)]);
  auto emulator = make_emulator({.seed = 1});
  Buffer da(*emulator, a), db(*emulator, b), out(*emulator, 4 * expected.size());
  Program::parse(kUnsigned, "product.py")
      .kernel("product")
      .launch(*emulator, {1}, {.num_warps = 4}, out.as<float>(), da.as<float16>(), db.as<float16>(), kDepth);
  EXPECT_EQ(out.download<float>(), expected);
}

constexpr const char* kFewRows = R"(
import triton
import triton.language as tl

@triton.jit
def few(a, b, c, N, K):
    m, n, k = tl.arange(0, 16), tl.program_id(0) * 64 + tl.arange(0, 64), tl.arange(0, 64)
    acc = tl.zeros((64, 16), tl.float32)
    for i in range(0, K, 64):
        acc = tl.dot(tl.load(b + n[:, None] * K + (i + k)), tl.trans(tl.load(a + m[:, None] * K + (i + k))), acc)
    tl.store(c + m[None, :] * N + n[:, None], acc)
)";

// The next kernel's programs would begin on the multiprocessors that are free, side by side; if the loop is short they
// may, which the program's warps tell, not those that copy.
TEST(Partition, ProductsOfFewRowsDoNotLetTheNextKernelStartAtOnce) {
  const ArgType matrix{.elem = Elem::F16, .pointer = true, .divisible_by = 16};
  const ArgType number{.elem = Elem::I32, .divisible_by = 64};
  ArgType result = matrix;
  result.elem = Elem::F32;
  const std::vector<ArgType> types{matrix, matrix, result, number, number};
  const auto lets = [&](LaunchOptions options) {
    options.dependent_launch = true;
    const Kernel kernel = Program::parse(kFewRows, "few.py").kernel("few");
    return count(kernel.compile(types, options, "sm_90a").ptx, "griddepcontrol.launch_dependents");
  };
  EXPECT_EQ(lets({.warp_specialize = 2}), 1u);
}

// What a loop of two iterations copies is under way from its begin on, whoever copies.
TEST(Partition, DoesNotPayInLoopsWithAsManyIterationsAsSlots) {
  const ArgType matrix{.elem = Elem::F16, .pointer = true, .divisible_by = 16},
      sums{.elem = Elem::F32, .pointer = true};
  const ArgType number{.elem = Elem::I32, .divisible_by = 64};
  auto copy_warps = [&](const ArgType& depth) {
    const std::vector<ArgType> types{matrix, matrix, sums, number, number, depth};
    const LaunchOptions options{.constexprs = {{"FORM", ""}, {"ASKS", false}}, .num_stages = 3};
    return Program::parse(kKernels, "partition.py").kernel("product").compile(types, options, "sm_90a").copy_warps;
  };
  EXPECT_GT(copy_warps(number), 0);
  EXPECT_GT(copy_warps({.elem = Elem::I32, .constant = 1024}), 0);
  EXPECT_EQ(copy_warps({.elem = Elem::I32, .constant = 128}), 0);
}

// A program with copying warps has a multiprocessor alone. Of programs with few iterations each, several at a time
// begin and end beside each other.
TEST(Partition, DoesNotPayInLoopsOfFewIterationsWhereManyProgramsRun) {
  const ArgType matrix{.elem = Elem::F16, .pointer = true, .divisible_by = 16},
      sums{.elem = Elem::F32, .pointer = true};
  const ArgType number{.elem = Elem::I32, .divisible_by = 64};
  auto copy_warps = [&](int64_t depth, int stages) {
    const std::vector<ArgType> types{matrix, matrix, sums, number, number, {.elem = Elem::I32, .constant = depth}};
    const LaunchOptions options{.constexprs = {{"FORM", ""}, {"ASKS", false}}, .num_stages = stages};
    return Program::parse(kKernels, "partition.py").kernel("product").compile(types, options, "sm_90a").copy_warps;
  };
  EXPECT_EQ(copy_warps(384, 2), 0);
  EXPECT_GT(copy_warps(1024, 2), 0);
  EXPECT_GT(copy_warps(384, 4), 0);  // of which two run at a time
}

TEST(Partition, FalseIsTheDefaultOfALoop) {
  EXPECT_GT(image_of({"by the loop", {.warp_specialize = 2}, "", "sm_90a", false}).copy_warps, 0);
  EXPECT_EQ(image_of({"by the loop", {.warp_specialize = 1}, "", "sm_90a", false}).copy_warps, 0);
}

TEST(Partition, NobodyIsToldWhoDidNotAsk) {
  for (const int warp_specialize : {0, 1})
    for (const Transfer& transfer : image_of({"condition", {.warp_specialize = warp_specialize}, ""}).transfers)
      EXPECT_FALSE(transfer.by.starts_with("no warps")) << transfer.by;
}

}  // namespace
}  // namespace tegula
