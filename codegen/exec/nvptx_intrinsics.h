// Hardware functions for which LLVM's NVPTX back end has an intrinsic.
#pragma once

#include "codegen/lower/hw.h"

namespace llvm {
class Function;
}  // namespace llvm

namespace tegula {

/// Replaces the calls of a hardware function with calls of an intrinsic that has the same PTX, and removes the
/// function. False if there is no such intrinsic. The back end compiles an intrinsic several times faster than a block
/// of assembly, whose constraints it parses and whose operands it copies at each call.
bool call_intrinsic(llvm::Function& f, const lower::HwInfo& row);

}  // namespace tegula
