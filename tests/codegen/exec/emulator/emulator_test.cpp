// The emulator: what kernels compute on it.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <random>

#include "codegen/exec/emulator/launch/fibers.h"
#include "runtime/base/float16.h"
#include "tests/codegen/exec/emulator/emulator_kernels.h"
#include "tests/forked_child.h"

namespace tegula {
namespace {

TEST(Emulator, AddsVectorsWithTail) {
  for (auto options : {EmulatorOptions{}, EmulatorOptions{.threads = 3, .seed = 7, .resident_programs = 4},
                       EmulatorOptions{.check_bounds = false}}) {
    auto device = make_emulator(options);
    auto kernel = device->load(make_image(kAddParams, kAdd, 4));
    for (int n : {1, 127, 128, 129, 10000}) {
      Array<float> x(*device, iota(n)), y(*device, iota(n, 5)), z(*device, n);
      launch(*kernel, {unsigned(n + 127) / 128}, x.address(), y.address(), z.address(), n);
      std::vector<float> result = z.values();
      for (int i = 0; i < n; ++i) ASSERT_EQ(result[i], 2 * i + 5) << n;
    }
  }
}

// A launch that ends at once wakes one worker; others join those that last.
TEST(Emulator, ShortLaunchesRunInOneThread) {
  using std::filesystem::directory_iterator;
  auto threads = [] { return std::distance(directory_iterator("/proc/self/task"), directory_iterator()); };
  const auto before = threads();
  auto started_for = [&](int n) {
    auto device = make_emulator({.threads = 4});
    auto kernel = device->load(make_image(kAddParams, kAdd, 4));
    Array<float> x(*device, iota(n)), y(*device, iota(n, 5)), z(*device, n);
    launch(*kernel, {unsigned(n + 127) / 128}, x.address(), y.address(), z.address(), n);
    const std::vector<float> result = z.values();
    for (int i = 0; i < n; ++i) EXPECT_EQ(result[size_t(i)], float(2 * i + 5));
    return threads() - before;
  };
  bool alone = false;  // on a loaded machine a short launch may last, too
  for (int attempt = 0; attempt < 500 && !alone; ++attempt) alone = started_for(1280) == 1;
  EXPECT_TRUE(alone);
  EXPECT_EQ(started_for(1 << 20), 4);
}

TEST(Emulator, LaunchesInAForkedChild) {
  auto device = make_emulator({.threads = 2});
  auto kernel = device->load(make_image(kAddParams, kAdd, 4));
  auto adds = [&] {
    const int n = 10000;
    Array<float> x(*device, iota(n)), y(*device, iota(n, 5)), z(*device, n);
    launch(*kernel, {unsigned(n + 127) / 128}, x.address(), y.address(), z.address(), n);
    const std::vector<float> result = z.values();
    for (int i = 0; i < n; ++i)
      if (result[size_t(i)] != float(2 * i + 5)) return false;
    return true;
  };
  EXPECT_TRUE(adds());
  EXPECT_TRUE(true_in_forked_child([&] {
    const bool works = adds();
    kernel = {};
    device.reset();
    return works;
  }));
  EXPECT_TRUE(adds());
}

TEST(Emulator, ArgumentsOfEveryType) {
  auto device = make_emulator();
  auto kernel = device->load(make_image({pointer("out", Elem::F64), scalar("a", Elem::I1), scalar("b", Elem::I8),
                                         scalar("c", Elem::I16), scalar("d", Elem::I64), scalar("e", Elem::F16),
                                         scalar("f", Elem::BF16), scalar("g", Elem::F32), scalar("h", Elem::F64)},
                                        R"(
  %t = call i32 @tegula.hw.thread_id()
  %first = icmp eq i32 %t, 0
  %a1 = uitofp i8 %a to double
  %b1 = sitofp i8 %b to double
  %c1 = sitofp i16 %c to double
  %d1 = sitofp i64 %d to double
  %e1 = fpext half %e to double
  %f1 = fpext bfloat %f to double
  %g1 = fpext float %g to double
  %s1 = fadd double %a1, %b1
  %s2 = fadd double %s1, %c1
  %s3 = fadd double %s2, %d1
  %s4 = fadd double %s3, %e1
  %s5 = fadd double %s4, %f1
  %s6 = fadd double %s5, %g1
  %s7 = fadd double %s6, %h
  %bits = bitcast double %s7 to i64
  call void @tegula.hw.st_global_b64(ptr addrspace(1) %out, i64 %bits, i1 %first, i32 1)
  ret void)"));
  Array<double> out(*device, 1);
  launch(*kernel, {1}, out.address(), uint8_t(1), int8_t(-3), int16_t(-500), int64_t(1) << 40, uint16_t(0x3E00),
         uint16_t(0x4020), 0.25f, 1e-3);
  EXPECT_EQ(out.values()[0], 1 - 3 - 500 + 0x1p40 + 1.5 + 2.5 + 0.25 + 1e-3);
}

TEST(Emulator, GridOfThreeDimensions) {
  auto device = make_emulator();
  // out[linear] = x + 100 y + 10000 z; the extents come from num_programs.
  auto kernel = device->load(make_image({pointer("out", Elem::I32)}, R"(
  %t = call i32 @tegula.hw.thread_id()
  %first = icmp eq i32 %t, 0
  %x = call i32 @tegula.hw.program_id_x()
  %y = call i32 @tegula.hw.program_id_y()
  %z = call i32 @tegula.hw.program_id_z()
  %nx = call i32 @tegula.hw.num_programs_x()
  %ny = call i32 @tegula.hw.num_programs_y()
  %nz = call i32 @tegula.hw.num_programs_z()
  %l1 = mul i32 %z, %ny
  %l2 = add i32 %l1, %y
  %l3 = mul i32 %l2, %nx
  %l = add i32 %l3, %x
  %y100 = mul i32 %y, 100
  %z10000 = mul i32 %z, 10000
  %v1 = add i32 %x, %y100
  %v2 = add i32 %v1, %z10000
  %nz6 = mul i32 %nz, 1000000
  %v = add i32 %v2, %nz6
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %l
  call void @tegula.hw.st_global_b32(ptr addrspace(1) %p, i32 %v, i1 %first, i32 1)
  ret void)"));
  Array<int> out(*device, 3 * 5 * 7);
  launch(*kernel, {3, 5, 7}, out.address());
  std::vector<int> result = out.values();
  for (int i = 0; i < 105; ++i) EXPECT_EQ(result[i], i % 3 + i / 3 % 5 * 100 + i / 15 * 10000 + 7000000);
  EXPECT_EQ(error_of_launch(*kernel, {1, 0, 1}, out.address()), "no error");
  EXPECT_CONTAINS(error_of_launch(*kernel, {1, 65536, 1}, out.address()), "a grid of 1 x 65536 x 1 programs");
}

TEST(Emulator, ShufflesSumAndBroadcast) {
  std::string body = R"(
  %t = call i32 @tegula.hw.thread_id()
  %v0 = mul i32 %t, %t
)";
  for (int i = 0; i < 5; ++i)
    body +=
        fmt::format("  %s{0} = call i32 @tegula.hw.shfl_bfly_b32(i32 %v{0}, i32 {1})\n  %v{2} = add i32 %v{0}, %s{0}\n",
                    i, 16 >> i, i + 1);
  body += R"(
  %r = call i32 @tegula.hw.shfl_idx_b32(i32 %t, i32 5)
  %q = mul i32 %r, 1000000
  %w = add i32 %v5, %q
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %t
  call void @tegula.hw.st_global_b32(ptr addrspace(1) %p, i32 %w, i1 true, i32 1)
  ret void)";
  for (uint64_t seed : {0, 1, 2, 3}) {
    auto device = make_emulator({.seed = seed});
    auto kernel = device->load(make_image({pointer("out", Elem::I32)}, body, 2));
    Array<int> out(*device, 64);
    launch(*kernel, {1}, out.address());
    std::vector<int> result = out.values();
    for (int t = 0; t < 64; ++t) {
      int sum = 0;
      for (int i = t / 32 * 32; i < t / 32 * 32 + 32; ++i) sum += i * i;
      EXPECT_EQ(result[t], sum + 1000000 * (t / 32 * 32 + 5)) << t;
    }
  }
}

TEST(Emulator, ExchangesThroughSharedMemory) {
  for (uint64_t seed : {0, 5}) {
    auto device = make_emulator({.seed = seed});
    auto kernel = device->load(make_image({pointer("out", Elem::I32)}, kReverse, 4, 512));
    Array<int> out(*device, 128 * 50);
    launch(*kernel, {50}, out.address());
    std::vector<int> result = out.values();
    for (int i = 0; i < 128 * 50; ++i) ASSERT_EQ(result[i], 127 - i % 128);
  }
}

TEST(Emulator, SharedMemoryStartsPoisonedBelow4GiBAndAligned) {
  auto device = make_emulator({.threads = 1});
  auto kernel = device->load(make_image({pointer("out", Elem::I32)}, R"(
  %t = call i32 @tegula.hw.thread_id()
  %first = icmp eq i32 %t, 0
  %base = call i32 @tegula.hw.shared_base()
  %v = call i32 @tegula.hw.ld_shared_b32(i32 %base, i32 3)
  call void @tegula.hw.barrier(i32 2)
  call void @tegula.hw.st_shared_b32(i32 %base, i32 1, i1 true, i32 1)
  %pid = call i32 @tegula.hw.program_id_x()
  %i = mul i32 %pid, 2
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %i
  call void @tegula.hw.st_global_v2b32(ptr addrspace(1) %p, i32 %v, i32 %base, i1 %first, i32 4)
  ret void)",
                                        1, 232448));
  Array<uint32_t> out(*device, 4);
  launch(*kernel, {2}, out.address());
  std::vector<uint32_t> result = out.values();
  EXPECT_EQ(result[0], 0xCDCDCDCD);
  EXPECT_EQ(result[2], 0xCDCDCDCD);
  EXPECT_NE(result[1], 0u);
  EXPECT_EQ(result[1] % (256 << 10), 0u);
}

TEST(Emulator, AccessesOfEveryWidth) {
  auto device = make_emulator();
  // Each thread copies its 31 bytes: 1 + 2 + 4 + 8 + 16 of five arrays that lie behind each other.
  auto kernel = device->load(make_image({pointer("in", Elem::U8), pointer("out", Elem::U8)}, R"(
  %t = call i32 @tegula.hw.thread_id()
  %a0 = getelementptr i8, ptr addrspace(1) %in, i32 %t
  %b0 = getelementptr i8, ptr addrspace(1) %out, i32 %t
  %v0 = call i16 @tegula.hw.ld_global_b8(ptr addrspace(1) %a0, i16 0, i1 true, i32 1)
  call void @tegula.hw.st_global_b8(ptr addrspace(1) %b0, i16 %v0, i1 true, i32 1)
  %x1 = getelementptr i8, ptr addrspace(1) %in, i32 32
  %y1 = getelementptr i8, ptr addrspace(1) %out, i32 32
  %a1 = getelementptr i16, ptr addrspace(1) %x1, i32 %t
  %b1 = getelementptr i16, ptr addrspace(1) %y1, i32 %t
  %v1 = call i16 @tegula.hw.ld_global_b16(ptr addrspace(1) %a1, i16 0, i1 true, i32 1)
  call void @tegula.hw.st_global_b16(ptr addrspace(1) %b1, i16 %v1, i1 true, i32 1)
  %x2 = getelementptr i8, ptr addrspace(1) %in, i32 96
  %y2 = getelementptr i8, ptr addrspace(1) %out, i32 96
  %a2 = getelementptr i32, ptr addrspace(1) %x2, i32 %t
  %b2 = getelementptr i32, ptr addrspace(1) %y2, i32 %t
  %v2 = call i32 @tegula.hw.ld_global_b32(ptr addrspace(1) %a2, i32 0, i1 true, i32 1)
  call void @tegula.hw.st_global_b32(ptr addrspace(1) %b2, i32 %v2, i1 true, i32 1)
  %x3 = getelementptr i8, ptr addrspace(1) %in, i32 224
  %y3 = getelementptr i8, ptr addrspace(1) %out, i32 224
  %a3 = getelementptr i64, ptr addrspace(1) %x3, i32 %t
  %b3 = getelementptr i64, ptr addrspace(1) %y3, i32 %t
  %v3 = call i64 @tegula.hw.ld_global_b64(ptr addrspace(1) %a3, i64 0, i1 true, i32 1)
  call void @tegula.hw.st_global_b64(ptr addrspace(1) %b3, i64 %v3, i1 true, i32 1)
  %x4 = getelementptr i8, ptr addrspace(1) %in, i32 480
  %y4 = getelementptr i8, ptr addrspace(1) %out, i32 480
  %a4 = getelementptr {i64, i64}, ptr addrspace(1) %x4, i32 %t
  %b4 = getelementptr {i64, i64}, ptr addrspace(1) %y4, i32 %t
  %even = trunc i32 %t to i1
  %v4 = call {i32, i32, i32, i32} @"tegula.hw.ld_global_v4b32.ca.L1::evict_last"(ptr addrspace(1) %a4, i32 11, i32 12, i32 13, i32 14, i1 %even, i32 1)
  %e0 = extractvalue {i32, i32, i32, i32} %v4, 0
  %e1 = extractvalue {i32, i32, i32, i32} %v4, 1
  %e2 = extractvalue {i32, i32, i32, i32} %v4, 2
  %e3 = extractvalue {i32, i32, i32, i32} %v4, 3
  call void @tegula.hw.st_global_v4b32(ptr addrspace(1) %b4, i32 %e0, i32 %e1, i32 %e2, i32 %e3, i1 true, i32 1)
  ret void)"));
  std::vector<uint8_t> in(992);
  std::mt19937 random(1);
  for (uint8_t& byte : in) byte = uint8_t(random());
  Array<uint8_t> x(*device, in), y(*device, in.size());
  launch(*kernel, {1}, x.address(), y.address());
  // Where the predicate of the last load is false, the given values.
  for (int t = 0; t < 32; t += 2)
    for (int e = 0; e < 4; ++e) {
      int given = 11 + e;
      std::memcpy(&in[480 + 16 * t + 4 * e], &given, 4);
    }
  EXPECT_EQ(y.values(), in);
}

// ---- Atomics

TEST(Emulator, AddsAtomicallyFromManyPrograms) {
  struct Case {
    std::string row, type, one;
    int bytes;
    double (*read)(const uint8_t*);
    double expected;
  };
  auto as = []<class T>(T) {
    return +[](const uint8_t* p) {
      T v;
      std::memcpy(&v, p, sizeof v);
      return double(v);
    };
  };
  const Case cases[] = {
      {"atom_add_i32.acq_rel.gpu", "i32", "3", 4, as(int32_t()), 3 * 64 * 500},
      {"atom_add_i64", "i64", "8589934592", 8, as(int64_t()), 0x1p33 * 64 * 500},
      {"atom_add_f32", "float", "0.5", 4, as(float()), 0.5 * 64 * 500},
      {"atom_add_f64", "double", "0.25", 8, as(double()), 0.25 * 64 * 500},
      // The sum stops growing where a summand is below half a unit in the last place, which is the right result.
      {"atom_add_f16", "half", "1.0", 2,
       +[](const uint8_t* p) {
         uint16_t v;
         std::memcpy(&v, p, 2);
         return double(float(float16::of_bits(v)));
       },
       2048},
      {"atom_add_bf16", "bfloat", "1.0", 2,
       +[](const uint8_t* p) {
         uint16_t v;
         std::memcpy(&v, p, 2);
         return double(float(bfloat16::of_bits(v)));
       },
       256},
  };
  auto device = make_emulator();
  for (const Case& c : cases) {
    auto kernel = device->load(make_image(
        {pointer("sum", Elem::U8)},
        fmt::format("  %o = call {0} @tegula.hw.{1}(ptr addrspace(1) %sum, {0} {2}, i1 true, i32 1)\n"
                    "  %n = call {0} @tegula.hw.{1}(ptr addrspace(1) null, {0} {2}, i1 false, i32 1)\n  ret void",
                    c.type, c.row, c.one),
        2));
    Array<uint8_t> sum(*device, 16);
    launch(*kernel, {500}, sum.address());
    std::vector<uint8_t> bytes = sum.values();
    EXPECT_EQ(c.read(bytes.data()), c.expected) << c.row;
    EXPECT_EQ(bytes[c.bytes], 0) << c.row;
  }
}

TEST(Emulator, ProgramsMayWaitForEachOther) {
  auto device = make_emulator({.threads = 2});
  // Every thread arrives, then spins until all 8 x 32 have.
  auto kernel = device->load(make_image({pointer("count", Elem::I32)}, R"(
entry:
  %o = call i32 @tegula.hw.atom_add_i32.acq_rel.gpu(ptr addrspace(1) %count, i32 1, i1 true, i32 1)
  br label %spin
spin:
  %v = call i32 @tegula.hw.ld_global_b32.volatile(ptr addrspace(1) %count, i32 0, i1 true, i32 2)
  %all = icmp eq i32 %v, 256
  br i1 %all, label %done, label %spin
done:
  ret void)"));
  Array<int> count(*device, 1);
  launch(*kernel, {8}, count.address());
  EXPECT_EQ(count.values()[0], 256);
}

TEST(Emulator, SeedGivesTheOrderOfThreads) {
  // Each thread takes the next number.
  auto order = [](uint64_t seed) {
    auto device = make_emulator({.threads = 1, .seed = seed});
    auto kernel = device->load(make_image({pointer("count", Elem::I32), pointer("out", Elem::I32)}, R"(
  %t = call i32 @tegula.hw.thread_id()
  %o = call i32 @tegula.hw.atom_add_i32.acq_rel.gpu(ptr addrspace(1) %count, i32 1, i1 true, i32 1)
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %t
  call void @tegula.hw.st_global_b32(ptr addrspace(1) %p, i32 %o, i1 true, i32 4)
  ret void)",
                                          2));
    Array<int> count(*device, 1), out(*device, 64);
    launch(*kernel, {1}, count.address(), out.address());
    return out.values();
  };
  std::vector<int> in_order(64);
  std::iota(in_order.begin(), in_order.end(), 0);
  EXPECT_EQ(order(0), in_order);
  EXPECT_NE(order(1), in_order);
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

TEST(Emulator, ThreadsKeepPaceBetweenLoadsAndStores) {
  // Each thread stores what its neighbour held, twice; the masked load and store keep pace, too.
  std::string body = R"(
  %t = call i32 @tegula.hw.thread_id()
  %n = add i32 %t, 1
  %next = and i32 %n, 63
  %p = getelementptr i32, ptr addrspace(1) %data, i32 %t
  %q = getelementptr i32, ptr addrspace(1) %data, i32 %next
  %some = icmp ult i32 %t, 40)";
  for (int i = 0; i < 2; ++i)
    body += fmt::format(R"(
  %v{0} = call i32 @tegula.hw.ld_global_b32(ptr addrspace(1) %q, i32 0, i1 %some, i32 1)
  call void @tegula.hw.st_global_b32(ptr addrspace(1) %p, i32 %v{0}, i1 %some, i32 2))",
                        i);
  auto device = make_emulator();
  auto kernel = device->load(make_image({pointer("data", Elem::I32)}, body + "\n  ret void", 2));
  std::vector<int> numbers(64);
  std::iota(numbers.begin(), numbers.end(), 0);
  Array<int> data(*device, numbers);
  launch(*kernel, {1}, data.address());
  for (int t = 0; t < 38; ++t) EXPECT_EQ(data.values()[t], t + 2);
  EXPECT_EQ(data.values()[38], 40);
  EXPECT_EQ(data.values()[39], 40);
}

TEST(Emulator, StacksAreAsLargeAsFrames) {
  auto device = make_emulator({.threads = 1});
  // Many matrix instructions behind each other reuse one place on the stack.
  std::string body = "  %t = call i32 @tegula.hw.thread_id()\n  %f0 = bitcast i32 %t to float\n";
  for (int i = 0; i < 500; ++i)
    body += fmt::format(
        "  %r{0} = call {{float, float, float, float}} @tegula.hw.mma_m16n8k16_f16(i32 %t, i32 %t, i32 %t, i32 %t, i32 "
        "%t, i32 %t, float %f{0}, float %f{0}, float %f{0}, float %f{0})\n"
        "  %f{1} = extractvalue {{float, float, float, float}} %r{0}, 2\n",
        i, i + 1);
  EXPECT_EQ(error_of([&] { device->load(make_image({}, body + "  ret void")); }), "no error");
  // Each thread has its number at both ends of its frame while all others write to theirs.
  auto of_frame = [](int bytes) {
    return make_image({pointer("out", Elem::I32)},
                      fmt::format(R"(
  %t = call i32 @tegula.hw.thread_id()
  %a = alloca [{0} x i32], align 16
  %b = getelementptr i32, ptr %a, i32 {1}
  store volatile i32 %t, ptr %a
  store volatile i32 %t, ptr %b
  call void @tegula.hw.barrier(i32 1)
  %x = load volatile i32, ptr %a
  %y = load volatile i32, ptr %b
  %s = add i32 %x, %y
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %t
  call void @tegula.hw.st_global_b32(ptr addrspace(1) %p, i32 %s, i1 true, i32 2)
  ret void)",
                                  bytes / 4, bytes / 4 - 1),
                      2);
  };
  for (int bytes : {16, 70000, 1000, 500000}) {
    Array<int> out(*device, 64);
    launch(*device->load(of_frame(bytes)), {3}, out.address());
    for (int t = 0; t < 64; ++t) EXPECT_EQ(out.values()[size_t(t)], 2 * t) << bytes;
  }
  EXPECT_CONTAINS(error_of([&] { device->load(of_frame(2000000)); }),
                  "bytes of stack a thread on the emulator, which gives up to 1048576");
}

