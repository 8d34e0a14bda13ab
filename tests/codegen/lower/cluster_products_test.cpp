// label: device
// heavy: ClusterProducts.DivideProductsInAnyForm ClusterProducts.DivideProducts
// Programs with products that the blocks of a cluster run together: each block has some of the rows or columns, or a
// share of K.
#include "codegen/exec/emulator.h"
#include "codegen/target/target.h"
#include "tests/codegen/lower/ops_support.h"
#include "tests/codegen/lower/ptx_support.h"

namespace tegula::ops {
namespace {

bool has_clusters(Device& device) { return target_for_sm(device.info().sm).has(Feature::Cluster); }

// A function `kernel(out, a, b, x, n)`: a and b are of float16, x of int32, out of float.
struct ProductCase {
  const char* name;
  const char* body;
  int outputs;
  int programs = 1;
  bool multicast = false;  ///< an operand is, in the code for sm_90a
};

constexpr const char* kLoop = R"(
i = tl.arange(0, M)
j = tl.arange(0, N)
k = tl.arange(0, 32)
a_ptrs = a + i[:, None] * n + k[None, :]
b_ptrs = b + k[:, None] * N + j[None, :]
acc = tl.zeros((M, N), tl.float32)
for step in range(0, n, 32):
    acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
    a_ptrs += 32
    b_ptrs += 32 * N
at = out + i[:, None] * N + j[None, :]
)";

// `$loop` stands for kLoop.
const ProductCase kProducts[] = {
    {"rows", "M: tl.constexpr = 256\nN: tl.constexpr = 64\n$loop\ntl.store(at, acc)", 256 * 64, 1, true},
    {"columns", "M: tl.constexpr = 64\nN: tl.constexpr = 256\n$loop\ntl.store(at, acc)", 64 * 256, 1, true},
    {"columns that are no power of two", "M: tl.constexpr = 128\nN: tl.constexpr = 96\n$loop\ntl.store(at, acc)",
     128 * 96, 1, true},
    {"sums of rows and of the tile", R"(M: tl.constexpr = 128
N: tl.constexpr = 64
$loop
tl.store(at, acc + tl.sum(acc, 1)[:, None])
tl.store(out + M * N + i, tl.max(acc, 1))
tl.store(out + M * N + M, tl.load(x + 5).to(tl.float32)))",
     128 * 64 + 129, 1, true},
    {"sums of columns", R"(M: tl.constexpr = 128
N: tl.constexpr = 64
$loop
tl.store(at, acc - tl.max(acc, 0)[None, :]))",
     128 * 64, 1, true},
    {"sums of both", R"(M: tl.constexpr = 128
N: tl.constexpr = 64
$loop
acc += tl.sum(acc, 0)[None, :]
tl.store(at, acc + tl.sum(acc, 1)[:, None]))",
     128 * 64},
    {"rows and columns of one range", R"(M: tl.constexpr = 64
N: tl.constexpr = 64
$loop
tl.store(out + i[None, :] * 64 + i[:, None], acc, mask=(i[:, None] >= i[None, :]) & (i[None, :] < 60)))",
     64 * 64, 1, true},
    {"masks and a remainder", R"(i = (tl.program_id(0) * 128 + tl.arange(0, 128)) % 200
j = tl.arange(0, 64)
k = tl.arange(0, 32)
acc = tl.zeros((128, 64), tl.float32)
for step in range(0, 72, 32):
    v = tl.load(a + i[:, None] * 72 + step + k[None, :], mask=step + k[None, :] < 72, other=0.0)
    w = tl.load(b + (step + k[:, None]) * 60 + j[None, :], mask=(step + k[:, None] < 72) & (j[None, :] < 60), other=0.0)
    acc = tl.dot(v, w, acc)
i = tl.program_id(0) * 128 + tl.arange(0, 128)
tl.store(out + i[:, None] * 60 + j[None, :], acc, mask=(i[:, None] < 200) & (j[None, :] < 60)))",
     200 * 60, 2},
    {"a transposed result", R"(M: tl.constexpr = 128
N: tl.constexpr = 64
$loop
t = tl.trans(acc)
tl.store(out + j[:, None] * M + i[None, :], t * 2))",
     128 * 64, 1, true},
    {"two products, one of the other's sums", R"(i = tl.arange(0, 128)
d = tl.arange(0, 32)
q = tl.load(a + i[:, None] * 32 + d[None, :])
acc = tl.zeros((128, 32), tl.float32)
best = tl.full((128,), -1000.0, tl.float32)
for start in range(0, 192, 64):
    j = start + tl.arange(0, 64)
    s = tl.dot(q, tl.trans(tl.load(b + j[:, None] * 32 + d[None, :])))
    s = tl.where(i[:, None] >= j[None, :], s, 0.0)
    best = tl.maximum(best, tl.max(s, 1))
    acc = tl.dot((s * 0.125).to(tl.float16), tl.load(b + 64 * 32 + j[:, None] * 32 + d[None, :]), acc)
tl.store(out + i[:, None] * 32 + d[None, :], acc)
tl.store(out + 4096 + i, best))",
     4096 + 128},
    {"sums that begin with what the program has stored", R"(i = tl.arange(0, 128)
j = tl.arange(0, 64)
k = tl.arange(0, 32)
room = out + 128 * 64
tl.store(room + i[:, None] * 64 + j[None, :], (i[:, None] - j[None, :]).to(tl.float32))
acc = tl.load(room + i[:, None] + j[None, :] * 128)
for step in range(0, n, 32):
    acc = tl.dot(tl.load(a + i[:, None] * n + step + k[None, :]), tl.load(b + (step + k[:, None]) * 64 + j[None, :]), acc)
tl.store(out + i[:, None] * 64 + j[None, :], acc))",
     2 * 128 * 64},
    {"a persistent program", R"(i = tl.arange(0, 128)
j = tl.arange(0, 64)
k = tl.arange(0, 32)
for tile in tl.range(tl.program_id(0), 5, tl.num_programs(0)):
    acc = tl.zeros((128, 64), tl.float32)
    for step in range(0, n, 32):
        v = tl.load(a + (tile * 128 + i[:, None]) * n + step + k[None, :])
        w = tl.load(b + (step + k[:, None]) * 64 + j[None, :])
        acc = tl.dot(v, w, acc)
    tl.store(out + (tile * 128 + i[:, None]) * 64 + j[None, :], acc))",
     5 * 128 * 64, 2, true},
    {"sums by atomics", R"(M: tl.constexpr = 128
N: tl.constexpr = 64
$loop
tl.store(at, acc)
tl.debug_barrier()
old = tl.atomic_add(at, acc)
tl.store(out + M * N + i[:, None] * N + j[None, :], old + acc))",
     2 * 128 * 64, 1, true},
    {"shares of K, added up by the last program", R"(M: tl.constexpr = 128
N: tl.constexpr = 64
share = tl.program_id(0)
i = tl.arange(0, M)
j = tl.arange(0, N)
k = tl.arange(0, 32)
acc = tl.zeros((M, N), tl.float32)
for step in range(share * 64, share * 64 + 64, 32):
    acc = tl.dot(tl.load(a + i[:, None] * n + step + k[None, :]), tl.load(b + (step + k[:, None]) * N + j[None, :]), acc)
parts = out + (share + 1) * M * N
tl.store(parts + i[:, None] * N + j[None, :], acc)
tl.debug_barrier()
if tl.atomic_add(x, 1) == tl.num_programs(0) - 1:
    r = tl.arange(0, 32)
    for row in range(0, M, 32):
        at = (row + r[:, None]) * N + j[None, :]
        sum = tl.zeros((32, N), tl.float32)
        for other in range(0, 3):
            sum += tl.load(out + (other + 1) * M * N + at, cache_modifier=".cg")
        tl.store(out + at, sum)
    tl.store(x, 0))",
     4 * 128 * 64, 3, true},
    {"norms of long rows", R"(M: tl.constexpr = 32
N: tl.constexpr = 512
$loop
acc -= (tl.sum(acc, 1) + tl.load(x + i))[:, None]
best, where = tl.max(acc, 1, return_indices=True)
tl.store(at, acc * best[:, None])
tl.store(out + M * N + i, where.to(tl.float32)))",
     32 * 512 + 32},
    {"norms of rows that are no power of two", R"(M: tl.constexpr = 64
N: tl.constexpr = 320
$loop
tl.store(at, acc + tl.max(acc, 1)[:, None]))",
     64 * 320, 1, true},
    {"rows that all blocks want, thirteen boxes of them", R"(i = tl.arange(0, 104)
j = tl.arange(0, 256)
k = tl.arange(0, 32)
acc = tl.zeros((256, 104), tl.float32)
for step in range(0, n, 32):
    v = tl.load(a + i[:, None] * n + step + k[None, :])
    w = tl.load(b + j[:, None] * n + step + k[None, :])
    acc = tl.dot(w, tl.trans(v), acc)
tl.store(out + i[:, None] * 256 + j[None, :], tl.trans(acc)))",
     104 * 256, 1, true},
};

