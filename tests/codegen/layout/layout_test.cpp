// Layout algebra: fixed cases as literal bases, and laws over all coordinates of random layouts.
// heavy: Seeds/Laws.*/??
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <unordered_set>

#include "codegen/layout/byte_transpose.h"
#include "codegen/layout/gf2.h"
#include "codegen/layout/layout_hash.h"
#include "codegen/layout/linear_layout.h"
#include "codegen/layout/makers.h"
#include "runtime/base/internal_error.h"
#include "tests/codegen/layout/layout_text.h"
#include "tests/codegen/product/layouts.h"

namespace tegula {

namespace {

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

TEST(LinearLayout, KeysOfUnorderedContainers) {
  const char* texts[] = {"register=[], lane=[[1],[2]] -> dim0:4",       "register=[[1]], lane=[[2]] -> dim0:4",
                         "register=[[2]], lane=[[1]] -> dim0:4",        "register=[[0]], lane=[[1],[2]] -> dim0:4",
                         "register=[3*[4]], lane=[[1],[2]] -> dim0:12", "register=[], warp=[[1],[2]] -> dim0:4"};
  std::unordered_set<LayoutRef, LayoutHash, EqualLayouts> known;
  std::set<size_t> hashes;
  for (const char* text : texts) {
    const LinearLayout layout = *LinearLayout::parse(text, nullptr);
    EXPECT_EQ(known.find(layout), known.end()) << text;
    known.insert(std::make_shared<LinearLayout>(layout));
    EXPECT_FALSE(known.insert(std::make_shared<LinearLayout>(layout)).second) << text;
    EXPECT_EQ(**known.find(layout), layout);
    hashes.insert(LayoutHash()(layout));
  }
  EXPECT_EQ(hashes.size(), std::size(texts));
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

}  // namespace
}  // namespace tegula
