// label: device
// Races: each planted one is found with both its places and what is missing; ordered programs have none.
#include "codegen/exec/emulator.h"
#include "dsl/program.h"
#include "tests/codegen/exec/emulator/emulator_kernels.h"

namespace tegula {
namespace {

// ---- Steps of kernels written by hand. `line` is the one that messages name.

std::string next() {
  static int number = 0;
  return fmt::format("%n{}", ++number);
}
std::string store(const std::string& at, int line, const std::string& value = "%t", const std::string& where = "true") {
  return fmt::format("call void @tegula.hw.st_shared_b32(i32 {}, i32 {}, i1 {}, i32 {})\n", at, value, where, line);
}
std::string load(const std::string& at, int line) {
  return fmt::format("{} = call i32 @tegula.hw.ld_shared_b32(i32 {}, i32 {})\n", next(), at, line);
}
std::string store_global(const std::string& at, int line, const std::string& value = "%t",
                         const std::string& where = "true") {
  return fmt::format("call void @tegula.hw.st_global_b32(ptr addrspace(1) {}, i32 {}, i1 {}, i32 {})\n", at, value,
                     where, line);
}
std::string load_global(const std::string& at, int line, const std::string& where = "true") {
  return fmt::format("{} = call i32 @tegula.hw.ld_global_b32(ptr addrspace(1) {}, i32 0, i1 {}, i32 {})\n", next(), at,
                     where, line);
}
std::string sync() { return "call void @tegula.hw.barrier(i32 9)\n"; }
/// Every word holds something.
std::string filled() { return store("%mine", 9, "%high_word") + sync(); }
std::string sync_warp() { return "call void @tegula.hw.warp_barrier()\n"; }
std::string shuffle() { return fmt::format("{} = call i32 @tegula.hw.shfl_bfly_b32(i32 %t, i32 1)\n", next()); }
std::string copy(const std::string& to, int line) {
  return fmt::format("call void @tegula.hw.cp_async_4(i32 {}, ptr addrspace(1) %p, i1 true, i32 {})\n", to, line);
}
const std::string kWaitForCopies = "call void @tegula.hw.cp_async_commit()\ncall void @tegula.hw.cp_async_wait.0()\n";
std::string init(int arrivals) {
  return fmt::format("call void @tegula.hw.mbarrier_init(i32 %b0, i32 {}, i1 %first, i32 8)\n", arrivals) + sync();
}
std::string arrive(const std::string& where) {
  return fmt::format("call void @tegula.hw.mbarrier_arrive(i32 %b0, i1 {}, i32 8)\n", where);
}
const std::string kWait = "call void @tegula.hw.mbarrier_wait(i32 %b0, i32 0, i32 8)\n";

struct Case {
  const char* name;
  std::string steps;
  std::string found;  ///< what the message has, line by line; empty: no race
  int warps = 2;
  unsigned programs = 1;
  int blocks = 1;  ///< of a program
};

// Every thread t has the words %mine (t) and %other (63 - t) of shared memory, of the lane beside it (%beside) and
// %word 0; the same of global memory as %p, %q, %pb and %p0; and is %first, %even, in the first warp (%low) or not
// (%high), in the first program (%zero) or not (%one), in the first block of a cluster (%here) or not (%away), of which
// %mine_there is %mine of the other one and %b_there its %b0.
std::string error_of_case(const Case& c) {
  static const std::string begin = R"(
  %t = call i32 @tegula.hw.thread_id()
  %pid = call i32 @tegula.hw.program_id_x()
  %zero = icmp eq i32 %pid, 0
  %one = icmp ne i32 %pid, 0
  %first = icmp eq i32 %t, 0
  %low = icmp slt i32 %t, 32
  %high = icmp sge i32 %t, 32
  %bit = and i32 %t, 1
  %even = icmp eq i32 %bit, 0
  %b0 = call i32 @tegula.hw.shared_base()
  %word = add i32 %b0, 64
  %o = mul i32 %t, 4
  %mine = add i32 %word, %o
  %ro = sub i32 252, %o
  %other = add i32 %word, %ro
  %two = mul i32 %t, 2
  %half = add i32 %word, %two
  %bo = xor i32 %o, 4
  %beside = add i32 %word, %bo
  %p = getelementptr i32, ptr addrspace(1) %x, i32 %t
  %r = sub i32 63, %t
  %q = getelementptr i32, ptr addrspace(1) %x, i32 %r
  %tb = xor i32 %t, 1
  %pb = getelementptr i32, ptr addrspace(1) %x, i32 %tb
  %p0 = getelementptr i32, ptr addrspace(1) %x, i32 0
  %flag = getelementptr i32, ptr addrspace(1) %x, i32 100
  %unique = add i32 %t, 1000
  %by_program = add i32 %pid, 7
  %high_word = add i32 %t, 2000
  %warp = lshr i32 %t, 5
  %number = add i32 %warp, 2
  %others = xor i32 %number, 1
)";
  static const std::string begin_cluster = R"(
  %block = call i32 @tegula.hw.block_of_cluster()
  %here = icmp eq i32 %block, 0
  %away = icmp ne i32 %block, 0
  %other_block = xor i32 %block, 1
  %mine_there = call i32 @tegula.hw.address_in_block(i32 %mine, i32 %other_block)
  %b_there = call i32 @tegula.hw.address_in_block(i32 %b0, i32 %other_block)
)";
  static const char* declarations = R"(
declare void @tegula.hw.warp_barrier() convergent
declare void @tegula.hw.barrier_between.32(i32, i32) convergent
declare void @tegula.hw.barrier_between.64(i32, i32) convergent
declare void @tegula.hw.turn_wait.64(i32, i32) convergent
declare void @tegula.hw.turn_pass.64(i32, i1, i32) convergent
declare void @tegula.hw.mbarrier_init(i32, i32, i1, i32)
declare void @tegula.hw.mbarrier_arrive(i32, i1, i32)
declare void @tegula.hw.mbarrier_wait(i32, i32, i32) convergent
declare void @tegula.hw.mbarrier_arrive_expect(i32, i32, i1, i32)
declare void @tegula.hw.red_shared_add_i32(i32, i32, i1, i32)
declare i32 @tegula.hw.block_of_cluster()
declare i32 @tegula.hw.address_in_block(i32, i32)
declare void @tegula.hw.cluster_arrive(i32) convergent
declare void @tegula.hw.cluster_arrive_relaxed(i32) convergent
declare void @tegula.hw.cluster_wait(i32) convergent
declare void @tegula.hw.fence_mbarrier_init()
declare void @tegula.hw.st_cluster_b32(i32, i32, i1, i32)
declare void @tegula.hw.st_async_b32(i32, i32, i32, i1, i32)
declare void @tegula.hw.mbarrier_arrive_cluster(i32, i1, i32)
declare void @tegula.hw.mbarrier_wait_cluster(i32, i32, i32) convergent
declare i32 @tegula.hw.atom_add_i32.relaxed.gpu(ptr addrspace(1), i32, i1, i32)
declare i32 @tegula.hw.atom_add_i32.relaxed.cta(ptr addrspace(1), i32, i1, i32)
)";
  auto device = make_emulator({.check_races = true});
  Array<int32_t> x(*device, 128);
  KernelImage image =
      make_image({pointer("x", Elem::I32)}, begin + (c.blocks > 1 ? begin_cluster : "") + c.steps + "ret void", c.warps,
                 2048, declarations);
  image.num_ctas = c.blocks;
  auto kernel = device->load(image);
  return error_of_launch(*kernel, {c.programs}, x.address());
}

