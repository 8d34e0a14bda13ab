#include "codegen/lower/special.h"

#include <numbers>

namespace tegula::lower {

namespace {

/// Polynomials on equally wide pieces from `low` on. A piece has its centre (two doubles), then the coefficients of
/// x - centre, lowest first.
struct Pieces {
  const char* name;
  const double* values;
  double low, inverse_width;
  int count, degree;
  int stride() const { return degree + 3; }
};

#include "codegen/lower/special_functions.inc"

using Args = llvm::ArrayRef<llvm::Value*>;

/// An fp64 value under construction, with the operators of arithmetic.
struct Real {
  Lowering* l;
  llvm::Value* v;

  Real number(double x) const { return {l, llvm::ConstantFP::get(v->getType(), x)}; }
};

Real operator+(Real x, Real y) { return {x.l, x.l->b.CreateFAdd(x.v, y.v)}; }
Real operator-(Real x, Real y) { return {x.l, x.l->b.CreateFSub(x.v, y.v)}; }
Real operator*(Real x, Real y) { return {x.l, x.l->b.CreateFMul(x.v, y.v)}; }
Real operator/(Real x, Real y) { return {x.l, x.l->b.CreateFDiv(x.v, y.v)}; }
Real operator-(Real x) { return {x.l, x.l->b.CreateFNeg(x.v)}; }
Real operator+(Real x, double y) { return x + x.number(y); }
Real operator-(Real x, double y) { return x - x.number(y); }
Real operator*(Real x, double y) { return x * x.number(y); }
Real operator+(double x, Real y) { return y.number(x) + y; }
Real operator-(double x, Real y) { return y.number(x) - y; }
Real operator*(double x, Real y) { return y.number(x) * y; }
Real operator/(double x, Real y) { return y.number(x) / y; }

llvm::Value* less(Real x, double y) { return x.l->b.CreateFCmpOLT(x.v, x.number(y).v); }
Real select(llvm::Value* condition, Real x, Real y) { return {x.l, x.l->b.CreateSelect(condition, x.v, y.v)}; }
Real fma(Real x, Real y, Real z) {
  return {x.l, x.l->b.CreateIntrinsic(llvm::Intrinsic::fma, {x.v->getType()}, {x.v, y.v, z.v})};
}
Real size(Real x) { return {x.l, x.l->b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x.v)}; }
Real root(Real x) { return {x.l, x.l->b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x.v)}; }
Real call(const char* function, Real x) { return {x.l, x.l->libclc(function, x.v)}; }
Real sign_of(Real x, Real sign) { return {x.l, x.l->b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, x.v, sign.v)}; }
/// x where it is a NaN, else y.
Real keep_nan(Real x, Real y) { return select(x.l->b.CreateFCmpUNO(x.v, x.v), x, y); }

llvm::GlobalVariable* table(Lowering& l, const Pieces& p) {
  const std::string name = fmt::format("tegula.table.{}", p.name);
  if (auto* known = l.module.getGlobalVariable(name, true)) return known;
  auto* data = llvm::ConstantDataArray::get(l.context, llvm::ArrayRef(p.values, size_t(p.count * p.stride())));
  auto* global =
      new llvm::GlobalVariable(l.module, data->getType(), true, llvm::GlobalValue::InternalLinkage, data, name);
  global->setAlignment(llvm::Align(16));
  return global;
}

/// The polynomial of x's piece; outside of all pieces that of the nearest.
Real evaluate(const Pieces& p, Real x) {
  Builder& b = x.l->b;
  Real at = (x - p.low) * p.inverse_width;
  at = select(less(at, p.count), at, at.number(p.count - 1));  // so for a NaN
  at = select(less(at, 0), at.number(0), at);
  llvm::Value* piece = b.CreateFPToSI(at.v, b.getInt32Ty());
  llvm::Value* begin = b.CreateMul(piece, x.l->i32(p.stride()));
  llvm::GlobalVariable* values = table(*x.l, p);
  auto value = [&](int i) {
    llvm::Value* address = b.CreateInBoundsGEP(b.getDoubleTy(), values, b.CreateAdd(begin, x.l->i32(i)));
    return Real{x.l, b.CreateLoad(b.getDoubleTy(), address)};
  };
  Real t = (x - value(0)) - value(1), sum = value(p.degree + 2);
  for (int k = p.degree; k-- > 0;) sum = fma(sum, t, value(k + 2));
  return sum;
}

