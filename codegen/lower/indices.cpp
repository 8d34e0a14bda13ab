// Layouts as index arithmetic: which element a register of a thread holds, and which thread owns it.
#include "codegen/lower/lowering.h"

namespace tegula::lower {

llvm::Value* Lowering::thread_part(const LinearLayout& layout, Dim out) {
  auto& known = warps_.thread_parts[out];
  if (auto it = known.find(layout); it != known.end()) return it->second;
  llvm::Value *tid = thread(), *block = layout.in_bits(Dim::Block) ? block_of_cluster() : nullptr, *sum = nullptr;
  Builder::InsertPointGuard guard(b);
  b.SetInsertPoint(warps_.begin);
  // Bit i of an index contributes basis << ...: bits with the same distance move together.
  using Masks = std::map<int, uint32_t>;
  auto add_bits = [&](Masks& mask_by_shift, Dim dim, int first) {
    for (int bit = 0; bit < layout.in_bits(dim); ++bit) {
      const uint32_t basis = uint32_t(layout.basis(dim, bit, out));
      for (int to = 0; basis >> to; ++to)
        if (basis >> to & 1) mask_by_shift[to - first - bit] |= 1u << (first + bit);
    }
  };
  auto combine = [&](llvm::Value* index, const Masks& mask_by_shift) {
    for (auto [shift, mask] : mask_by_shift) {
      llvm::Value* part = b.CreateAnd(index, i32(mask));
      if (shift > 0) part = b.CreateShl(part, i32(shift), "", true, true);
      if (shift < 0) part = b.CreateLShr(part, i32(-shift));
      sum = sum ? b.CreateXor(sum, part) : part;
    }
  };
  Masks of_thread, of_block;
  add_bits(of_thread, Dim::Lane, 0);
  add_bits(of_thread, Dim::Warp, 5);
  add_bits(of_block, Dim::Block, 0);
  combine(tid, of_thread);
  combine(block, of_block);
  if (!sum) sum = i32(0);
  return known[layout] = sum;
}

llvm::Value* Lowering::element_address(llvm::Value* base, const LinearLayout& to_offset, int r, int bytes) {
  auto [of_thread, constant] = meet_register_part(thread_part(to_offset, Dim::Offset), to_offset, Dim::Offset,
                                                  to_offset.apply({{Dim::Register, r}})[0]);
  // The constant goes last, into the instruction's own offset.
  return b.CreateAdd(b.CreateAdd(base, b.CreateMul(of_thread, i32(bytes))), i32(int64_t(constant) * bytes));
}

std::pair<llvm::Value*, int32_t> Lowering::meet_register_part(llvm::Value* thread_part, const LinearLayout& layout,
                                                              Dim out, int32_t constant) {
  int32_t reachable = 0;
  for (Dim dim : {Dim::Lane, Dim::Warp, Dim::Block})
    for (int bit = 0; bit < layout.in_bits(dim); ++bit) reachable |= layout.basis(dim, bit, out);
  const int32_t meeting = constant & reachable;
  return {meeting ? b.CreateXor(thread_part, i32(meeting)) : thread_part, constant - meeting};
}

llvm::Value* Lowering::add_register_part(llvm::Value* thread_part, const LinearLayout& layout, Dim out,
                                         int32_t constant) {
  auto [sum, rest] = meet_register_part(thread_part, layout, out, constant);
  return rest ? b.CreateAdd(sum, i32(rest), "", true, true) : sum;
}

llvm::Value* Lowering::coordinate(const LinearLayout& layout, Dim out, int r) {
  size_t at = 0;
  while (layout.outs()[at].dim != out) ++at;
  return add_register_part(thread_part(layout, out), layout, out, layout.apply({{Dim::Register, r}})[at]);
}

llvm::Value* Lowering::linear_index(const ir::Type& type, int r) {
  llvm::Value* index = i32(0);
  for (int axis = 0; axis < type.rank(); ++axis)
    index = b.CreateAdd(b.CreateMul(index, i32(type.shape[axis])), coordinate(*type.layout, tile_dim(axis), r));
  return index;
}

uint32_t Lowering::bits_of_copies(const LinearLayout* layout) const {
  return tegula::bits_of_copies(layout, num_warps());
}

llvm::Value* Lowering::is_owner(const LinearLayout* layout) {
  const uint32_t copies = bits_of_copies(layout);
  if (!copies) return nullptr;
  return b.CreateICmpEQ(b.CreateAnd(thread(), i32(copies)), i32(0));
}

llvm::Value* Lowering::is_owner_in_cluster(const LinearLayout* layout) {
  llvm::Value* owner = is_owner(layout);
  const int32_t copies =
      layout && layout->in_bits(Dim::Block) ? layout->free_mask(Dim::Block) : int32_t(func.num_ctas() - 1);
  if (!copies) return owner;
  llvm::Value* first = b.CreateICmpEQ(b.CreateAnd(block_of_cluster(), i32(copies)), i32(0));
  return owner ? b.CreateAnd(owner, first) : first;
}

llvm::Value* Lowering::is_owner_of_access(const ir::Op& op, const LinearLayout* layout) {
  return ir::is_per_block(op) ? is_owner(layout) : is_owner_in_cluster(layout);
}

}  // namespace tegula::lower
