// Divides programs with products over the blocks of their cluster (num_ctas).
//
// Rows, or columns, of a product's result are dealt out to the blocks, with all tiles that have these rows: operands,
// what is computed of the sums, and what is stored. From here on the function is the program of one block, whose tiles
// are smaller by so much, and `block_id` says which rows are its own:
//
//   arange {start = 0, end = 256}      ->      arange {start = 0, end = 128} + splat(block_id * 128)      of 2 blocks
//
// Stores of such tiles are marked per_block. Ops without a divided axis are carried out by every block, and one block
// stores their results. An operand that all blocks want can be brought to all of them at once (pipeline/bulk_copies).
//
// Axes that an op has in common, of its operands and results, go together (AxisClasses). A class is divided where every
// op that has one of its axes can: none reduces along it or asks for its elements' places. Products' axes come first,
// the longer one ahead, and of two that are equal the rows, or the columns where sums are computed with in each
// iteration; then those of stores that nothing has divided. Otherwise the function stays as it is, and each block
// computes all of it.
//
// Where columns of a product are combined, as for the norm of whole rows, and its rows are too few for all blocks, long
// rows are divided all the same: what each block combines of its own is exchanged and combined by all of them.
//
//   reduce(tile<64x512>, axis 1)       ->      s = reduce(tile<64x128>, axis 1)
//                                              reduce(exchange_blocks(s) : tile<4x64>, axis 0)
//
// Products of rank 3, as many as there are blocks, are dealt out: each block computes one, of tiles without that axis.
// Where elements are combined along it, as sums of shares of K are, each block gets its part of the rows from all
// blocks:
//
//   reduce(tile<4x128x64>, axis 0)     ->      reduce(exchange_blocks(tile<128x64>) : tile<4x32x64>, axis 0)
#include <algorithm>
#include <unordered_map>

#include "codegen/analysis/cluster_blocks.h"
#include "codegen/passes/axis_classes.h"
#include "codegen/passes/index_parts.h"
#include "codegen/passes/passes.h"
#include "codegen/pipeline/loop_values.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int64_t kLeastExtent = 16;   // of a part
constexpr int64_t kRowsOfGroup = 64;   // that products of a warpgroup want
constexpr int64_t kMostColumns = 256;  // that blocks with fewer rows should have

// Whether the product's sums begin as zeros, or are added to others after some products along K.
bool begins_anew(const Op& dot) { return dot.get(attr::imprecise) > 0 || is_zero(dot.operand(2)); }

// ------------------------------------------------------------------------------------------------------------ division

class Divider {
 public:
  explicit Divider(Func& func) : func_(func), blocks_(func.num_ctas()) {}

  /// Divides along products of rank 3 that the blocks share, else along the first class of a product's axes that can be
  /// divided; then along those of stores.
  void run() {
    AxisClasses alone(func_);
    if (!deal_out_products(alone) && !divide_products(alone)) return;
    AxisClasses classes(func_, exchanged_);
    walk(func_.body, [&](Op& op) {
      if (op.opcode == Opcode::Store && op.operand(0)->type.is_tile()) divide_any(classes, op.operand(0), kLeastExtent);
    });
    write();
  }

 private:
  // ---- Products of rank 3, of which each block computes one: the tiles lose that axis

  bool deal_out_products(AxisClasses& classes) {
    bool dealt_out = false;
    walk(func_.body, [&](Op& op) {
      if (op.opcode != Opcode::Dot || op.result()->type.rank() < 3 || dealt_out) return;
      dealt_out = deal_out(classes, classes.find({op.result(), 0}));
      if (!dealt_out) lost_.clear(), parts_.clear(), exchanged_.clear();
    });
    return dealt_out;
  }