// ---- Bessel functions of the first and second kind. Hankel's expansion from 8 on: sqrt(2 / pi x) (P cos c - Q sin c)
// with c = x - (2 order + 1) pi / 4, whose sine and cosine follow from those of x.

struct Hankel {
  Real first, second;  ///< J and Y
};

Hankel hankel(Real x, bool order_one) {
  Real u = 8 / x, z = u * u, p = evaluate(order_one ? kP1Pieces : kP0Pieces, z);
  Real q = u * evaluate(order_one ? kQ1Pieces : kQ0Pieces, z), s = call("sin", x), c = call("cos", x);
  Real factor = root((1 / std::numbers::pi) / x);  // the root of 1/2 is in the sine and cosine
  Real sum = s + c, difference = s - c;
  Real cosine = order_one ? difference : sum, sine = order_one ? -sum : difference;
  return {factor * (p * cosine - q * sine), factor * (p * sine + q * cosine)};
}

/// Infinite arguments, whose sine has no value, give 0.
Real beyond(Real x, Real value) {
  Real infinity{x.l, llvm::ConstantFP::getInfinity(x.v->getType())};
  return select(x.l->b.CreateFCmpOEQ(x.v, infinity.v), x.number(0), value);
}

Real bessel_j(Real x, bool order_one) {
  Real positive = size(x);
  Real value = select(less(positive, 8), evaluate(order_one ? kJ1Pieces : kJ0Pieces, positive),
                      beyond(positive, hankel(positive, order_one).first));
  value = keep_nan(x, value);
  if (!order_one) return value;
  Real opposite = -value;
  return select(less(x, 0), opposite, value);
}

/// Near 0 with the logarithm that it has there: Y = 2/pi (log x) J + ...
Real bessel_y(Real x, bool order_one) {
  constexpr double k = 2 / std::numbers::pi;
  Real z = x * x, logarithm = k * call("log", x);
  Real near = order_one ? logarithm * bessel_j(x, true) + (x * evaluate(kY1RestPieces, z) - k / x)
                        : logarithm * bessel_j(x, false) + evaluate(kY0RestPieces, z);
  Real value =
      select(less(x, 8), evaluate(order_one ? kY1Pieces : kY0Pieces, x), beyond(x, hankel(x, order_one).second));
  value = select(less(x, 0.5), near, value);
  Real infinity{x.l, llvm::ConstantFP::getInfinity(x.v->getType())}, nan{x.l, llvm::ConstantFP::getNaN(x.v->getType())};
  value = select(x.l->b.CreateFCmpOEQ(x.v, x.number(0).v), -infinity, value);
  return keep_nan(x, select(less(x, 0), nan, value));
}

llvm::Value* special_j0(Lowering& l, Args x) { return bessel_j({&l, x[0]}, false).v; }
llvm::Value* special_j1(Lowering& l, Args x) { return bessel_j({&l, x[0]}, true).v; }
llvm::Value* special_y0(Lowering& l, Args x) { return bessel_y({&l, x[0]}, false).v; }
llvm::Value* special_y1(Lowering& l, Args x) { return bessel_y({&l, x[0]}, true).v; }

/// A loop that carries values: `step` gets the counter, which runs from `first` by `by` while it is not `last`, and the
/// values, and gives the next ones.
std::vector<Real> repeat(Lowering& l, llvm::Value* first, llvm::Value* last, int by, std::vector<Real> values,
                         const std::function<std::vector<Real>(llvm::Value*, const std::vector<Real>&)>& step) {
  llvm::Function* function = l.b.GetInsertBlock()->getParent();
  auto* before = l.b.GetInsertBlock();
  auto* head = llvm::BasicBlock::Create(l.context, "head", function);
  auto* body = llvm::BasicBlock::Create(l.context, "body", function);
  auto* after = llvm::BasicBlock::Create(l.context, "after", function);
  l.b.CreateBr(head);
  l.b.SetInsertPoint(head);
  llvm::PHINode* i = l.b.CreatePHI(l.b.getInt32Ty(), 2);
  i->addIncoming(first, before);
  std::vector<llvm::PHINode*> carried;
  std::vector<Real> current;
  for (Real& x : values) {
    carried.push_back(l.b.CreatePHI(x.v->getType(), 2));
    carried.back()->addIncoming(x.v, before);
    current.push_back({&l, carried.back()});
  }
  l.b.CreateCondBr(by > 0 ? l.b.CreateICmpSLT(i, last) : l.b.CreateICmpSGT(i, last), body, after);
  l.b.SetInsertPoint(body);
  std::vector<Real> next = step(i, current);
  i->addIncoming(l.b.CreateAdd(i, l.i32(by)), l.b.GetInsertBlock());
  for (size_t k = 0; k < next.size(); ++k) carried[k]->addIncoming(next[k].v, l.b.GetInsertBlock());
  l.b.CreateBr(head);
  l.b.SetInsertPoint(after);
  return current;
}

