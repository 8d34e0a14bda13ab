// Logarithms of fp32 values without tables: lanes of a warp that look up different places of a table wait for each
// other.
#pragma once

#include "codegen/lower/lowering.h"

namespace tegula::lower {

/// "log", "log2", "log10" or "log1p" (log(1 + x)) of an fp32 value, within 1 ulp: NaN below the least argument, -inf at
/// it, denormal numbers count. Null for other names.
llvm::Value* logarithm(Lowering& l, std::string_view name, llvm::Value* x);

}  // namespace tegula::lower
