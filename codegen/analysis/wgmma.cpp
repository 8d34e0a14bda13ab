#include "codegen/analysis/wgmma.h"

#include <algorithm>
#include <tuple>

namespace tegula {

namespace {

constexpr int kPatternRows = 8;  // of a swizzle pattern

// Whether the place that an operand is read from has elements along K side by side; true for what is not read from one.
bool may_lie_along_k(const ir::Op& dot, int operand) {
  const auto [value, k_axis] = operand_source(dot, operand);
  if (!value->def || value->def->opcode != ir::Opcode::SharedRead) return true;
  const ir::Op* alloc = value->def->operand(0)->def;
  if (alloc->opcode == ir::Opcode::SharedSlot) alloc = alloc->operand(0)->def;
  return alloc->attr_int("contiguous") == k_axis;
}

}  // namespace

OperandSource operand_source(const ir::Op& dot, int operand) {
  OperandSource source{dot.operand(operand), dot.operand(operand)->type.rank() - (operand == 0 ? 1 : 2)};
  while (source.value->def && source.value->def->opcode == ir::Opcode::Trans) {
    source.k_axis = int(source.value->def->attr_ints("order")[size_t(source.k_axis)]);
    source.value = source.value->def->operand(0);
  }
  return source;
}

std::optional<WgmmaPlan> plan_wgmma(const ir::Op& dot, const Target& target, int num_warps) {
  const ir::Type &a = dot.operand(0)->type, &acc = dot.operand(2)->type;
  const MmaInstruction* instruction = find_mma(dot, MmaPath::Warpgroup, target);
  if (!instruction || num_warps % kMmaWarpsOfGroup || acc.rank() != 2) return std::nullopt;
  for (int operand : {0, 1})
    if (instruction->order == MmaOrder::KOrder && !may_lie_along_k(dot, operand)) return std::nullopt;
  const int64_t m = acc.shape[0], n = acc.shape[1], k = a.shape[1];
  const int rows = instruction->m();
  if (m < rows || n < 16 || k < instruction->k) return std::nullopt;
  // The fewest copies, then the squarest parts: their operands are the smallest.
  std::optional<WgmmaPlan> best;
  std::tuple<int64_t, int64_t> best_cost;
  const int groups = num_warps / kMmaWarpsOfGroup;
  for (int groups_m = groups; groups_m > 0; groups_m /= 2) {
    const int groups_n = groups / groups_m;
    if (m / groups_m < rows || n / groups_n < 8) continue;
    const int64_t part_m = m / groups_m, part_n = n / groups_n;
    // What the tensor core reads of A and B for each part.
    const int64_t columns = std::min<int64_t>(part_n, kMmaMostColumns);
    if (!instruction->has_columns(columns)) continue;
    const int64_t read = part_m * (part_n / columns) + part_n * (part_m / rows);
    if (!best || std::tuple(read, part_m) < best_cost) {
      best = WgmmaPlan{instruction, groups_m, groups_n, int(columns)};
      best_cost = {read, part_m};
    }
  }
  return best;
}

std::optional<WgmmaOperand> wgmma_operand(const ir::Type& place, int operand) {
  const LinearLayout& layout = *place.layout;
  const int k_axis = operand == 0 ? 1 : 0, other_axis = 1 - k_axis;
  const int bytes = place.bits() / 8;
  WgmmaOperand out{};
  out.k_major = layout.in_bits(Dim::Offset) > 0 && layout.basis(Dim::Offset, 0, tile_dim(k_axis)) == 1;
  const int fast = out.k_major ? k_axis : other_axis, slow = 1 - fast;
  const int64_t row = std::min<int64_t>(place.shape[fast] * bytes, 128);
  if (row < 32 || place.shape[slow] < kPatternRows) return std::nullopt;
  out.swizzle = int(row);
  out.stride_bytes = int(kPatternRows * row);
  out.leading_bytes = out.k_major ? 16 : int(place.shape[slow] * row);
  out.to_offset = layout.invert();
  return out;
}

}  // namespace tegula
