#include "codegen/exec/sound_extremes.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PatternMatch.h>

#include "codegen/lower/hw.h"

namespace tegula {

namespace {

constexpr unsigned kWide = 32;

llvm::Value* wide(llvm::IRBuilder<>& b, llvm::Value* x, bool is_signed) {
  return b.CreateIntCast(x, b.getIntNTy(kWide), is_signed);
}

void widen(llvm::MinMaxIntrinsic& extreme) {
  llvm::IRBuilder<> b(&extreme);
  llvm::Value* of_wide =
      b.CreateBinaryIntrinsic(extreme.getIntrinsicID(), wide(b, extreme.getLHS(), extreme.isSigned()),
                              wide(b, extreme.getRHS(), extreme.isSigned()));
  extreme.replaceAllUsesWith(b.CreateTrunc(of_wide, extreme.getType()));
  extreme.eraseFromParent();
}

void widen(llvm::SaturatingInst& sum) {
  llvm::IRBuilder<> b(&sum);
  const bool is_signed = sum.isSigned();
  const unsigned bits = sum.getType()->getIntegerBitWidth();
  const auto limit = [&](const llvm::APInt& n) { return b.getInt(is_signed ? n.sext(kWide) : n.zext(kWide)); };
  const auto most = is_signed ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits);
  const auto least = is_signed ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getMinValue(bits);
  llvm::Value* of_wide =
      b.CreateBinOp(sum.getBinaryOp(), wide(b, sum.getLHS(), is_signed), wide(b, sum.getRHS(), is_signed));
  of_wide = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, of_wide, limit(most));
  of_wide = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, of_wide, limit(least));
  sum.replaceAllUsesWith(b.CreateTrunc(of_wide, sum.getType()));
  sum.eraseFromParent();
}

void copy_negated(llvm::MinMaxIntrinsic& extreme) {
  llvm::IRBuilder<> b(&extreme);
  for (llvm::Use& operand : extreme.args())
    if (llvm::PatternMatch::match(operand.get(), llvm::PatternMatch::m_Neg(llvm::PatternMatch::m_Value())))
      operand.set(b.CreateCall(lower::declare_hw(*extreme.getModule(), *lower::find_hw("copied_b32")), {operand}));
}

}  // namespace

void make_extremes_sound(llvm::Module& module) {
  for (llvm::Function& f : llvm::make_early_inc_range(module)) {
    const auto* type = llvm::dyn_cast<llvm::IntegerType>(f.getReturnType());
    if (!f.isIntrinsic() || !type || type->getBitWidth() > kWide) continue;
    for (llvm::User* user : llvm::make_early_inc_range(f.users())) {
      auto* extreme = llvm::dyn_cast<llvm::MinMaxIntrinsic>(user);
      auto* saturating = llvm::dyn_cast<llvm::SaturatingInst>(user);
      const bool is_wide = type->getBitWidth() == kWide;
      if (extreme) is_wide ? copy_negated(*extreme) : widen(*extreme);
      if (saturating && !is_wide) widen(*saturating);
    }
  }
}

}  // namespace tegula
