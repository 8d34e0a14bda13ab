#include <cstdint>
#include <limits>
#include <type_traits>

#include "codegen/exec/emulator/interpreter/elementwise.h"
#include "codegen/exec/emulator/interpreter/numbers.h"
#include "runtime/base/float16.h"

namespace tegula::emulator::bytecode {

namespace {

/// What lies beyond gives the smallest number, as on x86.
template <class To>
To to_integer(double value, bool is_signed) {
  constexpr double kLimit = 0x1p63;
  if (!is_signed && value >= kLimit && value < 2 * kLimit) return To(uint64_t(value));
  return To(value >= -kLimit && value < kLimit ? int64_t(value) : std::numeric_limits<int64_t>::min());
}

template <class To, class From, Conversion how>
To convert_one(From x) {
  if constexpr (how == Conversion::Truncate || how == Conversion::ZeroExtend) {
    return To(x);
  } else if constexpr (how == Conversion::SignExtend) {
    return To(std::make_signed_t<From>(x));
  } else if constexpr (how == Conversion::FromSigned || how == Conversion::FromUnsigned) {
    using Number = std::conditional_t<how == Conversion::FromSigned, std::make_signed_t<From>, From>;
    return To(Computed<To>(Number(x)));
  } else if constexpr (how == Conversion::ToSigned || how == Conversion::ToUnsigned) {
    return to_integer<To>(double(Computed<From>(x)), how == Conversion::ToSigned);
  } else if constexpr (std::is_same_v<From, double> && sizeof(To) == 2) {
    return To::round(x);
  } else {
    return To(Computed<From>(x));
  }
}

template <class To, class From, Conversion how>
void convert(char* to, const char* a, const char*, const char*, unsigned count) {
  for (unsigned i = 0; i < count; ++i) put(to, i, convert_one<To, From, how>(get<From>(a, i)));
}

void to_bit(char* to, const char* a, unsigned bytes, unsigned count) {
  for (unsigned i = 0; i < count; ++i) to[i] = a[size_t(i) * bytes] & 1;
}
template <unsigned bytes>
void truncate_to_bit(char* to, const char* a, const char*, const char*, unsigned count) {
  to_bit(to, a, bytes, count);
}
template <class To>
void spread_bit(char* to, const char* a, const char*, const char*, unsigned count) {
  for (unsigned i = 0; i < count; ++i) put(to, i, To(a[i] ? To(-1) : To(0)));
}
template <class To, int one>
void float_of_bit(char* to, const char* a, const char*, const char*, unsigned count) {
  for (unsigned i = 0; i < count; ++i) put(to, i, To(Computed<To>(a[i] ? one : 0)));
}

template <class To, Conversion how>
Elementwise from_integer(Kind from) {
  switch (from) {
    case Kind::I8:
      return convert<To, uint8_t, how>;
    case Kind::I16:
      return convert<To, uint16_t, how>;
    case Kind::I32:
      return convert<To, uint32_t, how>;
    case Kind::I64:
      return convert<To, uint64_t, how>;
    default:
      return nullptr;
  }
}
template <class To, Conversion how>
Elementwise from_float(Kind from) {
  switch (from) {
    case Kind::F16:
      return convert<To, float16, how>;
    case Kind::BF16:
      return convert<To, bfloat16, how>;
    case Kind::F32:
      return convert<To, float, how>;
    case Kind::F64:
      return convert<To, double, how>;
    default:
      return nullptr;
  }
}

template <Conversion how>
Elementwise between_integers(Kind from, Kind to) {
  switch (to) {
    case Kind::I8:
      return from_integer<uint8_t, how>(from);
    case Kind::I16:
      return from_integer<uint16_t, how>(from);
    case Kind::I32:
      return from_integer<uint32_t, how>(from);
    case Kind::I64:
      return from_integer<uint64_t, how>(from);
    default:
      return nullptr;
  }
}
Elementwise spread(Kind to) {
  switch (to) {
    case Kind::I8:
      return spread_bit<uint8_t>;
    case Kind::I16:
      return spread_bit<uint16_t>;
    case Kind::I32:
      return spread_bit<uint32_t>;
    case Kind::I64:
      return spread_bit<uint64_t>;
    default:
      return nullptr;
  }
}
template <Conversion how>
Elementwise to_float(Kind from, Kind to) {
  constexpr int kOne = how == Conversion::FromSigned ? -1 : 1;
  const bool bit = from == Kind::I1;
  switch (to) {
    case Kind::F16:
      return bit ? float_of_bit<float16, kOne> : from_integer<float16, how>(from);
    case Kind::BF16:
      return bit ? float_of_bit<bfloat16, kOne> : from_integer<bfloat16, how>(from);
    case Kind::F32:
      return bit ? float_of_bit<float, kOne> : from_integer<float, how>(from);
    case Kind::F64:
      return bit ? float_of_bit<double, kOne> : from_integer<double, how>(from);
    default:
      return nullptr;
  }
}
template <Conversion how>
Elementwise from_floats(Kind from, Kind to) {
  switch (to) {
    case Kind::I8:
      return from_float<uint8_t, how>(from);
    case Kind::I16:
      return from_float<uint16_t, how>(from);
    case Kind::I32:
      return from_float<uint32_t, how>(from);
    case Kind::I64:
      return from_float<uint64_t, how>(from);
    default:
      return nullptr;
  }
}
Elementwise between_floats(Kind from, Kind to) {
  switch (to) {
    case Kind::F16:
      return from_float<float16, Conversion::Float>(from);
    case Kind::BF16:
      return from_float<bfloat16, Conversion::Float>(from);
    case Kind::F32:
      return from_float<float, Conversion::Float>(from);
    case Kind::F64:
      return from_float<double, Conversion::Float>(from);
    default:
      return nullptr;
  }
}

template <class T>
void select_numbers(char* to, const char* a, const char* b, const char* c, unsigned count) {
  for (unsigned i = 0; i < count; ++i) put(to, i, a[i] ? get<T>(b, i) : get<T>(c, i));
}
template <class T>
void pick_numbers(char* to, const char* a, const char* b, const char*, unsigned count) {
  for (unsigned i = 0; i < count; ++i) put(to, i, get<T>(a, get<uint32_t>(b, i)));
}

}  // namespace

Elementwise conversion(Conversion conversion, Kind from, Kind to) {
  switch (conversion) {
    case Conversion::Truncate:
      if (to != Kind::I1) return between_integers<Conversion::Truncate>(from, to);
      return bytes_of(from) == 1   ? truncate_to_bit<1>
             : bytes_of(from) == 2 ? truncate_to_bit<2>
             : bytes_of(from) == 4 ? truncate_to_bit<4>
                                   : truncate_to_bit<8>;
    case Conversion::ZeroExtend:
      return between_integers<Conversion::ZeroExtend>(from == Kind::I1 ? Kind::I8 : from, to);
    case Conversion::SignExtend:
      return from == Kind::I1 ? spread(to) : between_integers<Conversion::SignExtend>(from, to);
    case Conversion::FromSigned:
      return to_float<Conversion::FromSigned>(from, to);
    case Conversion::FromUnsigned:
      return to_float<Conversion::FromUnsigned>(from, to);
    case Conversion::ToSigned:
      return from_floats<Conversion::ToSigned>(from, to);
    case Conversion::ToUnsigned:
      return from_floats<Conversion::ToUnsigned>(from, to);
    case Conversion::Float:
      return between_floats(from, to);
  }
  return nullptr;
}

Elementwise select_each(unsigned bytes) {
  switch (bytes) {
    case 1:
      return select_numbers<uint8_t>;
    case 2:
      return select_numbers<uint16_t>;
    case 4:
      return select_numbers<uint32_t>;
    case 8:
      return select_numbers<uint64_t>;
    default:
      return nullptr;
  }
}

Elementwise pick(unsigned bytes) {
  switch (bytes) {
    case 1:
      return pick_numbers<uint8_t>;
    case 2:
      return pick_numbers<uint16_t>;
    case 4:
      return pick_numbers<uint32_t>;
    case 8:
      return pick_numbers<uint64_t>;
    default:
      return nullptr;
  }
}

}  // namespace tegula::emulator::bytecode