Real to_real(Lowering& l, llvm::Value* i) { return {&l, l.b.CreateSIToFP(i, l.b.getDoubleTy())}; }

/// C(k + 1) = 2 k / x C(k) - C(k - 1), from orders 0 and 1 up to n >= 1.
Real upward(Lowering& l, llvm::Value* n, Real x, Real zero, Real one) {
  Real twice = 2 / x;
  return repeat(l, l.i32(1), n, 1, {zero, one}, [&](llvm::Value* k, const std::vector<Real>& c) {
    return std::vector<Real>{c[1], to_real(l, k) * twice * c[1] - c[0]};
  })[1];
}

/// Miller's algorithm: the recurrence downwards from far above n, where any start does, scaled so that
/// J0 + 2 J2 + 2 J4 + ... is 1 (Abramowitz and Stegun, 9.12).
Real downward(Lowering& l, llvm::Value* n, Real x) {
  constexpr double kLarge = 0x1p200;
  Real order = to_real(l, n);
  Real above = order + root(200 * order) + 20;
  llvm::Value* start = l.b.CreateAnd(l.b.CreateFPToSI(above.v, l.b.getInt32Ty()), l.i32(~1));
  Real twice = 2 / x, zero = x.number(0);
  // next above, at hand, the sum of even orders, the result
  auto end = repeat(
      l, start, l.i32(0), -1, {zero, x.number(0x1p-200), zero, zero}, [&](llvm::Value* k, const std::vector<Real>& c) {
        Real lower = to_real(l, k) * twice * c[1] - c[0];  // of order k - 1
        Real factor = select(l.b.CreateFCmpOGT(size(lower).v, x.number(kLarge).v), x.number(1 / kLarge), x.number(1));
        Real result = select(l.b.CreateICmpEQ(k, n), c[1], c[3]);
        llvm::Value* odd = l.b.CreateICmpEQ(l.b.CreateAnd(k, l.i32(1)), l.i32(1));
        Real sum = c[2] + select(odd, lower, zero);  // k - 1 is even
        return std::vector<Real>{c[1] * factor, lower * factor, sum * factor, result * factor};
      });
  Real total = 2 * end[2] - end[1];  // order 0 counts once
  return end[3] / total;
}

/// An odd order changes the sign where the order, or for J the argument, is negative.
Real with_sign(Lowering& l, llvm::Value* n, llvm::Value* negative, Real x) {
  llvm::Value* odd = l.b.CreateICmpEQ(l.b.CreateAnd(n, l.i32(1)), l.i32(1));
  return select(l.b.CreateAnd(odd, negative), -x, x);
}

llvm::Value* special_jn(Lowering& l, Args args) {
  Real given{&l, args[1]}, x = size(given);
  llvm::Value* n = l.b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, args[0], l.b.getFalse());
  llvm::Value* negative = l.b.CreateXor(less(given, 0), l.b.CreateICmpSLT(args[0], l.i32(0)));
  Real zero = bessel_j(x, false), one = bessel_j(x, true);
  llvm::Value* far = l.b.CreateFCmpOGT(x.v, to_real(l, n).v);
  // Neither recurrence runs where it is not the one, nor for an argument without a value.
  llvm::Value* none = l.i32(0);
  llvm::Value* number = l.b.CreateFCmpOGT(x.v, x.number(1e-150).v);  // from order 2 on they are 0 below
  Real up = upward(l, l.b.CreateSelect(far, n, none), x, zero, one);
  llvm::Value* near = l.b.CreateAnd(number, l.b.CreateNot(far));
  Real down = downward(l, l.b.CreateSelect(near, n, none), select(near, x, x.number(1)));
  Real value = select(far, up, select(near, down, x.number(0)));
  Real infinity{&l, llvm::ConstantFP::getInfinity(x.v->getType())};
  value = select(l.b.CreateFCmpOEQ(x.v, infinity.v), x.number(0), value);
  value = select(l.b.CreateICmpEQ(n, l.i32(1)), one, value);
  value = select(l.b.CreateICmpEQ(n, l.i32(0)), zero, value);
  return keep_nan(x, with_sign(l, n, negative, value)).v;
}

