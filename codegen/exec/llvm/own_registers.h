// Gives constants, and what loops begin with, registers of their own in the back end.
#pragma once

namespace llvm {
class FunctionPass;
}

namespace tegula {

/// A pass over machine code, ahead of the coalescer, that gives each copy of a constant, as the sums of a product begin
/// with zero, an instruction of its own. Registers that are copies of one the coalescer compares with each other, which
/// for 128 sums took a twentieth of the compilation. What a masked load leaves where it loads nothing stays a copy if a
/// loop carries what is loaded: so the coalescer makes one register of both. Moves at the loop's end in its place let
/// the assembler compute with the values before it starts the products that it should compute beside.
///
/// What a loop begins with and sums take too is moved to the register that the loop writes. The coalescer
/// would make one of both; ptxas 13.0 then took what the loop had written for what it began with, in an address behind
/// the loop whose other summand was computed ahead of it.
llvm::FunctionPass* own_registers();

}  // namespace tegula
