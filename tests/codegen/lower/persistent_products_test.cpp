// label: device
// Products of persistent programs, which go on from tile to tile: copies of the next round begin before a round is
// over.
#include <string>

#include "codegen/compile.h"
#include "codegen/target/target.h"
#include "tests/codegen/lower/dot_support.h"
#include "tests/devices.h"

namespace tegula {
namespace {

constexpr char kRounds[] = R"(
import triton
import triton.language as tl


@triton.jit
def rounds(a_ptr, b_ptr, c_ptr, places_ptr, count_ptr, TILES, K):
    rows = tl.arange(0, 64)
    depth = tl.arange(0, 32)
    count = tl.program_id(0)
    for t in tl.range(tl.program_id(0), TILES, tl.num_programs(0)):
        acc = tl.zeros((64, 64), tl.float32)
        for k in range(0, K, 32):
            a = tl.load(a_ptr + (t * 64 + rows)[:, None] * K + (k + depth)[None, :])
            b = tl.load(b_ptr + (k + depth)[:, None] * 64 + rows[None, :])
            acc = tl.dot(a, b, acc)
        place = tl.load(places_ptr + t)
        count += t + 1
        tl.store(c_ptr + (place * 64 + rows)[:, None] * 64 + rows[None, :], acc)
    tl.store(count_ptr + tl.program_id(0), count)
)";

// Five tiles by two programs, of which each number of iterations has its turn: none, fewer than copies run ahead, more.
// `launch(device, num_stages, arguments...)` runs the kernel of kRounds.
template <class F>
void check_rounds(const F& launch) {
  const int32_t tiles = 5;
  const std::vector<int32_t> places{3, 0, 4, 1, 2};
  for (int32_t k : {0, 32, 64, 96, 224}) {
    const auto a = random_values<float16>(size_t(tiles) * 64 * k, 1), b = random_values<float16>(size_t(k) * 64, 2);
    std::vector<double> exact(size_t(tiles) * 64 * 64);
    for (int t = 0; t < tiles; ++t)
      for (int i = 0; i < 64; ++i)
        for (int l = 0; l < k; ++l)
          for (int j = 0; j < 64; ++j)
            exact[size_t((places[size_t(t)] * 64 + i) * 64 + j)] +=
                double(float(a[size_t((t * 64 + i) * k + l)])) * double(float(b[size_t(l * 64 + j)]));
    for (auto& device : tensor_core_devices())
      for (int num_stages : {1, 2, 3, 5}) {
        SCOPED_TRACE(fmt::format("{}, K = {}, {} stages", device->info().name, k, num_stages));
        Buffer da(*device, a), db(*device, b), dp(*device, places);
        Buffer dc(*device, std::vector<float>(exact.size(), 7.f)), dn(*device, std::vector<int32_t>(2));
        launch(*device, num_stages, da, db, dc, dp, dn, tiles, k);
        const auto c = dc.download<float>();
        if (k == 0) {
          EXPECT_EQ(c, std::vector<float>(exact.size()));
        } else {
          EXPECT_LE(relative_error(c, exact), 1e-6);
        }
        EXPECT_EQ(dn.download<int32_t>(), (std::vector<int32_t>{0 + 1 + 3 + 5, 1 + 2 + 4}));
      }
  }
}

// What a persistent program's rounds load and count stays theirs, though copies of the next round begin early.
TEST(Matmul, RoundsOfAPersistentProgram) {
  const Kernel kernel = Program::parse(kRounds, "rounds.py").kernel("rounds");
  check_rounds([&](Device& device, int num_stages, Buffer& a, Buffer& b, Buffer& c, Buffer& places, Buffer& counts,
                   int32_t tiles, int32_t k) {
    kernel.launch(device, {2}, {.num_stages = num_stages}, a.as<float16>(), b.as<float16>(), c.as<float>(),
                  places.as<int32_t>(), counts.as<int32_t>(), tiles, k);
  });
}

// The same with copies that are over when barriers say so.
// Where the inner loop's begin is not known beforehand, each round has barriers of its own.
class MatmulBarriers : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Begin, MatmulBarriers, testing::Values("0", "tl.program_id(1)"));

