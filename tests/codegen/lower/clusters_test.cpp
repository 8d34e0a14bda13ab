// label: device
// Programs that the blocks of a cluster run together (num_ctas): whatever a kernel does gives what one block gives, in
// layouts that divide tiles along any axis or not at all.
#include <fstream>

#include "codegen/exec/emulator.h"
#include "codegen/target/target.h"
#include "tests/assembler.h"
#include "tests/codegen/lower/ops_support.h"
#include "tests/codegen/lower/ptx_support.h"

namespace tegula::ops {
namespace {

constexpr int kCtas[] = {2, 4, 8, 16};

// A function `kernel(x, out, n)` on int32: it reads as many elements of x as it likes, and writes to `outputs` of out.
struct Case {
  const char* name;
  const char* body;
  int outputs;
};

constexpr const char* kHelpers = R"(
@triton.jit
def larger(a, i, b, j):
    first = (a > b) | ((a == b) & (i < j))
    return tl.where(first, a, b), tl.where(first, i, j)

@triton.jit
def add3(a, b, c, d, e, f):
    return a + d, tl.maximum(b, e), c ^ f

)";

const Case kCases[] = {
    {"masked copy", "i = tl.arange(0, 4096)\ntl.store(out + i, tl.load(x + i, mask=i < n, other=7), mask=i < n + 5)",
     4096},
    {"tile smaller than the cluster", "i = tl.arange(0, 2)\nv = tl.load(x + i)\ntl.store(out + i, v + tl.sum(v, 0))",
     2},
    {"scalar", "v = tl.load(x + 3)\ntl.store(out, v * 2)", 1},
    {"sum, extremes and places of a row", R"(i = tl.arange(0, 2048)
v = tl.load(x + i, mask=i < n, other=0)
tl.store(out + 0, tl.sum(v, 0))
tl.store(out + 1, tl.max(v, 0))
tl.store(out + 2, tl.min(v, 0))
tl.store(out + 3, tl.argmax(v, 0))
tl.store(out + 4, tl.argmin(v, 0))
tl.store(out + 5, tl.xor_sum(v, 0)))",
     6},
    {"chained reductions", R"(i = tl.arange(0, 4096)
v = tl.load(x + i, mask=i < n, other=-1000)
v = v - tl.max(v, 0)
v = v * 3 + tl.sum(tl.where(v > -30, v, 0), 0)
v = v + tl.min(v, 0)
tl.store(out + i, v, mask=i < n))",
     4096},
    {"a row that is no power of two", R"(i = tl.arange(0, 3072)
v = tl.load(x + i, mask=i < n, other=0)
tl.store(out + i, v + tl.sum(v, 0), mask=i < n))",
     3072},
    {"several values by a function", R"(i = tl.arange(0, 1024)
v = tl.load(x + i)
a, b, c = tl.reduce((v, v + i, v * 5), 0, add3)
best, at = tl.reduce((v, i), 0, larger)
tl.store(out + i, v + a + b + c + best + at))",
     1024},
    {"matrix, columns reduced", R"(r = tl.arange(0, 32)
c = tl.arange(0, 64)
v = tl.load(x + r[:, None] * 64 + c[None, :], mask=(r[:, None] < 29) & (c[None, :] < 61), other=0)
v = v - tl.max(v, 1)[:, None]
tl.store(out + r[:, None] * 64 + c[None, :], v + tl.sum(v, 1)[:, None])
tl.store(out + 2048 + r, tl.sum(v, 1)))",
     2080},
    {"matrix, rows reduced", R"(r = tl.arange(0, 32)
c = tl.arange(0, 64)
v = tl.load(x + r[:, None] * 64 + c[None, :])
v = v - tl.max(v, 0)[None, :]
tl.store(out + r[:, None] * 64 + c[None, :], v)
tl.store(out + 2048 + c, tl.argmin(v, 0)))",
     2112},
    {"few rows, both axes", R"(r = tl.arange(0, 2)
c = tl.arange(0, 1024)
v = tl.load(x + r[:, None] * 1024 + c[None, :])
a = tl.sum(v, 1)
b = tl.max(v, 0)
tl.store(out + r[:, None] * 1024 + c[None, :], v + a[:, None] + b[None, :] + tl.sum(tl.sum(v, 1), 0)))",
     2048},
    {"one column", R"(r = tl.arange(0, 512)[:, None]
v = tl.load(x + r)
tl.store(out + r, v + tl.sum(v, 0)[None, :] + tl.max(v, 1)[:, None]))",
     512},
    {"three axes", R"(a = tl.arange(0, 8)[:, None, None]
b = tl.arange(0, 16)[None, :, None]
c = tl.arange(0, 8)[None, None, :]
v = tl.load(x + a * 128 + b * 8 + c)
tl.store(out + a * 128 + b * 8 + c, v + tl.sum(v, 1)[:, None, :] + tl.max(tl.max(v, 2), 0)[None, :, None]))",
     1024},
    {"another shape", R"(i = tl.arange(0, 2048)
v = tl.load(x + i)
m = tl.reshape(v, (16, 128))
t = tl.trans(m)
w = tl.reshape(t, (2048,))
tl.store(out + i, w + v)
r = tl.arange(0, 128)[:, None] * 16 + tl.arange(0, 16)[None, :]
tl.store(out + 2048 + r, t + tl.sum(t, 1)[:, None]))",
     4096},
    {"joined and split", R"(i = tl.arange(0, 512)
v = tl.load(x + i)
j = tl.interleave(v, v + 1)
a, b = tl.split(tl.reshape(j, (512, 2)))
tl.store(out + tl.arange(0, 1024), j + tl.cat(a, b, can_reorder=True) * 0)
tl.store(out + 1024 + i, a * 3 + b))",
     1536},
    {"running sums", R"(i = tl.arange(0, 1024)
v = tl.load(x + i)
tl.store(out + i, tl.cumsum(v, 0))
tl.store(out + 1024 + i, tl.cumsum(v, 0, reverse=True) + tl.max(v, 0))
m = tl.reshape(v, (16, 64))
k = tl.arange(0, 16)[:, None] * 64 + tl.arange(0, 64)[None, :]
tl.store(out + 2048 + k, tl.cumsum(m, 1))
tl.store(out + 3072 + k, tl.cumsum(m, 0)))",
     4096},
    {"in order", R"(i = tl.arange(0, 1024)
v = tl.load(x + i)
tl.store(out + i, tl.sort(v))
tl.store(out + 1024 + tl.arange(0, 16), tl.topk(v, 16))
tl.store(out + 1040 + i, tl.flip(v)))",
     2064},
    {"lookups and counts", R"(i = tl.arange(0, 1024)
v = tl.load(x + i)
at = (v * 37) & 1023
tl.store(out + i, tl.gather(v, at, 0))
tl.store(out + 1024 + tl.arange(0, 64), tl.histogram(v & 63, 64)))",
     1088},
    {"atomics", R"(i = tl.arange(0, 256)
v = tl.load(x + i)
tl.store(out + 256 + i, tl.full((256,), 5, tl.int32))
tl.store(out + 512, 11)
tl.debug_barrier()
old = tl.atomic_add(out + 256 + i, v)
all = tl.atomic_max(out + 512, 17)
row = tl.atomic_add(out + 256 + i[None, :] + tl.zeros((1, 1), tl.int32), v[None, :])
tl.store(out + i, old + all + tl.sum(row, 0)))",
     513},
    {"through memory", R"(i = tl.arange(0, 2048)
tl.store(out + i, tl.load(x + i) * 2)
tl.debug_barrier()
v = tl.load(out + 2047 - i)
tl.store(out + 2048 + i, v))",
     4096},
    {"reductions in a loop", R"(i = tl.arange(0, 512)
total = tl.zeros((512,), tl.int32)
last = 0
for k in range(0, n, 512):
    v = tl.load(x + k + i, mask=k + i < n, other=0)
    s = tl.sum(v, 0)
    if s % 3 == 0:
        total += v + tl.max(v, 0)
    else:
        total += s + last
    last = tl.min(v + last, 0)
tl.store(out + i, total + last))",
     512},
    {"conversions in a loop", R"(i = tl.arange(0, 1024)
v = tl.load(x + i)
for k in range(0, 3):
    v = tl.reshape(tl.trans(tl.reshape(v, (32, 32))), (1024,)) + tl.cumsum(v, 0) + k
tl.store(out + i, v))",
     1024},
    {"a while loop", R"(i = tl.arange(0, 256)
v = tl.load(x + i)
while tl.max(v, 0) > 2:
    v = v - tl.where(v == tl.max(v, 0), 1, 0)
tl.store(out + i, v))",
     256},
    {"running sums beside accesses of other shapes", R"(i = tl.arange(0, 32)
r = tl.arange(0, 16)[:, None]
tl.store(out + 512 + r * 32 + i[None, :], tl.load(x + 64 + r))
tl.store(out + i[:, None] * 16 + tl.arange(0, 16)[None, :], tl.load(x + 31 - i)[:, None])
tl.store(out + 1024 + 31 - i, tl.cumsum(tl.load(x + i), 0)))",
     1056},
    {"product that no store needs", R"(r = tl.arange(0, 64)
c = tl.arange(0, 32)
acc = tl.dot(tl.load(x + r[:, None] + c[None, :]).to(tl.float16), tl.zeros((32, 32), tl.float16)).to(tl.int32)
at = r[:, None] * 32 + c[None, :]
tl.store(out + at, acc, mask=(r[:, None] < 0) & (c[None, :] < 17))
tl.store(out + at, tl.load(x + at))
tl.store(out + 2048 + r, tl.load(x + r, mask=r >= 20, other=0)))",
     2112},
    {"product", R"(r = tl.arange(0, 32)[:, None]
c = tl.arange(0, 32)[None, :]
a = tl.load(x + r * 32 + c).to(tl.float16)
b = tl.load(x + 1024 + r * 32 + c).to(tl.float16)
acc = tl.zeros((32, 32), tl.float32)
for k in range(0, 2):
    acc = tl.dot(a, b, acc)
acc = acc + tl.sum(acc, 1)[:, None]
tl.store(out + r * 32 + c, acc.to(tl.int32)))",
     1024},
};

