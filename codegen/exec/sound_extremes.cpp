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

void widen(llvm::MinMaxIntrinsic& extreme) {
  llvm::IRBuilder<> b(&extreme);
  auto wide = [&](llvm::Value* x) { return b.CreateIntCast(x, b.getIntNTy(kWide), extreme.isSigned()); };
  llvm::Value* of_wide =
      b.CreateBinaryIntrinsic(extreme.getIntrinsicID(), wide(extreme.getLHS()), wide(extreme.getRHS()));
  extreme.replaceAllUsesWith(b.CreateTrunc(of_wide, extreme.getType()));
  extreme.eraseFromParent();
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
      if (!extreme) break;
      type->getBitWidth() < kWide ? widen(*extreme) : copy_negated(*extreme);
    }
  }
}

}  // namespace tegula
