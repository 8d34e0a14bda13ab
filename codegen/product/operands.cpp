#include "codegen/product/operands.h"

#include <algorithm>
#include <unordered_set>

#include "codegen/product/plan.h"

namespace tegula {

namespace {

constexpr int64_t kLeastRowBytes = 32;  // of a swizzled place, of which a product reads columns

}  // namespace

using namespace ir;

Value* untransposed(Value* operand) {
  while (operand->def && operand->def->opcode == Opcode::Trans) operand = operand->def->operands[0];
  return operand;
}

int untransposed_k_axis(const Op& dot, int operand) {
  const Value* value = dot.operand(operand);
  int axis = value->type.rank() - (operand == 0 ? 1 : 2);
  for (; value->def && value->def->opcode == Opcode::Trans; value = value->def->operand(0))
    axis = int(value->def->get(attr::order)[size_t(axis)]);
  return axis;
}

bool is_place_read(const Value* operand) { return operand->def && operand->def->opcode == Opcode::SharedRead; }

bool keeps_elements(const Op& op) {
  return op.has(Elementwise) || op.opcode == Opcode::Reshape || op.opcode == Opcode::ExpandDims ||
         op.opcode == Opcode::Broadcast;
}

bool is_widened_from(const Value* value, const std::function<bool(const Op&)>& is_source) {
  std::unordered_set<const Value*> seen;
  std::function<bool(const Value*)> comes = [&](const Value* v) {
    if (!v || !v->def || !v->type.is_tile() || !seen.insert(v).second) return false;
    if (v->type.bits() == 8 && is_source(*v->def)) return true;
    return keeps_elements(*v->def) && std::ranges::any_of(v->def->operands, comes);
  };
  return comes(value);
}

OperandForm operand_form(const Op& dot, int operand, const std::function<bool(const Value*)>& in_place) {
  if (in_place(untransposed(dot.operand(operand)))) return OperandForm::Place;
  return family_of(dot).takes_registers(dot, operand) ? OperandForm::Fragment : OperandForm::Stored;
}

int axis_side_by_side(const Op& dot, int operand) {
  const MmaInstruction* instruction = plan_of(dot).instruction;
  if (!instruction) return -1;
  const Type& type = dot.operand(operand)->type;
  const int64_t other_extent = type.shape[type.shape.size() - (operand == 0 ? 2 : 1)];
  const bool narrow = family_of(dot).asynchronous && block_of(other_extent) * type.bits() / 8 < kLeastRowBytes;
  return instruction->order == MmaOrder::KOrder || narrow ? untransposed_k_axis(dot, operand) : -1;
}

bool can_read_place(const Op& dot, int operand) {
  const Value* value = untransposed(dot.operand(operand));
  const int axis = axis_side_by_side(dot, operand);
  if (axis < 0 || !is_place_read(value)) return true;
  const Op* alloc = value->def->operand(0)->def;
  if (alloc->opcode == Opcode::SharedSlot) alloc = alloc->operand(0)->def;
  return alloc->get(attr::contiguous) == axis;
}

}  // namespace tegula
