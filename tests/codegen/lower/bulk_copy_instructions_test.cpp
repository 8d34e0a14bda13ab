// label: device
// The hardware's bulk copies, called by hand: what the emulator says of mistakes, arguments that allow no tensor map,
// and the assembler of their PTX. A box has 16 x 8 words of an array of 64 x 64, no swizzle unless the map has one.
#include "codegen/exec/generate.h"
#include "tests/assembler.h"
#include "tests/codegen/exec/emulator/emulator_kernels.h"

namespace tegula {
namespace {

const char* const kBulkRows = R"(
declare void @tegula.hw.mbarrier_init(i32, i32, i1, i32)
declare void @tegula.hw.mbarrier_inval(i32, i1, i32)
declare void @tegula.hw.mbarrier_arrive(i32, i1, i32)
declare void @tegula.hw.mbarrier_arrive_expect(i32, i32, i1, i32)
declare void @tegula.hw.mbarrier_wait(i32, i32, i32) convergent
declare void @tegula.hw.bulk_copy_1d(i32, i64, i32, i32, i1, i32)
declare void @tegula.hw.bulk_copy_2d(i32, i64, i32, i32, i32, i1, i32)
declare void @tegula.hw.bulk_copy_3d(i32, i64, i32, i32, i32, i32, i1, i32)
declare void @tegula.hw.bulk_copy_4d(i32, i64, i32, i32, i32, i32, i32, i1, i32)
declare void @tegula.hw.bulk_copy_5d(i32, i64, i32, i32, i32, i32, i32, i32, i1, i32)
declare i1 @tegula.hw.elect_lane() convergent
declare void @tegula.hw.prefetch_tensor_map(i64, i1)
declare void @tegula.hw.fence_async_shared()
)";

constexpr int kShared = 16384, kPlaces = 1024, kBoxBytes = 512;

TensorMaps words(int columns = 64, std::vector<int32_t> box = {16, 8}, int swizzle = 0) {
  TensorMaps maps;
  maps.steps = {{LaunchStep::Argument, Elem::U64, {}, 0},
                {LaunchStep::Constant, Elem::I32, {}, columns},
                {LaunchStep::Constant, Elem::I32, {}, 64}};
  maps.maps = {{Elem::I32, swizzle, std::move(box), 0, {1, 2}, {1}}};
  return maps;
}

// As words(), but for the array's begin, 16 rows before the memory.
TensorMaps before_the_array() {
  TensorMaps maps = words();
  maps.steps.push_back({LaunchStep::Constant, Elem::I64, {}, 16 * 64 * int64_t(sizeof(int32_t))});
  maps.steps.push_back({LaunchStep::Sub, Elem::U64, {0, 3}, 0});
  maps.maps[0].base = 4;
  return maps;
}

std::string copy(const std::string& to, int x = 0, int y = 0, int site = 3, const std::string& barrier = "%b0",
                 const std::string& map = "%map") {
  return fmt::format("  call void @tegula.hw.bulk_copy_2d(i32 {}, i64 {}, i32 {}, i32 {}, i32 {}, i1 true, i32 {})\n",
                     to, map, barrier, x, y, site);
}
std::string expect(int bytes, int site = 2, const std::string& barrier = "%b0") {
  return fmt::format("  call void @tegula.hw.mbarrier_arrive_expect(i32 {}, i32 {}, i1 true, i32 {})\n", barrier, bytes,
                     site);
}
std::string wait(int parity = 0, int site = 4, const std::string& barrier = "%b0") {
  return fmt::format("  call void @tegula.hw.mbarrier_wait(i32 {}, i32 {}, i32 {})\n", barrier, parity, site);
}
std::string arrive(int site = 2, const std::string& barrier = "%b0") {
  return fmt::format("  call void @tegula.hw.mbarrier_arrive(i32 {}, i1 true, i32 {})\n", barrier, site);
}
std::string fence() { return "  call void @tegula.hw.fence_async_shared()\n"; }

// Thread 0 runs `steps`; %b0 and %b1 are barriers of one arrival, %to and %next places of a box.
KernelImage by_hand(const std::string& steps, TensorMaps maps = words(), const std::string& after_init = fence()) {
  return make_image({pointer("x", Elem::I32)},
                    fmt::format(R"(
  %t = call i32 @tegula.hw.thread_id()
  %first = icmp eq i32 %t, 0
  %b0 = call i32 @tegula.hw.shared_base()
  %b1 = add i32 %b0, 16
  %to = add i32 %b0, {}
  %next = add i32 %to, {}
  %map = ptrtoint ptr %map0 to i64
  call void @tegula.hw.mbarrier_init(i32 %b0, i32 1, i1 %first, i32 1)
  call void @tegula.hw.mbarrier_init(i32 %b1, i32 1, i1 %first, i32 1)
{}  call void @tegula.hw.barrier(i32 1)
  br i1 %first, label %one, label %end
one:
{}  br label %end
end:
  ret void)",
                                kPlaces, kBoxBytes, after_init, steps),
                    1, kShared, kBulkRows, std::move(maps));
}

