// Arithmetic that is defined, and hardly ever meant: told of in warnings, where checks are asked for.
#pragma once

#include "codegen/exec/emulator/code/jit.h"
#include "codegen/exec/emulator/warnings/taints.h"

namespace llvm {
class Module;
}

namespace tegula::emulator {

/// Has the code call emu_warn with the place, noted in `kernel`, of
/// - accesses whose addresses follow from sums and products of int32 that do not fit (masked ones are none), also
/// behind quotients, remainders, shifts to the right, bounds and choices,
/// - integer divisions by 0, shifts by the width of the type or more, and indices of elements that are looked up beyond
/// their axis, where the results are used (taints.h).
/// Called before the hardware functions get their bodies.
void check_arithmetic(llvm::Module& module, JitKernel& kernel, Taints& taints);

}  // namespace tegula::emulator
