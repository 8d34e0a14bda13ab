#include "codegen/product/instruction.h"

#include <fmt/format.h>

namespace tegula {

const std::vector<MmaInstruction>& mma_instructions() {
  using enum Elem;
  static const std::vector<MmaInstruction> rows = {
#define TEGULA_MMA(family, a, b, sums, k, type_a, type_b, precision, order, feature) \
  {#family, a, b, sums, k, type_a, type_b, MmaPrecision::precision, MmaOrder::order, Feature::feature},
#include "codegen/product/instructions.def"
  };
  return rows;
}

int MmaInstruction::row() const { return int(this - mma_instructions().data()); }

std::string MmaInstruction::types(std::string_view separator) const {
  std::string types = a == b ? type_a : fmt::format("{}{}{}", type_a, separator, type_b);
  if (sums == Elem::F16) types += fmt::format("{}sums_f16", separator);
  return types;
}

std::string MmaInstruction::name() const { return fmt::format("{}.{}", family, types(".")); }

MmaPrecision precision_of(const ir::Op& product) {
  const std::string name = product.get(ir::attr::precision);
  return name == "tf32" ? MmaPrecision::Tf32 : name == "tf32x3" ? MmaPrecision::Tf32x3 : MmaPrecision::Ieee;
}

const MmaInstruction* find_instruction(std::string_view family, const ir::Op& dot, Elem a, Elem b, Elem sums,
                                       const Target& target, const std::function<bool(const MmaInstruction&)>& good) {
  for (const MmaInstruction& row : mma_instructions())
    if (row.family == family && row.a == a && row.b == b && row.sums == sums && row.precision >= precision_of(dot) &&
        target.has(row.feature) && good(row))
      return &row;
  return nullptr;
}

}  // namespace tegula
