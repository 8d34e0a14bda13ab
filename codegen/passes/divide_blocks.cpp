// Divides programs with products over the blocks of their cluster (num_ctas).
//
// Rows, or columns, of a product's result are dealt out to the blocks, with all tiles that have these rows: operands,
// what is computed of the sums, and what is stored. From here on the function is the program of one block, whose tiles
// are smaller by so much, and `block_id` says which rows are its own:
//
//   arange {start = 0, end = 256}      ->      arange {start = 0, end = 128} + splat(block_id * 128)      of 2 blocks
//
// Stores of such tiles are marked per_block; what has no part in the division every block does alike, and one of them
// stores it. An operand that all blocks want can be brought to all of them at a time (pipeline/bulk_copies).
//
// Axes that an op has in common, of its operands and results, go together (AxisClasses). A class is divided where every
// op that has one of its axes can: none reduces along it or asks for its elements' places. Products' axes come first,
// the longer one ahead; then those of stores that nothing has divided. Otherwise the function stays as it is, and
// each block computes all of it.
#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "codegen/analysis/cluster_blocks.h"
#include "codegen/ir/builder.h"
#include "codegen/ir/flow.h"
#include "codegen/passes/passes.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int64_t kLeastExtent = 16;   // of a part
constexpr int64_t kRowsOfGroup = 64;   // that products of a warpgroup want
constexpr size_t kMostClones = 10000;  // of index arithmetic

// ------------------------------------------------------------------------------------- index arithmetic for each user

// Whether the value can be had for any rows without data movement: it follows from arange, constants and scalars.
bool is_free(const Value* v, std::unordered_map<const Value*, bool>& known) {
  if (!v->type.is_tile()) return true;
  const auto [it, is_new] = known.try_emplace(v, false);
  if (!is_new || !v->def) return it->second;
  const Op& op = *v->def;
  const bool computed = op.has(Elementwise) || op.opcode == Opcode::Splat || op.opcode == Opcode::Arange ||
                        op.opcode == Opcode::Constant || op.opcode == Opcode::Unset ||
                        op.opcode == Opcode::ExpandDims || op.opcode == Opcode::Broadcast || op.opcode == Opcode::Trans;
  const bool found =
      computed && op.has(Pure) && op.results.size() == 1 &&
      std::all_of(op.operands.begin(), op.operands.end(), [&](const Value* x) { return !x || is_free(x, known); });
  return known[v] = found;
}

// Gives each user of such a value one of its own, so that rows and columns that begin with the same arange part.
// False where that would take too many.
bool part_users(Func& func) {
  struct Use {
    Op* op;
    size_t operand;
  };
  std::unordered_map<const Value*, std::vector<Use>> uses;
  std::vector<Op*> ops;
  walk(func.body, [&](Op& op) {
    ops.push_back(&op);
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (op.operands[i] && op.operands[i]->type.is_tile()) uses[op.operands[i]].push_back({&op, i});
  });
  std::unordered_map<const Value*, bool> known;
  size_t clones = 0;
  for (size_t at = ops.size(); at-- > 0;) {  // users before what they use
    Op& op = *ops[at];
    if (op.results.size() != 1 || !op.result()->type.is_tile() || !is_free(op.result(), known)) continue;
    const std::vector<Use> of = uses[op.result()];
    for (size_t i = 1; i < of.size(); ++i) {
      if (++clones > kMostClones) return false;
      Builder here;
      here.set_before(&op);
      ValueMap map;
      Op* own = here.insert(clone_op(op, map));
      of[i].op->operands[of[i].operand] = own->result();
      for (size_t k = 0; k < own->operands.size(); ++k)
        if (own->operands[k] && own->operands[k]->type.is_tile()) uses[own->operands[k]].push_back({own, k});
    }
  }
  return true;
}

// ------------------------------------------------------------------------------------------------------ axes in common

/// An axis of a tile.
struct Axis {
  const Value* of;
  int number;
};

/// Sets of axes that can only be divided together.
class AxisClasses {
 public:
  explicit AxisClasses(Func& func) {
    walk(func.body, [&](Op& op) { add(op); });
  }

