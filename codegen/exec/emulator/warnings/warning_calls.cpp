#include "codegen/exec/emulator/warnings/warning_calls.h"

#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/Module.h>

#include "codegen/exec/emulator/code/link_bodies.h"
#include "codegen/exec/emulator/warnings/result_uses.h"
#include "codegen/lower/hw.h"

namespace tegula::emulator {

llvm::StringRef row_of(const llvm::Value& x) {
  const auto* call = llvm::dyn_cast<llvm::CallInst>(&x);
  const llvm::Function* callee = call ? call->getCalledFunction() : nullptr;
  if (!callee || !callee->getName().starts_with(lower::kHwPrefix)) return {};
  return callee->getName().drop_front(lower::kHwPrefix.size());
}

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

void WarningCalls::at_uses(llvm::IRBuilder<>& known, llvm::Instruction& i, llvm::Value* wrong,
                           const llvm::Value* bounded, FunctionRef<void(llvm::IRBuilder<>&, llvm::Value*)> tell) {
  for (const ResultUse& use : uses_of_result(i, bounded, order_of(*i.getFunction()))) {
    llvm::Instruction* at = use.from ? use.from->getTerminator() : use.at;
    llvm::IRBuilder<> b(at == &i ? &*known.GetInsertPoint() : at);
    llvm::Value *used = wrong, *none = llvm::Constant::getNullValue(wrong->getType());
    for (auto [condition, holds] : use.conditions)
      used = holds ? b.CreateSelect(condition, used, none) : b.CreateSelect(condition, none, used);
    if (use.from) {
      b.SetInsertPoint(use.by);
      llvm::PHINode* taken = b.CreatePHI(wrong->getType(), use.by->getNumIncomingValues());
      for (llvm::BasicBlock* from : use.by->blocks()) taken->addIncoming(from == use.from ? used : none, from);
      used = taken;
      b.SetInsertPoint(use.at);
    }
    tell(b, used);
  }
}

void WarningCalls::warn_of_result(llvm::IRBuilder<>& known, llvm::Instruction& i, llvm::Value* wrong, Warning what,
                                  const llvm::Value* bounded) {
  const auto place = place_of(i);
  if (!place) return;
  at_uses(known, i, wrong, bounded,
          [&](llvm::IRBuilder<>& b, llvm::Value* condition) { warn(b, condition, what, *place); });
}

const llvm::DominatorTree& WarningCalls::order_of(llvm::Function& f) {
  return orders_.try_emplace(&f, f).first->second;
}

}  // namespace tegula::emulator
