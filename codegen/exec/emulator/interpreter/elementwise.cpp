#include "codegen/exec/emulator/interpreter/elementwise.h"

#include <bit>
#include <cmath>
#include <type_traits>

#include "codegen/exec/emulator/interpreter/numbers.h"
#include "runtime/base/float16.h"

namespace tegula::emulator::bytecode {

namespace {

// Op::of(x...) of each element.

template <class T, class Op>
void unary(char* to, const char* a, const char*, const char*, unsigned count) {
  for (unsigned i = 0; i < count; ++i) put(to, i, Op::template of<T>(get<T>(a, i)));
}
template <class T, class Op>
void binary(char* to, const char* a, const char* b, const char*, unsigned count) {
  for (unsigned i = 0; i < count; ++i) put(to, i, Op::template of<T>(get<T>(a, i), get<T>(b, i)));
}
template <class T, class Op>
void ternary(char* to, const char* a, const char* b, const char* c, unsigned count) {
  for (unsigned i = 0; i < count; ++i) put(to, i, Op::template of<T>(get<T>(a, i), get<T>(b, i), get<T>(c, i)));
}

// ---- Integers: unsigned, so that they wrap around. What LLVM leaves undefined gives something.

template <class T>
constexpr unsigned kBits = sizeof(T) * 8;

template <class T>
std::make_signed_t<T> as_signed(T x) {
  return std::make_signed_t<T>(x);
}

/// Wide enough that nothing is promoted to a signed int.
template <class T>
using Wide = std::conditional_t<sizeof(T) < 4, uint32_t, T>;

#define TEGULA_BINARY(name, expression) \
  struct name {                         \
    template <class T>                  \
    static auto of(T x, T y) {          \
      return expression;                \
    }                                   \
  };
#define TEGULA_UNARY(name, expression) \
  struct name {                        \
    template <class T>                 \
    static auto of(T x) {              \
      return expression;               \
    }                                  \
  };

TEGULA_BINARY(Add, T(Wide<T>(x) + Wide<T>(y)))
TEGULA_BINARY(Sub, T(Wide<T>(x) - Wide<T>(y)))
TEGULA_BINARY(Mul, T(Wide<T>(x) * Wide<T>(y)))
TEGULA_BINARY(And, T(x& y))
TEGULA_BINARY(Or, T(x | y))
TEGULA_BINARY(Xor, T(x ^ y))
TEGULA_BINARY(Shl, T(Wide<T>(x) << (y & (kBits<T> - 1))))
TEGULA_BINARY(LShr, T(x >> (y & (kBits<T> - 1))))
TEGULA_BINARY(AShr, T(as_signed(x) >> (y & (kBits<T> - 1))))
TEGULA_BINARY(UDiv, y == 0 ? T(0) : T(x / y))
TEGULA_BINARY(URem, y == 0 ? T(0) : T(x % y))
TEGULA_BINARY(SDiv, y == 0 ? T(0) : y == T(-1) ? T(Wide<T>(0) - Wide<T>(x)) : T(as_signed(x) / as_signed(y)))
TEGULA_BINARY(SRem, y == 0 || y == T(-1) ? T(0) : T(as_signed(x) % as_signed(y)))
TEGULA_BINARY(UMin, y < x ? y : x)
TEGULA_BINARY(UMax, y > x ? y : x)
TEGULA_BINARY(SMin, as_signed(y) < as_signed(x) ? y : x)
TEGULA_BINARY(SMax, as_signed(y) > as_signed(x) ? y : x)
TEGULA_BINARY(UAddSat, T(Wide<T>(x) + Wide<T>(y)) < x ? T(-1) : T(Wide<T>(x) + Wide<T>(y)))
TEGULA_BINARY(USubSat, x < y ? T(0) : T(x - y))
TEGULA_BINARY(Eq, uint8_t(x == y))
TEGULA_BINARY(Ne, uint8_t(x != y))
TEGULA_BINARY(Ult, uint8_t(x < y))
TEGULA_BINARY(Ule, uint8_t(x <= y))
TEGULA_BINARY(Slt, uint8_t(as_signed(x) < as_signed(y)))
TEGULA_BINARY(Sle, uint8_t(as_signed(x) <= as_signed(y)))
TEGULA_UNARY(Abs, as_signed(x) < 0 ? T(Wide<T>(0) - Wide<T>(x)) : x)
TEGULA_UNARY(Ctpop, T(std::popcount(x)))
TEGULA_UNARY(Ctlz, T(std::countl_zero(x)))
TEGULA_UNARY(Cttz, T(std::countr_zero(x)))

struct ByteSwap {
  template <class T>
  static T of(T x) {
    T out = 0;
    for (unsigned i = 0; i < sizeof(T); ++i) out = T(out | T(x >> 8 * i & 0xff) << (kBits<T> - 8 - 8 * i));
    return out;
  }
};
struct BitReverse {
  template <class T>
  static T of(T x) {
    T out = 0;
    for (unsigned i = 0; i < kBits<T>; ++i) out = T(out | T(x >> i & 1) << (kBits<T> - 1 - i));
    return out;
  }
};
struct Fshl {
  template <class T>
  static T of(T x, T y, T distance) {
    const unsigned n = unsigned(distance % kBits<T>);
    return n ? T(Wide<T>(x) << n | y >> (kBits<T> - n)) : x;
  }
};
struct Fshr {
  template <class T>
  static T of(T x, T y, T distance) {
    const unsigned n = unsigned(distance % kBits<T>);
    return n ? T(Wide<T>(x) << (kBits<T> - n) | y >> n) : y;
  }
};

// ---- Floating point

#define TEGULA_FLOAT_BINARY(name, expression) \
  struct name {                               \
    template <class T>                        \
    static auto of(T left, T right) {         \
      const Computed<T> x = left, y = right;  \
      return expression;                      \
    }                                         \
  };
#define TEGULA_FLOAT_UNARY(name, expression) \
  struct name {                              \
    template <class T>                       \
    static auto of(T value) {                \
      const Computed<T> x = value;           \
      return expression;                     \
    }                                        \
  };

TEGULA_FLOAT_BINARY(FAdd, T(x + y))
TEGULA_FLOAT_BINARY(FSub, T(x - y))
TEGULA_FLOAT_BINARY(FMul, T(x* y))
TEGULA_FLOAT_BINARY(FDiv, T(x / y))
TEGULA_FLOAT_BINARY(FRem, T(std::fmod(x, y)))
TEGULA_FLOAT_UNARY(Sqrt, T(std::sqrt(x)))
TEGULA_FLOAT_UNARY(Floor, T(std::floor(x)))
TEGULA_FLOAT_UNARY(Ceil, T(std::ceil(x)))
TEGULA_FLOAT_UNARY(RoundToZero, T(std::trunc(x)))
TEGULA_FLOAT_UNARY(RoundToEven, T(std::rint(x)))
TEGULA_FLOAT_UNARY(Round, T(std::round(x)))
TEGULA_FLOAT_BINARY(FOeq, uint8_t(x == y))
TEGULA_FLOAT_BINARY(FOne, uint8_t(x<y || x> y))
TEGULA_FLOAT_BINARY(FOlt, uint8_t(x < y))
TEGULA_FLOAT_BINARY(FOle, uint8_t(x <= y))
TEGULA_FLOAT_BINARY(FOrd, uint8_t(x == x && y == y))
TEGULA_FLOAT_BINARY(FUno, uint8_t(x != x || y != y))
TEGULA_FLOAT_BINARY(FUeq, uint8_t(!(x < y || x > y)))
TEGULA_FLOAT_BINARY(FUne, uint8_t(x != y))
TEGULA_FLOAT_BINARY(FUlt, uint8_t(!(x >= y)))
TEGULA_FLOAT_BINARY(FUle, uint8_t(!(x > y)))
// As LLVM has x86's minss and maxss do it.
TEGULA_FLOAT_BINARY(MinNum, x != x ? right : y < x ? right : left)
TEGULA_FLOAT_BINARY(MaxNum, x != x ? right : y > x ? right : left)
TEGULA_FLOAT_BINARY(Minimum, x != x || y != y ? T(x + y)
                             : x == y         ? (std::signbit(x) ? left : right)
                             : y < x          ? right
                                              : left)
TEGULA_FLOAT_BINARY(Maximum, x != x || y != y ? T(x + y)
                             : x == y         ? (std::signbit(x) ? right : left)
                             : y > x          ? right
                                              : left)

struct Fma {
  template <class T>
  static T of(T x, T y, T z) {
    return T(std::fma(Computed<T>(x), Computed<T>(y), Computed<T>(z)));
  }
};

// Signs are bits, of numbers that may be no numbers.
template <class T>
constexpr T kSign = T(T(1) << (kBits<T> - 1));
TEGULA_UNARY(FNeg, T(x ^ kSign<T>))
TEGULA_UNARY(FAbs, T(x& T(~kSign<T>)))
TEGULA_BINARY(CopySign, T((x & T(~kSign<T>)) | (y & kSign<T>)))

#undef TEGULA_BINARY
#undef TEGULA_UNARY
#undef TEGULA_FLOAT_BINARY
#undef TEGULA_FLOAT_UNARY

template <class Op>
Elementwise integer_unary(Kind kind) {
  switch (kind) {
    case Kind::I8:
      return unary<uint8_t, Op>;
    case Kind::I16:
      return unary<uint16_t, Op>;
    case Kind::I32:
      return unary<uint32_t, Op>;
    case Kind::I64:
      return unary<uint64_t, Op>;
    default:
      return nullptr;
  }
}
template <class Op>
Elementwise integer_binary(Kind kind) {
  switch (kind) {
    case Kind::I8:
      return binary<uint8_t, Op>;
    case Kind::I16:
      return binary<uint16_t, Op>;
    case Kind::I32:
      return binary<uint32_t, Op>;
    case Kind::I64:
      return binary<uint64_t, Op>;
    default:
      return nullptr;
  }
}
/// Of bits too, which are bytes.
template <class Op>
Elementwise bitwise(Kind kind) {
  return integer_binary<Op>(kind == Kind::I1 ? Kind::I8 : kind);
}
template <class Op>
Elementwise integer_ternary(Kind kind) {
  switch (kind) {
    case Kind::I8:
      return ternary<uint8_t, Op>;
    case Kind::I16:
      return ternary<uint16_t, Op>;
    case Kind::I32:
      return ternary<uint32_t, Op>;
    case Kind::I64:
      return ternary<uint64_t, Op>;
    default:
      return nullptr;
  }
}
template <class Op>
Elementwise float_unary(Kind kind) {
  switch (kind) {
    case Kind::F16:
      return unary<float16, Op>;
    case Kind::BF16:
      return unary<bfloat16, Op>;
    case Kind::F32:
      return unary<float, Op>;
    case Kind::F64:
      return unary<double, Op>;
    default:
      return nullptr;
  }
}
template <class Op>
Elementwise float_binary(Kind kind) {
  switch (kind) {
    case Kind::F16:
      return binary<float16, Op>;
    case Kind::BF16:
      return binary<bfloat16, Op>;
    case Kind::F32:
      return binary<float, Op>;
    case Kind::F64:
      return binary<double, Op>;
    default:
      return nullptr;
  }
}
template <class Op>
Elementwise float_ternary(Kind kind) {
  switch (kind) {
    case Kind::F32:
      return ternary<float, Op>;
    case Kind::F64:
      return ternary<double, Op>;
    default:
      return nullptr;
  }
}

/// The integers that have the bits of floating-point numbers.
Kind bits_of(Kind kind) {
  switch (kind) {
    case Kind::F16:
    case Kind::BF16:
      return Kind::I16;
    case Kind::F32:
      return Kind::I32;
    case Kind::F64:
      return Kind::I64;
    default:
      return kind;
  }
}

}  // namespace

Elementwise function_of(Arithmetic operation, Kind kind) {
  switch (operation) {
#define TEGULA_INTEGERS(family, name) \
  case Arithmetic::name:              \
    return family<name>(kind);
    TEGULA_INTEGERS(integer_binary, Add)
    TEGULA_INTEGERS(integer_binary, Sub)
    TEGULA_INTEGERS(integer_binary, Mul)
    TEGULA_INTEGERS(bitwise, And)
    TEGULA_INTEGERS(bitwise, Or)
    TEGULA_INTEGERS(bitwise, Xor)
    TEGULA_INTEGERS(integer_binary, Shl)
    TEGULA_INTEGERS(integer_binary, LShr)
    TEGULA_INTEGERS(integer_binary, AShr)
    TEGULA_INTEGERS(integer_binary, UDiv)
    TEGULA_INTEGERS(integer_binary, SDiv)
    TEGULA_INTEGERS(integer_binary, URem)
    TEGULA_INTEGERS(integer_binary, SRem)
    TEGULA_INTEGERS(bitwise, UMin)
    TEGULA_INTEGERS(bitwise, UMax)
    TEGULA_INTEGERS(integer_binary, SMin)
    TEGULA_INTEGERS(integer_binary, SMax)
    TEGULA_INTEGERS(integer_binary, UAddSat)
    TEGULA_INTEGERS(integer_binary, USubSat)
    TEGULA_INTEGERS(integer_unary, Abs)
    TEGULA_INTEGERS(integer_unary, Ctpop)
    TEGULA_INTEGERS(integer_unary, Ctlz)
    TEGULA_INTEGERS(integer_unary, Cttz)
    TEGULA_INTEGERS(integer_unary, BitReverse)
    TEGULA_INTEGERS(integer_unary, ByteSwap)
    TEGULA_INTEGERS(integer_ternary, Fshl)
    TEGULA_INTEGERS(integer_ternary, Fshr)
    TEGULA_INTEGERS(bitwise, Eq)
    TEGULA_INTEGERS(bitwise, Ne)
    TEGULA_INTEGERS(bitwise, Ult)
    TEGULA_INTEGERS(bitwise, Ule)
    TEGULA_INTEGERS(integer_binary, Slt)
    TEGULA_INTEGERS(integer_binary, Sle)
    TEGULA_INTEGERS(float_binary, FAdd)
    TEGULA_INTEGERS(float_binary, FSub)
    TEGULA_INTEGERS(float_binary, FMul)
    TEGULA_INTEGERS(float_binary, FDiv)
    TEGULA_INTEGERS(float_binary, FRem)
    TEGULA_INTEGERS(float_unary, Sqrt)
    TEGULA_INTEGERS(float_unary, Floor)
    TEGULA_INTEGERS(float_unary, Ceil)
    TEGULA_INTEGERS(float_unary, RoundToZero)
    TEGULA_INTEGERS(float_unary, RoundToEven)
    TEGULA_INTEGERS(float_unary, Round)
    TEGULA_INTEGERS(float_binary, MinNum)
    TEGULA_INTEGERS(float_binary, MaxNum)
    TEGULA_INTEGERS(float_binary, Minimum)
    TEGULA_INTEGERS(float_binary, Maximum)
    TEGULA_INTEGERS(float_ternary, Fma)
    TEGULA_INTEGERS(float_binary, FOeq)
    TEGULA_INTEGERS(float_binary, FOne)
    TEGULA_INTEGERS(float_binary, FOlt)
    TEGULA_INTEGERS(float_binary, FOle)
    TEGULA_INTEGERS(float_binary, FOrd)
    TEGULA_INTEGERS(float_binary, FUno)
    TEGULA_INTEGERS(float_binary, FUeq)
    TEGULA_INTEGERS(float_binary, FUne)
    TEGULA_INTEGERS(float_binary, FUlt)
    TEGULA_INTEGERS(float_binary, FUle)
#undef TEGULA_INTEGERS
    case Arithmetic::FNeg:
      return integer_unary<FNeg>(bits_of(kind));
    case Arithmetic::FAbs:
      return integer_unary<FAbs>(bits_of(kind));
    case Arithmetic::CopySign:
      return integer_binary<CopySign>(bits_of(kind));
  }
  return nullptr;
}

Elementwise function_of(const Computation& computation) {
  const auto [is, how, kind, to] = computation;
  switch (is) {
    case Computation::Computes:
      return function_of(Arithmetic(how), kind);
    case Computation::Converts:
      return conversion(Conversion(how), kind, to);
    case Computation::Selects:
      return select_each(how);
    case Computation::Picks:
      return pick(how);
  }
  return nullptr;
}

}  // namespace tegula::emulator::bytecode
