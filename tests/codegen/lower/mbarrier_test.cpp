// label: unit
// Memory barriers: phases, copies that complete on them as late as the waits allow, what the emulator says of mistakes,
// and the assembler of their PTX.
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "codegen/exec/generate.h"
#include "codegen/target/target.h"
#include "tests/assembler.h"
#include "tests/codegen/exec/emulator/emulator_kernels.h"

namespace tegula {
namespace {

constexpr int kPoisoned = int(0xCDCDCDCD);
constexpr int kShared = 4096, kData = 64;  // barriers lie at offsets 0, 8 .., words from kData on

const char* const kBarrierRows = R"(
declare void @tegula.hw.mbarrier_init(i32, i32, i1, i32)
declare void @tegula.hw.mbarrier_inval(i32, i1, i32)
declare void @tegula.hw.mbarrier_arrive(i32, i1, i32)
declare void @tegula.hw.cp_async_mbarrier_arrive(i32, i32)
declare void @tegula.hw.mbarrier_wait(i32, i32, i32) convergent
)";

// Barriers are named by the registers of their addresses: %b0 to %b3.
std::string init(const std::string& barrier, int count, const std::string& predicate = "%first", int site = 1) {
  return fmt::format("  call void @tegula.hw.mbarrier_init(i32 {}, i32 {}, i1 {}, i32 {})\n", barrier, count, predicate,
                     site);
}
std::string inval(const std::string& barrier, int site = 1) {
  return fmt::format("  call void @tegula.hw.mbarrier_inval(i32 {}, i1 %first, i32 {})\n", barrier, site);
}
std::string arrive(const std::string& barrier, int site = 1, const std::string& predicate = "true") {
  return fmt::format("  call void @tegula.hw.mbarrier_arrive(i32 {}, i1 {}, i32 {})\n", barrier, predicate, site);
}
std::string arrive_after_copies(const std::string& barrier, int site = 1) {
  return fmt::format("  call void @tegula.hw.cp_async_mbarrier_arrive(i32 {}, i32 {})\n", barrier, site);
}
std::string wait(const std::string& barrier, const std::string& parity, int site = 1) {
  return fmt::format("  call void @tegula.hw.mbarrier_wait(i32 {}, i32 {}, i32 {})\n", barrier, parity, site);
}
std::string sync(int site = 1) { return fmt::format("  call void @tegula.hw.barrier(i32 {})\n", site); }

// Every thread t has %t, %first (t is 0), %low (t < 16), %mine and %other: addresses of words t and 127 - t.
const std::string kBegin = fmt::format(R"(
  %t = call i32 @tegula.hw.thread_id()
  %first = icmp eq i32 %t, 0
  %low = icmp slt i32 %t, 16
  %b0 = call i32 @tegula.hw.shared_base()
  %b1 = add i32 %b0, 8
  %b2 = add i32 %b0, 16
  %b3 = add i32 %b0, 24
  %data = add i32 %b0, {}
  %o = mul i32 %t, 4
  %mine = add i32 %data, %o
  %ro = sub i32 508, %o
  %other = add i32 %data, %ro
)",
                                       kData);

KernelImage image(const std::string& steps, int num_warps = 1, std::vector<ImageParam> params = {}) {
  return make_image(std::move(params), kBegin + steps, num_warps, kShared, kBarrierRows);
}

// ---- What is computed

