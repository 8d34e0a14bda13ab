// What makers of layouts make, and what hardware can do with it: shared places, fragments of products, matrices.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "codegen/layout/byte_transpose.h"
#include "codegen/layout/gf2.h"
#include "codegen/layout/linear_layout.h"
#include "codegen/layout/makers.h"
#include "runtime/base/internal_error.h"
#include "tests/codegen/layout/layout_text.h"
#include "tests/codegen/product/layouts.h"

namespace tegula {

namespace {

TEST(Makers, Blocked) {
  EXPECT_EQ(blocked_layout({64, 64}, {1, 4}, {8, 4}, {2, 2}, {1, 0}),
            layout("register=[[0,1],[0,2],[0,32],[16,0],[32,0]], "
                   "lane=[[0,4],[0,8],[1,0],[2,0],[4,0]], warp=[[0,16],[8,0]] -> dim0:64, dim1:64"));
  // A tile smaller than the block: threads hold copies.
  EXPECT_EQ(blocked_layout({16}, {2}, {32}, {2}, {0}),
            layout("register=[[1]], lane=[[2],[4],[8],[0],[0]], warp=[[0]] -> dim0:16"));
}

TEST(Makers, Repeated) {
  EXPECT_EQ(blocked_layout({96, 24}, {1, 4}, {16, 2}, {4, 1}, {1, 0}),
            layout("register=[[0,1],[0,2],3*[0,8],3*[32,0]], "
                   "lane=[[0,4],[1,0],[2,0],[4,0],[8,0]], warp=[[16,0],[0,0]] -> dim0:96, dim1:24"));
  EXPECT_EQ(coalesced_layout({192}, {0}, 4, 1),
            layout("register=[[1],[2],3*[64]], lane=[[4],[8],[16],[32],[0]], warp=[] -> dim0:192"));
  EXPECT_EQ(wgmma_accumulator_layout({128, 48}, 2, 1),
            layout("register=[[0,1],[8,0],[0,8],3*[0,16]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], "
                   "warp=[[16,0],[32,0],[64,0]] -> dim0:128, dim1:48"));
  EXPECT_EQ(mma_operand_layout({48, 32}, 0, 16, 1, 1),
            layout("register=[[0,1],[8,0],[0,8],[0,16],3*[16,0]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], warp=[] -> "
                   "dim0:48, dim1:32"));
  EXPECT_EQ(fma_operand_layout(coalesced_layout({2, 48}, {1, 0}, 1, 1), 0, {2, 12}),
            layout("register=[[0,1],[0,2],3*[0,4]], lane=[[0,0],[0,0],[0,0],[0,0],[1,0]], warp=[] -> dim0:2, dim1:12"));
}

TEST(LinearLayout, ReshapesOfRepeats) {
  LinearLayout l = coalesced_layout({192}, {0}, 2, 1);
  EXPECT_EQ(l, layout("register=[[1],3*[64]], lane=[[2],[4],[8],[16],[32]], warp=[] -> dim0:192"));
  EXPECT_EQ(l.reshape_tile({3, 64}),
            layout("register=[[0,1],3*[1,0]], lane=[[0,2],[0,4],[0,8],[0,16],[0,32]], warp=[] -> dim0:3, dim1:64"));
  EXPECT_EQ(l.reshape_tile({12, 16}),
            layout("register=[[0,1],3*[4,0]], lane=[[0,2],[0,4],[0,8],[1,0],[2,0]], warp=[] -> dim0:12, dim1:16"));
  EXPECT_EQ(l.reshape_tile({64, 3}), std::nullopt);  // 64 blocks of 3 are not 3 of 64
  EXPECT_EQ(l.reshape_tile({2, 96}), std::nullopt);
  LinearLayout fifteen = layout("register=[15*[2]], lane=[[1]] -> dim0:30");
  EXPECT_EQ(fifteen.reshape_tile({3, 10}), std::nullopt);  // one repeat would be two
  LinearLayout two = layout("register=[5*[0,2],3*[1,0]], lane=[[0,1]] -> dim0:3, dim1:10");
  EXPECT_EQ(two.reshape_tile({30}), layout("register=[5*[2],3*[10]], lane=[[1]] -> dim0:30"));
  EXPECT_TRUE(two.reshape_tile({30})->is_invertible());
  EXPECT_EQ(two.reshape_tile({30})->try_invert_and_compose(fifteen),
            layout("register=[5*[1,0],3*[5,0]], lane=[[0,1]] -> register:15, lane:2"));
  EXPECT_EQ(fifteen.try_invert_and_compose(*two.reshape_tile({30})), std::nullopt);
}

TEST(Makers, Coalesced) {
  EXPECT_EQ(coalesced_layout({1024}, {0}, 4, 4),
            layout("register=[[1],[2],[512]], lane=[[4],[8],[16],[32],[64]], warp=[[128],[256]] -> dim0:1024"));
  // A short row: a warp takes several.
  EXPECT_EQ(coalesced_layout({32, 32}, {1, 0}, 4, 4),
            layout("register=[[0,1],[0,2],[16,0]], lane=[[0,4],[0,8],[0,16],[1,0],[2,0]], warp=[[4,0],[8,0]] "
                   "-> dim0:32, dim1:32"));
  EXPECT_EQ(coalesced_layout({16, 64}, {0, 1}, 8, 1),
            layout("register=[[1,0],[2,0],[4,0],[0,16],[0,32]], lane=[[8,0],[0,1],[0,2],[0,4],[0,8]], warp=[] "
                   "-> dim0:16, dim1:64"));
}

TEST(Makers, MmaFragments) {
  LinearLayout a = mma_operand_layout({16, 16}, 0, 16, 1, 1);
  LinearLayout b = mma_operand_layout({16, 8}, 1, 16, 1, 1);
  LinearLayout c = mma_accumulator_layout({16, 8}, 1, 1);
  EXPECT_EQ(a.in_size(Dim::Register), 8);
  EXPECT_EQ(b.in_size(Dim::Register), 4);
  EXPECT_EQ(c.in_size(Dim::Register), 4);
  for (int lane = 0; lane < 32; ++lane) {
    int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 8; ++i) {
      int row = i % 4 < 2 ? g : g + 8;
      int column = t * 2 + i % 2 + (i < 4 ? 0 : 8);
      EXPECT_EQ(a.apply({{Dim::Register, i}, {Dim::Lane, lane}}), (LinearLayout::Basis{row, column}));
    }
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(b.apply({{Dim::Register, i}, {Dim::Lane, lane}}),
                (LinearLayout::Basis{t * 2 + i % 2 + (i < 2 ? 0 : 8), g}));
      EXPECT_EQ(c.apply({{Dim::Register, i}, {Dim::Lane, lane}}),
                (LinearLayout::Basis{i < 2 ? g : g + 8, t * 2 + i % 2}));
    }
  }
}

