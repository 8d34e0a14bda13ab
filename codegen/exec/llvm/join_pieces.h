// Puts blocks that were cut for the selection of instructions together again in the back end.
#pragma once

#include "codegen/lower/llvm_headers.h"

namespace llvm {
class FunctionPass;
}

namespace tegula {

/// Cuts blocks of many instructions into pieces. The back end selects instructions block by block, in time that grows
/// faster than a block: for each one it searches all nodes that are ready, and its tables outgrow the caches.
void cut_huge_blocks(llvm::Function& function);
/// The same as a pass.
llvm::FunctionPass* cut_huge_blocks();
/// Whether blocks of the function are cut.
bool is_cut(const llvm::Function& function);

/// A pass over machine code, behind the selection of instructions, that makes one block of the pieces again. Passes
/// over live registers take time in proportion to blocks times registers, and with pieces of a quarter the length more
/// than the selection saves.
llvm::FunctionPass* join_pieces();

}  // namespace tegula
