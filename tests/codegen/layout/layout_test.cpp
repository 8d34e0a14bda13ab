// Layout algebra: fixed cases as literal bases, and laws over all coordinates of random layouts.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "codegen/layout/byte_transpose.h"
#include "codegen/layout/gf2.h"
#include "codegen/layout/linear_layout.h"
#include "codegen/layout/makers.h"
#include "runtime/base/internal_error.h"
#include "tests/codegen/product/layouts.h"

namespace tegula {

void PrintTo(const LinearLayout& layout, std::ostream* os) { *os << layout.to_string(); }

namespace {

LinearLayout layout(std::string_view text) {
  std::string why;
  auto result = LinearLayout::parse(text, &why);
  EXPECT_TRUE(result) << why << " in " << text;
  return result.value_or(LinearLayout());
}

// ---- F2

TEST(Gf2, SolveUsesIndependentGeneratorsOnly) {
  gf2::Span span({0b011, 0b011, 0b110});
  EXPECT_EQ(span.dimension(), 2);
  EXPECT_EQ(span.solve(0b011), 0b001u);
  EXPECT_EQ(span.solve(0b101), 0b101u);
  EXPECT_EQ(span.solve(0b100), std::nullopt);
}

TEST(Gf2, ComplementMeetsNeitherSpan) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    int n = 1 + int(random() % 10), k = int(random() % (n + 1));
    auto subspace = [&] {
      gf2::Span span;
      std::vector<gf2::Vector> basis;
      while (int(basis.size()) < k)
        if (gf2::Vector v = random() & ((1u << n) - 1); span.insert(v)) basis.push_back(v);
      return basis;
    };
    auto a = subspace(), b = subspace();
    auto c = gf2::common_complement(a, b, n);
    EXPECT_EQ(int(c.size()), n - k);
    for (auto with : {a, b}) {
      with.insert(with.end(), c.begin(), c.end());
      EXPECT_EQ(gf2::rank(with), n);
    }
    EXPECT_EQ(
        int(gf2::intersection(a, b).size()), 2 * k - [&] {
          auto both = a;
          both.insert(both.end(), b.begin(), b.end());
          return gf2::rank(both);
        }());
  }
}

// ---- The lesson's example

const char* const kLesson = "register=[[0,1],[1,0]], lane=[[0,2],[2,0]] -> dim0:4, dim1:4";

