// label: device
// Barriers of pipelined kernels on the emulator: no order of threads changes a result, and each barrier is needed,
// since without it some order does, or is a fault.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/analysis/shared_hazards.h"
#include "codegen/exec/emulator.h"
#include "codegen/ir/printer.h"
#include "codegen/passes/passes.h"
#include "dsl/tegula.h"
#include "runtime/base/float16.h"
#include "tests/codegen/exec/emulator/emulator_kernels.h"
#include "tests/codegen/passes/laid_out_kernels.h"

namespace tegula {
namespace {

constexpr const char* kKernels = R"(
import triton
import triton.language as tl


@triton.jit
def step(a_ptr, b_ptr, at, acc):
    m = tl.arange(0, 64)
    n = tl.arange(0, 16)
    k = tl.arange(0, 32)
    a = tl.load(a_ptr + at * 64 * 32 + m[:, None] * 32 + k[None, :])
    b = tl.load(b_ptr + at * 32 * 16 + k[:, None] * 16 + n[None, :])
    return tl.dot(a, b, acc)


@triton.jit
def store(out_ptr, at, acc):
    m = tl.arange(0, 64)
    n = tl.arange(0, 16)
    tl.store(out_ptr + at * 64 * 16 + m[:, None] * 16 + n[None, :], acc)


@triton.jit
def product(pages_ptr, a_ptr, b_ptr, out_ptr, rounds, steps):
    acc = tl.zeros((64, 16), tl.float32)
    for i in range(0, steps):
        acc = step(a_ptr, b_ptr, i, acc)
    store(out_ptr, 0, acc)


@triton.jit
def persistent(pages_ptr, a_ptr, b_ptr, out_ptr, rounds, steps):
    for t in range(0, rounds):
        acc = tl.zeros((64, 16), tl.float32)
        for i in range(0, steps):
            acc = step(a_ptr, b_ptr, t * steps + i, acc)
        store(out_ptr, t, acc)


@triton.jit
def pages(pages_ptr, a_ptr, b_ptr, out_ptr, rounds, steps):
    """What is loaded depends on a load, which runs further ahead; the sum of a row stays within its warp."""
    total = tl.zeros((64,), tl.float32)
    for t in range(0, rounds):
        acc = tl.zeros((64, 16), tl.float32)
        for i in range(0, steps):
            acc = step(a_ptr, b_ptr, tl.load(pages_ptr + t * steps + i), acc)
        total = total * 0.5 + tl.sum(acc, axis=1)
    tl.store(out_ptr + tl.arange(0, 64), total)


@triton.jit
def attention(pages_ptr, a_ptr, b_ptr, out_ptr, rounds, steps):
    m = tl.arange(0, 64)
    n = tl.arange(0, 32)
    d = tl.arange(0, 16)
    q = tl.load(a_ptr + m[:, None] * 16 + d[None, :])
    acc = tl.zeros((64, 16), tl.float32)
    highest = tl.full((64,), 0.0, tl.float32)
    for i in range(0, steps):
        k = tl.load(b_ptr + (i * 32 + n)[None, :] * 16 + d[:, None])
        v = tl.load(a_ptr + (i * 32 + n)[:, None] * 16 + d[None, :])
        scores = tl.dot(q, k)
        higher = tl.maximum(highest, tl.max(scores, 1))
        acc = acc * tl.exp2(highest - higher)[:, None]
        acc = tl.dot(tl.exp2(scores - higher[:, None]).to(tl.float16), v, acc)
        highest = higher
    store(out_ptr, 0, acc)


@triton.jit
def rows(pages_ptr, a_ptr, b_ptr, out_ptr, rounds, steps):
    """A reduction between warps, over and over through the same room."""
    at = tl.arange(0, 1024)
    x = tl.load(a_ptr + at).to(tl.float32)
    for i in range(0, steps):
        x = x * i - tl.sum(x, axis=0)
    tl.store(out_ptr + at, x)
)";

constexpr int32_t kRounds = 4, kSteps = 7;  // more than there are slots, and no multiple of their number

struct Case {
  const char *kernel, *target;
  int num_stages;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.kernel << " on " << c.target; }

class Barriers : public testing::TestWithParam<Case> {
 protected:
  /// The kernel behind all passes.
  Shared<ir::Func> laid_out() const {
    static const Program program = Program::parse(kKernels, "barriers.py");
    std::vector<ArgType> types(4, {.elem = Elem::F16, .pointer = true, .divisible_by = 16});
    types[0].elem = Elem::I32, types[3].elem = Elem::F32;
    types.insert(types.end(), 2, {.elem = Elem::I32});
    // Two warpgroups: the warps of one keep the pace of its products.
    const int num_warps = target_.has(Feature::Wgmma) ? 8 : 4;
    auto func = program.kernel(GetParam().kernel)
                    .tile_func(types, {.num_warps = num_warps,
                                       .num_stages = GetParam().num_stages,
                                       .warp_specialize = 1});  // without: no barriers of the program
    Diagnostics diags;
    PassContext context{target_, diags};
    for (const PassInfo& pass : pass_table()) pass.run(*func, context);
    return func;
  }

