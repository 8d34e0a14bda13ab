// One step for many pointers of a loop.
#pragma once

namespace llvm {
class Function;
}

namespace tegula {

/// Where a loop carries many sums, and many pointers that go on by the same distance, as those of a tile whose rows
/// have no known distance do, it carries one, and adds where each began. A phi each takes every pass of LLVM its time,
/// and registers. What does not change in a loop has to stand ahead of it. Returns whether it changed anything.
bool share_steps(llvm::Function& function);

}  // namespace tegula
