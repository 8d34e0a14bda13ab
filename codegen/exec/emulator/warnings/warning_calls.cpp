#include "codegen/exec/emulator/warnings/warning_calls.h"

#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/Module.h>

#include "codegen/exec/emulator/code/link_bodies.h"
#include "codegen/exec/emulator/warnings/taints.h"
#include "codegen/lower/hw.h"

namespace tegula::emulator {

llvm::StringRef row_of(const llvm::Value& x) {
  const auto* call = llvm::dyn_cast<llvm::CallInst>(&x);
  const llvm::Function* callee = call ? call->getCalledFunction() : nullptr;
  if (!callee || !callee->getName().starts_with(lower::kHwPrefix)) return {};
  return callee->getName().drop_front(lower::kHwPrefix.size());
}

WarningCalls::WarningCalls(llvm::Module& module, JitKernel& kernel, Taints& taints) : kernel_(kernel), taints_(taints) {
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

void WarningCalls::warn_of_result(llvm::IRBuilder<>& b, llvm::Instruction& i, llvm::Value* wrong, Warning what) {
  if (const auto place = place_of(i))
    taints_.add(i, b.CreateSelect(wrong, b.getInt32(taint_of(what, *place)), b.getInt32(0)));
}

const llvm::DominatorTree& WarningCalls::order_of(llvm::Function& f) {
  return orders_.try_emplace(&f, f).first->second;
}

}  // namespace tegula::emulator