  // Exchanges what is combined along the axis: each block gets its part of everybody's data.
  bool deal_out(AxisClasses& classes, size_t found) {
    if (!classes.can_deal_out(found, blocks_) || !lose(classes, found) || !all_lose_alike()) return false;
    walk(func_.body, [&](Op& op) {
      if (op.opcode == Opcode::Reduce && loses(op.operand(0), int(op.get(attr::axis)))) exchanged_.insert(&op);
    });
    AxisClasses behind(func_, exchanged_);
    return std::all_of(exchanged_.begin(), exchanged_.end(),
                       [&](const Op* op) { return divide_exchanged(behind, *op); });
  }

  bool loses(const Value* tile, int axis) const {
    const auto it = lost_.find(tile);
    return it != lost_.end() && it->second == axis;
  }

  // Includes the axes of extent 1 that are broadcast to those.
  bool lose(AxisClasses& classes, size_t found) {
    for (const Axis& axis : classes.members(found))
      if (!lost_.try_emplace(axis.of, axis.number).second) return false;
    std::vector<size_t> single;
    walk(func_.body, [&](Op& op) {
      if (op.opcode != Opcode::Broadcast || !lost_.contains(op.result())) return;
      const int axis = lost_.at(op.result());
      if (!loses(op.operand(0), axis)) single.push_back(classes.find({op.operand(0), axis}));
    });
    return std::all_of(single.begin(), single.end(), [&](size_t other) {
      const std::vector<Axis>& members = classes.members(other);
      if (loses(members[0].of, members[0].number)) return true;
      return classes.can_divide(other, 1, 1) && lose(classes, other);
    });
  }

  // Whether no tile that loses an axis of extent 1 is repeated along it in a tile that has it.
  bool all_lose_alike() const {
    bool alike = true;
    walk(func_.body, [&](const Op& op) {
      if (op.opcode != Opcode::Broadcast) return;
      const auto it = lost_.find(op.operand(0));
      alike &= it == lost_.end() || loses(op.result(), it->second);
    });
    return alike;
  }

  // The result's rows, or columns, are divided.
  bool divide_exchanged(AxisClasses& classes, const Op& op) {
    const Value* result = op.result();
    if (parts_.contains(result)) return true;
    auto divides = [&](int axis) {
      const int64_t extent = result->type.shape[size_t(axis)];
      return (extent & (extent - 1)) == 0 && divide(classes, classes.find({result, axis}), 1);
    };
    for (int axis = 0; axis < result->type.rank(); ++axis)
      if (divides(axis)) return true;
    return false;
  }

  // ---- Products whose rows or columns are divided

  bool divide_products(AxisClasses& classes) {
    bool divided = false;
    auto divide_first = [&](auto&& divide) {
      walk(func_.body, [&](Op& op) {
        if (op.opcode == Opcode::Dot && !divided) divided = divide(op.result());
      });
    };
    divide_first([&](const Value* sums) { return begins_anew(*sums->def) && divide_columns(classes, sums); });
    divide_first([&](const Value* sums) { return divide_any(classes, sums, kRowsOfGroup); });
    divide_first([&](const Value* sums) { return divide_combined(classes, sums); });
    divide_first([&](const Value* sums) { return divide_any(classes, sums, kLeastExtent); });
    return divided;
  }

  // Divides the columns of long rows, although reductions combine them: the blocks then combine their results.
  bool divide_combined(AxisClasses& classes, const Value* sums) {
    if (sums->type.shape.back() <= kMostColumns) return false;
    const size_t columns = classes.find({sums, sums->type.rank() - 1});
    AxisClasses::Ops combining;
    bool to_tiles = true;
    walk(func_.body, [&](Op& op) {
      if (op.opcode != Opcode::Reduce || classes.find({op.operand(0), int(op.get(attr::axis))}) != columns) return;
      to_tiles &= op.result()->type.is_tile();
      combining.insert(&op);
    });
    if (!to_tiles || !divide(classes, columns, kLeastExtent, true)) return false;
    combining_ = std::move(combining);
    return true;
  }

