// Elements that are looked up: gather, by way of shared memory, where the tile lies in row-major order; and histogram,
// whose counters stand there.
#include "codegen/lower/lowering.h"

namespace tegula::lower {

namespace {

llvm::Value* shared_element(Lowering& l, const ir::Op& op, llvm::Value* index, int64_t bytes) {
  return l.b.CreateAdd(l.shared_address(l.shared.offset.at(&op)), l.b.CreateMul(index, l.i32(bytes)));
}

}  // namespace

void lower_Gather(Lowering& l, const ir::Op& op) {
  const ir::Type &from = op.operand(0)->type, &places = op.operand(1)->type, &to = op.result()->type;
  const int axis = int(op.get(ir::attr::axis));
  l.store_in_order(op.operand(0), op);
  const Regs& index = l.get(op.operand(1));
  l.set(op.result(), l.map_registers(to, [&](int r) {
    llvm::Value* place = l.b.getInt32(0);
    for (int i = 0; i < to.rank(); ++i) {
      llvm::Value* at = i != axis ? l.coordinate(*to.layout, tile_dim(i), r)
                                  : l.b.CreateIntCast(index[r], l.b.getInt32Ty(), is_signed(places.elem));
      place = l.b.CreateAdd(l.b.CreateMul(place, l.i32(from.shape[size_t(i)])), at);
    }
    const int64_t bytes = std::max(1, from.bits() / 8);
    return l.load_shared(shared_element(l, op, place, bytes), l.element_type(to), 1, op.loc)[0];
  }));
}

void lower_Histogram(Lowering& l, const ir::Op& op) {
  const ir::Type &in = op.operand(0)->type, &out = op.result()->type;
  auto counter = [&](llvm::Value* index) { return shared_element(l, op, index, 4); };
  llvm::Value* owner = l.is_owner(out.layout);
  l.map_registers(out, [&](int r) {
    l.store_shared(counter(l.linear_index(out, r)), {l.i32(0)}, owner, op.loc);
    return l.i32(0);
  });
  l.barrier(op.loc);
  const Regs& values = l.get(op.operand(0));
  llvm::Value* counts = l.is_owner(in.layout);
  l.map_registers(in, [&](int r) {
    llvm::Value* inside = l.b.CreateICmpULT(values[r], l.i32(out.shape[0]));
    if (counts) inside = l.b.CreateAnd(inside, counts);
    l.hw("red_shared_add_i32", {counter(values[r]), l.i32(1), inside, l.site(op.loc)});
    return values[r];
  });
  l.barrier(op.loc);
  l.set(op.result(), l.map_registers(out, [&](int r) {
    return l.load_shared(counter(l.linear_index(out, r)), l.b.getInt32Ty(), 1, op.loc)[0];
  }));
}

}  // namespace tegula::lower