void check(const std::vector<Case>& cases) {
  size_t planted = 0, found = 0;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const std::string error = error_of_case(c);
    if (c.found.empty()) {
      EXPECT_EQ(error, "no error");
      continue;
    }
    bool all = true;
    for (size_t at = 0; at < c.found.size();) {
      const size_t end = std::min(c.found.find('\n', at), c.found.size());
      all &= error.find(c.found.substr(at, end - at)) != error.npos;
      EXPECT_CONTAINS(error, c.found.substr(at, end - at));
      at = end + 1;
    }
    ++planted, found += all;
  }
  tell_planted(found, planted);
}

// Each of two warps passes the turn on to the other one and waits for it.
const std::string kPassed = "call void @tegula.hw.turn_pass.64(i32 %others, i1 true, i32 6)\n";
const std::string kTaken = "call void @tegula.hw.turn_wait.64(i32 %number, i32 7)\n";
const std::string kTurns = kPassed + kTaken;

TEST(Races, OfSharedMemory) {
  check({
      {"read of another warp's store", store("%mine", 1) + load("%other", 2),
       "race: write of 4 bytes in shared memory at offset 192, and read by thread 31 of warp 0 at k.py:2:5, and no "
       "barrier "
       "lies between\n  at k.py:1:5, program (0, 0, 0), thread 32\n  hint: tl.debug_barrier() between the two"},
      {"... behind a barrier", store("%mine", 1) + sync() + load("%other", 2), ""},
      {"... behind a barrier of each warp alone", store("%mine", 1) + sync_warp() + load("%other", 2),
       "race:\nk.py:1:5\nand no barrier lies between\nk.py:2:5"},
      {"read of another lane's store", store("%mine", 1) + load("%beside", 2), "race:\nk.py:1:5\nk.py:2:5", 1},
      {"... behind a meeting of the warp", store("%mine", 1) + sync_warp() + load("%beside", 2), "", 1},
      {"... behind a shuffle", store("%mine", 1) + shuffle() + load("%beside", 2), "", 1},
      {"store over what another warp has read", filled() + load("%other", 1) + store("%mine", 2, "%unique"),
       "race:\nk.py:1:5\nk.py:2:5"},
      {"... behind a barrier", filled() + load("%other", 1) + sync() + store("%mine", 2, "%unique"), ""},
      {"store over what another lane has read", filled() + load("%beside", 1) + store("%mine", 2, "%unique"),
       "race:\nk.py:1:5\nk.py:2:5", 1},
      {"two stores of two warps", store("%mine", 1) + store("%other", 2, "%unique"),
       "race: write of 4 bytes\nand write by\nk.py:1:5\nk.py:2:5"},
      {"two lanes store to one word", store("%word", 3), "race: write\nand write by thread 0 of warp 0\nat k.py:3:5",
       1},
      {"... the same number", store("%word", 3, "5"), "", 2},
      {"a barrier too early for the second round",
       store("%mine", 1) + sync() + load("%other", 2) + store("%mine", 3, "%unique") + sync() + load("%other", 4),
       "race:\nk.py:2:5\nk.py:3:5"},
      {"... in time",
       store("%mine", 1) + sync() + load("%other", 2) + sync() + store("%mine", 3, "%unique") + sync() +
           load("%other", 4),
       ""},
      {"a barrier between two warps",
       store("%mine", 1) + "call void @tegula.hw.barrier_between.64(i32 2, i32 9)\n" + load("%other", 2), ""},
      {"... of each of them alone",
       store("%mine", 1) + "call void @tegula.hw.barrier_between.32(i32 %number, i32 9)\n" + load("%other", 2),
       "race:\nk.py:1:5\nk.py:2:5"},
      {"turns of two warps", store("%mine", 1) + kTurns + load("%other", 2), ""},
      {"... passed on before the store", kPassed + store("%mine", 1) + kTaken + load("%other", 2),
       "race:\nk.py:1:5\nk.py:2:5"},
      {"... that do not end early", kTurns + kTurns, ""},
      {"a turn that is passed on twice", kPassed + kPassed,
       "a turn is passed on twice before anybody took it\nk.py:6:5"},
      {"sums by atomic operations", "call void @tegula.hw.red_shared_add_i32(i32 %word, i32 1, i1 true, i32 1)\n", ""},
      {"... read without a barrier",
       "call void @tegula.hw.red_shared_add_i32(i32 %word, i32 1, i1 true, i32 1)\n" + load("%word", 2),
       "k.py:1:5\nk.py:2:5"},
      {"bytes of one word", "call void @tegula.hw.st_shared_b16(i32 %half, i16 1, i1 true, i32 1)\n", "", 1},
  });
}