// As many products as blocks: each takes a share of K, of 32 at a time.
constexpr const char* kSharedLoop = R"(
share = tl.arange(0, S)
i = tl.arange(0, M)
j = tl.arange(0, N)
k = tl.arange(0, 32)
steps = tl.cdiv(n, 32 * S)
first = share * (steps * 32)
a_ptrs = a + i[None, :, None] * n + first[:, None, None] + k[None, None, :]
b_ptrs = b + (first[:, None, None] + k[None, :, None]) * N + j[None, None, :]
acc = tl.zeros((S, M, N), tl.float32)
for step in range(0, steps):
    inside = first[:, None] + step * 32 + k[None, :] < n
    v = tl.load(a_ptrs, mask=inside[:, None, :], other=0.0)
    w = tl.load(b_ptrs, mask=inside[:, :, None], other=0.0)
    acc = tl.dot(v, w, acc)
    a_ptrs += 32
    b_ptrs += 32 * N
at = out + i[:, None] * N + j[None, :]
)";

// `$shares` stands for kSharedLoop, and S is the number of blocks.
const ProductCase kShared[] = {
    {"rows of sums", "M: tl.constexpr = 64\nN: tl.constexpr = 64\n$shares\ntl.store(at, tl.sum(acc, 0) + 1)", 64 * 64},
    {"columns of sums", "M: tl.constexpr = 96\nN: tl.constexpr = 64\n$shares\ntl.store(at, tl.sum(acc, 0))", 96 * 64},
    {"columns that are no power of two",
     "M: tl.constexpr = 64\nN: tl.constexpr = 96\n$shares\ntl.store(at, tl.sum(acc, 0))", 64 * 96},
    {"the transposed product", R"(M: tl.constexpr = 32
N: tl.constexpr = 64
share = tl.arange(0, S)
i = tl.arange(0, M)
j = tl.arange(0, N)
k = tl.arange(0, 32)
acc = tl.zeros((S, N, M), tl.float32)
v = tl.load(a + i[None, :, None] * n + share[:, None, None] * 32 + k[None, None, :])
w = tl.load(b + (share[:, None, None] * 32 + k[None, :, None]) * N + j[None, None, :])
acc = tl.dot(tl.permute(w, (0, 2, 1)), tl.permute(v, (0, 2, 1)), acc)
tl.store(out + i[:, None] * N + j[None, :], tl.trans(tl.sum(acc, 0))))",
     32 * 64},
    {"a row of numbers that the products and their sum have", R"(M: tl.constexpr = 64
N: tl.constexpr = 32
share = tl.arange(0, S)
i = tl.arange(0, M)
j = tl.cumsum(tl.full([N], 1, tl.int32), 0) - 1
k = tl.arange(0, 32)
v = tl.load(a + i[None, :, None] * n + share[:, None, None] * 32 + k[None, None, :])
w = tl.load(b + (share[:, None, None] * 32 + k[None, :, None]) * N + j[None, None, :])
tl.store(out + i[:, None] * N + j[None, :], tl.sum(tl.dot(v, w), 0)))",
     64 * 32},
    {"shares with a promise", R"(M: tl.constexpr = 64
N: tl.constexpr = 32
share = tl.multiple_of(tl.arange(0, S), 2) ^ 5 ^ 5
i = tl.arange(0, M)
j = tl.arange(0, N)
k = tl.arange(0, 32)
v = tl.load(a + i[None, :, None] * n + share[:, None, None] * 32 + k[None, None, :])
w = tl.load(b + (share[:, None, None] * 32 + k[None, :, None]) * N + j[None, None, :])
tl.store(out + i[:, None] * N + j[None, :], tl.sum(tl.dot(v, w), 0)))",
     64 * 32},
    {"sums, extremes and places", R"(M: tl.constexpr = 64
N: tl.constexpr = 32
$shares
best, where = tl.max(acc, 0, return_indices=True)
tl.store(at, tl.sum(acc, 0))
tl.store(at + M * N, best)
tl.store(at + 2 * M * N, where.to(tl.float32)))",
     3 * 64 * 32},
    {"products of their own", R"(M: tl.constexpr = 64
N: tl.constexpr = 32
$shares
acc += share[:, None, None] * 2.0 + tl.max(acc, 2)[:, :, None]
tl.store(out + share[:, None, None] * (M * N) + i[None, :, None] * N + j[None, None, :], acc))",
     4 * 64 * 32},
    {"a persistent program", R"(M: tl.constexpr = 64
N: tl.constexpr = 32
for tile in tl.range(tl.program_id(0), 3, tl.num_programs(0)):
    share = tl.arange(0, S)
    i = tl.arange(0, M)
    j = tl.arange(0, N)
    k = tl.arange(0, 32)
    first = share * 64
    acc = tl.zeros((S, M, N), tl.float32)
    for step in range(0, 64, 32):
        at = first[:, None] + step + k[None, :]
        v = tl.load(a + (tile * M + i[None, :, None]) * n + at[:, None, :], mask=at[:, None, :] < n, other=0.0)
        w = tl.load(b + at[:, :, None] * N + j[None, None, :], mask=at[:, :, None] < n, other=0.0)
        acc = tl.dot(v, w, acc)
    tl.store(out + (tile * M + i[:, None]) * N + j[None, :], tl.sum(acc, 0)))",
     3 * 64 * 32},
};

