#include "codegen/analysis/layout_price.h"

#include <gtest/gtest.h>

#include "codegen/layout/makers.h"
#include "tests/codegen/product/layouts.h"

namespace tegula {
namespace {

// Wide and dense accesses are cheap, and so is what stays in a thread or a warp.
TEST(LayoutPrice, Orders) {
  const LinearLayout narrow = coalesced_layout({64, 128}, {1, 0}, 1, 4),
                     wide = coalesced_layout({64, 128}, {1, 0}, 8, 4),
                     strided = coalesced_layout({64, 128}, {0, 1}, 1, 4);
  EXPECT_LT(access_price(wide, 1, 2, 8), access_price(narrow, 1, 2, 1));
  EXPECT_LT(access_price(narrow, 1, 2, 1), access_price(strided, 1, 2, 1));
  // The same sectors by more instructions; half of each sector.
  EXPECT_LT(access_price(wide, 1, 2, 8), access_price(wide, 1, 2, 4));
  EXPECT_EQ(access_price(coalesced_layout({64, 128}, {1, 0}, 4, 4), 1, 4, 4), 16 * (2 + 2 * 16));

  // Columns 8 bytes apart and rows 256: lanes that lie along the rows touch fewer sectors at a time, though the caches
  // give the others as few from memory. Stores have no such cache.
  Access columns{{{256, 64}, {8, 128}}, 1, 1, 2, true};
  EXPECT_LT(access_price(narrow, columns), access_price(strided, columns));
  Access stores = columns;
  stores.is_load = false;
  EXPECT_LT(access_price(wide, columns), access_price(wide, stores));
  // One number for 16 elements is loaded once.
  Access scales{{{4096, 64}, {0, 16}}, 1, 1, 4, true, {1, 16}};
  Access numbers = scales;
  numbers.repeats = {1, 1};
  EXPECT_LT(4 * access_price(wide, scales), access_price(wide, numbers));

  const ir::Type type = ir::Type::tile(Elem::F16, {64, 128});
  const LinearLayout sums = wgmma_accumulator_layout({64, 128}, 1, 1), in_warps = *warp_local_layout(sums, 1, 8);
  EXPECT_EQ(conversion_price(type, sums, sums), 0);
  EXPECT_LT(0, conversion_price(type, sums, in_warps));
  EXPECT_LT(conversion_price(type, sums, in_warps), conversion_price(type, sums, wide));
}

}  // namespace
}  // namespace tegula
