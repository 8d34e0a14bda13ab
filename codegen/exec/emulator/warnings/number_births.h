// Where NaNs and infinities are born: told of in warnings, where that is asked for.
#pragma once

#include "codegen/exec/emulator/code/jit.h"
#include "codegen/exec/emulator/warnings/taints.h"

namespace llvm {
class Module;
}

namespace tegula::emulator {

/// Has the code call emu_warn, where the result is used (taints.h), of each operation of the source whose result
/// is a NaN, of operands that are none, or an infinity, of operands that are finite. An operation is what has one place
/// in the source: of a function of many instructions what it gives counts, not how it comes there. Choices between
/// numbers that are there already (tl.where) give birth to nothing. Products of matrices are not looked at here
/// (matrix_product.h). Called before the hardware functions get their bodies.
void check_births(llvm::Module& module, JitKernel& kernel, Taints& taints, Births births);

}  // namespace tegula::emulator
