// Operands shared by very many blocks of inline assembly.
#pragma once

namespace llvm {
class Function;
}

namespace tegula {

/// Gives a value that is an operand of very many blocks of inline assembly (the mask of a thousand loads) several
/// names, each for a few dozen of them. The back end copies an operand to a register of its own for each block, and
/// passes over the machine code walk all uses of the value for each copy: 12,000 loads with one address took 10 s. The
/// names are moves, which the assembler drops. Functions where no value is used so often stay as they are.
void bound_shared_operands(llvm::Function& function);

}  // namespace tegula
