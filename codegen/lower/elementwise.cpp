// Elementwise ops: arithmetic, comparisons, casts. Each is one function on the LLVM values of one element.
#include "codegen/lower/elementwise.h"

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/Support/KnownBits.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <memory>

#include "codegen/lower/lowering.h"

namespace tegula::lower {

namespace {

bool is_float(const ir::Op& op) { return op.operand(0)->type.is_float(); }
bool is_signed(const ir::Op& op) { return tegula::is_signed(op.operand(0)->type.elem); }

// Calls make(r) for the first register r of each group, and takes its result for the whole group. A group has `runs`
// elements along each axis (powers of two); the register's part of an element's coordinates tells its group.
template <class F>
std::function<llvm::Value*(int)> once_a_group(const ir::Type& type, const AxisInfo::PerAxis& runs, F make) {
  auto made = std::make_shared<std::map<LinearLayout::Basis, llvm::Value*>>();
  return [=](int r) {
    if (!type.layout) return make(r);
    LinearLayout::Basis group = type.layout->apply({{Dim::Register, r}});
    for (size_t axis = 0; axis < group.size(); ++axis) group[axis] = int32_t(group[axis] / runs[axis]);
    llvm::Value*& value = (*made)[group];
    if (!value) value = make(r);
    return value;
  };
}

void compare(Lowering& l, const ir::Op& op, llvm::CmpInst::Predicate fp, llvm::CmpInst::Predicate sint,
             llvm::CmpInst::Predicate uint) {
  bool pointer = op.operand(0)->type.pointer;
  auto make = [&](llvm::Value* x, llvm::Value* y) {
    if (is_float(op)) return l.b.CreateFCmp(fp, x, y);
    return l.b.CreateICmp(is_signed(op) && !pointer ? sint : uint, x, y);
  };
  // A mask is often constant over an aligned group of elements: one comparison then serves the group's registers.
  const ir::Type& type = op.result()->type;
  const Regs x = l.get(op.operand(0)), y = l.get(op.operand(1));
  l.set(op.result(), l.map_registers(type, once_a_group(type, l.axes.info(op.result()).constancy,
                                                        [&](int r) { return make(x[r], y[r]); })));
}

void min_max(Lowering& l, const ir::Op& op, bool max) {
  using namespace llvm;
  bool nan = op.get(ir::attr::nan);
  Intrinsic::ID id = is_float(op)    ? (nan ? (max ? Intrinsic::maximum : Intrinsic::minimum)
                                            : (max ? Intrinsic::maxnum : Intrinsic::minnum))
                     : is_signed(op) ? (max ? Intrinsic::smax : Intrinsic::smin)
                                     : (max ? Intrinsic::umax : Intrinsic::umin);
  elementwise(l, op, [&](auto& x) -> Value* {
    if (x[0]->getType()->isDoubleTy() && nan) {
      // No NaN-propagating form in fp64 hardware.
      Value* m = l.b.CreateBinaryIntrinsic(max ? Intrinsic::maxnum : Intrinsic::minnum, x[0], x[1]);
      Value* unordered = l.b.CreateFCmpUNO(x[0], x[1]);
      return l.b.CreateSelect(unordered, ConstantFP::getNaN(x[0]->getType()), m);
    }
    return l.b.CreateBinaryIntrinsic(id, x[0], x[1]);
  });
}

llvm::Value* cast_element(Lowering& l, llvm::Value* x, const ir::Type& from, const ir::Type& to,
                          const std::string& rounding) {
  llvm::Type* type = l.element_type(to);
  if (from.is_bool()) return to.is_float() ? l.b.CreateUIToFP(x, type) : l.b.CreateZExt(x, type);
  if (from.is_float() && to.is_bool()) return l.b.CreateFCmpUNE(x, llvm::ConstantFP::get(x->getType(), 0.0));
  if (to.is_bool()) return l.b.CreateICmpNE(x, llvm::Constant::getNullValue(x->getType()));
  if (from.is_float() && to.is_float()) {
    if (from.elem == to.elem) return x;
    if (from.bits() == to.bits()) return l.b.CreateFPTrunc(l.b.CreateFPExt(x, l.b.getFloatTy()), type);
    if (from.bits() < to.bits()) return l.b.CreateFPExt(x, type);
    if (rounding == "rtz") {
      if (from.elem == Elem::F64) x = l.hw("cvt_rz_f32_f64", {x});
      if (to.elem == Elem::F32) return x;
      return l.hw(to.elem == Elem::F16 ? "cvt_rz_f16_f32" : "cvt_rz_bf16_f32", {x});
    }
    return l.b.CreateFPTrunc(x, type);
  }
  if (from.is_float()) {
    // Out-of-range values have an unspecified but harmless result.
    return l.b.CreateFreeze(tegula::is_signed(to.elem) ? l.b.CreateFPToSI(x, type) : l.b.CreateFPToUI(x, type));
  }
  bool sign = tegula::is_signed(from.elem);
  if (to.is_float()) {
    const bool by_float = to.elem == Elem::BF16 && !l.target.has(Feature::CvtIntBf16);  // two roundings, as Triton has
    llvm::Type* first = by_float ? l.b.getFloatTy() : type;
    return l.b.CreateFPTrunc(sign ? l.b.CreateSIToFP(x, first) : l.b.CreateUIToFP(x, first), type);
  }
  return l.b.CreateIntCast(x, type, sign);
}

}  // namespace

#define TEGULA_LOWER_ARITHMETIC(Name, FloatForm, IntForm)                        \
  void lower_##Name(Lowering& l, const ir::Op& op) {                             \
    elementwise(l, op, [&](auto& x) -> llvm::Value* {                            \
      return is_float(op) ? l.b.FloatForm(x[0], x[1]) : l.b.IntForm(x[0], x[1]); \
    });                                                                          \
  }