// One warp: thread t copies x[t] to its word and x[32 + t] 512 bytes behind it; out[t] and out[32 + t] are what stands
// there after `steps`, in which {0} and {1} are the copies.
std::vector<int> run_copies(const std::string& steps) {
  const std::string body =
      R"(
  %late = add i32 %mine, 512
  %x0 = getelementptr i32, ptr addrspace(1) %x, i32 %t
  %x1 = getelementptr i32, ptr addrspace(1) %x0, i32 32
  %p0 = getelementptr i32, ptr addrspace(1) %out, i32 %t
  %p1 = getelementptr i32, ptr addrspace(1) %p0, i32 32
)" + init("%b0", 32) +
      init("%b1", 32) + sync() +
      fmt::format(fmt::runtime(steps),
                  "  call void @tegula.hw.cp_async_4(i32 %mine, ptr addrspace(1) %x0, i1 true, i32 "
                  "2)\n",
                  "  call void @tegula.hw.cp_async_4(i32 %late, ptr addrspace(1) %x1, i1 true, i32 "
                  "3)\n") +
      R"(
  %v0 = call i32 @tegula.hw.ld_shared_b32(i32 %mine, i32 4)
  %v1 = call i32 @tegula.hw.ld_shared_b32(i32 %late, i32 4)
  call void @tegula.hw.st_global_b32(ptr addrspace(1) %p0, i32 %v0, i1 true, i32 5)
  call void @tegula.hw.st_global_b32(ptr addrspace(1) %p1, i32 %v1, i1 true, i32 5)
  ret void)";
  auto device = make_emulator({.threads = 1});
  auto kernel = device->load(image(body, 1, {pointer("x", Elem::I32), pointer("out", Elem::I32)}));
  std::vector<int> values(64);
  std::iota(values.begin(), values.end(), 100);
  Array<int> x(*device, values), out(*device, 64);
  launch(*kernel, {1}, x.address(), out.address());
  return out.values();
}

TEST(MBarrier, CopiesAreDoneAtTheWaitThatCoversThem) {
  auto expected = [](bool first, bool second) {
    std::vector<int> values(64, kPoisoned);
    if (first) std::iota(values.begin(), values.begin() + 32, 100);
    if (second) std::iota(values.begin() + 32, values.end(), 132);
    return values;
  };
  const std::string two = "{0}" + arrive_after_copies("%b0") + "{1}" + arrive_after_copies("%b1");
  EXPECT_EQ(run_copies(two), expected(false, false)) << "no wait";
  EXPECT_EQ(run_copies(two + sync()), expected(false, false)) << "a barrier is no wait";
  EXPECT_EQ(run_copies(two + wait("%b0", "1")), expected(false, false)) << "the phase before the first one is over";
  EXPECT_EQ(run_copies(two + wait("%b0", "0")), expected(true, false));
  EXPECT_EQ(run_copies(two + wait("%b0", "0") + wait("%b1", "0")), expected(true, true));
  EXPECT_EQ(run_copies(two + wait("%b1", "0")), expected(true, true)) << "an arrival covers all earlier copies";
  EXPECT_EQ(run_copies("{0}" + arrive_after_copies("%b0") + "{1}" + wait("%b0", "0")), expected(true, false));
  EXPECT_EQ(run_copies(arrive_after_copies("%b0") + "{0}{1}" + wait("%b0", "0")), expected(false, false));
  // Groups count as ever, and what a group's wait has done is not done again.
  const std::string commit = "  call void @tegula.hw.cp_async_commit()\n";
  EXPECT_EQ(run_copies("{0}" + arrive_after_copies("%b0") + commit + "{1}" + commit +
                       "  call void @tegula.hw.cp_async_wait.1()\n"),
            expected(true, false));
  EXPECT_EQ(run_copies("{0}" + commit + "{1}" + commit + "  call void @tegula.hw.cp_async_wait.0()\n" +
                       arrive_after_copies("%b0") + wait("%b0", "0")),
            expected(true, true));
}

// Thread t sums up what threads 127 - t copied, for kRounds rounds and copies `ahead` rounds ahead, in four slots of
// 512 bytes with a barrier each.
constexpr int kRounds = 41;

