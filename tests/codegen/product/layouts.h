// The layouts of families of instructions, by short names.
#pragma once

#include <stdexcept>
#include <string_view>

#include "codegen/product/plan.h"

namespace tegula {

inline const ProductFamily& family(std::string_view name) {
  for (const ProductFamily* family : product_families())
    if (family->name == name) return *family;
  throw std::invalid_argument(std::string(name));
}

inline LinearLayout sums_layout(std::string_view name, const ir::Shape& shape, int parts_m, int parts_n) {
  return family(name).sums_layout({.parts_m = parts_m, .parts_n = parts_n}, shape).value();
}
/// Of elements of `bits` bits; what integers they are does not matter.
inline LinearLayout operand_layout(std::string_view name, const ir::Shape& shape, int operand, int bits, int parts_m,
                                   int parts_n) {
  const Elem elem = bits == 8 ? Elem::I8 : bits == 16 ? Elem::I16 : Elem::I32;
  return family(name).operand_layout({.parts_m = parts_m, .parts_n = parts_n}, operand, ir::Type::tile(elem, shape),
                                     {});
}

inline LinearLayout mma_accumulator_layout(const ir::Shape& shape, int warps_m, int warps_n) {
  return sums_layout("mma_sync", shape, warps_m, warps_n);
}
inline LinearLayout mma_operand_layout(const ir::Shape& shape, int operand, int bits, int warps_m, int warps_n) {
  return operand_layout("mma_sync", shape, operand, bits, warps_m, warps_n);
}
inline LinearLayout wgmma_accumulator_layout(const ir::Shape& shape, int groups_m, int groups_n) {
  return sums_layout("wgmma", shape, groups_m, groups_n);
}
inline LinearLayout wgmma_operand_layout(const ir::Shape& shape, int bits, int groups_m, int groups_n) {
  return operand_layout("wgmma", shape, 0, bits, groups_m, groups_n);
}
inline LinearLayout fma_operand_layout(const LinearLayout& sums, int operand, const ir::Shape& shape) {
  return family("fma").operand_layout({}, operand, ir::Type::tile(Elem::F32, shape), sums);
}

}  // namespace tegula
