// Products in programs whose threads have few registers: ptxas refuses an instruction whose operands leave none.
// heavy: RegisterLimits.EachInstructionFits
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "dsl/tegula.h"
#include "tests/assembler.h"

namespace tegula {
namespace {

constexpr const char* kKernels = R"(
import triton
import triton.language as tl

@triton.jit
def product(out, a, b, c, K, M: tl.constexpr, N: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, 64)
    acc = tl.zeros((M, N), tl.float32)
    for i in range(0, K, 64):
        acc = tl.dot(tl.load(a + m[:, None] * K + (i + k)), tl.load(b + (i + k)[:, None] * N + n), acc)
    tl.store(out + m[:, None] * N + n, acc)

@triton.jit
def chained(out, a, b, c, K, M: tl.constexpr, N: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, 64)
    acc = tl.zeros((M, N), tl.float32)
    q = tl.load(a + m[:, None] * N + n)
    for i in range(0, K, 64):
        p = tl.exp2(tl.dot(q, tl.load(b + (i + k)[None, :] * N + n[:, None])))
        acc = tl.dot(p.to(q.dtype), tl.load(c + (i + k)[:, None] * N + n), acc)
    tl.store(out + m[:, None] * N + n, acc)
)";

struct Limit {
  const char* kernel;
  int rows, columns, num_warps, maxnreg;
};

// With 16 warps a thread has 128 registers, with 32 it has 64.
constexpr Limit kLimits[] = {
    {"product", 256, 256, 16, 0}, {"product", 64, 64, 4, 24},   {"product", 64, 64, 4, 40},
    {"product", 64, 256, 4, 128}, {"product", 128, 64, 8, 40},  {"chained", 64, 64, 4, 24},
    {"chained", 64, 64, 4, 96},   {"product", 256, 192, 16, 0}, {"product", 256, 128, 32, 0},
};

TEST(RegisterLimits, EachInstructionFits) {
  SKIP_WITHOUT_PTXAS();
  const Program program = Program::parse(kKernels, "limits.py");
  for (const Elem elem : {Elem::F16, Elem::F8E4M3})
    for (const char* target : {"sm_80", "sm_90a"})
      for (const Limit& limit : kLimits) {
        if (elem != Elem::F16 && limit.num_warps > 4) continue;  // shared memory, and time
        if (std::string_view(target) == "sm_80" && (limit.num_warps > 4 || limit.columns > 64)) continue;
        SCOPED_TRACE(fmt::format("{} of type {}, {} x {}, {} warps, maxnreg {}, {}", limit.kernel, int(elem),
                                 limit.rows, limit.columns, limit.num_warps, limit.maxnreg, target));
        const ArgType in{.elem = elem, .pointer = true, .divisible_by = 16};
        const ArgType out{.elem = Elem::F32, .pointer = true, .divisible_by = 16};
        const ArgType depth{.elem = Elem::I32, .divisible_by = 64};
        LaunchOptions options{.num_warps = limit.num_warps, .num_stages = 2, .maxnreg = limit.maxnreg};
        options.constexprs = {{"M", limit.rows}, {"N", limit.columns}};
        const std::vector<ArgType> types{out, in, in, in, depth};
        const KernelImage image = program.kernel(limit.kernel).compile(types, options, target);
        const PtxasRun run = assemble(image.ptx, target);
        EXPECT_EQ(run.status, 0) << run.log;
        EXPECT_LE(run.registers, limit.maxnreg ? std::max(limit.maxnreg, 32) : 255);
      }
}

}  // namespace
}  // namespace tegula