KernelImage pipeline(int ahead, const std::string& before_reuse = sync(7)) {
  const std::string body = fmt::format(R"(
  call void @tegula.hw.mbarrier_init(i32 %b0, i32 128, i1 %first, i32 1)
  call void @tegula.hw.mbarrier_init(i32 %b1, i32 128, i1 %first, i32 1)
  call void @tegula.hw.mbarrier_init(i32 %b2, i32 128, i1 %first, i32 1)
  call void @tegula.hw.mbarrier_init(i32 %b3, i32 128, i1 %first, i32 1)
  call void @tegula.hw.barrier(i32 2)
  br label %loop
loop:
  %k = phi i32 [ 0, %0 ], [ %k1, %next ]
  %sum = phi i32 [ 0, %0 ], [ %sum1, %next ]
  %k1 = add i32 %k, 1
  %wanted = icmp slt i32 %k, {rounds}
  br i1 %wanted, label %copy, label %read
copy:
  %in = and i32 %k, 3
  %in8 = mul i32 %in, 8
  %in512 = mul i32 %in, 512
  %full = add i32 %b0, %in8
  %to = add i32 %mine, %in512
  %row = mul i32 %k, 128
  %at = add i32 %row, %t
  %from = getelementptr i32, ptr addrspace(1) %x, i32 %at
  call void @tegula.hw.cp_async_4(i32 %to, ptr addrspace(1) %from, i1 true, i32 3)
  call void @tegula.hw.cp_async_mbarrier_arrive(i32 %full, i32 4)
  br label %read
read:
  %r = sub i32 %k, {ahead}
  %ready = icmp sge i32 %r, 0
  br i1 %ready, label %take, label %next
take:
  %out = and i32 %r, 3
  %out8 = mul i32 %out, 8
  %out512 = mul i32 %out, 512
  %over = add i32 %b0, %out8
  %a = add i32 %other, %out512
  %r4 = lshr i32 %r, 2
  %parity = and i32 %r4, 1
  call void @tegula.hw.mbarrier_wait(i32 %over, i32 %parity, i32 5)
  %v = call i32 @tegula.hw.ld_shared_b32(i32 %a, i32 6)
  %sum0 = add i32 %sum, %v
{before_reuse}  br label %next
next:
  %sum1 = phi i32 [ %sum, %read ], [ %sum0, %take ]
  %go = icmp slt i32 %k1, {end}
  br i1 %go, label %loop, label %end
end:
  %p = getelementptr i32, ptr addrspace(1) %sums, i32 %t
  call void @tegula.hw.st_global_b32(ptr addrspace(1) %p, i32 %sum1, i1 true, i32 8)
  ret void)",
                                       fmt::arg("rounds", kRounds), fmt::arg("ahead", ahead),
                                       fmt::arg("end", kRounds + ahead), fmt::arg("before_reuse", before_reuse));
  return image(body, 4, {pointer("x", Elem::I32), pointer("sums", Elem::I32)});
}

TEST(MBarrier, PipelineThroughManyPhases) {
  std::vector<int> x(kRounds * 128), expected(128);
  for (int i = 0; i < kRounds * 128; ++i) {
    x[i] = i * 7 % 1000;
    expected[127 - i % 128] += x[i];
  }
  for (uint64_t seed : {0, 1, 2, 3})
    for (int ahead : {0, 1, 2, 3}) {
      auto device = make_emulator({.target = seed ? "sm_90a" : "sm_80", .seed = seed});
      auto kernel = device->load(pipeline(ahead));
      Array<int> in(*device, x), out(*device, 128);
      launch(*kernel, {1}, in.address(), out.address());
      EXPECT_EQ(out.values(), expected) << seed << " " << ahead;
    }
}

// Without the barrier a thread that runs ahead copies into a slot that others still read.
TEST(MBarrier, CopiesIntoRoomThatIsStillRead) {
  std::vector<int> x(kRounds * 128), expected(128);
  for (int i = 0; i < kRounds * 128; ++i) {
    x[i] = i * i % 1009;
    expected[127 - i % 128] += x[i];
  }
  int found = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    auto device = make_emulator({.seed = seed});
    auto kernel = device->load(pipeline(3, ""));
    Array<int> in(*device, x), out(*device, 128);
    launch(*kernel, {1}, in.address(), out.address());
    found += out.values() != expected;
  }
  EXPECT_GE(found, 4);
}

