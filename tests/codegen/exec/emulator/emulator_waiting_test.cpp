// label: device
// Programs of a launch that wait for each other through memory.
#include <string>
#include <vector>

#include "codegen/exec/emulator/launch/fibers.h"
#include "dsl/tegula.h"
#include "tests/codegen/exec/emulator/emulator_kernels.h"

namespace tegula {
namespace {

// Each thread arrives, then waits until all threads of all programs have.
constexpr const char* kMeet = R"(
entry:
  %o = call i32 @tegula.hw.atom_add_i32.acq_rel.gpu(ptr addrspace(1) %count, i32 1, i1 true, i32 1)
  br label %spin
spin:
  %v = call i32 @tegula.hw.ld_global_b32.volatile(ptr addrspace(1) %count, i32 0, i1 true, i32 2)
  %all = icmp sge i32 %v, %n
  br i1 %all, label %done, label %spin
done:
  ret void)";

// A kernel of which 132 programs run at a time on an sm_90a: their shared memory is all that a multiprocessor has.
KernelImage meeting() { return make_image({pointer("count", Elem::I32), scalar("n")}, kMeet, 1, 200000); }

TEST(WaitingPrograms, AsManyAsTheGpuRunsMeet) {
  for (int threads : {1, 2}) {
    auto device = make_emulator({.threads = threads, .limit_s = 100});
    auto kernel = device->load(meeting());
    for (unsigned programs : {9u, 17u, 132u}) {
      Array<int> count(*device, 1);
      launch(*kernel, {programs}, count.address(), int(32 * programs));
      EXPECT_EQ(count.values()[0], int(32 * programs));
    }
  }
}

TEST(WaitingPrograms, ReportsSayHowManyRunAtATime) {
  auto device = make_emulator({.limit_steps = 1000000});
  Array<int> count(*device, 1);
  EXPECT_CONTAINS(error_of_launch(*device->load(meeting()), {133}, count.address(), 32 * 133),
                  "hint: 132 of the 133 programs run at a time, as on the GPU; where all programs wait for each other, "
                  "start no more: launch_cooperative_grid=True (tegula run --cooperative-grid) refuses a larger grid");
  KernelImage cooperative = meeting();
  cooperative.cooperative = true;
  EXPECT_CONTAINS(
      message_of<LaunchError>([&] { launch(*device->load(cooperative), {133}, count.address(), 32 * 133); }),
      "runs 132 such programs at once");
  // Of a grid that fits, no hint.
  const std::string alone = error_of_launch(*device->load(meeting()), {2}, count.address(), 1 << 30);
  EXPECT_CONTAINS(alone, "stopped after the steps");
  EXPECT_EQ(alone.find("hint"), alone.npos);
}

// What nobody uses the result of is no wait; a program that computes may do what others wait for.
TEST(WaitingPrograms, AreNoneThatDoSomething) {
  const auto stopped = [](int threads, const char* body) {
    auto device = make_emulator({.threads = threads, .limit_steps = 200000});
    Array<int> flag(*device, 1);
    return error_of_launch(*device->load(make_image({pointer("flag", Elem::I32)}, body, 1, 200000)), {133},
                           flag.address());
  };
  // Each takes part in a sum that does not change.
  const std::string sums = stopped(1, R"(
entry:
  br label %again
again:
  %o = call i32 @tegula.hw.atom_add_i32.acq_rel.gpu(ptr addrspace(1) %flag, i32 0, i1 true, i32 1)
  br label %again)");
  EXPECT_CONTAINS(sums, "stopped after the steps");
  EXPECT_EQ(sums.find("hint"), sums.npos) << sums;
  // Program 0 computes, the others wait for it.
  for (int threads : {1, 2}) {
    const std::string computes = stopped(threads, R"(
entry:
  %p = call i32 @tegula.hw.program_id_x()
  %first = icmp eq i32 %p, 0
  br i1 %first, label %compute, label %spin
compute:
  br label %compute
spin:
  %v = call i32 @tegula.hw.ld_global_b32.volatile(ptr addrspace(1) %flag, i32 0, i1 true, i32 2)
  %set = icmp ne i32 %v, 0
  br i1 %set, label %done, label %spin
done:
  ret void)");
    EXPECT_CONTAINS(computes, "stopped after the steps");
    EXPECT_EQ(computes.find("hint"), computes.npos) << computes;
  }
}

TEST(WaitingPrograms, StacksAreGivenBack) {
  emulator::StackPool stacks;
  stacks.widen(16 << 10);
  stacks.reserve(9000);
  EXPECT_EQ(stacks.size(), 9000u);
  stacks.give_back(3000);
  EXPECT_GE(stacks.size(), 3000u);
  EXPECT_LT(stacks.size(), 6000u);
  stacks.reserve(7000);
  EXPECT_EQ(stacks.size(), 7000u);
  stacks.give_back(0);
  EXPECT_EQ(stacks.size(), 0u);
}

// Program p > 0 waits for what program p - 1 does last.
constexpr const char* kChain = R"(import triton
import triton.language as tl

@triton.jit
def acquire(p):
    return tl.inline_asm_elementwise("ld.acquire.gpu.global.s32 $0, [$1];", "=r,l", [p], dtype=tl.int32, is_pure=False, pack=1)

@triton.jit
def kernel(flags, x, HOW: tl.constexpr):
    pid = tl.program_id(0)
    s = tl.sum(tl.load(x + tl.arange(0, 64)), 0)
    if pid > 0:
        if HOW == 0:
            while tl.load(flags + pid - 1, volatile=True) == 0:
                pass
        elif HOW == 1:
            while tl.atomic_add(flags + pid - 1, 0, sem="acquire") == 0:
                pass
        else:
            while acquire(flags + pid - 1) == 0:
                pass
    tl.atomic_xchg(flags + pid, 1 + s, sem="release")
)";

