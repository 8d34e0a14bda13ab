// The functions of libdevice.def: by libclc, by instructions, or by the functions of one element below.
#include "codegen/ir/libdevice.h"

#include "codegen/lower/asm_block.h"
#include "codegen/lower/float32.h"
#include "codegen/lower/logarithm.h"
#include "codegen/lower/lowering.h"
#include "codegen/lower/special.h"

namespace tegula::lower {

namespace {

using llvm::Intrinsic::ID;
using Args = llvm::ArrayRef<llvm::Value*>;

llvm::Value* number(llvm::Value* like, double value) { return llvm::ConstantFP::get(like->getType(), value); }
llvm::Value* size_of(Lowering& l, llvm::Value* x) { return l.b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }
llvm::Value* sqrt_of(Lowering& l, llvm::Value* x) { return l.b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x); }
llvm::Value* fma(Lowering& l, llvm::Value* x, llvm::Value* y, llvm::Value* z) {
  return l.b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
}

/// LLVM's constraint of an operand register, as its PTX type wants it.
char constraint_of(const llvm::Type* type) {
  if (type->isFloatTy()) return 'f';
  if (type->isDoubleTy()) return 'd';
  if (type->isIntegerTy(1)) return 'b';
  return type->getPrimitiveSizeInBits() == 64 ? 'l' : 'r';
}

/// Pure instructions that take and give whole registers; the name tells them from others.
llvm::Value* instructions(Lowering& l, std::string_view name, const std::string& text, llvm::Type* result, Args x) {
  std::string constraints = fmt::format("={}", constraint_of(result));
  llvm::SmallVector<llvm::Type*> types;
  for (llvm::Value* v : x) {
    constraints += fmt::format(",{}", constraint_of(v->getType()));
    types.push_back(v->getType());
  }
  auto* type = llvm::FunctionType::get(result, types, false);
  llvm::Function* f = declare_asm(l.module, name, type, {text, constraints, true, -1});
  f->addFnAttr(llvm::Attribute::Speculatable);
  return l.b.CreateCall(f, x);
}

// ---- Rounding, and what a number is

/// To the next integer, halves away from zero. The number below a half, added, carries exactly what is a half or more
/// to the next integer (0.5 itself by the rounding of the sum), so that one conversion does it; the NVPTX back end's
/// own expansion takes two, and these are what kernels that quantise wait for.
llvm::Value* own_round(Lowering& l, Args x) {
  llvm::APFloat below_half(x[0]->getType()->getFltSemantics(), "0.5");
  below_half.next(true);
  llvm::Value* part = llvm::ConstantFP::get(x[0]->getType(), below_half);
  llvm::Value* sum = l.b.CreateFAdd(x[0], l.b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, part, x[0]));
  return l.b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, sum);
}

llvm::Value* own_llround(Lowering& l, Args x) {
  const char* type = x[0]->getType()->isDoubleTy() ? "f64" : "f32";
  return instructions(l, fmt::format("to_s64.{}", type), fmt::format("cvt.rzi.s64.{} $0, $1;", type), l.b.getInt64Ty(),
                      own_round(l, x));
}

llvm::Value* own_isnan(Lowering& l, Args x) { return l.b.CreateFCmpUNO(x[0], x[0]); }
llvm::Value* own_isinf(Lowering& l, Args x) {
  return l.b.CreateFCmpOEQ(size_of(l, x[0]), llvm::ConstantFP::getInfinity(x[0]->getType()));
}
llvm::Value* own_isfinite(Lowering& l, Args x) {
  return l.b.CreateFCmpOLT(size_of(l, x[0]), llvm::ConstantFP::getInfinity(x[0]->getType()));
}

llvm::Value* own_bits(Lowering& l, Args x) {
  llvm::Type* from = x[0]->getType();
  const bool wide = from->getPrimitiveSizeInBits() == 64;
  if (from->isFloatingPointTy()) return l.b.CreateBitCast(x[0], l.b.getIntNTy(wide ? 64 : 32));
  return l.b.CreateBitCast(x[0], wide ? l.b.getDoubleTy() : l.b.getFloatTy());
}

