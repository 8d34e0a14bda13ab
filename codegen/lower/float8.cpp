// Conversions of float8, two numbers at a time where the target has instructions for it, else on their bits.
#include "codegen/lower/lowering.h"

namespace tegula::lower {

namespace {

// How a float8 lies in the bits of a float, whose fraction is `shift` bits longer.
struct Float8Format {
  const char* row;        ///< of the conversion from pairs of floats; null: no target has one
  int shift;              ///< of the bits
  uint32_t bias;          ///< the difference of the exponents' biases, at the place of the float8's exponent
  uint32_t least_normal;  ///< the smallest normal number, as a float's bits
  uint32_t largest;       ///< the largest finite one, likewise
  float unit;             ///< a float whose last place is the smallest float8 above 0
  bool one_zero = false;  ///< 0x80 is the NaN
};

Float8Format format_of(Elem elem) {
  if (elem == Elem::F8E4M3) return {"cvt_e4m3x2_f32", 20, (127 - 7) << 3, 0x3C800000, 0x43E00000, 0x1p14f};
  if (elem == Elem::F8E4B8) return {nullptr, 20, (127 - 8) << 3, 0x3C000000, 0x43700000, 0x1p13f, true};
  if (elem == Elem::F8E5B16) return {nullptr, 21, (127 - 16) << 2, 0x38000000, 0x47600000, 0x1p6f, true};
  return {"cvt_e5m2x2_f32", 21, (127 - 15) << 2, 0x38800000, 0x47600000, 0x1p7f};
}

constexpr uint32_t kNaN = 0x7F, kOnlyNaN = 0x80;

// Each of x made by `make`, which takes and gives two.
template <class Make>
Regs in_pairs(llvm::ArrayRef<llvm::Value*> x, Make make) {
  Regs out;
  for (size_t i = 0; i < x.size(); i += 2) {
    const bool lone = i + 1 == x.size();
    Regs both = make(x[i], lone ? llvm::Constant::getNullValue(x[i]->getType()) : x[i + 1]);
    out.append(both.begin(), both.end() - (lone ? 1 : 0));
  }
  return out;
}

// Rounding of normal numbers by an addition to the bits, whose carry may reach the exponent; of subnormal ones by that
// of a float whose last place is theirs.
llvm::Value* narrow_on_bits(Lowering& l, const Float8Format& f, llvm::Value* x) {
  Builder& b = l.b;
  Builder::FastMathFlagGuard guard(b);
  b.clearFastMathFlags();
  auto number = [&](uint32_t value) { return b.getInt32(value); };
  llvm::Value* bits = b.CreateBitCast(x, b.getInt32Ty());
  llvm::Value* size = b.CreateAnd(bits, number(0x7FFFFFFF));
  llvm::Value* is_nan = b.CreateICmpUGT(size, number(0x7F800000));
  llvm::Value* sign = b.CreateAnd(b.CreateLShr(bits, 24), number(0x80));
  size = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, size, number(f.largest));
  const unsigned shift = unsigned(f.shift);
  llvm::Value* odd = b.CreateAnd(b.CreateLShr(size, shift), number(1));
  llvm::Value* rounded = b.CreateAdd(b.CreateAdd(size, odd), number((1u << (shift - 1)) - 1));
  llvm::Value* normal = b.CreateSub(b.CreateLShr(rounded, shift), number(f.bias));
  llvm::Value* unit = llvm::ConstantFP::get(b.getFloatTy(), f.unit);
  llvm::Value* sum = b.CreateBitCast(b.CreateFAdd(b.CreateBitCast(size, b.getFloatTy()), unit), b.getInt32Ty());
  llvm::Value* subnormal = b.CreateSub(sum, b.CreateBitCast(unit, b.getInt32Ty()));
  llvm::Value* result = b.CreateSelect(b.CreateICmpULT(size, number(f.least_normal)), subnormal, normal);
  llvm::Value* with_sign = b.CreateOr(result, sign);
  if (f.one_zero) with_sign = b.CreateSelect(b.CreateICmpEQ(result, number(0)), result, with_sign);
  return b.CreateTrunc(b.CreateSelect(is_nan, number(f.one_zero ? kOnlyNaN : kNaN), with_sign), b.getInt8Ty());
}

// The fields at their places in a half, then the difference of the biases as a factor: exact, subnormal numbers too.
llvm::Value* widen_e4m3_on_bits(Lowering& l, llvm::Value* x) {
  Builder& b = l.b;
  auto number = [&](uint16_t value) { return b.getInt16(value); };
  x = b.CreateZExt(x, b.getInt16Ty());
  llvm::Value* rest = b.CreateAnd(x, number(0x7F));
  llvm::Value* fields = b.CreateBitCast(b.CreateShl(rest, 7), b.getHalfTy());
  llvm::Value* size = b.CreateFMul(fields, llvm::ConstantFP::get(b.getHalfTy(), 0x1p8));
  llvm::Value* sign = b.CreateShl(b.CreateAnd(x, number(0x80)), 8);
  llvm::Value* result = b.CreateOr(b.CreateBitCast(size, b.getInt16Ty()), sign);
  result = b.CreateSelect(b.CreateICmpEQ(rest, number(kNaN)), number(0x7FFF), result);
  return b.CreateBitCast(result, b.getHalfTy());
}

// A format with one zero, whose exponent has `fraction` bits below it: its fields at their places in a half, with the
// half's bias. Below 8 the value is a multiple of the smallest number.
llvm::Value* widen_one_zero_on_bits(Lowering& l, Elem from, llvm::Value* x) {
  Builder& b = l.b;
  const bool e4 = from == Elem::F8E4B8;
  auto number = [&](uint16_t value) { return b.getInt16(value); };
  x = b.CreateZExt(x, b.getInt16Ty());
  llvm::Value* rest = b.CreateAnd(x, number(0x7F));
  llvm::Value* fields = b.CreateShl(rest, e4 ? 7 : 8);
  fields = e4 ? b.CreateAdd(fields, number((15 - 8) << 10)) : b.CreateSub(fields, number(1 << 10));
  llvm::Value* unit = llvm::ConstantFP::get(b.getHalfTy(), e4 ? 0x1p-10 : 0x1p-17);
  llvm::Value* small = b.CreateBitCast(b.CreateFMul(b.CreateUIToFP(rest, b.getHalfTy()), unit), b.getInt16Ty());
  llvm::Value* size = b.CreateSelect(b.CreateICmpULT(rest, number(8)), small, fields);
  llvm::Value* result = b.CreateOr(size, b.CreateShl(b.CreateAnd(x, number(0x80)), 8));
  return b.CreateBitCast(b.CreateSelect(b.CreateICmpEQ(x, number(kOnlyNaN)), number(0x7FFF), result), b.getHalfTy());
}

// float8e4b15 and halves have the same bias. What is rounded away is at least half of the last place: up.
llvm::Value* widen_e4b15(Lowering& l, llvm::Value* x) {
  Builder& b = l.b;
  x = b.CreateZExt(x, b.getInt16Ty());
  llvm::Value* sign = b.CreateShl(b.CreateAnd(x, b.getInt16(0x80)), 8);
  return b.CreateBitCast(b.CreateOr(b.CreateShl(b.CreateAnd(x, b.getInt16(0x7F)), 7), sign), b.getHalfTy());
}

llvm::Value* narrow_to_e4b15(Lowering& l, llvm::Value* half) {
  constexpr uint16_t kLargest = 0x3F00;  // 1.75; NaNs become it too
  Builder& b = l.b;
  llvm::Value* bits = b.CreateBitCast(half, b.getInt16Ty());
  llvm::Value* size =
      b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, b.CreateAnd(bits, b.getInt16(0x7FFF)), b.getInt16(kLargest));
  llvm::Value* rounded = b.CreateAdd(b.CreateShl(size, 1), b.getInt16(0x80));
  llvm::Value* result = b.CreateOr(rounded, b.CreateAnd(bits, b.getInt16(0x8000)));
  return b.CreateTrunc(b.CreateLShr(result, 8), b.getInt8Ty());
}

}  // namespace

