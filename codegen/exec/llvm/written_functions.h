// Functions of a module whose calls are written out in PTX: the back end compiles the body once, and each call becomes
// that text in braces. A tile calls a function like erf a hundred times, and the back end takes as long for a call's
// instructions as for any others; the assembler sees the same code.
#pragma once

#include <cstddef>
#include <string>

namespace llvm {
class Function;
class Module;
}  // namespace llvm

namespace tegula {

/// Marks the function if its calls can be and are worth being written out: it takes and gives numbers of 32 and 64
/// bits, has no effects, calls nothing but hardware functions and is called several times. Before insert_ptx.
bool write_out_calls_of(llvm::Function& function);

/// The module's instructions, calls of marked functions counted as their bodies. Before insert_ptx.
size_t instructions_when_written(const llvm::Module& module);

/// Turns calls of marked functions into lines of assembly that name them; after insert_ptx.
void name_written_functions(llvm::Module& module);

/// PTX of such a module, with the functions' bodies in place of these lines.
std::string with_written_functions(std::string ptx);

}  // namespace tegula