TEST(LinearLayout, Lesson) {
  LinearLayout l = layout(kLesson);
  EXPECT_EQ(l.to_string(), kLesson);
  EXPECT_EQ(l.apply({{Dim::Register, 1}, {Dim::Lane, 3}}), (LinearLayout::Basis{2, 3}));
  EXPECT_TRUE(l.is_invertible());
  EXPECT_EQ(l.drop_tile_dim(1), layout("register=[[0],[1]], lane=[[0],[2]] -> dim0:4"));
  EXPECT_EQ(l.drop_tile_dim(0), layout("register=[[1],[0]], lane=[[2],[0]] -> dim0:4"));
  EXPECT_EQ(l.drop_tile_dim(1).free_mask(Dim::Lane), 1);
  EXPECT_EQ(l.drop_tile_dim(1).free_mask(Dim::Register), 1);
  EXPECT_EQ(l.reshape_tile({16}), layout("register=[[1],[4]], lane=[[2],[8]] -> dim0:16"));
  EXPECT_EQ(l.reshape_tile({2, 8}), layout("register=[[0,1],[0,4]], lane=[[0,2],[1,0]] -> dim0:2, dim1:8"));
  EXPECT_EQ(l.permute_tile({1, 0}), layout("register=[[1,0],[0,1]], lane=[[2,0],[0,2]] -> dim0:4, dim1:4"));
  EXPECT_EQ(l.insert_tile_dim(1),
            layout("register=[[0,0,1],[1,0,0]], lane=[[0,0,2],[2,0,0]] -> dim0:4, dim1:1, dim2:4"));
  EXPECT_EQ(l.tile_shape(), (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(l.contiguous_registers(1), 2);
  EXPECT_EQ(l.contiguous_registers(0), 1);
}

TEST(LinearLayout, Product) {
  auto regs = LinearLayout::identity(4, Dim::Register, Dim::Dim0);
  auto lanes = LinearLayout::identity(4, Dim::Lane, Dim::Dim0);
  EXPECT_EQ(regs * lanes, layout("register=[[1],[2]], lane=[[4],[8]] -> dim0:16"));
  EXPECT_EQ(regs * lanes * LinearLayout::zeros(2, Dim::Lane, Dim::Dim0),
            layout("register=[[1],[2]], lane=[[4],[8],[0]] -> dim0:16"));
  EXPECT_EQ(regs * LinearLayout::identity(2, Dim::Register, Dim::Dim1),
            layout("register=[[1,0],[2,0],[0,1]] -> dim0:4, dim1:2"));
}

TEST(LinearLayout, BroadcastAndRegisters) {
  LinearLayout l = layout("register=[[1],[0],[2],[3]], lane=[[4],[1]] -> dim0:8");
  EXPECT_EQ(l.free_mask(Dim::Register), 0b1010);
  EXPECT_EQ(l.free_mask(Dim::Lane), 0b10);
  EXPECT_EQ(l.remove_zero_registers(), layout("register=[[1],[2]], lane=[[4],[1]] -> dim0:8"));
  EXPECT_TRUE(l.is_surjective());
  EXPECT_FALSE(l.is_injective());
  LinearLayout repeated = layout("register=[[1],[0],3*[0],5*[2]], lane=[] -> dim0:10");
  EXPECT_EQ(repeated.in_size(Dim::Register), 60);
  EXPECT_EQ(repeated.apply({{Dim::Register, 3 + 4 * 2 + 12 * 4}}), (LinearLayout::Basis{9}));
  EXPECT_EQ(repeated.canonical(Dim::Register, 3 + 4 * 2 + 12 * 4), 1 + 12 * 4);
  EXPECT_EQ(repeated.remove_zero_registers(), layout("register=[[1],5*[2]], lane=[] -> dim0:10"));
  EXPECT_TRUE(repeated.is_surjective());
  EXPECT_FALSE(repeated.is_injective());
  EXPECT_TRUE(repeated.remove_zero_registers().is_invertible());
}

TEST(LinearLayout, SwizzledGroupsAreNotContiguous) {
  // Lane bit 1 exchanges neighbours, so a pair of registers is not two ascending elements in every lane.
  EXPECT_EQ(layout("register=[[1],[2]], lane=[[4],[9]] -> dim0:16").contiguous_registers(0), 1);
  EXPECT_EQ(layout("register=[[1],[2]], lane=[[4],[8]] -> dim0:16").contiguous_registers(0), 4);
}

TEST(LinearLayout, MistakesAreNamed) {
  std::string why;
  EXPECT_FALSE(LinearLayout::try_create({{Dim::Lane, {{4}}}}, {{Dim::Dim0, 4}}, &why));
  EXPECT_EQ(why, "bit 0 of lane goes to 4 in dim0, which has size 4");
  EXPECT_FALSE(LinearLayout::try_create({}, {{Dim::Dim0, 0}}, &why));
  EXPECT_EQ(why, "dim0 has size 0");
  auto reason = [&](const char* text) {
    why.clear();
    EXPECT_FALSE(LinearLayout::parse(text, &why)) << text;
    return why;
  };
  EXPECT_EQ(reason("lane=[[1],[2],[4]] -> dim0:12"),
            "bit 2 of lane goes to 4 in dim0, which has size 12 in blocks of 4");
  EXPECT_EQ(reason("lane=[3*[2]] -> dim0:12"),
            "the repeat 3*[2] of lane does not fit dim0, which has size 12 in blocks of 4");
  EXPECT_EQ(reason("lane=[3*[4],3*[4]] -> dim0:12"),
            "the repeat 3*[4] of lane does not fit dim0, which has size 12 in blocks of 4");
  EXPECT_EQ(reason("lane=[4*[4]] -> dim0:16"), "the repeat 4*[4] of lane: the count must be odd and more than 1");
  EXPECT_EQ(reason("lane=[3*[1,1]] -> dim0:3, dim1:3"), "the repeat 3*[1,1] of lane moves along more than one output");
  EXPECT_EQ(reason("lane=[3*[1],[1]] -> dim0:3"), "expected a number before '[1]] -> dim0:3'");
  EXPECT_FALSE(LinearLayout::try_create({{Dim::Lane, {{1, 1}}}}, {{Dim::Dim0, 4}}, &why));
  EXPECT_EQ(why, "bit 0 of lane has 2 coordinates; there are 1 outputs");
  EXPECT_FALSE(LinearLayout::parse("lane=[[1] -> dim0:4", &why));
  EXPECT_EQ(why, "expected ']' before '-> dim0:4'");
  EXPECT_FALSE(LinearLayout::parse("thread=[[1]] -> dim0:4", &why));
  EXPECT_EQ(why, "expected a dimension (register, lane, warp, block, offset, dim0, ...) before 'thread=[[1]] -> dim0'");
  EXPECT_THROW(LinearLayout({{Dim::Lane, {{4}}}}, {{Dim::Dim0, 4}}), InternalError);
}

// ---- Laws over all coordinates

class Laws : public testing::TestWithParam<int> {
 protected:
  std::mt19937 random{uint32_t(GetParam())};

  /// A tile of 2^bits elements, or 15 times as many.
  std::vector<LinearLayout::Out> outs(int bits, bool repeated = false) {
    std::vector<LinearLayout::Out> result = {{Dim::Dim0, 1}, {Dim::Dim1, 1}, {Dim::Dim2, 1}};
    for (int i = 0; i < bits; ++i) result[random() % 3].size *= 2;
    if (repeated)
      for (int q : {3, 5}) result[random() % 3].size *= q;
    return result;
  }
  LinearLayout any(const std::vector<LinearLayout::Out>& outs, bool surjective, int extra_bits) {
    int bits = 0;
    for (auto& o : outs) bits += std::countr_zero(uint32_t(o.size));
    std::vector<LinearLayout::Repeat> repeats;
    for (size_t o = 0; o < outs.size(); ++o) {
      if (repeats_of(outs[o].size) == 1) continue;
      repeats.push_back({int32_t(repeats_of(outs[o].size)), LinearLayout::Basis(outs.size(), 0)});
      repeats.back().image[o] = int32_t(block_of(outs[o].size));
    }
    if (!repeats.empty() && extra_bits) repeats.push_back({3, LinearLayout::Basis(outs.size(), 0)});
    std::shuffle(repeats.begin(), repeats.end(), random);
    for (;;) {
      std::vector<LinearLayout::In> ins = {{Dim::Register, {}}, {Dim::Lane, {}}, {Dim::Warp, {}}};
      for (int i = 0; i < bits + extra_bits; ++i) {
        LinearLayout::Basis basis;
        for (auto& o : outs) basis.push_back(int32_t(random() % uint64_t(block_of(o.size))));
        ins[random() % 3].bases.push_back(std::move(basis));
      }
      for (auto& repeat : repeats) ins[random() % 2].repeats.push_back(repeat);
      LinearLayout l(std::move(ins), outs);
      if (!surjective || l.is_surjective()) return l;
    }
  }
  template <class F>
  void each_input(const LinearLayout& l, F f) {
    for (int r = 0; r < l.in_size(Dim::Register); ++r)
      for (int t = 0; t < l.in_size(Dim::Lane); ++t)
        for (int w = 0; w < l.in_size(Dim::Warp); ++w)
          f(std::vector<std::pair<Dim, int32_t>>{{Dim::Register, r}, {Dim::Lane, t}, {Dim::Warp, w}});
  }
  static std::vector<std::pair<Dim, int32_t>> as_input(const LinearLayout& l, const LinearLayout::Basis& coords) {
    std::vector<std::pair<Dim, int32_t>> in;
    for (size_t i = 0; i < coords.size(); ++i) in.emplace_back(l.outs()[i].dim, coords[i]);
    return in;
  }
};

TEST_P(Laws, InvertAndCompose) {
  auto tile = outs(6, GetParam() % 2);
  LinearLayout from = any(tile, false, 1), to = any(tile, true, 2);
  LinearLayout x = from.invert_and_compose(to);
  each_input(from, [&](const auto& in) {
    auto at = as_input(x, x.apply(in));
    EXPECT_EQ(to.apply(at), from.apply(in)) << from.to_string() << " ; " << to.to_string();
    for (auto [dim, value] : at) EXPECT_EQ(to.canonical(dim, value), value);
  });
}

TEST_P(Laws, InverseAndComposition) {
  auto tile = outs(6, GetParam() % 2);
  if (GetParam() % 2)  // one repeat for each extent
    for (auto& o : tile)
      if (repeats_of(o.size) == 15) o.size /= 5;
  LinearLayout l = any(tile, true, 0);
  LinearLayout there_and_back = l.compose(l.invert());
  each_input(l, [&](const auto& in) {
    auto out = there_and_back.apply(in);
    for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], in[i].second);
  });
  LinearLayout m = any(tile, false, 1);
  LinearLayout composed = m.compose(l.invert());
  each_input(m, [&](const auto& in) { EXPECT_EQ(composed.apply(in), l.invert().apply(as_input(m, m.apply(in)))); });
}