Regs Lowering::widen_float8(Elem from, llvm::ArrayRef<llvm::Value*> x) {
  Regs out;
  if (from == Elem::F8E5M2) {  // the upper half of a half: cheaper than the conversion that the hardware has
    for (llvm::Value* v : x)
      out.push_back(b.CreateBitCast(b.CreateShl(b.CreateZExt(v, b.getInt16Ty()), 8), b.getHalfTy()));
  } else if (from == Elem::F8E4B15) {
    for (llvm::Value* v : x) out.push_back(widen_e4b15(*this, v));
  } else if (from != Elem::F8E4M3) {
    for (llvm::Value* v : x) out.push_back(widen_one_zero_on_bits(*this, from, v));
  } else if (target.has(Feature::CvtFloat8)) {
    return widen_bytes("cvt_f16x4_e4m3x4", x, b.getHalfTy());
  } else {
    for (llvm::Value* v : x) out.push_back(widen_e4m3_on_bits(*this, v));
  }
  return out;
}

Regs Lowering::widen_bytes(std::string_view row, llvm::ArrayRef<llvm::Value*> x, llvm::Type* to) {
  constexpr size_t kOfWord = 4;
  Regs out;
  for (size_t i = 0; i < x.size(); i += kOfWord) {
    const size_t count = std::min(kOfWord, x.size() - i);
    Regs four(x.slice(i, count));
    four.resize(kOfWord, llvm::Constant::getNullValue(x[i]->getType()));
    llvm::Value* words = hw(row, pack(four, 32));
    out.append(unpack({b.CreateExtractValue(words, 0), b.CreateExtractValue(words, 1)}, to, int(count)));
  }
  return out;
}

Regs Lowering::narrow_to_float8(Elem to, llvm::ArrayRef<llvm::Value*> x) {
  Regs out;
  if (to == Elem::F8E4B15) {
    for (llvm::Value* v : x) out.push_back(narrow_to_e4b15(*this, v));
    return out;
  }
  const Float8Format format = format_of(to);
  if (format.row && target.has(Feature::CvtFloat8))
    return in_pairs(x, [&](llvm::Value* low, llvm::Value* high) {
      return unpack({hw(format.row, {low, high})}, b.getInt8Ty(), 2);
    });
  for (llvm::Value* v : x) out.push_back(narrow_on_bits(*this, format, v));
  return out;
}

}  // namespace tegula::lower