std::vector<int32_t> inputs() { return small_values<int32_t>(8192, 5, 40); }

bool has_clusters(Device& device) { return target_for_sm(device.info().sm).has(Feature::Cluster); }

std::string text_of(const Case& c) {
  return fmt::format("import triton\nimport triton.language as tl\n{}\n@triton.jit\ndef kernel(x, out, n):\n{}\n",
                     kHelpers, indented(c.body));
}

std::vector<int32_t> results(const Case& c, Device& on, const LaunchOptions& options, Grid grid = {1}) {
  Buffer x(on, inputs()), out(on, size_t(c.outputs) * 4);
  out.fill(0);
  const std::string text = text_of(c);
  try {
    Program::parse(text, "kernel.py")
        .kernel("kernel")
        .launch(on, grid, options, x.as<int32_t>(), out.as<int32_t>(), 1999);
  } catch (const Error& error) {
    ADD_FAILURE() << error.what() << "\n" << text;
  }
  return out.download<int32_t>();
}

TEST(Clusters, GiveWhatOneBlockGives) {
  if (!has_clusters(device())) GTEST_SKIP() << device().info().name << " runs no clusters of thread blocks";
  size_t i = 0;  // sizes of clusters in turn
  for (const Case& c : kCases) {
    const std::vector<int32_t> expected = results(c, device(), {.num_warps = 4});
    for (int size = 0; size < 2; ++size, ++i) {
      const int num_warps = next_warps(), num_ctas = kCtas[i % std::size(kCtas)];
      SCOPED_TRACE(fmt::format("{}: {} blocks of {} warps", c.name, num_ctas, num_warps));
      EXPECT_EQ(results(c, device(), {.num_warps = num_warps, .num_ctas = num_ctas}), expected);
    }
  }
}