llvm::Value* own_signbit(Lowering& l, Args x) {
  llvm::Value* bits = own_bits(l, x);
  return l.b.CreateZExt(l.b.CreateICmpSLT(bits, llvm::Constant::getNullValue(bits->getType())), l.b.getInt32Ty());
}

/// libclc gives another number for 0, and for NaNs.
llvm::Value* own_ilogb(Lowering& l, Args x) {
  llvm::Value* is_zero = l.b.CreateFCmpOEQ(x[0], number(x[0], 0));
  llvm::Value* least = l.b.CreateOr(own_isnan(l, x), is_zero);
  llvm::Value* exponent = l.libclc("ilogb", x, l.b.getInt32Ty());
  exponent = l.b.CreateSelect(own_isinf(l, x), l.i32(INT32_MAX), exponent);
  return l.b.CreateSelect(least, l.i32(INT32_MIN), exponent);
}

// ---- Integers

llvm::Value* count_bits(Lowering& l, ID id, llvm::Value* x) {
  llvm::Value* count =
      id == llvm::Intrinsic::ctpop ? l.b.CreateUnaryIntrinsic(id, x) : l.b.CreateBinaryIntrinsic(id, x, l.b.getFalse());
  return l.b.CreateZExtOrTrunc(count, l.b.getInt32Ty());
}
llvm::Value* own_clz(Lowering& l, Args x) { return count_bits(l, llvm::Intrinsic::ctlz, x[0]); }
llvm::Value* own_popc(Lowering& l, Args x) { return count_bits(l, llvm::Intrinsic::ctpop, x[0]); }
llvm::Value* own_brev(Lowering& l, Args x) { return l.b.CreateUnaryIntrinsic(llvm::Intrinsic::bitreverse, x[0]); }
llvm::Value* own_ffs(Lowering& l, Args x) {
  llvm::Value* zero = l.b.CreateICmpEQ(x[0], llvm::Constant::getNullValue(x[0]->getType()));
  return l.b.CreateSelect(zero, l.i32(0), l.b.CreateAdd(count_bits(l, llvm::Intrinsic::cttz, x[0]), l.i32(1)));
}

// ---- Roots. In fp32 by way of fp64, whose errors do not show; in fp64 with a step of Newton's method on a residual
// that products in two parts give.

/// A sum in two parts.
struct Pair {
  llvm::Value *high, *low;
};

Pair two_product(Lowering& l, llvm::Value* x, llvm::Value* y) {
  llvm::Value* high = l.b.CreateFMul(x, y);
  return {high, fma(l, x, y, l.b.CreateFNeg(high))};
}

/// Knuth's TwoSum: the low part is the exact error.
Pair two_sum(Lowering& l, llvm::Value* x, llvm::Value* y) {
  llvm::Value *sum = l.b.CreateFAdd(x, y), *of_y = l.b.CreateFSub(sum, x), *of_x = l.b.CreateFSub(sum, of_y);
  llvm::Value* lost_of_y = l.b.CreateFSub(y, of_y);
  return {sum, l.b.CreateFAdd(l.b.CreateFSub(x, of_x), lost_of_y)};
}

/// 1 / sqrt(high + low), to little more than half an ulp.
llvm::Value* reciprocal_root(Lowering& l, Pair x) {
  llvm::Value* y = l.b.CreateFDiv(number(x.high, 1), sqrt_of(l, x.high));
  Pair square = two_product(l, y, y);
  llvm::Value* rest = fma(l, l.b.CreateFNeg(x.high), square.high, number(y, 1));
  rest = l.b.CreateFSub(rest, l.b.CreateFMul(x.high, square.low));
  rest = l.b.CreateFSub(rest, l.b.CreateFMul(x.low, square.high));
  return fma(l, l.b.CreateFMul(y, rest), number(y, 0.5), y);
}