TEST_P(MatmulBarriers, CopiesCompleteOnBarriers) {
  std::string text = kRounds;
  text.replace(text.find("range(0, K"), 7, fmt::format("range({}", GetParam()));
  const Kernel kernel = Program::parse(text, "rounds.py").kernel("rounds");
  std::vector<ArgType> types(5, {.elem = Elem::F16, .pointer = true, .divisible_by = 16});
  types[2].elem = Elem::F32, types[3].elem = types[4].elem = Elem::I32;
  types.insert(types.end(), 2, {.elem = Elem::I32});
  types[6].divisible_by = 16;
  check_rounds([&](Device& device, int num_stages, Buffer& a, Buffer& b, Buffer& c, Buffer& places, Buffer& counts,
                   int32_t tiles, int32_t k) {
    CompileOptions options;
    options.target = target_for_sm(device.info().sm);
    options.emulator = device.info().emulator;
    options.completion = ir::Completion::Barrier;
    Diagnostics diags;
    auto image = compile(*kernel.tile_func(types, {.num_stages = num_stages, .bulk_copies = 1}), options, diags);
    ASSERT_TRUE(image) << diags.render();
    if (!image->ptx.empty() && num_stages > 1) {
      EXPECT_NE(image->ptx.find("cp.async.mbarrier.arrive"), std::string::npos);
      EXPECT_EQ(image->ptx.find("cp.async.wait_group"), std::string::npos);
    }
    uint64_t addresses[] = {a.address(), b.address(), c.address(), places.address(), counts.address()};
    void* args[] = {&addresses[0], &addresses[1], &addresses[2], &addresses[3], &addresses[4], &tiles, &k};
    device.load(std::move(*image))->launch({2}, args, {});
    device.synchronize();
  });
}

// Steps so large that iterations ahead are beyond what their type holds, and addresses that share what they follow from
// many times over; a loop over tiles that says num_stages=1 keeps its loads behind the stores of the tile before.
TEST(Matmul, RoundsThatAreNotJoined) {
  const std::string text = R"(
import triton
import triton.language as tl


@triton.jit
def rounds(a_ptr, b_ptr, c_ptr, TILES, K, ONE):
    rows = tl.arange(0, 16)
    for t in tl.ROUNDS:
        r = rows
SHARED        acc = tl.zeros((16, 16), tl.float32)
        for n in tl.range(0, K, STEP):
            k = n // STEP * 16
            a = tl.load(a_ptr + (t * 16 + r)[:, None] * 16 + (k + rows)[None, :])
            b = tl.load(b_ptr + (k + rows)[:, None] * 16 + rows[None, :])
            acc = tl.dot(a, b, acc)
        tl.store(c_ptr + (t * 16 + rows)[:, None] * 16 + rows[None, :], acc)
)";
  auto kernel_with = [&](const std::string& shared, const std::string& step, const std::string& rounds) {
    std::string out = text;
    out.replace(out.find("ROUNDS"), 6, rounds);
    out.replace(out.find("SHARED"), 6, shared);
    for (size_t at; (at = out.find("STEP")) != out.npos;) out.replace(at, 4, step);
    return Program::parse(out, "rounds.py").kernel("rounds");
  };
  std::string shared;
  for (int i = 0; i < 64; ++i) shared += "        r = (r * ONE) ^ (r & 0)\n";
  const Kernel large = kernel_with("", "1073741824", "range(0, TILES)");
  const Kernel many = kernel_with(shared, "16", "range(0, TILES)");
  const Kernel apart = kernel_with("", "16", "range(0, TILES, num_stages=1)");
  const Kernel joined = kernel_with("", "16", "range(0, TILES)");
  const int32_t tiles = 3, k = 2, one = 1;
  const auto a = random_values<float16>(size_t(tiles) * 256, 1), b = random_values<float16>(256, 2);
  std::vector<double> exact(size_t(tiles) * 256);
  for (int i = 0; i < tiles * 16; ++i)
    for (int l = 0; l < 16; ++l)
      for (int j = 0; j < 16; ++j)
        exact[size_t(i * 16 + j)] += double(float(a[size_t(i * 16 + l)])) * double(float(b[size_t(l * 16 + j)]));
  for (auto& device : tensor_core_devices())
    for (const Kernel* kernel : {&large, &many, &apart, &joined}) {
      Buffer da(*device, a), db(*device, b), dc(*device, std::vector<float>(exact.size()));
      kernel->launch(*device, {1}, {.num_warps = 1, .num_stages = 3}, da.as<float16>(), db.as<float16>(),
                     dc.as<float>(), tiles, k, one);
      EXPECT_LE(relative_error(dc.download<float>(), exact), 1e-6);
    }
  // Joined rounds wait for all copies once, behind the last store.
  std::vector<ArgType> types(3, {.elem = Elem::F16, .pointer = true, .divisible_by = 16});
  types[2].elem = Elem::F32;
  types.insert(types.end(), 3, {.elem = Elem::I32});
  auto waits_at_the_end = [&](const Kernel& kernel) {
    const std::string ptx = kernel.compile(types, {.num_warps = 1, .num_stages = 3}, "sm_80").ptx;
    return ptx.find("cp.async.wait_group 0") > ptx.rfind("st.global");
  };
  EXPECT_TRUE(waits_at_the_end(joined));
  EXPECT_FALSE(waits_at_the_end(apart));
}

