// Elementwise ops: arithmetic, comparisons, casts. Each is one function on the LLVM values of one element.
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/Support/KnownBits.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <memory>
#include <unordered_set>

#include "codegen/lower/branch.h"
#include "codegen/lower/float32.h"
#include "codegen/lower/logarithm.h"
#include "codegen/lower/lowering.h"

namespace tegula::lower {

namespace {

// Applies `make` to the operands' elements, register by register.
template <class Make>
void elementwise(Lowering& l, const ir::Op& op, Make make) {
  llvm::SmallVector<const Regs*, 3> operands;
  for (const ir::Value* x : op.operands) operands.push_back(&l.get(x));
  l.set(op.result(), l.map_registers(op.result()->type, [&](int r) {
    llvm::SmallVector<llvm::Value*, 3> x;
    for (const Regs* regs : operands) x.push_back((*regs)[r]);
    return make(x);
  }));
}

bool is_float(const ir::Op& op) { return op.operand(0)->type.is_float(); }
bool is_signed(const ir::Op& op) { return tegula::is_signed(op.operand(0)->type.elem); }

// fp16 and bf16 arithmetic that LLVM would widen anyway is done in fp32 and rounded once.
template <class Make>
llvm::Value* in_f32(Lowering& l, llvm::ArrayRef<llvm::Value*> x, Make make) {
  llvm::Type* type = x[0]->getType();
  if (!type->isHalfTy() && !type->isBFloatTy()) return make(x);
  llvm::SmallVector<llvm::Value*, 3> wide;
  for (llvm::Value* v : x) wide.push_back(l.b.CreateFPExt(v, l.b.getFloatTy()));
  return l.b.CreateFPTrunc(make(wide), type);
}

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
  return !in_range && x->getType()->isIntegerTy(32) ? l.hw("opaque_b32", {x}) : x;
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

// Few registers are not worth a branch.
constexpr int kBranchFrom = 4;

// The registers of a type that differ, lowest first.
std::vector<int> distinct_registers(const ir::Type& type) {
  std::vector<int> out;
  for (int r = 0; r < Lowering::num_registers(type); ++r)
    if (Lowering::canonical_register(type, r) == r) out.push_back(r);
  return out;
}

// Registers of a type, made one by one.
template <class Fast, class Slow>
Regs branch(Lowering& l, const ir::Type& type, llvm::Value* condition, Fast fast, Slow slow) {
  return branch(
      l, condition, [&] { return l.map_registers(type, fast); }, [&] { return l.map_registers(type, slow); });
}

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
  l.set(op.result(), branch(l, type, l.b.CreateNot(any_scaled), by_reciprocal, scaled));
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
      return in_f32(l, x, [&](auto&& y) { return l.libclc("fmod", {y[0], y[1]}); });
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

// ------------------------------------------------------------------------------------------------ math functions

namespace {

// fp32 through `f32`, fp64 through `f64`; narrower types in fp32.
template <class F32, class F64>
void math(Lowering& l, const ir::Op& op, F32 f32, F64 f64) {
  elementwise(l, op, [&](auto& x) {
    return in_f32(l, x, [&](auto&& y) -> llvm::Value* { return y[0]->getType()->isDoubleTy() ? f64(y) : f32(y); });
  });
}

void libclc_math(Lowering& l, const ir::Op& op, std::string_view name) {
  auto call = [&](auto& x) { return l.libclc(name, x); };
  math(l, op, call, call);
}

void lower_logarithm(Lowering& l, const ir::Op& op, std::string_view name) {
  math(
      l, op, [&](auto& x) { return logarithm(l, name, x[0]); }, [&](auto& x) { return l.libclc(name, x); });
}

void intrinsic_math(Lowering& l, const ir::Op& op, llvm::Intrinsic::ID id) {
  auto call = [&](auto& x) { return l.b.CreateUnaryIntrinsic(id, x[0]); };
  math(l, op, call, call);
}

// The branch of exp keeps all arguments until it has looked at the last: too many for tiles as large as accumulators.
constexpr int kBranchTo = 64;
constexpr double kLog2E = 1.4426950408889634;

// Whether a loop around the op multiplies matrices: its products run beside the arithmetic, which must not branch.
bool beside_products(const ir::Op& op) {
  for (const ir::Op* loop = op.parent->parent; loop; loop = loop->parent->parent) {
    if (loop->opcode != ir::Opcode::For) continue;
    bool found = false;
    ir::walk(*loop->regions[0], [&](const ir::Op& inner) { found |= ir::is_product(inner); });
    if (found) return true;
  }
  return false;
}

// Whether `value` is a constant that does not change when subnormal numbers are added to it.
bool hides_subnormals(const ir::Value* value) {
  constexpr double kLeast = 0x1p-100;
  while (value->def && (value->def->opcode == ir::Opcode::Splat || value->def->opcode == ir::Opcode::ConvertLayout))
    value = value->def->operands[0];
  if (!value->def || value->def->opcode != ir::Opcode::Constant) return false;
  const ir::Attr constant = value->def->get(ir::attr::value);
  const double* number = std::get_if<double>(&constant);
  return number && std::abs(*number) >= kLeast;
}

// Whether the op's result is only ever added to such constants, as that of 1 / (1 + exp(-x)) is.
bool subnormals_vanish(const Lowering& l, const ir::Op& op) {
  const auto users = l.users.find(op.result());
  return users == l.users.end() || std::ranges::all_of(users->second, [&](const ir::Op* user) {
           return user->opcode == ir::Opcode::Add &&
                  (hides_subnormals(user->operand(0)) || hides_subnormals(user->operand(1)));
         });
}

// What a thread has for tiles.
int64_t registers_of_thread(const Lowering& l) {
  constexpr int64_t kMost = 255, kBesideTiles = 8;
  return std::min<int64_t>(kMost, l.target.registers_per_sm / (32 * l.func.num_warps())) - kBesideTiles;
}

// The registers of other tiles of numbers that a branch at the op would have to keep whole: made before it in its block
// and used behind it. Without a branch the assembler orders the computations of a thread's elements as it likes, and
// few of them are live at a time.
int64_t held_across(const Lowering& l, const ir::Op& op) {
  std::unordered_set<const ir::Op*> before;
  std::vector<const ir::Value*> tiles;
  auto add = [&](const ir::Value* v) {
    if (v->type.is_tile() && v->type.is_float() && v != op.operand(0)) tiles.push_back(v);
  };
  for (const auto& arg : op.parent->args) add(arg.get());
  for (const auto& other : op.parent->ops) {
    before.insert(other.get());
    if (other.get() == &op) break;
    if (other->opcode != ir::Opcode::Constant && other->opcode != ir::Opcode::Splat)
      for (const auto& result : other->results) add(result.get());
  }
  int64_t held = 0;
  for (const ir::Value* v : tiles) {
    const auto users = l.users.find(v);
    const bool is_held = users != l.users.end() && std::ranges::any_of(users->second, [&](const ir::Op* user) {
                           while (user->parent != op.parent && user->parent->parent) user = user->parent->parent;
                           return !before.contains(user);
                         });
    if (is_held) held += (int64_t(distinct_registers(v->type).size()) * v->type.bits() + 31) / 32;
  }
  return held;
}

// e^x as 2^(x log2 e). ex2.approx spends three instructions an element on results below the normal numbers, which
// arguments below -126 have, and nothing where these make no difference to what follows. For other fp32 tiles one
// integer maximum tells whether a thread has such, unless a branch would hold more than its registers: among the bits
// of numbers, 0x800000 added, those of finite negative ones are the largest, by size, while infinities and NaNs stay
// out of the way.
void exponential(Lowering& l, const ir::Op& op) {
  auto scaled = [&](llvm::Value* x) { return l.b.CreateFMul(x, llvm::ConstantFP::get(x->getType(), kLog2E)); };
  const ir::Type& type = op.result()->type;
  const std::vector<int> registers = distinct_registers(type);
  if (type.elem == Elem::F32 && subnormals_vanish(l, op))
    return elementwise(l, op, [&](auto& x) { return l.hw("ex2_approx_ftz_f32", {scaled(x[0])}); });
  if (type.elem != Elem::F32 || int(registers.size()) < kBranchFrom || int(registers.size()) > kBranchTo ||
      beside_products(op))
    return math(
        l, op, [&](auto& x) { return l.hw("ex2_approx_f32", {scaled(x[0])}); },
        [&](auto& x) { return l.libclc("exp", x); });
  if (held_across(l, op) + int64_t(registers.size()) > registers_of_thread(l))
    return elementwise(l, op, [&](auto& x) { return l.hw("ex2_approx_f32", {scaled(x[0])}); });
  constexpr uint32_t kShift = 0x800000, kLeast = 0xC2FC0000 /* -126 */ + kShift;
  constexpr size_t kChains = 4;
  const Regs& x = l.get(op.operand(0));
  const Regs arguments = l.map_registers(type, [&](int r) { return scaled(x[r]); });
  llvm::SmallVector<llvm::Value*> largest;
  auto larger = [&](llvm::Value* a, llvm::Value* b) { return l.b.CreateBinaryIntrinsic(llvm::Intrinsic::umax, a, b); };
  for (size_t i = 0; i < registers.size(); ++i) {
    llvm::Value* bits = l.b.CreateBitCast(arguments[registers[i]], l.b.getInt32Ty());
    llvm::Value* shifted = l.b.CreateAdd(bits, l.b.getInt32(kShift));
    if (i < kChains)
      largest.push_back(shifted);
    else
      largest[i % kChains] = larger(shifted, largest[i % kChains]);
  }
  llvm::Value *upper = larger(largest[2], largest[3]), *most = larger(larger(largest[0], largest[1]), upper);
  llvm::Value* all_normal = l.b.CreateICmpULE(most, l.b.getInt32(kLeast));
  l.set(op.result(), branch(
                         l, type, all_normal, [&](int r) { return l.hw("ex2_approx_ftz_f32", {arguments[r]}); },
                         [&](int r) { return l.hw("ex2_approx_f32", {arguments[r]}); }));
}

}  // namespace

void lower_Floor(Lowering& l, const ir::Op& op) { intrinsic_math(l, op, llvm::Intrinsic::floor); }
void lower_Ceil(Lowering& l, const ir::Op& op) { intrinsic_math(l, op, llvm::Intrinsic::ceil); }
void lower_SqrtRn(Lowering& l, const ir::Op& op) { intrinsic_math(l, op, llvm::Intrinsic::sqrt); }

void lower_Sqrt(Lowering& l, const ir::Op& op) {
  math(
      l, op, [&](auto& x) { return l.hw("sqrt_approx_f32", {x[0]}); },
      [&](auto& x) { return l.b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x[0]); });
}

void lower_Rsqrt(Lowering& l, const ir::Op& op) {
  math(
      l, op, [&](auto& x) { return l.hw("rsqrt_approx_f32", {x[0]}); },
      [&](auto& x) {
        return l.b.CreateFDiv(llvm::ConstantFP::get(x[0]->getType(), 1.0),
                              l.b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x[0]));
      });
}

