// label: device
// Races with what threads load that hold copies of an element: none where only its owner's store follows from it.
#include "codegen/exec/emulator.h"
#include "dsl/program.h"
#include "tests/codegen/exec/emulator/emulator_kernels.h"

namespace tegula {
namespace {

// x and z are one array of which the compiler does not know; i are 32 elements, each held by four threads.
std::string error_of_kernel(const std::string& body, uint64_t seed = 0) {
  auto device = make_emulator({.seed = seed, .check_races = true});
  Array<int32_t> x(*device, 512), y(*device, 512);
  return error_of([&] {
    auto* px = reinterpret_cast<int32_t*>(x.address());
    Program::parse(
        "import triton\nimport triton.language as tl\n@triton.jit\ndef kernel(x, y, z, n):\n"
        "    i = tl.arange(0, 32)\n    " +
            body + "\n",
        "k.py")
        .kernel("kernel")
        .launch(*device, {1}, {.num_warps = 4}, px, reinterpret_cast<int32_t*>(y.address()), px, 3);
  });
}

TEST(OwnedValues, InPlaceThroughTwoParameters) {
  for (const char* body : {
           "tl.store(x + i, tl.load(z + i) * 2 + 1)",
           "v = tl.load(z + i, mask=i < 30, other=5)\n    tl.store(x + i, tl.where(v > 2, v + 7, i + 9))",
           "v = tl.load(z + i)\n    for k in range(n):\n        v = v * 3 + k + 1\n    tl.store(x + i, v)",
           "v = tl.load(z + i)\n    if n > 2:\n        v = v + 1\n    tl.store(x + i, v)",
           "v = tl.load(z + i)\n    tl.atomic_add(y + i, v)\n    tl.store(x + i, v + 3)",
           "tl.store(x + 3, tl.load(z + 3) + 1)",
           "tl.store(x + i, i + 7)\n    tl.store(y + i, tl.load(z + i))",
       }) {
    SCOPED_TRACE(body);
    for (uint64_t seed : {0, 1, 2}) EXPECT_EQ(error_of_kernel(body, seed), "no error");
  }
}

// Each warp reduces what it has loaded, and the first one's results are stored.
TEST(OwnedValues, ReductionsWithinWarps) {
  for (const char* body : {
           "v = tl.load(z + i)\n    tl.store(y, tl.sum(v, 0))\n    tl.store(x + i, v + 1)",
           "v = tl.load(z + i)\n    s = tl.sum(v, 0)\n    tl.store(x + i, v + s + 1)",
           "v = tl.load(z + i, mask=i < 30, other=0)\n    m, j = tl.max(v, 0, return_indices=True)\n"
           "    tl.store(x + i, v * 2 + m + j + 1)",
           "j = tl.arange(0, 1)[None, :]\n    v = tl.load(z + j)\n"  // one element, of which all threads have a copy
           "    tl.store(x + j, v + tl.max(v * v, 1)[:, None] + 1)",
           "for k in range(n):\n        v = tl.load(z + i) * tl.load(y + i)\n        s = tl.sum(v, 0)\n"
           "        tl.store(x + i, v + s + k + 1)",
           "v = tl.load(z + tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :])\n"
           "    tl.store(x + tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :], v + tl.sum(v, 1)[:, None] + 1)",
       }) {
    SCOPED_TRACE(body);
    for (uint64_t seed : {0, 1, 2}) EXPECT_EQ(error_of_kernel(body, seed), "no error");
  }
}

TEST(OwnedValues, WhatReachesOtherThreadsStillRaces) {
  for (const char* body : {
           "v = tl.load(z + i)\n    tl.store(x + i, v + 1)\n    tl.store(y + tl.arange(0, 128), tl.sum(v, 0) + "
           "tl.arange(0, "
           "128))",
           "v = tl.load(z + i)\n    if tl.sum(v, 0) == 5:\n        tl.store(y + 1, 1)\n    tl.store(x + i, v + 1)",
           "v = tl.load(z + i)\n    tl.store(x + i, tl.load(y + i + tl.sum(v, 0)) + 1)",
           "v = tl.load(z + i)\n    for k in range(tl.sum(v, 0)):\n        tl.store(y + k, 1)\n    tl.store(x + i, v + "
           "1)",
           "v = tl.load(z + i)\n    s = tl.sum(v, 0)\n    for k in range(n):\n        s = s * 3 + k\n"
           "    tl.store(x + i, v + 1)\n    tl.store(y + tl.arange(0, 128), s + tl.arange(0, 128))",
           "v = tl.load(z + i)\n    tl.store(y + i, tl.cumsum(v, 0))\n    tl.store(x + i, v + 1)",
           "v = tl.load(z + i)\n    tl.store(x + i, v + 1)\n    tl.store(y + tl.arange(0, 128), tl.broadcast_to(v[:, "
           "None], 32, 4).reshape(128))",
           "v = tl.load(z + i)\n    tl.store(x + i, tl.load(y + v) + 1)",
           "v = tl.load(z + 3)\n    tl.store(y + i, v + i)\n    tl.store(x + 3, v + 1)",
           "v = tl.load(z + 3)\n    if v == 0:\n        tl.store(y + 1, 1)\n    tl.store(x + 3, v + 1)",
           "v = tl.load(z + 31 - i)\n    tl.store(x + i, v + 1)",
       }) {
    SCOPED_TRACE(body);
    EXPECT_CONTAINS(error_of_kernel(body), "race: ");
  }
}

}  // namespace
}  // namespace tegula
