// label: device
// heavy: Wgmma.AssembledWithoutSerialisation
// Matrix instructions of a warpgroup: products of all swizzle modes and orders against a plain product, on the emulator
// and on a GPU that has them; what it says of missing waits and barriers, and what the assembler says of their PTX.
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <fstream>

#include "codegen/exec/generate.h"
#include "codegen/target/target.h"
#include "dsl/tegula.h"
#include "tests/assembler.h"
#include "tests/checks_off.h"
#include "tests/codegen/lower/wgmma_kernels.h"
#include "tests/random_count.h"

namespace tegula {
namespace {

std::string ptx_of(const KernelImage& image) {
  return ptx_of_module({reinterpret_cast<const char*>(image.bitcode.data()), image.bitcode.size()},
                       *find_target("sm_90a"));
}

// Null where there is none that has the instructions.
Device* gpu() {
  static Device* const device = default_device();
  return !device->info().emulator && device->info().sm == 90 ? device : nullptr;
}

std::vector<float> run_on(Device& device, const Multiplication& s, const Problem& problem) {
  KernelImage code = image(s);
  if (!device.info().emulator) code.ptx = ptx_of(code);
  auto kernel = device.load(std::move(code));
  Array<uint16_t> x(device, problem.memory);
  Array<uint32_t> fragments(device, problem.fragments);
  Array<float> out(device, size_t(s.num_warps * 32 * s.n / 2));
  launch(*kernel, {1}, x.address(), fragments.address(), out.address());
  std::vector<float> values = out.values();
  if (!is_float(s.elem))
    for (float& v : values) v = float(std::bit_cast<int32_t>(v));
  return values;
}

std::vector<float> run(const Multiplication& s, const Problem& problem, uint64_t seed = 0) {
  return run_on(*make_emulator({.threads = 1, .seed = seed}), s, problem);
}

// On the emulator, and on the GPU if it has the instructions.
void expect_product(const Multiplication& s, const std::string& what) {
  const Problem problem(s);
  std::vector<float> expected;
  while (expected.size() < size_t(s.num_warps * 32 * s.n / 2))
    expected.insert(expected.end(), problem.expected.begin(), problem.expected.end());
  for (uint64_t seed : {0, 5}) EXPECT_EQ(run(s, problem, seed), expected) << what << ", seed " << seed;
  if (Device* device = gpu()) {
    EXPECT_EQ(run_on(*device, s, problem), expected) << what << " on the GPU";
  }
}

TEST(Wgmma, EveryOrderAndSwizzleOfBothOperands) {
  for (bool a_mn : {false, true})
    for (bool b_mn : {false, true})
      for (int swizzle_a : {0, 32, 64, 128})
        for (int swizzle_b : {0, 32, 64, 128}) {
          Multiplication s;
          s.n = 64;
          s.a = {64, swizzle_a && !a_mn ? swizzle_a / 2 : 64, swizzle_a, a_mn};
          s.b = {64, swizzle_b && !b_mn ? swizzle_b / 2 : 64, swizzle_b, b_mn};
          s.steps = std::min(s.a.depth, s.b.depth) / 16;
          s.elem = a_mn != b_mn ? Elem::BF16 : Elem::F16;
          expect_product(s, fmt::format("a: {} {}-major, b: {} {}-major", swizzle_a, a_mn ? "M" : "K", swizzle_b,
                                        b_mn ? "N" : "K"));
        }
}

TEST(Wgmma, EveryWidth) {
  for (int n = 8; n <= 256; n += 8) {
    Multiplication s;
    s.n = n;
    s.b = {n, 64, 128, false};
    s.steps = n % 32 ? 1 : 4;
    s.a_in_registers = n % 24 == 0;
    expect_product(s, fmt::format("n = {}", n));
  }
}

TEST(Wgmma, ElementsOf8And32Bits) {
  for (Elem elem : {Elem::F32, Elem::I8, Elem::U8})
    for (int swizzle : {0, 32, 64, 128})
      for (int n : {8, 24, 64, 256})
        for (bool a_in_registers : {false, true}) {
          const int bytes = elem_bits(elem) / 8, depth = (swizzle ? swizzle : 64) / bytes;
          Multiplication s;
          s.n = n, s.elem = elem;
          s.a = {64, depth, swizzle, false, bytes};
          s.b = {n, depth, swizzle, false, bytes};
          s.steps = depth * bytes / 32;
          s.a_in_registers = a_in_registers;
          expect_product(s, fmt::format("{}, n = {}, swizzle {}", elem_info(elem).text, n, swizzle));
        }
}

TEST(Wgmma, TwoWarpgroups) {
  Multiplication s;
  s.n = 32;
  s.b = {32, 64, 64, true};
  s.steps = 4;
  s.num_warps = 8;
  expect_product(s, "two warpgroups");
}

std::string fault(Multiplication s, uint64_t seed = 0) {
  const Problem problem(s);
  return error_of([&] { run(s, problem, seed); });
}

TEST(Wgmma, NothingIsThereBeforeTheWait) {
  Multiplication s;
  auto all_nan = [](const std::vector<float>& values) {
    return std::all_of(values.begin(), values.end(), [](float v) { return std::isnan(v); });
  };
  const Problem problem(s);
  s.pending = -1;
  EXPECT_TRUE(all_nan(run(s, problem))) << "no wait";
  s.pending = 1;
  EXPECT_TRUE(all_nan(run(s, problem))) << "a wait that leaves it pending";
  s.pending = 0, s.commit = "";
  EXPECT_CONTAINS(fault(s), "wgmma: a wait for the instruction issued at k.py:4:5, after which no wgmma_commit comes");
  s.commit = "  call void @tegula.hw.wgmma_commit()\n  call void @tegula.hw.wgmma_commit()\n", s.pending = 1;
  EXPECT_EQ(run(s, problem), problem.expected) << "an empty group is pending";
}

// What threads store and copy beside what products read through the asynchronous proxy.
TEST(Wgmma, ProxyFaults) {
  const ChecksOff checks_off;
  const std::string barrier = "  call void @tegula.hw.barrier(i32 2)\n",
                    fence = "  call void @tegula.hw.fence_async_shared()\n",
                    fences = "  call void @tegula.hw.wgmma_fence()\n",
                    copy_wait = "  call void @tegula.hw.cp_async_wait.0()\n";
  const std::string issued = "\n  at k.py:4:5", no_fence = "and no fence_async_shared lies between";
  const auto stored = [](int offset) {
    return fmt::format("wgmma reads shared memory at offset {} that thread 0 stored at k.py:7:5, ", offset);
  };
  const auto store = [](const char* name, int at, int site) {
    return fmt::format(
        "  %{0} = add i32 %base, {1}\n  %{0}_first = icmp eq i32 %t, 0\n"
        "  call void @tegula.hw.st_shared_b32(i32 %{0}, i32 1, i1 %{0}_first, i32 {2})\n",
        name, at, site);
  };
  const auto fault_of = [](uint64_t seed, const std::string& before, const std::string& after = "") {
    Multiplication s;
    s.before = before, s.after = after;
    auto device = make_emulator({.threads = 1, .seed = seed, .check_races = true});
    return error_of([&] { run_on(*device, s, Problem(s)); });
  };
  EXPECT_EQ(fault_of(0, copy_wait + fence + barrier + fences), "no error");
  EXPECT_EQ(fault_of(0, copy_wait + barrier + fence + fences), "no error") << "of the threads that read";
  const std::string ready = copy_wait + fence + barrier + fences;
  Multiplication written;
  written.before = ready, written.after = store("early", kAt, 7);
  EXPECT_CONTAINS(fault(written),
                  "wgmma: an operand in shared memory was written between the instruction and the wait for it; a wait "
                  "for a copy or a barrier is missing before it, or a wait for it before the next write" +
                      issued);
  expect_planted({0, 1, 2, 3}, [&](uint64_t seed) {
    return std::vector<PlantedFault>{
        {"no fence", fault_of(seed, copy_wait + barrier + fences), {" stored at k.py:1:5", no_fence, issued}},
        {"a fence ahead of the wait",
         fault_of(seed, fence + copy_wait + barrier + fences),
         {" stored at k.py:1:5", no_fence, issued}},
        {"a store to A behind the fence",
         fault_of(seed, copy_wait + fence + barrier + store("late", kAt, 7) + barrier + fences),
         {stored(kAt), no_fence, issued}},
        {"a store to B behind the fence",
         fault_of(seed, copy_wait + fence + barrier + store("late", kBt + 16, 7) + barrier + fences),
         {stored(kBt + 16), no_fence, issued}},
        {"no barrier", fault_of(seed, copy_wait + fence + fences), {"race: ", "k.py:1:5", "k.py:4:5"}},
        {"no wait for the copies",
         fault_of(seed, fence + barrier + fences, copy_wait),
         {"which a copy of another thread, issued at k.py:1:5, writes", "k.py:4:5"}},
        {"a store to another warp's rows of A before the wait",
         fault_of(seed, ready, store("early", kAt + 32 * 128, 7)),
         {"race: ", "k.py:7:5", "k.py:4:5"}},
        {"a store to B before the wait",
         fault_of(seed, ready, store("early", kBt, 7)),
         {"race: ", "k.py:7:5", "k.py:4:5"}},
        {"no fence of registers",
         fault_of(seed, copy_wait + fence + barrier),
         {"wgmma: its registers were set since the warp's last wait, and no wgmma_fence lies", issued}},
    };
  });
}

// In place of a wait for the groups and a barrier: the threads' fence after that wait covers the copies of all.
TEST(Wgmma, OperandsWhoseCopiesCompleteOnAMemoryBarrier) {
  const ChecksOff checks_off;
  const std::string begin = fmt::format(
      "  %bar = add i32 %base, {}\n  %first = icmp eq i32 %t, 0\n"
      "  call void @tegula.hw.mbarrier_init(i32 %bar, i32 128, i1 %first, i32 2)\n"
      "  call void @tegula.hw.barrier(i32 2)\n"
      "  call void @tegula.hw.cp_async_mbarrier_arrive(i32 %bar, i32 2)\n",
      kBarrierAt);
  const std::string wait = "  call void @tegula.hw.mbarrier_wait(i32 %bar, i32 0, i32 3)\n",
                    fence = "  call void @tegula.hw.fence_async_shared()\n",
                    fences = "  call void @tegula.hw.wgmma_fence()\n";
  Multiplication s;
  s.before = begin + wait + fence + fences;
  expect_product(s, "copies complete on a memory barrier");
  s.before = begin + wait + fences;
  EXPECT_CONTAINS(fault(s), "stored at k.py:1:5, and no fence_async_shared lies between");
  s.before = begin + fence + wait + fences;
  EXPECT_CONTAINS(fault(s), "stored at k.py:1:5, and no fence_async_shared lies between");
  s.before = begin + fence + fences;
  s.after = wait;
  EXPECT_CONTAINS(fault(s), "wgmma: an operand in shared memory was written between the instruction and the wait");
}

TEST(Wgmma, FaultsOfThreadsThatPartWays) {
  Multiplication s;
  // Warp 3 leaves: nobody's wait can be met.
  s.before += "  %stay = icmp slt i32 %t, 96\n  br i1 %stay, label %go, label %leave\nleave:\n  ret void\ngo:\n";
  EXPECT_CONTAINS(fault(s),
                  "deadlock: threads 0-95 wait in wgmma_wait_n8 at an unknown source place; threads 96-127 have "
                  "left the kernel");
  Multiplication two;
  two.num_warps = 2;
  EXPECT_CONTAINS(fault(two), "deadlock: all threads wait in wgmma_wait_n8");
  // Warps 2 and 3 go to another instruction.
  Multiplication apart;
  apart.before += "  %low = icmp slt i32 %t, 64\n  br i1 %low, label %go, label %other\nother:\n" +
                  call(apart, "z", "i64 0", "0", "", false, 8) + "  ret void\ngo:\n";
  EXPECT_CONTAINS(fault(apart), "threads part ways where they must go together");
  EXPECT_CONTAINS(fault(apart), "wgmma_m64n16k16_f16_ss at k.py:8:5");
  // Descriptors that differ between lanes, and between warps.
  Multiplication lanes;
  lanes.before += "  %tl = zext i32 %t to i64\n";
  const Problem problem(lanes);
  for (int shift : {0, 5}) {
    std::string text = kernel_text(lanes);
    std::string from = "i64 %a0, i64 %b0";
    text.replace(text.find(from), from.size(), "i64 %a0, i64 %bt");
    text.replace(text.find("  %d0 ="), 0, fmt::format("  %ts = lshr i64 %tl, {}\n  %bt = add i64 %b0, %ts\n", shift));
    auto device = make_emulator();
    auto kernel = device->load(make_image({pointer("x", Elem::I32), pointer("fragment", Elem::I32), pointer("out")},
                                          text, 4, kShared, declarations(lanes.n, row(lanes))));
    Array<uint16_t> x(*device, problem.memory);
    Array<uint32_t> fragments(*device, problem.fragments);
    Array<float> out(*device, size_t(128 * 8));
    EXPECT_CONTAINS(error_of_launch(*kernel, {1}, x.address(), fragments.address(), out.address()),
                    shift ? "the descriptors differ between the four warps of a warpgroup"
                          : "the descriptors differ between the threads of a warp");
  }
  // Shared memory that is not there.
  Multiplication far;
  std::string text = kernel_text(far);
  std::string at = std::to_string(int64_t(far.b.descriptor(kBt)));
  text.replace(text.find(at), at.size(), std::to_string(int64_t(far.b.descriptor(kShared - 256))));
  auto device = make_emulator();
  auto kernel = device->load(make_image({pointer("x", Elem::I32), pointer("fragment", Elem::I32), pointer("out")}, text,
                                        4, kShared, declarations(far.n, row(far))));
  Array<uint16_t> x(*device, problem.memory);
  Array<uint32_t> fragments(*device, problem.fragments);
  Array<float> out(*device, size_t(128 * 8));
  EXPECT_CONTAINS(error_of_launch(*kernel, {1}, x.address(), fragments.address(), out.address()),
                  "out-of-bounds read of 16 bytes in shared memory");
}

TEST(Wgmma, OnlyWhereTheTargetHasIt) {
  Multiplication s;
  EXPECT_CONTAINS(error_of([&] { make_emulator({.target = "sm_80"})->load(image(s)); }), "which sm_80 does not have");
}

// A pipeline over chunks of K = 64 in four buffers: copies run `ahead` chunks before the products, of which one group
// is in flight across the back edge.
std::string pipeline_text(const Multiplication& s, int ahead, int pending = 1) {
  const int chunk = s.a.bytes() + s.b.bytes();
  auto copies = [&](const std::string& name, const std::string& number, const std::string& exists) {
    std::string text = fmt::format(
        "  %{0}_slot = and i32 {1}, 3\n  %{0}_so = mul i32 %{0}_slot, {2}\n  %{0}_to = add i32 %mine, %{0}_so\n"
        "  %{0}_xo = mul i32 {1}, {2}\n  %{0}_xt = add i32 %{0}_xo, %o\n",
        name, number, chunk);
    for (int i = 0; i < chunk / 2048; ++i)
      text += fmt::format(
          "  %{0}_t{1} = add i32 %{0}_to, {2}\n  %{0}_x{1} = add i32 %{0}_xt, {2}\n"
          "  %{0}_p{1} = getelementptr i8, ptr addrspace(1) %x, i32 %{0}_x{1}\n"
          "  call void @tegula.hw.cp_async_16(i32 %{0}_t{1}, ptr addrspace(1) %{0}_p{1}, i1 {3}, i32 2)\n",
          name, i, 2048 * i, exists);
    return text + "  call void @tegula.hw.cp_async_commit()\n";
  };
  std::string body = R"(
  %t = call i32 @tegula.hw.thread_id()
  %base = call i32 @tegula.hw.shared_base()
  %base18 = and i32 %base, 262143
  %base14 = lshr i32 %base18, 4
  %start = zext i32 %base14 to i64
  %o = mul i32 %t, 16
  %mine = add i32 %base, %o
)";
  for (int i = 0; i < ahead; ++i) body += copies(fmt::format("c{}", i), std::to_string(i), "true");
  body += "  br label %loop\nloop:\n  %k = phi i32 [ 0, %0 ], [ %k1, %loop ]\n";
  for (int i = 0; i < s.n / 2; ++i)
    body += fmt::format("  %s_{0} = phi {1} [ zeroinitializer, %0 ], [ %w_{0}, %loop ]\n", i, type_of(row(s)));
  body += fmt::format(R"(
  call void @tegula.hw.cp_async_wait.{}()
  call void @tegula.hw.fence_async_shared()
  call void @tegula.hw.barrier(i32 3)
  call void @tegula.hw.wgmma_fence()
  %slot = and i32 %k, 3
  %so32 = mul i32 %slot, {}
  %so = zext i32 %so32 to i64
  %now = add i64 %start, %so
)",
                      ahead - 1, chunk / 16);
  std::string sums = "s";
  for (int i = 0; i < 4; ++i) {
    body += fmt::format("  %a{0} = add i64 %now, {1}\n  %b{0} = add i64 %now, {2}\n", i,
                        int64_t(s.a.descriptor(i * s.a.step())), int64_t(s.b.descriptor(s.a.bytes() + i * s.b.step())));
    body += call(s, fmt::format("d{}", i), fmt::format("i64 %a{}", i), fmt::format("%b{}", i), sums, true, 4);
    sums = fmt::format("d{}", i);
  }
  body += "  call void @tegula.hw.wgmma_commit()\n" + wait(s, "w", sums, pending);
  body += fmt::format("  %next = add i32 %k, {}\n  %in = icmp slt i32 %next, %n\n", ahead);
  body += copies("c", "%next", "%in");
  body += "  %k1 = add i32 %k, 1\n  %more = icmp slt i32 %k1, %n\n  br i1 %more, label %loop, label %end\nend:\n";
  return body + wait(s, "v", "w", 0) + stores(s, "v") + "  ret void";
}

