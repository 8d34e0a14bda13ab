// Creates ops at an insertion point. The table gives the result types of Same and Bool rows. Shapes are not checked
// here: the front ends check them with the user's names, and the verifier checks every function.
#pragma once

#include "codegen/ir/ir.h"

namespace tegula::ir {

class Builder {
 public:
  Builder() = default;
  explicit Builder(Block* block) { set_end(block); }

  void set_end(Block* block) { block_ = block, at_ = block->ops.end(); }
  void set_before(Op* op);
  void set_after(Op* op);
  /// Same as set_before() of the op that `at` points to, without a search for it in the block.
  void set_at(Block* block, std::list<std::unique_ptr<Op>>::iterator at) {
    block_ = block, at_ = at, loc_ = (*at)->loc;
  }
  void set_loc(Loc loc) { loc_ = loc; }
  Loc loc() const { return loc_; }
  Block* block() const { return block_; }

  /// Creates any op. `types` has the result types of Given, Each and Carried rows and is empty for the others. The
  /// regions that the row names are created empty.
  Op* create(Opcode opcode, std::vector<Value*> operands, std::vector<Type> types = {}, Attrs attrs = {});
  /// Puts a finished op (a clone) at the insertion point.
  Op* insert(std::unique_ptr<Op> op);

#define TEGULA_OP(...)
#define TEGULA_UNARY(Name, text, ...) \
  Value* text(Value* x) { return create(Opcode::Name, {x})->result(); }
#define TEGULA_BINARY(Name, text, ...) \
  Value* text(Value* lhs, Value* rhs) { return create(Opcode::Name, {lhs, rhs})->result(); }
#define TEGULA_TERNARY(...)
#include "codegen/ir/ops.def"

  Value* fma(Value* x, Value* y, Value* z) { return create(Opcode::Fma, {x, y, z})->result(); }
  Value* select(Value* condition, Value* lhs, Value* rhs) {
    return create(Opcode::Select, {condition, lhs, rhs}, {lhs->type})->result();
  }

  /// A constant of integer (or i1) or float element type, scalar or splat over a tile.
  Value* constant(Type type, int64_t value);
  Value* constant_float(Type type, double value);
  Value* program_id(int axis);
  Value* num_programs(int axis);
  Value* arange(int64_t start, int64_t end);

  Value* cast(Value* x, Elem to, std::string_view rounding = {});
  Value* bitcast(Value* x, Type element_type);
  Value* addptr(Value* ptr, Value* offset) { return create(Opcode::AddPtr, {ptr, offset})->result(); }

  Value* splat(Value* scalar, Shape shape);
  Value* broadcast(Value* x, Shape shape);
  Value* expand_dims(Value* x, int axis);
  Value* reshape(Value* x, Shape shape);
  Value* trans(Value* x, std::vector<int64_t> order);

  Value* load(Value* ptr, Value* mask, Value* other, Attrs attrs = {});
  void store(Value* ptr, Value* value, Value* mask, Attrs attrs = {});
  /// `compare` for the kind cas alone.
  Value* atomic_rmw(std::string kind, Value* ptr, Value* value, Value* mask, Attrs attrs = {},
                    Value* compare = nullptr);

  /// Fills the region of a reduction or scan: receives the scalars of both groups in one list, the left group first,
  /// and returns the combined group.
  using Combine = std::function<std::vector<Value*>(Builder&, const std::vector<Value*>&)>;
  /// A reduction or scan. `types` is passed to create().
  std::vector<Value*> combine(Opcode opcode, const std::vector<Value*>& inputs, std::vector<Type> types, Attrs attrs,
                              const Combine& combine);
  std::vector<Value*> reduce(const std::vector<Value*>& inputs, int axis, const Combine& combine);
  Value* dot(Value* a, Value* b, Value* acc, Attrs attrs = {});
  Value* convert_layout(Value* x, LayoutRef layout);

 private:
  Block* block_ = nullptr;
  std::list<std::unique_ptr<Op>>::iterator at_;
  Loc loc_;
};

/// Moves the op before another one, in the same block or another.
void move_before(Op& op, Op& where);

}  // namespace tegula::ir