// Warp 0 copies for the three others; what they have read they tell by arrivals on a second barrier.
TEST(MBarrier, ProducersAndConsumers) {
  const std::string body = init("%b0", 32) + init("%b1", 96) + sync(2) + R"(
  %produces = icmp slt i32 %t, 32
  br i1 %produces, label %produce, label %consume
produce:
  %k = phi i32 [ 0, %0 ], [ %k1, %produce ]
  %k1 = add i32 %k, 1
  %before = xor i32 %k, 1
  %free = and i32 %before, 1
  call void @tegula.hw.mbarrier_wait(i32 %b1, i32 %free, i32 3)
  %row = mul i32 %k, 32
  %at = add i32 %row, %t
  %from = getelementptr i32, ptr addrspace(1) %x, i32 %at
  call void @tegula.hw.cp_async_4(i32 %mine, ptr addrspace(1) %from, i1 true, i32 4)
  call void @tegula.hw.cp_async_mbarrier_arrive(i32 %b0, i32 4)
  %more = icmp slt i32 %k1, 30
  br i1 %more, label %produce, label %end
consume:
  %c = phi i32 [ 0, %0 ], [ %c1, %consume ]
  %sum = phi i32 [ 0, %0 ], [ %sum1, %consume ]
  %c1 = add i32 %c, 1
  %lane = and i32 %o, 127
  %a = add i32 %data, %lane
  %full = and i32 %c, 1
  call void @tegula.hw.mbarrier_wait(i32 %b0, i32 %full, i32 5)
  %v = call i32 @tegula.hw.ld_shared_b32(i32 %a, i32 6)
  call void @tegula.hw.mbarrier_arrive(i32 %b1, i1 true, i32 7)
  %sum1 = add i32 %sum, %v
  %again = icmp slt i32 %c1, 30
  br i1 %again, label %consume, label %store
store:
  %p = getelementptr i32, ptr addrspace(1) %sums, i32 %t
  call void @tegula.hw.st_global_b32(ptr addrspace(1) %p, i32 %sum1, i1 true, i32 8)
  br label %end
end:
  ret void)";
  std::vector<int> x(30 * 32), expected(128);
  for (int i = 0; i < 30 * 32; ++i) {
    x[i] = i * 11 % 700;
    for (int warp = 1; warp < 4; ++warp) expected[warp * 32 + i % 32] += x[i];
  }
  for (uint64_t seed : {0, 1, 2, 3, 4}) {
    auto device = make_emulator({.seed = seed});
    auto kernel = device->load(image(body, 4, {pointer("x", Elem::I32), pointer("sums", Elem::I32)}));
    Array<int> in(*device, x), out(*device, 128);
    launch(*kernel, {1}, in.address(), out.address());
    EXPECT_EQ(out.values(), expected) << seed;
  }
}