// Code that is optimised while its launch runs, or between launches, computes the same bits; products and sums are
// contracted as the flags say, not as a code generator likes.
TEST(Emulator, LongLaunchesAreOptimisedOnTheWay) {
  const char* const kBody = R"(
entry:
  %t = call i32 @tegula.hw.thread_id()
  %f = sitofp i32 %t to float
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %v = phi float [ %f, %entry ], [ %w, %loop ]
  %m = fmul contract float %v, 0x3FEFAE1480000000
  %w = fsub contract float %m, 0x3FB99999A0000000
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %n
  br i1 %more, label %loop, label %end
end:
  %p = getelementptr float, ptr addrspace(1) %x, i32 %t
  %bits = bitcast float %w to i32
  call void @tegula.hw.st_global_b32(ptr addrspace(1) %p, i32 %bits, i1 true, i32 1)
  ret void)";
  auto device = make_emulator({.threads = 2});
  auto kernel = device->load(make_image({pointer("x"), scalar("n")}, kBody));
  Array<float> x(*device, 32);
  for (unsigned programs : {1u, 20u, 5000u, 1u}) {  // the third one runs for longer than the code's optimisation takes
    launch(*kernel, {programs}, x.address(), 150);
    for (int t = 0; t < 32; ++t) {
      float v = float(t);
      for (int i = 0; i < 150; ++i) v = std::fma(v, 0x1.FAE148p-1f, -0x1.99999Ap-4f);
      EXPECT_EQ(x.values()[size_t(t)], v) << programs << " programs, thread " << t;
    }
  }
}