TEST(Races, OfCopiesAndMemoryBarriers) {
  check({
      {"a copy that another warp reads", copy("%mine", 1) + kWaitForCopies + load("%other", 2), "k.py:1:5\nk.py:2:5"},
      {"... behind a barrier", copy("%mine", 1) + kWaitForCopies + sync() + load("%other", 2), ""},
      {"a copy over what another warp reads", filled() + load("%other", 1) + copy("%mine", 2) + kWaitForCopies,
       "race:\nk.py:1:5\nk.py:2:5"},
      {"a read beside a copy, waited for too late",
       filled() + copy("%mine", 1) + sync() + load("%other", 2) + kWaitForCopies + sync(), "k.py:2:5\nk.py:1:5"},
      {"a read of what the thread copies itself", filled() + copy("%mine", 1) + load("%mine", 2),
       "a read of shared memory at offset 316, which a copy of the thread's own, issued at k.py:1:5, writes; a wait "
       "for "
       "its group is missing\nat k.py:2:5, program (0, 0, 0), thread 63"},
      {"... that is committed alone",
       filled() + copy("%mine", 1) + "call void @tegula.hw.cp_async_commit()\n" + load("%mine", 2),
       "k.py:1:5\nk.py:2:5"},
      {"... of a later group than is waited for",
       filled() + copy("%mine", 1) +
           "call void @tegula.hw.cp_async_commit()\ncall void @tegula.hw.cp_async_wait.1()\n" + load("%mine", 2),
       "k.py:1:5\nk.py:2:5"},
      {"... behind the wait", filled() + copy("%mine", 1) + kWaitForCopies + load("%mine", 2), ""},
      {"... of other bytes", store("%b0", 3, "5") + sync() + copy("%mine", 1) + load("%b0", 2) + kWaitForCopies, ""},
      {"a store to what the thread copies", filled() + copy("%mine", 1) + store("%mine", 2),
       "a write to shared memory at offset 316, which a copy issued at k.py:1:5 writes as well\nat k.py:2:5"},
      {"a second copy there", filled() + copy("%mine", 1) + copy("%mine", 2), "k.py:1:5 writes as well\nat k.py:2:5"},
      {"... behind the wait", filled() + copy("%mine", 1) + kWaitForCopies + copy("%mine", 2) + kWaitForCopies, ""},
      {"a read between barriers ahead of the wait",
       filled() + copy("%mine", 1) + sync() + load("%other", 2) + sync() + kWaitForCopies,
       "a copy of another thread, issued at k.py:1:5, writes; a wait of that thread for its group and a barrier\nat "
       "k.py:2:5"},
      {"a phase that the other warp waits for",
       init(32) + store("%mine", 1, "%t", "%low") + arrive("%low") + kWait + load("%word", 2), ""},
      {"a store behind the arrival",
       init(1) + arrive("%first") + store("%mine", 1, "%unique", "%low") + kWait + load("%word", 2),
       "k.py:1:5\nk.py:2:5"},
      {"... ahead of it",
       init(1) + store("%mine", 1, "%unique", "%low") + sync_warp() + arrive("%first") + kWait + load("%word", 2), ""},
      {"a warp that does not arrive", init(32) + store("%mine", 1) + arrive("%low") + kWait + load("%other", 2),
       "k.py:1:5\nk.py:2:5"},
  });
}

