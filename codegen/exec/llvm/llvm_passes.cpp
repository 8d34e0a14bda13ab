#include "codegen/exec/llvm/llvm_passes.h"

#include <llvm/Analysis/AliasAnalysis.h>
#include <llvm/Analysis/AssumptionCache.h>
#include <llvm/Analysis/BasicAliasAnalysis.h>
#include <llvm/Analysis/BlockFrequencyInfo.h>
#include <llvm/Analysis/BranchProbabilityInfo.h>
#include <llvm/Analysis/LastRunTrackingAnalysis.h>
#include <llvm/Analysis/LazyValueInfo.h>
#include <llvm/Analysis/LoopAnalysisManager.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/MemorySSA.h>
#include <llvm/Analysis/OptimizationRemarkEmitter.h>
#include <llvm/Analysis/PostDominators.h>
#include <llvm/Analysis/ProfileSummaryInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Analysis/ScopedNoAliasAA.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/Analysis/TypeBasedAliasAnalysis.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PassInstrumentation.h>
#include <llvm/Support/NVPTXAddrSpace.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SimpleLoopUnswitch.h>

namespace tegula {

namespace {

constexpr unsigned kGeneric = llvm::NVPTXAS::ADDRESS_SPACE_GENERIC;

/// The memory that a pointer of a GPU's code leads to, looked for through what the pointer is computed from.
unsigned space_of(const llvm::Value* pointer) {
  constexpr int kSteps = 6;
  for (int i = 0; i < kSteps; ++i) {
    const auto* type = llvm::dyn_cast<llvm::PointerType>(pointer->getType());
    if (!type) break;
    if (type->getAddressSpace() != kGeneric) return type->getAddressSpace();
    const llvm::Value* from = llvm::getUnderlyingObject(pointer, 1);
    if (from == pointer) break;
    pointer = from;
  }
  return kGeneric;
}

/// What the spaces of a GPU's memory say: they do not overlap, and no kernel writes its constants and parameters.
struct SpacesResult : llvm::AAResultBase {
  SpacesResult() = default;
  llvm::AliasResult alias(const llvm::MemoryLocation& a, const llvm::MemoryLocation& b, llvm::AAQueryInfo&,
                          const llvm::Instruction*) {
    const unsigned in_a = space_of(a.Ptr), in_b = space_of(b.Ptr);
    return in_a != kGeneric && in_b != kGeneric && in_a != in_b ? llvm::AliasResult::NoAlias
                                                                : llvm::AliasResult::MayAlias;
  }
  llvm::ModRefInfo getModRefInfoMask(const llvm::MemoryLocation& at, llvm::AAQueryInfo&, bool /*ignore_locals*/) {
    const unsigned space = space_of(at.Ptr);
    const bool read_only = space == llvm::NVPTXAS::ADDRESS_SPACE_CONST || space == llvm::NVPTXAS::ADDRESS_SPACE_PARAM;
    return read_only ? llvm::ModRefInfo::NoModRef : llvm::ModRefInfo::ModRef;
  }
  bool invalidate(llvm::Function&, const llvm::PreservedAnalyses&, llvm::FunctionAnalysisManager::Invalidator&) {
    return false;
  }
};

struct Spaces : llvm::AnalysisInfoMixin<Spaces> {
  using Result = SpacesResult;
  static llvm::AnalysisKey Key;
  SpacesResult run(llvm::Function&, llvm::FunctionAnalysisManager&) { return SpacesResult(); }
};

llvm::AnalysisKey Spaces::Key;

llvm::AAManager aliases(const llvm::Triple& target) {
  llvm::AAManager found;
  if (target.isNVPTX()) found.registerFunctionAnalysis<Spaces>();
  found.registerFunctionAnalysis<llvm::BasicAA>();
  found.registerFunctionAnalysis<llvm::ScopedNoAliasAA>();
  found.registerFunctionAnalysis<llvm::TypeBasedAA>();
  return found;
}

template <class... Analyses, class Manager>
void register_all(Manager& manager) {
  (manager.registerPass([] { return Analyses(); }), ...);
}

}  // namespace

void run_llvm_passes(llvm::Module& module, llvm::TargetMachine* machine, llvm::ModulePassManager passes) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::ModuleAnalysisManager modules;

  register_all<llvm::PassInstrumentationAnalysis, llvm::ShouldRunExtraSimpleLoopUnswitch>(loops);
  loops.registerPass([&] { return llvm::FunctionAnalysisManagerLoopProxy(functions); });

  register_all<llvm::PassInstrumentationAnalysis, Spaces, llvm::BasicAA, llvm::ScopedNoAliasAA, llvm::TypeBasedAA,
               llvm::AssumptionAnalysis, llvm::BlockFrequencyAnalysis, llvm::BranchProbabilityAnalysis,
               llvm::DominatorTreeAnalysis, llvm::LastRunTrackingAnalysis, llvm::LazyValueAnalysis, llvm::LoopAnalysis,
               llvm::MemorySSAAnalysis, llvm::OptimizationRemarkEmitterAnalysis, llvm::PostDominatorTreeAnalysis,
               llvm::ScalarEvolutionAnalysis, llvm::TargetLibraryAnalysis>(functions);
  functions.registerPass([&] { return aliases(module.getTargetTriple()); });
  functions.registerPass([&] { return machine ? machine->getTargetIRAnalysis() : llvm::TargetIRAnalysis(); });
  functions.registerPass([&] { return llvm::LoopAnalysisManagerFunctionProxy(loops); });
  functions.registerPass([&] { return llvm::ModuleAnalysisManagerFunctionProxy(modules); });

  register_all<llvm::PassInstrumentationAnalysis, llvm::ProfileSummaryAnalysis>(modules);
  modules.registerPass([&] { return llvm::FunctionAnalysisManagerModuleProxy(functions); });

  passes.run(module, modules);
}

}  // namespace tegula
