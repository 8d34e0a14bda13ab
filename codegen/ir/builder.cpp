#include "codegen/ir/builder.h"

#include "runtime/base/check.h"

namespace tegula::ir {

namespace {
std::list<std::unique_ptr<Op>>::iterator position(Op* op) {
  auto& ops = op->parent->ops;
  for (auto it = ops.begin(); it != ops.end(); ++it)
    if (it->get() == op) return it;
  TEGULA_UNREACHABLE("op '{}' is not in its block", op->info().text);
}
}  // namespace

void Builder::set_before(Op* op) {
  block_ = op->parent;
  at_ = position(op);
  loc_ = op->loc;
}

void Builder::set_after(Op* op) {
  block_ = op->parent;
  at_ = std::next(position(op));
  loc_ = op->loc;
}

Op* Builder::create(Opcode opcode, std::vector<Value*> operands, std::vector<Type> types, Attrs attrs) {
  const OpInfo& info = op_info(opcode);
  switch (info.rule) {
    case ResultRule::Same:
      types = {operands[0]->type};
      break;
    case ResultRule::Bool:
      types = {operands[0]->type.with_elem(Elem::I1)};
      break;
    case ResultRule::EachSame:
      types.clear();
      for (const Value* x : operands) types.push_back(x->type);
      break;
    case ResultRule::Given:
    case ResultRule::Several:
    case ResultRule::Each:
    case ResultRule::Carried:
    case ResultRule::None:
      break;
  }
  auto op = std::make_unique<Op>();
  op->opcode = opcode;
  op->operands = std::move(operands);
  op->attrs = std::move(attrs);
  op->loc = loc_;
  for (Type& type : types)
    op->results.push_back(
        std::make_unique<Value>(Value{std::move(type), op.get(), nullptr, int(op->results.size()), {}}));
  for (size_t i = 0; i < info.regions.size(); ++i) {
    op->regions.push_back(std::make_unique<Block>());
    op->regions.back()->parent = op.get();
  }
  return insert(std::move(op));
}

Op* Builder::insert(std::unique_ptr<Op> op) {
  op->parent = block_;
  return block_->ops.insert(at_, std::move(op))->get();
}

Value* Builder::constant(Type type, int64_t value) {
  return create(Opcode::Constant, {}, {std::move(type)}, {{attr::value, value}})->result();
}

Value* Builder::constant_float(Type type, double value) {
  return create(Opcode::Constant, {}, {std::move(type)}, {{attr::value, value}})->result();
}

Value* Builder::program_id(int axis) {
  return create(Opcode::ProgramId, {}, {Type::scalar(Elem::I32)}, {{attr::axis, int64_t(axis)}})->result();
}

Value* Builder::num_programs(int axis) {
  return create(Opcode::NumPrograms, {}, {Type::scalar(Elem::I32)}, {{attr::axis, int64_t(axis)}})->result();
}

Value* Builder::arange(int64_t start, int64_t end) {
  return create(Opcode::Arange, {}, {Type::tile(Elem::I32, {end - start})}, {{attr::start, start}, {attr::end, end}})
      ->result();
}

Value* Builder::cast(Value* x, Elem to, std::string_view rounding) {
  Attrs attrs;
  if (!rounding.empty()) attrs[attr::rounding] = std::string(rounding);
  return create(Opcode::Cast, {x}, {x->type.with_elem(to)}, std::move(attrs))->result();
}

Value* Builder::bitcast(Value* x, Type element_type) {
  element_type.shape = x->type.shape;
  element_type.layout = x->type.layout;
  return create(Opcode::Bitcast, {x}, {std::move(element_type)})->result();
}

Value* Builder::splat(Value* scalar, Shape shape) {
  return create(Opcode::Splat, {scalar}, {scalar->type.with_shape(std::move(shape))})->result();
}

Value* Builder::broadcast(Value* x, Shape shape) {
  return create(Opcode::Broadcast, {x}, {x->type.with_shape(std::move(shape))})->result();
}

Value* Builder::expand_dims(Value* x, int axis) {
  Shape shape = x->type.shape;
  shape.insert(shape.begin() + axis, 1);
  return create(Opcode::ExpandDims, {x}, {x->type.with_shape(std::move(shape))}, {{attr::axis, int64_t(axis)}})
      ->result();
}

Value* Builder::reshape(Value* x, Shape shape) {
  return create(Opcode::Reshape, {x}, {x->type.with_shape(std::move(shape))})->result();
}

Value* Builder::trans(Value* x, std::vector<int64_t> order) {
  Shape shape;
  for (int64_t from : order) shape.push_back(x->type.shape[from]);
  return create(Opcode::Trans, {x}, {x->type.with_shape(std::move(shape))}, {{attr::order, std::move(order)}})
      ->result();
}

Value* Builder::load(Value* ptr, Value* mask, Value* other, Attrs attrs) {
  Type type{ptr->type.elem, false, ptr->type.shape, ptr->type.layout};
  return create(Opcode::Load, {ptr, mask, other}, {type}, std::move(attrs))->result();
}

void Builder::store(Value* ptr, Value* value, Value* mask, Attrs attrs) {
  create(Opcode::Store, {ptr, value, mask}, {}, std::move(attrs));
}

Value* Builder::atomic_rmw(std::string kind, Value* ptr, Value* value, Value* mask, Attrs attrs, Value* compare) {
  attrs[attr::kind] = std::move(kind);
  return create(Opcode::AtomicRmw, {ptr, value, mask, compare}, {value->type}, std::move(attrs))->result();
}

std::vector<Value*> Builder::combine(Opcode opcode, const std::vector<Value*>& inputs, std::vector<Type> types,
                                     Attrs attrs, const Combine& combine) {
  Op* op = create(opcode, inputs, std::move(types), std::move(attrs));
  Block* region = op->regions[0].get();
  std::vector<Value*> args;
  for (int side = 0; side < 2; ++side)
    for (Value* x : inputs) args.push_back(region->add_arg(x->type.element()));
  Builder inner(region);
  inner.set_loc(loc_);
  inner.create(Opcode::Yield, combine(inner, args));
  std::vector<Value*> results;
  for (auto& r : op->results) results.push_back(r.get());
  return results;
}

std::vector<Value*> Builder::reduce(const std::vector<Value*>& inputs, int axis, const Combine& combine) {
  std::vector<Type> types;
  for (Value* x : inputs) {
    Shape shape = x->type.shape;
    shape.erase(shape.begin() + axis);
    types.push_back(x->type.with_shape(std::move(shape)));
  }
  return this->combine(Opcode::Reduce, inputs, std::move(types), {{attr::axis, int64_t(axis)}}, combine);
}

Value* Builder::dot(Value* a, Value* b, Value* acc, Attrs attrs) {
  return create(Opcode::Dot, {a, b, acc}, {acc->type}, std::move(attrs))->result();
}

Value* Builder::convert_layout(Value* x, LayoutRef layout) {
  return create(Opcode::ConvertLayout, {x}, {x->type.with_layout(std::move(layout))})->result();
}

void move_before(Op& op, Op& where) {
  auto& from = op.parent->ops;
  auto& to = where.parent->ops;
  auto at = std::find_if(from.begin(), from.end(), [&](auto& o) { return o.get() == &op; });
  auto before = std::find_if(to.begin(), to.end(), [&](auto& o) { return o.get() == &where; });
  to.splice(before, from, at);
  op.parent = where.parent;
}

}  // namespace tegula::ir