TEGULA_LOWER_ARITHMETIC(Add, CreateFAdd, CreateAdd)
TEGULA_LOWER_ARITHMETIC(Sub, CreateFSub, CreateSub)
TEGULA_LOWER_ARITHMETIC(Mul, CreateFMul, CreateMul)

#define TEGULA_LOWER_INTEGER(Name, Form)                                               \
  void lower_##Name(Lowering& l, const ir::Op& op) {                                   \
    elementwise(l, op, [&](auto& x) -> llvm::Value* { return l.b.Form(x[0], x[1]); }); \
  }
TEGULA_LOWER_INTEGER(BitAnd, CreateAnd)
TEGULA_LOWER_INTEGER(BitOr, CreateOr)
TEGULA_LOWER_INTEGER(BitXor, CreateXor)

#define TEGULA_LOWER_COMPARE(Name, Fp, Signed, Unsigned)                               \
  void lower_##Name(Lowering& l, const ir::Op& op) {                                   \
    compare(l, op, llvm::CmpInst::Fp, llvm::CmpInst::Signed, llvm::CmpInst::Unsigned); \
  }
TEGULA_LOWER_COMPARE(Eq, FCMP_OEQ, ICMP_EQ, ICMP_EQ)
TEGULA_LOWER_COMPARE(Ne, FCMP_UNE, ICMP_NE, ICMP_NE)
TEGULA_LOWER_COMPARE(Lt, FCMP_OLT, ICMP_SLT, ICMP_ULT)
TEGULA_LOWER_COMPARE(Le, FCMP_OLE, ICMP_SLE, ICMP_ULE)
TEGULA_LOWER_COMPARE(Gt, FCMP_OGT, ICMP_SGT, ICMP_UGT)
TEGULA_LOWER_COMPARE(Ge, FCMP_OGE, ICMP_SGE, ICMP_UGE)

void lower_Minimum(Lowering& l, const ir::Op& op) { min_max(l, op, false); }
void lower_Maximum(Lowering& l, const ir::Op& op) { min_max(l, op, true); }

