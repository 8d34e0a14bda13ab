// Reorders the instructions of a block; the back ends largely keep this order.
#pragma once

namespace llvm {
class Function;
}

namespace tegula {

/// Moves each computation down to its first use. Tile ops are lowered one after the other, each for all elements of a
/// thread; in the order of use, each element of a store is computed right before it is stored, so that fewer values are
/// live and different units work at the same time. Memory accesses and other effects keep their order, and nothing
/// moves across barriers and the like; what depends on one wave of a product stays before the next wave.
void order_by_use(llvm::Function& function);

/// Moves computations with a single user after the wait for earlier kernels down to that user, together with what only
/// they depend on. Computations with several users stay ahead of the wait, where they cost no time. The address or mask
/// of an access, if computed there, would occupy a register until all earlier accesses have been made.
void sink_behind_wait(llvm::Function& function);

}  // namespace tegula
