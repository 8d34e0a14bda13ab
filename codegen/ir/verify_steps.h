// Whether the steps of a compilation are checked.
#pragma once

namespace tegula::ir {

/// Whether what a step makes, in tile IR or in LLVM's, is verified behind each of them: a tenth of the time of a small
/// kernel. Where it is not, tile IR still is, ahead of the first pass and behind the last one.
#ifdef NDEBUG
constexpr bool kVerifyEachStep = false;
#else
constexpr bool kVerifyEachStep = true;
#endif

}  // namespace tegula::ir
