#include "codegen/exec/widen_extremes.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

namespace tegula {

void widen_extremes(llvm::Module& module) {
  constexpr unsigned kWide = 32;
  for (llvm::Function& f : llvm::make_early_inc_range(module)) {
    if (!f.isIntrinsic() || !f.getReturnType()->isIntegerTy() || f.getReturnType()->getIntegerBitWidth() >= kWide)
      continue;
    for (llvm::User* user : llvm::make_early_inc_range(f.users())) {
      auto* extreme = llvm::dyn_cast<llvm::MinMaxIntrinsic>(user);
      if (!extreme) break;
      llvm::IRBuilder<> b(extreme);
      auto wide = [&](llvm::Value* x) { return b.CreateIntCast(x, b.getIntNTy(kWide), extreme->isSigned()); };
      llvm::Value* of_wide =
          b.CreateBinaryIntrinsic(extreme->getIntrinsicID(), wide(extreme->getLHS()), wide(extreme->getRHS()));
      extreme->replaceAllUsesWith(b.CreateTrunc(of_wide, extreme->getType()));
      extreme->eraseFromParent();
    }
  }
}

}  // namespace tegula