/// The steps in threads where the condition holds.
std::string only(const std::string& where, const std::string& steps) {
  static int number = 0;
  ++number;
  return fmt::format("br i1 {0}, label %do{1}, label %go{1}\ndo{1}:\n{2}br label %go{1}\ngo{1}:\n", where, number,
                     steps);
}

TEST(Deadlocks, OfEachKindOfBarrier) {
  const auto between = [](const char* number, int threads, int line) {
    return fmt::format("call void @tegula.hw.barrier_between.{}(i32 {}, i32 {})\n", threads, number, line);
  };
  const std::string expects_bytes = "call void @tegula.hw.mbarrier_arrive_expect(i32 %b0, i32 16, i1 %first, i32 3)\n";
  const std::string next_phase = "call void @tegula.hw.mbarrier_wait(i32 %b0, i32 1, i32 4)\n";
  check({
      {"a barrier that one warp leaves out", only("%low", sync()),
       "deadlock: threads 0-31 wait in barrier at k.py:9:5; threads 32-63 have left the kernel"},
      {"a barrier that lanes leave out", only("%even", sync()),
       "deadlock: threads 0, 2, 4\nwait in barrier at k.py:9:5"},
      {"a warp's barrier that lanes leave out", only("%even", sync_warp()), "deadlock:\nwait in warp_barrier", 1},
      {"a shuffle that lanes leave out", only("%even", shuffle()), "deadlock:\nwait in shfl_bfly_b32", 1},
      {"a barrier here, a shuffle there", only("%low", sync()) + only("%high", only("%even", shuffle())),
       "deadlock:\nwait in barrier at k.py:9:5\nwait in shfl_bfly_b32"},
      {"a barrier of two warps that one leaves out", only("%low", between("2", 64, 5)),
       "deadlock: threads 0-31 wait in barrier_between at k.py:5:5"},
      {"barriers of other numbers", between("%number", 64, 5),
       "deadlock: all threads wait in barrier_between at k.py:5:5"},
      {"two barriers in opposite order",
       only("%low", between("2", 64, 4) + between("3", 64, 5)) +
           only("%high", between("3", 64, 6) + between("2", 64, 7)),
       "deadlock: threads 0-31 wait in barrier_between at k.py:4:5; threads 32-63 wait in barrier_between at k.py:6:5"},
      {"a turn that nobody passes on", "call void @tegula.hw.turn_wait.64(i32 %number, i32 7)\n",
       "deadlock:\nwait in turn_wait at k.py:7:5"},
      {"a phase at which nobody arrives", init(1) + kWait,
       "deadlock: all threads wait in mbarrier_wait at k.py:8:5 for parity 0 of the mbarrier at offset 0, whose phase "
       "has 0 of 1 arrivals"},
      {"a phase at which too few arrive", init(64) + arrive("%low") + kWait, "deadlock:\nhas 32 of 64 arrivals"},
      {"a phase after the last one", init(32) + arrive("%low") + kWait + next_phase,
       "deadlock:\nwait in mbarrier_wait at k.py:4:5 for parity 1\nhas 0 of 32 arrivals"},
      {"a phase whose bytes nobody copies", init(1) + expects_bytes + kWait,
       "deadlock:\nk.py:8:5\nhas 1 of 1 arrivals and 0 of 16 bytes"},
      {"an arrival behind the wait", init(1) + kWait + arrive("%first"),
       "deadlock:\nwait in mbarrier_wait at k.py:8:5"},
  });
}

