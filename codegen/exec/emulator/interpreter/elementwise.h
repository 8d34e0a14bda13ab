// What the interpreter computes with: each function takes arrays of numbers.
#pragma once

#include "codegen/exec/emulator/interpreter/bytecode.h"

namespace tegula::emulator::bytecode {

enum class Arithmetic : uint8_t {
  // Integers.
  Add,
  Sub,
  Mul,
  And,
  Or,
  Xor,
  Shl,
  LShr,
  AShr,
  UDiv,
  SDiv,
  URem,
  SRem,
  UMin,
  UMax,
  SMin,
  SMax,
  UAddSat,
  USubSat,
  Abs,
  Ctpop,
  Ctlz,
  Cttz,
  BitReverse,
  ByteSwap,
  Fshl,
  Fshr,
  // Comparisons of integers, whose results are bits.
  Eq,
  Ne,
  Ult,
  Ule,
  Slt,
  Sle,
  // Floating point.
  FAdd,
  FSub,
  FMul,
  FDiv,
  FRem,
  FNeg,
  FAbs,
  Sqrt,
  Floor,
  Ceil,
  RoundToZero,
  RoundToEven,
  Round,
  CopySign,
  MinNum,
  MaxNum,
  Minimum,
  Maximum,
  Fma,
  // Comparisons of floating-point numbers.
  FOeq,
  FOne,
  FOlt,
  FOle,
  FOrd,
  FUno,
  FUeq,
  FUne,
  FUlt,
  FUle,
};

// These give null if there is no such function.

Elementwise function_of(const Computation& computation);
Elementwise function_of(Arithmetic operation, Kind kind);

enum class Conversion : uint8_t {
  Truncate,
  ZeroExtend,
  SignExtend,
  FromSigned,
  FromUnsigned,
  ToSigned,
  ToUnsigned,
  Float
};
Elementwise conversion(Conversion conversion, Kind from, Kind to);

/// Picks each number from b or c by the bit at a; bytes of a number.
Elementwise select_each(unsigned bytes);
/// Number i is number b[i] (of 32 bits) of a.
Elementwise pick(unsigned bytes);

}  // namespace tegula::emulator::bytecode
