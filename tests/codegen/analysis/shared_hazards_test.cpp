// label: unit
// Which barriers accesses to shared memory need, and which accesses no barrier mends: find_shared_hazards on tile IR.
#include "codegen/analysis/shared_hazards.h"

#include <gtest/gtest.h>

#include "codegen/ir/reader.h"
#include "codegen/ir/verifier.h"

namespace tegula {
namespace {

// Ops that need a barrier ahead, `*` behind those of the asynchronous proxy, and errors, for a function with that body.
std::vector<std::string> hazards(const std::string& body) {
  Diagnostics diags;
  auto func = ir::read(R"(func @f(%0: i32 "n", %1: ptr<f16> "x" div 16) {num_warps = 4} {
  %2 = splat %1 : tile<64x64xptr<f16>>
  %3 = constant {value = 0.0} : tile<64x64xf16>
  %4 = constant {value = 0.0} : tile<64x64xf32>
  %5 = constant {value = 0} : i32
  %6 = constant {value = 1} : i32
  %7 = constant {value = 2} : i32
)" + body + "  return\n}\n",
                       "f.tile", diags);
  EXPECT_TRUE(func && ir::verify(*func, ir::Stage::Tile, diags)) << diags.render();
  if (!func) return {};
  const SharedHazards found = find_shared_hazards(*func, plan_shared(*func));
  std::vector<std::string> out;
  ir::walk(func->body, [&](const ir::Op& op) {
    if (auto need = found.barrier_before.find(&op); need != found.barrier_before.end())
      out.push_back(op.info().text + std::string(need->second ? " *" : ""));
    for (const auto& [where, message] : found.errors)
      if (where == &op) out.push_back(op.info().text + (": " + message));
  });
  return out;
}
using Texts = std::vector<std::string>;

TEST(SharedHazards, WhatAThreadStoresOthersSeeBehindABarrier) {
  EXPECT_EQ(hazards(R"(
  %10 = shared_alloc {slots = 1} : shared<64x64xf16>
  shared_store %3, %10
  %11 = shared_read %10 : tile<64x64xf16>
  %12 = shared_read %10 : tile<64x64xf16>
  shared_store %3, %10
)"),
            (Texts{"shared_read", "shared_store"}));
}

TEST(SharedHazards, ACopyIsWaitedForAndThenOrdered) {
  EXPECT_EQ(hazards(R"(
  %10 = shared_alloc {slots = 1} : shared<64x64xf16>
  async_copy %2, %10
  %11 = async_commit : token<group>
  async_wait %11
  %12 = shared_read %10 : tile<64x64xf16>
)"),
            (Texts{"shared_read"}));
  EXPECT_EQ(hazards(R"(
  %10 = shared_alloc {slots = 1} : shared<64x64xf16>
  async_copy %2, %10
  %11 = async_commit : token<group>
  %12 = shared_read %10 : tile<64x64xf16>
  async_wait %11
)"),
            (Texts{"shared_read: a place is read before the copy into it is waited for"}));
  EXPECT_EQ(hazards(R"(
  %10 = shared_alloc {slots = 1} : shared<64x64xf16>
  async_copy %2, %10
  %11 = async_commit : token<group>
  shared_store %3, %10
  async_wait %11
)"),
            (Texts{"shared_store: a place is written while a copy writes it"}));
}

TEST(SharedHazards, ProductsReadThroughAProxyOfTheirOwn) {
  EXPECT_EQ(hazards(R"(
  %10 = shared_alloc {slots = 1} : shared<64x64xf16>
  shared_store %3, %10
  %11 = shared_read %10 : tile<64x64xf16>
  %12 = mma_start %11, %10, %4 {columns = 64, warpgroups = [1, 1]} : in_flight<64x64xf32>
  %13 = mma_wait %12 {pending = 0} : tile<64x64xf32>
  shared_store %3, %10
)"),
            (Texts{"shared_read", "mma_start *", "shared_store"}));
  EXPECT_EQ(hazards(R"(
  %10 = shared_alloc {slots = 1} : shared<64x64xf16>
  %12 = mma_start %3, %10, %4 {columns = 64, warpgroups = [1, 1]} : in_flight<64x64xf32>
  shared_store %3, %10
  %13 = mma_wait %12 {pending = 0} : tile<64x64xf32>
)"),
            (Texts{"shared_store: a place is written while a product reads it"}));
  EXPECT_EQ(hazards(R"(
  %10 = shared_alloc {slots = 1} : shared<64x64xf16>
  %12 = mma_start %3, %10, %4 {columns = 64, warpgroups = [1, 1]} : in_flight<64x64xf32>
  %13 = mma_wait %12 {pending = 1} : tile<64x64xf32>
)"),
            (Texts{"mma_wait: sums are read before the product is waited for"}));
}

// A loop that stores to slots in turn and reads what it has stored: with two slots one barrier an iteration is enough.
std::string in_turn(int slots) {
  return R"(
  %10 = shared_alloc {slots = )" +
         std::to_string(slots) + R"(} : shared<64x64xf16>
  %14 = constant {value = )" +
         std::to_string(slots) + R"(} : i32
  %11 = for %5, %0, %6, %5 : i32 { ^(%20: i32, %21: i32):
    %22 = add %21, %6 : i32
    %23 = eq %22, %14 : i1
    %24 = select %23, %5, %22 : i32
    %25 = shared_slot %10, %21 : shared<64x64xf16>
    shared_store %3, %25
    %26 = shared_read %25 : tile<64x64xf16>
    yield %24
  }
)";
}

TEST(SharedHazards, SlotsTakenInTurnAreToldApart) {
  EXPECT_EQ(hazards(in_turn(1)), (Texts{"shared_store", "shared_read"}));
  EXPECT_EQ(hazards(in_turn(2)), (Texts{"shared_read"}));
}

}  // namespace
}  // namespace tegula
