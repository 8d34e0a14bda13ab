// Special functions that libclc lacks, of fp64 values: piecewise polynomials (special_functions.inc) and recurrences.
// Callers hand on what they compute in fp32 by way of fp64.
#pragma once

#include "codegen/lower/lowering.h"

namespace tegula::lower {

using SpecialFunction = llvm::Value* (*)(Lowering& l, llvm::ArrayRef<llvm::Value*> x);

/// The body of that name ("j0", "erfcx", ...); null if there is none. x: fp64, but i32 before it for jn and yn.
SpecialFunction find_special(std::string_view name);

}  // namespace tegula::lower
