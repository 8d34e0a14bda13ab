#include "codegen/analysis/mask_bounds.h"

#include <algorithm>

namespace tegula {

using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr int kIndexBits = 32;

/// The number without casts that keep its value.
const Value* narrowest(const Value* x) {
  auto widens = [](const Op& op) {
    if (op.opcode != Opcode::Cast) return false;
    const ir::Type &from = op.operands[0]->type, &to = op.result()->type;
    if (!from.is_integer() || from.is_bool() || !to.is_integer()) return false;
    return from.bits() < to.bits() && (is_signed(to.elem) || !is_signed(from.elem));
  };
  while (x->def && widens(*x->def)) x = x->def->operands[0];
  return x;
}

}  // namespace

MaskBounds::MaskBounds(const Value* mask, const AxisInfoOf& info) : info_(info) { collect(mask); }

void MaskBounds::collect(const Value* mask) {
  if (!mask->def) return;
  const Op& op = *mask->def;
  auto operand = [&](size_t i) { return op.operands[i]; };
  switch (op.opcode) {
    case Opcode::BitAnd:
      return collect(operand(0)), collect(operand(1));
    case Opcode::Broadcast:
      return collect(operand(0));
    case Opcode::Ge:
      return at_least(operand(0), operand(1), 0);
    case Opcode::Gt:
      return at_least(operand(0), operand(1), 1);
    case Opcode::Le:
      return at_least(operand(1), operand(0), 0);
    case Opcode::Lt:
      return at_least(operand(1), operand(0), 1);
    default:
      return;
  }
}

void MaskBounds::at_least(const Value* x, const Value* bound, int64_t more) {
  if (!x->type.is_integer() || !x->type.is_tile() || !info_(bound).constant) return;
  const int64_t least = *info_(bound).constant + more;
  auto [known, is_new] = least_.emplace(narrowest(x), least);
  if (!is_new) known->second = std::max(known->second, least);
}

bool MaskBounds::non_negative(const Value* value) const {
  int64_t added = 0;
  for (const Value* x = narrowest(value);;) {
    if (auto known = least_.find(x); known != least_.end()) return known->second + added >= 0;
    if (!x->def || (x->def->opcode != Opcode::Add && x->def->opcode != Opcode::Sub)) return false;
    if (x->type.bits() < kIndexBits) return false;  // it may wrap around
    const Value *l = x->def->operands[0], *r = x->def->operands[1];
    if (x->def->opcode == Opcode::Add && info_(l).constant) std::swap(l, r);
    if (!info_(r).constant) return false;
    added += x->def->opcode == Opcode::Add ? *info_(r).constant : -*info_(r).constant;
    x = narrowest(l);
  }
}

}  // namespace tegula
