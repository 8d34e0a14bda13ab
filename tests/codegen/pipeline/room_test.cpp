// label: unit
// Products whose operands find room in shared memory only if what is stored has one slot.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "dsl/tegula.h"

namespace tegula {
namespace {

constexpr const char* kKernel = R"(
import triton
import triton.language as tl

@triton.jit
def chain(d, h, k, out, n, K: tl.constexpr, BT: tl.constexpr):
    i, j = tl.arange(0, K), tl.arange(0, K)
    s = tl.zeros((K, K), tl.float32)
    for c in range(n):
        t = c * BT + tl.arange(0, BT)
        b_d = tl.load(d + t[:, None] * K + j[None, :])
        b_k = tl.load(k + t[:, None] * K + j[None, :])
        b_h = tl.load(h + c * K * K + i[:, None] * K + j[None, :])
        tl.store(out + t[:, None] * K + j[None, :], b_d - tl.dot(b_d.to(b_h.dtype), b_h))
        x = s - tl.dot(tl.trans(b_h), s.to(b_h.dtype))
        tl.store(d + t[:, None] * K + j[None, :], tl.dot(b_k, tl.trans(x.to(b_k.dtype))))
        s = s - tl.dot(tl.dot(s.to(b_k.dtype), tl.trans(b_k)).to(b_k.dtype), b_k)
        s -= tl.dot(tl.trans(b_d).to(b_k.dtype), b_k)
)";

TEST(Room, OperandsThatAreStoredShareItBeforeProductsMultiplyFromRegisters) {
  auto array = [](Elem elem) { return ArgType{.elem = elem, .pointer = true, .divisible_by = 16}; };
  const std::vector<ArgType> types{
      array(Elem::F32), array(Elem::F16), array(Elem::BF16), array(Elem::F32), {.elem = Elem::I32}};
  const LaunchOptions options{.constexprs = {{"K", 128}, {"BT", 64}}, .num_warps = 8};
  const std::string ptx = Program::parse(kKernel, "room.py").kernel("chain").compile(types, options, "sm_90a").ptx;
  EXPECT_NE(ptx.find("wgmma.mma_async"), std::string::npos);
  EXPECT_EQ(ptx.find("mma.sync"), std::string::npos);
}

}  // namespace
}  // namespace tegula
