#include "codegen/exec/emulator/code/bytecode_values.h"

namespace tegula::emulator::bytecode {

unsigned odd_bits(const llvm::Type* type) {
  const unsigned bits = type->isIntegerTy() ? type->getIntegerBitWidth() : 0;
  return bits < 64 && bits > 1 && bits != 8 && bits != 16 && bits != 32 ? bits : 0;
}

Kind kind_of(const llvm::Type* type) {
  if (const unsigned bits = odd_bits(type))
    return bits < 8 ? Kind::I8 : bits < 16 ? Kind::I16 : bits < 32 ? Kind::I32 : Kind::I64;
  if (type->isPointerTy()) return Kind::I64;
  if (type->isHalfTy()) return Kind::F16;
  if (type->isBFloatTy()) return Kind::BF16;
  if (type->isFloatTy()) return Kind::F32;
  if (type->isDoubleTy()) return Kind::F64;
  if (type->isIntegerTy(1)) return Kind::I1;
  if (type->isIntegerTy(8)) return Kind::I8;
  if (type->isIntegerTy(16)) return Kind::I16;
  if (type->isIntegerTy(32)) return Kind::I32;
  if (type->isIntegerTy(64)) return Kind::I64;
  throw Missing();
}

Shape shape_of(const llvm::Type* type) {
  if (const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type); vector && odd_bits(vector->getElementType()))
    throw Missing();
  if (const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type))
    return {kind_of(vector->getElementType()), vector->getNumElements(), true};
  return {kind_of(type), 1, false};
}

uint32_t bytes_of_type(const llvm::Type* type, const llvm::DataLayout& layout) {
  if (!type->isStructTy() && !type->isArrayTy()) return shape_of(type).bytes();
  return uint32_t(layout.getTypeAllocSize(const_cast<llvm::Type*>(type)));
}

int32_t fits_32(int64_t number) {
  if (number != int64_t(int32_t(number))) throw Missing();
  return int32_t(number);
}

}  // namespace tegula::emulator::bytecode
