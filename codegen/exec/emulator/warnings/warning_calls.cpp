#include "codegen/exec/emulator/warnings/warning_calls.h"

#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/Module.h>

#include "codegen/exec/emulator/code/link_bodies.h"
#include "codegen/exec/emulator/warnings/result_uses.h"

namespace tegula::emulator {

WarningCalls::WarningCalls(llvm::Module& module, JitKernel& kernel) : kernel_(kernel) {
  llvm::LLVMContext& context = module.getContext();
  llvm::Type* i32 = llvm::Type::getInt32Ty(context);
  warn_ = module.getOrInsertFunction(kWarnName,
                                     llvm::FunctionType::get(llvm::Type::getVoidTy(context), {i32, i32, i32}, false));
}

std::optional<uint32_t> WarningCalls::place_of(const llvm::Instruction& i) {
  const Loc loc = loc_of(i);
  if (!loc) return std::nullopt;
  const auto [known, is_new] = places_.try_emplace(i.getDebugLoc().get(), uint32_t(kernel_.places.size()));
  if (is_new) kernel_.places.push_back({"arithmetic", loc});
  return known->second;
}

void WarningCalls::warn(llvm::IRBuilder<>& b, llvm::Value* condition, Warning what, uint32_t place) {
  b.CreateCall(warn_, {b.CreateZExt(condition, b.getInt32Ty()), b.getInt32(uint32_t(what)), b.getInt32(place)});
}

void WarningCalls::warn_of_result(llvm::IRBuilder<>& known, llvm::Instruction& i, llvm::Value* wrong, Warning what,
                                  const llvm::Value* bounded) {
  const auto place = place_of(i);
  if (!place) return;
  for (const ResultUse& use : uses_of_result(i, bounded, order_of(*i.getFunction()))) {
    llvm::Instruction* at = use.from ? use.from->getTerminator() : use.at;
    llvm::IRBuilder<> b(at == &i ? &*known.GetInsertPoint() : at);
    llvm::Value* condition = wrong;
    for (auto [other, holds] : use.conditions) condition = b.CreateAnd(condition, holds ? other : b.CreateNot(other));
    if (use.from) {
      b.SetInsertPoint(use.by);
      llvm::PHINode* taken = b.CreatePHI(b.getInt1Ty(), use.by->getNumIncomingValues());
      for (llvm::BasicBlock* from : use.by->blocks())
        taken->addIncoming(from == use.from ? condition : b.getFalse(), from);
      condition = taken;
      b.SetInsertPoint(use.at);
    }
    warn(b, condition, what, *place);
  }
}

const llvm::DominatorTree& WarningCalls::order_of(llvm::Function& f) {
  return orders_.try_emplace(&f, f).first->second;
}

}  // namespace tegula::emulator
