// label: unit
// Registers that threads exchange among their own before they go to shared memory.
#include "codegen/layout/spread_banks.h"

#include <gtest/gtest.h>

#include "codegen/layout/makers.h"

namespace tegula {
namespace {

// What a thread holds after the swaps, where register r holds the element r of `reg`.
void expect_right(const LinearLayout& reg, const SpreadBanks& spread) {
  for (int lane = 0; lane < 32; ++lane) {
    std::vector<int> registers(size_t(reg.in_size(Dim::Register)));
    for (size_t r = 0; r < registers.size(); ++r) registers[r] = int(r);
    for (const auto& [lane_bit, bit] : spread.swaps)
      if (lane >> lane_bit & 1)
        for (size_t r = 0; r < registers.size(); ++r)
          if (!(r >> bit & 1)) std::swap(registers[r], registers[r | size_t(1) << bit]);
    for (size_t r = 0; r < registers.size(); ++r)
      EXPECT_EQ(spread.layout.apply({{Dim::Register, int(r)}, {Dim::Lane, lane}}),
                reg.apply({{Dim::Register, registers[r]}, {Dim::Lane, lane}}));
  }
}

// Rows of 8 elements a lane that are stored along the other axis.
TEST(SpreadBanks, OfTransposedTiles) {
  for (const int per_thread : {8, 16}) {
    SCOPED_TRACE(per_thread);
    const LinearLayout rows = coalesced_layout({64, 64}, {1, 0}, per_thread, 4);
    const LinearLayout columns = shared_layout_for_dot_operand({64, 64}, {0, 1}, 32);
    EXPECT_GE(bank_conflicts(rows, columns, 32, 1), 4);
    const auto spread = spread_banks(rows, columns, 1);
    ASSERT_TRUE(spread);
    EXPECT_EQ(bank_conflicts(spread->layout, columns, 32, 1), 1);
    expect_right(rows, *spread);
  }
}

TEST(SpreadBanks, NotWhereLanesHaveBanksOfTheirOwn) {
  const LinearLayout rows = coalesced_layout({64, 64}, {1, 0}, 4, 4);
  EXPECT_FALSE(spread_banks(rows, shared_layout_for_dot_operand({64, 64}, {1, 0}, 32), 4));
  const LinearLayout one = coalesced_layout({32}, {0}, 1, 1);
  EXPECT_FALSE(spread_banks(one, swizzled_shared_layout({32}, {0}, 1, 1, 1), 1));
}

}  // namespace
}  // namespace tegula