std::string fault(const std::string& steps, TensorMaps maps = words(), const std::string& after_init = fence(),
                  uint64_t seed = 0) {
  auto device = make_emulator({.threads = 1, .seed = seed});
  return error_of([&] {
    auto kernel = device->load(by_hand(steps, maps, after_init));
    Array<int> x(*device, 64 * 64);
    launch(*kernel, {1}, x.address());
  });
}

std::string at(int line) { return fmt::format("\n  at k.py:{}:5, program (0, 0, 0), thread 0", line); }

TEST(BulkCopy, RightUses) {
  EXPECT_EQ(fault(expect(512) + copy("%to") + wait()), "no error");
  EXPECT_EQ(fault(copy("%to") + expect(512) + wait()), "no error") << "bytes are announced later";
  EXPECT_EQ(fault(expect(1024) + copy("%to") + copy("%next") + wait()), "no error");
  EXPECT_EQ(fault(expect(512) + copy("%to") + wait() + expect(512) + copy("%to") + wait(1)), "no error");
  EXPECT_EQ(fault(expect(512) + copy("%to", -100, 7000) + wait()), "no error") << "all of it outside";
}

TEST(BulkCopy, FaultsOfPhases) {
  const std::string begin = "kernel 'k': ";
  EXPECT_EQ(fault(expect(512) + copy("%to") + copy("%next", 0, 0, 5) + wait()),
            begin +
                "bulk copies bring more than the 512 bytes that the phase of the mbarrier at offset 0 of shared "
                "memory expects" +
                at(5));
  EXPECT_EQ(fault(copy("%to") + arrive(5) + wait()),
            begin +
                "bulk copies bring more than the 0 bytes that the phase of the mbarrier at offset 0 of shared memory "
                "expects" +
                at(5));
  EXPECT_EQ(fault(expect(1024) + copy("%to") + wait()),
            begin +
                "deadlock: thread 0 waits in mbarrier_wait at k.py:4:5 for parity 0 of the mbarrier at offset 0, "
                "whose phase has 1 of 1 arrivals and 512 of 1024 bytes; threads 1-31 have left the kernel\n  in "
                "program (0, 0, 0)");
  EXPECT_EQ(fault(expect(1 << 20)),
            begin +
                "the phase of the mbarrier at offset 0 of shared memory is to expect 1048576 bytes more; all in all "
                "1048575 can be" +
                at(2));
  EXPECT_EQ(fault(arrive() + copy("%to")),
            begin +
                "a bulk copy counts for a phase of the mbarrier at offset 0 of shared memory of which nobody knows "
                "that it has begun; a wait for the end of the one before is missing" +
                at(3));
  EXPECT_EQ(fault(expect(512) + copy("%to", 0, 0, 3, "%to") + wait()),
            begin +
                "the mbarrier at offset 1024 of shared memory is used, but not initialised: an mbarrier_init, or a "
                "barrier after it, is missing before, or an mbarrier_inval came too early" +
                at(3));
  EXPECT_EQ(fault(expect(512) + copy("%to") + "  call void @tegula.hw.mbarrier_inval(i32 %b0, i1 true, i32 5)\n"),
            begin +
                "mbarrier_inval of the mbarrier at offset 0 of shared memory, for which threads wait or copies are "
                "under way" +
                at(5));
}

