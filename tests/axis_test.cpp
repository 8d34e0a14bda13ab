// Axis analysis: what is known of index tiles, pointers and masks.
#include <gtest/gtest.h>

#include "codegen/analysis/axis_info.h"
#include "codegen/ir/builder.h"

namespace tegula {
namespace {

using ir::Builder;
using ir::Opcode;
using ir::Shape;
using ir::Type;
using ir::Value;

using Numbers = std::vector<int64_t>;

class Axis : public testing::Test {
 protected:
  ir::Func func;
  Builder b{&func.body};

  Value* param(Type type, int64_t divisor) { return func.add_param(type, "p", divisor); }
  Value* i32(int64_t divisor = 1) { return param(Type::scalar(Elem::I32), divisor); }
  Value* pointer(Elem e = Elem::F32, int64_t divisor = 16) { return param(Type::pointer_to(e), divisor); }
  Value* c(int64_t v) { return b.constant(Type::scalar(Elem::I32), v); }
  Value* all(int64_t v, Shape shape) { return b.constant(Type::tile(Elem::I32, shape), v); }
  Value* row(Value* base, int64_t n) { return b.add(b.splat(base, {n}), b.arange(0, n)); }

  void expect(const Value* v, Numbers contiguity, Numbers divisibility, Numbers constancy) {
    AxisAnalysis analysis(func);
    const AxisInfo& info = analysis.info(v);
    EXPECT_EQ(info.contiguity, contiguity) << "contiguity";
    for (auto& d : divisibility) d = std::min<int64_t>(d, kAll);
    Numbers found = info.divisibility;
    for (auto& d : found) d = std::min<int64_t>(d, kAll);
    EXPECT_EQ(found, divisibility) << "divisibility";
    EXPECT_EQ(info.constancy, constancy) << "constancy";
  }
  int width(const Value* ptr, const Value* mask, int axis = 0) {
    return AxisAnalysis(func).vector_width(ptr, mask, axis);
  }
  static constexpr int64_t kAll = int64_t(1) << 30;  // of zero
};

TEST_F(Axis, Sources) {
  expect(i32(16), {1}, {16}, {1});
  expect(i32(48), {1}, {16}, {1});
  expect(c(24), {1}, {8}, {1});
  expect(all(6, {32}), {1}, {2}, {32});
  expect(b.arange(0, 64), {64}, {kAll}, {1});
  expect(b.arange(8, 24), {16}, {8}, {1});
  expect(b.program_id(0), {1}, {1}, {1});
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

TEST_F(Axis, LoopsReachAFixedPoint) {
  Value* ptr = b.addptr(b.splat(pointer(), {64}), b.arange(0, 64));
  Value* stride = i32(16);
  Value *zero = c(0), *eight = c(8);
  ir::Op* loop = b.create(Opcode::For, {zero, stride, eight, ptr, ptr}, {ptr->type, ptr->type}, {}, 1);
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
  ir::Op* branch = b.create(Opcode::If, {condition}, {Type::scalar(Elem::I32)}, {}, 2);
  for (int r = 0; r < 2; ++r) {
    Builder inner(branch->regions[r].get());
    inner.create(Opcode::Yield, {r ? twelve : inner.constant(Type::scalar(Elem::I32), 16)});
  }
  expect(branch->result(), {1}, {4}, {1});

  Value* start = c(64);
  ir::Op* loop = b.create(Opcode::While, {start}, {Type::scalar(Elem::I32)}, {}, 2);
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
}  // namespace tegula