void lower_Exp(Lowering& l, const ir::Op& op) { exponential(l, op); }
void lower_Exp2(Lowering& l, const ir::Op& op) {
  math(
      l, op, [&](auto& x) { return l.hw("ex2_approx_ftz_f32", {x[0]}); }, [&](auto& x) { return l.libclc("exp2", x); });
}
void lower_Log(Lowering& l, const ir::Op& op) { lower_logarithm(l, op, "log"); }
void lower_Log2(Lowering& l, const ir::Op& op) { lower_logarithm(l, op, "log2"); }
void lower_Sin(Lowering& l, const ir::Op& op) { libclc_math(l, op, "sin"); }
void lower_Cos(Lowering& l, const ir::Op& op) { libclc_math(l, op, "cos"); }
void lower_Tanh(Lowering& l, const ir::Op& op) {
  math(
      l, op, [&](auto& x) { return tanh_f32(l, x[0]); }, [&](auto& x) { return l.libclc("tanh", x); });
}
void lower_FastTanh(Lowering& l, const ir::Op& op) {
  math(
      l, op, [&](auto& x) { return l.hw("tanh_approx_f32", {x[0]}); }, [&](auto& x) { return l.libclc("tanh", x); });
}
void lower_Erf(Lowering& l, const ir::Op& op) {
  math(
      l, op, [&](auto& x) { return erf_f32(l, x[0]); }, [&](auto& x) { return l.libclc("erf", x); });
}

void lower_Pow(Lowering& l, const ir::Op& op) {
  auto call = [&](auto& x) { return l.pow(x[0], x[1]); };
  math(l, op, call, call);
}

}  // namespace tegula::lower