TEST_P(Laws, ProductIsOuterAboveInner) {
  auto tile = outs(3);
  LinearLayout inner = any(tile, false, 0), outer = any(tile, false, 0);
  LinearLayout product = inner * outer;
  each_input(inner, [&](const auto& low) {
    each_input(outer, [&](const auto& high) {
      std::vector<std::pair<Dim, int32_t>> in;
      for (size_t i = 0; i < low.size(); ++i)
        in.emplace_back(low[i].first, low[i].second + high[i].second * inner.in_size(low[i].first));
      auto a = inner.apply(low), b = outer.apply(high), c = product.apply(in);
      for (size_t i = 0; i < c.size(); ++i) EXPECT_EQ(c[i], a[i] + b[i] * inner.outs()[i].size);
    });
  });
}

TEST_P(Laws, ReshapeKeepsRowMajorOrder) {
  const bool repeated = GetParam() % 2;
  auto tile = outs(6, repeated);
  LinearLayout l = any(tile, false, 0);
  auto other = outs(6, repeated);
  std::vector<int64_t> shape;
  for (auto& o : other) shape.push_back(o.size);
  auto found = l.reshape_tile(shape);
  EXPECT_TRUE(found || repeated);
  if (!found) return;
  LinearLayout reshaped = *found;
  auto flat = [](const LinearLayout& of, const LinearLayout::Basis& c) {
    return (int64_t(c[0]) * of.outs()[1].size + c[1]) * of.outs()[2].size + c[2];
  };
  each_input(l, [&](const auto& in) { EXPECT_EQ(flat(reshaped, reshaped.apply(in)), flat(l, l.apply(in))); });
  EXPECT_EQ(reshaped.reshape_tile(l.tile_shape()), l);
}

