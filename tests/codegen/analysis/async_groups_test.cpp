// label: unit
// How many groups of copies may still be under way at a wait: groups_since on tile IR.
#include "codegen/analysis/async_groups.h"

#include <gtest/gtest.h>

#include "codegen/ir/reader.h"
#include "codegen/ir/verifier.h"

namespace tegula {
namespace {

// Those of the waits of a function with that body, in the order of the text; parameters are %0 (i32) and %1 (i1).
std::vector<int64_t> waits(const std::string& body) {
  Diagnostics diags;
  auto func =
      ir::read("func @f(%0: i32 \"n\", %1: i1 \"c\") {num_warps = 4} {\n" + body + "  return\n}\n", "f.tile", diags);
  EXPECT_TRUE(func && ir::verify(*func, ir::Stage::Tile, diags)) << diags.render();
  if (!func) return {};
  auto groups = groups_since(*func);
  std::vector<int64_t> out;
  ir::walk(func->body, [&](const ir::Op& op) {
    if (op.opcode == ir::Opcode::AsyncWait) out.push_back(groups.at(&op));
  });
  return out;
}

TEST(AsyncGroups, StraightCodeCountsLaterCommits) {
  EXPECT_EQ(waits(R"(
  %2 = async_commit : token<group>
  async_wait %2
  %3 = async_commit : token<group>
  %4 = async_commit : token<group>
  async_wait %2
  async_wait %3
  async_wait %4
)"),
            (std::vector<int64_t>{0, 2, 1, 0}));
}

TEST(AsyncGroups, LoopsHandTokensOn) {
  EXPECT_EQ(waits(R"(
  %2 = async_commit : token<group>
  %3 = async_commit : token<group>
  %4 = constant {value = 0} : i32
  %5 = constant {value = 1} : i32
  %6, %7 = for %4, %0, %5, %2, %3 : token<group>, token<group> { ^(%8: i32, %9: token<group>, %10: token<group>):
    async_wait %9
    %11 = async_commit : token<group>
    async_wait %10
    yield %10, %11
  }
  async_wait %6
  async_wait %7
  async_wait %2
)"),
            (std::vector<int64_t>{1, 1, 1, 0, 1}));
}

TEST(AsyncGroups, TheFewestOfAllWaysCount) {
  // One way commits once, the other twice; the loop may have no iteration.
  EXPECT_EQ(waits(R"(
  %2 = async_commit : token<group>
  %3 = if %1 : token<group> { ^():
    %4 = async_commit : token<group>
    %5 = async_commit : token<group>
    yield %4
  } { ^():
    %6 = async_commit : token<group>
    yield %2
  }
  async_wait %2
  async_wait %3
  %7 = constant {value = 0} : i32
  %8 = constant {value = 1} : i32
  for %7, %0, %8 { ^(%9: i32):
    async_wait %3
    %10 = async_commit : token<group>
    yield
  }
  async_wait %3
)"),
            (std::vector<int64_t>{1, 1, 1, 1}));
}

TEST(AsyncGroups, RoundsOfRounds) {
  EXPECT_EQ(waits(R"(
  %2 = async_commit : token<group>
  %3 = async_commit : token<group>
  %4 = async_commit : token<group>
  %5 = constant {value = 0} : i32
  %6 = constant {value = 1} : i32
  %7, %8, %9 = for %5, %0, %6, %2, %3, %4 : token<group>, token<group>, token<group> { ^(%10: i32, %11: token<group>, %12: token<group>, %13: token<group>):
    %14, %15, %16 = for %5, %0, %6, %11, %12, %13 : token<group>, token<group>, token<group> { ^(%17: i32, %18: token<group>, %19: token<group>, %20: token<group>):
      async_wait %18
      %21 = async_commit : token<group>
      yield %19, %20, %21
    }
    yield %14, %15, %16
  }
  async_wait %9
)"),
            (std::vector<int64_t>{2, 0}));
}

TEST(AsyncGroups, WhileLoops) {
  EXPECT_EQ(waits(R"(
  %2 = async_commit : token<group>
  %3 = while %2 : token<group> { ^(%4: token<group>):
    condition %1, %4
  } { ^(%5: token<group>):
    %6 = async_commit : token<group>
    async_wait %5
    yield %6
  }
  async_wait %3
)"),
            (std::vector<int64_t>{1, 0}));
}

}  // namespace
}  // namespace tegula