llvm::Value* own_rsqrt(Lowering& l, Args x) {
  llvm::Value* wide = l.b.CreateFPExt(x[0], l.b.getDoubleTy());
  if (x[0]->getType()->isFloatTy())
    return l.b.CreateFPTrunc(l.b.CreateFDiv(number(wide, 1), sqrt_of(l, wide)), l.b.getFloatTy());
  // Products with the square of the result stay normal numbers; for infinity and 0 there is nothing to correct.
  llvm::Value *large = l.b.CreateFCmpOGT(wide, number(wide, 0x1p900)),
              *small = l.b.CreateFCmpOLT(wide, number(wide, 0x1p-900));
  auto scaled = [&](llvm::Value* v, double down, double up) {
    return l.b.CreateFMul(
        v, l.b.CreateSelect(large, number(v, down), l.b.CreateSelect(small, number(v, up), number(v, 1))));
  };
  llvm::Value* middle = scaled(wide, 0x1p-200, 0x1p200);
  llvm::Value* plain = l.b.CreateFDiv(number(wide, 1), sqrt_of(l, wide));
  llvm::Value* exact = scaled(reciprocal_root(l, {middle, number(wide, 0)}), 0x1p-100, 0x1p100);
  llvm::Value* usual = l.b.CreateAnd(l.b.CreateFCmpOGT(wide, number(wide, 0)), own_isfinite(l, wide));
  return l.b.CreateSelect(usual, exact, plain);
}

llvm::Value* own_rcbrt(Lowering& l, Args x) {
  llvm::Value* wide = l.b.CreateFPExt(x[0], l.b.getDoubleTy());
  llvm::Value* y = l.b.CreateFDiv(number(wide, 1), l.libclc("cbrt", wide));
  if (x[0]->getType()->isFloatTy()) return l.b.CreateFPTrunc(y, l.b.getFloatTy());
  // 1 - x y^3, from which y comes a third nearer.
  Pair square = two_product(l, y, y), product = two_product(l, wide, square.high);
  llvm::Value* low = fma(l, wide, square.low, product.low);
  llvm::Value* rest = fma(l, l.b.CreateFNeg(product.high), y, number(y, 1));
  rest = l.b.CreateFSub(rest, l.b.CreateFMul(low, y));
  llvm::Value* better = fma(l, l.b.CreateFMul(y, rest), number(y, 1.0 / 3), y);
  llvm::Value* usual = l.b.CreateAnd(own_isfinite(l, wide), l.b.CreateFCmpONE(wide, number(wide, 0)));
  return l.b.CreateSelect(usual, better, y);
}

/// A power of two that brings the largest of the numbers near 1, and its inverse.
struct Scale {
  llvm::Value *factor, *inverse;
};

Scale scale_of(Lowering& l, Args x) {
  llvm::Value* largest = size_of(l, x[0]);
  for (llvm::Value* v : x.drop_front())
    largest = l.b.CreateBinaryIntrinsic(llvm::Intrinsic::maxnum, largest, size_of(l, v));
  llvm::Value* field = l.b.CreateLShr(l.b.CreateBitCast(largest, l.b.getInt64Ty()), 52);
  auto limit = [&](ID id, uint64_t bound) { field = l.b.CreateBinaryIntrinsic(id, field, l.b.getInt64(bound)); };
  limit(llvm::Intrinsic::umax, 1), limit(llvm::Intrinsic::umin, 2045);
  auto power = [&](llvm::Value* exponent) { return l.b.CreateBitCast(l.b.CreateShl(exponent, 52), l.b.getDoubleTy()); };
  return {power(l.b.CreateSub(l.b.getInt64(2046), field)), power(field)};
}

/// The sum of the squares of scaled numbers.
Pair sum_of_squares(Lowering& l, Args x, llvm::Value* factor) {
  Pair sum{};
  for (llvm::Value* v : x) {
    llvm::Value* scaled = l.b.CreateFMul(v, factor);
    Pair square = two_product(l, scaled, scaled);
    if (!sum.high) {
      sum = square;
      continue;
    }
    Pair next = two_sum(l, sum.high, square.high);
    sum = {next.high, l.b.CreateFAdd(next.low, l.b.CreateFAdd(sum.low, square.low))};
  }
  return sum;
}

/// An infinity among the numbers counts more than a NaN.
llvm::Value* unless_infinite(Lowering& l, Args x, llvm::Value* value, llvm::Value* limit) {
  llvm::Value* any = l.b.getFalse();
  for (llvm::Value* v : x) any = l.b.CreateOr(any, own_isinf(l, v));
  return l.b.CreateSelect(any, limit, value);
}