namespace {

// LLVM folds operands that it knows to be out of range, and the emulator's checks would have nothing left to warn of:
// code for the emulator hides such operands from LLVM.
llvm::Value* kept_for_checks(Lowering& l, llvm::Value* x, bool in_range) {
  if (in_range) return x;
  llvm::Type *type = x->getType(), *word = l.b.getInt32Ty();
  llvm::Value* low = l.hw("opaque_b32", {l.b.CreateZExtOrTrunc(x, word)});
  if (type->getIntegerBitWidth() <= 32) return l.b.CreateTrunc(low, type);
  return l.b.CreateOr(l.b.CreateAnd(x, ~uint64_t(0) << 32), l.b.CreateZExt(low, type));
}

// Remainders by a number that is known to be 0, of either sign, are NaNs that LLVM knows.
llvm::Value* kept_divisor(Lowering& l, llvm::Value* y) {
  const auto* known = llvm::dyn_cast<llvm::ConstantFP>(y);
  if (!l.emulator || !known || !known->isZero()) return y;
  llvm::Value* zero = l.hw("opaque_b32", {l.i32(0)});
  if (y->getType()->isDoubleTy())  // both words
    zero = l.b.CreateMul(l.b.CreateZExt(zero, l.b.getInt64Ty()), l.b.getInt64(uint64_t(1) << 32 | 1));
  return l.b.CreateBitCast(zero, y->getType());
}

// Loops that are being lowered have phis without the values of later iterations yet.
bool follows_from_phi(const llvm::Value* x, unsigned depth = 0) {
  const auto* op = llvm::dyn_cast<llvm::Instruction>(x);
  if (!op || depth == llvm::MaxAnalysisRecursionDepth) return false;
  return llvm::isa<llvm::PHINode>(op) ||
         llvm::any_of(op->operands(), [&](const llvm::Value* operand) { return follows_from_phi(operand, depth + 1); });
}

llvm::KnownBits known_bits(Lowering& l, llvm::Value* x) {
  if (follows_from_phi(x)) return llvm::KnownBits(x->getType()->getIntegerBitWidth());
  return llvm::computeKnownBits(x, l.module.getDataLayout());
}

// The divisor, or 1 where LLVM leaves the quotient undefined (and a CPU traps): for 0, and for -1 under the smallest
// integer, whose quotient by 1 is the wrapped one. Masked-off elements divide by anything.
llvm::Value* safe_divisor(Lowering& l, llvm::Value* x, llvm::Value* y, bool sign) {
  llvm::Type* type = y->getType();
  if (l.emulator) y = kept_for_checks(l, y, known_bits(l, y).isNonZero());
  llvm::Value* one = llvm::ConstantInt::get(type, 1);
  llvm::Value* undefined = l.b.CreateICmpEQ(y, llvm::Constant::getNullValue(type));
  if (sign) {
    auto least = llvm::APInt::getSignedMinValue(type->getIntegerBitWidth());
    llvm::Value* by_minus_one = l.b.CreateICmpEQ(y, llvm::Constant::getAllOnesValue(type));
    llvm::Value* of_least = l.b.CreateICmpEQ(x, llvm::ConstantInt::get(type, least));
    undefined = l.b.CreateOr(undefined, l.b.CreateAnd(of_least, by_minus_one));
  }
  return l.b.CreateSelect(undefined, one, y);
}

llvm::Value* quotient(Lowering& l, const ir::Op& op, llvm::Value* x, llvm::Value* y) {
  y = safe_divisor(l, x, y, is_signed(op));
  return is_signed(op) ? l.b.CreateSDiv(x, y) : l.b.CreateUDiv(x, y);
}

// Whether the reciprocal is a normal number, or that of 0: integers are 0 or neither small nor large.
bool is_of_integer(const llvm::Value* y) { return llvm::isa<llvm::SIToFPInst, llvm::UIToFPInst>(y); }

// fp32 quotients of many elements by the same few numbers: as div.full does it, x k * rcp(y k) with a k that keeps the
// reciprocal a normal number, but k and the reciprocal once for each y, and without k where it is 1.
bool divide_by_few(Lowering& l, const ir::Op& op) {
  const ir::Type& type = op.result()->type;
  if (type.elem != Elem::F32) return false;
  const Regs x = l.get(op.operand(0)), y = l.get(op.operand(1));
  const std::vector<int> registers = distinct_registers(type);
  struct Divisor {
    llvm::Value *scale, *reciprocal;
  };
  std::map<llvm::Value*, Divisor> divisors;
  for (int r : registers) divisors[y[r]] = {};
  if (divisors.size() * kBranchFrom > registers.size()) return false;
  Builder::FastMathFlagGuard guard(l.b);
  l.b.clearFastMathFlags();
  auto number = [&](double value) { return llvm::ConstantFP::get(l.b.getFloatTy(), value); };
  llvm::Value* any_scaled = l.b.getFalse();
  for (int r : registers) {  // not the map's order, which is that of addresses
    Divisor& d = divisors[y[r]];
    if (d.scale) continue;
    if (is_of_integer(y[r])) {
      d = {number(1), l.hw("rcp_approx_ftz_f32", {y[r]})};
      continue;
    }
    llvm::Value* size = l.b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, y[r]);
    llvm::Value* large = l.b.CreateFCmpOGT(size, number(0x1p126));
    llvm::Value* small = l.b.CreateFCmpOLT(size, number(0x1p-126));
    d.scale = l.b.CreateSelect(large, number(0.25), l.b.CreateSelect(small, number(0x1p24), number(1)));
    d.reciprocal = l.hw("rcp_approx_ftz_f32", {l.b.CreateFMul(y[r], d.scale)});
    // A chain of one kind of operations: LLVM takes time that grows with its square to move negations out of one.
    any_scaled = l.b.CreateOr(l.b.CreateOr(any_scaled, large), small);
  }
  auto by_reciprocal = [&](int r) { return l.b.CreateFMul(x[r], divisors[y[r]].reciprocal); };
  auto scaled = [&](int r) {
    const Divisor& d = divisors[y[r]];
    return l.b.CreateFMul(l.b.CreateFMul(x[r], d.scale), d.reciprocal);
  };
  const bool never = any_scaled == l.b.getFalse();
  l.set(op.result(), never ? l.map_registers(type, by_reciprocal)
                           : branch(l, type, l.b.CreateNot(any_scaled), by_reciprocal, scaled));
  return true;
}

}  // namespace