// Copies from round to round keep their slots during the epilogue: with many stages there is no room for what that
// exchanges through shared memory, and each round begins its own copies.
TEST(Matmul, RoundsWhoseEpilogueExchangesThroughSharedMemory) {
  const Kernel kernel = Program::parse(R"(
import triton
import triton.language as tl


@triton.jit
def rounds(a_ptr, b_ptr, c_ptr, K, TILES):
    rows = tl.arange(0, 128)
    depth = tl.arange(0, 64)
    for t in tl.range(tl.program_id(0), TILES, tl.num_programs(0)):
        acc = tl.zeros((128, 128), tl.float32)
        for k in range(0, K, 64):
            a = tl.load(a_ptr + (t * 128 + rows)[:, None] * K + (k + depth)[None, :])
            b = tl.load(b_ptr + (k + depth)[:, None] * 128 + rows[None, :])
            acc = tl.dot(a, b, acc)
        flat = tl.reshape(acc, (64, 256))
        tl.store(c_ptr + t * 16384 + tl.arange(0, 64)[:, None] * 256 + tl.arange(0, 256)[None, :], flat + tl.sum(acc))
)",
                                       "rounds.py")
                            .kernel("rounds");
  const int tiles = 3, k = 192;
  const auto a = random_values<float16>(size_t(tiles) * 128 * k, 1), b = random_values<float16>(size_t(k) * 128, 2);
  std::vector<double> exact(size_t(tiles) * 128 * 128);
  for (int t = 0; t < tiles; ++t) {
    double* tile = &exact[size_t(t) * 128 * 128];
    double sum = 0;
    for (int i = 0; i < 128; ++i)
      for (int l = 0; l < k; ++l)
        for (int j = 0; j < 128; ++j)
          tile[i * 128 + j] += double(float(a[size_t((t * 128 + i) * k + l)])) * double(float(b[size_t(l * 128 + j)]));
    for (int i = 0; i < 128 * 128; ++i) sum += tile[i];
    for (int i = 0; i < 128 * 128; ++i) tile[i] += sum;
  }
  for (auto& device : tensor_core_devices())
    for (int num_stages : {3, 6}) {
      SCOPED_TRACE(fmt::format("{}, {} stages", device->info().name, num_stages));
      Buffer da(*device, a), db(*device, b), dc(*device, std::vector<float>(exact.size()));
      kernel.launch(*device, {2}, {.num_stages = num_stages}, da.as<float16>(), db.as<float16>(), dc.as<float>(), k,
                    tiles);
      EXPECT_LE(relative_error(dc.download<float>(), exact), 1e-5);
    }
}

}  // namespace
}  // namespace tegula
