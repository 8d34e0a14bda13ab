// Element types, shared by kernel arguments at run time and by tile IR.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tegula {

enum class Elem : uint8_t {
#define TEGULA_ELEM(Name, text, tl, bits, kind) Name,
#include "runtime/base/elem.def"
};

enum class ElemKind : uint8_t { Bool, Int, UInt, Float };

struct ElemInfo {
  const char* text;  ///< "f32", as tile IR and the command line write it
  const char* tl;    ///< "float32", as the kernel language writes it
  int bits;
  ElemKind kind;
};

const ElemInfo& elem_info(Elem elem);
std::optional<Elem> elem_from_text(std::string_view text);  ///< accepts both spellings, and Triton's fp8e5, fp16, ...

inline int elem_bits(Elem e) { return elem_info(e).bits; }
/// Bytes in memory: int1 takes one.
inline int elem_bytes(Elem e) { return e == Elem::I1 ? 1 : elem_bits(e) / 8; }
inline bool is_float(Elem e) { return elem_info(e).kind == ElemKind::Float; }
/// The float8 formats of the OCP, which tensor cores multiply.
inline bool is_ocp_float8(Elem e) { return e == Elem::F8E4M3 || e == Elem::F8E5M2; }
/// Storage formats: such numbers are converted and moved; those of the OCP are multiplied by dots too.
inline bool is_float8(Elem e) {
  return is_ocp_float8(e) || e == Elem::F8E4B15 || e == Elem::F8E4B8 || e == Elem::F8E5B16;
}
inline bool is_integer(Elem e) { return !is_float(e); }  ///< int1 included
inline bool is_signed(Elem e) { return elem_info(e).kind == ElemKind::Int; }
inline bool is_unsigned(Elem e) { return elem_info(e).kind == ElemKind::UInt || e == Elem::I1; }

}  // namespace tegula