// ---- Speed

/// Softmax of rows of 4096, one a program of 128 threads with 8 accesses of 16 bytes each.
std::string softmax_row() {
  std::string b = R"(
  %t = call i32 @tegula.hw.thread_id()
  %pid = call i32 @tegula.hw.program_id_x()
  %first = mul i32 %pid, 4096
  %t4 = mul i32 %t, 4
  %start = add i32 %first, %t4
  %base = call i32 @tegula.hw.shared_base()
  %warp = lshr i32 %t, 5
  %lane = and i32 %t, 31
  %writes = icmp eq i32 %lane, 0
  %w4 = mul i32 %warp, 4
  %sw = add i32 %base, %w4
)";
  for (int v = 0; v < 8; ++v) {
    b += fmt::format(
        "  %i{0} = add i32 %start, {1}\n  %ip{0} = getelementptr float, ptr addrspace(1) %in, i32 %i{0}\n"
        "  %op{0} = getelementptr float, ptr addrspace(1) %out, i32 %i{0}\n"
        "  %l{0} = call {{i32, i32, i32, i32}} @\"tegula.hw.ld_global_v4b32.ca.L1::evict_last\"(ptr addrspace(1) "
        "%ip{0}, "
        "i32 0, "
        "i32 0, i32 0, i32 0, i1 true, i32 1)\n",
        v, v * 512);
    for (int e = 0; e < 4; ++e)
      b += fmt::format(
          "  %b{0} = extractvalue {{i32, i32, i32, i32}} %l{1}, {2}\n  %x{0} = bitcast i32 %b{0} to float\n", 4 * v + e,
          v, e);
  }
  // Reduces %<name>0 .. %<name>31 over the program with an operation on two floats.
  auto reduce = [&](const std::string& name, const std::string& values, const std::string& call, int shared) {
    std::string last = "%" + values + "0";
    int n = 0;
    auto combine = [&](const std::string& x) {
      std::string next = fmt::format("%{}r{}", name, n++);
      b += fmt::format("  {} = {}\n", next, fmt::format(fmt::runtime(call), last, x));
      last = next;
    };
    auto butterfly = [&](int mask) {
      std::string id = fmt::format("{}{}", name, n);
      b += fmt::format(
          "  %{0}i = bitcast float {1} to i32\n  %{0}s = call i32 @tegula.hw.shfl_bfly_b32(i32 %{0}i, i32 {2})\n"
          "  %{0}f = bitcast i32 %{0}s to float\n",
          id, last, mask);
      combine("%" + id + "f");
    };
    for (int i = 1; i < 32; ++i) combine(fmt::format("%{}{}", values, i));
    for (int mask = 16; mask; mask /= 2) butterfly(mask);
    b += fmt::format("  %{0}b = bitcast float {1} to i32\n  %{0}a = add i32 %sw, {2}\n", name, last, shared);
    b += fmt::format(
        "  call void @tegula.hw.st_shared_b32(i32 %{0}a, i32 %{0}b, i1 %writes, i32 2)\n"
        "  call void @tegula.hw.barrier(i32 3)\n  %{0}ra = add i32 %base, {1}\n"
        "  %{0}v = call {{i32, i32, i32, i32}} @tegula.hw.ld_shared_v4b32(i32 %{0}ra, i32 4)\n"
        "  call void @tegula.hw.barrier(i32 4)\n",
        name, shared);
    for (int e = 0; e < 4; ++e) {
      b += fmt::format(
          "  %{0}e{1} = extractvalue {{i32, i32, i32, i32}} %{0}v, {1}\n  %{0}g{1} = bitcast i32 %{0}e{1} to float\n",
          name, e);
      if (e == 0)
        last = "%" + name + "g0";
      else
        combine(fmt::format("%{}g{}", name, e));
    }
    return last;
  };
  std::string max = reduce("m", "x", "call float @llvm.maxnum.f32(float {}, float {})", 0);
  for (int i = 0; i < 32; ++i)
    b += fmt::format(
        "  %d{0} = fsub float %x{0}, {1}\n  %k{0} = fmul float %d{0}, 0x3FF7154760000000\n"
        "  %ex{0} = call float @tegula.hw.ex2_approx_f32(float %k{0})\n",
        i, max);
  std::string sum = reduce("q", "ex", "fadd float {}, {}", 16);
  for (int v = 0; v < 8; ++v) {
    std::string values;
    for (int e = 0; e < 4; ++e) {
      b += fmt::format(
          "  %y{0} = call float @tegula.hw.div_full_f32(float %ex{0}, float {1})\n  %z{0} = bitcast float %y{0} to "
          "i32\n",
          4 * v + e, sum);
      values += fmt::format("i32 %z{}, ", 4 * v + e);
    }
    b += fmt::format("  call void @tegula.hw.st_global_v4b32(ptr addrspace(1) %op{}, {}i1 true, i32 5)\n", v, values);
  }
  return b + "  ret void";
}