llvm::Value* special_yn(Lowering& l, Args args) {
  Real x{&l, args[1]};
  llvm::Value* n = l.b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, args[0], l.b.getFalse());
  Real zero = bessel_y(x, false), one = bessel_y(x, true),
       minus{&l, llvm::ConstantFP::getInfinity(x.v->getType(), true)};
  Real value = upward(l, n, x, zero, one);
  // Once infinite it stays so; the recurrence would make a NaN of it.
  llvm::Value* in_domain = l.b.CreateFCmpOGE(x.v, x.number(0).v);
  value = select(l.b.CreateAnd(l.b.CreateFCmpUNO(value.v, value.v), in_domain), minus, value);
  Real infinity{&l, llvm::ConstantFP::getInfinity(x.v->getType())};
  value = select(l.b.CreateFCmpOEQ(x.v, infinity.v), x.number(0), value);
  value = select(l.b.CreateICmpEQ(n, l.i32(0)), zero, value);
  return with_sign(l, n, l.b.CreateICmpSLT(args[0], l.i32(0)), value).v;
}

// ---- Modified Bessel functions of the first kind: times e^-x, from 8 on times the root of x as well.

Real bessel_i(Real x, bool order_one) {
  Real positive = size(x), half = call("exp", positive * 0.5);  // two halves: the whole may be too large
  Real near = evaluate(order_one ? kI1Pieces : kI0Pieces, positive);
  Real far = evaluate(order_one ? kI1TailPieces : kI0TailPieces, 8 / positive) / root(positive);
  Real scaled = select(less(positive, 8), near, far);
  Real value = scaled * half * half;
  Real infinity{x.l, llvm::ConstantFP::getInfinity(x.v->getType())};
  value = select(x.l->b.CreateFCmpOEQ(positive.v, infinity.v), infinity, value);
  return keep_nan(x, order_one ? select(less(x, 0), -value, value) : value);
}

llvm::Value* special_i0(Lowering& l, Args x) { return bessel_i({&l, x[0]}, false).v; }
llvm::Value* special_i1(Lowering& l, Args x) { return bessel_i({&l, x[0]}, true).v; }

// ---- The error function's kin

/// e^(factor x^2), with the rounding of the square made good.
Real exp_of_square(Real x, double factor) {
  Real square = x * x, rest = fma(x, x, -square);
  Real e = call("exp", square * factor);
  // Where the exponential is 0 or infinite there is nothing to correct.
  Real corrected = fma(e, rest * factor, e);
  return select(less(size(e), 0x1p1000), corrected, e);
}

/// e^(x^2) erfc(x): for x >= 0 as a function of 4 / (4 + x), over 1 + 2 x; below 0 by 2 e^(x^2) - erfcx(-x).
Real erfcx(Real x) {
  Real positive = size(x);
  Real value = evaluate(kErfcxPieces, 4 / (4 + positive)) / (1 + 2 * positive);
  return keep_nan(x, select(less(x, 0), 2 * exp_of_square(x, 1) - value, value));
}

/// erfinv(x) / x as a function of -log(1 - x^2).
Real inverse_over_x(Real one_minus_square) {
  Real w = -call("log", one_minus_square);
  return select(less(w, 40), evaluate(kErfInvPieces, w), evaluate(kErfInvTailPieces, root(w)));
}

llvm::Value* special_erfcx(Lowering& l, Args x) { return erfcx({&l, x[0]}).v; }

Real at_ends(Real value, Real at, Real end) {
  Real infinity{value.l, llvm::ConstantFP::getInfinity(value.v->getType())};
  return select(value.l->b.CreateFCmpOEQ(at.v, end.v), infinity, value);
}

llvm::Value* special_erfinv(Lowering& l, Args args) {
  Real x{&l, args[0]}, value = x * inverse_over_x((1 - x) * (1 + x));
  return sign_of(at_ends(size(value), size(x), x.number(1)), x).v;
}

