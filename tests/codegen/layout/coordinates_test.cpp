// Short lists of numbers, with few numbers inside and more of them elsewhere, beside std::vector.
#include "codegen/layout/coordinates.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace tegula {
namespace {

Coordinates counted(int32_t count) {
  Coordinates c;
  for (int32_t i = 0; i < count; ++i) c.push_back(i);
  return c;
}
std::vector<int32_t> numbers(const Coordinates& c) { return {c.begin(), c.end()}; }
std::vector<int32_t> up_to(int32_t count) {
  std::vector<int32_t> v;
  for (int32_t i = 0; i < count; ++i) v.push_back(i);
  return v;
}

TEST(Coordinates, GrowBeyondTheirRoom) {
  for (int32_t count = 0; count <= 20; ++count) {
    Coordinates c = counted(count);
    EXPECT_EQ(numbers(c), up_to(count));
    EXPECT_EQ(c.size(), size_t(count));
    EXPECT_EQ(c.empty(), count == 0);
    c.insert(c.begin() + count / 2, -1);
    std::vector<int32_t> v = up_to(count);
    v.insert(v.begin() + count / 2, -1);
    EXPECT_EQ(numbers(c), v);
    for (const int32_t at : {0, count / 3, count / 3 + count / 4}) {
      if (size_t(at) >= v.size()) continue;
      c.erase(c.begin() + at), v.erase(v.begin() + at);
      EXPECT_EQ(numbers(c), v);
    }
    c.resize(3, 7), v.resize(3, 7);
    EXPECT_EQ(numbers(c), v);
    c.resize(11, 8), v.resize(11, 8);
    EXPECT_EQ(numbers(c), v);
    EXPECT_EQ(c.back(), 8);
  }
}

TEST(Coordinates, AreCopiedMovedAndAssigned) {
  for (int32_t from : {0, 3, 4, 5, 12})
    for (int32_t to : {0, 4, 5, 20}) {
      const Coordinates source = counted(from);
      Coordinates copy = source, assigned = counted(to), moved_to = counted(to);
      EXPECT_EQ(copy, source);
      assigned = source;
      EXPECT_EQ(numbers(assigned), up_to(from));
      moved_to = std::move(copy);
      EXPECT_EQ(numbers(moved_to), up_to(from));
      copy = moved_to;  // what was moved from can be used again
      Coordinates moved(std::move(copy));
      EXPECT_EQ(numbers(moved), up_to(from));
      Coordinates& itself = moved;
      moved = itself;
      EXPECT_EQ(numbers(moved), up_to(from));
    }
}

TEST(ShortList, AssignsAndComparesWithVectors) {
  using List = ShortList<int64_t, 3>;
  for (size_t count : {0, 2, 3, 4, 9}) {
    List list{7, 8, 9, 10};
    list.assign(count, 5);
    const std::vector<int64_t> fives(count, 5);
    EXPECT_EQ(list, fives);
    EXPECT_EQ(List(fives), list);
    EXPECT_FALSE(list == std::vector<int64_t>(count + 1, 5));
    list.push_back(int64_t(1) << 40);
    EXPECT_EQ(list.back(), int64_t(1) << 40);
    EXPECT_FALSE(list == fives);
  }
}

TEST(Coordinates, AreOrderedAsVectorsAre) {
  const std::vector<std::vector<int32_t>> lists = {{}, {0}, {0, 0}, {1, 0}, {1, 0, 0, 0, 5}, {1, 0, 0, 0, 6}, {-1, 9}};
  for (const auto& a : lists)
    for (const auto& b : lists) {
      Coordinates x, y;
      for (int32_t i : a) x.push_back(i);
      for (int32_t i : b) y.push_back(i);
      EXPECT_EQ(x == y, a == b);
      EXPECT_EQ(x < y, a < b);
    }
  EXPECT_EQ(Coordinates(2, 7), (Coordinates{7, 7}));
}

}  // namespace
}  // namespace tegula
