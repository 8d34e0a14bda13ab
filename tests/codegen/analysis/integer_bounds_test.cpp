// label: unit
#include "codegen/analysis/integer_bounds.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "codegen/ir/flow.h"
#include "codegen/ir/reader.h"

namespace tegula {
namespace {

constexpr int64_t kNone = -1;

// Of a loop from %lower to %upper by 2, whose bounds `body` computes of %0, an i32 parameter.
int64_t most(const std::string& body, const std::string& lower, const std::string& upper) {
  Diagnostics diags;
  auto func = ir::read("func @f(%0: i32 \"n\") {num_warps = 1} {\n  %1 = constant {value = 2} : i32\n" + body +
                           "  for " + lower + ", " + upper + ", %1 { ^(%90: i32):\n    yield\n  }\n  return\n}\n",
                       "f.tile", diags);
  EXPECT_TRUE(func) << diags.render();
  int64_t trips = kNone;
  if (func)
    ir::walk(func->body, [&](const ir::Op& op) {
      if (op.opcode == ir::Opcode::For) trips = most_trips(op).value_or(kNone);
    });
  return trips;
}

std::string number(int name, int64_t value) {
  return "  %" + std::to_string(name) + " = constant {value = " + std::to_string(value) + "} : i32\n";
}

TEST(IntegerBounds, OfConstants) {
  EXPECT_EQ(most(number(2, 3) + number(3, 10), "%2", "%3"), 4);
  EXPECT_EQ(most(number(2, 10) + number(3, 3), "%2", "%3"), 0);
  EXPECT_EQ(most(number(2, 0), "%2", "%0"), kNone);
  EXPECT_EQ(most(number(2, 7), "%0", "%2"), kNone);
}

TEST(IntegerBounds, OfRemainders) {
  const std::string program = "  %2 = program_id {axis = 0} : i32\n" + number(3, 6) + number(4, 0) + number(5, 1);
  EXPECT_EQ(most(program + "  %6 = rem %2, %3 : i32\n", "%4", "%6"), 3);
  EXPECT_EQ(most(program + "  %6 = rem %2, %3 : i32\n  %7 = add %6, %5 : i32\n", "%7", "%3"), 3);  // from 1 on
  // A parameter may be negative, and its remainder too.
  EXPECT_EQ(most(program + "  %6 = rem %0, %3 : i32\n", "%6", "%3"), 6);
  EXPECT_EQ(most(program + "  %6 = rem %0, %3 : i32\n", "%4", "%6"), 3);
  EXPECT_EQ(most(program + "  %6 = rem %2, %0 : i32\n", "%4", "%6"), kNone);
}

TEST(IntegerBounds, OfTheSmallerOfTwo) {
  const std::string both = number(2, 0) + number(3, 5) + "  %4 = minimum %0, %3 : i32\n  %5 = maximum %0, %2 : i32\n";
  EXPECT_EQ(most(both, "%2", "%4"), 3);
  EXPECT_EQ(most(both, "%5", "%4"), 3);
  EXPECT_EQ(most(both, "%0", "%4"), kNone);
  EXPECT_EQ(most(both, "%2", "%5"), kNone);
}

// What does not fit the narrower type comes back as another number.
TEST(IntegerBounds, OfCasts) {
  const std::string cast =
      number(2, 0) + number(3, 100) + number(4, 1000) +
      "  %5 = minimum %0, %3 : i32\n  %6 = maximum %5, %2 : i32\n  %7 = cast %6 : i8\n"
      "  %8 = cast %7 : i32\n  %9 = minimum %0, %4 : i32\n  %10 = maximum %9, %2 : i32\n"
      "  %11 = cast %10 : i8\n  %12 = cast %11 : i32\n  %13 = cast %6 : i64\n  %14 = cast %13 : i32\n";
  EXPECT_EQ(most(cast, "%2", "%8"), 50);
  EXPECT_EQ(most(cast, "%2", "%12"), 64);  // all that int8 has
  EXPECT_EQ(most(cast, "%2", "%14"), 50);
}

// 2^31 and what is beyond it is negative as a signed number, and what is below 0 large as an unsigned one.
TEST(IntegerBounds, OfCastsOfOneWidth) {
  auto least_of = [](const std::string& body) {
    Diagnostics diags;
    auto func =
        ir::read("func @f(%0: u32 \"u\", %1: i32 \"i\", %2: i64 \"l\", %3: ptr<i32> \"p\") {num_warps = 1} {\n" + body +
                     "  store %3, %9\n  return\n}\n",
                 "f.tile", diags);
    EXPECT_TRUE(func) << diags.render();
    IntegerBounds found;
    if (func)
      ir::walk(func->body, [&](const ir::Op& op) {
        if (op.opcode == ir::Opcode::Store) found = integer_bounds(op.operand(1));
      });
    return std::pair{found.least.value_or(-77), found.most.value_or(-77)};
  };
  using Pair = std::pair<int64_t, int64_t>;
  const std::string u3 = "  %4 = constant {value = 3} : u32\n", i3 = "  %4 = constant {value = 3} : i32\n";
  EXPECT_EQ(least_of(u3 + "  %5 = maximum %0, %4 : u32\n  %9 = cast %5 : i32\n"), Pair(-77, -77));
  EXPECT_EQ(least_of(u3 + "  %5 = minimum %0, %4 : u32\n  %9 = cast %5 : i32\n"), Pair(0, 3));
  EXPECT_EQ(least_of(i3 + "  %5 = minimum %1, %4 : i32\n  %6 = cast %5 : u32\n  %7 = cast %6 : i64\n"
                          "  %8 = constant {value = 5} : i64\n  %10 = minimum %7, %8 : i64\n  %9 = cast %10 : i32\n"),
            Pair(0, 5));
  EXPECT_EQ(least_of("  %4 = constant {value = 3} : i64\n  %5 = maximum %2, %4 : i64\n  %9 = cast %5 : i32\n"),
            Pair(-77, -77));
  EXPECT_EQ(least_of(u3 + "  %5 = minimum %0, %4 : u32\n  %6 = constant {value = 9} : u32\n  %7 = sub %5, %6 : u32\n"
                          "  %8 = cast %7 : i64\n  %10 = constant {value = 7} : i64\n  %11 = minimum %8, %10 : i64\n"
                          "  %9 = cast %11 : i32\n"),
            Pair(0, 7));
}

// In few bits sums of plain programs wrap around, and the largest number is followed by the least.
TEST(IntegerBounds, OfSumsOfFewBits) {
  const auto of = [](int64_t added) {
    return number(2, 0) + number(3, 1000) + number(4, 100) +
           "  %5 = minimum %0, %4 : i32\n  %6 = maximum %5, %2 : i32\n  %7 = cast %6 : i8\n"
           "  %8 = constant {value = " +
           std::to_string(added) + "} : i8\n  %9 = add %7, %8 : i8\n  %10 = cast %9 : i32\n";
  };
  EXPECT_EQ(most(of(27), "%10", "%3"), 487);  // from 27 on
  EXPECT_EQ(most(of(28), "%10", "%3"), 564);  // from -128 on
}

// Of the mask %9 over 8 x 64 elements, from these coordinates on.
bool is_false(const std::string& body, Coordinates at) {
  Diagnostics diags;
  auto func = ir::read(
      "func @f(%0: i32 \"n\", %1: ptr<i32> \"p\") {num_warps = 1} {\n"
      "  %2 = arange {end = 64, start = 0} : tile<64xi32>\n"
      "  %3 = expand_dims %2 {axis = 0} : tile<1x64xi32>\n"
      "  %4 = broadcast %3 : tile<8x64xi32>\n" +
          body + "  %10 = splat %1 : tile<8x64xptr<i32>>\n  store %10, %4, %9\n  return\n}\n",
      "f.tile", diags);
  EXPECT_TRUE(func) << diags.render();
  bool result = false;
  if (func)
    ir::walk(func->body, [&](const ir::Op& op) {
      if (op.opcode == ir::Opcode::Store) result = is_false_from(op.operand(2), at);
    });
  return result;
}

TEST(IntegerBounds, OfMasks) {
  const std::string columns = "  %5 = constant {value = 40} : tile<8x64xi32>\n";
  const std::string short_rows = columns + "  %9 = lt %4, %5 : tile<8x64xi1>\n";
  EXPECT_TRUE(is_false(short_rows, {0, 40}));
  EXPECT_FALSE(is_false(short_rows, {7, 39}));
  const std::string shifted = columns +
                              "  %6 = constant {value = 30} : tile<8x64xi32>\n"
                              "  %7 = add %4, %6 : tile<8x64xi32>\n  %9 = lt %7, %5 : tile<8x64xi1>\n";
  EXPECT_TRUE(is_false(shifted, {0, 10}));
  EXPECT_FALSE(is_false(shifted, {0, 9}));
  const std::string either = columns +
                             "  %6 = splat %0 : tile<8x64xi32>\n  %7 = lt %4, %6 : tile<8x64xi1>\n"
                             "  %8 = lt %4, %5 : tile<8x64xi1>\n  %9 = bit_and %7, %8 : tile<8x64xi1>\n";
  EXPECT_TRUE(is_false(either, {0, 40}));
  EXPECT_FALSE(is_false(either, {0, 32}));
  const std::string unknown = "  %6 = splat %0 : tile<8x64xi32>\n  %9 = lt %4, %6 : tile<8x64xi1>\n";
  EXPECT_FALSE(is_false(unknown, {0, 63}));
}

}  // namespace
}  // namespace tegula