/// For 0 and 2 infinite; NaN outside.
Real erfcinv(Real x) {
  Real value = (1 - x) * inverse_over_x(x * (2 - x));
  value = at_ends(value, x, x.number(0));
  Real minus{x.l, llvm::ConstantFP::getInfinity(x.v->getType(), true)};
  return select(x.l->b.CreateFCmpOEQ(x.v, x.number(2).v), minus, value);
}

llvm::Value* special_erfcinv(Lowering& l, Args x) { return erfcinv({&l, x[0]}).v; }
llvm::Value* special_normcdfinv(Lowering& l, Args args) {
  Real x{&l, args[0]};
  return (-std::numbers::sqrt2 * erfcinv(2 * x)).v;
}

/// erfc(-x / sqrt 2) / 2; far below 0 by erfcx, as erfc there depends on its argument too much.
llvm::Value* special_normcdf(Lowering& l, Args args) {
  Real x{&l, args[0]}, y = x * (-1 / std::numbers::sqrt2);
  Real below = 0.5 * exp_of_square(x, -0.5) * erfcx(y);
  return keep_nan(x, select(less(x, -1), below, 0.5 * call("erfc", y))).v;
}

// ---- The gamma function: Stirling's series from 20 on, which the recurrence reaches from below, and the reflection of
// negative arguments (Abramowitz and Stegun, 6.1.37, 6.1.15, 6.1.17).

/// 1 + 1 / 12 x + ..., what is left of gamma(x) over its leading term; x >= 20.
Real stirling_series(Real x) {
  constexpr double c[] = {1,
                          1. / 12,
                          1. / 288,
                          -139. / 51840,
                          -571. / 2488320,
                          163879. / 209018880,
                          5246819. / 75246796800,
                          -534703531. / 902961561600};
  Real u = 1 / x, sum = x.number(c[7]);
  for (int k = 7; k-- > 0;) sum = fma(sum, u, x.number(c[k]));
  return sum;
}

/// gamma(x) of x > 0, or 1 / gamma(x): x^(x - 1/2) e^-x in two factors, since the power alone may be too large.
Real positive_gamma(Real x, bool inverse) {
  // gamma(x) = gamma(x + n) / (x (x + 1) ... (x + n - 1))
  Real shifted = x, product = x.number(1);
  for (int k = 0; k < 20; ++k) {
    llvm::Value* low = less(shifted, 20);
    product = select(low, product * shifted, product);
    shifted = select(low, shifted + 1, shifted);
  }
  Real half{x.l, x.l->libclc("pow", {shifted.v, (shifted * 0.5 - 0.25).v})}, e = call("exp", shifted);
  Real series = std::sqrt(2 * std::numbers::pi) * stirling_series(shifted);
  return inverse ? e / half / half / series * product : half * (half / e) * series / product;
}

llvm::Value* special_tgamma(Lowering& l, Args args) {
  Real x{&l, args[0]}, positive = size(x);
  Real limited = select(less(positive, 172), positive, x.number(172));  // beyond it is infinite
  Real above = positive_gamma(limited, false);
  Real reflected = -std::numbers::pi / (x * call("sinpi", x));  // over gamma(-x)
  Real far = select(less(positive, 190), positive, x.number(190));
  Real below = reflected * positive_gamma(far, true);
  Real infinity{&l, llvm::ConstantFP::getInfinity(x.v->getType())}, nan{&l, llvm::ConstantFP::getNaN(x.v->getType())};
  Real whole{&l, l.b.CreateUnaryIntrinsic(llvm::Intrinsic::floor, x.v)};
  below = select(l.b.CreateFCmpOEQ(whole.v, x.v), nan, below);
  Real value = select(less(x, 0), below, select(less(x, 171.7), above, infinity));
  value = select(less(positive, 1e-20), 1 / x, value);
  return keep_nan(x, value).v;
}

struct Row {
  std::string_view name;
  SpecialFunction make;
};
constexpr Row kRows[] = {
    {"erfcinv", special_erfcinv}, {"erfcx", special_erfcx},
    {"erfinv", special_erfinv},   {"i0", special_i0},
    {"i1", special_i1},           {"j0", special_j0},
    {"j1", special_j1},           {"jn", special_jn},
    {"normcdf", special_normcdf}, {"normcdfinv", special_normcdfinv},
    {"tgamma", special_tgamma},   {"y0", special_y0},
    {"y1", special_y1},           {"yn", special_yn},
};

}  // namespace

SpecialFunction find_special(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return row.make;
  return nullptr;
}

}  // namespace tegula::lower