void lower_Div(Lowering& l, const ir::Op& op) {
  if (!is_float(op)) {
    const ir::Type& type = op.result()->type;
    const Regs x = l.get(op.operand(0)), y = l.get(op.operand(1));
    l.set(op.result(), l.map_registers(type, once_a_group(type, l.axes.info(op.result()).constancy,
                                                          [&](int r) { return quotient(l, op, x[r], y[r]); })));
    return;
  }
  if (divide_by_few(l, op)) return;
  elementwise(l, op, [&](auto& x) -> llvm::Value* {
    if (x[0]->getType()->isDoubleTy()) return l.b.CreateFDiv(x[0], x[1]);
    return in_f32(l, x, [&](auto&& y) { return l.hw("div_full_f32", {y[0], y[1]}); });
  });
}

void lower_DivRn(Lowering& l, const ir::Op& op) {
  elementwise(l, op, [&](auto& x) { return in_f32(l, x, [&](auto&& y) { return l.b.CreateFDiv(y[0], y[1]); }); });
}

// Remainders that go up by one, of numbers that do, by divisors that are the same, have one quotient. (A power of two
// that is known makes a mask of each.)
void lower_Rem(Lowering& l, const ir::Op& op) {
  if (is_float(op))
    return elementwise(l, op, [&](auto& x) {
      return in_f32(l, x, [&](auto&& y) { return l.libclc("fmod", {y[0], kept_divisor(l, y[1])}); });
    });
  const ir::Type& type = op.result()->type;
  const Regs x = l.get(op.operand(0)), y = l.get(op.operand(1));
  const AxisInfo &dividend = l.axes.info(op.operand(0)), &divisor = l.axes.info(op.operand(1));
  AxisInfo::PerAxis runs = l.axes.info(op.result()).contiguity;
  const bool is_mask = divisor.constant && *divisor.constant > 0 && std::has_single_bit(uint64_t(*divisor.constant));
  for (size_t axis = 0; axis < runs.size(); ++axis)
    runs[axis] = is_mask ? 1 : std::min({runs[axis], dividend.contiguity[axis], divisor.constancy[axis]});
  const bool groups = std::any_of(runs.begin(), runs.end(), [](int64_t run) { return run > 1; });
  auto of_group = once_a_group(type, runs, [&](int r) { return quotient(l, op, x[r], y[r]); });
  l.set(op.result(), l.map_registers(type, [&](int r) {
    if (groups) return l.b.CreateSub(x[r], l.b.CreateMul(of_group(r), y[r]));
    llvm::Value* safe = safe_divisor(l, x[r], y[r], is_signed(op));
    return is_signed(op) ? l.b.CreateSRem(x[r], safe) : l.b.CreateURem(x[r], safe);
  }));
}