TEST(Wgmma, Pipeline) {
  const ChecksOff checks_off;
  constexpr int kChunks = 11;
  Multiplication s;
  s.n = 96, s.b = {96, 64, 64, true};
  std::vector<uint16_t> memory;
  std::vector<float> expected;
  for (int c = 0; c < kChunks; ++c) {
    s.steps = 4;
    const Problem problem(s, unsigned(c));
    const auto a = problem.memory.begin() + kAt / 2, b = problem.memory.begin() + kBt / 2;
    memory.insert(memory.end(), a, a + s.a.bytes() / 2);
    memory.insert(memory.end(), b, b + s.b.bytes() / 2);
    expected.resize(problem.expected.size());
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += problem.expected[i];
  }
  auto run = [&](Device& device, int ahead) {
    KernelImage code = make_image({pointer("x", Elem::I32), pointer("out"), scalar("n")}, pipeline_text(s, ahead), 4,
                                  4 * (s.a.bytes() + s.b.bytes()), declarations(s.n, row(s)));
    if (!device.info().emulator) code.ptx = ptx_of(code);
    auto kernel = device.load(std::move(code));
    Array<uint16_t> x(device, memory);
    Array<float> out(device, expected.size());
    launch(*kernel, {1}, x.address(), out.address(), kChunks);
    return out.values();
  };
  for (uint64_t seed : {0, 1, 2, 3}) EXPECT_EQ(run(*make_emulator({.seed = seed}), 2), expected) << seed;
  if (Device* device = gpu()) {
    EXPECT_EQ(run(*device, 2), expected);
  }
  // Copies into the buffer of the previous chunk: a warp's wait says nothing of the other warps, which may still read
  // it.
  int found = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed)
    found += error_of([&] {
               run(*make_emulator({.seed = seed}), 3);
             }).find("an operand in shared memory was written") != std::string::npos;
  EXPECT_GE(found, 4);
}