llvm::Value* norm(Lowering& l, Args x, bool reciprocal) {
  llvm::Type* type = x[0]->getType();
  llvm::SmallVector<llvm::Value*, 4> wide;
  for (llvm::Value* v : x) wide.push_back(l.b.CreateFPExt(v, l.b.getDoubleTy()));
  llvm::Value* limit = reciprocal ? number(wide[0], 0) : llvm::ConstantFP::getInfinity(l.b.getDoubleTy());
  llvm::Value* result;
  if (type->isFloatTy()) {
    llvm::Value* sum = number(wide[0], 0);
    for (llvm::Value* v : wide) sum = l.b.CreateFAdd(sum, l.b.CreateFMul(v, v));
    result = sqrt_of(l, sum);
    if (reciprocal) result = l.b.CreateFDiv(number(sum, 1), result);
    return l.b.CreateFPTrunc(unless_infinite(l, wide, result, limit), type);
  }
  Scale scale = scale_of(l, wide);
  Pair sum = sum_of_squares(l, wide, scale.factor);
  llvm::Value* zero = l.b.CreateFCmpOEQ(sum.high, number(sum.high, 0));
  if (reciprocal) {
    result = l.b.CreateFMul(reciprocal_root(l, sum), scale.factor);
    result = l.b.CreateSelect(zero, llvm::ConstantFP::getInfinity(type), result);
  } else {
    result = l.b.CreateFMul(sqrt_of(l, l.b.CreateFAdd(sum.high, sum.low)), scale.inverse);
  }
  return unless_infinite(l, wide, result, limit);
}

llvm::Value* own_hypot(Lowering& l, Args x) { return norm(l, x, false); }
llvm::Value* own_rhypot(Lowering& l, Args x) { return norm(l, x, true); }
llvm::Value* own_pow(Lowering& l, Args x) { return l.pow(x[0], x[1]); }

// ---- Where libclc's fp32 are slow

using OfFloat = llvm::Value* (*)(Lowering&, llvm::Value*);

llvm::Value* by_float(Lowering& l, const char* name, llvm::Value* x, OfFloat of_float) {
  return x->getType()->isFloatTy() ? of_float(l, x) : l.libclc(name, x);
}
llvm::Value* own_exp(Lowering& l, Args x) {
  return by_float(l, "exp", x[0], [](Lowering& m, llvm::Value* y) { return power_of(m, 1.4426950408889634, y); });
}
llvm::Value* own_exp10(Lowering& l, Args x) {
  return by_float(l, "exp10", x[0], [](Lowering& m, llvm::Value* y) { return power_of(m, 3.3219280948873623, y); });
}
llvm::Value* own_tanh(Lowering& l, Args x) { return by_float(l, "tanh", x[0], tanh_f32); }
llvm::Value* own_erf(Lowering& l, Args x) { return by_float(l, "erf", x[0], erf_f32); }

// ---- Where libclc's are not exact or not safe enough

/// In fp64, whose errors do not show in fp32.
llvm::Value* by_fp64(Lowering& l, const char* name, llvm::Value* x) {
  if (x->getType()->isDoubleTy()) return l.libclc(name, x);
  llvm::Value* wide = l.libclc(name, l.b.CreateFPExt(x, l.b.getDoubleTy()));
  return l.b.CreateFPTrunc(wide, x->getType());
}
llvm::Value* own_sinpi(Lowering& l, Args x) { return by_fp64(l, "sinpi", x[0]); }
llvm::Value* own_cospi(Lowering& l, Args x) { return by_fp64(l, "cospi", x[0]); }

llvm::Value* logarithm_or_libclc(Lowering& l, const char* name, llvm::Value* x) {
  return x->getType()->isFloatTy() ? logarithm(l, name, x) : l.libclc(name, x);
}
llvm::Value* own_log2(Lowering& l, Args x) { return logarithm_or_libclc(l, "log2", x[0]); }
llvm::Value* own_log10(Lowering& l, Args x) { return logarithm_or_libclc(l, "log10", x[0]); }
llvm::Value* own_log1p(Lowering& l, Args x) { return logarithm_or_libclc(l, "log1p", x[0]); }

