#include "codegen/exec/emulator/code/bytecode_operations.h"

#include <map>

namespace tegula::emulator::bytecode {

std::optional<Arithmetic> arithmetic_of(unsigned opcode) {
  switch (opcode) {
#define TEGULA_SAME(name)       \
  case llvm::Instruction::name: \
    return Arithmetic::name;
    TEGULA_SAME(Add)
    TEGULA_SAME(Sub)
    TEGULA_SAME(Mul)
    TEGULA_SAME(And)
    TEGULA_SAME(Or)
    TEGULA_SAME(Xor)
    TEGULA_SAME(Shl)
    TEGULA_SAME(LShr)
    TEGULA_SAME(AShr)
    TEGULA_SAME(UDiv)
    TEGULA_SAME(SDiv)
    TEGULA_SAME(URem)
    TEGULA_SAME(SRem)
    TEGULA_SAME(FAdd)
    TEGULA_SAME(FSub)
    TEGULA_SAME(FMul)
    TEGULA_SAME(FDiv)
    TEGULA_SAME(FRem)
    TEGULA_SAME(FNeg)
#undef TEGULA_SAME
    default:
      return std::nullopt;
  }
}

std::optional<Arithmetic> arithmetic_of_intrinsic(llvm::Intrinsic::ID id) {
  using enum Arithmetic;
  static const std::map<llvm::Intrinsic::ID, Arithmetic> known = {
      {llvm::Intrinsic::fma, Fma},
      {llvm::Intrinsic::fabs, FAbs},
      {llvm::Intrinsic::sqrt, Sqrt},
      {llvm::Intrinsic::floor, Floor},
      {llvm::Intrinsic::ceil, Ceil},
      {llvm::Intrinsic::trunc, RoundToZero},
      {llvm::Intrinsic::rint, RoundToEven},
      {llvm::Intrinsic::nearbyint, RoundToEven},
      {llvm::Intrinsic::roundeven, RoundToEven},
      {llvm::Intrinsic::round, Round},
      {llvm::Intrinsic::copysign, CopySign},
      {llvm::Intrinsic::minnum, MinNum},
      {llvm::Intrinsic::maxnum, MaxNum},
      {llvm::Intrinsic::minimum, Minimum},
      {llvm::Intrinsic::maximum, Maximum},
      {llvm::Intrinsic::abs, Abs},
      {llvm::Intrinsic::ctpop, Ctpop},
      {llvm::Intrinsic::ctlz, Ctlz},
      {llvm::Intrinsic::cttz, Cttz},
      {llvm::Intrinsic::bitreverse, BitReverse},
      {llvm::Intrinsic::bswap, ByteSwap},
      {llvm::Intrinsic::fshl, Fshl},
      {llvm::Intrinsic::fshr, Fshr},
      {llvm::Intrinsic::umin, UMin},
      {llvm::Intrinsic::umax, UMax},
      {llvm::Intrinsic::smin, SMin},
      {llvm::Intrinsic::smax, SMax},
      {llvm::Intrinsic::uadd_sat, UAddSat},
      {llvm::Intrinsic::usub_sat, USubSat},
  };
  auto it = known.find(id);
  return it == known.end() ? std::nullopt : std::optional(it->second);
}

std::optional<Arithmetic> arithmetic_of_comparison(llvm::CmpInst::Predicate predicate) {
  using P = llvm::CmpInst::Predicate;
  static const std::map<P, Arithmetic> known = {
      {P::ICMP_EQ, Arithmetic::Eq},    {P::ICMP_NE, Arithmetic::Ne},    {P::ICMP_ULT, Arithmetic::Ult},
      {P::ICMP_ULE, Arithmetic::Ule},  {P::ICMP_SLT, Arithmetic::Slt},  {P::ICMP_SLE, Arithmetic::Sle},
      {P::FCMP_OEQ, Arithmetic::FOeq}, {P::FCMP_ONE, Arithmetic::FOne}, {P::FCMP_OLT, Arithmetic::FOlt},
      {P::FCMP_OLE, Arithmetic::FOle}, {P::FCMP_ORD, Arithmetic::FOrd}, {P::FCMP_UNO, Arithmetic::FUno},
      {P::FCMP_UEQ, Arithmetic::FUeq}, {P::FCMP_UNE, Arithmetic::FUne}, {P::FCMP_ULT, Arithmetic::FUlt},
      {P::FCMP_ULE, Arithmetic::FUle}};
  auto it = known.find(predicate);
  return it == known.end() ? std::nullopt : std::optional(it->second);
}

std::optional<Code> short_form(Arithmetic operation, Shape shape) {
  if (shape.vector) return std::nullopt;
  switch (shape.kind) {
    case Kind::I1:
      return operation == Arithmetic::And   ? std::optional(Code::And1)
             : operation == Arithmetic::Or  ? std::optional(Code::Or1)
             : operation == Arithmetic::Xor ? std::optional(Code::Xor1)
                                            : std::nullopt;
    case Kind::I32:
      switch (operation) {
        case Arithmetic::Add:
          return Code::Add32;
        case Arithmetic::Sub:
          return Code::Sub32;
        case Arithmetic::Mul:
          return Code::Mul32;
        case Arithmetic::And:
          return Code::And32;
        case Arithmetic::Or:
          return Code::Or32;
        case Arithmetic::Xor:
          return Code::Xor32;
        case Arithmetic::Shl:
          return Code::Shl32;
        case Arithmetic::LShr:
          return Code::LShr32;
        case Arithmetic::Eq:
          return Code::Eq32;
        case Arithmetic::Ne:
          return Code::Ne32;
        case Arithmetic::Ult:
          return Code::Ult32;
        case Arithmetic::Ule:
          return Code::Ule32;
        case Arithmetic::Slt:
          return Code::Slt32;
        case Arithmetic::Sle:
          return Code::Sle32;
        default:
          return std::nullopt;
      }
    case Kind::I64:
      switch (operation) {
        case Arithmetic::Add:
          return Code::Add64;
        case Arithmetic::Mul:
          return Code::Mul64;
        case Arithmetic::And:
          return Code::And64;
        case Arithmetic::Or:
          return Code::Or64;
        case Arithmetic::Shl:
          return Code::Shl64;
        default:
          return std::nullopt;
      }
    case Kind::F32:
      switch (operation) {
        case Arithmetic::FAdd:
          return Code::FAdd32;
        case Arithmetic::FSub:
          return Code::FSub32;
        case Arithmetic::FMul:
          return Code::FMul32;
        case Arithmetic::Fma:
          return Code::Fma32;
        default:
          return std::nullopt;
      }
    default:
      return std::nullopt;
  }
}

bool takes_odd(Arithmetic operation) {
  switch (operation) {
    using enum Arithmetic;
    case Add:
    case Sub:
    case Mul:
    case And:
    case Or:
    case Xor:
    case Shl:
    case LShr:
    case UDiv:
    case URem:
    case UMin:
    case UMax:
    case Ctpop:
    case BitReverse:
    case Eq:
    case Ne:
    case Ult:
    case Ule:
      return true;
    default:
      return false;
  }
}

}  // namespace tegula::emulator::bytecode
