// label: unit
// Which barriers accesses to shared memory need, and which accesses no barrier mends: find_shared_hazards on tile IR.
#include "codegen/analysis/shared_hazards.h"

#include <gtest/gtest.h>

#include "tests/codegen/function_on_places.h"

namespace tegula {
namespace {

// Ops that need a barrier ahead, `*` behind those of the asynchronous proxy, and errors, for a function with that body.
std::vector<std::string> hazards(const std::string& body) {
  const auto func = function_on_places(body);
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

TEST(SharedHazards, WhatAThreadStoresForItselfItReadsWithoutABarrier) {
  EXPECT_EQ(hazards(R"(
  %10 = shared_alloc {slots = 1} : shared<64x64xf16>
  thread_store %3, %10
  %11 = thread_read %10 : tile<64x64xf16>
  %12 = thread_read %10 : tile<64x64xf16>
  thread_store %3, %10
)"),
            (Texts{"thread_store"}));
  EXPECT_EQ(hazards(R"(
  %10 = shared_alloc {slots = 1} : shared<64x64xf16>
  shared_store %3, %10
  thread_store %3, %10
  %11 = thread_read %10 : tile<64x64xf16>
  shared_store %3, %10
)"),
            (Texts{"thread_store", "shared_store"}));
}

// However many accesses an array has, the next one is compared with two of each kind.
TEST(SharedHazards, AccessesOfAnArrayAtManyAddresses) {
  EXPECT_EQ(hazards(R"(
  %10 = addptr %1, %6 : ptr<f16>
  %11 = addptr %1, %7 : ptr<f16>
  %12 = addptr %1, %0 : ptr<f16>
  %13 = load %1 : f16
  %14 = load %10 : f16
  %15 = load %11 : f16
  %16 = load %12 : f16
  store %11, %13
  store %10, %13
  store %12, %13
  %17 = load %1 : f16
  %18 = load %12 : f16
  store %1, %13
)"),
            (Texts{"store", "load", "store"}));
  EXPECT_EQ(hazards(R"(
  %10 = addptr %1, %6 : ptr<f16>
  for %5, %0, %6 { ^(%20: i32):
    %21 = addptr %10, %20 : ptr<f16>
    %22 = load %21 : f16
    %23 = load %1 : f16
    %24 = load %10 : f16
    %25 = addptr %21, %7 : ptr<f16>
    %26 = load %25 : f16
    yield
  }
  %27 = load %1 : f16
  store %10, %27
)"),
            (Texts{"store"}));
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
  %12 = mma_start %11, %10, %4 {columns = 64, instruction = "wgmma.f16", parts = [1, 1]} : in_flight<64x64xf32>
  %13 = mma_wait %12 {instruction = "wgmma.f16", pending = 0} : tile<64x64xf32>
  shared_store %3, %10
)"),
            (Texts{"shared_read", "mma_start *", "shared_store"}));
  EXPECT_EQ(hazards(R"(
  %10 = shared_alloc {slots = 1} : shared<64x64xf16>
  %12 = mma_start %3, %10, %4 {columns = 64, instruction = "wgmma.f16", parts = [1, 1]} : in_flight<64x64xf32>
  shared_store %3, %10
  %13 = mma_wait %12 {instruction = "wgmma.f16", pending = 0} : tile<64x64xf32>
)"),
            (Texts{"shared_store: a place is written while a product reads it"}));
  EXPECT_EQ(hazards(R"(
  %10 = shared_alloc {slots = 1} : shared<64x64xf16>
  %12 = mma_start %3, %10, %4 {columns = 64, instruction = "wgmma.f16", parts = [1, 1]} : in_flight<64x64xf32>
  %13 = mma_wait %12 {instruction = "wgmma.f16", pending = 1} : tile<64x64xf32>
)"),
            (Texts{"mma_wait: sums are read before the product is waited for"}));
}

// A loop that takes slots in turn, from `first` on: the index is %21.
std::string in_turn(int slots, const std::string& body, const std::string& first = "%5") {
  const std::string number = std::to_string(slots);
  return "%14 = constant {value = " + number + "} : i32\n%11 = for %5, %0, %6, " + first +
         " : i32 { ^(%20: i32, %21: i32):\n%22 = add %21, %6 : i32\n%23 = eq %22, %14 : i1\n"
         "%24 = select %23, %5, %22 : i32\n" +
         body + "yield %24\n}\n";
}
std::string alloc(int slots) {
  return "%10 = shared_alloc {slots = " + std::to_string(slots) + "} : shared<64x64xf16>\n";
}
std::string outer(const std::string& body) { return "for %5, %0, %6 { ^(%30: i32):\n" + body + "yield\n}\n"; }

// It stores and reads what it has stored: with two slots one barrier an iteration is enough.
const std::string kStoreAndRead =
    "%25 = shared_slot %10, %21 : shared<64x64xf16>\n"
    "shared_store %3, %25\n"
    "%26 = shared_read %25 : tile<64x64xf16>\n";

TEST(SharedHazards, SlotsTakenInTurnAreToldApart) {
  EXPECT_EQ(hazards(alloc(1) + in_turn(1, kStoreAndRead)), (Texts{"shared_store", "shared_read"}));
  EXPECT_EQ(hazards(alloc(2) + in_turn(2, kStoreAndRead)), (Texts{"shared_read"}));
}

// The loop around begins with slot 0 again, which may be the one that was read last: a matter of each time it is
// entered, not of each iteration.
TEST(SharedHazards, ALoopThatIsEnteredAgainCountsSlotsAnew) {
  const Texts both{"for", "shared_read"};
  EXPECT_EQ(hazards(alloc(2) + outer(in_turn(2, kStoreAndRead))), both);
  EXPECT_EQ(hazards(outer(alloc(2) + in_turn(2, kStoreAndRead))), both);
  EXPECT_EQ(hazards(alloc(3) + outer(in_turn(3, kStoreAndRead, "%6"))), both);
  // Unless it goes on where the loop ended.
  const std::string going_on =
      "%12 = for %5, %0, %6, %5 : i32 { ^(%30: i32, %31: i32):\n" + in_turn(2, kStoreAndRead, "%31") + "yield %11\n}\n";
  EXPECT_EQ(hazards(alloc(2) + going_on), (Texts{"shared_read"}));
  // Behind it nothing is known of the slot.
  EXPECT_EQ(hazards(alloc(2) + going_on + "%40 = shared_slot %10, %6 : shared<64x64xf16>\nshared_store %3, %40\n"),
            (Texts{"shared_read", "shared_store"}));
}

TEST(SharedHazards, OnlyIndicesThatMoveOnBySlotsAreToldApart) {
  // One slot further than there are; a constant slot inside of the loop; an index that stays as it is.
  EXPECT_EQ(hazards(alloc(3) + in_turn(2, kStoreAndRead)), (Texts{"shared_store", "shared_read"}));
  EXPECT_EQ(hazards(alloc(2) + in_turn(2, kStoreAndRead + "%27 = shared_slot %10, %6 : shared<64x64xf16>\n"
                                                          "shared_store %3, %27\n")),
            (Texts{"shared_store", "shared_read", "shared_store"}));
  EXPECT_EQ(hazards(alloc(2) + "%15 = for %5, %0, %6, %5 : i32 { ^(%20: i32, %21: i32):\n" + kStoreAndRead +
                    "yield %21\n}\n"),
            (Texts{"shared_store", "shared_read"}));
}

// What is stored ahead of a loop whose products read it is ordered once.
TEST(SharedHazards, StoresAheadOfALoopAreOrderedAheadOfIt) {
  const std::string product =
      "%40 = mma_start %11, %11, %41 {columns = 64, instruction = \"wgmma.f16\", parts = [1, 1]} : "
      "in_flight<64x64xf32>\n"
      "%42 = mma_wait %40 {instruction = \"wgmma.f16\", pending = 0} : tile<64x64xf32>\n";
  EXPECT_EQ(
      hazards("%41 = constant {value = 0.0} : tile<64x64xf32>\n%11 = shared_alloc {slots = 1} : shared<64x64xf16>\n"
              "shared_store %3, %11\n" +
              outer(product)),
      (Texts{"for *"}));
}

// One thread ends barriers, and others may use their bytes behind that.
TEST(SharedHazards, WhatTakesTheRoomOfBarriersWaitsForTheirEnd) {
  EXPECT_EQ(hazards(R"(
  %10 = shared_alloc {barriers = true, slots = 1} : shared<1xi64>
  shared_free %10
  %11 = shared_alloc {slots = 1} : shared<64x64xf16>
  shared_store %3, %11
)"),
            (Texts{"shared_store"}));
}

// A barrier that the first iteration needs and no other one does is superfluous where a later one needs another.
TEST(SharedHazards, OneBarrierAnIterationOfCopies) {
  EXPECT_EQ(hazards(alloc(2) + R"(
  %40 = shared_slot %10, %5 : shared<64x64xf16>
  async_copy %2, %40
  %41 = async_commit : token<group>
  %14 = constant {value = 2} : i32
  %11, %12, %13 = for %5, %0, %6, %5, %6, %41 : i32, i32, token<group> { ^(%20: i32, %21: i32, %42: i32, %43: token<group>):
    %22 = add %21, %6 : i32
    %23 = eq %22, %14 : i1
    %24 = select %23, %5, %22 : i32
    %44 = add %42, %6 : i32
    %45 = eq %44, %14 : i1
    %46 = select %45, %5, %44 : i32
    async_wait %43
    %47 = shared_slot %10, %42 : shared<64x64xf16>
    async_copy %2, %47
    %48 = async_commit : token<group>
    %25 = shared_slot %10, %21 : shared<64x64xf16>
    %26 = shared_read %25 : tile<64x64xf16>
    yield %24, %46, %48
  }
  async_wait %13
)"),
            (Texts{"async_copy"}));
}

}  // namespace
}  // namespace tegula