std::string text_of(const ProductCase& c, int shares = 1) {
  std::string body = c.body;
  if (const size_t at = body.find("$loop\n"); at != body.npos) body.replace(at, 6, kLoop);
  if (const size_t at = body.find("$shares\n"); at != body.npos) body.replace(at, 8, kSharedLoop);
  if (shares > 1) body = fmt::format("S: tl.constexpr = {}\n{}", shares, body);
  return fmt::format("import triton\nimport triton.language as tl\n\n@triton.jit\ndef kernel(out, a, b, x, n):\n{}\n",
                     indented(body));
}

std::vector<float> results(const ProductCase& c, Device& on, const LaunchOptions& options, int shares = 1) {
  std::vector<float16> a, b;
  for (int v : small_values<int32_t>(640 * 96, 3, 2)) a.push_back(float16(float(v)));
  for (int v : small_values<int32_t>(256 * 256, 4, 2)) b.push_back(float16(float(v)));
  Buffer left(on, a), right(on, b), numbers(on, std::vector<int32_t>(64, 0)), out(on, size_t(c.outputs) * 4);
  out.fill(0);
  const std::string text = text_of(c, shares);
  const int n = c.programs == 3 ? 192 : shares > 1 ? 128 : 96;
  try {
    Program::parse(text, "kernel.py")
        .kernel("kernel")
        .launch(on, {unsigned(c.programs)}, options, out.as<float>(), left.as<float16>(), right.as<float16>(),
                numbers.as<int32_t>(), n);
  } catch (const Error& error) {
    ADD_FAILURE() << error.what() << "\n" << text;
  }
  return out.download<float>();
}

