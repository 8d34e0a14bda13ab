// Elements that are looked up: gather, from other lanes of the warp or by way of shared memory, where the tile lies in
// row-major order; and histogram, whose counters stand there.
#include <map>

#include "codegen/analysis/gather_plan.h"
#include "codegen/lower/lowering.h"

namespace tegula::lower {

namespace {

llvm::Value* shared_element(Lowering& l, const ir::Op& op, llvm::Value* index, int64_t bytes) {
  return l.b.CreateAdd(l.shared_address(l.shared.offset.at(&op)), l.b.CreateMul(index, l.i32(bytes)));
}

llvm::Value* at_most(Lowering& l, llvm::Value* index, uint64_t limit) {
  return l.b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, index, llvm::ConstantInt::get(index->getType(), limit));
}

int64_t extent_of(const ir::Op& op) { return op.operand(0)->type.shape[size_t(op.get(ir::attr::axis))]; }

/// One that is outside of the extent stays so in 32 bits.
llvm::Value* index_of(Lowering& l, const ir::Op& op, int r) {
  const ir::Value* given = op.operand(1);
  llvm::Value* index = l.get(given)[size_t(r)];
  if (given->type.bits() > 32) index = at_most(l, index, UINT32_MAX);
  index = l.b.CreateIntCast(index, l.b.getInt32Ty(), is_signed(given->type.elem));
  const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(index);
  if (!l.emulator || (constant && constant->getValue().ult(uint64_t(extent_of(op))))) return index;
  return l.hw("index_within", {index, l.i32(extent_of(op))});
}

/// The lane that holds the element of an index, seen from the asking one.
llvm::Value* lane_of(Lowering& l, const GatherPlan& plan, llvm::Value* index) {
  int32_t replaced = 0;
  std::map<int, int32_t> by_distance;  // bits of the index, moved there, are those of the lane
  for (auto [lane_bit, index_bit] : plan.lane_bits) {
    replaced |= 1 << lane_bit;
    by_distance[lane_bit - index_bit] |= 1 << lane_bit;
  }
  llvm::Value* lane = l.b.CreateAnd(l.thread(), l.i32(31 & ~replaced));
  for (auto [distance, bits] : by_distance) {
    llvm::Value* moved = distance >= 0 ? l.b.CreateShl(index, distance) : l.b.CreateLShr(index, -distance);
    lane = l.b.CreateOr(lane, l.b.CreateAnd(moved, l.i32(bits)));
  }
  return lane;
}

void gather_from_lanes(Lowering& l, const ir::Op& op, const GatherPlan& plan) {
  const Regs& source = l.get(op.operand(0));
  l.set(op.result(), l.map_registers(op.result()->type, [&](int r) {
    llvm::Value* index = index_of(l, op, r);
    llvm::Value* lane = lane_of(l, plan, index);
    Regs found;
    for (int candidate : plan.candidates[size_t(r)]) found.push_back(l.shuffle(source[size_t(candidate)], lane, false));
    for (int bit : plan.choice_bits) {
      llvm::Value* second = l.b.CreateICmpNE(l.b.CreateAnd(index, l.i32(1 << bit)), l.i32(0));
      Regs chosen;
      for (size_t i = 0; i < found.size(); i += 2) chosen.push_back(l.b.CreateSelect(second, found[i + 1], found[i]));
      found = std::move(chosen);
    }
    return found[0];
  }));
}

}  // namespace

/// Lanes whose element nothing uses may have any index: theirs must not lead out of the tile's memory.
void lower_Gather(Lowering& l, const ir::Op& op) {
  if (auto plan = plan_gather(op)) return gather_from_lanes(l, op, *plan);
  const ir::Type &from = op.operand(0)->type, &to = op.result()->type;
  const int axis = int(op.get(ir::attr::axis));
  l.store_in_order(op.operand(0), op);
  l.set(op.result(), l.map_registers(to, [&](int r) {
    llvm::Value* place = l.b.getInt32(0);
    for (int i = 0; i < to.rank(); ++i) {
      llvm::Value* at = i != axis ? l.coordinate(*to.layout, tile_dim(i), r)
                                  : at_most(l, index_of(l, op, r), uint64_t(extent_of(op) - 1));
      place = l.b.CreateAdd(l.b.CreateMul(place, l.i32(from.shape[size_t(i)])), at);
    }
    const int64_t bytes = std::max(1, from.bits() / 8);
    return l.load_shared(shared_element(l, op, place, bytes), l.element_type(to), 1, op.loc)[0];
  }));
}

void lower_Histogram(Lowering& l, const ir::Op& op) {
  const ir::Type &in = op.operand(0)->type, &out = op.result()->type;
  auto counter = [&](llvm::Value* index) { return shared_element(l, op, index, 4); };
  llvm::Value* owner = l.is_owner(out.layout.get());
  l.map_registers(out, [&](int r) {
    l.store_shared(counter(l.linear_index(out, r)), {l.i32(0)}, owner, op.loc);
    return l.i32(0);
  });
  l.barrier(op.loc);
  const Regs& values = l.get(op.operand(0));
  llvm::Value* counts = l.is_owner(in.layout.get());
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
