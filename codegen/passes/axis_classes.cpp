#include "codegen/passes/axis_classes.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "codegen/ir/flow.h"

namespace tegula {

using namespace ir;

AxisClasses::AxisClasses(Func& func, Ops exchanged) : exchanged_(std::move(exchanged)) {
  walk(func.body, [&](Op& op) { add(op); });
}

size_t AxisClasses::find(const Axis& axis) {
  size_t i = node(axis);
  while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
  return i;
}

const AxisClasses::Class& AxisClasses::class_of(size_t found) {
  if (listed_ < axes_.size()) {
    std::unordered_map<size_t, std::vector<size_t>> nodes;
    for (; listed_ < axes_.size(); ++listed_) nodes[find(axes_[listed_])].push_back(listed_);
    for (const auto& [root, all] : nodes) {
      Class& made = classes_[root];
      for (size_t i : all) made.members.push_back(axes_[i]);
      made.all = extents_of(all, true);
      made.uncombined = extents_of(all, false);
    }
  }
  return classes_.at(found);
}

// The extents of the axes of a class, if no two axes belong to one tile; zeros otherwise, or if one must not be
// divided.
AxisClasses::Extents AxisClasses::extents_of(const std::vector<size_t>& nodes, bool exchange) const {
  Extents extents;
  std::unordered_set<const Value*> seen;
  for (size_t i : nodes) {
    const Axis& axis = axes_[i];
    if (forbidden_.contains(i) || (!exchange && combined_.contains(i)) || !seen.insert(axis.of).second) return {};
    const int64_t here = axis.of->type.shape[size_t(axis.number)];
    extents = {std::max(extents.most, here), std::gcd(extents.divisor, here)};
  }
  return extents;
}

size_t AxisClasses::node(const Axis& axis) {
  auto [it, is_new] = first_.try_emplace(axis.of, axes_.size());
  if (is_new)
    for (int i = 0; i < axis.of->type.rank(); ++i) {
      parent_.push_back(axes_.size());
      axes_.push_back({axis.of, i});
    }
  return it->second + size_t(axis.number);
}

void AxisClasses::unite(const Value* a, const Value* b) {
  if (!a || !b || !a->type.is_tile() || !b->type.is_tile()) return;
  for (int i = 0; i < a->type.rank(); ++i) unite({a, i}, {b, i});
}

// The mark is on the axis, since classes still grow.
void AxisClasses::forbid(const Value* v, int axis) {
  if (v && v->type.is_tile()) forbidden_.insert(node({v, axis}));
}

void AxisClasses::forbid(const Value* v) {
  for (int i = 0; v && v->type.is_tile() && i < v->type.rank(); ++i) forbid(v, i);
}

namespace {

std::vector<Value*> tiles_of(const Op& op) {
  std::vector<Value*> tiles;
  for (Value* v : op.operands)
    if (v && v->type.is_tile()) tiles.push_back(v);
  for (const auto& v : op.results)
    if (v->type.is_tile()) tiles.push_back(v.get());
  return tiles;
}

}  // namespace

void AxisClasses::add_same(const Op& op) {
  const std::vector<Value*> tiles = tiles_of(op);
  for (size_t i = 1; i < tiles.size(); ++i) unite(tiles[0], tiles[i]);
}

// The axes of `with` other than `axis` are those of `without`, in order.
void AxisClasses::add_without(const Value* with, int axis, const Value* without) {
  if (!without->type.is_tile()) return;
  for (int i = 0; i < with->type.rank(); ++i)
    if (i != axis) unite({with, i}, {without, i - (i > axis)});
}

void AxisClasses::add_broadcast(const Op& op) {
  const Value *from = op.operand(0), *to = op.result();
  for (int i = 0; i < to->type.rank(); ++i)
    if (from->type.shape[size_t(i)] == to->type.shape[size_t(i)]) unite({from, i}, {to, i});
}

void AxisClasses::add_trans(const Op& op) {
  const Ints order = op.get(attr::order);
  for (size_t i = 0; i < order.size(); ++i) unite({op.result(), int(i)}, {op.operand(0), int(order[i])});
}

// Leading axes that both shapes have in common are united, and those behind them, equal parts of which are the same
// elements of both; the elements along the others are in another order.
void AxisClasses::add_reshape(const Op& op) {
  const Value *from = op.operand(0), *to = op.result();
  if (!from->type.is_tile() || !to->type.is_tile()) return;
  const Shape &a = from->type.shape, &b = to->type.shape;
  size_t same = size_t(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  if (same < a.size() && same < b.size()) ++same;
  for (size_t i = 0; i < same; ++i) unite({from, int(i)}, {to, int(i)});
  for (size_t i = same; i < a.size(); ++i) forbid(from, int(i));
  for (size_t i = same; i < b.size(); ++i) forbid(to, int(i));
}

void AxisClasses::add_reduction(const Op& op) {
  const int axis = int(op.get(attr::axis));
  for (const Value* v : op.operands) {
    unite(op.operand(0), v);
    if (!exchanged_.contains(&op)) combined_.insert(node({v, axis}));
  }
  if (!exchanged_.contains(&op)) {
    for (const auto& result : op.results) add_without(op.operand(0), axis, result.get());
    return;
  }
  for (const auto& result : op.results) unite(op.result(), result.get());
}

// The elements along `axis` of the result depend on the whole row; other axes are those of the operand.
void AxisClasses::add_reordering(const Op& op, int axis) {
  const std::vector<Value*> tiles = tiles_of(op);
  for (const Value* v : tiles) {
    for (int i = 0; i < v->type.rank(); ++i)
      if (i != axis) unite({tiles[0], i}, {v, i});
    forbid(v, axis);
  }
}

void AxisClasses::add_dot(const Op& op) {
  const Value *a = op.operand(0), *b = op.operand(1), *sums = op.result();
  const int rank = sums->type.rank(), m = rank - 2, n = rank - 1;
  unite(op.operand(2), sums);
  for (int i = 0; i < m; ++i) unite({a, i}, {sums, i}), unite({b, i}, {sums, i});
  unite({a, m}, {sums, m});
  unite({b, n}, {sums, n});
  unite({a, n}, {b, m});
  forbid(a, n);
}

void AxisClasses::add(const Op& op) {
  for (const auto& members : circulating(op))
    for (const Value* member : members) unite(members[0], member);
  switch (op.opcode) {
    case Opcode::Constant:
    case Opcode::Unset:
    case Opcode::Splat:
    case Opcode::Arange:
      return;
    case Opcode::ExpandDims:
      return add_without(op.result(), int(op.get(attr::axis)), op.operand(0));
    case Opcode::Broadcast:
      return add_broadcast(op);
    case Opcode::Trans:
      return add_trans(op);
    case Opcode::Reshape:
      return add_reshape(op);
    case Opcode::Reduce:
      return add_reduction(op);
    case Opcode::Scan:
      return add_reordering(op, int(op.get(attr::axis)));
    case Opcode::Sort:
      return add_reordering(op, op.operand(0)->type.rank() - 1);
    case Opcode::Dot:
      return add_dot(op);
    default:
      break;
  }
  if (op.has(Control) || op.has(Terminator)) return;
  const bool packed = (op.opcode == Opcode::InlineAsm || op.opcode == Opcode::MapElementwise) && op.get(attr::pack) > 1;
  const bool same = op.has(Elementwise) || op.opcode == Opcode::MapElementwise || op.opcode == Opcode::Load ||
                    op.opcode == Opcode::Store || op.opcode == Opcode::AtomicRmw;
  if (!same)
    for (const Value* v : tiles_of(op)) forbid(v);
  if (same) add_same(op);
  // What is computed together are neighbours along the last axis.
  if (same && packed)
    for (const Value* v : tiles_of(op)) forbid(v, v->type.rank() - 1);
}

}  // namespace tegula
