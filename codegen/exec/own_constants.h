// Gives constants registers of their own in the back end.
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
llvm::FunctionPass* own_constants();

}  // namespace tegula
