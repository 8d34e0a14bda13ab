// Runs kernels from bytecode. Each thread of the GPU is a fiber here as it is with machine code.
#pragma once

#include "codegen/exec/emulator/interpreter/bytecode.h"

namespace tegula::emulator::bytecode {

/// Runs one thread; `args` as LoadedKernel::launch takes them. The frames lie on the stack of the caller.
void run(const Module& module, void* const* args);

}  // namespace tegula::emulator::bytecode
