// Common subexpressions, for code that is mostly straight lines of tens of thousands of instructions.
#pragma once

namespace llvm {
class DominatorTree;
class Function;
}  // namespace llvm

namespace tegula {

/// Each computation without effects is done once where the first one dominates the others, none that constants make an
/// identity, and none whose result nobody uses. What reads memory is done once until something may write. LLVM's
/// EarlyCSE also looks at stores, branches, and all operands for identities, for several times the time. Returns
/// whether it changed anything.
bool share_values(llvm::Function& function, const llvm::DominatorTree& dominators);

}  // namespace tegula
