// Configurations of kernels, and spaces of them.
#include <gtest/gtest.h>

#include <string>

#include "dsl/tegula.h"
#include "tests/expect_contains.h"
#include "tests/message_of.h"

namespace tegula {
namespace {

TEST(Config, TextIsCanonical) {
  Config a = config({{"B", 2}, {"A", Constexpr(true)}}, num_warps(4), num_stages(2));
  Config b = config({{"A", Constexpr(true)}, {"B", 2}}, num_stages(2), num_warps(4));
  EXPECT_EQ(a.to_string(), "A=True B=2 num_warps=4 num_stages=2");
  EXPECT_EQ(a, b);
  EXPECT_NE(config({{"A", 1}}).to_string(), config({{"A", Constexpr(1.0)}}).to_string());
  EXPECT_NE(config({{"A", "x B='y'"}}).to_string(), config({{"A", "x"}, {"B", "y"}}).to_string());
}

TEST(Config, ValuesByName) {
  Config c = config({{"BLOCK", 256}, {"ACT", "relu"}});
  EXPECT_EQ(c["BLOCK"], 256);
  EXPECT_EQ(message_of([&] { c["BLOK"]; }), "the configuration has no constexpr 'BLOK'\n  hint: did you mean 'BLOCK'?");
  EXPECT_EQ(message_of([&] { c["ACT"]; }), "the constexpr 'ACT' is \"relu\", no integer");
}

TEST(Config, SearchSpaceIsAllCombinations) {
  auto space = search_space({powers_of_two("BLOCK", 256, 1024), powers_of_two("num_warps", 1, 8)});
  ASSERT_EQ(space.size(), 12u);
  EXPECT_EQ(space.front().to_string(), "BLOCK=256 num_warps=1");
  EXPECT_EQ(space.back().to_string(), "BLOCK=1024 num_warps=8");
  EXPECT_EQ(steps("N", 3, 10, 3).values.size(), 3u);
  EXPECT_CONTAINS(message_of([] { powers_of_two("B", 8, 4); }), "expected 1 <= low <= high");
  EXPECT_CONTAINS(message_of([] {
                    search_space({{"num_warps", {Constexpr(std::string("four"))}}});
                  }),
                  "the axis 'num_warps' of a search space takes integers");
}

}  // namespace
}  // namespace tegula
