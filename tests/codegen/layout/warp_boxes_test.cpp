// label: unit
// Which boxes warps hold of a tile.
#include "codegen/layout/warp_boxes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "codegen/layout/makers.h"

namespace tegula {
namespace {

// A fragment of wgmma: four warps have 16 rows each, a quad of lanes eight elements of a row.
LinearLayout fragment(int columns, int groups) {
  std::string text = "register=[[0,1],[8,0]";
  for (int at = 8; at < columns; at *= 2) text += fmt::format(",[0,{}]", at);
  text += "], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], warp=[[16,0],[32,0]";
  if (groups == 2) text += ",[64,0]";
  std::string why;
  auto layout = LinearLayout::parse(fmt::format("{}] -> dim0:{}, dim1:{}", text, 64 * groups, columns), &why);
  EXPECT_TRUE(layout) << why;
  return *layout;
}

TEST(WarpBoxes, OfFragments) {
  const auto rows = warp_boxes(fragment(256, 2), 1, 16);
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->warps, 1);
  EXPECT_EQ(rows->extents, (std::vector<int64_t>{16, 64}));
  EXPECT_EQ(rows->swizzle, 128);
  EXPECT_EQ(rows->pieces.size(), 4u);
  EXPECT_EQ(rows->pieces[3].first, (std::vector<int64_t>{0, 192}));
  EXPECT_EQ(rows->pieces[1].registers.size(), 32u);
  EXPECT_EQ(rows->shared.tile_shape(), (std::vector<int64_t>{128, 64}));
  // By columns four warps make rows of 128 bytes.
  const auto columns = warp_boxes(fragment(128, 2), 0, 16);
  ASSERT_TRUE(columns);
  EXPECT_EQ(columns->warps, 4);
  EXPECT_EQ(columns->extents, (std::vector<int64_t>{64, 128}));
  EXPECT_EQ(columns->pieces.size(), 1u);
  EXPECT_EQ(columns->shared.tile_shape(), (std::vector<int64_t>{128, 128}));
  EXPECT_EQ(warp_boxes(fragment(64, 1), 1, 32)->extents, (std::vector<int64_t>{16, 32}));
  EXPECT_FALSE(warp_boxes(fragment(8, 1), 1, 16)) << "rows of 16 bytes";
  EXPECT_FALSE(warp_boxes(coalesced_layout({64, 64}, {1, 0}, 8, 4), 1, 16)) << "a warp has four rows at a time";
}

// Rows may lie along any axis of a tile of three.
TEST(WarpBoxes, OfTilesOfThreeAxes) {
  std::string why;
  const auto tile = LinearLayout::parse(
      "register=[[1,0,0],[2,0,0],[4,0,0],[0,0,8],[0,0,16]], lane=[[8,0,0],[16,0,0],[0,0,1],[0,0,2],[0,0,4]], warp=[] "
      "-> dim0:32, dim1:1, dim2:32",
      &why);
  ASSERT_TRUE(tile) << why;
  for (int fast : {0, 2}) {
    const auto boxes = warp_boxes(*tile, fast, 16);
    ASSERT_TRUE(boxes);
    LinearLayout::Basis next(3, 0);
    next[size_t(fast)] = 1;
    EXPECT_EQ(boxes->shared.ins()[0].bases[0], next) << boxes->shared.to_string();
  }
}

// Rows that are no power of two: a stretch of 32 columns and one of 8.
TEST(WarpBoxes, OfStretches) {
  std::string why;
  const auto tile = LinearLayout::parse(
      "register=[[0,1],[8,0],5*[0,8]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], warp=[[16,0],[32,0]] -> dim0:64, dim1:40",
      &why);
  ASSERT_TRUE(tile) << why;
  EXPECT_FALSE(warp_boxes(*tile, 1, 16));
  const std::vector<Stretch> stretches = stretches_of(40);
  ASSERT_EQ(stretches.size(), 2u);
  const auto wide = warp_boxes(*tile, 1, 16, stretches[0]), rest = warp_boxes(*tile, 1, 16, stretches[1]);
  ASSERT_TRUE(wide && rest);
  EXPECT_EQ(wide->extents, (std::vector<int64_t>{16, 32}));
  EXPECT_EQ(wide->swizzle, 64);
  EXPECT_EQ(rest->extents, (std::vector<int64_t>{16, 8}));
  EXPECT_EQ(rest->swizzle, 0);
  EXPECT_EQ(rest->pieces[0].first, (std::vector<int64_t>{0, 32}));
  EXPECT_EQ(rest->pieces[0].registers, (std::vector<int>{16, 17, 18, 19}));
  EXPECT_EQ(stretch_with(64 * 8, {64, 40}, 1)->first, 32);
  EXPECT_EQ(stretch_with(64 * 40, {64, 40}, 1)->count, 0);
  EXPECT_FALSE(stretch_with(64 * 16, {64, 40}, 1));
}

}  // namespace
}  // namespace tegula
