// Arithmetic of inline PTX, one lane at a time.
#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>

#include "codegen/exec/emulator/hardware/approximations.h"
#include "codegen/exec/emulator/ptx/ptx.h"

namespace tegula::emulator::ptx {

namespace {

// ---- Floats

/// f(x, y, z) rounded in the direction of the instruction. Volatile, so that the compiler leaves it between the
/// switches.
template <class F, class Function>
F rounded(Round round, F x, F y, F z, Function f) {
  if (round == Round::Nearest) return f(x, y, z);
  volatile F a = x, b = y, c = z;
  std::fesetround(round == Round::Zero ? FE_TOWARDZERO : round == Round::Down ? FE_DOWNWARD : FE_UPWARD);
  volatile F result = f(a, b, c);
  std::fesetround(FE_TONEAREST);
  return result;
}

template <class F>
F smaller(F a, F b, bool nan, bool larger) {
  if (std::isnan(a)) return nan ? a : b;
  if (std::isnan(b)) return nan ? b : a;
  if (a == b) return std::signbit(a) != larger ? a : b;  // -0 < +0
  return (a < b) != larger ? a : b;
}

template <class F>
F float_op(const Instruction& i, F a, F b, F c) {
  const Round round = i.mods.round;
  switch (i.op) {
    case Op::Add:
      return rounded(round, a, b, c, [](F x, F y, F) { return x + y; });
    case Op::Sub:
      return rounded(round, a, b, c, [](F x, F y, F) { return x - y; });
    case Op::Mul:
      return rounded(round, a, b, c, [](F x, F y, F) { return x * y; });
    case Op::Mad:
    case Op::Fma:
      return rounded(round, a, b, c, [](F x, F y, F z) { return std::fma(x, y, z); });
    case Op::Div:
      return rounded(round, a, b, c, [](F x, F y, F) { return x / y; });
    case Op::Rcp:
      return rounded(round, F(1), a, c, [](F x, F y, F) { return x / y; });
    case Op::Sqrt:
      return rounded(round, a, b, c, [](F x, F, F) { return std::sqrt(x); });
    case Op::Rsqrt:
      return F(1 / std::sqrt(double(a)));
    case Op::Abs:
      return std::fabs(a);
    case Op::Neg:
      return -a;
    case Op::Min:
    case Op::Max:
      return smaller(a, b, i.mods.nan, i.op == Op::Max);
    case Op::Ex2:
      return approximate_ex2(float(a));
    case Op::Lg2:
      return F(std::log2(double(a)));
    case Op::Sin:
      return F(std::sin(double(a)));
    case Op::Cos:
      return F(std::cos(double(a)));
    case Op::Tanh:
      return approximate_tanh(float(a));
    default:
      return F(NAN);
  }
}

uint64_t float_compute(const Instruction& i, uint64_t a, uint64_t b, uint64_t c) {
  const Type type = i.type;
  if (i.op == Op::CopySign) return (b & mask(type.bits - 1)) | (a & uint64_t(1) << (type.bits - 1));
  if (i.op == Op::Neg || i.op == Op::Abs) {  // of a NaN, too
    const uint64_t sign = uint64_t(1) << (type.bits - 1);
    if (!i.mods.flush) return (i.op == Op::Neg ? a ^ sign : a & ~sign) & mask(type.bits);
  }
  double result;
  if (type.bits == 64) {
    result = float_op<double>(i, std::bit_cast<double>(a), std::bit_cast<double>(b), std::bit_cast<double>(c));
  } else if (type.bits == 32) {
    auto number = [&](uint64_t bits) {
      float x = std::bit_cast<float>(uint32_t(bits));
      return i.mods.flush ? flush(x) : x;
    };
    float x = float_op<float>(i, number(a), number(b), number(c));
    result = i.mods.flush ? flush(x) : x;
  } else {  // 16 bits: double holds every product, and rounds sums far below them
    result = float_op<double>(i, to_double(type, a), to_double(type, b), to_double(type, c));
  }
  if (i.mods.saturate) result = std::isnan(result) ? 0 : std::clamp(result, 0.0, 1.0);
  if (i.mods.relu) result = std::isnan(result) ? result : std::max(result, 0.0);
  if (type.bits == 64 && std::isnan(result)) return std::bit_cast<uint64_t>(result);
  return from_double(type, result, {});
}

// ---- Integers

using Wide = unsigned __int128;

Wide product(Type type, uint64_t a, uint64_t b) {
  if (type.form == Form::Signed) return Wide(__int128(sign_extended(a, type.bits)) * sign_extended(b, type.bits));
  return Wide(a & mask(type.bits)) * (b & mask(type.bits));
}

uint64_t multiply(const Instruction& i, uint64_t a, uint64_t b) {
  const bool short_factors = i.op == Op::Mul24 || i.op == Op::Mad24;
  Type factors = i.type;
  if (short_factors) factors.bits = 24;
  const Wide all = product(factors, a, b);
  if (short_factors) return uint64_t(i.mods.part == 'h' ? all >> 16 : all) & mask(32);
  if (i.mods.part == 'w') return uint64_t(all) & mask(2 * i.type.bits);
  return uint64_t(i.mods.part == 'h' ? all >> i.type.bits : all) & mask(i.type.bits);
}

uint64_t add(const Instruction& i, uint64_t a, uint64_t b, bool carry_in, bool& carry) {
  const int bits = i.mods.part == 'w' ? 2 * i.type.bits : i.type.bits;
  const Wide sum = Wide(a & mask(bits)) + (b & mask(bits)) + carry_in;
  if (i.mods.carry) carry = sum >> bits & 1;
  if (i.mods.saturate) {  // s32
    const int64_t exact = sign_extended(a, bits) + sign_extended(b, bits) + carry_in;
    return uint64_t(std::clamp<int64_t>(exact, INT32_MIN, INT32_MAX)) & mask(bits);
  }
  return uint64_t(sum) & mask(bits);
}

uint64_t divide(const Instruction& i, uint64_t a, uint64_t b) {
  const int bits = i.type.bits;
  if (i.type.form == Form::Signed) {
    const int64_t x = sign_extended(a, bits), y = sign_extended(b, bits);
    if (y == 0) return i.op == Op::Div ? mask(bits) : a & mask(bits);
    const __int128 quotient = __int128(x) / y;
    return uint64_t(i.op == Op::Div ? quotient : x - quotient * y) & mask(bits);
  }
  a &= mask(bits), b &= mask(bits);
  if (b == 0) return i.op == Op::Div ? mask(bits) : a;
  return i.op == Op::Div ? a / b : a % b;
}

uint64_t permute(const std::string& mode, uint64_t a, uint64_t b, uint64_t c) {
  const uint64_t bytes = (a & mask(32)) | b << 32;
  const unsigned s = c & 3;
  auto byte = [&](unsigned selector) {
    const uint64_t x = bytes >> 8 * (selector & 7) & 0xFF;
    return selector & 8 ? (x & 0x80 ? 0xFF : 0) : x;
  };
  uint64_t result = 0;
  for (unsigned k = 0; k < 4; ++k) {
    unsigned selector = c >> 4 * k & 15;
    if (mode == "f4e") selector = s + k;
    if (mode == "b4e") selector = (s - k) & 7;
    if (mode == "rc8") selector = s;
    if (mode == "ecl") selector = std::max(k, s);
    if (mode == "ecr") selector = std::min(k, s);
    if (mode == "rc16") selector = (s & 1) * 2 + (k & 1);
    result |= byte(selector) << 8 * k;
  }
  return result;
}

uint64_t extract(const Instruction& i, uint64_t a, unsigned from, unsigned length) {
  const int bits = i.type.bits;
  const bool sign = i.type.form == Form::Signed;
  if (length == 0) return 0;
  const uint64_t x = sign ? uint64_t(sign_extended(a, bits)) : a & mask(bits);
  if (int(from) >= bits) return sign && int64_t(x) < 0 ? mask(bits) : 0;
  const uint64_t shifted = sign ? uint64_t(int64_t(x) >> from) : x >> from;
  const int kept = std::min<int>(int(length), bits);
  return (sign ? uint64_t(sign_extended(shifted, kept)) : shifted & mask(kept)) & mask(bits);
}

uint64_t shift_right(const Instruction& i, uint64_t a, uint64_t amount) {
  const int bits = i.type.bits;
  const unsigned by = unsigned(std::min<uint64_t>(amount & mask(32), 64));
  if (i.type.form == Form::Signed) return uint64_t(sign_extended(a, bits) >> std::min(by, 63u)) & mask(bits);
  return by >= 64 ? 0 : (a & mask(bits)) >> by;
}

uint64_t funnel(const Instruction& i, uint64_t a, uint64_t b, uint64_t c) {
  const unsigned n = i.mods.wrap ? c & 31 : unsigned(std::min<uint64_t>(c & mask(32), 32));
  const uint64_t both = (a & mask(32)) | b << 32;
  if (!i.mods.left) return (n == 0 ? both : both >> n) & mask(32);
  return (n == 0 ? b : both >> (32 - n)) & mask(32);
}

uint64_t reversed(uint64_t a, int bits) {
  uint64_t result = 0;
  for (int k = 0; k < bits; ++k) result |= (a >> k & 1) << (bits - 1 - k);
  return result;
}

uint64_t leading_bit(const Instruction& i, uint64_t a) {
  const int bits = i.type.bits;
  uint64_t x = a & mask(bits);
  if (i.type.form == Form::Signed && x >> (bits - 1)) x = ~x & mask(bits);
  if (x == 0) return mask(32);
  const int at = 63 - std::countl_zero(x);
  return uint64_t(i.mods.shift ? bits - 1 - at : at);
}

/// dp4a, dp2a: `type` is of the first factors, `source` of the second.
uint64_t dot_product(const Instruction& i, uint64_t a, uint64_t b, uint64_t c) {
  auto part = [](Type type, uint64_t x, int k, int bits) -> int64_t {
    const uint64_t field = x >> k * bits & mask(bits);
    return type.form == Form::Signed ? sign_extended(field, bits) : int64_t(field);
  };
  const int count = i.op == Op::Dp4a ? 4 : 2;
  uint64_t sum = c;
  for (int k = 0; k < count; ++k)
    sum +=
        uint64_t(part(i.type, a, k, 32 / count) * part(i.source, b, k + (count == 2 && i.mods.part == 'h' ? 2 : 0), 8));
  return sum & mask(32);
}

uint64_t sized_mask(const Instruction& i, uint64_t at, uint64_t length) {
  const uint64_t from = i.mods.wrap ? at & 31 : at & mask(32), count = i.mods.wrap ? length & 31 : length & mask(32);
  return from >= 32 ? 0 : (mask(int(std::min<uint64_t>(count, 32))) << from) & mask(32);
}

uint64_t extended_from(const Instruction& i, uint64_t a, uint64_t length) {
  const uint64_t n = i.mods.wrap ? length & 31 : std::min<uint64_t>(length & mask(32), 32);
  if (n == 0) return 0;
  return (i.type.form == Form::Signed ? uint64_t(sign_extended(a, int(n))) : a & mask(int(n))) & mask(32);
}

}  // namespace

uint64_t compute(const Instruction& i, uint64_t a, uint64_t b, uint64_t c, bool& carry) {
  if (i.type.is_float()) return float_compute(i, a, b, c);
  const int bits = i.type.bits;
  auto s = [&](uint64_t x) { return sign_extended(x, bits); };
  const bool sign = i.type.form == Form::Signed;
  auto less = [&] { return sign ? s(a) < s(b) : (a & mask(bits)) < (b & mask(bits)); };
  switch (i.op) {
    case Op::Add:
      return add(i, a, b, false, carry);
    case Op::AddCarry:
      return add(i, a, b, carry, carry);
    case Op::Sub:
      if (i.mods.saturate) return uint64_t(std::clamp<int64_t>(s(a) - s(b), INT32_MIN, INT32_MAX)) & mask(32);
      return add(i, a, ~b, true, carry);
    case Op::SubCarry:
      return add(i, a, ~b, carry, carry);
    case Op::Mul:
    case Op::Mul24:
      return multiply(i, a, b);
    case Op::Mad:
    case Op::Mad24:
      return add(i, multiply(i, a, b), c, false, carry);
    case Op::Div:
    case Op::Rem:
      return divide(i, a, b);
    case Op::Abs:
      return uint64_t(s(a) < 0 ? -uint64_t(s(a)) : uint64_t(s(a))) & mask(bits);
    case Op::Neg:
      return -a & mask(bits);
    case Op::Min:
      return i.mods.relu && s(less() ? a : b) < 0 ? 0 : (less() ? a : b) & mask(bits);
    case Op::Max:
      return i.mods.relu && s(less() ? b : a) < 0 ? 0 : (less() ? b : a) & mask(bits);
    case Op::Sad:
      return (c + (less() ? b - a : a - b)) & mask(bits);
    case Op::Dp4a:
    case Op::Dp2a:
      return dot_product(i, a, b, c);
    case Op::And:
      return a & b & mask(bits);
    case Op::Or:
      return (a | b) & mask(bits);
    case Op::Xor:
      return (a ^ b) & mask(bits);
    case Op::Not:
      return ~a & mask(bits);
    case Op::CNot:
      return (a & mask(bits)) == 0;
    case Op::Shl:
      return (b & mask(32)) >= uint64_t(bits) ? 0 : a << (b & 63) & mask(bits);
    case Op::Shr:
      return shift_right(i, a, b);
    case Op::Shf:
      return funnel(i, a, b, c);
    case Op::Bfe:
      return extract(i, a, b & 0xFF, c & 0xFF);
    case Op::Bfind:
      return leading_bit(i, a);
    case Op::Brev:
      return reversed(a, bits);
    case Op::Popc:
      return uint64_t(std::popcount(a & mask(bits)));
    case Op::Clz:
      return uint64_t(std::countl_zero(a & mask(bits)) - (64 - bits));
    case Op::Prmt:
      return permute(i.mods.choice, a, b, c);
    case Op::Bmsk:
      return sized_mask(i, a, b);
    case Op::Szext:
      return extended_from(i, a, b);
    default:
      return 0;
  }
}

bool compare(const Instruction& i, uint64_t a, uint64_t b) {
  const Type type = i.source;
  std::string_view relation = i.mods.choice;
  auto decide = [&](bool less, bool equal, bool unordered) {
    if (relation == "num") return !unordered;
    if (relation == "nan") return unordered;
    if (unordered) return relation.size() == 3;  // equ, neu, ltu, ...
    const std::string_view base = relation.substr(0, 2);
    if (base == "eq") return equal;
    if (base == "ne") return !equal;
    if (base == "lt" || relation == "lo") return less;
    if (base == "le" || relation == "ls") return less || equal;
    if (base == "gt" || relation == "hi") return !less && !equal;
    return !less;
  };
  if (type.is_float()) {
    double x = to_double(type, a), y = to_double(type, b);
    if (i.mods.flush && type.bits == 32) x = flush(float(x)), y = flush(float(y));
    return decide(x < y, x == y, std::isnan(x) || std::isnan(y));
  }
  a &= mask(type.bits), b &= mask(type.bits);
  const bool less = type.form == Form::Signed ? sign_extended(a, type.bits) < sign_extended(b, type.bits) : a < b;
  return decide(less, a == b, false);
}

}  // namespace tegula::emulator::ptx
