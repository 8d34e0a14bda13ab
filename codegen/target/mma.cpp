#include "codegen/target/mma.h"

#include <fmt/format.h>

namespace tegula {

const std::vector<MmaInstruction>& mma_instructions() {
  using enum Elem;
  static const std::vector<MmaInstruction> rows = {
#define TEGULA_MMA(path, a, b, sums, k, type_a, type_b, precision, order, feature) \
  {MmaPath::path, a, b, sums, k, type_a, type_b, MmaPrecision::precision, MmaOrder::order, Feature::feature},
#include "codegen/target/mma.def"
  };
  return rows;
}

bool MmaInstruction::has_columns(int64_t n) const {
  if (path == MmaPath::Sync) return n == 8;
  // Of integers every second width above 32.
  return n >= 8 && n <= kMmaMostColumns && n % (is_integer(a) && n > 32 ? 16 : 8) == 0;
}

int MmaInstruction::row() const { return int(this - mma_instructions().data()); }

std::string MmaInstruction::hw_name(int n) const {
  std::string types = a == b ? type_a : fmt::format("{}_{}", type_a, type_b);
  return fmt::format("{}_m{}n{}k{}_{}", path == MmaPath::Sync ? "mma" : "wgmma", m(), n, k, types);
}

MmaPrecision precision_of(const ir::Op& dot) {
  const std::string name = dot.attr_string("precision");
  return name == "tf32" ? MmaPrecision::Tf32 : name == "tf32x3" ? MmaPrecision::Tf32x3 : MmaPrecision::Ieee;
}

namespace {

// Whether fragments of a warp fill the tile's blocks, where it has several: what lies beyond a block is another one, no
// copy. Along K four lanes hold 32 bits each; further registers may belong to the next block, or to none.
bool fills_blocks(const MmaInstruction& instruction, const ir::Op& dot) {
  const ir::Type &a = dot.operand(0)->type, &sums = dot.result()->type;
  auto fills = [](int64_t extent, int64_t tile) { return repeats_of(extent) == 1 || block_of(extent) >= tile; };
  return fills(sums.shape[sums.shape.size() - 2], instruction.m()) && fills(sums.shape.back(), 8) &&
         fills(a.shape.back(), 4 * 32 / a.bits());
}

}  // namespace

const MmaInstruction* find_mma(const ir::Op& dot, MmaPath path, const Target& target) {
  const Elem a = dot.operand(0)->type.elem, b = dot.operand(1)->type.elem, result = dot.result()->type.elem;
  const Elem sums = result == Elem::F16 && path == MmaPath::Sync ? Elem::F32 : result;
  auto find = [&](Elem a, Elem b) -> const MmaInstruction* {
    for (const MmaInstruction& row : mma_instructions())
      if (row.path == path && row.a == a && row.b == b && row.sums == sums && row.precision >= precision_of(dot) &&
          target.has(row.feature) && (path == MmaPath::Warpgroup || fills_blocks(row, dot)))
        return &row;
    return nullptr;
  };
  const MmaInstruction* instruction = find(a, b);
  if (!instruction && path == MmaPath::Sync && is_float8(a) && is_float8(b)) instruction = find(Elem::F16, Elem::F16);
  return instruction;
}

}  // namespace tegula
