// Plans of sorts, carried out on the host: registers of threads are numbers in
// an array.
#include "codegen/analysis/sort_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <random>

#include "codegen/layout/makers.h"

namespace tegula {
namespace {

/// The registers of all threads: at(thread, register).
class Machine {
 public:
  /// Numbers as `layout` holds them.
  Machine(const LinearLayout& layout, const std::vector<int>& tile) : threads_(32 << layout.in_bits(Dim::Warp)) {
    load(layout, tile);
  }

  void load(const LinearLayout& layout, const std::vector<int>& tile) {
    registers_.assign(size_t(threads_), std::vector<int>(size_t(layout.in_size(Dim::Register))));
    each(layout, [&](int& x, size_t at) { x = tile[at]; });
  }

  /// The tile that is held as `layout`; all copies must agree.
  std::vector<int> tile(const LinearLayout& layout) {
    size_t elements = 1;
    for (auto& out : layout.outs()) elements *= size_t(out.size);
    std::vector<int> out(elements, -1);
    each(layout, [&](int& x, size_t at) {
      EXPECT_TRUE(out[at] == -1 || out[at] == x) << "copies differ";
      out[at] = x;
    });
    return out;
  }

  void apply(const SortMove& move) {
    switch (move.kind) {
      case SortMove::Kind::Flip:
        return each_register([&](int t, int r, int& x) {
          int odd = 0;
          for (auto [dim, bit] : move.parity)
            odd ^= (dim == Dim::Register ? r : dim == Dim::Lane ? t : t >> 5) >> bit & 1;
          if (odd) x = ~x;
        });
      case SortMove::Kind::Registers:
        return compare(move);
      case SortMove::Kind::Trade:
        trade(move);
        return compare(move);
      case SortMove::Kind::Lanes: {
        auto before = registers_;
        return each_register([&](int t, int r, int& x) {
          const int other = before[size_t(t ^ 1 << move.lane)][size_t(r)];
          x = t >> move.lane & 1 && !move.keep_smaller ? std::max(x, other) : std::min(x, other);
        });
      }
      case SortMove::Kind::Convert:
        return load(move.to, tile(move.from));
    }
  }

 private:
  template <class F>
  void each_register(F f) {
    for (int t = 0; t < threads_; ++t)
      for (size_t r = 0; r < registers_[size_t(t)].size(); ++r) f(t, int(r), registers_[size_t(t)][r]);
  }
  template <class F>
  void each(const LinearLayout& layout, F f) {
    each_register([&](int t, int r, int& x) {
      const auto at = layout.apply({{Dim::Register, r}, {Dim::Lane, t & 31}, {Dim::Warp, t >> 5}});
      size_t place = 0;
      for (size_t i = 0; i < at.size(); ++i) place = place * size_t(layout.outs()[i].size) + size_t(at[i]);
      f(x, place);
    });
  }
  void trade(const SortMove& move) {
    auto before = registers_;
    each_register([&](int t, int r, int& x) {
      if ((t >> move.lane & 1) != (r >> move.reg & 1))
        x = before[size_t(t ^ 1 << move.lane)][size_t(r ^ 1 << move.reg)];
    });
  }
  void compare(const SortMove& move) {
    for (auto& registers : registers_) {
      std::vector<int> kept;
      for (int r = 0; r < int(registers.size()); ++r) {
        if (r >> move.reg & 1) continue;
        int &low = registers[size_t(r)], &high = registers[size_t(r | 1 << move.reg)];
        if (move.falling >= 0 && r >> move.falling & 1 ? low < high : high < low) std::swap(low, high);
        kept.push_back(low);
      }
      if (move.keep_smaller) registers = kept;
    }
  }