  // Divides the columns of a product in a loop that computes with each iteration's sums: a thread holds these besides
  // what they are added to. If there are as many rows as columns this is better than dividing the rows: an instruction
  // covers 64 rows and all of the block's columns, so that fewer sums are live.
  bool divide_columns(AxisClasses& classes, const Value* sums) {
    const Shape& shape = sums->type.shape;
    const int64_t columns = shape.back();
    return shape.size() == 2 && shape[0] == columns && columns >= kMostColumns &&
           divide(classes, classes.find({sums, 1}), kLeastExtent);
  }

  // Divides one of the tile's last two axes, preferably the longer one; false if neither can be divided.
  bool divide_any(AxisClasses& classes, const Value* tile, int64_t least) {
    if (parts_.contains(tile) || lost_.contains(tile)) return false;
    const int rank = tile->type.rank();
    std::vector<int> axes;
    for (int axis = std::max(0, rank - 2); axis < rank; ++axis) axes.push_back(axis);
    std::stable_sort(axes.begin(), axes.end(),
                     [&](int a, int b) { return tile->type.shape[size_t(a)] > tile->type.shape[size_t(b)]; });
    for (const int axis : axes)
      if (divide(classes, classes.find({tile, axis}), axis + 1 == rank ? kLeastExtent : least)) return true;
    return false;
  }

  bool divide(AxisClasses& classes, size_t found, int64_t least, bool combined = false) {
    if (!classes.can_divide(found, blocks_, least, combined)) return false;
    const std::vector<Axis>& members = classes.members(found);
    if (std::any_of(members.begin(), members.end(),
                    [&](const Axis& axis) { return parts_.contains(axis.of) || lost_.contains(axis.of); }))
      return false;
    for (const Axis& axis : members) parts_[axis.of] = axis.number;
    return true;
  }

  // ---- Rewriting

  void write() {
    std::vector<Op*> ops;
    walk(func_.body, [&](Op& op) { ops.push_back(&op); });
    Builder first;
    first.set_before(func_.body.ops.front().get());
    first.set_loc(func_.loc);
    block_ = first.create(Opcode::BlockId, {}, {Type::scalar(Elem::I32)})->result();
    for (auto& [value, axis] : parts_) const_cast<Value*>(value)->type.shape[size_t(axis)] /= blocks_;
    for (auto& [value, axis] : lost_) {
      Shape& shape = const_cast<Value*>(value)->type.shape;
      shape.erase(shape.begin() + axis);
    }
    for (Op* op : ops) rewrite(*op);
  }

  void rewrite(Op& op) {
    const bool divided = !op.results.empty() && parts_.contains(op.result());
    const bool shorter = !op.results.empty() && lost_.contains(op.result());
    switch (op.opcode) {
      case Opcode::Load:
        if (!is_by_owners(op)) return;
        [[fallthrough]];
      case Opcode::Store:
      case Opcode::AtomicRmw:
        if (parts_.contains(op.operand(0)) || lost_.contains(op.operand(0))) op.set(attr::per_block, true);
        return;
      case Opcode::Arange:
        if (divided) write_arange(op);
        if (shorter) write_number(op);
        return;
      case Opcode::Hint:
        if (divided) weaken_hint(op, size_t(parts_.at(op.result())));
        if (shorter) drop_hint(op);
        return;
      case Opcode::ExpandDims:
        if (shorter) write_expand_dims(op);
        return;
      case Opcode::Broadcast:
      case Opcode::Splat:
        if (shorter && op.result()->type.shape == op.operand(0)->type.shape)
          replace_uses(func_.body, op.result(), op.operand(0));
        return;
      case Opcode::Trans:
        if (shorter) write_trans(op);
        return;
      case Opcode::Reduce:
        return write_reduction(op);
      default:
        return;
    }
  }

  // The numbers of the block's own rows.
  void write_arange(Op& op) {
    begin_range(func_, op, [&](Builder& build) {
      return build.mul(block_, build.constant(Type::scalar(Elem::I32), op.result()->type.shape[0]));
    });
  }