// All kernels in one text, since starting ptxas takes as long as a small kernel. It names the kernel in what it says.
TEST(Wgmma, AssembledWithoutSerialisation) {
  SKIP_WITHOUT_PTXAS();
  std::string all;
  size_t kernels = 0;
  auto add = [&](const KernelImage& image, std::string name) {
    std::ranges::replace(name, '.', '_');
    std::string ptx = ptx_of(image);
    const std::string entry = ".entry k(", header = ".address_size 64\n";
    ASSERT_NE(ptx.find(entry), ptx.npos) << ptx;
    ptx.replace(ptx.find(entry), entry.size(), ".entry " + name + "(");
    all += kernels++ ? ptx.substr(ptx.find(header) + header.size()) : ptx;
  };
  const bool quick = random_count(1) == 1;
  for (int n : {64, 128, 192, 256})
    for (Elem elem : {Elem::F16, Elem::BF16, Elem::F32, Elem::I8, Elem::U8}) {
      // What spills or is serialised depends on the number of sums and on their type, float or integer.
      if (quick && (elem == Elem::I8 ? n == 128 || n == 192 : elem != Elem::F16 && n > 64)) continue;
      Multiplication s;
      s.n = n, s.elem = elem, s.b.lines = n;
      s.a.element = s.b.element = elem_bits(elem) / 8;
      s.a.depth = s.b.depth = 128 / s.a.element;
      for (int pending : {0, 1})
        add(make_image({pointer("x", Elem::I32), pointer("out"), scalar("n")}, pipeline_text(s, 2, pending), 4,
                       4 * (s.a.bytes() + s.b.bytes()), declarations(n, row(s))),
            fmt::format("pipeline_{}_pending_{}", pending, row(s)));
      s.b.mn_major = s.b.element == 2;
      for (bool a_in_registers : {false, true}) {
        s.a_in_registers = a_in_registers;
        s.a.mn_major = !a_in_registers && s.a.element == 2;
        s.steps = 4;
        add(image(s), row(s));
      }
    }
  const PtxasRun run = assemble(all, "sm_90a");
  EXPECT_EQ(run.status, 0) << run.log;
  EXPECT_EQ(run.log.find("C75"), run.log.npos) << run.log;
  EXPECT_EQ(kernels_in_registers(run), kernels) << run.log;
}

}  // namespace
}  // namespace tegula