TEST(MBarrier, ArrivalsOfThreadsInPlaceOfABarrier) {
  // Two phases, a barrier between them, then the object's room is used for something else.
  const std::string body =
      init("%b0", 128) + sync(2) + "  call void @tegula.hw.st_shared_b32(i32 %mine, i32 %t, i1 true, i32 3)\n" +
      arrive("%b0", 4) + wait("%b0", "0", 5) + "  %v = call i32 @tegula.hw.ld_shared_b32(i32 %other, i32 3)\n" +
      sync(6) + "  call void @tegula.hw.st_shared_b32(i32 %mine, i32 %v, i1 true, i32 3)\n" + arrive("%b0", 4) +
      wait("%b0", "1", 5) + "  %w = call i32 @tegula.hw.ld_shared_b32(i32 %other, i32 3)\n" + sync(6) + inval("%b0") +
      "  call void @tegula.hw.st_shared_b32(i32 %b0, i32 1000, i1 %first, i32 3)\n" + sync(6) +
      R"(
  %c = call i32 @tegula.hw.ld_shared_b32(i32 %b0, i32 3)
  %r = mul i32 %v, %c
  %s = add i32 %r, %w
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %t
  call void @tegula.hw.st_global_b32(ptr addrspace(1) %p, i32 %s, i1 true, i32 7)
  ret void)";
  for (uint64_t seed : {0, 1, 2}) {
    auto device = make_emulator({.seed = seed});
    auto kernel = device->load(image(body, 4, {pointer("out", Elem::I32)}));
    Array<int> out(*device, 128);
    launch(*kernel, {3}, out.address());  // each program has its own
    std::vector<int> result = out.values();
    for (int t = 0; t < 128; ++t) ASSERT_EQ(result[t], (127 - t) * 1000 + t) << seed;
  }
}

// Copies of threads that have left the kernel are as late as others.
TEST(MBarrier, CopiesOfThreadsThatAreGone) {
  const std::string begin = init("%b0", 32) + sync(2) + R"(
  %copies = icmp slt i32 %t, 32
  br i1 %copies, label %copy, label %read
copy:
  call void @tegula.hw.cp_async_4(i32 %mine, ptr addrspace(1) %x, i1 true, i32 3)
)" + arrive_after_copies("%b0", 3) +
                            R"(
  ret void
read:
  %y = call i32 @tegula.hw.ld_global_b32.volatile(ptr addrspace(1) %x, i32 0, i1 true, i32 4)
  %o32 = sub i32 %mine, 128
)";
  auto run = [&](const std::string& steps) {
    auto device = make_emulator({.threads = 1});
    auto kernel = device->load(image(begin + steps + R"(
  %v = call i32 @tegula.hw.ld_shared_b32(i32 %o32, i32 5)
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %t
  call void @tegula.hw.st_global_b32(ptr addrspace(1) %p, i32 %v, i1 true, i32 6)
  ret void)",
                                     2, {pointer("x", Elem::I32), pointer("out", Elem::I32)}));
    Array<int> x(*device, std::vector<int>{7}), out(*device, 64);
    launch(*kernel, {1}, x.address(), out.address());
    const std::vector<int> values = out.values();
    return std::vector<int>(values.begin() + 32, values.end());
  };
  // Threads below 32 run to their end while the others let them, in the volatile load.
  EXPECT_EQ(run(""), std::vector<int>(32, kPoisoned));
  EXPECT_EQ(run(wait("%b0", "0")), std::vector<int>(32, 7));
}

// A worker with a thread that spins is never idle.
TEST(MBarrier, LateCopiesBesideAThreadThatSpins) {
  auto device = make_emulator({.threads = 1});
  auto kernel = device->load(image(init("%b0", 32) + sync(2) + R"(
  %copies = icmp slt i32 %t, 32
  br i1 %copies, label %copy, label %spin
copy:
  call void @tegula.hw.cp_async_4(i32 %mine, ptr addrspace(1) %x, i1 true, i32 3)
)" + arrive_after_copies("%b0") + wait("%b0", "0") +
                                       R"(
  %v = call i32 @tegula.hw.ld_shared_b32(i32 %mine, i32 3)
  call void @tegula.hw.st_global_b32(ptr addrspace(1) %flag, i32 %v, i1 %first, i32 4)
  br label %end
spin:
  %f = call i32 @tegula.hw.ld_global_b32.volatile(ptr addrspace(1) %flag, i32 0, i1 true, i32 5)
  %go = icmp ne i32 %f, 0
  br i1 %go, label %end, label %spin
end:
  ret void)",
                                   2, {pointer("x", Elem::I32), pointer("flag", Elem::I32)}));
  Array<int> x(*device, std::vector<int>{7}), flag(*device, 1);
  launch(*kernel, {1}, x.address(), flag.address());
  EXPECT_EQ(flag.values()[0], 7);
}

