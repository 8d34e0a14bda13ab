// label: device
// Products whose operands find room in shared memory only if what is stored has one slot.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "codegen/passes/pass_manager.h"
#include "dsl/tegula.h"
#include "tests/codegen/lower/dot_support.h"
#include "tests/devices.h"

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

@triton.jit
def of_bytes(x, y, out, n):
    i, j = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    s = tl.zeros((64, 64), tl.int32)
    t = tl.zeros((64, 64), tl.int32)
    for c in range(n):
        b_x = tl.load(x + (c * 64 + i) * 64 + j) * 2
        s = tl.dot(tl.trans(b_x), b_x ^ 1, s)
        t = tl.dot(tl.trans(tl.load(y + (c * 64 + i) * 64 + j)), tl.trans(b_x), t)
    tl.store(out + i * 64 + j, s + t)

@triton.jit
def indexed(x, y, out, n):
    i, j, k = tl.arange(0, 128)[:, None], tl.arange(0, 64)[:, None], tl.arange(0, 128)[None, :]
    s = tl.zeros((128, 64), tl.float32)
    for c in range(n):
        b_y = tl.load(y + (c * 64 + (j ^ 5)) * 128 + k)
        s += tl.dot(tl.load(x + (c * 128 + i) * 128 + k), tl.trans(b_y))
    tl.store(out + i * 64 + tl.arange(0, 64)[None, :], s)

@triton.jit
def in_rows(x, y, out, n):
    i, j, k = tl.arange(0, 64)[:, None], tl.arange(0, 32)[None, :], tl.arange(0, 64)
    s = tl.zeros((64, 32), tl.float32)
    t = tl.zeros((64, 32), tl.float32)
    for c in range(n):
        b_y = tl.load(y + (c * 64 + k[:, None]) * 32 + j)
        t += b_y
        s = tl.dot(tl.load(x + i * 1024 + c * 64 + k[None, :]), b_y, s)
    tl.store(out + i * 32 + j, s + t)
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

// A product that finds room only in the second round takes what a later one has had stored, ahead of that one.
TEST(Room, WhatALaterProductStoresIsThereForAnEarlierOne) {
  constexpr int kWidth = 128, kRows = 64, kBlocks = 2, kElements = kBlocks * kRows * kWidth;
  Kernel kernel = Program::parse(kKernel, "room.py").kernel("chain");
  const std::vector<float> d = random_values<float>(kElements, 1);
  std::vector<float16> h = random_values<float16>(kBlocks * kWidth * kWidth, 2);
  for (float16& x : h) x = float16(float(x) / 16);
  const std::vector<bfloat16> k = random_values<bfloat16>(kElements, 3);
  for (auto& device : gpu_or_emulators({{.target = "sm_90a"}})) {
    auto products = [&](int num_stages) {
      Buffer buffer_d(*device, d), buffer_h(*device, h), buffer_k(*device, k), out(*device, d.size() * sizeof(float));
      kernel.launch(*device, {1},
                    {.constexprs = {{"K", kWidth}, {"BT", kRows}}, .num_warps = 8, .num_stages = num_stages},
                    buffer_d.as<float>(), buffer_h.as<float16>(), buffer_k.as<bfloat16>(), out.as<float>(), kBlocks);
      return std::pair(buffer_d.download<float>(), out.download<float>());
    };
    const auto [new_d, out] = products(3);
    const auto [expected_d, expected_out] = products(1);
    EXPECT_LE(relative_error(new_d, numbers(expected_d)), 1e-2) << device->info().name;
    EXPECT_LE(relative_error(out, numbers(expected_out)), 1e-2) << device->info().name;
  }
}

// Runs the passes for a program that may have 1, 2, ... KB of shared memory.
void compile_in_any_room(const char* kernel, const std::vector<ArgType>& types, const LaunchOptions& options,
                         int64_t most_kilobytes) {
  constexpr int64_t kKilobyte = 1024;
  const Program program = Program::parse(kKernel, "room.py");
  for (int64_t kilobytes = 1; kilobytes <= most_kilobytes; ++kilobytes) {
    SCOPED_TRACE(std::to_string(kilobytes) + " KB");
    auto func = program.kernel(kernel).tile_func(types, options);
    Target target = *find_target("sm_90a");
    target.shared_per_program = kilobytes * kKilobyte;
    Diagnostics diags;
    PassContext context{target, diags};
    EXPECT_TRUE(run_passes(*func, context)) << diags.render();
  }
}

// Bytes that are transposed beside the loop's first product have their place by then, with whatever room there is.
TEST(Room, BytesAreTransposedIntoAPlaceThatIsThere) {
  std::vector<ArgType> types(3, {.elem = Elem::I8, .pointer = true, .divisible_by = 16});
  types[2].elem = Elem::I32;
  types.push_back({.elem = Elem::I32});
  compile_in_any_room("of_bytes", types, {.num_warps = 4, .num_stages = 2}, 64);
}

// The only product of a loop has an operand in a place of one slot, where there is room for no second one: the product
// is over when the next iteration fills it.
TEST(Room, APlaceOfOneSlotIsNotFilledWhileAProductReadsIt) {
  std::vector<ArgType> types(3, {.elem = Elem::F32, .pointer = true, .divisible_by = 16});
  types.push_back({.elem = Elem::I32});
  for (int num_stages : {2, 3})
    for (int warp_specialize : {1, 2}) {
      SCOPED_TRACE(std::to_string(num_stages) + " stages, warp_specialize " + std::to_string(warp_specialize));
      compile_in_any_room("in_rows", types,
                          {.num_warps = 4, .num_stages = num_stages, .warp_specialize = warp_specialize}, 64);
    }
}

// Warps of their own copy by threads, and there is room for two slots.
TEST(Room, CopyingWarpsAndSumsInFlightDoNotWaitForEachOther) {
  constexpr int kBlocks = 3;
  Kernel kernel = Program::parse(kKernel, "room.py").kernel("indexed");
  const std::vector<float> x = random_values<float>(kBlocks * 128 * 128, 1);
  const std::vector<float> y = random_values<float>(kBlocks * 64 * 128, 2);
  for (auto& device : gpu_or_emulators({{.target = "sm_90a"}})) {
    auto products = [&](int warp_specialize) {
      Buffer buffer_x(*device, x), buffer_y(*device, y), out(*device, 128 * 64 * sizeof(float));
      kernel.launch(*device, {1}, {.num_warps = 8, .num_stages = 2, .warp_specialize = warp_specialize},
                    buffer_x.as<float>(), buffer_y.as<float>(), out.as<float>(), kBlocks);
      return out.download<float>();
    };
    EXPECT_EQ(products(2), products(1)) << device->info().name;
  }
}

}  // namespace
}  // namespace tegula
