// The emulator below its JIT: kernels that the host's compiler made call the bodies of hardware functions on fibers. So
// it can be tested on processors that the JIT is not built for.
#include "codegen/exec/emulator/hardware/hw_bodies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <vector>

#include "codegen/exec/emulator/launch/scheduler.h"

namespace tegula::emulator {
namespace {

constexpr uint32_t kSite = 0, kPlace = 0, kAlways = 1;

/// The body of that row of hw.def.
template <class Function>
Function* body(std::string_view name) {
  for (const HwBody& row : hw_bodies())
    if (row.name == std::string(kBodyPrefix).append(name)) return reinterpret_cast<Function*>(row.function);
  ADD_FAILURE() << "no body " << name;
  return nullptr;
}

const auto thread_id = body<uint32_t()>("thread_id");
const auto program_id = body<uint32_t()>("program_id_x");
const auto shared_base = body<uint32_t()>("shared_base");
const auto barrier = body<void(uint32_t site, uint32_t place)>("barrier");
const auto shfl_bfly = body<uint32_t(uint32_t value, uint32_t mask, uint32_t place)>("shfl_bfly_b32");
const auto ld_global =
    body<uint32_t(uint64_t address, uint32_t other, uint32_t predicate, uint32_t site)>("ld_global_b32");
const auto st_global = body<void(uint64_t address, uint32_t value, uint32_t predicate, uint32_t site)>("st_global_b32");
const auto ld_shared = body<uint32_t(uint32_t address, uint32_t site)>("ld_shared_b32");
const auto st_shared = body<void(uint32_t address, uint32_t value, uint32_t predicate, uint32_t site)>("st_shared_b32");
const auto atom_add =
    body<uint32_t(uint64_t address, uint32_t value, uint32_t predicate, uint32_t site)>("atom_add_i32");

/// Memory of the emulator, and host threads that run launches.
class HwBodies : public ::testing::Test {
 protected:
  ~HwBodies() override {
    for (uint64_t address : allocated_) memory_.free(address);
  }

  /// An array of so many elements; the host reads and writes it, too.
  uint32_t* array(size_t count) {
    allocated_.push_back(memory_.allocate(4 * count));
    return reinterpret_cast<uint32_t*>(allocated_.back());
  }

  /// Runs the kernel, whose argument is an array. Returns what went wrong.
  Fault::Kind run(void (*kernel)(void* const*), uint32_t programs, unsigned threads, uint32_t* x) {
    Launch launch;
    uint64_t address = reinterpret_cast<uint64_t>(x);
    void* args[] = {&address};
    const KernelCode code{.entry = kernel};
    launch.code = &code;
    launch.args = args;
    launch.grid = {programs, 1, 1};
    launch.programs = programs;
    launch.threads = threads;
    launch.shared_bytes = 4 * threads;
    launch.ranges = memory_.table();
    pool_.run(launch);
    return launch.fault ? launch.fault->kind : Fault::None;
  }

