// Axis analysis: what is known of index tiles, pointers and masks.
#include <random>

#include "tests/codegen/analysis/axis_fixture.h"

namespace tegula::axis {
namespace {

TEST_F(Axis, Sources) {
  expect(i32(16), {1}, {16}, {1});
  expect(i32(48), {1}, {16}, {1});
  expect(c(24), {1}, {8}, {1});
  expect(all(6, {32}), {1}, {2}, {32});
  expect(b.arange(0, 64), {64}, {kAll}, {1});
  expect(b.arange(8, 24), {16}, {8}, {1});
  expect(b.program_id(0), {1}, {1}, {1});
  // Of an extent that is no power of two runs begin in between.
  expect(b.arange(0, 3), {1}, {1}, {1});
  expect(b.arange(0, 192), {64}, {64}, {1});
  expect(b.arange(64, 160), {32}, {32}, {1});
  expect(b.arange(8, 104), {32}, {8}, {1});
}

TEST_F(Axis, ExtentsThatAreNoPowersOfTwo) {
  // Rows that begin at 0, 17 and 34, and what is compared with such numbers.
  Value* rows = b.broadcast(b.expand_dims(b.mul(b.arange(0, 3), all(17, {3})), 1), {3, 64});
  expect(rows, {1, 1}, {1, 1}, {1, 64});
  Value* columns = b.broadcast(b.expand_dims(b.arange(0, 64), 0), {3, 64});
  EXPECT_EQ(width(b.addptr(b.splat(pointer(), {3, 64}), b.add(rows, columns)), nullptr, 1), 1);
  expect(b.lt(columns, rows), {1, 1}, {1, 1}, {1, 1});
  expect(b.div(b.arange(0, 96), all(64, {96})), {1}, {1}, {32});
  expect(b.mul(b.arange(0, 96), all(4, {96})), {1}, {4}, {1});
  auto promise = [&](Value* x, int64_t divisor) {
    return b.create(Opcode::Hint, {x}, {}, {{"divisibility", Numbers{divisor}}})->result();
  };
  expect(promise(row(i32(), 96), 64), {32}, {32}, {1});
  expect(promise(row(i32(), 3), 16), {1}, {1}, {1});
  expect(promise(row(i32(), 64), 128), {64}, {128}, {1});
}

TEST_F(Axis, BlockOffsets) {
  Value* start = b.mul(b.program_id(0), c(1024));
  expect(start, {1}, {1024}, {1});
  expect(row(start, 1024), {1024}, {1024}, {1});
  expect(b.sub(row(start, 64), all(3, {64})), {64}, {1}, {1});
  expect(b.mul(row(start, 64), all(4, {64})), {1}, {4}, {1});
  expect(b.sub(all(64, {64}), b.arange(0, 64)), {1}, {1}, {1});
}

TEST_F(Axis, PointersAreInBytes) {
  Value* ptr = b.addptr(b.splat(pointer(), {128}), row(b.mul(b.program_id(0), c(128)), 128));
  expect(ptr, {128}, {16}, {1});
  EXPECT_EQ(width(ptr, nullptr), 4);
  Value* half = b.addptr(b.splat(pointer(Elem::F16), {128}), b.arange(0, 128));
  EXPECT_EQ(width(half, nullptr), 8);
  Value* odd = b.addptr(b.splat(pointer(Elem::F32, 4), {128}), b.arange(0, 128));
  EXPECT_EQ(width(odd, nullptr), 1);
  Value* eight = b.addptr(b.splat(pointer(Elem::F32, 8), {128}), b.arange(0, 128));
  EXPECT_EQ(width(eight, nullptr), 2);
  Value* shifted = b.addptr(b.splat(b.addptr(pointer(), c(1)), {128}), b.arange(0, 128));
  EXPECT_EQ(width(shifted, nullptr), 1);
  Value* wide = b.addptr(b.splat(pointer(Elem::F64), {128}), b.arange(0, 128));
  EXPECT_EQ(width(wide, nullptr), 2);
}

TEST_F(Axis, MasksOfBounds) {
  Value* cols = b.arange(0, 128);
  Value *by16 = b.splat(i32(16), {128}), *any = b.splat(i32(), {128});
  expect(b.lt(cols, by16), {1}, {1}, {16});
  expect(b.ge(cols, by16), {1}, {1}, {16});
  expect(b.gt(by16, cols), {1}, {1}, {16});
  expect(b.le(by16, cols), {1}, {1}, {16});
  // One element of a group may equal the bound.
  expect(b.le(cols, by16), {1}, {1}, {1});
  expect(b.gt(cols, by16), {1}, {1}, {1});
  expect(b.eq(cols, by16), {1}, {1}, {1});
  expect(b.lt(cols, any), {1}, {1}, {1});
  expect(b.lt(by16, any), {1}, {1}, {128});
  expect(b.bit_and(b.lt(cols, by16), b.lt(cols, b.splat(i32(4), {128}))), {1}, {1}, {4});
  Value* ptr = b.addptr(b.splat(pointer(), {128}), cols);
  EXPECT_EQ(width(ptr, b.lt(cols, by16)), 4);
  EXPECT_EQ(width(ptr, b.lt(cols, b.splat(i32(2), {128}))), 2);
  EXPECT_EQ(width(ptr, b.lt(cols, any)), 1);
}

TEST_F(Axis, DivisionAndRemainder) {
  Value* x = row(b.mul(b.program_id(0), c(64)), 64);
  expect(b.div(x, all(16, {64})), {1}, {1}, {16});
  expect(b.rem(x, all(16, {64})), {16}, {16}, {1});
  expect(b.shr(x, all(3, {64})), {1}, {1}, {8});
  expect(b.bit_and(x, all(7, {64})), {8}, {8}, {1});
  expect(b.bit_and(x, all(-8, {64})), {1}, {8}, {8});
  expect(b.shl(x, all(2, {64})), {1}, {4}, {1});
  expect(b.rem(x, b.splat(i32(16), {64})), {16}, {16}, {1});
  // C's division of a negative number is not the floor.
  Value* negative = b.sub(x, all(1024, {64}));
  expect(negative, {64}, {64}, {1});
  expect(b.div(negative, all(16, {64})), {1}, {1}, {1});
  expect(b.rem(negative, all(16, {64})), {1}, {1}, {1});
  expect(b.shr(negative, all(3, {64})), {1}, {1}, {8});
}

TEST_F(Axis, WrappingNeedsTheSign) {
  Value *n = i32(16), *rows = i32(), *bound = b.splat(n, {64});
  auto wrapped = [&](Value* start) { return b.rem(row(b.mul(start, c(64)), 64), bound); };
  // The grouped order: the first block of a group, and the rows of blocks in the last one.
  Value *pid = b.program_id(0), *columns = b.div(b.add(n, c(63)), c(64)), *in_group = b.mul(columns, c(8));
  Value* first = b.mul(b.div(pid, in_group), c(8));
  Value* left = b.minimum(b.sub(rows, first), c(8));
  expect(wrapped(b.add(first, b.rem(b.rem(pid, in_group), left))), {16}, {16}, {1});
  expect(wrapped(b.div(b.rem(pid, in_group), left)), {16}, {16}, {1});
  // These may be negative.
  expect(wrapped(rows), {1}, {1}, {1});
  expect(wrapped(b.sub(pid, c(1))), {1}, {1}, {1});
  expect(wrapped(b.div(pid, c(-2))), {1}, {1}, {1});
  expect(wrapped(b.div(rows, c(2))), {1}, {1}, {1});
  Value* elements = b.div(b.arange(0, 64), b.splat(rows, {64}));
  expect(b.rem(b.add(b.mul(elements, all(64, {64})), b.arange(0, 64)), bound), {1}, {1}, {1});
  // A promise, and what cannot be negative.
  Value* promised = b.create(ir::Opcode::Hint, {b.sub(pid, rows)}, {}, {{ir::attr::non_negative, true}})->result();
  expect(wrapped(promised), {16}, {16}, {1});
  expect(wrapped(b.maximum(rows, c(0))), {16}, {16}, {1});
  expect(wrapped(b.abs(rows)), {16}, {16}, {1});
  // Numbers of 16 bits wrap around in plain programs.
  auto is_sum_non_negative = [&](Elem elem) {
    Value* x = b.cast(b.cast(b.arange(0, 64), Elem::U8), elem);
    Value* sum = b.add(x, b.constant(Type::tile(elem, {64}), 32700));
    return AxisAnalysis(func).info(sum).non_negative;
  };
  EXPECT_TRUE(is_sum_non_negative(Elem::I32));
  EXPECT_FALSE(is_sum_non_negative(Elem::I16));
  EXPECT_TRUE(is_sum_non_negative(Elem::U16));
}

// The rule for remainders against all remainders: runs of `run` elements from multiples of it, by divisors of either
// sign that it divides. Where the dividend is not negative they stay contiguous; where it is, those that start at a
// multiple of the divisor do not, so that no rule can do without the sign.
TEST(AxisRules, RunsUnderRemainders) {
  std::mt19937 random{1};
  auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  for (int i = 0; i < 20000; ++i) {
    const int64_t run = int64_t(2) << below(5), start = run * (below(2001) - 1000);
    const int64_t divisor = run * (below(2) ? 1 : -1) * (1 + below(60));
    bool contiguous = true;
    for (int64_t k = 0; k < run; ++k) contiguous &= (start + k) % divisor == start % divisor + k;
    ASSERT_EQ(contiguous, start >= 0 || start % divisor != 0) << start << " % " << divisor << ", run of " << run;
    ASSERT_EQ(start % divisor % run, 0) << start << " % " << divisor;
  }
}

TEST_F(Axis, TwoDimensions) {
  Value* rows = b.broadcast(b.mul(b.expand_dims(b.arange(0, 16), 1), b.splat(i32(16), {16, 1})), {16, 64});
  expect(rows, {1, 1}, {16, 16}, {1, 64});
  Value* cols = b.broadcast(b.expand_dims(b.arange(0, 64), 0), {16, 64});
  expect(cols, {1, 64}, {1, kAll}, {16, 1});
  Value* offset = b.add(rows, cols);
  expect(offset, {1, 64}, {1, 16}, {1, 1});
  Value* ptr = b.addptr(b.splat(pointer(), {16, 64}), offset);
  EXPECT_EQ(width(ptr, nullptr, 1), 4);
  EXPECT_EQ(width(ptr, nullptr, 0), 1);
  Value* turned = b.trans(ptr, {1, 0});
  EXPECT_EQ(width(turned, nullptr, 0), 4);
  expect(b.reshape(b.arange(0, 64), {8, 8}), {1, 8}, {1, 8}, {1, 1});
}

TEST_F(Axis, PointersToOtherElements) {
  Value* rows = b.mul(b.arange(0, 16), all(32, {16}));
  Value* bytes = b.addptr(b.splat(pointer(Elem::U8), {16}), rows);
  Value* words = b.bitcast(bytes, Type::pointer_to(Elem::I32));
  expect(words, {1}, {16}, {1});
}

TEST_F(Axis, CastsSelectsAndHints) {
  Value* x = b.arange(0, 64);
  expect(b.cast(x, Elem::I64), {64}, {kAll}, {1});
  expect(b.cast(all(4, {64}), Elem::F32), {1}, {1}, {64});
  Value* mask = b.lt(x, all(16, {64}));
  expect(mask, {1}, {1}, {16});
  expect(b.select(mask, x, all(0, {64})), {1}, {1}, {1});
  expect(b.select(mask, all(4, {64}), all(8, {64})), {1}, {4}, {16});
  expect(b.select(mask, x, b.add(x, all(4, {64}))), {16}, {4}, {1});
  expect(b.minimum(all(4, {64}), b.splat(i32(16), {64})), {1}, {4}, {64});
  Value* loaded = b.load(b.addptr(b.splat(pointer(Elem::I32), {64}), x), nullptr, nullptr);
  expect(loaded, {1}, {1}, {1});
  Value* hinted = b.create(Opcode::Hint, {loaded}, {},
                           {{"divisibility", Numbers{16}}, {"contiguity", Numbers{48}}, {"constancy", Numbers{1}}})
                      ->result();
  expect(hinted, {16}, {16}, {1});
}

// Numbers of few bits wrap around in plain programs: 127 + 1 is -128.
TEST_F(Axis, RunsOfFewBits) {
  const auto small = [&](Value* x, Elem type) { return b.cast(x, type); };
  const auto eight = [&](int64_t v) { return b.constant(Type::tile(Elem::I8, {256}), v); };
  Value *x = b.arange(0, 256), *bytes = small(x, Elem::I8);
  expect(bytes, {128}, {128}, {1});
  expect(small(x, Elem::U8), {256}, {kAll}, {1});
  expect(small(x, Elem::I16), {256}, {kAll}, {1});
  expect(small(b.arange(8, 264), Elem::I8), {8}, {8}, {1});
  expect(b.lt(bytes, eight(0)), {1}, {1}, {128});
  expect(b.add(bytes, eight(4)), {4}, {4}, {1});
  expect(b.cast(b.add(bytes, eight(4)), Elem::I32), {4}, {4}, {1});
  // Every third number, which wraps around too, has no stride that would hold along another axis.
  Value* thirds = b.cast(b.mul(x, all(3, {256})), Elem::I8);
  Value* wide = b.cast(b.expand_dims(thirds, 1), Elem::I32);
  for (const Value* v : {thirds, wide}) EXPECT_TRUE(AxisAnalysis(func).info(v).strided.empty());
  const auto may_be_negative = [&](const Value* v) { return !AxisAnalysis(func).info(v).non_negative; };
  EXPECT_TRUE(may_be_negative(b.create(Opcode::Abs, {bytes}, {bytes->type})->result()));
  EXPECT_FALSE(may_be_negative(b.create(Opcode::Abs, {x}, {x->type})->result()));
}

TEST_F(Axis, RunsOfOtherStrides) {
  auto expect_run = [&](const Value* v, size_t axis, int64_t stride, int64_t length) {
    const AxisInfo info = AxisAnalysis(func).info(v);
    ASSERT_FALSE(info.strided.empty());
    EXPECT_EQ(info.strided[axis].stride, stride);
    EXPECT_EQ(info.strided[axis].length, length);
  };
  auto two = [&](Value* v, int axis) { return b.broadcast(b.expand_dims(v, axis), {32, 64}); };
  // Columns of rows of 100 numbers, from every third row on.
  Value* rows = two(b.mul(b.arange(0, 32), all(300, {32})), 1);
  Value* columns = two(b.mul(b.rem(row(c(0), 64), all(16, {64})), all(4, {64})), 0);
  Value* places = b.addptr(b.splat(pointer(Elem::F16), {32, 64}), b.add(rows, columns));
  expect_run(places, 0, 600, 32);
  expect_run(places, 1, 8, 16);
  EXPECT_EQ(fastest(places), (std::vector<int>{1, 0}));
  Value* turned = b.trans(places, {1, 0});
  expect_run(turned, 0, 8, 16);
  EXPECT_EQ(fastest(turned), (std::vector<int>{0, 1}));
  expect_run(b.sub(all(7, {64}), row(i32(), 64)), 0, -1, 64);
  // Two numbers in each byte of a column of rows of 512.
  Value* bytes = b.add(two(b.div(b.arange(0, 32), all(2, {32})), 1), two(b.mul(row(c(0), 64), all(512, {64})), 0));
  Value* packed = b.addptr(b.splat(pointer(Elem::U8), {32, 64}), bytes);
  expect_run(packed, 0, 1, 32);
  EXPECT_EQ(AxisAnalysis(func).info(packed).strided[0].repeats, 2);
  EXPECT_EQ(fastest(packed), (std::vector<int>{0, 1}));
  Value* side_by_side = row(i32(), 64);
  EXPECT_TRUE(AxisAnalysis(func).info(side_by_side).strided.empty());
}

TEST_F(Axis, MasksTellWhatIsNotNegative) {
  // Columns from 2048 on, of rows of 6144 that are put together from three.
  Value* x = b.rem(row(b.mul(b.program_id(0), c(1024)), 1024), all(6144, {1024}));
  Value* behind = b.sub(x, all(2048, {1024}));
  Value* offset = b.add(b.rem(behind, all(128, {1024})), b.mul(b.div(behind, all(128, {1024})), all(4096, {1024})));
  Value* ptr = b.addptr(b.splat(pointer(Elem::F16), {1024}), offset);
  auto bound = [&](int64_t v) { return all(v, {1024}); };
  EXPECT_EQ(width(ptr, nullptr), 1);
  EXPECT_EQ(width(ptr, b.ge(x, bound(2048))), 8);
  EXPECT_EQ(width(ptr, b.bit_and(b.lt(x, bound(4096)), b.ge(x, bound(2048)))), 8);
  EXPECT_EQ(width(ptr, b.ge(x, bound(2040))), 1);
  EXPECT_EQ(width(ptr, b.lt(x, bound(4096))), 1);
  // The mask of a whole tile, computed once from its first element.
  Value* first = b.mul(b.program_id(1), c(128));
  Value* behind_first = b.rem(b.sub(row(first, 128), all(2048, {128})), all(64, {128}));
  Value* at = b.addptr(b.splat(pointer(Elem::F16), {128}), behind_first);
  auto once = [&](int64_t least) {
    return b.splat(b.ge(b.cast(b.add(first, c(0)), Elem::I64), b.constant(Type::scalar(Elem::I64), least)), {128});
  };
  EXPECT_EQ(width(at, once(2048)), 8);
  EXPECT_EQ(width(at, once(2047)), 1);
  // What is added to numbers of 16 bits may wrap around.
  auto is_moved_non_negative = [&](Elem elem) {
    Value* n = b.cast(b.sub(row(i32(), 64), all(7, {64})), elem);
    Value* sum = b.add(n, b.constant(Type::tile(elem, {64}), 32000));
    Value* mask = b.ge(n, b.constant(Type::tile(elem, {64}), 1000));
    return AxisAnalysis(func).info(sum, mask).non_negative;
  };
  EXPECT_TRUE(is_moved_non_negative(Elem::I32));
  EXPECT_FALSE(is_moved_non_negative(Elem::I16));
  // So may numbers without a sign: the mask is true of the first eight as well.
  auto without_sign = [&](int64_t v) { return b.constant(Type::tile(Elem::U32, {128}), v); };
  auto wide = [&](int64_t v) { return b.constant(Type::tile(Elem::I64, {128}), v); };
  Value* count = b.cast(b.arange(0, 128), Elem::U32);
  Value* before_64 = b.rem(b.sub(b.cast(count, Elem::I64), wide(64)), wide(64));
  Value* of_count = b.addptr(b.splat(pointer(Elem::F16), {128}), before_64);
  EXPECT_EQ(width(of_count, b.ge(count, without_sign(72))), 8);
  EXPECT_EQ(width(of_count, b.ge(b.sub(count, without_sign(8)), without_sign(64))), 1);
  Value* moved = b.cast(b.add(count, without_sign((int64_t(1) << 32) - 8)), Elem::I64);
  Value* of_moved = b.addptr(b.splat(pointer(Elem::F16), {128}), b.rem(b.sub(moved, wide(64)), wide(64)));
  EXPECT_EQ(width(of_moved, b.ge(count, without_sign(8))), 1);
  // Rows that the mask knows are no columns.
  Value* square = b.rem(b.sub(b.expand_dims(b.arange(0, 64), 0), b.constant(Type::tile(Elem::I32, {1, 64}), 32)),
                        b.constant(Type::tile(Elem::I32, {1, 64}), 128));
  Value* rows =
      b.broadcast(b.ge(b.expand_dims(b.arange(0, 64), 1), b.constant(Type::tile(Elem::I32, {64, 1}), 32)), {64, 64});
  Value* places = b.addptr(b.splat(pointer(Elem::F16), {64, 64}), b.broadcast(square, {64, 64}));
  EXPECT_EQ(width(places, rows, 1), 1);
}

TEST_F(Axis, LoopsReachAFixedPoint) {
  Value* ptr = b.addptr(b.splat(pointer(), {64}), b.arange(0, 64));
  Value* stride = i32(16);
  Value *zero = c(0), *eight = c(8);
  ir::Op* loop = b.create(Opcode::For, {zero, stride, eight, ptr, ptr}, {ptr->type, ptr->type});
  ir::Block* body = loop->regions[0].get();
  Value* i = body->add_arg(Type::scalar(Elem::I32));
  Value* aligned = body->add_arg(ptr->type);
  Value* drifting = body->add_arg(ptr->type);
  Builder inner(body);
  Value* next = inner.addptr(aligned, inner.splat(stride, {64}));
  Value* one = inner.constant(Type::tile(Elem::I32, {64}), 1);
  Value* drifted = inner.addptr(drifting, one);
  inner.create(Opcode::Yield, {next, drifted});
  expect(i, {1}, {8}, {1});
  expect(aligned, {64}, {16}, {1});
  expect(loop->result(0), {64}, {16}, {1});
  expect(drifting, {64}, {4}, {1});
  expect(loop->result(1), {64}, {4}, {1});
  EXPECT_EQ(width(drifting, nullptr), 1);
}

TEST_F(Axis, BranchesAndWhileJoin) {
  Value* condition = b.lt(i32(), i32());
  Value* twelve = i32(4);
  ir::Op* branch = b.create(Opcode::If, {condition}, {Type::scalar(Elem::I32)});
  for (int r = 0; r < 2; ++r) {
    Builder inner(branch->regions[r].get());
    inner.create(Opcode::Yield, {r ? twelve : inner.constant(Type::scalar(Elem::I32), 16)});
  }
  expect(branch->result(), {1}, {4}, {1});

  Value* start = c(64);
  ir::Op* loop = b.create(Opcode::While, {start}, {Type::scalar(Elem::I32)});
  Value* before = loop->regions[0]->add_arg(Type::scalar(Elem::I32));
  Value* after = loop->regions[1]->add_arg(Type::scalar(Elem::I32));
  Builder head(loop->regions[0].get());
  head.create(Opcode::Condition, {condition, before});
  Builder body(loop->regions[1].get());
  body.create(Opcode::Yield, {body.sub(after, body.constant(Type::scalar(Elem::I32), 2))});
  expect(before, {1}, {2}, {1});
  expect(loop->result(), {1}, {2}, {1});
}

}  // namespace
}  // namespace tegula::axis