TEST(Makers, MmaWarpsAndRepeats) {
  EXPECT_EQ(mma_accumulator_layout({64, 32}, 2, 2),
            layout("register=[[0,1],[8,0],[0,8],[32,0]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], "
                   "warp=[[0,16],[16,0]] -> dim0:64, dim1:32"));
  EXPECT_EQ(mma_operand_layout({64, 32}, 0, 16, 2, 2),
            layout("register=[[0,1],[8,0],[0,8],[0,16],[32,0]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], "
                   "warp=[[0,0],[16,0]] -> dim0:64, dim1:32"));
  EXPECT_EQ(mma_operand_layout({32, 32}, 1, 16, 2, 2),
            layout("register=[[1,0],[8,0],[16,0],[0,8]], lane=[[2,0],[4,0],[0,1],[0,2],[0,4]], "
                   "warp=[[0,16],[0,0]] -> dim0:32, dim1:32"));
  EXPECT_EQ(mma_operand_layout({16, 32}, 0, 8, 1, 1),
            layout("register=[[0,1],[0,2],[8,0],[0,16]], lane=[[0,4],[0,8],[1,0],[2,0],[4,0]], warp=[] "
                   "-> dim0:16, dim1:32"));
}

TEST(Makers, Swizzle) {
  // 4 rows of 8 elements, groups of 2: group ^= row.
  LinearLayout s = swizzled_shared_layout({4, 8}, {1, 0}, 2, 1, 4);
  EXPECT_EQ(s, layout("offset=[[0,1],[0,2],[0,4],[1,2],[2,4]] -> dim0:4, dim1:8"));
  for (int row = 0; row < 4; ++row)
    for (int column = 0; column < 8; ++column)
      EXPECT_EQ(s.apply({{Dim::Offset, row * 8 + ((column / 2) ^ row) * 2 + column % 2}}),
                (LinearLayout::Basis{row, column}));
}