/// log(2^e m) = e log 2 + log1p(m - 1) with m in [1/sqrt 2, sqrt 2); e times the upper part of log 2 is exact.
llvm::Value* own_log(Lowering& l, Args args) {
  if (args[0]->getType()->isFloatTy()) return logarithm(l, "log", args[0]);
  llvm::Value *x = args[0], *small = l.b.CreateFCmpOLT(x, number(x, 0x1p-1022));
  llvm::Value* bits =
      l.b.CreateBitCast(l.b.CreateSelect(small, l.b.CreateFMul(x, number(x, 0x1p54)), x), l.b.getInt64Ty());
  llvm::Value* fraction = l.b.CreateAnd(bits, l.b.getInt64((uint64_t(1) << 52) - 1));
  llvm::Value* m = l.b.CreateBitCast(l.b.CreateOr(fraction, l.b.getInt64(uint64_t(1023) << 52)), l.b.getDoubleTy());
  llvm::Value* large = l.b.CreateFCmpOGT(m, number(m, 1.4142135623730951));
  m = l.b.CreateSelect(large, l.b.CreateFMul(m, number(m, 0.5)), m);
  llvm::Value* e = l.b.CreateTrunc(l.b.CreateLShr(bits, 52), l.b.getInt32Ty());
  e = l.b.CreateSub(e, l.b.CreateSelect(small, l.i32(1023 + 54), l.i32(1023)));
  e = l.b.CreateSIToFP(l.b.CreateAdd(e, l.b.CreateZExt(large, l.b.getInt32Ty())), l.b.getDoubleTy());
  llvm::Value* rest = l.libclc("log1p", l.b.CreateFSub(m, number(m, 1)));
  rest = fma(l, e, number(e, 0x1.ef35793c7673p-45), rest);
  llvm::Value* result = fma(l, e, number(e, 0x1.62e42fefa38p-1), rest);
  llvm::Constant* infinity = llvm::ConstantFP::getInfinity(x->getType());
  result =
      l.b.CreateSelect(l.b.CreateFCmpOEQ(x, number(x, 0)), llvm::ConstantFP::getInfinity(x->getType(), true), result);
  result = l.b.CreateSelect(l.b.CreateFCmpOLT(x, number(x, 0)), llvm::ConstantFP::getNaN(x->getType()), result);
  llvm::Value* infinite = l.b.CreateFCmpOEQ(x, infinity);
  return l.b.CreateSelect(l.b.CreateOr(own_isnan(l, x), infinite), x, result);
}

llvm::Value* own_erfc(Lowering& l, Args x) { return by_fp64(l, "erfc", x[0]); }

/// libclc's look up a table by the argument as an integer, which larger ones do not fit. From 800 on the result is
/// infinite.
llvm::Value* hyperbolic(Lowering& l, const char* name, llvm::Value* x) {
  llvm::Value* limited = l.b.CreateBinaryIntrinsic(llvm::Intrinsic::minnum, size_of(l, x), number(x, 800));
  limited = l.b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, limited, x);
  return l.b.CreateSelect(own_isnan(l, x), x, l.libclc(name, limited));
}
llvm::Value* own_sinh(Lowering& l, Args x) { return hyperbolic(l, "sinh", x[0]); }
llvm::Value* own_cosh(Lowering& l, Args x) { return hyperbolic(l, "cosh", x[0]); }

/// libclc's makes numbers of NaNs, and zeros of fp32's denormals: for fp32 the product with the power of two, of fp64,
/// is rounded once instead.
llvm::Value* own_ldexp(Lowering& l, Args x) {
  if (x[0]->getType()->isDoubleTy()) return l.b.CreateSelect(own_isfinite(l, x), l.libclc("ldexp", x), x[0]);
  llvm::Value* n = l.b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x[1], l.i32(-300));
  n = l.b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, n, l.i32(300));
  llvm::Value* bits = l.b.CreateShl(l.b.CreateZExt(l.b.CreateAdd(n, l.i32(1023)), l.b.getInt64Ty()), 52);
  llvm::Value* power = l.b.CreateBitCast(bits, l.b.getDoubleTy());
  return l.b.CreateFPTrunc(l.b.CreateFMul(l.b.CreateFPExt(x[0], l.b.getDoubleTy()), power), x[0]->getType());
}

struct OwnFunction {
  std::string_view name;
  llvm::Value* (*make)(Lowering&, Args);
};

