// Functions of tile IR that are built by hand and laid out.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "codegen/ir/builder.h"
#include "codegen/ir/printer.h"
#include "codegen/passes/passes.h"

namespace tegula {

using ir::Builder;
using ir::Func;
using ir::Op;
using ir::Opcode;
using ir::Type;
using ir::Value;

using Values = std::vector<Value*>;

class Layouts : public testing::Test {
 protected:
  Func func;
  Builder b{&func.body};
  Diagnostics diags;

  Layouts() { func.name = "kernel"; }
  Value* pointer(Elem e = Elem::F32, int64_t divisor = 16) { return func.add_param(Type::pointer_to(e), "p", divisor); }
  Value* i32(int64_t divisor = 1) { return func.add_param(Type::scalar(Elem::I32), "n", divisor); }
  void warps(int64_t n) { func.attrs["num_warps"] = n; }
  Value* c(int64_t v) { return b.constant(Type::scalar(Elem::I32), v); }

  Value* row_pointers(Value* base, int64_t n) { return b.addptr(b.splat(base, {n}), b.arange(0, n)); }
  /// base + row * stride + column for a tile.
  Value* tile_pointers(Value* base, Value* stride, int64_t m, int64_t n) {
    Value* rows = b.mul(b.expand_dims(b.arange(0, m), 1), b.splat(stride, {m, 1}));
    Value* cols = b.expand_dims(b.arange(0, n), 0);
    return b.addptr(b.splat(base, {m, n}), b.add(b.broadcast(rows, {m, n}), b.broadcast(cols, {m, n})));
  }
  static Value* reduce_in(Builder& at, Value* x, int axis = 0) {
    return at.reduce({x}, axis, [](Builder& in, const Values& v) { return Values{in.add(v[0], v[1])}; })[0];
  }
  Value* reduce(Value* x, int axis) { return reduce_in(b, x, axis); }

  void assign() {
    b.create(Opcode::Return, {});
    ASSERT_TRUE(ir::verify(func, ir::Stage::Tile, diags)) << diags.render();
    PassContext context{*find_target("sm_80"), diags};
    passes::plan_products(func, context);
    passes::assign_layouts(func, context);
    check();
  }
  void simplify() {
    PassContext context{*find_target("sm_80"), diags};
    passes::simplify_layouts(func, context);
    check();
  }
  void check() {
    EXPECT_FALSE(diags.has_errors()) << diags.render();
    EXPECT_TRUE(ir::verify(func, ir::Stage::LaidOut, diags)) << diags.render() << ir::print(func);
  }
  std::vector<Op*> ops(Opcode opcode) {
    std::vector<Op*> found;
    ir::walk(func.body, [&](Op& op) {
      if (op.opcode == opcode) found.push_back(&op);
    });
    return found;
  }
  size_t conversions() { return ops(Opcode::ConvertLayout).size(); }
  std::string layout(const Value* v) { return v->type.layout->to_string(); }
};

}  // namespace tegula
