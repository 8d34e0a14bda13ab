#include "codegen/exec/llvm/sound_integers.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
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

llvm::Value* copied(llvm::IRBuilder<>& b, llvm::Value* x) {
  llvm::Module& module = *b.GetInsertBlock()->getModule();
  return b.CreateCall(lower::declare_hw(module, *lower::find_hw("copied_b32")), {x});
}

bool is_negated(llvm::Value* x) {
  return llvm::PatternMatch::match(x, llvm::PatternMatch::m_Neg(llvm::PatternMatch::m_Value()));
}

void copy_negated(llvm::MinMaxIntrinsic& extreme) {
  llvm::IRBuilder<> b(&extreme);
  for (llvm::Use& operand : extreme.args())
    if (is_negated(operand)) operand.set(copied(b, operand));
}

// A minus or an absolute value of 16 bits. The back end would narrow what is not copied.
void widen_sign(llvm::Instruction& i) {
  llvm::IRBuilder<> b(&i);
  llvm::Value* of_wide = nullptr;
  if (is_negated(&i))
    of_wide = b.CreateNeg(wide(b, i.getOperand(1), true));
  else
    of_wide = b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, wide(b, i.getOperand(0), true), b.getFalse());
  i.replaceAllUsesWith(b.CreateTrunc(copied(b, of_wide), i.getType()));
  i.eraseFromParent();
}

void widen_signs(llvm::Function& f) {
  for (llvm::Instruction& i : llvm::make_early_inc_range(llvm::instructions(f))) {
    if (!i.getType()->isIntegerTy(16)) continue;
    const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
    if (is_negated(&i) || (call && call->getIntrinsicID() == llvm::Intrinsic::abs)) widen_sign(i);
  }
}

}  // namespace

void make_integers_sound(llvm::Module& module) {
  for (llvm::Function& f : module) widen_signs(f);
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
