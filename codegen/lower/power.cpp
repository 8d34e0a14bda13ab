#include "codegen/lower/lowering.h"

namespace tegula::lower {

namespace {

// x to the power y where y is known and a product is as exact: up to 4 it is within 2 ulp, and what it does to numbers
// below the normal ones ends in 0 as x^y does. Else null.
llvm::Value* product_of(Builder& b, llvm::Value* x, llvm::Value* y) {
  const auto* real = llvm::dyn_cast<llvm::ConstantFP>(y);
  const auto* integer = llvm::dyn_cast<llvm::ConstantInt>(y);
  for (int n = 1; n <= 4; ++n) {
    if (!(real && real->isExactlyValue(n)) && !(integer && integer->equalsInt(n))) continue;
    if (n == 1) return x;
    const Builder::FastMathFlagGuard guard(b);
    b.clearFastMathFlags();  // a power is rounded before it is added to something
    llvm::Value* square = b.CreateFMul(x, x);
    return n == 2 ? square : b.CreateFMul(square, n == 3 ? x : square);
  }
  return nullptr;
}

}  // namespace

// libclc's fp64 pow is wrong where y log x overflows. From |y| = 2^64 on the result is 0, 1 or infinite, and the same
// for all y of one sign, since all of them are even.
llvm::Value* Lowering::pow(llvm::Value* x, llvm::Value* y) {
  if (llvm::Value* product = product_of(b, x, y)) return product;
  if (y->getType()->isIntegerTy()) return libclc("pown", {x, y}, x->getType());
  if (y->getType()->isFloatTy()) return libclc("pow", {x, y});
  llvm::Value* large = llvm::ConstantFP::get(y->getType(), 0x1p64);
  llvm::Value* beyond = b.CreateFCmpOGT(b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, y), large);
  llvm::Value* limit = b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, large, y);
  return libclc("pow", {x, b.CreateSelect(beyond, limit, y)});
}

}  // namespace tegula::lower