// ---- Mistakes

std::string fault(const std::string& steps, int num_warps = 1, const EmulatorOptions& options = {}) {
  auto device = make_emulator(options);
  std::string text = error_of([&] { launch(*device->load(image(steps + "  ret void", num_warps)), {1}); });
  // The device goes on, with nothing left of what was under way.
  auto kernel = device->load(image(init("%b0", 32) + sync() + arrive("%b0") + wait("%b0", "0") + "  ret void"));
  EXPECT_EQ(error_of_launch(*kernel, {2}), "no error");
  return text;
}

TEST(MBarrier, WaitsThatAreNeverMetAreDeadlocks) {
  EXPECT_EQ(
      fault(init("%b1", 33) + sync(2) + arrive("%b1", 3) + wait("%b1", "0", 4)),
      "kernel 'k': deadlock: all threads wait in mbarrier_wait at k.py:4:5 for parity 0 of the mbarrier at offset "
      "8, whose phase has 32 of 33 arrivals\n  in program (0, 0, 0)");
  // A phase that is not to be over yet.
  EXPECT_EQ(
      fault(init("%b1", 32) + sync(2) + arrive("%b1", 3) + wait("%b1", "0", 4) + wait("%b1", "1", 5)),
      "kernel 'k': deadlock: all threads wait in mbarrier_wait at k.py:5:5 for parity 1 of the mbarrier at offset "
      "8, whose phase has 0 of 32 arrivals\n  in program (0, 0, 0)");
  // Copies' arrivals count, though the copies are not done.
  EXPECT_EQ(
      fault(init("%b0", 40) + sync(2) + arrive_after_copies("%b0", 3) + wait("%b0", "0", 4)),
      "kernel 'k': deadlock: all threads wait in mbarrier_wait at k.py:4:5 for parity 0 of the mbarrier at offset "
      "0, whose phase has 32 of 40 arrivals\n  in program (0, 0, 0)");
  // Beside other waits and ends: all places where threads wait.
  const std::string ways = init("%b0", 32) + init("%b1", 16) + sync(2) + R"(
  br i1 %low, label %below, label %above
below:
)" + arrive("%b0", 3) + wait("%b0", "0", 4) +
                           R"(
  br label %end
above:
  %second = icmp slt i32 %t, 24
  br i1 %second, label %middle, label %last
middle:
)" + wait("%b1", "0", 5) +
                           R"(
  br label %end
last:
  %third = icmp slt i32 %t, 28
  br i1 %third, label %meet, label %end
meet:
)" + sync(6) + "  br label %end\nend:\n";
  EXPECT_EQ(
      fault(ways),
      "kernel 'k': deadlock: threads 0-15 wait in mbarrier_wait at k.py:4:5 for parity 0 of the mbarrier at offset "
      "0, whose phase has 16 of 32 arrivals; threads 16-23 wait in mbarrier_wait at k.py:5:5 for parity 0 of the "
      "mbarrier at offset 8, whose phase has 0 of 16 arrivals; threads 24-27 wait in barrier at k.py:6:5; threads "
      "28-31 have left the kernel\n  in program (0, 0, 0)");
  // One place, two barriers.
  const std::string two = init("%b0", 40) + init("%b1", 50) + sync(2) + "  %b = select i1 %low, i32 %b0, i32 %b1\n" +
                          arrive("%b", 3) + wait("%b", "0", 4);
  EXPECT_CONTAINS(fault(two),
                  "threads 0-15 wait in mbarrier_wait at k.py:4:5 for parity 0 of the mbarrier at offset 0,");
  EXPECT_CONTAINS(fault(two),
                  "; threads 16-31 wait in mbarrier_wait at k.py:4:5 for parity 0 of the mbarrier at offset 8");
}