  int threads_;
  std::vector<std::vector<int>> registers_;
};

/// Rows of `extent` random numbers; for a merge each goes up to a place of its
/// own and then down.
std::vector<int> rows_of(size_t elements, size_t extent, bool merge, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int> x(elements);
  for (int& v : x) v = int(random() % 1000);
  if (merge)
    for (auto row = x.begin(); row != x.end(); row += long(extent)) {
      const auto top = row + long(random() % extent);
      std::sort(row, top);
      std::sort(top, row + long(extent), std::greater<>());
    }
  return x;
}

void check(const LinearLayout& layout, int64_t kept, bool merge) {
  SCOPED_TRACE(testing::Message() << layout.to_string() << " kept " << kept << (merge ? " merge" : ""));
  const size_t extent = size_t(layout.outs().back().size);
  size_t elements = 1;
  for (auto& out : layout.outs()) elements *= size_t(out.size);
  std::vector<int> x = rows_of(elements, extent, merge, unsigned(elements + extent));
  const SortPlan plan = plan_sort(layout, kept, merge);
  Machine machine(plan.begin, x);
  for (const SortMove& move : plan.moves) machine.apply(move);
  std::vector<int> expected;
  for (auto row = x.begin(); row != x.end(); row += long(extent)) {
    std::sort(row, row + long(extent));
    expected.insert(expected.end(), row, row + kept);
  }
  EXPECT_EQ(machine.tile(plan.end), expected);
}

LinearLayout layout_of(const char* text) {
  std::string why;
  auto layout = LinearLayout::parse(text, &why);
  EXPECT_TRUE(layout) << why;
  return *layout;
}

TEST(SortPlan, AllExtentsAndWarps) {
  for (int warps : {1, 4, 8})
    for (int bits = 0; bits <= 10; ++bits)
      for (int per_thread : {1, 4}) {
        const LinearLayout layout = coalesced_layout({int64_t(1) << bits}, {0}, per_thread, warps);
        for (int kept = 0; kept <= bits; kept += 3) check(layout, int64_t(1) << kept, false);
        check(layout, int64_t(1) << bits, false);
        check(layout, int64_t(1) << bits, true);
      }
}

TEST(SortPlan, RowsOfTiles) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{4, 128}, {32, 32}, {64, 4}, {2, 3, 64}, {192, 16}})
    for (bool rows_first : {false, true}) {
      std::vector<int> order;
      for (int axis = int(shape.size()); axis-- > 0;) order.push_back(axis);
      if (rows_first) std::reverse(order.begin(), order.end());
      const LinearLayout layout = coalesced_layout(shape, order, 2, 4);
      check(layout, shape.back(), false);
      check(layout, shape.back(), true);
      check(layout, 2, false);
      check(layout, 1, false);
    }
}

TEST(SortPlan, LayoutsWithoutSlots) {
  // A lane that moves along both dimensions; a register that moves by three.
  for (const char* text : {"register=[[0,1],[1,0]], lane=[[1,2],[2,0],[0,4],[0,8],[4,0]], "
                           "warp=[[0,16],[8,0]] -> dim0:16, dim1:32",
                           "register=[[1],[3]], lane=[[4],[8],[16],[32],[64]], warp=[[128],[0]] "
                           "-> dim0:256"})
    for (bool merge : {false, true}) {
      const LinearLayout layout = layout_of(text);
      check(layout, layout.outs().back().size, merge);
    }
}

/// Moves by kind.
std::map<SortMove::Kind, int> count(const SortPlan& plan) {
  std::map<SortMove::Kind, int> counts;
  for (const SortMove& move : plan.moves) ++counts[move.kind];
  return counts;
}

TEST(SortPlan, RowsOfAThreadMoveNothing) {
  // Rows of 8 in a thread, sorted at a time.
  const SortPlan plan = plan_sort(blocked_layout({128, 8}, {1, 8}, {32, 1}, {4, 1}, {1, 0}), 8, false);
  auto counts = count(plan);
  EXPECT_EQ(counts[SortMove::Kind::Registers], 6);
  EXPECT_EQ(plan.moves.size(), 6u);
}

TEST(SortPlan, ShortListsStayInWarps) {
  EXPECT_EQ(count(plan_sort(coalesced_layout({128}, {0}, 1, 4), 64, false))[SortMove::Kind::Convert], 0);
  EXPECT_GT(count(plan_sort(coalesced_layout({256}, {0}, 1, 8), 64, false))[SortMove::Kind::Convert], 0);
}

TEST(SortPlan, FewExchanges) {
  // 1024 elements of four warps: 55 comparisons, of which threads trade for 32,
  // and conversions for two bits of warps.
  auto counts = count(plan_sort(coalesced_layout({1024}, {0}, 4, 4), 1024, false));
  EXPECT_EQ(counts[SortMove::Kind::Registers] + counts[SortMove::Kind::Trade], 55);
  EXPECT_LE(counts[SortMove::Kind::Trade], 32);
  EXPECT_LE(counts[SortMove::Kind::Convert], 3);
  counts = count(plan_sort(coalesced_layout({4096}, {0}, 4, 4), 4096, false));
  EXPECT_EQ(counts[SortMove::Kind::Registers] + counts[SortMove::Kind::Trade], 78);
  EXPECT_LE(counts[SortMove::Kind::Trade], 32);
  EXPECT_LE(counts[SortMove::Kind::Convert], 3);
}

}  // namespace
}  // namespace tegula
