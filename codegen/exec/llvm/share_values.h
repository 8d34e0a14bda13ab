// Common subexpressions, for code that is mostly straight lines of tens of thousands of instructions.
#pragma once

namespace llvm {
class DominatorTree;
class Function;
class FunctionPass;
}  // namespace llvm

namespace tegula {

/// Each computation without effects is done once where the first one dominates the others, none that constants make an
/// identity, and none whose result nobody uses. What reads memory is done once until something may write. LLVM's
/// EarlyCSE also looks at stores, branches, and all operands for identities, for several times the time. Returns
/// whether it changed anything.
bool share_values(llvm::Function& function, const llvm::DominatorTree& dominators);

/// A pass of the back end that does so in functions whose huge blocks are cut, since instructions are selected piece by
/// piece: of a computation that several pieces repeat the machine's pass walks from one to the next.
llvm::FunctionPass* share_values_of_pieces();

}  // namespace tegula
