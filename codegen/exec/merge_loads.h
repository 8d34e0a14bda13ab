// Loads of neighbours, as the steps of an unrolled loop make them.
#pragma once

namespace llvm {
class Function;
}

namespace tegula {

/// Makes one load of several of a thread that lie side by side in memory, under one predicate, with nothing written in
/// between: up to 16 bytes, where their address is known to be a multiple of their size. Tiles that are loaded one
/// after the other, as the columns of a few weights, are apart before loops are unrolled.
void merge_loads(llvm::Function& function);

}  // namespace tegula
