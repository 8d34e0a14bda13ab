// The matrix instructions of instructions.def.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/ir/ir.h"
#include "codegen/target/target.h"

namespace tegula {

/// How exactly fp32 operands are multiplied, the least exact first: the attribute `precision` of a dot.
enum class MmaPrecision : uint8_t {
  Tf32,    ///< products of operands rounded to 10 bits of mantissa
  Tf32x3,  ///< three such products for each, which leave out what is below their sums' last bits
  Ieee,    ///< products of all bits
};

enum class MmaOrder : uint8_t { AnyOrder, KOrder };

struct MmaInstruction {
  std::string_view family;
  Elem a, b, sums;
  int k;
  const char *type_a, *type_b;  ///< as PTX spells them
  MmaPrecision precision;
  MmaOrder order;
  Feature feature;

  /// Its index in mma_instructions().
  int row() const;
  /// The types of its operands, with `separator` between them where they differ, and of sums of 16 bits.
  std::string types(std::string_view separator) const;
  /// How many sums a register of 32 bits holds: neighbours of a row.
  int sums_packed() const { return 32 / elem_bits(sums); }
  /// Whether the hardware sums up in fewer bits than the sums have: Hopper does so with products of float8.
  bool sums_in_few_bits() const { return feature == Feature::Wgmma && is_float8(a); }
  /// Whether sums of integers end at the largest and the smallest one; otherwise they wrap around.
  bool saturates() const { return feature != Feature::Wgmma && is_integer(sums); }
  /// Family and types, which no two rows share: mma_sync.f16, wgmma.e4m3.e5m2.sums_f16.
  std::string name() const;
};

inline constexpr int kMmaMostColumns = 256;  ///< of any instruction

const std::vector<MmaInstruction>& mma_instructions();

/// The precision that a dot allows.
MmaPrecision precision_of(const ir::Op& product);

/// The instruction of the family that multiplies these types on the target, as exactly as the dot asks for; null if
/// there is none that is also `good`.
const MmaInstruction* find_instruction(
    std::string_view family, const ir::Op& dot, Elem a, Elem b, Elem sums, const Target& target,
    const std::function<bool(const MmaInstruction&)>& good = [](auto&) { return true; });

}  // namespace tegula
