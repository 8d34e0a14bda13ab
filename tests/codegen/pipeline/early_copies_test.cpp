// label: device
// Operands of products that are loaded outside of pipelined loops: which loads become copies, and what comes out.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "dsl/tegula.h"
#include "tests/codegen/lower/dot_support.h"
#include "tests/devices.h"

namespace tegula {
namespace {

constexpr const char* kKernels = R"(
import triton
import triton.language as tl

@triton.jit
def chain(x, y, z, out, rows):
    i, k, j = tl.arange(0, 64)[:, None], tl.arange(0, 64), tl.arange(0, 64)[None, :]
    b_x = tl.load(x + i * 64 + k[None, :], mask=i < rows, other=0.0)
    b_y = tl.load(y + k[:, None] * 64 + j)
    b_z = tl.load(z + k[:, None] * 64 + j)
    p = tl.dot(b_x, b_y) + b_x
    tl.store(out + i * 64 + j, tl.dot(p.to(tl.float16), b_z))

@triton.jit
def written(x, y, z, out, rows):
    i, k, j = tl.arange(0, 64)[:, None], tl.arange(0, 64), tl.arange(0, 64)[None, :]
    tl.store(x + i * 64 + j, tl.load(z + i * 64 + j), mask=i < rows)
    tl.debug_barrier()
    b_x = tl.load(x + i * 64 + k[None, :])
    b_y = tl.load(y + k[:, None] * 64 + j)
    tl.store(out + i * 64 + j, tl.dot(b_x, b_y))
)";

constexpr int kSide = 64, kElements = kSide * kSide;

std::vector<ArgType> types() {
  std::vector<ArgType> types(4, {.elem = Elem::F16, .pointer = true, .divisible_by = 16});
  types[3].elem = Elem::F32;
  types.push_back({.elem = Elem::I32});
  return types;
}

int copies(const char* kernel) {
  const std::string ptx =
      Program::parse(kKernels, "early.py").kernel(kernel).compile(types(), {.num_warps = 4}, "sm_90a").ptx;
  int found = 0;
  for (size_t at = 0; (at = ptx.find("cp.async.cg", at)) != std::string::npos; ++at) ++found;
  return found;
}

using Matrix = std::vector<double>;
Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(kElements);
  for (int i = 0; i < kSide; ++i)
    for (int k = 0; k < kSide; ++k)
      for (int j = 0; j < kSide; ++j) c[i * kSide + j] += a[i * kSide + k] * b[k * kSide + j];
  return c;
}

// Each thread copies 4 times 16 bytes of a tile.
TEST(EarlyCopies, AreOfOperandsThatAreLoadedOutsideOfLoops) {
  EXPECT_EQ(copies("chain"), 12);
  EXPECT_EQ(copies("written"), 4);  // of y alone
}

TEST(EarlyCopies, AreThereWhereTheyAreRead) {
  constexpr int kRows = 37;
  const std::vector<float16> x = random_values<float16>(kElements, 1), y = random_values<float16>(kElements, 2),
                             z = random_values<float16>(kElements, 3);
  Matrix few = numbers(x), of_z = numbers(x);
  for (int i = 0; i < kElements; ++i) {
    if (i >= kRows * kSide)
      few[i] = 0;
    else
      of_z[i] = number(z[i]);
  }
  Matrix chain = product(few, numbers(y));
  for (int i = 0; i < kElements; ++i) chain[i] += few[i];
  chain = product(chain, numbers(z));
  const Program program = Program::parse(kKernels, "early.py");
  for (auto& device : tensor_core_devices())
    for (const auto& [name, expected] : {std::pair("chain", chain), std::pair("written", product(of_z, numbers(y)))}) {
      Buffer buffer_x(*device, x), buffer_y(*device, y), buffer_z(*device, z), out(*device, kElements * sizeof(float));
      Kernel kernel = program.kernel(name);
      kernel.launch(*device, {1}, {.num_warps = 4}, buffer_x.as<float16>(), buffer_y.as<float16>(),
                    buffer_z.as<float16>(), out.as<float>(), kRows);
      EXPECT_LE(relative_error(out.download<float>(), expected), 2e-3) << name << " on " << device->info().name;
    }
}

}  // namespace
}  // namespace tegula