constexpr OwnFunction kOwn[] = {
    {"exp", own_exp},           {"exp10", own_exp10}, {"tanh", own_tanh},       {"erf", own_erf},
    {"log", own_log},           {"log2", own_log2},   {"log10", own_log10},     {"log1p", own_log1p},
    {"sinpi", own_sinpi},       {"cospi", own_cospi}, {"ldexp", own_ldexp},     {"erfc", own_erfc},
    {"sinh", own_sinh},         {"cosh", own_cosh},   {"bits", own_bits},       {"brev", own_brev},
    {"clz", own_clz},           {"ffs", own_ffs},     {"hypot", own_hypot},     {"ilogb", own_ilogb},
    {"isfinite", own_isfinite}, {"isinf", own_isinf}, {"isnan", own_isnan},     {"llround", own_llround},
    {"popc", own_popc},         {"pow", own_pow},     {"rcbrt", own_rcbrt},     {"rhypot", own_rhypot},
    {"round", own_round},       {"rsqrt", own_rsqrt}, {"signbit", own_signbit},
};

/// The function of fp64 as one of the module's, made when it is first called: its body is long.
llvm::Function* special_function(Lowering& l, const std::string& body, llvm::ArrayRef<llvm::Type*> types) {
  const std::string name = "tegula.special." + body;
  if (llvm::Function* known = l.module.getFunction(name)) return known;
  auto* f = llvm::Function::Create(llvm::FunctionType::get(l.b.getDoubleTy(), types, false),
                                   llvm::GlobalValue::InternalLinkage, name, l.module);
  f->addFnAttr(llvm::Attribute::AlwaysInline);
  f->setDoesNotThrow();
  Builder::InsertPointGuard guard(l.b);
  l.b.SetInsertPoint(llvm::BasicBlock::Create(l.context, "", f));
  l.b.SetCurrentDebugLocation({});
  llvm::SmallVector<llvm::Value*, 2> arguments;
  for (llvm::Argument& argument : f->args()) arguments.push_back(&argument);
  l.b.CreateRet(find_special(body)(l, arguments));
  return f;
}

llvm::Value* special(Lowering& l, const ir::LibdeviceFunction& f, Args x) {
  llvm::SmallVector<llvm::Value*, 2> wide;
  llvm::SmallVector<llvm::Type*, 2> types;
  for (llvm::Value* v : x) {
    wide.push_back(v->getType()->isFloatTy() ? l.b.CreateFPExt(v, l.b.getDoubleTy()) : v);
    types.push_back(wide.back()->getType());
  }
  llvm::Value* result = l.b.CreateCall(special_function(l, f.body, types), wide);
  return f.result == Elem::F32 ? l.b.CreateFPTrunc(result, l.b.getFloatTy()) : result;
}

llvm::Value* call(Lowering& l, const ir::LibdeviceFunction& f, Args x) {
  llvm::Type* result = l.element_type(f.result);
  switch (f.kind) {
    case ir::LibdeviceFunction::Body::Libclc:
      return l.libclc(f.body, x, result);
    case ir::LibdeviceFunction::Body::Ptx:
      return instructions(l, fmt::format("{}.{}", f.name, elem_info(f.params[0]).text), f.body, result, x);
    case ir::LibdeviceFunction::Body::Special:
      return special(l, f, x);
    case ir::LibdeviceFunction::Body::Own:
      for (const OwnFunction& own : kOwn)
        if (own.name == f.body) return own.make(l, x);
  }
  TEGULA_UNREACHABLE("libdevice.def: '{}' has no body '{}'", f.name, f.body);
}

}  // namespace

void lower_Libdevice(Lowering& l, const ir::Op& op) {
  std::vector<Elem> elems;
  for (const ir::Value* x : op.operands) elems.push_back(x->type.elem);
  const ir::LibdeviceFunction* f = ir::find_libdevice(op.get(ir::attr::function), elems);
  Builder::FastMathFlagGuard guard(l.b);
  l.b.clearFastMathFlags();  // each rounding counts
  l.set(op.result(), l.map_registers(op.result()->type, [&](int r) {
    llvm::SmallVector<llvm::Value*, 4> x;
    for (const ir::Value* operand : op.operands) x.push_back(l.get(operand)[r]);
    return call(l, *f, x);
  }));
}

}  // namespace tegula::lower
