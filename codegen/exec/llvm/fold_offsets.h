// Constant parts of addresses.
#pragma once

namespace llvm {
class Function;
}

namespace tegula {

/// Puts constants that are added to addresses into the instructions that access memory, `[base+16]`, where the sum has
/// no other use. Each sum would be selected, allocated and printed like any instruction, and the assembler puts it
/// there anyway.
void fold_offsets(llvm::Function& function);

}  // namespace tegula