TEST(BankConflicts, OfATranspositionWithoutSwizzle) {
  LinearLayout rows = coalesced_layout({32, 32}, {1, 0}, 1, 1), columns = coalesced_layout({32, 32}, {0, 1}, 1, 1);
  LinearLayout plain = swizzled_shared_layout({32, 32}, {1, 0}, 1, 1, 1);
  EXPECT_EQ(bank_conflicts(rows, plain, 32, 1), 1);
  EXPECT_EQ(bank_conflicts(columns, plain, 32, 1), 32);
  EXPECT_EQ(bank_conflicts(columns, plain, 16, 1), 16);
  EXPECT_EQ(bank_conflicts(columns, swizzled_shared_layout({32, 32}, {1, 0}, 1, 1, 32), 32, 1), 1);
}

// Every byte is moved once, what a lane reads and writes lies side by side, and no two rows of a matrix share banks.
TEST(ByteTranspose, OfSwizzledPlaces) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{128, 128}, {64, 32}, {32, 256}, {64, 64}})
    for (int from : {0, 1})
      for (int num_warps : {1, 4}) {
        const ByteTranspose plan = plan_byte_transpose(shape, from, num_warps);
        for (const auto& [layout, axis] : {std::pair(&plan.load, from), {&plan.store, 1 - from}}) {
          SCOPED_TRACE(layout->to_string());
          EXPECT_TRUE(layout->is_invertible());
          const LinearLayout shared = shared_layout_for_dot_operand(shape, {axis, 1 - axis}, 8);
          const LinearLayout to_offset = layout->invert_and_compose(shared);
          for (int byte = 0; byte < 4; ++byte) EXPECT_EQ(to_offset.basis(Dim::Register, byte, Dim::Offset), 1 << byte);
          if (shape[size_t(axis)] >= 128) {
            EXPECT_EQ(bank_conflicts(*layout, shared, 8, 16), 1);
          }
        }
      }
  EXPECT_FALSE(can_transpose_bytes({64, 16}, 1));
  EXPECT_FALSE(can_transpose_bytes({96, 64}, 4));
  EXPECT_FALSE(can_transpose_bytes({32, 32}, 4));
  EXPECT_FALSE(can_transpose_bytes({2, 32, 32}, 1));
}

TEST(SharedLayout, ForMmaFragments) {
  LinearLayout accumulator = mma_accumulator_layout({64, 64}, 2, 2);
  LinearLayout rows = coalesced_layout({64, 64}, {1, 0}, 4, 4);
  for (int bits : {16, 32}) {
    int vector = 0;
    LinearLayout shared = shared_layout_for_conversion(accumulator, rows, bits, &vector);
    EXPECT_EQ(vector, bits == 16 ? 8 : 4);  // Three register bits are common: column 1, rows 8 and 32.
    EXPECT_EQ(bank_conflicts(accumulator, shared, bits, vector), 1);
    EXPECT_EQ(bank_conflicts(rows, shared, bits, vector), 1);
  }
}

