// Functions of one fp32 element that libclc computes without the hardware's approximations, in several times as many
// instructions.
#pragma once

#include "codegen/lower/lowering.h"

namespace tegula::lower {

/// b^x, by the logarithm of b to base 2 (2.1 ulp).
llvm::Value* power_of(Lowering& l, double log2_b, llvm::Value* x);
/// Hyperbolic tangent (2 ulp).
llvm::Value* tanh_f32(Lowering& l, llvm::Value* x);
/// Error function (2 ulp).
llvm::Value* erf_f32(Lowering& l, llvm::Value* x);

}  // namespace tegula::lower