// Blocks that run far ahead of others show barriers that are missing.
TEST(Clusters, InAnyOrder) {
  for (const Case& c : kCases) {
    const std::vector<int32_t> expected = results(c, device(), {.num_warps = 4});
    for (uint64_t seed : {1, 2}) {
      SCOPED_TRACE(fmt::format("{}: seed {}", c.name, seed));
      auto emulator = make_emulator({.seed = seed});
      EXPECT_EQ(results(c, *emulator, {.num_warps = 2, .num_ctas = 4}), expected);
    }
  }
}

TEST(Clusters, CountAsPrograms) {
  if (!has_clusters(device())) GTEST_SKIP() << device().info().name << " runs no clusters of thread blocks";
  constexpr const char* kBody =
      R"(at = (tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(0) + tl.program_id(0)
i = tl.arange(0, 64)
v = tl.load(x + i) + tl.program_id(0) * 100 + tl.program_id(1) * 10 + tl.program_id(2)
tl.store(out + at * 64 + i, v + tl.sum(v, 0)))";
  const Case c{"programs", kBody, 3 * 2 * 2 * 64};
  EXPECT_EQ(results(c, device(), {.num_warps = 1, .num_ctas = 4}, {3, 2, 2}),
            results(c, device(), {.num_warps = 1}, {3, 2, 2}));
}