  /// What a launch stores; nothing after a fault.
  std::optional<std::vector<float>> run(const KernelImage& image, uint64_t seed) const {
    static const std::vector<float16> values = [] {
      std::vector<float16> list;
      for (int i = 0; i < kRounds * kSteps * 64 * 32; ++i) list.push_back(float16(float(i * 7 % 31 % 5 - 2)));
      return list;
    }();
    std::vector<int32_t> numbers(kRounds * kSteps);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = int32_t(i * 5 % numbers.size());
    auto device = make_emulator({.target = GetParam().target, .threads = 1, .seed = seed});
    Array<float16> a(*device, values), b(*device, values);
    Array<int32_t> pages(*device, numbers);
    Array<float> out(*device, kRounds * 64 * 16);
    const std::string error = error_of([&] {
      launch(*device->load(image), {1}, pages.address(), a.address(), b.address(), out.address(), kRounds, kSteps);
    });
    if (error != "no error") return std::nullopt;
    return out.values();
  }

  const Target target_ = *find_target(GetParam().target);
  const std::vector<uint64_t> seeds_{1, 2, 3, 4};
};

TEST_P(Barriers, EachIsNeeded) {
  auto func = laid_out();
  std::vector<ir::Op*> barriers;
  ir::walk(func->body, [&](ir::Op& op) {
    if (op.opcode == ir::Opcode::Barrier) barriers.push_back(&op);
  });
  EXPECT_FALSE(barriers.empty());
  const auto image = emulator_image(*func, target_);
  ASSERT_TRUE(image);
  const auto expected = run(*image, 0);
  ASSERT_TRUE(expected);
  for (uint64_t seed : seeds_) EXPECT_EQ(run(*image, seed), expected) << "seed " << seed;

  for (ir::Op* barrier : barriers) {
    auto& ops = barrier->parent->ops;
    auto at = std::find_if(ops.begin(), ops.end(), [&](auto& op) { return op.get() == barrier; });
    auto behind = std::next(at);
    std::unique_ptr<ir::Op> removed = std::move(*at);
    ops.erase(at);
    EXPECT_FALSE(find_shared_hazards(*func, plan_shared(*func)).barrier_before.empty());
    const auto without = emulator_image(*func, target_);
    EXPECT_TRUE(
        std::any_of(seeds_.begin(), seeds_.end(), [&](uint64_t seed) { return run(*without, seed) != expected; }))
        << "nothing goes wrong without the barrier before " << behind->get()->info().text << " in " << ir::print(*func);
    ops.insert(behind, std::move(removed));
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Barriers,
                         testing::Values(Case{"product", "sm_80", 3}, Case{"product", "sm_90a", 3},
                                         Case{"persistent", "sm_80", 2}, Case{"persistent", "sm_90a", 3},
                                         Case{"pages", "sm_90a", 3}, Case{"attention", "sm_80", 3},
                                         Case{"attention", "sm_90a", 3}, Case{"rows", "sm_90a", 1}),
                         [](const auto& info) { return std::string(info.param.kernel) + "_" + info.param.target; });

}  // namespace
}  // namespace tegula
