// Pass simplify_layouts on functions that are laid out by hand.
#include <gtest/gtest.h>

#include <memory>

#include "codegen/layout/makers.h"
#include "tests/codegen/passes/layouts_fixture.h"

namespace tegula {
namespace {

class Simplify : public Layouts {
 protected:
  LayoutRef rows = std::make_shared<LinearLayout>(coalesced_layout({64, 64}, {1, 0}, 4, 4));
  LayoutRef columns = std::make_shared<LinearLayout>(coalesced_layout({64, 64}, {0, 1}, 4, 4));

  Value* laid(Value* v, LayoutRef layout) {
    v->type.layout = std::move(layout);
    return v;
  }
  Value* zeros(LayoutRef layout, Elem e = Elem::F32) {
    return b.constant_float(Type::tile(e, {64, 64}).with_layout(layout), 0);
  }
  /// A loaded value, which nobody can recompute.
  Value* loaded(LayoutRef layout, Elem e = Elem::F32) {
    return b.load(laid(b.splat(pointer(e), {64, 64}), layout), nullptr, nullptr);
  }
  void keep(Value* v) { b.store(laid(b.splat(pointer(v->type.elem), {64, 64}), v->type.layout), v, nullptr); }
  void finish() {
    b.create(Opcode::Return, {});
    check();
    simplify();
  }
};

TEST_F(Simplify, ThereAndBackAgain) {
  Value* x = loaded(rows);
  keep(b.convert_layout(b.convert_layout(x, columns), rows));
  keep(b.convert_layout(x, rows));
  finish();
  EXPECT_EQ(conversions(), 0u);
  EXPECT_EQ(ops(Opcode::Store)[0]->operands[1], x);
}

TEST_F(Simplify, EqualConversionsMerge) {
  Value* x = loaded(rows);
  keep(b.convert_layout(x, columns));
  keep(b.convert_layout(x, columns));
  finish();
  EXPECT_EQ(conversions(), 1u);
}

TEST_F(Simplify, IndexArithmeticIsComputedAgain) {
  LayoutRef side = std::make_shared<LinearLayout>(rows->drop_tile_dim(0).remove_zero_registers());
  Value* cols = b.expand_dims(laid(b.arange(0, 64), side), 0);
  cols->type.layout = std::make_shared<LinearLayout>(side->insert_tile_dim(0));
  Value* tile = laid(b.broadcast(cols, {64, 64}), rows);
  Value* mask = b.lt(b.mul(tile, b.constant(tile->type, 3)), b.constant(tile->type, 7));
  Value* x = loaded(columns);
  keep(b.select(b.convert_layout(mask, columns), x, zeros(columns)));
  finish();
  EXPECT_EQ(conversions(), 0u) << ir::print(func);
  EXPECT_EQ(ops(Opcode::Arange).size(), 1u);
}

TEST_F(Simplify, ABroadcastRowIsConvertedBeforeItIsBroadcast) {
  LayoutRef side = std::make_shared<LinearLayout>(rows->drop_tile_dim(0).remove_zero_registers());
  Value* row = b.load(laid(b.splat(pointer(), {64}), side), nullptr, nullptr);
  Value* one = b.expand_dims(row, 0);
  one->type.layout = std::make_shared<LinearLayout>(side->insert_tile_dim(0));
  keep(b.convert_layout(laid(b.broadcast(one, {64, 64}), rows), columns));
  finish();
  ASSERT_EQ(conversions(), 1u) << ir::print(func);
  EXPECT_EQ(ops(Opcode::ConvertLayout)[0]->operands[0]->type.num_elements(), 64);
}

TEST_F(Simplify, ExpensiveValuesAreNot) {
  Value *x = loaded(rows), *y = b.exp(x);
  keep(b.convert_layout(y, columns));
  keep(y);
  finish();
  ASSERT_EQ(conversions(), 1u);
  EXPECT_EQ(ops(Opcode::ConvertLayout)[0]->operands[0], y);
  EXPECT_EQ(ops(Opcode::Exp).size(), 1u);
}

TEST_F(Simplify, WhatIsForConversionsAloneIsComputedBehindThem) {
  Value *x = loaded(rows, Elem::F16), *wide = b.cast(x, Elem::F32), *sum = b.add(wide, wide);
  keep(b.div(b.convert_layout(sum, columns), b.convert_layout(b.exp(sum), columns)));
  finish();
  ASSERT_EQ(conversions(), 1u) << ir::print(func);
  EXPECT_EQ(ops(Opcode::ConvertLayout)[0]->operands[0], x);
  EXPECT_EQ(ops(Opcode::Exp).size(), 1u);
}

TEST_F(Simplify, NothingIsComputedBehindAConversionThatMovesAsMuch) {
  Value *x = loaded(rows, Elem::F16), *y = loaded(rows, Elem::F16);
  Value* product = b.mul(b.cast(x, Elem::F32), b.cast(y, Elem::F32));
  keep(b.convert_layout(product, columns));
  finish();
  ASSERT_EQ(conversions(), 1u) << ir::print(func);
  EXPECT_EQ(ops(Opcode::ConvertLayout)[0]->operands[0], product);
}

TEST_F(Simplify, NothingIsConvertedThereAndBack) {
  Value *x = b.exp(b.cast(loaded(rows, Elem::F16), Elem::F32)), *y = loaded(columns, Elem::F16);
  Value* product = b.mul(b.convert_layout(x, columns), b.cast(y, Elem::F32));
  keep(b.convert_layout(b.cast(product, Elem::F16), rows));
  finish();
  ASSERT_EQ(conversions(), 1u) << ir::print(func);
  EXPECT_EQ(ops(Opcode::ConvertLayout)[0]->operands[0], y);
}

TEST_F(Simplify, NarrowElementsAreConverted) {
  Value* x = loaded(rows, Elem::F16);
  keep(b.convert_layout(b.cast(x, Elem::F32), columns));
  finish();
  ASSERT_EQ(conversions(), 1u);
  EXPECT_EQ(ops(Opcode::ConvertLayout)[0]->operands[0], x);
}

}  // namespace
}  // namespace tegula
