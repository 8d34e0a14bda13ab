#include "codegen/product/wgmma_descriptor.h"

#include <algorithm>

#include "codegen/ir/ir.h"
#include "runtime/base/check.h"

namespace tegula {

namespace {

// Operand 0 (M x K) or 1 (K x N) in a place laid out by shared_layout_for_dot_operand.
OperandInPlace operand_in(const ir::Type& place, int operand) {
  constexpr int kPatternRows = 8;  // of a swizzle pattern
  const LinearLayout& layout = *place.layout;
  const int k_axis = operand == 0 ? 1 : 0, other_axis = 1 - k_axis;
  const int bytes = place.bits() / 8;
  OperandInPlace out{};
  out.k_major = layout.in_bits(Dim::Offset) > 0 && layout.basis(Dim::Offset, 0, tile_dim(k_axis)) == 1;
  const int fast = out.k_major ? k_axis : other_axis, slow = 1 - fast;
  const int64_t row = std::min<int64_t>(block_of(place.shape[fast]) * bytes, 128);
  TEGULA_CHECK(row >= 32 && block_of(place.shape[slow]) >= kPatternRows, "no descriptor for {}", place.to_string());
  out.swizzle = int(row);
  out.stride_bytes = int(kPatternRows * row);
  out.to_offset = layout.invert();
  // Along M or N a pattern ends after eight rows, or after a row's bytes.
  const int64_t pattern = out.k_major ? kPatternRows : row / bytes, extent = place.shape[other_axis];
  auto distance = [&](int64_t at) {
    return int64_t(out.to_offset.apply({{tile_dim(other_axis), int32_t(at)}})[0]) * bytes;
  };
  const int64_t step = extent > pattern ? distance(pattern) : 0;
  out.leading_bytes = out.k_major ? 16 : int(step);
  if (out.k_major && step) out.stride_bytes = int(step);  // where a block of rows ends with the pattern: what K leaves
  out.pattern = out.together = int(pattern);
  while (out.together < extent && distance(out.together) == out.together / pattern * step) out.together += int(pattern);
  return out;
}

}  // namespace

WgmmaDescriptor::WgmmaDescriptor(lower::Lowering& l, const ir::Value* place, int operand)
    : l_(l), operand_(operand_in(place->type, operand)), bytes_(place->type.bits() / 8), base_(l.scalar(place)) {}

bool WgmmaDescriptor::can_part(int64_t columns, int64_t extent) const {
  const bool begins_patterns = columns % operand_.pattern == 0 || operand_.pattern % columns == 0;
  return columns <= operand_.together && (columns == extent || begins_patterns);
}

void WgmmaDescriptor::add_group_part(const LinearLayout& acc, int acc_axis) {
  for (int bit = 2; bit < acc.in_bits(Dim::Warp); ++bit) {
    int32_t coordinate = acc.basis(Dim::Warp, bit, tile_dim(acc_axis));
    if (!coordinate) continue;
    llvm::Value* one = l_.b.CreateAnd(l_.b.CreateLShr(l_.first_thread_of_warp(), uint64_t(5 + bit)), l_.i32(1));
    int64_t distance = acc_axis == 0 ? offset(coordinate, 0) : offset(0, coordinate);
    base_ = l_.b.CreateAdd(base_, l_.b.CreateMul(one, l_.i32(distance)));
  }
}

llvm::Value* WgmmaDescriptor::at(int64_t row, int64_t column) {
  if (!first_) {
    auto field = [](int64_t bytes, int shift) { return uint64_t(bytes >> 4 & 0x3fff) << shift; };
    const uint64_t mode = operand_.swizzle == 128 ? 1 : operand_.swizzle == 64 ? 2 : 3;
    llvm::Value* low = l_.b.CreateAdd(in_units(base_), l_.i32(int64_t(field(operand_.leading_bytes, 16))));
    const uint64_t high = field(operand_.stride_bytes, 32) | mode << 62;
    first_ = l_.b.CreateOr(l_.b.CreateZExt(low, l_.b.getInt64Ty()), l_.b.getInt64(high));
  }
  return l_.b.CreateAdd(first_, l_.b.getInt64(uint64_t(offset(row, column)) >> 4));
}

// An address of shared memory, below 2^18, in units of 16 bytes. What a slot's number adds to it is known to be some
// of these: so the number is a multiplication and an addition away from the descriptor.
llvm::Value* WgmmaDescriptor::in_units(llvm::Value* address) {
  if (auto* op = llvm::dyn_cast<llvm::BinaryOperator>(address)) {
    llvm::Value *x = op->getOperand(0), *y = op->getOperand(1);
    if (op->getOpcode() == llvm::Instruction::Add) return l_.b.CreateAdd(in_units(x), in_units(y));
    const auto* bytes = llvm::dyn_cast<llvm::ConstantInt>(y);
    if (op->getOpcode() == llvm::Instruction::Mul && bytes && bytes->getZExtValue() % 16 == 0)
      return l_.b.CreateMul(x, l_.i32(int64_t(bytes->getZExtValue() / 16)));
  }
  return l_.b.CreateAnd(l_.b.CreateLShr(address, 4), l_.i32(0x3fff));
}

int64_t WgmmaDescriptor::offset(int64_t row, int64_t column) const {
  return int64_t(operand_.to_offset.apply({{Dim::Dim0, int32_t(row)}, {Dim::Dim1, int32_t(column)}})[0]) * bytes_;
}

}  // namespace tegula
