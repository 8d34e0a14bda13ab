// label: device
// One array that a kernel has by two parameters, written through one and read through the other.
#include "dsl/tegula.h"
#include "runtime/base/float16.h"
#include "tests/checks_off.h"
#include "tests/codegen/exec/emulator/emulator_kernels.h"

namespace tegula {
namespace {

// In another pass over the same places, and in the next iteration.
TEST(ArraysByTwoParameters, LoadsSeeWhatEachStepStored) {
  const ChecksOff checks_off;
  const Program program = Program::parse(R"(import triton
import triton.language as tl

@triton.jit
def kernel(sums, to, x, y, passes, AHEAD: tl.constexpr):
    row, depth = tl.arange(0, 64), tl.arange(0, 32)
    acc = tl.zeros((64, 64), tl.float32)
    weights = tl.load(y + depth[:, None] * 64 + row[None, :])
    for i in tl.range(0, passes, num_stages=1):
        for k in tl.range(0, 64, 32, num_stages=1):
            v = tl.load(x + row[:, None] * 64 + (k + depth)[None, :])
            acc = tl.dot(v, weights, acc)
            at = (k + AHEAD + depth)[None, :]
            tl.store(to + row[:, None] * 64 + at, v + 1, mask=at < 64)
    tl.store(sums + row[:, None] * 64 + row[None, :], acc)
)",
                                         "k.py");
  const std::vector<float16> ones(64 * 64, float16(1.0f));
  auto device = make_emulator();
  for (const auto& [ahead, passes, sum] : {std::tuple(0, 4, 2 * 32 * (1 + 2 + 3 + 4)), {32, 1, 32 * (1 + 2)}}) {
    Array<float> sums(*device, 64 * 64);
    Array<float16> x(*device, ones), y(*device, ones);
    const auto in_place = reinterpret_cast<float16*>(x.address());
    program.kernel("kernel").launch(*device, {1}, {.constexprs = {{"AHEAD", ahead}}, .num_stages = 1},
                                    reinterpret_cast<float*>(sums.address()), in_place, in_place,
                                    reinterpret_cast<float16*>(y.address()), passes);
    const std::vector<float> values = sums.values();
    for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], float(sum)) << i << ", " << ahead;
  }
}

}  // namespace
}  // namespace tegula
