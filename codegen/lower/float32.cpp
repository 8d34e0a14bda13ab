#include "codegen/lower/float32.h"

#include <array>

namespace tegula::lower {

namespace {

using llvm::Value;

llvm::Constant* number(Lowering& l, double value) { return llvm::ConstantFP::get(l.b.getFloatTy(), value); }
Value* fma(Lowering& l, Value* x, Value* y, Value* z) {
  return l.b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
}
Value* size_of(Lowering& l, Value* x) { return l.b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }
Value* with_sign(Lowering& l, Value* size, Value* sign) {
  return l.b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, size, sign);
}

/// c[0] + c[1] x + c[2] x^2 + ...
template <size_t N>
Value* polynomial(Lowering& l, const std::array<Value*, N>& c, Value* x) {
  Value* sum = c[N - 1];
  for (size_t k = N - 1; k-- > 0;) sum = fma(l, sum, x, c[k]);
  return sum;
}
template <size_t N>
std::array<Value*, N> numbers(Lowering& l, const std::array<double, N>& values) {
  std::array<Value*, N> made;
  for (size_t k = 0; k < N; ++k) made[k] = number(l, values[k]);
  return made;
}

// Minimax polynomials, found by Lawson's iteration; each coefficient is rounded to fp32 before the next ones are found.

/// (tanh(x) / x - 1) / x^2 of x^2 for |x| <= 5/8.
constexpr std::array<double, 5> kTanh = {-0x1.555532p-2, 0x1.1107p-3, -0x1.b837e2p-5, 0x1.520c42p-6, -0x1.7575b2p-8};
/// erf(x) / x - 1 of x^2 for |x| <= 1.
constexpr std::array<double, 7> kErfNear = {0x1.06eba8p-3, -0x1.81273ep-2,  0x1.ce2ce6p-4, -0x1.b7f71ap-6,
                                            0x1.53f224p-8, -0x1.a3515ep-11, 0x1.4771fcp-14};
/// log2(1 - erf(x)) for 1 <= x <= 4.
constexpr std::array<double, 7> kErfFar = {-0x1.024ad8p-11, -0x1.a04490p+0, -0x1.d75f32p-1, -0x1.30a4bcp-3,
                                           0x1.02182cp-5,   -0x1.16b21ep-8, 0x1.19f28cp-12};

}  // namespace

namespace {

// 2^n by the bits of a float times 2^f by the hardware. n is x log2 b rounded and limited to [-126, 126], the rest is
// f, which large x leave to the hardware; so infinities, NaNs and denormal results need nothing of their own.
Value* power_of_body(Lowering& l, double log2_b, Value* x) {
  const double high = float(log2_b), low = float(log2_b - high);
  // (n + 126) / 252, which the multiply-add limits; then n + 127 in the low bits of a float that has no fraction.
  Value* part = l.hw("fma_sat_f32", {x, number(l, float(log2_b / 252)), number(l, 0.5)});
  Value* shifted = fma(l, part, number(l, 252), number(l, 0x1.8p23 + 1));
  Value* minus_n = l.b.CreateFSub(number(l, 0x1.8p23 + 127), shifted);
  Value* f = fma(l, x, number(l, low), fma(l, x, number(l, high), minus_n));
  Value* bits = l.b.CreateShl(l.b.CreateBitCast(shifted, l.b.getInt32Ty()), 23);
  Value* power = l.b.CreateBitCast(bits, x->getType());
  return l.b.CreateFMul(l.hw("ex2_approx_ftz_f32", {f}), power);
}

// A polynomial near 0, else 1 - 2 / (e^2|x| + 1).
Value* tanh_body(Lowering& l, Value* x) {
  Value *size = size_of(l, x), *square = l.b.CreateFMul(x, x);
  Value* near = fma(l, l.b.CreateFMul(square, polynomial(l, numbers(l, kTanh), square)), x, x);
  Value* power = l.hw("ex2_approx_ftz_f32", {l.b.CreateFMul(size, number(l, 2 * 1.4426950408889634))});
  Value* inverse = l.hw("rcp_approx_ftz_f32", {l.b.CreateFAdd(power, number(l, 1))});
  Value* far = with_sign(l, fma(l, number(l, -2), inverse, number(l, 1)), x);
  return l.b.CreateSelect(l.b.CreateFCmpOLT(size, number(l, 0.625)), near, far);
}

// x + x P(x^2) up to 1, else 1 - 2^Q(|x|): one chain of multiply-adds with the coefficients of either.
Value* erf_body(Lowering& l, Value* x) {
  Value* size = size_of(l, x);
  Value* is_far = l.b.CreateFCmpOGT(size, number(l, 1));
  Value* limited = l.b.CreateBinaryIntrinsic(llvm::Intrinsic::minnum, size, number(l, 4));
  std::array<Value*, 7> coefficients;
  for (size_t k = 0; k < coefficients.size(); ++k)
    coefficients[k] = l.b.CreateSelect(is_far, number(l, kErfFar[k]), number(l, kErfNear[k]));
  Value* p = polynomial(l, coefficients, l.b.CreateSelect(is_far, limited, l.b.CreateFMul(x, x)));
  Value* far = with_sign(l, l.b.CreateFSub(number(l, 1), l.hw("ex2_approx_ftz_f32", {p})), x);
  return l.b.CreateSelect(is_far, far, fma(l, p, x, x));
}

}  // namespace

Value* power_of(Lowering& l, double log2_b, Value* x) {
  return l.own_function(fmt::format("power{}", log2_b), x, [&](Value* y) { return power_of_body(l, log2_b, y); });
}
Value* tanh_f32(Lowering& l, Value* x) {
  return l.own_function("tanh", x, [&](Value* y) { return tanh_body(l, y); });
}
Value* erf_f32(Lowering& l, Value* x) {
  return l.own_function("erf", x, [&](Value* y) { return erf_body(l, y); });
}

}  // namespace tegula::lower
