// Axes that ops have in common: what a program that blocks divide can be divided along.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "codegen/ir/ir.h"

namespace tegula {

/// An axis of a tile.
struct Axis {
  const ir::Value* of;
  int number;
};

/// Sets of axes of tiles that can only be divided together: an op has them in common. Some ops forbid that an axis is
/// divided, as they ask for its elements' places, or combine elements along it.
class AxisClasses {
 public:
  using Ops = std::unordered_set<const ir::Op*>;

  /// Reductions `exchanged` get what they combine from other blocks: their operands' axes are not those of results.
  explicit AxisClasses(ir::Func& func, Ops exchanged = {});

  size_t find(const Axis& axis);
  /// Whether each block can have an equal part of these axes, of `least` elements or more; with `combined` also where
  /// elements are combined along them, so that what the blocks make of their parts is to be combined then.
  bool can_divide(size_t found, int64_t blocks, int64_t least, bool combined = false) {
    const int64_t extent = extent_of(found, combined);
    return extent % blocks == 0 && extent / blocks >= least;
  }
  /// Whether each block can have one of `blocks` elements: what is combined along the axes can be exchanged.
  bool can_deal_out(size_t found, int64_t blocks) { return extent_of(found, true) == blocks; }
  std::vector<Axis> members(size_t found);

 private:
  int64_t extent_of(size_t found, bool exchange);
  size_t node(const Axis& axis);
  void unite(const Axis& a, const Axis& b) { parent_[find(a)] = find(b); }
  void unite(const ir::Value* a, const ir::Value* b);
  void forbid(const ir::Value* v, int axis);
  void forbid(const ir::Value* v);

  void add_same(const ir::Op& op);
  void add_without(const ir::Value* with, int axis, const ir::Value* without);
  void add_broadcast(const ir::Op& op);
  void add_trans(const ir::Op& op);
  void add_reshape(const ir::Op& op);
  void add_reduction(const ir::Op& op);
  void add_reordering(const ir::Op& op, int axis);
  void add_dot(const ir::Op& op);
  void add(const ir::Op& op);

  const Ops exchanged_;
  std::vector<Axis> axes_;
  std::vector<size_t> parent_;
  std::unordered_map<const ir::Value*, size_t> first_;
  std::unordered_set<size_t> forbidden_, combined_;
};

}  // namespace tegula
