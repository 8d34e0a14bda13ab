// label: unit
// How far apart neighbours usually are: what layouts are chosen by where nothing is known for sure.
#include "codegen/analysis/usual_distance.h"

#include "tests/codegen/analysis/axis_fixture.h"

namespace tegula::axis {
namespace {

constexpr int64_t kFar = UsualDistances::kFar, kUnknown = UsualDistances::kUnknown;

class UsualDistance : public Axis {
 protected:
  void expect_usual(const Value* v, Numbers distances) {
    const AxisAnalysis axes(func);
    EXPECT_EQ(UsualDistances(axes).of(v), distances);
  }
  Value* along(Value* v, int axis, Shape shape) { return b.broadcast(b.expand_dims(v, axis), std::move(shape)); }
};

TEST_F(UsualDistance, OfIndices) {
  Value *x = row(b.mul(b.program_id(0), c(64)), 64), *n = b.splat(i32(), {64});
  expect_usual(x, {1});
  expect_usual(all(5, {64}), {0});
  expect_usual(b.rem(x, n), {1});
  expect_usual(b.div(x, n), {0});
  expect_usual(b.div(x, all(100, {64})), {0});
  expect_usual(b.div(x, all(2, {64})), {1});
  expect_usual(b.rem(b.mul(x, all(6, {64})), all(4, {64})), {2});
  expect_usual(b.mul(x, n), {kFar + 1});
  expect_usual(b.mul(b.splat(i32(16), {64}), b.mul(x, all(3, {64}))), {kFar + 48});
  expect_usual(b.add(b.mul(x, b.splat(i32(16), {64})), b.mul(x, all(24, {64}))), {kFar + 8});
  expect_usual(b.mul(b.div(x, n), n), {0});
  expect_usual(b.rem(x, x), {kUnknown});
  expect_usual(b.sub(all(7, {64}), x), {-1});
  expect_usual(b.minimum(x, all(9, {64})), {1});
  expect_usual(b.select(b.lt(x, n), x, all(0, {64})), {1});
  expect_usual(b.add(b.mul(x, all(int64_t(1) << 30, {64})), x), {(int64_t(1) << 30) + 1});
  Value* bits = b.create(Opcode::BitXor, {x, n}, {x->type})->result();
  expect_usual(bits, {kUnknown});
  expect_usual(b.load(b.addptr(b.splat(pointer(Elem::I32), {64}), x), nullptr, nullptr), {kUnknown});
}

// Pixels of images, counted through: channel by channel they lie side by side.
TEST_F(UsualDistance, PixelsOfAnImageAreSideBySide) {
  const Shape shape{128, 32};
  Value *pixel = row(b.mul(b.program_id(0), c(128)), 128), *width = b.splat(i32(), {128}),
        *height = b.splat(i32(), {128});
  Value* line = b.div(pixel, width);
  Value* image = b.mul(b.div(line, height), b.splat(i32(), {128}));
  Value* place = b.add(b.add(image, b.mul(b.rem(line, height), b.splat(i32(), {128}))), b.rem(pixel, width));
  Value* channel = b.mul(b.arange(0, 32), b.splat(i32(), {32}));
  Value* places =
      b.addptr(b.splat(pointer(Elem::BF16), shape), b.add(along(place, 1, shape), along(channel, 0, shape)));
  expect(places, {1, 1}, {2, 2}, {1, 1});
  expect_usual(places, {2, kFar + 2});
  EXPECT_EQ(fastest(places), (std::vector<int>{0, 1}));
  EXPECT_EQ(fastest(b.trans(places, {1, 0})), (std::vector<int>{1, 0}));
}

// Where strides are known at run time alone, the one that is a multiple of more is the outer axis'; of two alike the
// last axis is taken.
TEST_F(UsualDistance, OfStridesThatArePassed) {
  const Shape shape{32, 64};
  auto places = [&](int64_t divisor_of_rows, int64_t divisor_of_columns) {
    Value* rows = b.mul(b.arange(0, 32), b.splat(i32(divisor_of_rows), {32}));
    Value* columns = b.mul(b.arange(0, 64), b.splat(i32(divisor_of_columns), {64}));
    return b.addptr(b.splat(pointer(), shape), b.add(along(rows, 1, shape), along(columns, 0, shape)));
  };
  expect_usual(places(16, 1), {kFar + 64, kFar + 4});
  EXPECT_EQ(fastest(places(16, 1)), (std::vector<int>{1, 0}));
  EXPECT_EQ(fastest(places(1, 16)), (std::vector<int>{0, 1}));
  EXPECT_EQ(fastest(places(1, 1)), (std::vector<int>{1, 0}));
  EXPECT_EQ(fastest(places(16, 16)), (std::vector<int>{1, 0}));
}

// Loaded indices are places of an axis without a stride, or lines of one.
TEST_F(UsualDistance, OfLoadedIndices) {
  const Shape shape{32, 64};
  auto loaded = [&](int64_t n) {
    return b.load(b.addptr(b.splat(pointer(Elem::I32), {n}), b.arange(0, n)), nullptr, nullptr);
  };
  auto places = [&](Value* rows, Value* columns) {
    return b.addptr(b.splat(pointer(), shape), b.add(along(rows, 1, shape), along(columns, 0, shape)));
  };
  Value *stride = b.splat(i32(16), {32}), *other = b.splat(i32(), {64});
  Value* columns = places(b.mul(b.arange(0, 32), stride), loaded(64));
  expect_usual(columns, {kFar + 64, kUnknown});
  EXPECT_EQ(fastest(columns), (std::vector<int>{1, 0}));
  EXPECT_EQ(fastest(b.trans(columns, {1, 0})), (std::vector<int>{0, 1}));
  Value* lines = places(b.mul(loaded(32), stride), b.mul(b.arange(0, 64), other));
  expect_usual(lines, {kFar + 64, kFar + 4});
  EXPECT_EQ(fastest(lines), (std::vector<int>{1, 0}));
}

}  // namespace
}  // namespace tegula::axis