// Sums of small integers are exact, so that nothing depends on how tiles are divided.
TEST(ClusterProducts, DivideProducts) {
  if (!has_clusters(device())) GTEST_SKIP() << device().info().name << " runs no clusters of thread blocks";
  size_t i = 0;
  for (const ProductCase& c : kProducts) {
    const std::vector<float> expected = results(c, device(), {.num_warps = 4});
    const int num_warps = i % 2 ? 4 : 8, num_ctas = i % 3 ? 2 : 4;
    ++i;
    SCOPED_TRACE(fmt::format("{}: {} blocks of {} warps", c.name, num_ctas, num_warps));
    EXPECT_EQ(results(c, device(), {.num_warps = num_warps, .num_ctas = num_ctas}), expected);
  }
}

// Without bulk copies, without warps of their own, and with blocks and copies in any order.
TEST(ClusterProducts, DivideProductsInAnyForm) {
  for (const ProductCase& c : kProducts) {
    auto emulator = make_emulator({.seed = 1});
    const std::vector<float> expected = results(c, *emulator, {.num_warps = 4});
    for (const LaunchOptions& options :
         {LaunchOptions{.num_warps = 4, .num_ctas = 2}, LaunchOptions{.num_warps = 4, .bulk_copies = 1, .num_ctas = 2},
          LaunchOptions{.num_warps = 4, .warp_specialize = 1, .num_ctas = 2}}) {
      SCOPED_TRACE(
          fmt::format("{}: bulk_copies {}, warp_specialize {}", c.name, options.bulk_copies, options.warp_specialize));
      EXPECT_EQ(results(c, *emulator, options), expected);
    }
  }
}

