// The matrix instructions of mma.def, and which of them multiplies a dot.
#pragma once

#include <string>
#include <vector>

#include "codegen/ir/ir.h"
#include "codegen/target/target.h"

namespace tegula {

enum class MmaPath : uint8_t {
  Sync,       ///< mma.sync: a warp multiplies 16 rows with 8 columns, all in its registers
  Warpgroup,  ///< wgmma: four warps multiply 64 rows with up to 256 columns; B, mostly A too, in shared memory
};

/// How exactly fp32 operands are multiplied, from the least on: the attribute `precision` of a dot.
enum class MmaPrecision : uint8_t {
  Tf32,    ///< products of operands rounded to 10 bits of mantissa
  Tf32x3,  ///< three such products for each, which leave out what is below their sums' last bits
  Ieee,    ///< products of all bits
};

enum class MmaOrder : uint8_t { AnyOrder, KOrder };

struct MmaInstruction {
  MmaPath path;
  Elem a, b, sums;
  int k;
  const char *type_a, *type_b;  ///< as PTX spells them
  MmaPrecision precision;
  MmaOrder order;
  Feature feature;

  int m() const { return path == MmaPath::Sync ? 16 : 64; }
  /// Whether there is an instruction with `n` columns.
  bool has_columns(int64_t n) const;
  /// Its number in mma_instructions().
  int row() const;
  /// Name of its hardware row with n columns, without the ending that says where operands are: mma_m16n8k16_f16,
  /// wgmma_m64n128k16_bf16.
  std::string hw_name(int n) const;
};

inline constexpr int kMmaMostColumns = 256;
inline constexpr int kMmaWarpsOfGroup = 4;

const std::vector<MmaInstruction>& mma_instructions();

/// What a dot allows.
MmaPrecision precision_of(const ir::Op& dot);

/// The instruction of this path that multiplies the dot's types on the target; null if there is none. Whether shapes
/// and places fit is for the caller to see, but for blocks of extents that are no powers of two. Sync: that of f16 for
/// f8, which are then widened, where f8 have none; f16 results are summed up in f32 and rounded at the end.
const MmaInstruction* find_mma(const ir::Op& dot, MmaPath path, const Target& target);

}  // namespace tegula
