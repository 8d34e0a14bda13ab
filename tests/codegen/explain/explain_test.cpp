// label: device
// heavy: Explain.TakesPartsOfManyProgramsForAll Explain.CountsWhatTheCacheKeepsOfProducts
// heavy: Explain.TakesTheTimeOfLoopsThatDataEnds Explain.RegistersAreThoseOfPartitions
// What a launch touches as the trace of its index arithmetic tells it, beside what the emulator writes, and beside
// counts made by hand.
#include "dsl/explain.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/exec/emulator.h"
#include "codegen/explain/byte_runs.h"
#include "codegen/explain/traffic.h"
#include "dsl/tegula.h"
#include "runtime/sealing.h"

namespace tegula {
namespace {

Kernel kernel_of(const std::string& body, const std::string& signature) {
  return Program::parse(
             "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef kernel(" + signature + "):\n" + body,
             "kernel.py")
      .kernel("kernel");
}

std::unique_ptr<Device> emulator() { return make_emulator({.target = "sm_90a"}); }

// ------------------------------------------------------------------------------------------------------ Addresses

struct Marks {
  const char* name;
  const char* body;
};
// For ctest, which names tests by their parameters, too.
void PrintTo(const Marks& marks, std::ostream* out) { *out << marks.name; }

constexpr int64_t kBytes = 1 << 16;

// Every kernel stores 1 to bytes of x, so that the emulator's result is the set of bytes that it touched.
const Marks kMarks[] = {
    {"Row", "    i = tl.program_id(0) * 100 + tl.arange(0, 128)\n    tl.store(x + i, 1, mask=i < n)\n"},
    {"Matrix",
     "    r = tl.program_id(0) * 8 + tl.arange(0, 8)\n    c = tl.arange(0, 64)\n"
     "    tl.store(x + r[:, None] * 200 + c[None, :], 1, mask=(r[:, None] < 19) & (c[None, :] < 41))\n"},
    {"Backwards",
     "    c = 63 - tl.arange(0, 64)\n    tl.store(x + tl.program_id(0) * 80 + c, 1, mask=c >= tl.program_id(0) * 5)\n"},
    {"Transposed",
     "    r = tl.arange(0, 16)\n    c = tl.arange(0, 32)\n    p = tl.trans(r[:, None] * 300 + c[None, :])\n"
     "    tl.store(x + p + tl.program_id(0) * 32, 1, mask=tl.trans((r[:, None] > 2) & (c[None, :] % 5 != 3)))\n"},
    {"Modulo", "    i = (tl.program_id(0) * 48 + tl.arange(0, 64)) % 150\n    tl.store(x + i * 3, 1)\n"},
    {"Divided",
     "    i = tl.program_id(0) * 64 + tl.arange(0, 64)\n    tl.store(x + i // 24 * 512 + i % 24, 1, mask=i < n)\n"},
    {"Swizzled",
     "    i = tl.arange(0, 256)\n    tl.store(x + ((i ^ (i >> 3)) + tl.program_id(0) * 256), 1, mask=i & 2 == 0)\n"},
    {"Loop",
     "    p = x + tl.program_id(0) * 4096\n    for k in range(0, n, 64):\n        i = k + tl.arange(0, 64)\n"
     "        tl.store(p + tl.arange(0, 64), 1, mask=i < n)\n        p += 100\n"},
    {"Branch",
     "    i = tl.arange(0, 32)\n    if tl.program_id(0) % 2 == 1:\n        tl.store(x + i, 1)\n    else:\n"
     "        tl.store(x + 1000 + tl.program_id(0) * 7 + i, 1, mask=i >= 9)\n"},
    {"While", "    k = tl.program_id(0)\n    while k < n:\n        tl.store(x + k * 2, 1)\n        k += 37\n"},
    {"Reshaped",
     "    i = tl.reshape(tl.arange(0, 64), (8, 8))\n    tl.store(x + i * 2 + tl.program_id(0), 1, mask=tl.trans(i) < "
     "40)\n"},
    {"Data",
     "    i = tl.arange(0, 32)\n    at = tl.load(index + i + tl.program_id(0) * 32)\n    tl.store(x + at, 1, mask=at "
     "!= 9)\n"},
    {"Ticket",
     "    t = tl.atomic_add(index, 3)\n    if t == index_of_last:\n        tl.store(x + 77, 1)\n    else:\n"
     "        tl.store(x + 500 + t, 1)\n"},
    {"Reduced",
     "    i = tl.arange(0, 32)\n    at = tl.load(index + i)\n    near = tl.sum((at < 400 + tl.program_id(0) * "
     "50).to(tl.int32), 0)\n"
     "    tl.store(x + near * 100 + i, 1, mask=i < tl.min(at + 3, 0))\n"},
    {"Scanned",
     "    i = tl.arange(0, 16)\n    at = tl.cumsum(tl.load(index + tl.program_id(0) * 16 + i) % 50, 0)\n"
     "    tl.store(x + at, 1, mask=tl.cumsum(i, 0, reverse=True) > 60)\n"},
    {"Cut",
     "    i = tl.program_id(0).to(tl.int8) * 100 + tl.arange(0, 16).to(tl.int8)\n    tl.store(x + 300 + i, 1)\n"},
};

class Addresses : public testing::TestWithParam<Marks> {};

TEST_P(Addresses, AreThoseThatTheEmulatorWrites) {
  constexpr int kPrograms = 5;
  const Kernel kernel = kernel_of(GetParam().body, "x, index, n, index_of_last");
  const auto device = emulator();
  std::vector<int32_t> index(256);
  for (size_t i = 0; i < index.size(); ++i) index[i] = GetParam().name == std::string("Ticket") ? 0 : int(i * 53 % 997);
  const Buffer x(*device, std::vector<uint8_t>(kBytes, 0)), at(*device, index);
  const std::vector<Arg> args = {x.as<uint8_t>(), at.as<int32_t>(), 211, 12};
  const auto func = kernel.tile_func(kernel.classify(args, {}), {});
  explaining::LaunchFacts facts{.grid = {kPrograms, 1, 1}, .arguments = {}};
  const std::vector<ArgType> types = kernel.classify(args, {});
  for (size_t i = 0; i < args.size(); ++i)
    if (!types[i].constant) facts.arguments.push_back(args[i].i);
  facts.read = [&](uint64_t from, void* to, size_t bytes) {
    device->copy_to_host(to, from, bytes);
    return true;
  };
  std::vector<uint8_t> told(kBytes, 0);
  explaining::AccessTrace trace(*func, facts);
  for (int p = 0; p < kPrograms; ++p)
    trace.run({p, 0, 0}, [&](const explaining::Access& access) {
      if (access.op->opcode != ir::Opcode::Store) return;
      int64_t useful = 0;
      for (const auto& [begin, end] : explaining::byte_runs(access, useful))
        for (int64_t a = begin; a < end; ++a) told.at(size_t(a - int64_t(x.address()))) = 1;
    });
  EXPECT_TRUE(trace.assumptions().empty());
  kernel.launch(*device, detail::GridRef(Grid{kPrograms}), {}, std::span<const Arg>(args));
  EXPECT_EQ(told, x.download<uint8_t>());
}

INSTANTIATE_TEST_SUITE_P(Explain, Addresses, testing::ValuesIn(kMarks),
                         [](const auto& info) { return std::string(info.param.name); });

// -------------------------------------------------------------------------------------------------------- Traffic

Arg array(int number, Elem elem) { return Arg::pointer(uint64_t(number) << 40, elem); }

Explanation explain_softmax(int cols, int64_t stride, int rows = 100) {
  const Kernel kernel = Program::load(TEGULA_SOURCE_DIR "/tests/kernels/rows.py").kernel("softmax");
  const std::vector<Arg> args = {array(1, Elem::BF16), array(2, Elem::BF16), stride, stride, cols};
  return explain(kernel, Grid{unsigned(rows)}, {.constexprs = {{"BLOCK", 1024}}}, args);
}

TEST(Explain, CountsSectorsOfRows) {
  const Explanation even = explain_softmax(1024, 1024);
  EXPECT_EQ(even.from_memory, 100 * 2048);
  EXPECT_EQ(even.to_memory, 100 * 2048);
  EXPECT_EQ(even.read, 100 * 2048);
  EXPECT_EQ(even.useful_read, 100 * 2048);
  // Rows of 1002 bytes side by side: each begins and ends within a sector of 32 bytes, which its neighbour asks for
  // too.
  const Explanation odd = explain_softmax(501, 501);
  EXPECT_EQ(odd.useful_read, 100 * 1002);
  EXPECT_EQ(odd.from_memory, (100 * 1002 + 31) / 32 * 32);
  int64_t sectors = 0;
  for (int row = 0; row < 100; ++row) sectors += (row * 1002 + 1002 + 31) / 32 - row * 1002 / 32;
  EXPECT_EQ(odd.read, 32 * sectors);
  EXPECT_EQ(odd.accesses[0].bytes, 2);
  EXPECT_EQ(odd.accesses[0].limit,
            "addresses are known to be multiples of 2 bytes only: strides that are multiples of 8 and aligned pointers "
            "make accesses of 16 bytes");
  EXPECT_EQ(explain_softmax(1000, 1000).accesses[0].bytes, 16);
  EXPECT_EQ(explain_softmax(996, 1000).accesses[0].limit,
            "the mask may end behind every 4 elements: an extent that is a multiple of 8 makes accesses of 16 bytes");
}

TEST(Explain, KnowsThatProgramsOfAMultiprocessorShareItsL1) {
  const Kernel kernel = kernel_of(
      "    i = tl.arange(0, 1024)\n    row = tl.program_id(0) * 1024\n"
      "    tl.store(out + row + i, tl.load(x + row + i) * tl.load(weight + i))\n",
      "out, x, weight");
  const std::vector<Arg> args = {array(1, Elem::F32), array(2, Elem::F32), array(3, Elem::F32)};
  const Explanation e = explain(kernel, Grid{20'000}, {}, args);
  EXPECT_EQ(e.from_memory, 20'000 * 4096 + 4096);
  EXPECT_EQ(e.read, 20'000 * 4096 + 132 * 4096);  // the weights once for each of 132 multiprocessors
}

TEST(Explain, RegistersAreThoseOfPartitions) {
  const Kernel kernel = Program::load(TEGULA_SOURCE_DIR "/tests/kernels/rows.py").kernel("softmax");
  const std::vector<Arg> args = {array(1, Elem::F32), array(2, Elem::F32), 4096, 4096, 4096};
  for (int most : {40, 48, 80, 96, 168}) {
    const Explanation e =
        explain(kernel, Grid{10'000}, {.constexprs = {{"BLOCK", 4096}}, .num_warps = 2, .maxnreg = most}, args);
    const int of_warp = (e.registers * 32 + 255) / 256 * 256;
    EXPECT_EQ(e.programs_per_sm, std::min(32, 4 * (16384 / of_warp) / 2)) << e.registers << " registers";
  }
}

TEST(Explain, AtomicOperationsTakeTime) {
  const std::string body = "    i = tl.program_id(0) * 1024 + tl.arange(0, 1024)\n";
  const std::vector<Arg> args = {array(1, Elem::F32), array(2, Elem::F32)};
  const Explanation added =
      explain(kernel_of(body + "    tl.atomic_add(out + i, tl.load(x + i))\n", "out, x"), Grid{20'000}, {}, args);
  const Explanation stored =
      explain(kernel_of(body + "    tl.store(out + i, tl.load(x + i))\n", "out, x"), Grid{20'000}, {}, args);
  EXPECT_GT(added.predicted_us, 3 * stored.predicted_us);
  EXPECT_NE(added.bound_text.find("atomic operations on 20.5 M elements"), std::string::npos) << added.bound_text;
}

TEST(Explain, TakesPartsOfManyProgramsForAll) {
  const Explanation e = explain_softmax(1024, 1024, 400'000);
  EXPECT_LT(e.counted_programs, e.programs);
  EXPECT_NEAR(double(e.from_memory), 4e5 * 2048, 4e5 * 2048 * 1e-3);
  EXPECT_NEAR(double(e.to_memory), 4e5 * 2048, 4e5 * 2048 * 1e-3);
}

TEST(Explain, CountsWhatTheCacheKeepsOfProducts) {
  const Kernel kernel = Program::load(TEGULA_SOURCE_DIR "/tests/kernels/matmul.py").kernel("matmul");
  const auto product = [&](int n) {
    const std::vector<Arg> args = {
        array(1, Elem::F16), array(2, Elem::F16), array(3, Elem::F16), n, n, n, n, 1, n, 1, n, 1};
    const unsigned blocks = unsigned(n) / 128 * (unsigned(n) / 128);
    return explain(
        kernel, Grid{blocks},
        {.constexprs =
             {{"BLOCK_M", 128}, {"BLOCK_N", 128}, {"BLOCK_K", 64}, {"GROUP_M", 8}, {"OUT", Constexpr(Elem::F16)}}},
        args);
  };
  const Explanation small = product(1024);
  EXPECT_EQ(small.from_memory, 2 * 1024 * 1024 * 2);
  EXPECT_EQ(small.read, 64 * 2 * 128 * 1024 * 2);  // each program its rows of A and its columns of B
  EXPECT_EQ(small.to_memory, 1024 * 1024 * 2);
  ASSERT_EQ(small.units.size(), 1u);
  EXPECT_EQ(small.units[0].name, "tensor cores, wgmma.f16");
  EXPECT_EQ(small.units[0].operations, 2.0 * 1024 * 1024 * 1024);
  ASSERT_EQ(small.loops.size(), 1u);
  EXPECT_GT(small.loops[0].stages, 1);
  const Explanation large = product(4096);  // both matrices together do not fit the L2 cache
  EXPECT_GT(large.from_memory, 2 * 4096 * 4096 * 2 * 5 / 4);
}

// Runs of 8192 elements over rows of 100000: each program has weights of its own, which overlap with those of all
// others.
TEST(Explain, KeepsWhatProgramsDivideDifferently) {
  const Kernel kernel = kernel_of(
      "    i = tl.program_id(0).to(tl.int64) * 8192 + tl.arange(0, 8192)\n"
      "    tl.store(out + i, tl.load(x + i) * tl.load(weight + i % 100000))\n",
      "out, x, weight");
  const std::vector<Arg> args = {array(1, Elem::F32), array(2, Elem::F32), array(3, Elem::F32)};
  constexpr int64_t kPrograms = 8000, kRead = kPrograms * 8192 * 4;
  const Explanation e = explain(kernel, Grid{unsigned(kPrograms)}, {}, args);
  EXPECT_GT(e.read, kRead + kRead / 2);
  EXPECT_NEAR(double(e.from_memory), double(kRead + 100000 * 4), double(kRead) * 0.01);
}

TEST(Explain, ReadsDataThatAddressesFollowFrom) {
  const Kernel kernel = kernel_of(
      "    i = tl.arange(0, 64)\n    row = tl.load(index + tl.program_id(0))\n"
      "    tl.store(out + tl.program_id(0) * 64 + i, tl.load(table + row * 64 + i))\n",
      "out, table, index");
  const auto device = emulator();
  const Buffer table(*device, 1000 * 256), out(*device, 4 * 256), index(*device, std::vector<int32_t>{5, 900, 5, 5});
  const std::vector<Arg> args = {out.as<float>(), table.as<float>(), index.as<int32_t>()};
  const Explanation known = explain(kernel, Grid{4}, {}, args, {.device = device.get()});
  EXPECT_TRUE(known.assumptions.empty());
  EXPECT_EQ(known.from_memory, 2 * 256 + 32);  // two different rows
  const Explanation blind = explain(kernel, Grid{4}, {}, args);
  ASSERT_EQ(blind.assumptions.size(), 1u);
  EXPECT_EQ(blind.assumptions[0], "kernel.py:8:11: no data is given for what is loaded here: taken to be 0");
}

// Rows of 4000 bytes, gathered in no order from 20 MB: the halves of the L2 cache both keep what all multiprocessors
// read, and the results go through it as well, so that some rows come from memory more than once.
TEST(Explain, GathersRowsOfATableAgain) {
  const Kernel kernel = kernel_of(
      "    i = tl.arange(0, 1024)\n    row = tl.load(index + tl.program_id(0))\n"
      "    x = tl.load(table + row * 1000 + i, mask=i < 1000)\n    tl.store(out + tl.program_id(0) * 1000 + i, x, "
      "mask=i < 1000)\n",
      "out, table, index");
  constexpr int kPrograms = 30'000, kRows = 5'000;
  std::vector<int32_t> rows(kPrograms);
  uint32_t random = 1;
  for (int32_t& row : rows) row = int32_t(((random = random * 1664525 + 1013904223) >> 8) % kRows);
  const auto device = emulator();
  const Buffer index(*device, rows);
  const std::vector<Arg> args = {array(1, Elem::F32), array(2, Elem::F32), index.as<int32_t>()};
  const Explanation e = explain(kernel, Grid{kPrograms}, {}, args, {.device = device.get()});
  EXPECT_GT(e.from_memory, kRows * 4000 * 3 / 2);
  EXPECT_LT(e.from_memory, kRows * 4000 * 4);
}

// What programs that were followed did is taken for the time of loops and branches that data decides.
TEST(Explain, TakesTheTimeOfLoopsThatDataEnds) {
  const Kernel kernel = kernel_of(
      "    i = tl.arange(0, 128)\n    n = tl.load(counts + tl.program_id(0))\n    total = tl.zeros([128], tl.float32)\n"
      "    if n > 50:\n        for k in range(0, n):\n            total += tl.exp(tl.load(x + k * 128 + i))\n"
      "    tl.store(out + tl.program_id(0) * 128 + i, total)\n",
      "out, x, counts");
  const auto device = emulator();
  const auto waits = [&](int32_t trips) {
    const Buffer counts(*device, std::vector<int32_t>(1000, trips));
    const std::vector<Arg> args = {array(1, Elem::F32), array(2, Elem::F32), counts.as<int32_t>()};
    return explain(kernel, Grid{1000}, {}, args, {.device = device.get()}).latency_us;
  };
  const double untaken = waits(50), few = waits(51), many = waits(5100);
  EXPECT_GT(few, 5 * untaken);
  EXPECT_NEAR(many / few, 100, 20);
}

// --------------------------------------------------------------------------------------------------------- Fusion

const char* kScale = "    i = tl.program_id(0) * 1024 + tl.arange(0, 1024)\n    tl.store(y + i, tl.load(x + i) * 2)\n";

Explanation scale(int from, int to) {
  return explain(kernel_of(kScale, "x, y"), Grid{4096}, {},
                 std::vector<Arg>{array(from, Elem::F32), array(to, Elem::F32)});
}

TEST(Explain, AdvisesToFuseWhatSavesTraffic) {
  const Explanation kernels[] = {scale(1, 2), scale(2, 3), scale(3, 4)};
  const FusionAdvice advice = advise_fusion(kernels);
  EXPECT_TRUE(advice.fuse) << advice.text();
  EXPECT_EQ(advice.separate_bytes, 6 * 4096 * 4096);
  EXPECT_EQ(advice.fused_bytes, 2 * 4096 * 4096);
  const uint64_t kept[] = {uint64_t(2) << 40, uint64_t(3) << 40};
  EXPECT_EQ(advise_fusion(kernels, kept).fused_bytes, 4 * 4096 * 4096);
}

TEST(Explain, AdvisesAgainstWhatDoesNot) {
  const Explanation apart[] = {scale(1, 2), scale(3, 4)};
  const FusionAdvice nothing = advise_fusion(apart);
  EXPECT_FALSE(nothing.fuse);
  EXPECT_NE(nothing.verdict.find("rule 5 (traffic ratio at least 1.5?)"), std::string::npos) << nothing.verdict;

  // Rows are summed by the first kernel, columns by the second one, of what the first one wrote.
  const Kernel rows = kernel_of(
      "    c = tl.arange(0, 64)\n    r = tl.program_id(0)\n    v = tl.load(x + r * 64 + c)\n"
      "    tl.store(y + r * 64 + c, v - tl.sum(v, 0))\n",
      "x, y");
  const Kernel columns = kernel_of(
      "    r = tl.arange(0, 64)\n    c = tl.program_id(0)\n    v = tl.load(x + r * 64 + c)\n"
      "    tl.store(y + r * 64 + c, v - tl.sum(v, 0))\n",
      "x, y");
  const Explanation crossed[] = {
      explain(rows, Grid{64}, {}, std::vector<Arg>{array(1, Elem::F32), array(2, Elem::F32)}),
      explain(columns, Grid{64}, {}, std::vector<Arg>{array(2, Elem::F32), array(3, Elem::F32)})};
  const FusionAdvice axes = advise_fusion(crossed);
  EXPECT_FALSE(axes.fuse);
  EXPECT_FALSE(axes.rules[2].speaks_for_fusion);
  EXPECT_EQ(
      axes.rules[2].figures,
      "a program of kernel reads results of 64 programs of kernel, whose programs serve 64: they divide the array "
      "in different ways");
}

[[noreturn]] void explain_when_sealed() {
  Device& device = *default_device();
  const Kernel kernel = kernel_of(kScale, "x, y");
  const std::vector<Arg> args{Arg::pointer(device.allocate(1 << 20), Elem::F32),
                              Arg::pointer(device.allocate(1 << 20), Elem::F32)};
  kernel.prepare(device, kernel.classify(args, {}), {});
  seal();
  std::exit(explain(kernel, Grid{16}, {}, args, {.device = &device}).registers_estimated ? 1 : 0);
}

// On a GPU the code is explained that launches run: it is there, whatever a sealed process may not do.
TEST(Explain, OfWhatIsReadyCompilesNothing) {
  if (default_device()->info().emulator) GTEST_SKIP() << "no GPU: what is explained is of another device";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(explain_when_sealed(), testing::ExitedWithCode(0), "");
}

TEST(Explain, RefusesUnknownTargets) {
  const Kernel kernel = kernel_of(kScale, "x, y");
  try {
    explain(kernel, Grid{1}, {}, std::vector<Arg>{array(1, Elem::F32), array(2, Elem::F32)}, {.target = "sm_7"});
    FAIL() << "no error";
  } catch (const LaunchError& e) {
    EXPECT_STREQ(e.what(), "unknown target 'sm_7'\n  hint: Tegula knows sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_120a");
  }
}

}  // namespace
}  // namespace tegula