TEST(WaitingPrograms, HaveTheirTurnsInAnyOrder) {
  const Program program = Program::parse(kChain, "k.py");
  for (bool check : {false, true}) {
    auto device = make_emulator({.check_races = check, .limit_s = 60});
    for (int how : {0, 1, 2})
      for (uint64_t seed : {0, 1, 2, 3, 11}) {
        SCOPED_TRACE(fmt::format("check {}, how {}, seed {}", check, how, seed));
        device->set_seed(seed);
        Array<int> flags(*device, 6), x(*device, std::vector<int>(64, 1));
        EXPECT_EQ(error_of([&] {
                    program.kernel("kernel").launch(*device, {6}, {.constexprs = {{"HOW", how}}},
                                                    reinterpret_cast<int*>(flags.address()),
                                                    reinterpret_cast<int*>(x.address()));
                  }),
                  "no error");
        EXPECT_EQ(flags.values(), std::vector<int>(6, 65));
      }
  }
}

// A volatile load is one number for all threads, whatever other programs store meanwhile: threads that part where the
// program branches on it would wait for each other at the sum's barriers for ever. Also of a tile whose elements
// several warps hold, where two blocks run a program, and behind a loop that waited for some time.
TEST(WaitingPrograms, ThreadsAgreeOnVolatileLoads) {
  const Program program = Program::parse(R"(import triton
import triton.language as tl

@triton.jit
def kernel(flags, x, out):
    i = tl.arange(0, 256)
    if tl.program_id(0) == 0:
        for k in range(9):
            tl.atomic_add(flags + k % 4, 1)
    else:
        looked = 0
        while (tl.load(flags) == 0) & (looked < 3):
            looked += 1
        for k in range(5):
            scalar = tl.load(flags, volatile=True)
            tile = tl.load(flags + tl.arange(0, 4), volatile=True)
            if scalar + looked > 3:
                tl.store(out + k, tl.sum(tl.load(x + i)))
            if tl.sum(tile) > 5:
                tl.store(out + 8 + k, tl.sum(tl.load(x + i)))
            tl.store(out + 16 + k * 64 + tl.arange(0, 64), tl.zeros([64], tl.int32) + scalar)
)",
                                         "k.py");
  for (const int num_ctas : {1, 2})
    for (const int num_warps : {1, 4}) {
      auto device = make_emulator({.threads = 1, .limit_s = 60});
      for (const uint64_t seed : {1, 2, 3, 4, 5, 6, 7}) {
        SCOPED_TRACE(fmt::format("num_ctas {}, num_warps {}, seed {}", num_ctas, num_warps, seed));
        device->set_seed(seed);
        Array<int> flags(*device, 4), x(*device, std::vector<int>(256, 1)), out(*device, 16 + 5 * 64);
        const auto of = [](Array<int>& array) { return reinterpret_cast<int*>(array.address()); };
        EXPECT_EQ(error_of([&] {
                    program.kernel("kernel").launch(*device, {2}, {.num_warps = num_warps, .num_ctas = num_ctas},
                                                    of(flags), of(x), of(out));
                  }),
                  "no error");
        const std::vector<int> values = out.values();
        for (size_t k = 0; k < 16; ++k) EXPECT_TRUE(values[k] == 0 || values[k] == 256) << values[k];
        for (size_t k = 16; k < values.size(); ++k) EXPECT_EQ(values[k], values[16 + (k - 16) / 64 * 64]) << k;
      }
    }
}