TEST(Races, OfGlobalMemory) {
  check({
      {"what another warp stores", store_global("%p", 1) + load_global("%q", 2),
       "race: read of 4 bytes at 0x\nbytes into a 512-byte allocation (argument 'x')\nand write by thread\nk.py:1:5, "
       "and "
       "no barrier lies between\nat k.py:2:5, program (0, 0, 0)"},
      {"... behind a barrier", store_global("%p", 1) + sync() + load_global("%q", 2), ""},
      {"what another lane stores", store_global("%p", 1) + load_global("%pb", 2), "k.py:1:5\nk.py:2:5", 1},
      {"what another warp has loaded", load_global("%q", 1) + store_global("%p", 2, "%unique"), "k.py:1:5\nk.py:2:5"},
      {"stores of two programs", store_global("%p", 1, "%by_program"),
       "race: write of 4 bytes at 0x\nand write by thread 0 of warp 0 of program (0, 0, 0) at k.py:1:5, and nothing "
       "orders "
       "the two programs\nat k.py:1:5, program (1, 0, 0), thread 0\nhint: tl.atomic_add and its kin",
       1, 2},
      {"... of the same numbers", store_global("%p", 1), "", 1, 3},
      {"a load of what another program stores",
       store_global("%p", 1, "%unique", "%zero") + load_global("%p", 2, "%one"),
       "k.py:1:5, and nothing orders\nk.py:2:5", 1, 2},
      {"a store over what another program has loaded",
       load_global("%p", 1, "%zero") + store_global("%p", 2, "%unique", "%one"), "and read by\nk.py:1:5\nk.py:2:5", 1,
       2},
      {"atomic operations of programs",
       "%a = call i32 @tegula.hw.atom_add_i32.relaxed.gpu(ptr addrspace(1) %p0, i32 1, i1 true, i32 1)\n", "", 2, 3},
      {"... of scope 'cta'",
       "%a = call i32 @tegula.hw.atom_add_i32.relaxed.cta(ptr addrspace(1) %p0, i32 1, i1 true, i32 1)\n",
       "k.py:1:5, and an atomic operation of scope 'cta' counts in its own program alone\nhint: scope='gpu'", 1, 2},
      {"... and a load",
       "%a = call i32 @tegula.hw.atom_add_i32.relaxed.gpu(ptr addrspace(1) %p0, i32 1, i1 %zero, i32 1)\n" +
           load_global("%p0", 2, "%one"),
       "race:\nk.py:1:5\nk.py:2:5", 1, 2},
  });
}

// Several lanes have bytes of one word each.
TEST(Races, OfPartsOfAWord) {
  std::vector<Case> cases;
  std::vector<std::string> names;
  names.reserve(8);
  for (int bits : {8, 16})
    for (int step : {0, 1, 2, 3}) {  // of the element that is stored from the one that is loaded
      names.push_back(fmt::format("{} bits, {} behind", bits, step));
      const std::string loaded = next();
      const std::string steps = fmt::format(
          "%from = getelementptr i{0}, ptr addrspace(1) %x, i32 %t\n%k = add i32 %t, {1}\n"
          "%to = getelementptr i{0}, ptr addrspace(1) %x, i32 %k\n"
          "{2} = call i16 @tegula.hw.ld_global_b{0}(ptr addrspace(1) %from, i16 0, i1 true, i32 1)\n"
          "%v = trunc i32 %unique to i16\n"
          "call void @tegula.hw.st_global_b{0}(ptr addrspace(1) %to, i16 %v, i1 true, i32 2)\n",
          bits, step, loaded);
      cases.push_back({names.back().c_str(), steps, step ? "race: write\nand read by\nk.py:1:5\nk.py:2:5" : "", 1});
    }
  check(cases);
}

