// Helpers for families of instructions to write the rows of their hardware functions.
#pragma once

#include <fmt/format.h>

#include <string>

#include "codegen/lower/hw.h"
#include "codegen/product/instruction.h"

namespace tegula::lower {

/// "$first, ..., $(first + count - 1)"
inline std::string operand_list(int first, int count) {
  std::string list;
  for (int i = 0; i < count; ++i) list += fmt::format("{}${}", i ? ", " : "", first + i);
  return list;
}

/// The constraint for each of `count` operands, each followed by a comma.
inline std::string repeated(const std::string& constraint, int count) {
  std::string list;
  for (int i = 0; i < count; ++i) list += constraint + ",";
  return list;
}

/// Inputs tied to the first `count` results.
inline std::string ties(int count) {
  std::string list;
  for (int i = 0; i < count; ++i) list += fmt::format("{},", i);
  return list;
}

/// The type of a register of the sums in a signature, its constraint, and PTX's name of the sums' type. A register
/// holds two sums of f16. The emulator has a body for each type of register.
inline std::string sums_type(const MmaInstruction& x) { return x.sums == Elem::F32 ? "f32" : "i32"; }
inline std::string sums_constraint(const MmaInstruction& x) { return x.sums == Elem::F32 ? "f" : "r"; }
inline std::string sums_ptx(const MmaInstruction& x) {
  return x.sums == Elem::F16 ? "f16" : x.sums == Elem::F32 ? "f32" : "s32";
}

}  // namespace tegula::lower