namespace {

llvm::Value* distance_of_shift(Lowering& l, llvm::Value* distance, unsigned bits) {
  return l.emulator ? kept_for_checks(l, distance, known_bits(l, distance).getMaxValue().ult(bits)) : distance;
}

}  // namespace

// A shift by the width or more gives 0 (or the sign), as the hardware's shifts do; in LLVM it would be poison.
void lower_Shl(Lowering& l, const ir::Op& op) {
  elementwise(l, op, [&](auto& x) -> llvm::Value* {
    unsigned bits = x[0]->getType()->getIntegerBitWidth();
    llvm::Value* distance = distance_of_shift(l, x[1], bits);
    llvm::Value* in_range = l.b.CreateICmpULT(distance, llvm::ConstantInt::get(distance->getType(), bits));
    llvm::Value* zero = llvm::Constant::getNullValue(x[0]->getType());
    return l.b.CreateSelect(in_range, l.b.CreateShl(x[0], l.b.CreateSelect(in_range, distance, zero)), zero);
  });
}

void lower_Shr(Lowering& l, const ir::Op& op) {
  elementwise(l, op, [&](auto& x) -> llvm::Value* {
    unsigned bits = x[0]->getType()->getIntegerBitWidth();
    llvm::Value* distance = distance_of_shift(l, x[1], bits);
    llvm::Value* last = llvm::ConstantInt::get(distance->getType(), bits - 1);
    llvm::Value* in_range = l.b.CreateICmpULE(distance, last);
    llvm::Value* by = l.b.CreateSelect(in_range, distance, last);
    if (is_signed(op)) return l.b.CreateAShr(x[0], by);
    return l.b.CreateSelect(in_range, l.b.CreateLShr(x[0], by), llvm::Constant::getNullValue(x[0]->getType()));
  });
}

void lower_MulHi(Lowering& l, const ir::Op& op) {
  elementwise(l, op, [&](auto& x) {
    unsigned bits = x[0]->getType()->getIntegerBitWidth();
    llvm::Type* wide = l.b.getIntNTy(2 * bits);
    llvm::Value *second = l.b.CreateZExt(x[1], wide), *product = l.b.CreateMul(l.b.CreateZExt(x[0], wide), second);
    return l.b.CreateTrunc(l.b.CreateLShr(product, bits), x[0]->getType());
  });
}

void lower_Neg(Lowering& l, const ir::Op& op) {
  elementwise(l, op, [&](auto& x) { return is_float(op) ? l.b.CreateFNeg(x[0]) : l.b.CreateNeg(x[0]); });
}

void lower_Abs(Lowering& l, const ir::Op& op) {
  elementwise(l, op, [&](auto& x) -> llvm::Value* {
    if (is_float(op)) return l.b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x[0]);
    if (!is_signed(op)) return x[0];
    return l.b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x[0], l.b.getFalse());
  });
}

void lower_Fma(Lowering& l, const ir::Op& op) {
  elementwise(l, op, [&](auto& x) {
    return in_f32(l, x, [&](auto&& y) {
      return l.b.CreateIntrinsic(llvm::Intrinsic::fma, {y[0]->getType()}, {y[0], y[1], y[2]});
    });
  });
}

