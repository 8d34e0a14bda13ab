// label: device
// heavy: LoopPrograms.ProgramsSeeTheGridThatIsLaunched
// Blocks that take programs of a launch one behind the other (loop_programs): which kernels do, and that programs see
// the grid that was launched.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "codegen/exec/emulator.h"
#include "dsl/tegula.h"
#include "runtime/base/float16.h"
#include "tests/codegen/lower/dot_support.h"
#include "tests/devices.h"

namespace tegula {
namespace {

// Row `number of the program` of each 64 of out is a row of a product, plus the program's indices.
constexpr char kText[] = R"(
import triton
import triton.language as tl


@triton.jit
def multiply(out_ptr, seen_ptr, a_ptr, b_ptr, K, FORM: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    number = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x
    rows, cols, depth = tl.arange(0, ROWS), tl.arange(0, COLS), tl.arange(0, 64)
    acc = tl.zeros((ROWS, COLS), tl.float32)
    last = K
    if FORM == "unequal":
        last = tl.minimum(K, (x + 1) * 64)
    if FORM == "says_number":
        tl.device_assert(number >= 0, "a number")
    for k in range(0, last, 64):
        a = tl.load(a_ptr + (number * ROWS + rows)[:, None] * K + (k + depth)[None, :])
        b = tl.load(b_ptr + (k + depth)[:, None] * COLS + cols[None, :])
        acc = tl.dot(a, b, acc)
    if FORM == "assembly":
        acc = tl.inline_asm_elementwise("{ .reg .f32 one; mov.f32 one, 0f3F800000; add.f32 $0, $1, one; }", "=f,f", [acc], tl.float32, True, 1)
    if FORM == "asks_for_its_block":
        acc += tl.inline_asm_elementwise("mov.u32 $0, %ctaid.x;", "=r,r", [rows], tl.int32, True, 1)[:, None].to(tl.float32)
    if FORM == "waits":
        tl.atomic_add(seen_ptr, 0, sem="acq_rel")
    tl.store(out_ptr + (number * ROWS + rows)[:, None] * COLS + cols[None, :], acc)
    tl.store(seen_ptr + number, x + 100 * y + 10000 * z)
)";

LaunchOptions options_of(const std::string& form, int64_t rows, int64_t cols) {
  return {.constexprs = {{"FORM", form}, {"ROWS", rows}, {"COLS", cols}}, .num_warps = 8};
}

KernelImage image_of(const LaunchOptions& options) {
  const ArgType pointer{.elem = Elem::F16, .pointer = true, .divisible_by = 16};
  const std::vector<ArgType> types{
      {Elem::F32, true, 16}, {Elem::I32, true, 16}, pointer, pointer, {Elem::I32, false, 64}};
  return Program::parse(kText, "multiply.py").kernel("multiply").compile(types, options, "sm_90a");
}

TEST(LoopPrograms, ThoseThatHaveAMultiprocessorForThemselves) {
  EXPECT_TRUE(image_of(options_of("plain", 128, 128)).program_loop);
  EXPECT_TRUE(image_of(options_of("assembly", 128, 128)).program_loop);
  EXPECT_FALSE(image_of(options_of("plain", 64, 64)).program_loop) << "two share a multiprocessor";
  LaunchOptions options = options_of("plain", 64, 64);
  options.warp_specialize = 2, options.program_loop = 2, options.num_warps = 4;
  EXPECT_TRUE(image_of(options).program_loop) << "asked for";
}

TEST(LoopPrograms, ThoseThatDoNot) {
  for (const char* form : {"unequal", "waits", "asks_for_its_block"})
    EXPECT_FALSE(image_of(options_of(form, 128, 128)).program_loop) << form;
  LaunchOptions options = options_of("says_number", 128, 128);
  options.debug = 1;
  EXPECT_FALSE(image_of(options).program_loop) << "an assert says which program fails";
  const std::vector<void (*)(LaunchOptions&)> forbidding{
      [](LaunchOptions& o) { o.program_loop = 1; }, [](LaunchOptions& o) { o.warp_specialize = 1; },
      [](LaunchOptions& o) { o.bulk_copies = 1; }, [](LaunchOptions& o) { o.cooperative_grid = true; },
      [](LaunchOptions& o) { o.num_ctas = 2; }};
  for (size_t i = 0; i < forbidding.size(); ++i) {
    LaunchOptions given = options_of("plain", 128, 128);
    forbidding[i](given);
    EXPECT_FALSE(image_of(given).program_loop) << i;
  }
}

// Those that would get no copying warps in the loop over programs, and the last one, which does.
constexpr char kWithout[] = R"(
import triton
import triton.language as tl


@triton.jit
def k(out_ptr, table_ptr, a_ptr, b_ptr, c_ptr, K, FORM: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr):
    x = tl.program_id(0)
    rows, cols, depth = tl.arange(0, ROWS), tl.arange(0, COLS), tl.arange(0, DEPTH)
    first = x * ROWS
    if FORM == "from_table":
        first = tl.load(table_ptr + x) * ROWS
    acc = tl.zeros((ROWS, COLS), tl.float32)
    for k in range(0, K, DEPTH):
        a = tl.load(a_ptr + (first + rows)[:, None] * K + (k + depth)[None, :])
        b = tl.load(b_ptr + (k + depth)[:, None] * COLS + cols[None, :])
        if FORM == "loads":
            acc += tl.load(c_ptr + (k + rows)[:, None] * COLS + cols[None, :])
        acc = tl.dot(a, b, acc)
    if FORM == "exchanges":
        tl.store(out_ptr + 1 + (x * COLS + cols)[None, :] * ROWS + rows[:, None], acc)
    else:
        tl.store(out_ptr + (x * ROWS + rows)[:, None] * COLS + cols[None, :], acc)
)";

TEST(LoopPrograms, NoneWithoutCopyingWarps) {
  const ArgType halves{.elem = Elem::F16, .pointer = true, .divisible_by = 16}, floats{Elem::F32, true, 16};
  const std::vector<ArgType> types{floats, {Elem::I32, true, 16}, halves, halves, floats, {Elem::I32, false, 256}};
  int looped = 0;
  for (const char* form : {"from_table", "loads", "exchanges", "plain"})
    for (auto [cols, depth] : {std::pair{128, 64}, {256, 64}, {256, 128}})
      for (const int specialize : {0, 2, 3}) {
        const LaunchOptions options{.constexprs = {{"FORM", form}, {"ROWS", 128}, {"COLS", cols}, {"DEPTH", depth}},
                                    .num_warps = 8,
                                    .warp_specialize = specialize,
                                    .program_loop = 2};
        const KernelImage image = Program::parse(kWithout, "k.py").kernel("k").compile(types, options, "sm_90a");
        EXPECT_TRUE(!image.program_loop || image.copy_warps)
            << form << ", " << cols << ", " << depth << ", " << specialize;
        looped += image.program_loop;
      }
  EXPECT_GE(looped, 9);
}

void expect_right(Device& device, int64_t rows, int64_t cols, const LaunchOptions& options) {
  const Grid grid = device.info().emulator ? Grid{3, 2, 2} : Grid{25, 6, 2};  // an H200 runs 132 at a time
  const int64_t programs = int64_t(grid.x) * grid.y * grid.z, k = 320;
  const auto a = random_values<float16>(size_t(programs * rows * k), 1),
             b = random_values<float16>(size_t(k * cols), 2);
  Buffer da(device, a), db(device, b), out(device, size_t(programs * rows * cols) * sizeof(float));
  Buffer seen(device, std::vector<int32_t>(size_t(programs), -1));
  Program::parse(kText, "multiply.py")
      .kernel("multiply")
      .launch(device, grid, options, out.as<float>(), seen.as<int32_t>(), da.as<float16>(), db.as<float16>(),
              int32_t(k));
  const auto ids = seen.download<int32_t>();
  for (int64_t p = 0; p < programs; ++p)
    EXPECT_EQ(ids[size_t(p)], p % grid.x + 100 * (p / grid.x % grid.y) + 10000 * (p / grid.x / grid.y)) << p;
  const auto found = out.download<float>();
  for (int64_t row : {int64_t(0), rows - 1, rows * (programs / 2) + 5, programs * rows - 1})
    for (int64_t col = 0; col < cols; ++col) {
      double exact = 0;
      for (int64_t i = 0; i < k; ++i)
        exact += double(float(a[size_t(row * k + i)])) * double(float(b[size_t(i * cols + col)]));
      ASSERT_NEAR(found[size_t(row * cols + col)], exact, 1e-2) << device.info().name << ", " << row << ", " << col;
    }
}

// As many blocks as programs, fewer, and one.
TEST(LoopPrograms, ProgramsSeeTheGridThatIsLaunched) {
  for (int64_t rows : {128, 64}) {
    const int64_t cols = 2 * rows;
    LaunchOptions options = options_of("plain", rows, cols);
    options.warp_specialize = 2, options.program_loop = 2, options.num_warps = rows == 64 ? 4 : 8;
    for (auto& device : gpu_or_emulators({{.seed = 0},
                                          {.seed = 7, .program_loop_blocks = 1},
                                          {.seed = 0, .program_loop_blocks = 5},
                                          {.seed = 3, .program_loop_blocks = 5}}))
      expect_right(*device, rows, cols, options);
  }
}

// What programs leave in memory and read there again, ahead of the loop and in it, what loops carry, and atomic sums.
constexpr char kForms[] = R"(
import triton
import triton.language as tl


@triton.jit
def k(out_ptr, room_ptr, sums_ptr, a_ptr, b_ptr, K, FORM: tl.constexpr):
    number = (tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(0) + tl.program_id(0)
    m, n = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    room = room_ptr + number * 4096
    acc, best = tl.zeros((64, 64), tl.float32), tl.zeros((64,), tl.float32)
    if FORM == "ahead":
        tl.store(room + m * 64 + n, (m - n + number).to(tl.float32))
        acc += tl.load(room + n * 64 + m)
    for at in range(0, K, 64):
        a = tl.load(a_ptr + (number * 64 + m) * K + at + n)
        b = tl.load(b_ptr + (at + m) * 64 + n, mask=at + m < K - 5, other=0.0)
        acc = tl.dot(a, b, acc)
        if FORM == "in the loop":
            tl.store(room + m * 64 + n, acc)
            acc += tl.load(room + n * 64 + m)
        if FORM == "carried":
            best = tl.maximum(best, tl.max(acc, 1))
    if FORM == "atomic":
        tl.atomic_add(sums_ptr + m, m + number, sem="relaxed")
    tl.store(out_ptr + (number * 64 + m) * 64 + n, acc + best[:, None])
)";

TEST(LoopPrograms, ProgramsOfABlockDoWhatTheyDoAlone) {
  constexpr int kDepth = 192;
  const Grid grid{3, 2, 2};
  std::vector<float16> a, b;
  for (int i = 0; i < 12 * 64 * kDepth; ++i) a.push_back(float16(float(i * 7 % 5 - 2)));
  for (int i = 0; i < kDepth * 64; ++i) b.push_back(float16(float(i * 11 / 3 % 5 - 2)));
  const Kernel kernel = Program::parse(kForms, "k.py").kernel("k");
  for (const char* form : {"ahead", "in the loop", "carried", "atomic"}) {
    const auto results = [&](const EmulatorOptions& of, int program_loop) {
      const auto device = make_emulator(of);
      Buffer da(*device, a), db(*device, b), out(*device, 12 * 4096 * 4), room(*device, 12 * 4096 * 4),
          sums(*device, std::vector<int32_t>(64));
      LaunchOptions options{.constexprs = {{"FORM", form}}, .warp_specialize = 2, .program_loop = program_loop};
      Kernel(kernel).launch(*device, grid, options, out.as<float>(), room.as<float>(), sums.as<int32_t>(),
                            da.as<float16>(), db.as<float16>(), kDepth);
      return std::pair(out.download<float>(), sums.download<int32_t>());
    };
    const ArgType halves{Elem::F16, true, 16}, floats{Elem::F32, true, 16}, depth{Elem::I32, false, 16};
    const std::vector<ArgType> types{floats, floats, {Elem::I32, true, 16}, halves, halves, depth};
    const LaunchOptions asked{.constexprs = {{"FORM", form}}, .warp_specialize = 2, .program_loop = 2};
    EXPECT_TRUE(kernel.compile(types, asked, "sm_90a").program_loop) << form;
    const auto alone = results({}, 1);
    for (const EmulatorOptions& of : {EmulatorOptions{}, EmulatorOptions{.program_loop_blocks = 1, .check_races = true},
                                      EmulatorOptions{.seed = 3, .program_loop_blocks = 5}})
      EXPECT_EQ(results(of, 2), alone) << form << ", " << of.program_loop_blocks;
  }
}

// Programs that share a block are ordered, and what one leaves in shared memory is no other's.
TEST(LoopPrograms, NoRaces) {
  LaunchOptions options = options_of("plain", 64, 64);
  options.warp_specialize = 2, options.program_loop = 2, options.num_warps = 4;
  for (int blocks : {0, 1, 5})
    expect_right(*make_emulator({.program_loop_blocks = blocks, .check_races = true}), 64, 64, options);
}

}  // namespace
}  // namespace tegula
