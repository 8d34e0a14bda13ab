// Whether the intermediate results of a compilation are verified.
#pragma once

namespace tegula::ir {

/// Whether tile IR and LLVM IR are verified after each step, which takes a tenth of the time of a small kernel. Without
/// it tile IR is still verified before the first pass and after the last one.
#ifdef NDEBUG
constexpr bool kVerifyEachStep = false;
#else
constexpr bool kVerifyEachStep = true;
#endif

}  // namespace tegula::ir
