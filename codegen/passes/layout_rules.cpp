#include "codegen/passes/layout_rules.h"

namespace tegula {

using ir::Opcode;

bool is_layout_free(const ir::Op& op) {
  return op.opcode == Opcode::Constant || op.opcode == Opcode::Unset || op.opcode == Opcode::Splat ||
         op.opcode == Opcode::Arange || op.opcode == Opcode::SharedRead;
}

bool keeps_layout(const ir::Op& op) {
  return op.has(ir::Elementwise) || op.info().rule == ir::ResultRule::EachSame || op.opcode == Opcode::MapElementwise ||
         op.opcode == Opcode::MmaWait;
}

namespace {

std::vector<int> inverse(const std::vector<int64_t>& order) {
  std::vector<int> result(order.size());
  for (size_t i = 0; i < order.size(); ++i) result[size_t(order[i])] = int(i);
  return result;
}

}  // namespace

std::optional<LinearLayout> operand_layout(const ir::Op& op, const LinearLayout& result) {
  if (keeps_layout(op)) return result;
  switch (op.opcode) {
    case Opcode::ExpandDims:
      return result.drop_tile_dim(int(op.get(ir::attr::axis))).remove_zero_registers();
    case Opcode::Broadcast: {
      LinearLayout held = result;
      const ir::Shape &from = op.operands[0]->type.shape, &to = op.result()->type.shape;
      for (size_t axis = 0; axis < from.size(); ++axis)
        if (from[axis] != to[axis]) held = held.hold_tile_dim(int(axis));
      return held.remove_zero_registers();
    }
    case Opcode::Reshape:
      return result.reshape_tile(op.operands[0]->type.shape);
    case Opcode::Trans:
      return result.permute_tile(inverse(op.get(ir::attr::order)));
    default:
      return std::nullopt;
  }
}

std::optional<LinearLayout> result_layout(const ir::Op& op, const LinearLayout& operand) {
  if (keeps_layout(op)) return operand;
  switch (op.opcode) {
    case Opcode::ExpandDims:
      return operand.insert_tile_dim(int(op.get(ir::attr::axis)));
    case Opcode::Reshape:
      return operand.reshape_tile(op.result()->type.shape);
    case Opcode::Trans: {
      std::vector<int64_t> order = op.get(ir::attr::order);
      return operand.permute_tile(std::vector<int>(order.begin(), order.end()));
    }
    case Opcode::Reduce:
      if (op.result()->type.is_scalar()) return std::nullopt;
      return operand.drop_tile_dim(int(op.get(ir::attr::axis))).remove_zero_registers();
    default:
      return std::nullopt;
  }
}

}  // namespace tegula