TEST(MBarrier, FaultsOfObjects) {
  const std::string unknown =
      "kernel 'k': the mbarrier at offset 8 of shared memory is used, but not initialised: an mbarrier_init, or a "
      "barrier after it, is missing before, or an mbarrier_inval came too early\n  at k.py:3:5, program (0, 0, 0), "
      "thread ";
  EXPECT_EQ(fault(arrive("%b1", 3)), unknown + "0");
  EXPECT_EQ(fault(wait("%b1", "0", 3)), unknown + "0");
  EXPECT_EQ(fault(wait("%b1", "1", 3)), unknown + "0");
  EXPECT_EQ(fault(arrive_after_copies("%b1", 3)), unknown + "0");
  EXPECT_EQ(fault(inval("%b1", 3)), unknown + "0");
  EXPECT_EQ(fault(init("%b1", 32) + sync(2) + inval("%b1", 2) + arrive("%b1", 3)), unknown + "0");
  // Without a barrier in between: other threads may come first.
  EXPECT_CONTAINS(fault("  %last = icmp eq i32 %t, 30\n" + init("%b1", 32, "%last") + arrive("%b1", 3)), unknown);

  EXPECT_EQ(fault(init("%b1", 32, "%first", 4) + sync(2) + init("%b1", 32, "%first", 5)),
            "kernel 'k': mbarrier_init of the mbarrier at offset 8 of shared memory, which is in use since it was "
            "initialised at k.py:4:5; mbarrier_inval must come between\n  at k.py:5:5, program (0, 0, 0), thread 0");
  EXPECT_EQ(fault(init("%b1", 32) + sync(2) + inval("%b1") + init("%b1", 16)), "no error");
  EXPECT_EQ(fault(init("%b1", 32, "%first", 4) + sync(2) +
                  "  call void @tegula.hw.st_shared_b32(i32 %b1, i32 0, i1 %first, i32 3)\n" + arrive("%b1", 5)),
            "kernel 'k': the mbarrier at offset 8 of shared memory, initialised at k.py:4:5, was written over; "
            "mbarrier_inval must come before other uses of its bytes\n  at k.py:5:5, program (0, 0, 0), thread 0");
  EXPECT_EQ(fault("  %under = add i32 %b0, 12\n" + init("%under", 32, "true", 6)),
            "kernel 'k': misaligned atomic operation of 8 bytes in shared memory at offset 12, which is not a multiple "
            "of 8\n  at k.py:6:5, program (0, 0, 0), thread 0");
  EXPECT_CONTAINS(fault(fmt::format("  %behind = add i32 %b0, {}\n", kShared) + wait("%behind", "0")),
                  "out-of-bounds atomic operation of 8 bytes in shared memory at offset 4096");
  EXPECT_CONTAINS(fault(init("%b0", 0)), "mbarrier at offset 0 of shared memory is to expect 0 arrivals; 1 to 1048575");
  EXPECT_CONTAINS(fault(init("%b0", 1 << 20)), "is to expect 1048576 arrivals; 1 to 1048575 can be");
  EXPECT_CONTAINS(fault(init("%b0", 32) + sync() + wait("%b0", "2")),
                  "a wait for parity 2 of the mbarrier at offset 0 of shared memory; parities are 0 and 1");
  const std::string needed = "mbarrier_inval of the mbarrier at offset 0 of shared memory, for which threads wait or";
  EXPECT_CONTAINS(fault(init("%b0", 32) + sync() + arrive_after_copies("%b0") + inval("%b0")), needed);
  EXPECT_CONTAINS(fault(init("%b0", 64) + sync() + "  br i1 %low, label %w, label %i\nw:\n" + wait("%b0", "0") +
                        "  br label %e\ni:\n  %last = icmp eq i32 %t, 30\n" +
                        "  call void @tegula.hw.mbarrier_inval(i32 %b0, i1 %last, i32 1)\n  br label %e\ne:\n"),
                  needed);
}

