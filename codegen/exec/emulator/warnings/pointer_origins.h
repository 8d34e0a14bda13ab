// That each access by an argument's pointer stays within that argument's array: one that falls into another argument's
// array is within bounds of memory, but not of its own.
#pragma once

#include "codegen/exec/emulator/code/jit.h"

namespace llvm {
class Module;
}

namespace tegula::emulator {

/// Calls emu_check_origin ahead of the accesses whose pointers are made of the kernel's arguments by steps alone.
/// Pointers that come from memory, or from integers, may lead anywhere; a kernel that takes addresses as integers may
/// go from one array to another by their difference, and is left alone.
void check_origins(llvm::Module& module, const KernelImage& image);

}  // namespace tegula::emulator
