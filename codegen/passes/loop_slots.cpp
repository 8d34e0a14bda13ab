#include "codegen/passes/loop_slots.h"

namespace tegula {

using namespace ir;

Value* carry(Op& loop, Value* init) {
  loop.operands.push_back(init);
  loop.results.push_back(std::make_unique<Value>(Value{init->type, &loop, nullptr, int(loop.results.size()), {}}));
  return loop.regions[0]->add_arg(init->type);
}

Value* alloc_place(Builder& builder, const Type& tile, int64_t slots, int contiguous) {
  ir::Attrs attrs{{"slots", slots}};
  if (contiguous >= 0) attrs["contiguous"] = int64_t(contiguous);
  return builder.create(Opcode::SharedAlloc, {}, {Type::place(tile.elem, tile.shape)}, std::move(attrs))->result();
}

Value* slot_of(Builder& builder, Value* buffer, Value* index) {
  return builder.create(Opcode::SharedSlot, {buffer, index}, {buffer->type})->result();
}

Value* rotate(Op& loop, int64_t first, int64_t slots) {
  Block& body = *loop.regions[0];
  auto number = [](Builder& build, int64_t value) { return build.constant(Type::scalar(Elem::I32), value); };
  Builder before, top;
  before.set_before(&loop), before.set_loc(loop.loc);
  top.set_before(body.ops.front().get()), top.set_loc(loop.loc);
  Value* index = carry(loop, number(before, first));
  Value* next = top.add(index, number(top, 1));
  body.terminator()->operands.push_back(top.select(top.eq(next, number(top, slots)), number(top, 0), next));
  return index;
}

}  // namespace tegula