TEST(MBarrier, MoreArrivalsThanExpected) {
  const std::string text =
      "kernel 'k': the mbarrier at offset 0 of shared memory gets more than the 32 arrivals that it expects in a "
      "phase; "
      "a wait for the phase's end is missing before the next arrival\n  at k.py:4:5, program (0, 0, 0), thread ";
  const std::string begin = init("%b0", 32) + sync(2);
  // The first thread may not know that the others have arrived.
  EXPECT_EQ(fault(begin + arrive("%b0", 3) + sync(2) + arrive("%b0", 4) + arrive("%b0", 4)), text + "15")
      << "thread 30 goes on first, then 0, 1 ..; 15 ends the phase with its first arrival";
  EXPECT_EQ(
      fault(begin + arrive_after_copies("%b0", 3) + "  %again = icmp eq i32 %t, 30\n" + arrive("%b0", 4, "%again")),
      text + "30");
  EXPECT_EQ(fault(begin + arrive("%b0", 3) + "  %again = icmp eq i32 %t, 30\n" + arrive("%b0", 4, "%again")),
            text + "30");
  EXPECT_EQ(fault(begin + arrive("%b0", 3, "%low") + arrive("%b0", 3, "%low") + arrive("%b0", 4, "%low")), text + "10");
  // A wait or a barrier makes it known.
  EXPECT_EQ(fault(begin + arrive("%b0", 3) + wait("%b0", "0") + arrive("%b0", 4) + wait("%b0", "1")), "no error");
  EXPECT_EQ(fault(begin + arrive("%b0", 3) + sync() + arrive("%b0", 4) + wait("%b0", "1")), "no error");
  // Copies are no barrier's business.
  EXPECT_EQ(fault(begin + arrive_after_copies("%b0", 3) + sync() + arrive_after_copies("%b0", 4)), text + "30");
}

// ---- The assembler

std::string ptx_for(const KernelImage& image, const char* target) {
  return ptx_of_module(std::string_view(reinterpret_cast<const char*>(image.bitcode.data()), image.bitcode.size()),
                       *find_target(target));
}

// All rows; waits twice at places of their own.
KernelImage all_rows() {
  return pipeline(3, wait("%b0", "%parity") + arrive("%b1", 1, "%first") + arrive("%b2") + inval("%b3") + sync());
}

TEST(MBarrier, PtxOfTheTarget) {
  const std::string old = ptx_for(all_rows(), "sm_80"), hopper = ptx_for(all_rows(), "sm_90a");
  EXPECT_CONTAINS(old, "mbarrier.test_wait.parity.shared.b64");
  EXPECT_EQ(old.find("try_wait"), old.npos);
  EXPECT_CONTAINS(hopper, "mbarrier.try_wait.parity.shared.b64");
  EXPECT_EQ(hopper.find("test_wait"), hopper.npos);
  for (const std::string& ptx : {old, hopper}) {
    EXPECT_CONTAINS(ptx, "mbarrier.init.shared.b64 [%r");
    EXPECT_CONTAINS(ptx, "mbarrier.inval.shared.b64 [%r");
    EXPECT_CONTAINS(ptx, " mbarrier.arrive.shared.b64 _, [%r");
    EXPECT_CONTAINS(ptx, "cp.async.mbarrier.arrive.noinc.shared.b64 [%r");
  }
}

TEST(MBarrier, AcceptedByTheAssembler) {
  SKIP_WITHOUT_PTXAS();
  for (const char* target : {"sm_80", "sm_90a"}) {
    const PtxasRun run = assemble(ptx_for(all_rows(), target), target);
    EXPECT_EQ(run.status, 0) << target << run.log;
  }
}

}  // namespace
}  // namespace tegula