TEST(SharedLayout, WithBroadcastLanes) {
  LinearLayout src = coalesced_layout({64, 4}, {1, 0}, 4, 4).drop_tile_dim(1);
  LinearLayout dst = coalesced_layout({64}, {0}, 1, 4);
  int vector = 0;
  LinearLayout shared = shared_layout_for_conversion(src, dst, 32, &vector);
  EXPECT_EQ(vector, 1);
  EXPECT_TRUE(shared.is_invertible());
  EXPECT_EQ(bank_conflicts(dst, shared, 32, vector), 1);
}

// Runs the plan as the instruction is defined and compares with what each register should hold.
void expect_matrices(const LinearLayout& reg, const LinearLayout& shared, bool transposed, int matrices,
                     int bits = 16) {
  auto plan = plan_matrices(reg, shared, bits);
  ASSERT_TRUE(plan) << reg.to_string() << " ; " << shared.to_string();
  EXPECT_EQ(plan->transposed, transposed);
  EXPECT_EQ(plan->matrices, matrices);
  const int packed = 32 / bits, in_row = 128 / bits;
  EXPECT_EQ(plan->packed, packed);
  int warps = reg.in_size(Dim::Warp);
  for (int warp = 0; warp < warps; ++warp)
    for (int first = 0; first < reg.in_size(Dim::Register); first += packed * matrices) {
      std::vector<int> address;
      for (int lane = 0; lane < 32; ++lane)
        address.push_back(plan->address.apply({{Dim::Register, first}, {Dim::Lane, lane}, {Dim::Warp, warp}})[0]);
      for (int m = 0; m < matrices; ++m) {
        std::vector<bool> bank(8);
        for (int row = 0; row < 8; ++row) {
          EXPECT_EQ(address[m * 8 + row] % in_row, 0);
          bank[address[m * 8 + row] / in_row % 8] = true;
        }
        for (int b = 0; b < 8; ++b) EXPECT_TRUE(bank[b]) << "bank conflict in " << shared.to_string();
        for (int lane = 0; lane < 32; ++lane)
          for (int e = 0; e < packed; ++e) {
            int row = transposed ? lane % 4 * 2 + e : lane / 4;
            int place = transposed ? lane / 4 : lane % 4 * packed + e;
            EXPECT_EQ(shared.apply({{Dim::Offset, address[m * 8 + row] + place}}),
                      reg.apply({{Dim::Register, first + packed * m + e}, {Dim::Lane, lane}, {Dim::Warp, warp}}));
          }
      }
    }
}

// The words of operands of 8 and 32 bits are those of 16, if they lie along K.
TEST(Ldmatrix, DotOperandsOfOtherTypes) {
  for (int bits : {8, 32})
    for (int k : {32, 64, 128}) {
      LinearLayout shared_a = shared_layout_for_dot_operand({64, k}, {1, 0}, bits);
      expect_matrices(mma_operand_layout({64, k}, 0, bits, 2, 2), shared_a, false, 4, bits);
      LinearLayout shared_b = shared_layout_for_dot_operand({k, 64}, {0, 1}, bits);
      expect_matrices(mma_operand_layout({k, 64}, 1, bits, 2, 2), shared_b, false, 4, bits);
      EXPECT_FALSE(plan_matrices(mma_operand_layout({64, k}, 0, bits, 2, 2),
                                 shared_layout_for_dot_operand({64, k}, {0, 1}, bits), bits));
    }
}

TEST(Ldmatrix, DotOperands) {
  for (int k : {16, 32, 64, 128}) {
    for (int order : {0, 1}) {
      std::vector<int> dims = order == 0 ? std::vector{1, 0} : std::vector{0, 1};
      LinearLayout src_a = coalesced_layout({64, k}, dims, 8, 4);
      LinearLayout shared_a = shared_layout_for_dot_operand(src_a, 16);
      EXPECT_EQ(bank_conflicts(src_a, shared_a, 16, 8), 1) << shared_a.to_string();
      expect_matrices(mma_operand_layout({64, k}, 0, 16, 2, 2), shared_a, order == 1, 4);
      LinearLayout src_b = coalesced_layout({k, 64}, dims, 8, 4);
      LinearLayout shared_b = shared_layout_for_dot_operand(src_b, 16);
      EXPECT_EQ(bank_conflicts(src_b, shared_b, 16, 8), 1) << shared_b.to_string();
      expect_matrices(mma_operand_layout({k, 64}, 1, 16, 2, 2), shared_b, order == 0, 4);
    }
  }
  LinearLayout narrow = mma_operand_layout({16, 8}, 1, 16, 1, 1);
  expect_matrices(narrow, shared_layout_for_dot_operand(coalesced_layout({16, 8}, {0, 1}, 8, 1), 16), false, 2);
}