// What one program hands to the next: stores, then a flag; the flag, then loads.
TEST(Races, AcquireAndRelease) {
  auto hand_over = [](const std::string& release, const std::string& acquire, bool before = false,
                      bool behind = false) {
    const std::string fence = "call void @tegula.hw.fence.acq_rel.gpu()\n";
    auto add = [&](const std::string& mods, const std::string& where, int line) {
      return fmt::format("{} = call i32 @tegula.hw.atom_add_i32.{}(ptr addrspace(1) %flag, i32 1, i1 {}, i32 {})\n",
                         next(), mods, where, line);
    };
    return store_global("%p", 1, "%unique", "%zero") + sync_warp() + (before ? fence : "") + add(release, "%zero", 2) +
           add(acquire, "%one", 3) + (behind ? fence : "") + sync_warp() + load_global("%p", 4, "%one");
  };
  check({
      {"acq_rel", hand_over("acq_rel.gpu", "acq_rel.gpu"), "", 1, 2},
      {"relaxed release", hand_over("relaxed.gpu", "acq_rel.gpu"), "k.py:1:5, and nothing orders\nk.py:4:5", 1, 2},
      {"relaxed acquire", hand_over("acq_rel.gpu", "relaxed.gpu"), "k.py:1:5, and nothing orders\nk.py:4:5", 1, 2},
      {"fences around relaxed operations", hand_over("relaxed.gpu", "relaxed.gpu", true, true), "", 1, 2},
      {"a fence before the one", hand_over("relaxed.gpu", "acq_rel.gpu", true, false), "", 1, 2},
      {"a fence behind the other", hand_over("acq_rel.gpu", "relaxed.gpu", false, true), "", 1, 2},
      {"no fence before the one", hand_over("relaxed.gpu", "relaxed.gpu", false, true),
       "k.py:1:5, and nothing orders\nk.py:4:5", 1, 2},
      {"no fence behind the other", hand_over("relaxed.gpu", "relaxed.gpu", true, false),
       "k.py:1:5, and nothing orders\nk.py:4:5", 1, 2},
  });
}

// The warp that acquires knows of the other program, which begins first; its neighbour learns of it at a barrier.
TEST(Races, AcquiredByOneWarp) {
  auto hand_over = [](const std::string& behind) {
    auto add = [&](const std::string& where, int line) {
      return fmt::format(
          "{} = call i32 @tegula.hw.atom_add_i32.acq_rel.gpu(ptr addrspace(1) %flag, i32 1, i1 {}, i32 {})\n", next(),
          where, line);
    };
    return store_global("%q", 1, "%unique", "%one") + sync() +
           "%f0 = and i1 %first, %one\n%f1 = and i1 %first, %zero\n" + add("%f0", 2) + add("%f1", 3) + behind +
           load_global("%q", 4, "%zero");
  };
  check({
      {"a warp that has not", hand_over(""), "k.py:1:5, and nothing orders the two programs\nk.py:4:5", 2, 2},
      {"... behind a barrier of its own", hand_over(sync_warp()), "k.py:1:5, and nothing orders\nk.py:4:5", 2, 2},
      {"... behind a barrier of both", hand_over(sync()), "", 2, 2},
  });
}

