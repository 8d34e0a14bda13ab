#include "codegen/analysis/wgmma.h"

#include <algorithm>
#include <tuple>

namespace tegula {

namespace {

constexpr int kPatternRows = 8;  // of a swizzle pattern

// The most columns of an instruction of which some make up `columns`; 0 if there is none.
int64_t widest_columns(const MmaInstruction& instruction, int64_t columns) {
  for (int64_t parts = 1; columns / parts >= 8; ++parts)
    if (columns % parts == 0 && instruction.has_columns(columns / parts)) return columns / parts;
  return 0;
}

}  // namespace

std::optional<WgmmaPlan> plan_wgmma(const ir::Op& dot, const Target& target, int num_warps) {
  const ir::Type &a = dot.operand(0)->type, &acc = dot.operand(2)->type;
  const MmaInstruction* instruction = find_mma(dot, MmaPath::Warpgroup, target);
  if (!instruction || num_warps % kMmaWarpsOfGroup || acc.rank() != 2) return std::nullopt;
  const int64_t m = acc.shape[0], n = acc.shape[1], k = a.shape[1];
  const int64_t block_m = block_of(m), block_n = block_of(n);
  const int rows = instruction->m();
  if (block_m < rows || block_n < 16 || block_of(k) < instruction->k) return std::nullopt;
  // The fewest copies, then the squarest parts: their operands are the smallest.
  std::optional<WgmmaPlan> best;
  std::tuple<int64_t, int64_t> best_cost;
  const int groups = num_warps / kMmaWarpsOfGroup;
  for (int groups_m = groups; groups_m > 0; groups_m /= 2) {
    const int groups_n = groups / groups_m;
    if (block_m / groups_m < rows || block_n / groups_n < 8) continue;
    const int64_t part_m = m / groups_m, part_n = n / groups_n;
    // Groups divide a block of columns, so that theirs lie side by side within blocks alone.
    const int64_t columns = widest_columns(*instruction, groups_n == 1 ? n : block_n / groups_n);
    if (!columns) continue;
    // What the tensor core reads of A and B for each part.
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
  const int64_t row = std::min<int64_t>(block_of(place.shape[fast]) * bytes, 128);
  if (row < 32 || block_of(place.shape[slow]) < kPatternRows) return std::nullopt;
  out.swizzle = int(row);
  out.stride_bytes = int(kPatternRows * row);
  out.to_offset = layout.invert();
  // Along M or N a pattern ends after eight rows, or after a row's bytes.
  const int64_t pattern = out.k_major ? kPatternRows : row / bytes, extent = place.shape[other_axis];
  auto distance = [&](int64_t at) {
    return int64_t(out.to_offset.apply({{tile_dim(other_axis), int32_t(at)}})[0]) * bytes;
  };
  const int64_t step = extent > pattern ? distance(pattern) : 0;
  out.leading_bytes = out.k_major ? 16 : int(step);
  out.together = int(pattern);
  while (out.together < extent && distance(out.together) == out.together / pattern * step) out.together += int(pattern);
  return out;
}

}  // namespace tegula