  // The block's own number; a range of extent 1 keeps its number.
  void write_number(Op& op) {
    const int64_t start = op.get(attr::start), extent = op.get(attr::end) - start;
    Builder build;
    build.set_before(&op);
    build.set_loc(op.loc);
    Value* number = build.constant(Type::scalar(Elem::I32), start);
    if (extent > 1) number = start ? build.add(block_, number) : block_;
    replace_uses(func_.body, op.result(), number);
    op.result()->type.shape = {extent};  // nobody uses it
  }

  // Inserts nothing where it inserted the lost axis.
  void write_expand_dims(Op& op) {
    const int axis = int(op.get(attr::axis)), lost = lost_.at(op.result());
    if (axis == lost) return replace_uses(func_.body, op.result(), op.operand(0));
    if (lost < axis) op.set(attr::axis, int64_t(axis - 1));
    if (op.operand(0)->type.is_tile()) return;
    Builder build;
    build.set_before(&op);
    build.set_loc(op.loc);
    replace_uses(func_.body, op.result(), build.splat(op.operand(0), op.result()->type.shape));
  }

  void write_trans(Op& op) {
    Ints order = op.get(attr::order);
    const int64_t from = lost_.at(op.operand(0));
    std::erase(order, from);
    for (int64_t& axis : order) axis -= axis > from;
    if (order.size() > 1) return op.set(attr::order, std::move(order));
    replace_uses(func_.body, op.result(), op.operand(0));
  }

  // After a reduction of the block's own part: combines the results of all blocks.
  void write_combined(Op& op) {
    Builder build;
    build.set_after(&op);
    build.set_loc(op.loc);
    std::vector<Value*> parts;
    for (const auto& part : op.results) {
      Shape shape = part->type.shape;
      shape.insert(shape.begin(), blocks_);
      parts.push_back(build.create(Opcode::ExchangeBlocks, {part.get()}, {part->type.with_shape(shape)})->result());
    }
    ValueMap inner;
    Op* reduction = build.insert(clone_op(op, inner));
    reduction->operands = parts;
    reduction->set(attr::axis, int64_t(0));
    for (size_t i = 0; i < parts.size(); ++i) {
      replace_uses(func_.body, op.result(int(i)), reduction->result(int(i)));
      parts[i]->def->operands[0] = op.result(int(i));
    }
  }

  void write_reduction(Op& op) {
    if (combining_.contains(&op)) return write_combined(op);
    const Value* x = op.operand(0);
    if (!exchanged_.contains(&op)) {
      const auto it = lost_.find(x);
      if (it != lost_.end() && it->second < op.get(attr::axis)) op.set(attr::axis, op.get(attr::axis) - 1);
      return;
    }
    const int axis = parts_.at(op.result());
    Builder build;
    build.set_before(&op);
    build.set_loc(op.loc);
    for (Value*& operand : op.operands) {
      Shape shape = operand->type.shape;
      shape[size_t(axis)] /= blocks_;
      shape.insert(shape.begin(), blocks_);
      operand = build
                    .create(Opcode::ExchangeBlocks, {operand}, {operand->type.with_shape(shape)},
                            {{attr::axis, int64_t(axis)}})
                    ->result();
    }
    op.set(attr::axis, int64_t(0));
  }

  Func& func_;
  const int64_t blocks_;
  Value* block_ = nullptr;
  std::unordered_map<const Value*, int> parts_;  // tiles that are divided, and along which axis
  std::unordered_map<const Value*, int> lost_;   // tiles that lose an axis, of which each block has one element
  AxisClasses::Ops exchanged_;                   // reductions along such an axis
  AxisClasses::Ops combining_;                   // reductions along an axis that is divided
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
  part_users(func);
  Divider(func).run();
  canonicalize(func, context);
}

}  // namespace tegula
