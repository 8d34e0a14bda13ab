// LLVM's pass simplifycfg for loops that carry many sums.
#pragma once

namespace llvm {
class Function;
class PreservedAnalyses;
template <typename, typename...>
class AnalysisManager;
}  // namespace llvm

namespace tegula {

/// LLVM's simplifycfg asks of each zero that a phi begins with whether it stands for code that is never reached, for
/// which it walks from the phi to an instruction that uses it: of 128 sums of a product, a twelfth of the compilation.
/// Here it meets another value than zero there.
llvm::PreservedAnalyses simplify_blocks(llvm::Function& function, llvm::AnalysisManager<llvm::Function>& analyses);

}  // namespace tegula