TEST_P(Laws, PermuteDropAndText) {
  auto tile = outs(6, GetParam() % 2);
  LinearLayout l = any(tile, false, 1);
  LinearLayout permuted = l.permute_tile({2, 0, 1});
  LinearLayout dropped = l.drop_tile_dim(1);
  each_input(l, [&](const auto& in) {
    auto c = l.apply(in);
    EXPECT_EQ(permuted.apply(in), (LinearLayout::Basis{c[2], c[0], c[1]}));
    EXPECT_EQ(dropped.apply(in), (LinearLayout::Basis{c[0], c[2]}));
  });
  LinearLayout held = l.hold_tile_dim(1), packed = dropped.remove_zero_registers();
  std::set<LinearLayout::Basis> all, kept;
  each_input(l, [&](const auto& in) {
    auto c = l.apply(in);
    EXPECT_EQ(held.apply(in), (LinearLayout::Basis{c[0], 0, c[2]}));
    all.insert(dropped.apply(in));
  });
  each_input(packed, [&](const auto& in) { kept.insert(packed.apply(in)); });
  EXPECT_EQ(kept, all);
  if (l.is_surjective()) {
    EXPECT_EQ(int64_t(all.size()), int64_t(tile[0].size) * tile[2].size);
  }
  EXPECT_EQ(layout(l.to_string()), l);
  EXPECT_EQ(l.drop_tile_dim(1).insert_tile_dim(1).drop_tile_dim(1), l.drop_tile_dim(1));
}

TEST_P(Laws, SharedLayoutsForConversionsAreConflictFree) {
  // Blocked layouts of random shape and order, elements of random size.
  int bits = 8 << random() % 4;
  std::vector<int64_t> shape = {int64_t(8) << random() % 5, int64_t(8) << random() % 5};
  if (GetParam() % 2) shape[0] *= 3, shape[1] *= 1 + 2 * (random() % 4);
  auto blocked = [&] {
    std::vector<int> order = random() % 2 ? std::vector{0, 1} : std::vector{1, 0};
    return coalesced_layout(shape, order, 1 << random() % 4, 4);
  };
  LinearLayout src = blocked(), dst = blocked();
  int vector = 0;
  LinearLayout shared = shared_layout_for_conversion(src, dst, bits, &vector);
  EXPECT_TRUE(shared.is_invertible());
  EXPECT_LE(vector * bits, 128);
  EXPECT_EQ(bank_conflicts(src, shared, bits, vector), 1) << src.to_string() << " ; " << shared.to_string();
  EXPECT_EQ(bank_conflicts(dst, shared, bits, vector), 1) << dst.to_string() << " ; " << shared.to_string();
}

INSTANTIATE_TEST_SUITE_P(Seeds, Laws, testing::Range(0, 60));

// ---- Makers

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
            layout("register=[[0,1],[8,0],[0,16],[32,0]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], "
                   "warp=[[0,8],[16,0]] -> dim0:64, dim1:32"));
  EXPECT_EQ(mma_operand_layout({64, 32}, 0, 16, 2, 2),
            layout("register=[[0,1],[8,0],[0,8],[0,16],[32,0]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], "
                   "warp=[[0,0],[16,0]] -> dim0:64, dim1:32"));
  EXPECT_EQ(mma_operand_layout({32, 32}, 1, 16, 2, 2),
            layout("register=[[1,0],[8,0],[16,0],[0,16]], lane=[[2,0],[4,0],[0,1],[0,2],[0,4]], "
                   "warp=[[0,8],[0,0]] -> dim0:32, dim1:32"));
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
