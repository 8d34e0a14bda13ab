// Common subexpressions, for code that is mostly straight lines of tens of thousands of instructions.
#pragma once

namespace llvm {
class DominatorTree;
class Function;
}  // namespace llvm

namespace tegula {

/// Each computation without effects is done once where the first one dominates the others, none that constants make an
/// identity, and none whose result nobody uses. LLVM's EarlyCSE also looks at memory, branches, and all operands for
/// identities, for several times the time; tile code has no memory of its own. Returns whether it changed anything.
bool share_values(llvm::Function& function, const llvm::DominatorTree& dominators);

}  // namespace tegula
