// Inline PTX in a module: calls of declared functions `tegula.asm.<name>`, whose attributes hold the text. As with the
// rows of hw.def one module serves both: for a GPU the function becomes inline assembly (exec/nvptx.cpp), on the
// emulator a call of the interpreter (exec/emulator/ptx.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llvm {
class Function;
class FunctionType;
class Module;
}  // namespace llvm

namespace tegula::lower {

struct AsmBlock {
  std::string text;         ///< operands as LLVM writes them: $0, $1, ... results first
  std::string constraints;  ///< LLVM's
  bool pure;                ///< no effect but its results
  int site;                 ///< index of its place among the kernel's sites; -1: none
};

/// The registers that constraints name, results first, by their letters; an argument tied to a result has its letter.
struct AsmRegisters {
  std::string results, arguments;
  std::vector<int> ties;  ///< of each argument: the result whose register it shares, or -1
};
AsmRegisters asm_registers(std::string_view constraints);

/// The PTX version (major * 10 + minor) that the text needs by asm_versions.def; 0 if it holds none of these
/// instructions.
int ptx_version_of_asm(const std::string& text);

inline constexpr std::string_view kAsmPrefix = "tegula.asm.";

/// The function of that name, made when it is not there yet. `type` gives the results (a struct of several) and
/// arguments.
llvm::Function* declare_asm(llvm::Module& module, std::string_view name, llvm::FunctionType* type,
                            const AsmBlock& block);
/// What such a function does; none for other functions.
std::optional<AsmBlock> asm_of_function(const llvm::Function& function);

}  // namespace tegula::lower
