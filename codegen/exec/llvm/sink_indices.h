// Sinks index arithmetic in functions of several blocks.
#pragma once

namespace llvm {
class Function;
}

namespace tegula {

/// Sinks sums of an index and a constant, and extensions of integers, past branches into the blocks that use them, but
/// not into loops. The indices of a tile differ by constants: after the branches they follow from one register;
/// computed early, where the tile is loaded, each one occupies one or two registers for the duration of the branches.
void sink_indices(llvm::Function& function);

/// Duplicates extensions from 32 to 64 bits next to the multiplications that use them. Instruction selection works
/// block by block, and a product of two extensions is one instruction (mul.wide), any other 64-bit product three. The
/// number of a row times the row distance, in every loop over rows, is such a product.
void extend_beside_products(llvm::Function& function);

}  // namespace tegula
