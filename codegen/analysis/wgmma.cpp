#include "codegen/analysis/wgmma.h"

#include <algorithm>
#include <tuple>
#include <unordered_set>

#include "codegen/ir/flow.h"

namespace tegula {

namespace {

constexpr int kPatternRows = 8;  // of a swizzle pattern

// The most columns of an instruction of which some make up `columns`; 0 if there is none.
int64_t widest_columns(const MmaInstruction& instruction, int64_t columns) {
  for (int64_t parts = 1; columns / parts >= 8; ++parts)
    if (columns % parts == 0 && instruction.has_columns(columns / parts)) return columns / parts;
  return 0;
}

// Whether a value of A's shape follows, element by element, from sums of a dot whose warps have whole rows.
class SumSearch {
 public:
  SumSearch(const Target& target, int num_warps) : target_(target), num_warps_(num_warps) {}

  bool finds(const ir::Value* v) {
    if (!visited_.insert(v).second) return false;
    const ir::Op* op = v->def;
    if (op && op->opcode == ir::Opcode::MmaWait) {
      const ir::Op* product = op->operand(0)->def;
      return product && product->opcode == ir::Opcode::MmaStart && product->get(ir::attr::warpgroups)[1] == 1;
    }
    if (op && op->opcode == ir::Opcode::Dot) {
      auto plan = plan_wgmma(*op, target_, num_warps_);
      return plan && plan->groups_n == 1;
    }
    const std::vector<ir::Value*> from = op && op->has(ir::Elementwise) ? op->operands : ir::origins(v);
    return std::any_of(from.begin(), from.end(), [&](const ir::Value* x) { return finds(x); });
  }

 private:
  const Target& target_;
  int num_warps_;
  std::unordered_set<const ir::Value*> visited_;
};

// Whether the place that an operand is read from has elements along K side by side; true for what is not read from one.
bool may_lie_along_k(const ir::Op& dot, int operand) {
  const ir::Value* value = untransposed(dot.operands[size_t(operand)]);
  if (!is_place_read(value)) return true;
  const ir::Op* alloc = value->def->operand(0)->def;
  if (alloc->opcode == ir::Opcode::SharedSlot) alloc = alloc->operand(0)->def;
  return alloc->get(ir::attr::contiguous) == untransposed_k_axis(dot, operand);
}

}  // namespace

std::optional<WgmmaPlan> plan_wgmma(const ir::Op& dot, const Target& target, int num_warps) {
  const ir::Type &a = dot.operand(0)->type, &acc = dot.operand(2)->type;
  const MmaInstruction* instruction = find_mma(dot, MmaPath::Warpgroup, target);
  if (!instruction || num_warps % kMmaWarpsOfGroup || acc.rank() != 2) return std::nullopt;
  for (int operand : {0, 1})
    if (instruction->order == MmaOrder::KOrder && !may_lie_along_k(dot, operand)) return std::nullopt;
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

ir::Value* untransposed(ir::Value* operand) {
  while (operand->def && operand->def->opcode == ir::Opcode::Trans) operand = operand->def->operands[0];
  return operand;
}

int untransposed_k_axis(const ir::Op& dot, int operand) {
  const ir::Value* value = dot.operand(operand);
  int axis = value->type.rank() - (operand == 0 ? 1 : 2);
  for (; value->def && value->def->opcode == ir::Opcode::Trans; value = value->def->operand(0))
    axis = int(value->def->get(ir::attr::order)[size_t(axis)]);
  return axis;
}

bool is_place_read(const ir::Value* operand) { return operand->def && operand->def->opcode == ir::Opcode::SharedRead; }

OperandForm operand_form(const ir::Op& dot, int operand, const Target& target, int num_warps,
                         const std::function<bool(const ir::Value*)>& in_place) {
  if (in_place(untransposed(dot.operand(operand)))) return OperandForm::Place;
  if (operand == 1) return OperandForm::Stored;
  const auto plan = plan_wgmma(dot, target, num_warps);
  const bool whole_rows = plan && plan->groups_n == 1;
  return whole_rows && SumSearch(target, num_warps).finds(dot.operand(0)) ? OperandForm::Fragment : OperandForm::Stored;
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
