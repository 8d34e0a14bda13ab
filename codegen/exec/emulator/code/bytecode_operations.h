// Which operations of LLVM are which of bytecode.
#pragma once

#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Intrinsics.h>

#include <optional>

#include "codegen/exec/emulator/code/bytecode_values.h"
#include "codegen/exec/emulator/interpreter/elementwise.h"

namespace tegula::emulator::bytecode {

/// Of a binary or unary operator of LLVM.
std::optional<Arithmetic> arithmetic_of(unsigned opcode);
std::optional<Arithmetic> arithmetic_of_intrinsic(llvm::Intrinsic::ID id);
/// Of a comparison, but for those that are others with the operands exchanged.
std::optional<Arithmetic> arithmetic_of_comparison(llvm::CmpInst::Predicate predicate);

/// The instruction that computes a single number, where the operation has one of its own.
std::optional<Code> short_form(Arithmetic operation, Shape shape);
/// Whether the operation gives the same for the zeros that stand before an integer of an odd type, but for bits beyond.
bool takes_odd(Arithmetic operation);

}  // namespace tegula::emulator::bytecode