  size_t find(const Axis& axis) {
    size_t i = node(axis);
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  /// Whether each block can have an equal part of these axes, of `least` elements or more.
  bool can_divide(size_t found, int64_t blocks, int64_t least) {
    int64_t extent = 0;
    std::unordered_set<const Value*> seen;
    for (size_t i = 0; i < axes_.size(); ++i) {
      const Axis& axis = axes_[i];
      if (find(axis) != found) continue;
      const int64_t here = axis.of->type.shape[size_t(axis.number)];
      if (forbidden_.contains(i) || !seen.insert(axis.of).second || (extent && here != extent)) return false;
      extent = here;
    }
    return extent % blocks == 0 && extent / blocks >= least;
  }
  std::vector<Axis> members(size_t found) {
    std::vector<Axis> out;
    for (const Axis& axis : std::vector<Axis>(axes_))
      if (find(axis) == found) out.push_back(axis);
    return out;
  }

 private:
  size_t node(const Axis& axis) {
    auto [it, is_new] = first_.try_emplace(axis.of, axes_.size());
    if (is_new)
      for (int i = 0; i < axis.of->type.rank(); ++i) {
        parent_.push_back(axes_.size());
        axes_.push_back({axis.of, i});
      }
    return it->second + size_t(axis.number);
  }
  void unite(const Axis& a, const Axis& b) { parent_[find(a)] = find(b); }
  void unite(const Value* a, const Value* b) {
    if (!a || !b || !a->type.is_tile() || !b->type.is_tile()) return;
    for (int i = 0; i < a->type.rank(); ++i) unite({a, i}, {b, i});
  }
  // Of the class; the mark is on the axis, as classes grow.
  void forbid(const Value* v, int axis) {
    if (v && v->type.is_tile()) forbidden_.insert(node({v, axis}));
  }
  void forbid(const Value* v) {
    for (int i = 0; v && v->type.is_tile() && i < v->type.rank(); ++i) forbid(v, i);
  }

  static std::vector<Value*> tiles_of(const Op& op) {
    std::vector<Value*> tiles;
    for (Value* v : op.operands)
      if (v && v->type.is_tile()) tiles.push_back(v);
    for (const auto& v : op.results)
      if (v->type.is_tile()) tiles.push_back(v.get());
    return tiles;
  }
  void add_same(const Op& op) {
    const std::vector<Value*> tiles = tiles_of(op);
    for (size_t i = 1; i < tiles.size(); ++i) unite(tiles[0], tiles[i]);
  }
  // Axes of the operand but `axis` are those of the result, in order.
  void add_without(const Value* with, int axis, const Value* without) {
    if (!without->type.is_tile()) return;
    for (int i = 0; i < with->type.rank(); ++i)
      if (i != axis) unite({with, i}, {without, i - (i > axis)});
  }
  void add_dot(const Op& op) {
    const Value *a = op.operand(0), *b = op.operand(1), *sums = op.result();
    const int rank = sums->type.rank(), m = rank - 2, n = rank - 1;
    unite(op.operand(2), sums);
    for (int i = 0; i < m; ++i) unite({a, i}, {sums, i}), unite({b, i}, {sums, i});
    unite({a, m}, {sums, m});
    unite({b, n}, {sums, n});
    unite({a, n}, {b, m});
    forbid(a, n);
  }

  void add(const Op& op) {
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
        for (int i = 0; i < op.result()->type.rank(); ++i)
          if (op.operand(0)->type.shape[size_t(i)] == op.result()->type.shape[size_t(i)])
            unite({op.operand(0), i}, {op.result(), i});
        return;
      case Opcode::Trans: {
        const Ints order = op.get(attr::order);
        for (size_t i = 0; i < order.size(); ++i) unite({op.result(), int(i)}, {op.operand(0), int(order[i])});
        return;
      }
      case Opcode::Reduce:
        for (const Value* v : op.operands) {
          unite(op.operand(0), v);
          forbid(v, int(op.get(attr::axis)));
        }
        for (const auto& result : op.results) add_without(op.operand(0), int(op.get(attr::axis)), result.get());
        return;
      case Opcode::Dot:
        return add_dot(op);
      default:
        break;
    }
    if (op.has(Control) || op.has(Terminator)) return;
    const bool packed =
        (op.opcode == Opcode::InlineAsm || op.opcode == Opcode::MapElementwise) && op.get(attr::pack) > 1;
    const bool same = op.has(Elementwise) || op.opcode == Opcode::MapElementwise || op.opcode == Opcode::Load ||
                      op.opcode == Opcode::Store || op.opcode == Opcode::AtomicRmw;
    if (same && !packed) return add_same(op);
    for (const Value* v : tiles_of(op)) forbid(v);
  }

  std::vector<Axis> axes_;
  std::vector<size_t> parent_;
  std::unordered_map<const Value*, size_t> first_;
  std::unordered_set<size_t> forbidden_;
};

// ------------------------------------------------------------------------------------------------------------ division

class Divider {
 public:
  explicit Divider(Func& func) : func_(func), blocks_(func.num_ctas()) {}

