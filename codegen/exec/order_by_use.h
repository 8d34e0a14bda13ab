// The order of instructions within a block, which the backends keep by and large.
#pragma once

namespace llvm {
class Function;
}

namespace tegula {

/// Brings each computation down to where it is first used. Tile ops are lowered one after the other, each for all of a
/// thread's elements; by use, a store's elements are computed right before it, so that fewer are alive at a time and
/// units of different kinds work side by side. Memory accesses and other effects keep their order, and
/// nothing crosses barriers and their like: but what follows from one wave of a product comes before the next one.
void order_by_use(llvm::Function& function);

/// Brings what one user alone takes behind the wait for earlier kernels down to it, with what only that follows from.
/// What several take stays ahead of the wait, where it costs no time; but each access's address or mask, computed
/// there, would hold a register until all accesses before are made.
void sink_behind_wait(llvm::Function& function);

}  // namespace tegula
