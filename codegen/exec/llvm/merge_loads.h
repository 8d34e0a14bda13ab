// Merges loads of neighbouring addresses, as the iterations of an unrolled loop make them.
#pragma once

namespace llvm {
class Function;
}

namespace tegula {

/// Merges loads of a thread that are adjacent in memory, have the same predicate and no write between them into one
/// load of up to 16 bytes, if its address is known to be a multiple of its size. Before loops are unrolled, tiles that
/// are loaded one after the other, such as the columns of a few weights, cannot be merged.
void merge_loads(llvm::Function& function);

}  // namespace tegula
