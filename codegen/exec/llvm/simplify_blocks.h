// LLVM's pass simplifycfg for loops that carry many sums.
#pragma once

namespace llvm {
class Function;
class PreservedAnalyses;
template <typename, typename...>
class AnalysisManager;
}  // namespace llvm

namespace tegula {

/// Runs LLVM's simplifycfg with the zero operands of phis hidden. For each zero that a phi begins with, simplifycfg
/// walks from the phi to an instruction that uses it, to find out whether the zero marks unreachable code: for 128 sums
/// of a product that took a twelfth of the compilation.
llvm::PreservedAnalyses simplify_blocks(llvm::Function& function, llvm::AnalysisManager<llvm::Function>& analyses);

}  // namespace tegula