TEST(ClusterProducts, AddUpSharesOfProducts) {
  if (!has_clusters(device())) GTEST_SKIP() << device().info().name << " runs no clusters of thread blocks";
  for (const ProductCase& c : kShared)
    for (int shares : {2, 4}) {
      SCOPED_TRACE(fmt::format("{}: {} blocks", c.name, shares));
      const std::vector<float> expected = results(c, device(), {.num_warps = 4}, shares);
      EXPECT_EQ(results(c, device(), {.num_warps = shares == 2 ? 8 : 4, .num_ctas = shares}, shares), expected);
    }
}

TEST(ClusterProducts, AddUpSharesInAnyOrder) {
  for (const ProductCase& c : kShared)
    for (uint64_t seed : {1, 2}) {
      SCOPED_TRACE(fmt::format("{}: seed {}", c.name, seed));
      auto emulator = make_emulator({.seed = seed, .check_races = true});
      const std::vector<float> expected = results(c, *emulator, {.num_warps = 4}, 4);
      EXPECT_EQ(results(c, *emulator, {.num_warps = 4, .num_ctas = 4}, 4), expected);
    }
}

// Types of the arguments of the kernels here.
std::vector<ArgType> argument_types() {
  auto pointer = [](Elem elem) { return ArgType{.elem = elem, .pointer = true, .divisible_by = 16}; };
  return {pointer(Elem::F32),
          pointer(Elem::F16),
          pointer(Elem::F16),
          pointer(Elem::I32),
          {.elem = Elem::I32, .divisible_by = 16}};
}

// Each block multiplies on its tensor cores, and reads its part of the sums from all blocks.
TEST(ClusterProducts, SharesComeFromOtherBlocks) {
  using kernel_texts::count;
  const std::string ptx = Program::parse(text_of(kShared[0], 4), "kernel.py")
                              .kernel("kernel")
                              .compile(argument_types(), {.num_ctas = 4}, "sm_90a")
                              .ptx;
  EXPECT_GT(count(ptx, R"(wgmma\.mma_async\.sync\.aligned\.m64n64k16)"), 0);
  EXPECT_GT(count(ptx, R"(cp\.async\.bulk\.tensor)"), 0);
  EXPECT_EQ(count(ptx, R"(multicast::cluster)"), 0);
  EXPECT_EQ(count(ptx, R"(ld\.shared::cluster\.v4\.b32)"), 64 * 64 / 128 / 4);
}

TEST(ClusterProducts, BringSharedOperandsToAllBlocks) {
  using kernel_texts::count;
  for (const ProductCase& c : kProducts) {
    SCOPED_TRACE(c.name);
    const std::string ptx = Program::parse(text_of(c), "kernel.py")
                                .kernel("kernel")
                                .compile(argument_types(), {.num_ctas = 2}, "sm_90a")
                                .ptx;
    EXPECT_EQ(count(ptx, R"(multicast::cluster)") > 0, c.multicast);
    EXPECT_EQ(count(ptx, R"(mbarrier\.arrive\.shared::cluster)") > 0, c.multicast);
  }
}

}  // namespace
}  // namespace tegula::ops