  /// By the first class of a product's axes that can be divided, then by those of stores.
  void run() {
    AxisClasses classes(func_);
    if (!divide_products(classes)) return;
    walk(func_.body, [&](Op& op) {
      if (op.opcode == Opcode::Store && op.operand(0)->type.is_tile()) divide_any(classes, op.operand(0), kLeastExtent);
    });
    write();
  }

 private:
  bool divide_products(AxisClasses& classes) {
    bool divided = false;
    for (const int64_t least : {kRowsOfGroup, kLeastExtent})
      walk(func_.body, [&](Op& op) {
        if (op.opcode == Opcode::Dot && !divided) divided = divide_any(classes, op.result(), least);
      });
    return divided;
  }

  // One of the tile's last two axes, the longer one if it can be; false where none can.
  bool divide_any(AxisClasses& classes, const Value* tile, int64_t least) {
    if (parts_.contains(tile)) return false;
    const int rank = tile->type.rank();
    std::vector<int> axes;
    for (int axis = std::max(0, rank - 2); axis < rank; ++axis) axes.push_back(axis);
    std::stable_sort(axes.begin(), axes.end(),
                     [&](int a, int b) { return tile->type.shape[size_t(a)] > tile->type.shape[size_t(b)]; });
    for (const int axis : axes)
      if (divide(classes, classes.find({tile, axis}), axis + 1 == rank ? kLeastExtent : least)) return true;
    return false;
  }

  bool divide(AxisClasses& classes, size_t found, int64_t least) {
    if (!classes.can_divide(found, blocks_, least)) return false;
    const std::vector<Axis> members = classes.members(found);
    if (std::any_of(members.begin(), members.end(), [&](const Axis& axis) { return parts_.contains(axis.of); }))
      return false;
    for (const Axis& axis : members) parts_[axis.of] = axis.number;
    return true;
  }

  void write() {
    std::vector<Op*> ops;
    walk(func_.body, [&](Op& op) { ops.push_back(&op); });
    Builder first;
    first.set_before(func_.body.ops.front().get());
    first.set_loc(func_.loc);
    block_ = first.create(Opcode::BlockId, {}, {Type::scalar(Elem::I32)})->result();
    for (auto& [value, axis] : parts_) const_cast<Value*>(value)->type.shape[size_t(axis)] /= blocks_;
    for (Op* op : ops) rewrite(*op);
  }

  void rewrite(Op& op) {
    if (op.opcode == Opcode::Store || op.opcode == Opcode::AtomicRmw) {
      if (parts_.contains(op.operand(0))) op.set(attr::per_block, true);
    } else if (op.opcode == Opcode::Arange && parts_.contains(op.result())) {
      write_arange(op);
    } else if (op.opcode == Opcode::Hint && parts_.contains(op.result())) {
      weaken(op, size_t(parts_.at(op.result())));
    }
  }

  // The numbers of the block's own rows.
  void write_arange(Op& op) {
    const int64_t extent = op.result()->type.shape[0], start = op.get(attr::start);
    Builder build;
    build.set_after(&op);
    build.set_loc(op.loc);
    Value* own = build.mul(block_, build.constant(Type::scalar(Elem::I32), extent));
    Value* sum = build.create(Opcode::Add, {op.result(), build.splat(own, {extent})})->result();
    op.set(attr::end, start + extent);
    replace_uses(func_.body, op.result(), sum);
    sum->def->operands[0] = op.result();
  }

  // What is promised of runs that are longer than a part holds of its part.
  static void weaken(Op& op, size_t axis) {
    const int64_t extent = op.result()->type.shape[axis];
    auto change = [&](auto key, auto with) {
      Ints numbers = op.get(key);
      if (numbers.size() <= axis) return;
      numbers[axis] = with(numbers[axis]);
      op.set(key, std::move(numbers));
    };
    change(attr::divisibility, [&](int64_t n) { return std::gcd(n, extent); });
    change(attr::contiguity, [&](int64_t n) { return std::min(n, extent); });
    change(attr::constancy, [&](int64_t n) { return std::min(n, extent); });
  }

  Func& func_;
  const int64_t blocks_;
  Value* block_ = nullptr;
  std::unordered_map<const Value*, int> parts_;  // tiles that are divided, and along which axis
};

bool may_be_divided(const Func& func) {
  bool products = false, understood = true;
  walk(func.body, [&](const Op& op) {
    products |= op.opcode == Opcode::Dot;
    understood &= op.opcode != Opcode::InlineAsmEffects;
  });
  return func.num_ctas() > 1 && products && understood && !is_divided(func);
}

}  // namespace

void passes::divide_blocks(Func& func, PassContext& context) {
  if (!may_be_divided(func)) return;
  if (part_users(func)) Divider(func).run();
  canonicalize(func, context);
}

}  // namespace tegula
