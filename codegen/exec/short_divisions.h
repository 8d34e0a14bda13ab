// Divisions of 64 bits whose operands are short.
#pragma once

namespace llvm {
class FunctionPass;
}

namespace tegula {

/// A pass of the back end that gives divisions of 64 bits a branch for operands of 32 bits, whose division takes a
/// fraction of the time. LLVM has that in its pass `codegenprepare` alone, most of which is of no use for a GPU, and
/// which took up to 40 % of a compilation: it reads the constraints of all inline assembly.
llvm::FunctionPass* short_divisions();

}  // namespace tegula