TEST(Emulator, SoftmaxOf4096By4096) {
  auto device = make_emulator();
  KernelImage image = make_image({pointer("in"), pointer("out")}, softmax_row(), 4, 32);
  using Clock = std::chrono::steady_clock;
  auto seconds = [](auto from) { return std::chrono::duration<double>(Clock::now() - from).count(); };
  auto compile_start = Clock::now();
  auto kernel = device->load(image);
  double compile_time = seconds(compile_start);
  constexpr int kRows = 4096, kColumns = 4096;
  std::vector<float> values(kRows * kColumns);
  std::mt19937 random(2);
  for (float& v : values) v = float(random() % 20000) / 1000 - 10;
  Array<float> in(*device, values), out(*device, values.size());
  launch(*kernel, {16}, in.address(), out.address());
  auto start = Clock::now();
  launch(*kernel, {kRows}, in.address(), out.address());
  double time = seconds(start);
  fmt::print("softmax 4096 x 4096: {:.3f} s on {} workers, compiled in {:.3f} s\n", time, device->info().num_sms,
             compile_time);
  RecordProperty("seconds", fmt::format("{:.3f}", time));
  std::vector<float> result = out.values();
  for (int row : {0, 1, 2047, 4095}) {
    const float* x = &values[size_t(row) * kColumns];
    double max = *std::max_element(x, x + kColumns), sum = 0;
    for (int i = 0; i < kColumns; ++i) sum += std::exp(x[i] - max);
    for (int i = 0; i < kColumns; ++i) {
      double expected = std::exp(x[i] - max) / sum;
      ASSERT_NEAR(result[size_t(row) * kColumns + i], expected, 2e-6 * expected) << row << " " << i;
    }
  }
}

// A thread that needs more than its stack ends the process, and does not write into the stack below.
TEST(EmulatorDeathTest, StacksAreGuarded) {
  constexpr size_t kBytes = 32 << 10, kPages = 3 * 4096;  // what the pool adds: room for tops, the guard
  emulator::StackPool pool;
  EXPECT_TRUE(pool.widen(kBytes));
  pool.reserve(2);
  emulator::Fiber fiber;
  pool.start(fiber, 1, [](boost::context::detail::transfer_t) {});
  auto* const top = static_cast<volatile char*>(fiber.context);
  for (size_t i = 0; i < kBytes; ++i) top[-ptrdiff_t(i)] = 0;
  auto overflow = [&] {
    for (size_t i = kBytes; i < kBytes + kPages; ++i) top[-ptrdiff_t(i)] = 0;
  };
  EXPECT_DEATH(overflow(), "");
}

}  // namespace
}  // namespace tegula