void lower_Select(Lowering& l, const ir::Op& op) {
  elementwise(l, op, [&](auto& x) { return l.b.CreateSelect(x[0], x[1], x[2]); });
}

namespace {

// Applies `cast` to all distinct registers of the operand at once.
template <class Cast>
void cast_together(Lowering& l, const ir::Op& op, Cast cast) {
  const ir::Type& to = op.result()->type;
  Regs x;
  for (int r : distinct_registers(to)) x.push_back(l.get(op.operand(0))[r]);
  x = cast(std::move(x));
  auto next = x.begin();  // registers come in ascending order
  l.set(op.result(), l.map_registers(to, [&](int) { return *next++; }));
}

// From float8 by way of half, to float8 by way of float; to float8e4b15 from there by way of half, towards zero.
Regs cast_float8(Lowering& l, const ir::Op& op, Regs x) {
  const ir::Type &from = op.operand(0)->type, &to = op.result()->type;
  ir::Type held = from;
  if (is_float8(from.elem)) x = l.widen_float8(from.elem, x), held = from.with_elem(Elem::F16);
  const bool stays_half = to.elem == Elem::F8E4B15 && held.elem == Elem::F16;
  const ir::Type wanted = is_float8(to.elem) ? to.with_elem(stays_half ? Elem::F16 : Elem::F32) : to;
  for (llvm::Value*& v : x) v = cast_element(l, v, held, wanted, op.get(ir::attr::rounding));
  if (to.elem == Elem::F8E4B15 && !stays_half)
    for (llvm::Value*& v : x) v = cast_element(l, v, wanted, to.with_elem(Elem::F16), "rtz");
  return is_float8(to.elem) ? l.narrow_to_float8(to.elem, x) : x;
}

// The row that turns four integers of 8 bits into numbers of 16 bits; null for other casts.
const char* row_of_bytes(Elem from, Elem to) {
  if (to != Elem::F16 && to != Elem::BF16) return nullptr;
  if (from == Elem::I8) return to == Elem::F16 ? "cvt_f16x4_s8x4" : "cvt_bf16x4_s8x4";
  if (from == Elem::U8) return to == Elem::F16 ? "cvt_f16x4_u8x4" : "cvt_bf16x4_u8x4";
  return nullptr;
}

}  // namespace

void lower_Cast(Lowering& l, const ir::Op& op) {
  const ir::Type &from = op.operand(0)->type, &to = op.result()->type;
  if (is_float8(from.elem) || is_float8(to.elem))
    return cast_together(l, op, [&](Regs x) { return cast_float8(l, op, std::move(x)); });
  if (const char* row = row_of_bytes(from.elem, to.elem))
    return cast_together(l, op, [&](const Regs& x) { return l.widen_bytes(row, x, l.element_type(to)); });
  const std::string rounding = op.get(ir::attr::rounding);
  elementwise(l, op, [&](auto& x) { return cast_element(l, x[0], from, to, rounding); });
}

void lower_Bitcast(Lowering& l, const ir::Op& op) {
  const ir::Type &from = op.operand(0)->type, &to = op.result()->type;
  elementwise(l, op, [&](auto& x) -> llvm::Value* {
    if (from.pointer && !to.pointer) return l.b.CreatePtrToInt(x[0], l.element_type(to));
    if (!from.pointer && to.pointer) return l.b.CreateIntToPtr(x[0], l.element_type(to));
    return l.b.CreateBitCast(x[0], l.element_type(to));
  });
}

void lower_AddPtr(Lowering& l, const ir::Op& op) {
  Elem elem = op.operand(0)->type.elem;
  llvm::Type* element = elem == Elem::I1 ? l.b.getInt8Ty() : l.element_type(elem);
  bool sign = tegula::is_signed(op.operand(1)->type.elem);
  elementwise(l, op,
              [&](auto& x) { return l.b.CreateGEP(element, x[0], l.b.CreateIntCast(x[1], l.b.getInt64Ty(), sign)); });
}

void lower_Hint(Lowering& l, const ir::Op& op) { l.set(op.result(), l.get(op.operand(0))); }

}  // namespace tegula::lower
