// Hardware functions that LLVM's NVPTX back end has an intrinsic for.
#pragma once

#include "codegen/lower/hw.h"

namespace llvm {
class Function;
}  // namespace llvm

namespace tegula {

/// Turns the calls of a hardware function into those of an intrinsic with the same PTX, and removes it. False if there
/// is none. The back end is several times faster with it than with a block of assembly, whose constraints it reads, and
/// whose operands are copied, at each call.
bool call_intrinsic(llvm::Function& f, const lower::HwInfo& row);

}  // namespace tegula
