#include "codegen/lower/combine.h"

#include <algorithm>
#include <bit>

namespace tegula::lower {

Combining::Key Combining::key_of_operand(int r) const {
  Key key = layout_.apply({{Dim::Register, r}});
  key.erase(key.begin() + axis_);
  return key;
}

Group Combining::combine(const Group& a, const Group& b) {
  const ir::Block& region = *op_.regions[0];
  for (size_t i = 0; i < a.size(); ++i) {
    l_.set_scalar(region.args[i].get(), a[i]);
    l_.set_scalar(region.args[a.size() + i].get(), b[i]);
  }
  for (auto& inner : region.ops)
    if (!inner->has(ir::Terminator)) l_.lower_op(*inner);
  Group out;
  for (const ir::Value* v : region.terminator()->operands) out.push_back(l_.scalar(v));
  return out;
}

Group Combining::choose(llvm::Value* condition, const Group& a, const Group& b) {
  if (!condition) return a;
  Group out;
  for (size_t i = 0; i < a.size(); ++i) out.push_back(l_.b.CreateSelect(condition, a[i], b[i]));
  return out;
}

Group Combining::operands_of_register(int r) const {
  Group out;
  for (const ir::Value* x : op_.operands) out.push_back(l_.get(x)[r]);
  return out;
}

llvm::Value* Combining::bits_of(llvm::Value* index, const std::vector<int>& bits) {
  llvm::Value* number = l_.i32(0);
  for (size_t i = 0; i < bits.size(); ++i) {
    llvm::Value* one = l_.b.CreateAnd(l_.b.CreateLShr(index, uint64_t(bits[i])), l_.i32(1));
    number = l_.b.CreateOr(number, l_.b.CreateShl(one, uint64_t(i)));
  }
  return number;
}

llvm::Value* Combining::is_thread(uint32_t mask, uint32_t bits) {
  if (!mask) return nullptr;
  return l_.b.CreateICmpEQ(l_.b.CreateAnd(l_.thread(), l_.i32(mask)), l_.i32(bits));
}

llvm::Value* Combining::element_index(const Key& key) {
  llvm::Value* index = l_.i32(0);
  size_t k = 0;
  for (int axis = 0; axis < in_.rank(); ++axis) {
    if (axis == axis_) continue;
    Dim dim = tile_dim(axis);
    llvm::Value* c = l_.add_register_part(l_.thread_part(layout_, dim), layout_, dim, key[k++]);
    index = l_.b.CreateAdd(l_.b.CreateMul(index, l_.i32(in_.shape[axis])), c);
  }
  return index;
}

std::vector<int64_t> Combining::areas(int64_t partials) const {
  std::vector<int64_t> out;
  int64_t area = l_.shared.offset.at(&op_);
  for (const ir::Value* x : op_.operands) {
    out.push_back(area);
    area += (in_.num_elements() / in_.shape[axis_] * partials * element_bytes(x) + 15) / 16 * 16;
  }
  return out;
}

llvm::Value* Combining::address(int64_t area, llvm::Value* index, int64_t bytes) {
  return l_.b.CreateAdd(l_.shared_address(area), l_.b.CreateMul(index, l_.i32(bytes)));
}

int Combining::partials_together(int partials) const {
  int width = partials;
  for (const ir::Value* x : op_.operands) width = int(std::min<int64_t>(width, 16 / element_bytes(x)));
  return width;
}

std::vector<int> Combining::own_bits(uint32_t idle) const {
  std::vector<int> own;
  for (int bit = 0; bit < 5 + std::countr_zero(unsigned(l_.num_warps())); ++bit)
    if (!(idle >> bit & 1) && !(bit >= 5 && moves_along_axis(Dim::Warp, bit - 5))) own.push_back(bit);
  return own;
}

size_t Combining::vector_width(size_t i, size_t elements) const {
  const ir::Value* x = op_.operand(int(i));
  int64_t width = x->type.bits() % 8 ? 1 : 16 / element_bytes(x);
  while (elements % size_t(width)) width /= 2;
  return size_t(width);
}

llvm::Value* Combining::place_of_vector(int64_t area, size_t i, size_t elements, size_t first, llvm::Value* row,
                                        const std::vector<int>& own) {
  const size_t width = vector_width(i, elements);
  llvm::Value* vector =
      l_.b.CreateAdd(l_.b.CreateMul(row, l_.i32(int64_t(elements / width))), l_.i32(int64_t(first / width)));
  llvm::Value* at = l_.b.CreateAdd(l_.b.CreateShl(vector, l_.i32(int64_t(own.size()))), bits_of_thread(own));
  return address(area, at, int64_t(width) * element_bytes(op_.operand(int(i))));
}

}  // namespace tegula::lower