// Blocks that divide the rows of a product have rows of other tiles of their own, too.
TEST(WaitingPrograms, EachBlockLoadsItsOwnRows) {
  const Program program = Program::parse(R"(import triton
import triton.language as tl

@triton.jit
def kernel(x, a, out, product):
    i = tl.arange(0, 64)
    k = tl.arange(0, 16)
    v = tl.load(x + i, volatile=True)
    sums = tl.dot(tl.load(a + i[:, None] * 16 + k[None, :]), tl.load(a + i[None, :] * 16 + k[:, None]))
    tl.store(out + i, v)
    tl.store(product + i[:, None] * 64 + i[None, :], sums + v[:, None])
)",
                                         "k.py");
  for (const int num_warps : {1, 4}) {
    auto device = make_emulator();
    std::vector<float> numbers(64);
    std::iota(numbers.begin(), numbers.end(), 1.0f);
    Array<float> x(*device, numbers), out(*device, 64), product(*device, 64 * 64);
    Array<float16> a(*device, std::vector<float16>(64 * 16, float16(1.0f)));
    program.kernel("kernel").launch(*device, {1}, {.num_warps = num_warps, .num_ctas = 4},
                                    reinterpret_cast<float*>(x.address()), reinterpret_cast<float16*>(a.address()),
                                    reinterpret_cast<float*>(out.address()),
                                    reinterpret_cast<float*>(product.address()));
    EXPECT_EQ(out.values(), numbers);
    const std::vector<float> values = product.values();
    for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], 16 + numbers[i / 64]) << i;
  }
}

TEST(WaitingPrograms, ReportsSayWhereEachStands) {
  const Program program = Program::parse(R"(import triton
import triton.language as tl

@triton.jit
def kernel(x):
    if tl.program_id(0) == 0:
        while tl.load(x, volatile=True) == 0:
            pass
    elif tl.program_id(0) < 10:
        while tl.load(x + 1, volatile=True) == 0:
            pass
    else:
        while tl.atomic_add(x + 2, 0) == 0:
            pass
)",
                                         "k.py");
  auto device = make_emulator({.threads = 1, .limit_steps = 100000});
  Array<int> x(*device, 3);
  const std::string error = error_of(
      [&] { program.kernel("kernel").launch(*device, {12}, {.num_warps = 4}, reinterpret_cast<int*>(x.address())); });
  EXPECT_CONTAINS(error, "all threads run, last seen in a loop at k.py:7:9\n  in program (0, 0, 0)\n");
  EXPECT_CONTAINS(error, "\n  programs (1, 0, 0) to (9, 0, 0): all threads run, last seen in a loop at k.py:10:9\n");
  EXPECT_CONTAINS(error, "k.py:13:");
  // A place is told once, though threads are in two of its operations: a barrier, and that of the next iteration.
  for (size_t line = 0, end; line < error.size(); line = end + 1) {
    end = std::min(error.find('\n', line), error.size());
    const std::string one = error.substr(line, end - line);
    EXPECT_EQ(one.find("wait in barrier"), one.rfind("wait in barrier")) << one;
  }
}

// So far ahead of others are some warps that what they do without a barrier shows, atomics between or not.
TEST(WaitingPrograms, SeedsLetWarpsRunAhead) {
  auto device = make_emulator({.threads = 1});
  auto kernel = device->load(make_image({pointer("count", Elem::I32), pointer("out", Elem::I32)}, R"(
  %t = call i32 @tegula.hw.thread_id()
  %a = call i32 @tegula.hw.atom_add_i32.acq_rel.gpu(ptr addrspace(1) %count, i32 1, i1 true, i32 1)
  %b = call i32 @tegula.hw.atom_add_i32.acq_rel.gpu(ptr addrspace(1) %count, i32 1, i1 true, i32 1)
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %t
  call void @tegula.hw.st_global_b32(ptr addrspace(1) %p, i32 %b, i1 true, i32 4)
  ret void)",
                                        4));
  int earliest = 1 << 30;
  for (uint64_t seed = 1; seed < 9; ++seed) {
    device->set_seed(seed);
    Array<int> count(*device, 1), out(*device, 128);
    launch(*kernel, {1}, count.address(), out.address());
    for (int second : out.values()) earliest = std::min(earliest, second);
  }
  EXPECT_LT(earliest, 64);  // in rounds of one atomic each, 128
}

}  // namespace
}  // namespace tegula