TEST(BulkCopy, FaultsOfPlaces) {
  const std::string begin = "kernel 'k': ";
  const std::string load = "  %v = call i32 @tegula.hw.ld_shared_b32(i32 %to, i32 5)\n";
  const std::string store = "  call void @tegula.hw.st_shared_b32(i32 %to, i32 7, i1 true, i32 5)\n";
  for (uint64_t seed : {0, 1, 2, 3})
    EXPECT_EQ(fault(expect(512) + copy("%to") + load + wait(), words(), fence(), seed),
              begin +
                  "a read of shared memory at offset 1024, which a bulk copy issued at k.py:3:5 writes; a wait for "
                  "its phase is missing" +
                  at(5));
  EXPECT_EQ(fault(store + fence() + expect(512) + copy("%to") + wait()), "no error");
  const std::string odd = "  %odd = add i32 %to, 64\n", far = "  %far = add i32 %b0, 16384\n";
  EXPECT_EQ(fault(odd + expect(512) + copy("%odd")),
            begin + "a bulk copy to offset 1088 of shared memory, which is not a multiple of 128" + at(3));
  EXPECT_EQ(fault(expect(512) + copy("%next") + wait(), words(64, {16, 8}, 64)), "no error")
      << "a swizzle of 64 bytes repeats after 512";
  EXPECT_EQ(fault(expect(1024) + copy("%next"), words(64, {32, 8}, 128)),
            begin + "a bulk copy to offset 1536 of shared memory, which is not a multiple of 1024" + at(3));
  EXPECT_EQ(
      fault(far + expect(512) + copy("%far")),
      begin + "out-of-bounds write of 512 bytes in shared memory at offset 16384; the program has 16384 bytes" + at(3));
}

// What threads store and load beside what the asynchronous proxy writes.
TEST(BulkCopy, ProxyFaults) {
  const auto store = [](int offset) {
    return fmt::format(
        "  %s{0} = add i32 %to, {0}\n  call void @tegula.hw.st_shared_b32(i32 %s{0}, i32 7, i1 true, i32 5)\n", offset);
  };
  const auto load = [](int offset) {
    return fmt::format("  %l{0} = add i32 %to, {0}\n  %v{0} = call i32 @tegula.hw.ld_shared_b32(i32 %l{0}, i32 5)\n",
                       offset);
  };
  const std::string copied = expect(512) + copy("%to"), second = copy("%next", 0, 0, 6, "%b1");
  const std::string unseen = "thread 0 stored at k.py:5:5, and no fence_async_shared lies between",
                    under_way = "which a bulk copy issued at k.py:3:5 writes",
                    no_wait = "a wait for its phase is missing";
  expect_planted({0, 1, 2, 3}, [&](uint64_t seed) {
    const auto of = [&](const std::string& steps) { return fault(steps, words(), fence(), seed); };
    return std::vector<PlantedFault>{
        {"a store, no fence", of(store(0) + copied + wait()), {"offset 1024 that " + unseen, at(3)}},
        {"a fence ahead of the store", of(fence() + store(0) + copied + wait()), {"offset 1024 that " + unseen, at(3)}},
        {"a store to the end of the box", of(store(508) + copied + wait()), {unseen, at(3)}},
        {"one of two stores is behind the fence",
         of(store(0) + fence() + store(128) + copied + wait()),
         {"offset 1152 that " + unseen, at(3)}},
        {"a store between two copies", of(copied + wait() + store(0) + copied + wait(1)), {unseen, at(3)}},
        {"a barrier that is made known to no proxy",
         fault(copied + wait(), words(), "", seed),
         {"the mbarrier in shared memory at offset 0 that thread 0 stored at k.py:1:5, and no fence_async_shared lies",
          at(3)}},
        {"a load under way",
         of(copied + load(0) + wait()),
         {"a read of shared memory at offset 1024", under_way, at(5)}},
        {"a load of the last word under way", of(copied + load(508) + wait()), {"a read", under_way, no_wait, at(5)}},
        {"a load behind a wait for the phase before",
         of(copied + wait(1) + load(0) + wait()),
         {"a read", under_way, no_wait, at(5)}},
        {"a load behind a wait for another copy",
         of(expect(512, 2, "%b1") + second + copied + wait(0, 4, "%b1") + load(0) + wait()),
         {"a read", under_way, no_wait, at(5)}},
        {"a store under way", of(copied + store(0) + wait()), {"a write to shared memory", under_way, no_wait, at(5)}},
        {"two copies to one place",
         of(expect(1024) + copy("%to") + copy("%to", 16, 0, 6) + wait()),
         {"a write to shared memory at offset 1024", under_way, no_wait, at(6)}},
        {"the program ends under way", of(copied), {"is under way when the program ends", at(3)}},
        {"a map that is none of the launch's",
         of(expect(512) + copy("%to", 0, 0, 3, "%b0", "4096") + wait()),
         {"a tensor map that is none of the launch's", at(3)}},
    };
  });
}

