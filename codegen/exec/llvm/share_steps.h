// Strength reduction for loops that carry many pointers.
#pragma once

namespace llvm {
class Function;
}

namespace tegula {

/// In a loop that carries many sums, and many pointers that advance by the same distance (as those of a tile whose row
/// distance is unknown do), carries one pointer, to which each access adds where its own pointer began. Every phi costs
/// time in every pass of LLVM, and registers. Loop invariants must already stand ahead of the loop. Returns whether it
/// changed anything.
bool share_steps(llvm::Function& function);

}  // namespace tegula