// Sums on their way to coalesced stores: matrices are stored, and read 16 bytes at a time, both without conflicts.
TEST(Stmatrix, SumsToRows) {
  for (int n : {16, 32, 64, 128, 256}) {
    for (int order : {0, 1}) {
      LinearLayout sums = wgmma_accumulator_layout({128, n}, 2, 1);
      LinearLayout rows = coalesced_layout({128, n}, order == 0 ? std::vector{1, 0} : std::vector{0, 1}, 8, 8);
      LinearLayout shared = shared_layout_for_dot_operand(rows, 16);
      EXPECT_EQ(bank_conflicts(rows, shared, 16, 8), 1) << shared.to_string();
      expect_matrices(sums, shared, order == 1, 4);
    }
  }
}

// A's fragments are sums' registers, where each warpgroup has whole rows.
TEST(Wgmma, FragmentsOfA) {
  EXPECT_EQ(wgmma_operand_layout({64, 32}, 16, 1, 1), wgmma_accumulator_layout({64, 32}, 1, 1));
  EXPECT_EQ(wgmma_operand_layout({256, 64}, 16, 2, 1), wgmma_accumulator_layout({256, 64}, 2, 1));
  EXPECT_EQ(wgmma_operand_layout({128, 32}, 16, 2, 2).to_string(),
            "register=[[0,1],[8,0],[0,8],[0,16]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], "
            "warp=[[16,0],[32,0],[0,0],[64,0]] -> dim0:128, dim1:32");
  EXPECT_EQ(wgmma_operand_layout({64, 64}, 8, 1, 1).to_string(),
            "register=[[0,1],[0,2],[8,0],[0,16],[0,32]], lane=[[0,4],[0,8],[1,0],[2,0],[4,0]], "
            "warp=[[16,0],[32,0]] -> dim0:64, dim1:64");
}

// Four warps have 16 rows each, a warpgroup all of its columns; a thread's registers go on along N, then along M.
TEST(Wgmma, Accumulator) {
  EXPECT_EQ(wgmma_accumulator_layout({64, 32}, 1, 1).to_string(),
            "register=[[0,1],[8,0],[0,8],[0,16]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], warp=[[16,0],[32,0]] -> "
            "dim0:64, dim1:32");
  EXPECT_EQ(wgmma_accumulator_layout({256, 32}, 2, 2).to_string(),
            "register=[[0,1],[8,0],[0,8],[128,0]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], "
            "warp=[[16,0],[32,0],[0,16],[64,0]] -> dim0:256, dim1:32");
}

// Rows of 256 bytes: two panels of 128 bytes, each with the swizzle that wgmma reads.
TEST(Wgmma, PlacesArePanels) {
  LinearLayout place = shared_layout_for_dot_operand(coalesced_layout({16, 128}, {1, 0}, 8, 4), 16);
  EXPECT_EQ(place.to_string(),
            "offset=[[0,1],[0,2],[0,4],[0,8],[0,16],[0,32],[1,8],[2,16],[4,32],[8,0],[0,64]] -> dim0:16, dim1:128");
  for (int row : {16, 32, 64}) {  // elements: 32, 64 and 128 bytes
    LinearLayout narrow = shared_layout_for_dot_operand(coalesced_layout({64, row}, {1, 0}, 8, 4), 16);
    for (int offset = 0; offset < 64 * row; ++offset) {
      int bytes = 2 * offset, chunk = bytes >> 4 & (row / 8 - 1), line = bytes >> 7 & (row / 8 - 1);
      int column = (chunk ^ line) * 8 + offset % 8;
      EXPECT_EQ(narrow.apply({{Dim::Offset, offset}}), (LinearLayout::Basis{offset / row, column}));
    }
  }
}

