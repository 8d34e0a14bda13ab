#include "codegen/analysis/mask_bounds.h"

#include <algorithm>

#include "codegen/analysis/axis_facts.h"

namespace tegula {

using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr int kMostDepth = 8;  // of an expression that is looked into

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
    case Opcode::Splat:
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
  if (!x->type.is_integer() || !info_(bound).constant) return;
  const Sum sum = without_constants(x);
  const int64_t least = *info_(bound).constant + more - sum.added;
  auto [known, is_new] = least_.emplace(sum.of, least);
  if (!is_new) known->second = std::max(known->second, least);
}

MaskBounds::Sum MaskBounds::without_constants(const Value* x) const {
  int64_t added = 0;
  for (x = narrowest(x); x->def && !axis_facts::may_wrap_around(x->type);) {
    const bool adds = x->def->opcode == Opcode::Add;
    if (!adds && x->def->opcode != Opcode::Sub) break;
    const Value *l = x->def->operands[0], *r = x->def->operands[1];
    if (adds && info_(l).constant) std::swap(l, r);
    if (!info_(r).constant) break;
    added += adds ? *info_(r).constant : -*info_(r).constant;
    x = narrowest(l);
  }
  return {x, added};
}

std::optional<int64_t> MaskBounds::least(const Value* x, int depth) const {
  const Sum sum = without_constants(x);
  std::optional<int64_t> found;
  if (const auto known = least_.find(sum.of); known != least_.end()) found = known->second;
  auto may_be = [&](std::optional<int64_t> other) {
    if (other) found = found ? std::max(*found, *other) : *other;
  };
  const AxisInfo& info = info_(sum.of);
  if (info.non_negative) may_be(0);
  if (info.constant) may_be(*info.constant);
  if (const Op* op = sum.of->def; op && depth < kMostDepth) {
    auto of = [&](size_t i) { return least(op->operands[i], depth + 1); };
    if (op->opcode == Opcode::Splat || op->opcode == Opcode::Broadcast || op->opcode == Opcode::ExpandDims) {
      may_be(of(0));
    } else if (op->opcode == Opcode::Add && !axis_facts::may_wrap_around(sum.of->type)) {
      const auto l = of(0), r = of(1);
      if (l && r) may_be(*l + *r);
    }
  }
  return found ? std::optional(*found + sum.added) : found;
}

bool MaskBounds::non_negative(const Value* value) const {
  const auto known = least(value, 0);
  return known && *known >= 0;
}

}  // namespace tegula
