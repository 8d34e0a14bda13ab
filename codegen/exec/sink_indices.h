// Where index arithmetic stands in functions of several blocks.
#pragma once

namespace llvm {
class Function;
}

namespace tegula {

/// Brings sums of an index and a constant, and extensions, down over branches to the blocks that use them. A tile's
/// indices differ by constants: behind the branches they follow from one register, while computed ahead (where the tile
/// is loaded) each is held in a register of its own, or in two, for whatever the branches compute. Into loops nothing
/// is brought.
void sink_indices(llvm::Function& function);

/// Repeats beside products of 64 bits the extensions from 32 bits that they multiply: instructions are selected block
/// by block, and a product of two extensions is one of them (mul.wide), others are three. A row's number times the
/// distance of rows is such one in every loop over rows.
void extend_beside_products(llvm::Function& function);

}  // namespace tegula
