// Reads of memory that nobody has written, which are told where what was read matters.
#pragma once

#include "codegen/exec/emulator/code/jit.h"

namespace llvm {
class Module;
}

namespace tegula::emulator {

/// Has the code ask behind each load from global memory which of its words nobody has written (emu_unwritten_read), and
/// call emu_unwritten_used wherever one of them is used (result_uses.h): what a tl.where drops is none. Called before
/// the hardware functions get their bodies.
void check_unwritten_reads(llvm::Module& module, JitKernel& kernel);

}  // namespace tegula::emulator