TEST(BulkCopy, FaultsOfMaps) {
  const std::string begin = "kernel 'k': ";
  EXPECT_EQ(fault("  call void @tegula.hw.bulk_copy_1d(i32 %to, i64 %map, i32 %b0, i32 0, i1 true, i32 3)\n"),
            begin + "a bulk copy of 1 dimensions by a tensor map of 2" + at(3));
  EXPECT_CONTAINS(fault(expect(512) + copy("%to", 0, 60) + wait(), words(128)), "out-of-bounds read of 64 bytes at 0x");
  EXPECT_CONTAINS(fault(expect(512) + copy("%to", 0, 64) + wait(), before_the_array()),
                  "a bulk copy of a box that lies outside of its array, which begins at 0x");
  EXPECT_EQ(fault(expect(512) + copy("%to", 0, 16) + wait(), before_the_array()), "no error");
  EXPECT_EQ(fault(expect(512) + copy("%to", -6) + wait()),
            begin + "a bulk copy from element -6 of rows on, which is not a multiple of 4" + at(3));
  const std::string refused = "kernel 'k' cannot copy in bulk: ";
  EXPECT_EQ(fault("", words(64, {16, 512})), refused + "a box has an extent of 512, expected 1 to 256");
  EXPECT_EQ(fault("", words(64, {3, 8})), refused + "a box has rows of 12 bytes, expected a multiple of 16");
  EXPECT_EQ(fault("", words(64, {16, 8}, 32)),
            refused + "a box has rows of 64 bytes, expected at most the 32 of its swizzle");
  EXPECT_EQ(fault("", words(64, {16, 8}, 48)), refused + "a swizzle of 48 bytes, expected 0, 32, 64 or 128");
}

// ---- Arguments that allow no map

TEST(TensorMaps, ArithmeticOfALaunch) {
  TensorMaps maps;
  using S = LaunchStep;
  // base + (n / 3) * 4 bytes, extents max(n % 100, 1) and cast<u32>(-n), stride min(n, 64).
  maps.steps = {
      {S::Argument, Elem::U64, {}, 0},    {S::Argument, Elem::I32, {}, 1},    {S::Constant, Elem::I32, {}, 3},
      {S::Div, Elem::I32, {1, 2}, 0},     {S::Constant, Elem::I64, {}, 4},    {S::Mul, Elem::I64, {3, 4}, 0},
      {S::Add, Elem::U64, {0, 5}, 0},     {S::Constant, Elem::I32, {}, 100},  {S::Rem, Elem::I32, {1, 7}, 0},
      {S::Constant, Elem::I32, {}, 1},    {S::Maximum, Elem::I32, {8, 9}, 0}, {S::Constant, Elem::I32, {}, 0},
      {S::Sub, Elem::I32, {11, 1}, 0},    {S::Cast, Elem::U16, {12}, 0},      {S::Constant, Elem::I32, {}, 64},
      {S::Minimum, Elem::I32, {1, 14}, 0}};
  maps.maps = {{Elem::F32, 128, {32, 8}, 6, {10, 13}, {15}}};
  ASSERT_TRUE(maps.are_valid(2));
  EXPECT_FALSE(maps.are_valid(1));
  uint64_t base = 0x10000;
  int32_t n = 1224;
  void* args[] = {&base, &n};
  MappedArray array;
  ASSERT_TRUE(find_arrays(maps, args, &array));
  EXPECT_EQ(array.base, 0x10000 + 408 * 4);
  EXPECT_EQ(array.extents, (std::array<int64_t, 5>{24, (1 << 16) - 1224}));
  EXPECT_EQ(array.strides, (std::array<int64_t, 4>{256}));
  EXPECT_EQ(why_no_maps(maps, args), "");
  auto why = [&](uint64_t address, int32_t number) {
    base = address, n = number;
    EXPECT_FALSE(find_arrays(maps, args, &array));
    return why_no_maps(maps, args);
  };
  EXPECT_EQ(why(0x10008, 1200), "array 0: its address 0x10648 is not a multiple of 16");
  EXPECT_EQ(why(0, 0), "array 0: its address is null");
  EXPECT_EQ(why(0x10000, 0), "array 0: dimension 0 has the extent 0, expected 1 to 2147418112");
  EXPECT_EQ(why(0x10000, 1),
            "array 0: dimension 0 has a stride of 4 bytes, expected a multiple of 16 above 0 and below 1099511627776");
  EXPECT_EQ(
      why(0x10000, -36),
      "array 0: dimension 0 has a stride of -144 bytes, expected a multiple of 16 above 0 and below 1099511627776");
  maps.maps[0].non_negative = {12};
  EXPECT_EQ(why(0x10000, 1224), "array 0: -1224 takes part in its coordinates, expected no negative number");
}

