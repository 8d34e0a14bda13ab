// Conversions of float8 numbers that all threads of a warp share.
#pragma once

namespace llvm {
class Module;
}

namespace tegula {

/// Keeps out of ptxas's uniform registers what the hardware converts from float8e4nv: constants are converted here, and
/// other values that threads may share come through an instruction that has no uniform form. From a uniform register
/// `cvt.rn.f16x2.e4m3x2` gave wrong numbers for the upper half of a word (ptxas 13.0, sm_90a).
void convert_uniform_bytes(llvm::Module& module);

}  // namespace tegula
