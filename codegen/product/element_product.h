// Products of single elements, as the threads compute them where no instruction multiplies whole tiles.
#pragma once

#include <map>

#include "codegen/analysis/register_pressure.h"
#include "codegen/lower/lowering.h"
#include "codegen/product/plan.h"

namespace tegula::lower {

/// sum + a x b of elements of a dot. fp16 sums are kept in fp32 until the end; integers wrap; the rest is one fma.
class ElementProduct {
 public:
  ElementProduct(Lowering& l, const ir::Op& dot)
      : l_(l), result_(l.element_type(dot.result()->type)), signed_(is_signed(dot.operand(0)->type.elem)) {
    sum_ = result_->isHalfTy() ? l.b.getFloatTy() : result_;
  }

  llvm::Type* sum_type() const { return sum_; }
  /// An element of an operand or of the initial sums, converted to the type of the sums; converted once for each value.
  llvm::Value* widen(llvm::Value* x) {
    llvm::Value*& wide = widened_[x];
    if (!wide) wide = sum_->isIntegerTy() ? l_.b.CreateIntCast(x, sum_, signed_) : l_.b.CreateFPCast(x, sum_);
    return wide;
  }
  llvm::Value* add(llvm::Value* sum, llvm::Value* a, llvm::Value* b) {
    llvm::Value *left = widen(a), *right = widen(b);
    return sum_->isIntegerTy() ? l_.b.CreateAdd(l_.b.CreateMul(left, right), sum)
                               : l_.b.CreateIntrinsic(llvm::Intrinsic::fma, {sum_}, {left, right, sum});
  }
  llvm::Value* finish(llvm::Value* sum) { return sum_->isIntegerTy() ? sum : l_.b.CreateFPCast(sum, result_); }

 private:
  Lowering& l_;
  llvm::Type *result_, *sum_;
  const bool signed_;
  std::map<llvm::Value*, llvm::Value*> widened_;
};

/// The cost of a laid-out dot that is multiplied element by element.
inline ProductCost cost_by_elements(const ir::Op& dot) {
  const ir::Type& sums = dot.result()->type;
  const double k = double(dot.operand(0)->type.shape.back());
  return {.flops = flops_of(dot), .fmas = double(held_elements(sums)) * k * (sums.bits() == 64 ? 2 : 1)};
}

}  // namespace tegula::lower