TEST(Races, OfBlocksOfACluster) {
  const std::string arrive = "call void @tegula.hw.cluster_arrive(i32 6)\n",
                    relaxed = "call void @tegula.hw.cluster_arrive_relaxed(i32 6)\n",
                    wait = "call void @tegula.hw.cluster_wait(i32 6)\n";
  auto store_there = [](int line) {
    return fmt::format("call void @tegula.hw.st_cluster_b32(i32 %mine_there, i32 %unique, i1 true, i32 {})\n", line);
  };
  // Each thread stores a word to the other block, and waits for those from there.
  const std::string begin_exchange =
      "call void @tegula.hw.mbarrier_init(i32 %b0, i32 1, i1 %first, i32 8)\n"
      "call void @tegula.hw.fence_mbarrier_init()\n" +
      relaxed + wait;
  std::string unfenced = begin_exchange;
  unfenced.erase(unfenced.find("call void @tegula.hw.fence"),
                 unfenced.find(relaxed) - unfenced.find("call void @tegula.hw.fence"));
  const std::string exchange =
      "call void @tegula.hw.mbarrier_arrive_expect(i32 %b0, i32 128, i1 %first, i32 8)\n"
      "call void @tegula.hw.st_async_b32(i32 %mine_there, i32 %t, i32 %b_there, i1 true, i32 8)\n"
      "call void @tegula.hw.mbarrier_wait_cluster(i32 %b0, i32 0, i32 8)\n";
  const std::string arrival =
      "call void @tegula.hw.mbarrier_arrive_cluster(i32 %b_there, i1 %first, i32 8)\n"
      "call void @tegula.hw.mbarrier_wait_cluster(i32 %b0, i32 0, i32 8)\n";
  const std::string loaded = load_global("%p", 1, "%away"), stored = store_global("%p", 2, "%unique", "%here"),
                    stored_first = store_global("%p", 1, "%unique", "%here"),
                    loaded_then = load_global("%p", 2, "%away");
  check({
      {"stores of two blocks", stored_first + store_global("%p", 2, "%high_word", "%away"),
       "race: write\nand write by thread 0 of warp 0 of block 0 of the cluster at k.py:1:5, and no barrier of the "
       "cluster "
       "lies between\nat k.py:2:5, program (0, 0, 0), block 1\nhint: tl.debug_barrier() between the two",
       1, 1, 2},
      {"... behind a barrier of the cluster", stored_first + arrive + wait + loaded_then, "", 1, 1, 2},
      {"... that does not order", stored_first + relaxed + wait + loaded_then, "and write by\nk.py:1:5\nk.py:2:5", 1, 1,
       2},
      {"... behind the arrival there", arrive + stored_first + wait + loaded_then, "and write by\nk.py:1:5\nk.py:2:5",
       1, 1, 2},
      {"... behind a barrier of each block", stored_first + sync() + loaded_then, "and write by\nk.py:1:5\nk.py:2:5", 1,
       1, 2},
      {"a store over what the other block has loaded", loaded + stored, "k.py:1:5\nk.py:2:5", 1, 1, 2},
      {"... behind an exchange", begin_exchange + loaded + exchange + stored, "", 1, 1, 2},
      {"... ahead of it", begin_exchange + exchange + loaded + stored, "k.py:1:5\nk.py:2:5", 1, 1, 2},
      {"... behind arrivals", begin_exchange + loaded + sync_warp() + arrival + stored, "", 1, 1, 2},
      {"... at mbarriers that nobody made known", unfenced + loaded + exchange + stored,
       "another block uses the mbarrier at offset 0 of shared memory\nno fence_mbarrier_init\nk.py:8:5", 1, 1, 2},
      {"... made known by a barrier that orders",
       "call void @tegula.hw.mbarrier_init(i32 %b0, i32 1, i1 %first, i32 8)\n" + arrive + wait + loaded + exchange +
           stored,
       "", 1, 1, 2},
      {"a load behind an exchange of what the other block has stored",
       begin_exchange + stored_first + exchange + loaded_then, "and write by\nk.py:1:5\nk.py:2:5", 1, 1, 2},
      {"what another block stores in shared memory", relaxed + wait + store_there(1) + load("%mine", 2),
       "in shared memory\nof the cluster at k.py\nk.py:1:5\nk.py:2:5", 1, 1, 2},
      {"... behind a barrier of the block", relaxed + wait + store_there(1) + sync() + load("%mine", 2),
       "k.py:1:5\nk.py:2:5", 1, 1, 2},
      {"... behind one of the cluster", relaxed + wait + store_there(1) + arrive + wait + load("%mine", 2), "", 1, 1,
       2},
      {"over what is read there", filled() + arrive + wait + load("%mine", 1) + store_there(2), "k.py:1:5\nk.py:2:5", 1,
       1, 2},
      {"... behind a barrier of the cluster",
       filled() + arrive + wait + load("%mine", 1) + arrive + wait + store_there(2) + arrive + wait, "", 1, 1, 2},
  });
}

// Reads of what nobody has written.
TEST(Races, UnwrittenMemory) {
  check({
      {"shared memory", load("%mine", 3),
       "read of 4 bytes in shared memory at offset 64 that nobody has written\n  at k.py:3:5, program (0, 0, 0), "
       "thread 0",
       1},
      {"... half of the words", store("%mine", 1, "%t", "%low") + sync() + load("%other", 2),
       "shared memory at offset 316 that nobody has written\nk.py:2:5, program (0, 0, 0), thread 0"},
      {"bytes beside those written",
       "call void @tegula.hw.st_shared_b16(i32 %mine, i16 1, i1 true, i32 1)\n" + load("%mine", 2), "nobody\nk.py:2:5",
       1},
      {"of the program before", store("%mine", 1, "%t", "%zero") + load("%mine", 2), "k.py:2:5, program (1, 0, 0)", 1,
       2},
      {"a copy that nobody waits for", copy("%mine", 1) + load("%other", 2), "k.py:1:5\nk.py:2:5"},
  });
  auto device = make_emulator({.check_races = true});
  auto kernel = device->load(make_image(kAddParams, kAdd, 4));
  Array<float> x(*device, iota(128));
  const uint64_t y = device->allocate(512), z = device->allocate(512);
  const std::string error = error_of_launch(*kernel, {1}, x.address(), y, z, 128);
  EXPECT_CONTAINS(error,
                  fmt::format("read of 4 bytes at {:#x}, 0 bytes into a 512-byte allocation (argument 'y'), that "
                              "nobody has written\n  at k.py:2:5, program (0, 0, 0), thread 0",
                              y));
  device->fill(y, 0, 512);
  launch(*kernel, {1}, x.address(), y, z, 128);
  launch(*kernel, {1}, x.address(), z, y, 128);  // what the kernel has written
  device->free(y);
  device->free(z);
}

