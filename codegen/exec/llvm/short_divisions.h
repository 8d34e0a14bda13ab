// 64-bit divisions with short operands.
#pragma once

namespace llvm {
class FunctionPass;
}

namespace tegula {

/// A back-end pass that gives 64-bit divisions a branch for operands that fit 32 bits, whose division takes a fraction
/// of the time. LLVM has this only in `codegenprepare`, most of which is useless for a GPU and which took up to 40 % of
/// a compilation, since it parses the constraints of all inline assembly. Divisions by one number that follow one
/// another, those of a tile's elements, share a branch: the assembler's time grows with the branches. Where warpgroups
/// multiply, the other branch multiplies by a reciprocal: the assembler calls a function for a 64-bit division, and in
/// relocatable code, which the driver's linker takes, products beside the program are waited for one by one in all of a
/// function that calls another.
llvm::FunctionPass* short_divisions();

}  // namespace tegula