TEST(TensorMaps, LaunchesWithoutAMapAreRefusedOrTakeOtherCode) {
  auto device = make_emulator({.threads = 1});
  auto kernel = device->load(by_hand(expect(512) + copy("%to") + wait()));
  Array<int> x(*device, 64 * 64 + 4);
  uint64_t odd = x.address() + 4;
  void* args[] = {&odd};
  EXPECT_FALSE(kernel->try_launch({1}, args, nullptr));
  try {
    kernel->launch({1}, args, nullptr);
    FAIL();
  } catch (const LaunchError& e) {
    EXPECT_EQ(std::string(e.what()),
              fmt::format("kernel 'k' copies arrays in bulk, which this launch does not allow: array 0: its address "
                          "{:#x} is not a multiple of 16\n  hint: compile it with bulk_copies=1",
                          odd));
  }
}

// ---- The assembler

std::string ptx_of_image(const KernelImage& image, const char* target) {
  return ptx_of_module(std::string_view(reinterpret_cast<const char*>(image.bitcode.data()), image.bitcode.size()),
                       *find_target(target));
}

KernelImage all_rows() {
  std::string steps =
      "  call void @tegula.hw.prefetch_tensor_map(i64 %map, i1 true)\n  %e = call i1 @tegula.hw.elect_lane()\n" +
      expect(512) + copy("%to", 8, 16);
  std::string coordinates = "i32 1";
  for (int rank = 1; rank <= 5; ++rank, coordinates += ", i32 1")
    steps += fmt::format("  call void @tegula.hw.bulk_copy_{}d(i32 %to, i64 %map, i32 %b0, {}, i1 %e, i32 3)\n", rank,
                         coordinates);
  return by_hand(steps + wait());
}

TEST(BulkCopy, PtxTakesTheMapFromTheParameters) {
  const std::string ptx = ptx_of_image(all_rows(), "sm_90a");
  EXPECT_CONTAINS(ptx, ".param .align 64 .b8 k_param_1[128]\n");
  EXPECT_CONTAINS(ptx, "cvta.param.u64");
  EXPECT_EQ(ptx.find(".local"), ptx.npos) << "no copy of the map";
  EXPECT_CONTAINS(ptx, "prefetch.tensormap [%rd");
  EXPECT_CONTAINS(ptx, "elect.sync _|%p");
  EXPECT_CONTAINS(ptx, "fence.proxy.async.shared::cta;");
  EXPECT_CONTAINS(ptx, "\tmbarrier.arrive.expect_tx.shared.b64 _, [%r");
  EXPECT_CONTAINS(ptx, "\tcp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r");
}

TEST(BulkCopy, AcceptedByTheAssembler) {
  SKIP_WITHOUT_PTXAS();
  for (const char* target : {"sm_90a", "sm_100a", "sm_120a"}) {
    const PtxasRun run = assemble(ptx_of_image(all_rows(), target), target);
    EXPECT_EQ(run.status, 0) << target << run.log;
  }
}

}  // namespace
}  // namespace tegula