// ---- Kernels of the language

std::string error_of_kernel(const std::string& body, unsigned programs, int num_ctas = 1) {
  auto device = make_emulator({.check_races = true});
  Array<int32_t> x(*device, 512), y(*device, 512);
  const std::string text =
      "import triton.language as tl\n@triton.jit\ndef kernel(x, y, z):\n    i = tl.arange(0, 256)\n";
  std::string indented;
  for (size_t at = 0; at < body.size();) {
    const size_t end = std::min(body.find('\n', at), body.size());
    indented += "    " + body.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return error_of([&] {
    auto* px = reinterpret_cast<int32_t*>(x.address());
    Program::parse("import triton\n" + text + indented, "k.py")
        .kernel("kernel")
        .launch(*device, {programs}, {.num_warps = 4, .num_ctas = num_ctas}, px,
                reinterpret_cast<int32_t*>(y.address()), px);
  });
}

TEST(Races, OfKernels) {
  struct KernelCase {
    const char* body;
    const char* found;  ///< parts; null: no race
    unsigned programs = 1;
    int num_ctas = 1;
  };
  // The last program of two to come loads what both have stored.
  const auto ticket = [](const char* arrive) {
    return fmt::format(
        "tl.store(x + tl.program_id(0) * 256 + i, i)\nif {} == 1:\n"
        "    tl.store(y + 256 + i, tl.load(x + (i ^ 255)) + tl.load(x + 256 + i))\n",
        arrive);
  };
  const std::string last = ticket("tl.atomic_add(y, 1)"),
                    of_one = ticket("tl.max(tl.atomic_add(y + tl.arange(0, 1), 1), 0)"),
                    unordered = ticket("tl.atomic_add(y, 1, sem='relaxed')");
  const std::vector<KernelCase> cases = {
      {"tl.store(x, tl.load(x) + 1)", "k.py:6:5", 2},
      {"tl.atomic_add(x, 1)", nullptr, 4},
      {"tl.store(x + i, i)\ntl.store(y + i, tl.load(x + 255 - i))", nullptr},
      // z is x: of other parameters nobody knows.
      {"tl.store(x + i, i + 1)\ntl.store(y + i, tl.load(z + 255 - i))", "k.py:7:21"},
      {"tl.store(x + i // 2, i)", "hint: elements of one store have the same address"},
      {"tl.store(x + i // 2, i // 2)", nullptr},
      {"tl.store(y + i, tl.sum(tl.load(x + i), 0) + tl.cumsum(i, 0) + tl.sort(i))", nullptr, 2},
      {"a = tl.dot(i.to(tl.float16).reshape(16, 16), tl.load(x + i).to(tl.float16).reshape(16, 16))\n"
       "tl.store(y + i, a.reshape(256).to(tl.int32))",
       nullptr, 2},
      {"pid = tl.program_id(0)\nwhile tl.atomic_cas(y, 0, 1) == 1:\n    pass\n"
       "tl.store(x + i, tl.load(x + i) + pid + 1)\ntl.atomic_xchg(y, 0)",
       nullptr, 4},
      {"pid = tl.program_id(0)\nwhile tl.atomic_cas(y, 0, 1) == 1:\n    pass\n"
       "tl.store(x + i, tl.load(x + i) + pid + 1)\ntl.atomic_xchg(y, 0, sem='relaxed')",
       "nothing orders the two programs", 4},
      {"tl.store(x + i, tl.histogram(tl.load(x + i), 256))", nullptr},
      {last.c_str(), nullptr, 2},
      {last.c_str(), nullptr, 2, 2},
      {of_one.c_str(), nullptr, 2},
      {unordered.c_str(), "nothing orders the two programs", 2},
      {unordered.c_str(), "nothing orders the two programs", 2, 2},
  };
  for (const KernelCase& c : cases) {
    SCOPED_TRACE(c.body);
    const std::string error = error_of_kernel(c.body, c.programs, c.num_ctas);
    if (c.found) {
      EXPECT_CONTAINS(error, c.found);
    } else {
      EXPECT_EQ(error, "no error");
    }
  }
}

}  // namespace
}  // namespace tegula