 private:
  GlobalMemory memory_;
  std::vector<uint64_t> allocated_;
  WorkerPool pool_{4};
};

uint64_t address_in(void* const* args) { return *static_cast<const uint64_t*>(args[0]); }

TEST_F(HwBodies, WarpsExchangeValues) {
  constexpr uint32_t kPrograms = 8, kThreads = 128, kAll = kPrograms * kThreads;
  uint32_t* x = array(kAll);
  std::iota(x, x + kAll, 0u);
  auto sum_of_warp = [](void* const* args) {
    const uint64_t mine = address_in(args) + 4 * (program_id() * kThreads + thread_id());
    uint32_t sum = ld_global(mine, 0, kAlways, kSite);
    for (uint32_t mask = 1; mask < kLanes; mask *= 2) sum += shfl_bfly(sum, mask, kPlace);
    st_global(mine, sum, kAlways, kSite);
  };
  ASSERT_EQ(run(sum_of_warp, kPrograms, kThreads, x), Fault::None);
  for (uint32_t i = 0; i < kAll; ++i) {
    const uint32_t first = i / kLanes * kLanes;
    EXPECT_EQ(x[i], kLanes * first + kLanes * (kLanes - 1) / 2) << i;
  }
}

// Floats and integers that a thread keeps in registers are its own behind each barrier.
TEST_F(HwBodies, SwitchesOfFibersKeepRegisters) {
  constexpr uint32_t kPrograms = 6, kThreads = 256, kRounds = 20;
  uint32_t* x = array(kPrograms * kThreads);
  auto rotate = [](void* const* args) {
    const uint32_t thread = thread_id(), base = shared_base();
    double halves = 0.5 * thread, thirds = 3.0 * thread, eighths = 0.125 * thread;
    float ones = float(thread);
    uint32_t value = thread;
    for (uint32_t round = 0; round < kRounds; ++round) {
      st_shared(base + 4 * thread, value, kAlways, kSite);
      barrier(kSite, kPlace);
      value = ld_shared(base + 4 * ((thread + 1) % kThreads), kSite);
      barrier(kSite, kPlace + 1);
      halves += 0.5, thirds += 3, eighths += 0.125, ones += 1;
    }
    const uint32_t expected = thread + kRounds;
    const bool kept =
        halves == 0.5 * expected && thirds == 3.0 * expected && eighths == 0.125 * expected && ones == float(expected);
    st_global(address_in(args) + 4 * (program_id() * kThreads + thread), kept ? value : ~0u, kAlways, kSite);
  };
  ASSERT_EQ(run(rotate, kPrograms, kThreads, x), Fault::None);
  for (uint32_t i = 0; i < kPrograms * kThreads; ++i) EXPECT_EQ(x[i], (i + kRounds) % kThreads) << i;
}

TEST_F(HwBodies, AtomicsOfHostThreadsLoseNothing) {
  constexpr uint32_t kPrograms = 200, kThreads = 64;
  uint32_t* x = array(1);
  *x = 0;
  auto count = [](void* const* args) {
    for (int i = 0; i < 5; ++i) atom_add(address_in(args), 1 + thread_id() % 2, kAlways, kSite);
  };
  ASSERT_EQ(run(count, kPrograms, kThreads, x), Fault::None);
  EXPECT_EQ(*x, kPrograms * kThreads * 5 * 3 / 2);
}

// A program stores data and raises a flag; another one, on another host thread, waits for the flag and reads the data.
TEST_F(HwBodies, AtomicsOrderWhatProgramsHandOver) {
  constexpr uint32_t kThreads = 32;
  uint32_t* x = array(1 + 2 * kThreads);
  auto hand_over = [](void* const* args) {
    const uint64_t flag = address_in(args), data = flag + 4 + 4 * thread_id();
    if (program_id() == 0) {
      st_global(data, 1000 + thread_id(), kAlways, kSite);
      atom_add(flag, 1, kAlways, kSite);
      return;
    }
    while (atom_add(flag, 0, kAlways, kSite) < kThreads) {
    }
    st_global(data + 4 * kThreads, ld_global(data, 0, kAlways, kSite), kAlways, kSite);
  };
  for (int round = 0; round < 50; ++round) {
    std::fill(x, x + 1 + 2 * kThreads, 0u);
    ASSERT_EQ(run(hand_over, 2, kThreads, x), Fault::None);
    for (uint32_t i = 0; i < kThreads; ++i) ASSERT_EQ(x[1 + kThreads + i], 1000 + i) << round;
  }
}

TEST_F(HwBodies, FaultsEndALaunchAndNoMore) {
  uint32_t* x = array(64);
  auto store = [](void* const* args) { st_global(address_in(args) + 4 * thread_id(), thread_id(), kAlways, kSite); };
  EXPECT_EQ(run(store, 1, 96, x), Fault::GlobalBounds);
  auto part_ways = [](void* const*) { barrier(kSite, thread_id() == 7); };
  EXPECT_EQ(run(part_ways, 3, 64, x), Fault::Divergence);
  auto leave_some = [](void* const*) {
    if (thread_id() != 7) barrier(kSite, kPlace);
  };
  EXPECT_EQ(run(leave_some, 3, 64, x), Fault::Deadlock);
  ASSERT_EQ(run(store, 1, 64, x), Fault::None);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(x[i], i);
}

}  // namespace
}  // namespace tegula::emulator