// Rows that no single block could hold.
TEST(Clusters, HoldWideRows) {
  if (!has_clusters(device())) GTEST_SKIP() << device().info().name << " runs no clusters of thread blocks";
  constexpr int kColumns = 131072 - 1000;
  std::vector<float> x;
  for (int i = 0; i < kColumns; ++i) x.push_back(float(i % 977) * 0.01f);
  Array<float> out(size_t{kColumns});
  run(R"(@triton.jit
def kernel(out, x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=float("-inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + i, e / tl.sum(e, 0), mask=i < n)
)",
      {.constexprs = {{"BLOCK", 131072}}, .num_warps = 8, .num_ctas = 16}, {1}, out, Array<float>(x), kColumns);
  double sum = 0;
  for (float v : x) sum += std::exp(double(v) - 9.76);
  const std::vector<float> y = out.values();
  for (int i = 0; i < kColumns; i += 991)
    EXPECT_NEAR(y[size_t(i)], std::exp(double(x[size_t(i)]) - 9.76) / sum,
                1e-5 * std::exp(double(x[size_t(i)]) - 9.76) / sum);
}

// Weights that registers have no room for beside the rows stay in shared memory, each thread's in a part of its own.
TEST(Clusters, KeepWhatLoopsTakeFromOutside) {
  constexpr int kColumns = 8192, kRows = 5;
  constexpr const char* kText = R"(@triton.jit
def kernel(out, x, w, b, rows, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    weight = tl.load(w + i)
    bias = tl.load(b + i)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=2):
        v = tl.load(x + row * BLOCK + i)
        y = v * tl.sum(v, 0) * weight.to(tl.float32)
        if row % 2 == 0:
            y += bias
        tl.store(out + row * BLOCK + i, y - bias)
)";
  std::vector<float> x, b;
  std::vector<float16> w;
  for (int i = 0; i < kRows * kColumns; ++i) x.push_back(float(i % 7 - 3) * 0.25f);
  for (int i = 0; i < kColumns; ++i) w.push_back(float16(float(i % 5))), b.push_back(float(i % 11));
  auto outputs = [&](int num_warps, int num_ctas) {
    Array<float> out(x.size());
    run(kText, {.constexprs = {{"BLOCK", kColumns}}, .num_warps = num_warps, .maxnreg = 56, .num_ctas = num_ctas}, {2},
        out, Array<float>(x), Array<float16>(w), Array<float>(b), kRows);
    return out.values();
  };
  const std::vector<float> expected = outputs(32, 1);
  EXPECT_EQ(outputs(8, 1), expected);
  if (has_clusters(device())) {
    EXPECT_EQ(outputs(4, 2), expected);
  }
}

TEST(Clusters, AssemblersTakeThem) {
  SKIP_WITHOUT_PTXAS();
  const std::vector<ArgType> types = {{.elem = Elem::I32, .pointer = true, .divisible_by = 16},
                                      {.elem = Elem::I32, .pointer = true, .divisible_by = 16},
                                      {.elem = Elem::I32}};
  for (const char* target : {"sm_90a", "sm_100a", "sm_120a"})
    for (const char* name : {"few rows, both axes", "atomics", "reductions in a loop"}) {
      const Case& c = *std::find_if(std::begin(kCases), std::end(kCases),
                                    [&](const Case& c) { return c.name == std::string(name); });
      const std::string ptx =
          Program::parse(text_of(c), "kernel.py").kernel("kernel").compile(types, {.num_ctas = 4}, target).ptx;
      const PtxasRun run = assemble(ptx, target);
      EXPECT_EQ(run.status, 0) << name << " for " << target << ": " << run.log;
      EXPECT_FALSE(spills(run)) << run.log;
    }
}

// A row costs one exchange between blocks for each reduction, and the blocks meet once before the first one.
TEST(Clusters, ExchangeOnceForEachReduction) {
  const std::vector<ArgType> types = {{.elem = Elem::I32, .pointer = true, .divisible_by = 16},
                                      {.elem = Elem::I32, .pointer = true, .divisible_by = 16},
                                      {.elem = Elem::I32}};
  const Case c{
      "", "i = tl.arange(0, 8192)\nv = tl.load(x + i)\nv = v - tl.max(v, 0)\ntl.store(out + i, v - tl.sum(v, 0))", 0};
  const std::string ptx =
      Program::parse(text_of(c), "kernel.py").kernel("kernel").compile(types, {.num_ctas = 8}, "sm_90a").ptx;
  using kernel_texts::count;
  EXPECT_EQ(count(ptx, R"(barrier\.cluster\.arrive)"), 1);
  EXPECT_EQ(count(ptx, R"(barrier\.cluster\.wait)"), 1);
  EXPECT_EQ(count(ptx, R"(st\.async\.)"), 2);
  EXPECT_EQ(count(ptx, R"(mbarrier\.try_wait)"), 2);
  EXPECT_EQ(count(ptx, R"(bar\.sync)"), 2);
}

TEST(Clusters, TargetsWithoutThemSaySo) {
  Program program = Program::parse(
      "import triton\nimport triton.language as tl\n\n@triton.jit\ndef kernel(x):\n    tl.store(x, 1)\n", "kernel.py");
  try {
    const std::vector<ArgType> types = {{.elem = Elem::I32, .pointer = true}};
    program.kernel("kernel").compile(types, {.num_ctas = 2}, "sm_80");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "kernel.py:5:5: error: kernel 'kernel' asks for num_ctas=2; sm_80 runs no clusters of thread blocks\n"
                 "    def kernel(x):\n"
                 "        ^~~~~~\n"
                 "  hint: use num_ctas=1; GPUs from sm_90 on have clusters\n");
  }
}

}  // namespace
}  // namespace tegula::ops
