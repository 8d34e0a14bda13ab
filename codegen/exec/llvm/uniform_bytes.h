// Conversions of float8 numbers that all threads of a warp share.
#pragma once

namespace llvm {
class Module;
}

namespace tegula {

/// Keeps out of ptxas's uniform registers and immediates what instructions convert from float8: constants are converted
/// here, and other values that threads may share come together with one that differs by the thread, as far as ptxas
/// knows. Of such an operand the instruction should convert the upper half, and converts something else (ptxas 13.0,
/// sm_90a: for the upper half of an immediate 0 it converts 4). Products of float8 by mma.sync, which sm_89 has, are
/// such conversions on sm_90a.
void convert_uniform_bytes(llvm::Module& module);

}  // namespace tegula
