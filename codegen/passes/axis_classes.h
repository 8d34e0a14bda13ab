// Classes of axes that ops have in common: the axes along which blocks can divide a program.
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

/// Equivalence classes of axes: ops have them in common, so that they can only be divided together. Some ops forbid
/// that an axis is divided, because they depend on the positions of its elements or combine elements along it.
class AxisClasses {
 public:
  using Ops = std::unordered_set<const ir::Op*>;

  /// The operands of the reductions `exchanged` come from other blocks, so that the axes of their operands are not
  /// those of their results.
  explicit AxisClasses(ir::Func& func, Ops exchanged = {});

  size_t find(const Axis& axis);
  /// Whether the axes of class `found` can be divided into equal parts of at least `least` elements, one for each of
  /// `blocks` blocks. With `combined` this includes axes along which elements are combined; the blocks' results then
  /// have to be combined.
  bool can_divide(size_t found, int64_t blocks, int64_t least, bool combined = false) {
    const Extents extents = extents_of(found, combined);
    return extents.divisor % blocks == 0 && extents.most / blocks >= least;
  }
  /// Whether each of `blocks` blocks can take one element along the axes: what is combined along them can be exchanged.
  bool can_deal_out(size_t found, int64_t blocks) {
    const Extents extents = extents_of(found, true);
    return extents.most == blocks && extents.divisor == blocks;
  }
  const std::vector<Axis>& members(size_t found) { return class_of(found).members; }

 private:
  /// Of the axes of a class: the largest extent, and the largest number that divides all. They differ where a tile of
  /// another shape has the same leading axis with others behind it.
  struct Extents {
    int64_t most = 0, divisor = 0;
  };
  /// A class, and what its extents are with and without axes along which elements are combined.
  struct Class {
    std::vector<Axis> members;
    Extents all, uncombined;
  };
  /// Classes are listed once, when somebody asks; later axes are of classes of their own.
  const Class& class_of(size_t found);
  Extents extents_of(size_t found, bool exchange) {
    const Class& of = class_of(found);
    return exchange ? of.all : of.uncombined;
  }
  Extents extents_of(const std::vector<size_t>& nodes, bool exchange) const;
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
  std::unordered_map<size_t, Class> classes_;
  size_t listed_ = 0;  ///< axes that have a place in classes_
};

}  // namespace tegula
