#include "codegen/lower/logarithm.h"

#include <array>

namespace tegula::lower {

namespace {

/// log(2^k m) = k log 2 + log m with m = 1 + f in [low, 2 low): c log(1 + f) = c f + f^2 q(f), where c makes it one to
/// another base. q, lowest coefficient first, is fitted for the least relative error of the logarithm, 2^-27.6.
struct Base {
  std::string_view name;
  uint32_t low;  ///< bits of a float
  std::array<float, 9> q;
  float c, c_rest;            ///< of f, in two parts
  float of_two, of_two_rest;  ///< the logarithm of 2, in two parts
};

constexpr Base kBases[] = {
    {"log",
     0x3f400000,  // 3/4
     {-0x1p-1f, 0x1.5555a4p-2f, -0x1.000048p-2f, 0x1.99698ap-3f, -0x1.54eddep-3f, 0x1.288260p-3f, -0x1.0d99b2p-3f,
      0x1.ace4c6p-4f, -0x1.71bc28p-5f},
     1,
     0,
     0.6931472f,
     -1.9046542e-09f},
    {"log2",
     0x3f2aaaab,  // 2/3
     {-0x1.715476p-1f, 0x1.ec7030p-2f, -0x1.7153dep-2f, 0x1.279d78p-2f, -0x1.ecd16ap-3f, 0x1.9de40cp-3f,
      -0x1.6848c2p-3f, 0x1.9ce89cp-3f, -0x1.7bf6a6p-3f},
     1.442695f,
     1.925963e-08f,
     1,
     0},
    {"log10",
     0x3f2aaaab,
     {-0x1.bcb7b2p-3f, 0x1.287a2ep-3f, -0x1.bcb66cp-4f, 0x1.63f6ecp-4f, -0x1.28c14ep-4f, 0x1.f223e6p-5f,
      -0x1.b0e70ap-5f, 0x1.f233c6p-5f, -0x1.cc9bf2p-5f},
     0.4342945f,
     -1.010305e-08f,
     0.30103f,
     -1.4320989e-08f},
};

class Logarithm {
 public:
  Logarithm(Lowering& l, const Base& base) : b_(l.b), base_(base) {}

  /// Of positive numbers; special() gives the others' results.
  llvm::Value* of(llvm::Value* x) {
    llvm::Value* denormal = b_.CreateFCmpOLT(x, number(0x1p-126));
    x = b_.CreateSelect(denormal, b_.CreateFMul(x, number(0x1p23)), x);
    llvm::Value* exponent = exponent_of(x);
    llvm::Value* m = b_.CreateBitCast(b_.CreateSub(bits(x), exponent), float_type());
    llvm::Value* shift = b_.CreateSelect(denormal, number(-23), number(0));
    llvm::Value* k = b_.CreateFAdd(power(exponent), shift);
    return sum(k, b_.CreateFSub(m, number(1)));
  }

  /// log(1 + x): k is that of 1 + x, and f = (1 + x) 2^-k - 1 is made from x, whose last bits the sum has lost.
  llvm::Value* of_one_plus(llvm::Value* x) {
    llvm::Value* exponent = exponent_of(b_.CreateFAdd(x, number(1)));
    llvm::Value* scaled = b_.CreateBitCast(b_.CreateSub(bits(x), exponent), float_type());
    // 4 times 2^-k, which is below the normal numbers for the largest k
    llvm::Value* scale = b_.CreateBitCast(b_.CreateSub(b_.getInt32(0x40800000), exponent), float_type());
    llvm::Value* f = b_.CreateFAdd(scaled, fma(number(0.25), scale, number(-1)));
    return sum(power(exponent), f);
  }

  /// `result` where x is a positive number; -inf at 0, NaN below it, x where it is infinite or a NaN.
  llvm::Value* special(llvm::Value* x, llvm::Value* result) {
    llvm::Value* infinity = llvm::ConstantFP::getInfinity(float_type());
    // Bits above those of all numbers: infinities, NaNs, and what has a sign.
    llvm::Value* other = b_.CreateICmpUGT(bits(x), b_.getInt32(0x7f7fffff));
    result = b_.CreateSelect(other, fma(x, infinity, infinity), result);
    return b_.CreateSelect(b_.CreateFCmpOEQ(x, number(0)), b_.CreateFNeg(infinity), result);
  }

 private:
  llvm::Type* float_type() { return b_.getFloatTy(); }
  llvm::Value* number(double x) { return llvm::ConstantFP::get(float_type(), x); }
  llvm::Value* bits(llvm::Value* x) { return b_.CreateBitCast(x, b_.getInt32Ty()); }
  llvm::Value* fma(llvm::Value* x, llvm::Value* y, llvm::Value* z) {
    return b_.CreateIntrinsic(llvm::Intrinsic::fma, {float_type()}, {x, y, z});
  }

  /// k in the place of a float's exponent.
  llvm::Value* exponent_of(llvm::Value* x) {
    return b_.CreateAnd(b_.CreateSub(bits(x), b_.getInt32(base_.low)), b_.getInt32(0xff800000));
  }
  /// k itself.
  llvm::Value* power(llvm::Value* exponent) {
    return b_.CreateFMul(b_.CreateSIToFP(exponent, float_type()), number(0x1p-23));
  }

  llvm::Value* sum(llvm::Value* k, llvm::Value* f) {
    llvm::Value* q = number(base_.q.back());
    for (size_t i = base_.q.size() - 1; i-- > 0;) q = fma(q, f, number(base_.q[i]));
    llvm::Value* square = b_.CreateFMul(f, f);
    if (base_.c == 1) return fma(k, number(base_.of_two), fma(q, square, f));
    // c f and k log 2 are sums of two floats each; large + small of the two larger ones is their sum without rounding.
    llvm::Value* cf = b_.CreateFMul(f, number(base_.c));
    llvm::Value* rest = fma(f, number(base_.c_rest), fma(f, number(base_.c), b_.CreateFNeg(cf)));
    rest = fma(q, square, rest);
    llvm::Value* whole = b_.CreateFMul(k, number(base_.of_two));
    llvm::Value* large = b_.CreateFAdd(whole, cf);
    llvm::Value* small = b_.CreateFSub(cf, b_.CreateFSub(large, whole));
    if (base_.of_two_rest != 0)
      rest = b_.CreateFAdd(rest, fma(k, number(base_.of_two_rest), fma(k, number(base_.of_two), b_.CreateFNeg(whole))));
    return b_.CreateFAdd(large, b_.CreateFAdd(small, rest));
  }

  Builder& b_;
  const Base& base_;
};

llvm::Value* logarithm_body(Lowering& l, std::string_view name, llvm::Value* x) {
  if (name == "log1p") {
    Logarithm natural(l, kBases[0]);
    llvm::Value* sum = l.b.CreateFAdd(x, llvm::ConstantFP::get(x->getType(), 1));
    llvm::Value* result = natural.special(sum, natural.of_one_plus(x));
    return l.b.CreateSelect(l.b.CreateFCmpOEQ(x, llvm::ConstantFP::get(x->getType(), 0)), x, result);  // keeps -0
  }
  for (const Base& base : kBases)
    if (base.name == name) {
      Logarithm other(l, base);
      return other.special(x, other.of(x));
    }
  return nullptr;
}

}  // namespace

llvm::Value* logarithm(Lowering& l, std::string_view name, llvm::Value* x) {
  return l.own_function(name, x, [&](llvm::Value* y) { return logarithm_body(l, name, y); });
}

}  // namespace tegula::lower