// Extents of several blocks: each block is swizzled as if it were alone, and rows of all of them lie at one distance.
TEST(SharedLayout, OfRepeatedBlocks) {
  for (int width : {48, 96, 192, 224, 384})
    for (bool transposed : {false, true})
      for (int depth : {16, 64, 96}) {
        std::vector<int64_t> shape = {depth, width};
        std::vector<int> order = {1, 0};
        if (transposed) std::swap(shape[0], shape[1]);
        if (transposed && depth == 96) continue;
        LinearLayout src = coalesced_layout(shape, order, 8, 4);
        LinearLayout place = shared_layout_for_dot_operand(src, 16);
        SCOPED_TRACE(place.to_string());
        EXPECT_TRUE(place.is_invertible());
        EXPECT_EQ(bank_conflicts(src, place, 16, 8), 1);
        expect_matrices(mma_operand_layout(shape, transposed ? 0 : 1, 16, 1, 1), place, !transposed, 4);
      }
  EXPECT_EQ(shared_layout_for_dot_operand(coalesced_layout({16, 192}, {1, 0}, 8, 4), 16).to_string(),
            "offset=[[0,1],[0,2],[0,4],[0,8],[0,16],[0,32],[1,8],[2,16],[4,32],[8,0],3*[0,64]] -> dim0:16, dim1:192");
  for (int width : {96, 192, 224}) {
    LinearLayout sums = wgmma_accumulator_layout({64, width}, 1, 1), rows = coalesced_layout({64, width}, {1, 0}, 4, 4);
    for (int bits : {16, 32}) {
      int vector = 0;
      LinearLayout shared = shared_layout_for_conversion(sums, rows, bits, &vector);
      EXPECT_EQ(bank_conflicts(sums, shared, bits, vector), 1);
      EXPECT_EQ(bank_conflicts(rows, shared, bits, vector), 1);
    }
  }
}

// Tiles whose rows lie along the other axis: 16 bytes of a thread are rows of the matrices.
TEST(Ldmatrix, TurnedTiles) {
  for (const auto& shape : std::vector<std::vector<int64_t>>{{64, 64}, {32, 32}, {128, 32}, {32, 128}})
    for (int warps : {1, 2, 4}) {
      const LinearLayout from = coalesced_layout(shape, {0, 1}, 8, warps),
                         to = coalesced_layout(shape, {1, 0}, 8, warps);
      if (to.in_bits(Dim::Register) < 3) continue;
      const auto shared = shared_layout_for_matrices(to, from);
      ASSERT_TRUE(shared) << from.to_string() << " ; " << to.to_string();
      expect_matrices(to, *shared, true, 4);
      EXPECT_EQ(bank_conflicts(from, *shared, 16, 8), 1) << from.to_string() << " ; " << shared->to_string();
    }
  // Whose threads have too few elements in a row.
  EXPECT_FALSE(
      shared_layout_for_matrices(coalesced_layout({64, 64}, {1, 0}, 8, 4), coalesced_layout({64, 64}, {0, 1}, 1, 4)));
}

TEST(Ldmatrix, NotForEveryLayout) {
  LinearLayout shared = swizzled_shared_layout({64, 64}, {1, 0}, 8, 1, 8);
  EXPECT_FALSE(plan_matrices(coalesced_layout({64, 64}, {1, 0}, 8, 4), shared, 16));
  EXPECT_FALSE(
      plan_matrices(mma_operand_layout({64, 64}, 0, 16, 2, 2), swizzled_shared_layout({64, 64}, {1, 0}, 4, 1, 8), 16));
}

}  // namespace
}  // namespace tegula
