#include "codegen/passes/layout_rules.h"

#include <algorithm>

#include "codegen/product/plan.h"

namespace tegula {

using ir::Opcode;

bool is_layout_free(const ir::Op& op) {
  return op.opcode == Opcode::Constant || op.opcode == Opcode::Unset || op.opcode == Opcode::Splat ||
         op.opcode == Opcode::Arange || op.opcode == Opcode::SharedRead;
}

bool keeps_layout(const ir::Op& op) {
  return op.has(ir::Elementwise) || op.info().combines_in_order() || op.opcode == Opcode::MapElementwise ||
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

std::optional<LinearLayout> repeated_in_registers(const ir::Op& op, const LinearLayout& operand) {
  if (op.opcode != Opcode::Broadcast || operand.free_mask(Dim::Lane) || operand.free_mask(Dim::Warp))
    return std::nullopt;
  const ir::Shape &from = op.operands[0]->type.shape, &to = op.result()->type.shape;
  std::vector<LinearLayout::Out> outs = operand.outs();
  std::vector<LinearLayout::Basis> repeats;
  for (size_t axis = from.size(); axis-- > 0;) {
    if (from[axis] == to[axis]) continue;
    if (repeats_of(to[axis]) > 1) return std::nullopt;
    for (auto& out : outs)
      if (out.dim == tile_dim(int(axis))) out.size = int32_t(to[axis]);
    for (int32_t bit = 1; bit < to[axis]; bit *= 2) {
      repeats.emplace_back(outs.size(), 0);
      for (size_t i = 0; i < outs.size(); ++i)
        if (outs[i].dim == tile_dim(int(axis))) repeats.back()[i] = bit;
    }
  }
  if (int64_t(1) << repeats.size() > kMostRepeats) return std::nullopt;
  std::vector<LinearLayout::In> ins = operand.ins();
  const auto registers = std::find_if(ins.begin(), ins.end(), [](const auto& in) { return in.dim == Dim::Register; });
  if (registers == ins.end()) return std::nullopt;
  registers->bases.insert(registers->bases.begin(), repeats.begin(), repeats.end());
  return LinearLayout(std::move(ins), std::move(outs));
}

bool exchanges_operands(const ir::Op& product) {
  return product.opcode == Opcode::Dot && family_of(product).scratch_bytes(product) > 0;
}

namespace {

// The element type from which a value was widened after its load; otherwise its own.
Elem loaded_elem(const ir::Value* v) {
  const Elem own = v->type.elem;
  while (v->def &&
         (v->def->opcode == Opcode::Cast || v->def->opcode == Opcode::Trans || v->def->opcode == Opcode::ConvertLayout))
    v = v->def->operands[0];
  const bool is_loaded = v->def && (v->def->opcode == Opcode::Load || v->def->opcode == Opcode::SharedRead);
  return is_loaded && elem_bits(v->type.elem) < elem_bits(own) ? v->type.elem : own;
}

// The element type that determines the fragments of a dot's operands. K may be in any order as long as it is the same
// for both: if an operand was widened from 8 bits, threads hold as many neighbours along K as a loaded word has.
Elem fragment_elem(const ir::Op& dot) {
  constexpr int kWords = 8;  // of a row of a fragment
  const Elem own = dot.operands[0]->type.elem;
  if (elem_bits(own) != 16) return own;
  for (const ir::Value* v : {dot.operands[0], dot.operands[1]})
    if (const Elem elem = loaded_elem(v); elem_bits(elem) == 8)
      return dot.operands[0]->type.shape.back() % (kWords * 32 / elem_bits(elem)) == 0 ? elem : own;
  return own;
}

}  // namespace

LinearLayout operand_of_product(const ir::Op& product, int operand, const LinearLayout& sums) {
  ir::Type type = product.operands[size_t(operand)]->type;
  if (product.opcode == Opcode::Dot) type.elem = fragment_elem(product);
  return family_of(product).operand_layout(plan_of(product), operand, type, sums);
}

}  // namespace tegula
