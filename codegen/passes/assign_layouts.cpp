// Gives every tile a layout.
//
// 1. Anchors. Products fix their results, by the family of their plan: tensor-core accumulators, or any layout, and
// each
//    thread gets the rows and columns that its sums need. Large memory ops fix their pointers, masks
//    and loaded values: lanes along the contiguous axis, up to 16 bytes a thread, or runs of elements that are one in
//    memory in a thread. All with the same shape and fastest axis share one layout, so that a row kernel needs no
//    conversion; copies to shared memory have their own. Places in shared memory are swizzled for the copies that fill
//    them and for ldmatrix.
// 2. Propagation. From the dots, then from the large memory ops, those that run most often first, a layout flows to
//    every value that can have it without data movement; the first to arrive stays. Small memory ops (a row of weights
//    beside a matrix) take what has arrived, and are anchors only if nothing has. Constants, splats, aranges and what
//    is read from shared memory take a layout but do not pass it on: they can be had in any.
// 3. Materialisation. Where an operand has another layout than its op needs, a convert_layout is put behind the
//    operand's definition, as late as its first use allows and outside of loops that it is not changed in; those
//    that can be had in any layout are made again instead. A scan asks for a layout that has the elements along its
//    axis in order.
//
// The blocks of a cluster divide a tile as warps do: rows, if there are enough of them, so that reductions along rows
// stay inside a block; else what is reduced, so that a row may be as wide as the registers of all blocks. Scans along
// what would be divided, sorts and lookups want tiles whole in each block. Programs with products, and those that
// divide_blocks has divided, are those of one block already.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/axis_runs.h"
#include "codegen/analysis/cluster_blocks.h"
#include "codegen/analysis/launch_values.h"
#include "codegen/analysis/layout_price.h"
#include "codegen/analysis/mask_runs.h"
#include "codegen/analysis/shared_plan.h"
#include "codegen/ir/builder.h"
#include "codegen/ir/flow.h"
#include "codegen/layout/axis_order.h"
#include "codegen/layout/makers.h"
#include "codegen/passes/layout_rules.h"
#include "codegen/passes/passes.h"
#include "codegen/product/plan.h"
#include "runtime/base/check.h"

namespace tegula {

using ir::Block;
using ir::Builder;
using ir::Func;
using ir::Op;
using ir::Opcode;
using ir::Shape;
using ir::Value;

namespace {

bool is_memory(const Op& op) {
  return op.opcode == Opcode::Load || op.opcode == Opcode::Store || op.opcode == Opcode::AtomicRmw ||
         op.opcode == Opcode::AsyncCopy;
}
/// Elements of one instruction at most: atomic sums of floats come in vectors or, those of 16 bits, in pairs; other
/// atomics one by one.
int most_at_once(const Op& op, const Target& target) {
  if (op.opcode != Opcode::AtomicRmw) return INT_MAX;
  const ir::Type& type = op.operands[1]->type;
  if (op.get(ir::attr::kind) != "add" || !type.is_float() || type.bits() > 32) return 1;
  if (target.has(Feature::AtomicVector)) return 128 / type.bits();
  return type.elem == Elem::F16 || (type.elem == Elem::BF16 && target.has(Feature::AtomicBf16)) ? 2 : 1;
}

const Value* mask_of(const Op& op) { return op.operand(op.opcode == Opcode::Load ? 1 : 2); }

class Assigner {
 public:
  Assigner(Func& func, const Target& target)
      : func_(func), target_(target), axis_(func), values_(func, axis_, inputs_) {}

  void run() {
    ir::walk(func_.body, [&](Op& op) { collect(op); });
    blocks_ = products_.empty() && !is_divided(func_) ? func_.num_ctas() : 1;
    const ProductPlanner planner(func_, target_);
    for (Op* product : products_)  // what is a dot still has its operands in registers, or reads them from places
      if (product->opcode == Opcode::Dot && (family_of(*product).asynchronous || exchanges_operands(*product)))
        planner.plan(*product, false);
    anchor();
    lay_out_places();
    for (const auto& group : groups_) group_layout(group.first);  // by facts of values that the next step replaces
    materialise(func_.body);
  }

 private:
  // ---- Anchors

  void collect(Op& op) {
    for (Value* v : op.operands)
      if (v && v->type.is_tile()) users_[v].push_back(&op);
    // What receives one value is one variable: the layouts never part.
    for (const ir::Flow& flow : ir::flows(op))
      for (size_t i = 0; flow.to.size() == 2 && i < flow.size(); ++i) {
        twins_[flow.to[0][i]] = flow.to[1][i];
        twins_[flow.to[1][i]] = flow.to[0][i];
      }
    if (ir::is_product(op)) products_.push_back(&op);
    if (is_memory(op)) {
      const Value* ptr = op.operands[0];
      op.set(ir::attr::vector, 1);
      if (!ptr->type.is_tile()) return;
      pointers_[&op] = axis_.info(ptr, mask_of(op));
      for (int axis = 0; axis < ptr->type.rank(); ++axis) widths_[&op].push_back(find_width(op, axis));
      memory_.push_back(&op), groups_[group_of(op)].push_back(&op);
    }
    if (op.info().combines()) combined_axes_[op.operands[0]->type.shape].insert(int(op.get(ir::attr::axis)));
    if (op.opcode == Opcode::Sort) combined_axes_[op.operands[0]->type.shape].insert(op.operands[0]->type.rank() - 1);
  }

  /// Whether an asynchronous product takes A from registers.
  static bool has_fragments(const Op& op) { return op.opcode == Opcode::MmaStart && !op.operands[0]->type.is_place(); }
  /// Whether threads give each other the operands, which come in any layout.
  static bool exchanges_operands(const Op& product) {
    return product.opcode == Opcode::Dot && family_of(product).scratch_bytes(product) > 0;
  }
  /// The layout of an operand in registers for a product whose result is laid out.
  LinearLayout operand_of_product(const Op& product, int operand) const {
    return family_of(product).operand_layout(plan_of(product), operand, product.operands[size_t(operand)]->type,
                                             *layout_of(product.result()));
  }

  /// Copies are apart, since what they move never meets what registers hold.
  struct Group {
    Shape shape;
    int fastest_axis;
    bool copies;
    auto operator<=>(const Group&) const = default;
  };
  Group group_of(const Op& op) const {
    return {op.operands[0]->type.shape, fastest_axes(pointers_.at(&op))[0], op.opcode == Opcode::AsyncCopy};
  }

  /// The layout that the memory ops of a group share.
  LayoutRef group_layout(const Group& group) {
    LayoutRef& layout = group_layouts_[group];
    if (layout) return layout;
    const std::vector<Op*>& ops = groups_.at(group);
    const Shape& shape = group.shape;
    std::vector<int> order = fastest_axes(pointers_.at(ops[0]));
    int64_t elements = ops[0]->operands[0]->type.num_elements();
    const int64_t threads = 32 * func_.num_warps() * blocks_;
    const int64_t limit = std::min(block_of(shape[order[0]]), std::max<int64_t>(1, elements / threads));
    int least = 1;
    for (const Op* op : ops)
      if (op->opcode == Opcode::AsyncCopy)
        least = std::max(least, kLeastCopyBytes / elem_bytes(op->operands[0]->type.elem));
    LinearLayout best = thread_layout(shape, order, {{order[0], least}}, blocks_);
    double best_price = price_of(ops, best, order[0], least);
    auto consider = [&](const std::vector<Run>& held, int width) {
      LinearLayout tried = thread_layout(shape, order, held, blocks_);
      const double price = price_of(ops, tried, order[0], width);
      if (price < best_price) best = std::move(tried), best_price = price;
    };
    for (int held = 2 * least; held <= std::min<int64_t>(limit, kMostHeld); held *= 2)
      consider({{order[0], held}}, held);
    for (const Run& run : repeated_runs(ops, order[0], elements / threads)) {
      consider({run}, 1);
      for (int width = 2; width <= std::min<int64_t>(limit, elements / threads / run.length); width *= 2)
        consider({{order[0], width}, run}, width);
    }
    return layout = std::make_shared<LinearLayout>(std::move(best));
  }

  /// Elements that a thread holds side by side along an axis.
  struct Run {
    int axis, length;
  };
  static constexpr int kMostHeld = 16;

  /// Elements that loads of the ops have from one place in memory, other than along `fastest`: a thread that holds such
  /// a run loads it once. `most`: elements a thread.
  std::vector<Run> repeated_runs(const std::vector<Op*>& ops, int fastest, int64_t most) const {
    std::vector<Run> runs;
    for (const Op* op : ops) {
      if (op->opcode != Opcode::Load || op->get(ir::attr::volatile_)) continue;
      const std::vector<int64_t> repeats = repeats_of(*op);
      for (int axis = 0; axis < int(repeats.size()); ++axis) {
        const int64_t extent = block_of(op->operands[0]->type.shape[size_t(axis)]);
        const int64_t length = std::bit_floor(
            uint64_t(std::max<int64_t>(1, std::min({repeats[size_t(axis)], most, extent, int64_t(kMostHeld)}))));
        if (axis != fastest && length > 1) runs.push_back({axis, int(length)});
      }
    }
    return runs;
  }

  /// What the accesses of memory ops take in one layout, of which a thread holds `held` elements along the axis at a
  /// time.
  double price_of(const std::vector<Op*>& ops, const LinearLayout& layout, int axis, int held) const {
    double price = 0;
    for (const Op* op : ops) {
      if (is_scattered(op->operands[0], axis)) continue;  // the same in all layouts
      Access access = access_of(*op, axis);
      access.width = std::min(held, access.width);
      price += times(*op) * access_price(layout, access);
    }
    return price;
  }

  /// Whether data decide where the elements lie that are neighbours along the axis.
  bool is_scattered(const Value* v, int axis) const {
    if (!v->type.is_tile() || !v->def) return false;
    const AxisInfo& facts = axis_.info(v);
    if (facts.contiguity[size_t(axis)] > 1 || facts.constancy[size_t(axis)] > 1) return false;
    if (v->def->opcode == Opcode::Load || v->def->opcode == Opcode::Scan) return true;
    return v->def->has(ir::Elementwise) && std::any_of(v->def->operands.begin(), v->def->operands.end(),
                                                       [&](const Value* x) { return x && is_scattered(x, axis); });
  }

  /// Elements along the axis that one instruction of a thread can cover.
  int width_of(const Op& op, int axis) const { return widths_.at(&op)[size_t(axis)]; }
  int find_width(const Op& op, int axis) const {
    const Value* mask = mask_of(op);
    const AxisInfo& pointers = pointers_.at(&op);
    const int bytes = elem_bytes(op.operands[0]->type.elem);
    if (op.opcode != Opcode::Load && op.opcode != Opcode::Store)
      return access_width(pointers, bytes, mask ? &axis_.info(mask) : nullptr, size_t(axis));
    return masked_access_width(pointers, bytes, mask, size_t(axis),
                               [this](const Value* v) -> const AxisInfo& { return axis_.info(v); });
  }

  Access access_of(const Op& op, int axis) const {
    const Value* pointers = op.operands[0];
    const int bytes = elem_bytes(pointers->type.elem);
    const AxisInfo& info = pointers_.at(&op);
    Access access{{}, axis, std::min(width_of(op, axis), most_at_once(op, target_)), bytes, op.opcode == Opcode::Load};
    for (size_t i = 0; i < info.contiguity.size(); ++i) access.runs.push_back(longest_run(info, i, bytes));
    if (access.is_load && !op.get(ir::attr::volatile_)) access.repeats = repeats_of(op);
    return access;
  }

  /// How often the op runs, as far as that is known.
  double times(const Op& op) const {
    double times = 1;
    for (const Op* loop = op.parent->parent; loop; loop = loop->parent->parent)
      if (loop->opcode != Opcode::If) times *= values_.trips(*loop);
    return times;
  }

  /// Lanes along the fastest axes. Warps too, unless the other axes can take all of them and reductions stay inside a
  /// warp so. (Where warps must share a row anyway, dividing the rows as well gains nothing, and what belongs to a
  /// column would be loaded by more threads.) The same goes for blocks, which divide the tile ahead of warps.
  LinearLayout thread_layout(const Shape& shape, const std::vector<int>& order, const std::vector<Run>& held,
                             int num_blocks) const {
    std::vector<int> registers(shape.size(), 1), lanes(shape.size(), 1), warps(shape.size(), 1),
        blocks(shape.size(), 1);
    std::vector<int64_t> left;
    for (int64_t extent : shape) left.push_back(block_of(extent));
    for (const Run& run : held) {
      registers[run.axis] = int(std::min<int64_t>(run.length, left[run.axis]));
      left[run.axis] /= registers[run.axis];
    }
    auto spread = [&](std::vector<int>& along, const std::vector<int>& axes, int64_t parts) {
      for (int axis : axes) {
        int64_t take = std::min(parts, left[axis]);
        along[axis] = int(take), left[axis] /= take, parts /= take;
      }
      along[axes.back()] *= int(parts);
    };
    spread(lanes, order, 32);
    auto spread_outside = [&](std::vector<int>& along, int64_t parts) {
      std::vector<int> axes = order;
      if (auto reduced = combined_axes_.find(shape); reduced != combined_axes_.end()) {
        auto kept_end =
            std::stable_partition(axes.begin(), axes.end(), [&](int axis) { return !reduced->second.contains(axis); });
        int64_t room = 1;
        for (auto axis = axes.begin(); axis != kept_end; ++axis) room *= left[*axis];
        if (room < parts) axes = order;
      }
      spread(along, axes, parts);
    };
    spread_outside(blocks, num_blocks);
    spread_outside(warps, func_.num_warps());
    return blocked_layout(shape, registers, lanes, warps, blocks, order);
  }

  LayoutRef default_layout(const Shape& shape) {
    for (const auto& [group, ops] : groups_)
      if (group.shape == shape) return group_layout(group);
    return std::make_shared<LinearLayout>(plain_layout(shape, blocks_));
  }

  /// The last axis the fastest.
  LinearLayout plain_layout(const Shape& shape, int num_blocks) const {
    std::vector<int> order;
    for (int axis = int(shape.size()); axis-- > 0;) order.push_back(axis);
    int64_t elements = 1;
    for (int64_t extent : shape) elements *= extent;
    const int64_t threads = 32 * func_.num_warps() * num_blocks;
    int per_thread = int(std::bit_floor(uint64_t(std::clamp<int64_t>(elements / threads, 1, 4))));
    return thread_layout(shape, order, {{order[0], per_thread}}, num_blocks);
  }

  /// The layout that a value of a product's sums, computed from these element by element, comes in; null for others.
  LayoutRef layout_of_sums(const Value* v, std::unordered_set<const Value*>& seen) const {
    if (!v || !v->def || !seen.insert(v).second) return nullptr;
    const Op& op = *v->def;
    if (ir::is_product(op)) return layouts_.at(op.result());
    if (op.opcode == Opcode::MmaWait) return layout_of_sums(op.operands[0], seen);
    if (op.opcode == Opcode::For) return layout_of_sums(ir::ForLoop(op).next(size_t(v->index)), seen);
    if (!op.has(ir::Elementwise)) return nullptr;
    for (const Value* operand : op.operands)
      if (LayoutRef layout = layout_of_sums(operand, seen)) return layout;
    return nullptr;
  }

  /// For a store of a product's sums: the layout in which warps store their own, sixteen bytes a thread, if that is
  /// cheaper than to lay them out as the op's group; else null.
  LayoutRef store_in_warps(const Op& op) {
    std::unordered_set<const Value*> seen;
    const LayoutRef sums = op.opcode == Opcode::Store ? layout_of_sums(op.operands[1], seen) : nullptr;
    if (!sums) return nullptr;
    const int axis = group_of(op).fastest_axis, bytes = elem_bytes(op.operands[0]->type.elem), wanted = 16 / bytes;
    const int width = width_of(op, axis);
    if (width < wanted) return nullptr;
    const auto in_warps = warp_local_layout(*sums, axis, wanted);
    if (!in_warps) return nullptr;
    auto price = [&](const LinearLayout& layout) {
      return conversion_price(op.operands[1]->type, *sums, layout) +
             access_price(layout, axis, bytes, std::min(width, layout.contiguous_registers(axis)));
    };
    if (price(*in_warps) > price(*group_layout(group_of(op)))) return nullptr;
    return std::make_shared<LinearLayout>(*in_warps);
  }

  /// For loads that become operands of products in registers, by ops beside the product that move no data: the layout
  /// in which each thread loads what it multiplies.
  void find_operands() {
    for (const Op* product : products_)
      for (int i : {0, 1})
        if (product->opcode == Opcode::Dot && !exchanges_operands(*product))
          find_operands(product->operands[size_t(i)], operand_of_product(*product, i), *product->parent);
  }
  void find_operands(const Value* v, const LinearLayout& layout, const Block& home) {
    const Op* op = v->def;
    if (!op || op->parent != &home || !v->type.is_tile() || !loaded_operands_.emplace(v, layout).second) return;
    const auto needed = op->opcode == Opcode::Load ? std::nullopt : operand_layout(*op, layout);
    if (!needed) return;
    // Threads that hold copies would rather share out what they are broadcast to.
    if (op->opcode == Opcode::Broadcast && (needed->free_mask(Dim::Lane) || needed->free_mask(Dim::Warp))) return;
    for (const Value* operand : op->operands)
      if (operand) find_operands(operand, *needed, home);
  }

  /// For such a load: the layout that its warps' parts of the operand make with accesses as wide as its group's, if
  /// that is cheaper than the group's layout and a conversion; else null.
  LayoutRef load_for_product(const Op& op) {
    const auto found = op.opcode == Opcode::Load ? loaded_operands_.find(op.result()) : loaded_operands_.end();
    if (found == loaded_operands_.end()) return nullptr;
    const LinearLayout &operand = found->second, &shared = *group_layout(group_of(op));
    const int axis = group_of(op).fastest_axis;
    Access access = access_of(op, axis);
    access.width = std::min(access.width, shared.contiguous_registers(axis));
    const auto own = warp_local_layout(operand, axis, access.width);
    // A single warp exchanges elements without waiting for others.
    const bool waits = func_.num_warps() > 1;
    auto price = [&](const LinearLayout& layout) {
      return access_price(layout, access) + (waits ? conversion_price(op.result()->type, layout, operand) : 0);
    };
    if (!own || price(*own) >= price(shared)) return nullptr;
    return std::make_shared<LinearLayout>(*own);
  }

  void anchor_memory(const Op& op, LayoutRef layout) {
    assign(op.operands[0], layout);
    assign(mask_of(op), layout);
    for (const auto& r : op.results) assign(r.get(), layout);
  }

  void anchor() {
    for (Op* product : products_) {
      const Shape& shape = product->result()->type.shape;
      if (auto layout = family_of(*product).sums_layout(plan_of(*product), shape))
        assign(product->result(), std::move(*layout));
      else
        assign(product->result(), default_layout(shape));
    }
    find_operands();
    int64_t largest = 0, largest_in_registers = 0;
    for (const Op* dot : products_) largest = std::max(largest, dot->result()->type.num_elements());
    for (const Op* op : memory_)
      if (op->opcode != Opcode::AsyncCopy) largest = std::max(largest, op->operands[0]->type.num_elements());
    largest_in_registers = largest;
    for (const Op* op : memory_) largest = std::max(largest, op->operands[0]->type.num_elements());
    // A load competes with what comes to registers as it does; a store, with all that the program moves.
    auto is_large = [&](const Op& op) {
      return op.operands[0]->type.num_elements() * 2 > (op.opcode == Opcode::Load ? largest_in_registers : largest);
    };

    // The large ones are fixed before anything flows; what flows from dots goes first all the same, then what loops run
    // most often. Copies are too: the place lies as they do, which its products may rely on.
    std::vector<Op*> small;
    std::map<double, std::deque<Value*>, std::greater<>> from_memory;  // by how often the ops run
    std::deque<Value*> from_dots = std::exchange(queue_, {});
    for (Op* op : memory_) {
      queue_ = std::move(from_memory[times(*op)]);
      if (LayoutRef layout = store_in_warps(*op))
        anchor_memory(*op, std::move(layout));
      else if (LayoutRef layout = load_for_product(*op))
        anchor_memory(*op, std::move(layout));
      else if (op->opcode == Opcode::AsyncCopy || is_large(*op))
        anchor_memory(*op, group_layout(group_of(*op)));
      else
        small.push_back(op);
      from_memory[times(*op)] = std::move(queue_);
    }
    queue_ = std::move(from_dots);
    flow();
    for (const Op* product : products_)
      if (has_fragments(*product)) assign(product->operands[0], operand_of_product(*product, 0));
    flow();
    for (auto& [runs, values] : from_memory) {
      queue_ = std::move(values);
      flow();
    }

    std::stable_sort(small.begin(), small.end(), [](const Op* a, const Op* b) {
      return a->operands[0]->type.num_elements() > b->operands[0]->type.num_elements();
    });
    for (Op* op : small) {
      const Value* known = op->operands[0];
      if (!layouts_.contains(known) && op->opcode == Opcode::Load) known = op->result();
      if (!layouts_.contains(known) && op->opcode != Opcode::Load) known = op->operands[1];
      auto it = layouts_.find(known);
      if (it != layouts_.end() && !(known->def && is_layout_free(*known->def))) {
        LayoutRef layout = it->second;
        assign(op->operands[0], layout);
        assign(mask_of(*op), layout);
        for (const auto& r : op->results) assign(r.get(), layout);
      } else {
        anchor_memory(*op, group_layout(group_of(*op)));
      }
      flow();
    }
    default_layouts(func_.body);
  }

  void default_layouts(Block& block) {
    auto settle = [&](Value* v) {
      if (!v->type.is_tile() || layouts_.contains(v)) return;
      std::optional<LinearLayout> repeated;
      if (v->def && v->def->opcode == Opcode::Broadcast)
        if (auto from = layouts_.find(v->def->operands[0]); from != layouts_.end())
          repeated = repeated_in_registers(*v->def, *from->second);
      assign(v, repeated ? std::make_shared<LinearLayout>(*repeated) : default_layout(v->type.shape));
      flow();
    };
    for (auto& arg : block.args) settle(arg.get());
    for (auto& op : block.ops) {
      for (auto& region : op->regions) default_layouts(*region);
      for (auto& r : op->results) settle(r.get());
    }
  }

  void lay_out_places() {
    std::unordered_map<const Value*, LayoutRef> buffers;
    ir::walk(func_.body, [&](Op& op) {
      const bool transposes = op.opcode == Opcode::SharedTranspose;
      if (op.opcode != Opcode::AsyncCopy && op.opcode != Opcode::SharedStore && !transposes) return;
      const Value* buffer = op.operands[1];
      if (buffer->def->opcode == Opcode::SharedSlot) buffer = buffer->def->operands[0];
      LayoutRef& layout = buffers[buffer];
      if (layout) return;
      std::vector<int> order = transposes ? std::vector<int>{0, 1} : fastest_order(*layout_of(op.operands[0]));
      // Registers that are accessed one by one may lie along another axis.
      const auto first = std::find(order.begin(), order.end(), int(buffer->def->get(ir::attr::contiguous)));
      if (first != order.end()) std::rotate(order.begin(), first, first + 1);
      layout = intern(shared_layout_for_dot_operand(buffer->type.shape, order, buffer->type.bits()));
    });
    ir::walk(func_.body, [&](Op& op) {
      if (op.opcode != Opcode::SharedAlloc && op.opcode != Opcode::SharedSlot) return;
      const Value* buffer = op.opcode == Opcode::SharedAlloc ? op.result() : op.operands[0];
      LayoutRef& layout = buffers[buffer];
      if (!layout)  // of barriers
        layout = intern(swizzled_shared_layout(buffer->type.shape, {0}, 1, 1, 1));
      op.result()->type.layout = layout;
    });
    ir::walk(func_.body, [&](Op& op) {
      if (op.opcode != Opcode::Trans || !op.result()->type.is_place()) return;
      const std::vector<int64_t> order = op.get(ir::attr::order);
      op.result()->type.layout = intern(op.operands[0]->type.layout->permute_tile({order.begin(), order.end()}));
    });
  }

  // ---- Propagation

  void assign(const Value* value, LayoutRef layout) {
    auto* v = const_cast<Value*>(value);
    if (!v || !v->type.is_tile() || !layouts_.emplace(v, std::move(layout)).second) return;
    if (!v->def || !is_layout_free(*v->def)) queue_.push_back(v);
    if (auto it = twins_.find(v); it != twins_.end()) assign(it->second, layouts_.at(v));
    if (v->type.is_in_flight()) follow_to_waits(v);
  }
  /// What is in flight stays in its registers until a wait makes a tile of it: the wait's layout is given before other
  /// values, which the tile meets, can hand it theirs.
  void follow_to_waits(Value* sums) {
    for (Op* user : users_[sums]) {
      const bool ends_region = user->has(ir::Terminator) && user->parent->parent;
      if (ends_region || user->opcode == Opcode::MmaWait) spread(ends_region ? *user->parent->parent : *user, sums);
    }
  }
  void assign(const Value* v, LinearLayout layout) {
    if (v && v->type.is_tile() && !layouts_.contains(v)) assign(v, std::make_shared<LinearLayout>(std::move(layout)));
  }

  void flow() {
    while (!queue_.empty()) {
      Value* v = queue_.front();
      queue_.pop_front();
      if (v->def) spread(*v->def, v);
      if (v->block && v->block->parent) spread(*v->block->parent, v);
      for (Op* user : users_[v]) {
        bool ends_region = user->has(ir::Terminator) && user->parent->parent;
        spread(ends_region ? *user->parent->parent : *user, v);
      }
    }
  }

  /// Hands the layout of `from`, an operand, result or carried value of `op`, to what can share it.
  void spread(const Op& op, Value* from) {
    const LayoutRef layout = layouts_.at(from);
    bool is_result = from->def == &op;
    if (op.has(ir::Control)) {
      for (const auto& members : ir::circulating(op))
        if (std::find(members.begin(), members.end(), from) != members.end())
          for (Value* v : members) assign(v, layout);
      return;
    }
    if (ir::is_product(op)) {
      if (is_result) assign(op.operands[2], layout);
      return;
    }
    if (is_memory(op)) {
      const Value* value = op.opcode == Opcode::Load ? nullptr : op.operands[1];
      if (from == value) return;  // a value may be converted before it is stored
      assign(op.operands[0], layout);
      assign(mask_of(op), layout);
      assign(value, layout);
      if (op.opcode == Opcode::Load) assign(op.operand(2), layout);
      if (op.opcode == Opcode::AtomicRmw) assign(op.operand(3), layout);
      for (const auto& r : op.results) assign(r.get(), layout);
      return;
    }
    if (op.opcode == Opcode::Sort || op.opcode == Opcode::Gather) {
      // A sort takes its operand, and a gather what it looks up, in any layout; their results may come in any.
      Value* other = op.operands[op.opcode == Opcode::Gather ? 1 : 0];
      if (is_result && other->type.shape == op.result()->type.shape) assign(other, layout);
      if (from == other && other->type.shape == op.result()->type.shape) assign(op.result(), layout);
      return;
    }
    if (is_result) {
      if (auto needed = operand_layout(op, *layout))
        for (Value* v : op.operands) assign(v, *needed);
      if (keeps_layout(op) || op.info().combines())
        for (const auto& r : op.results) assign(r.get(), layout);
    } else {
      if (keeps_layout(op) || op.info().combines())
        for (Value* v : op.operands) assign(v, layout);
      if (auto result = result_layout(op, *layout))
        for (const auto& r : op.results) assign(r.get(), *result);
    }
  }

  // ---- Materialisation

  LayoutRef layout_of(const Value* v) const {
    auto it = layouts_.find(v);
    TEGULA_CHECK(it != layouts_.end(), "a tile without a layout: {}", v->type.to_string());
    return it->second;
  }
  void set_type(Value* v) {
    if (v->type.is_tile()) v->type.layout = intern(*layout_of(v));
  }
  /// One object for equal layouts, so that types are compared quickly.
  LayoutRef intern(const LinearLayout& layout) {
    LayoutRef& known = interned_[layout.to_string()];
    if (!known) known = std::make_shared<LinearLayout>(layout);
    return known;
  }

  /// The layout, or where blocks divide the tile, one in which each of them holds all of it.
  LinearLayout whole_in_each_block(const LinearLayout& layout) const {
    return layout.in_bits(Dim::Block) ? plain_layout(layout.tile_shape(), 1) : layout;
  }

  /// The value in another layout, available before `user`.
  Value* in_layout(Value* v, const LinearLayout& layout, Op* user) {
    if (!v->type.is_tile() || *v->type.layout == layout) return v;
    LayoutRef wanted = intern(layout);
    Value*& made = converted_[{v, wanted.get()}];
    if (made) return made;
    if (v->def && is_layout_free(*v->def)) {
      ir::ValueMap map;
      Builder builder;
      builder.set_after(v->def);
      made = builder.insert(ir::clone_op(*v->def, map))->result();
      made->type.layout = wanted;
    } else {
      Block* home = v->def ? v->def->parent : v->block;
      Op* before = user;
      while (before->parent != home) before = before->parent->parent;
      Builder builder;
      builder.set_before(before);
      made = builder.convert_layout(v, wanted);
      made->name = v->name;
    }
    return made;
  }
  void need(Op& op, size_t i, const LinearLayout& layout) {
    if (i < op.operands.size() && op.operands[i]) op.operands[i] = in_layout(op.operands[i], layout, &op);
  }

  void materialise(Block& block) {
    for (auto& arg : block.args) set_type(arg.get());
    // Insertions go before the op at hand or behind earlier ones: the walk does not meet them.
    for (auto& op : block.ops) materialise(*op);
  }

  void materialise(Op& op) {
    if (op.info().isolates()) {
      if (!op.operands[0]->type.is_tile()) return;
      LinearLayout layout = *op.operands[0]->type.layout;
      if (op.opcode == Opcode::Scan && !axis_order(layout, int(op.get(ir::attr::axis)))) {
        layout = *default_layout(op.operands[0]->type.shape);
        if (!axis_order(layout, int(op.get(ir::attr::axis)))) layout = whole_in_each_block(layout);
      }
      for (size_t i = 0; i < op.operands.size(); ++i) need(op, i, layout);
      for (auto& r : op.results)
        if (auto result = result_layout(op, layout)) r->type.layout = intern(*result);
      return;
    }
    for (auto& r : op.results) set_type(r.get());
    if (op.opcode == Opcode::Sort || op.opcode == Opcode::Gather || op.opcode == Opcode::Histogram)
      need(op, 0, whole_in_each_block(*op.operands[0]->type.layout));
    if (op.opcode == Opcode::Histogram)
      op.result()->type.layout = intern(whole_in_each_block(*op.result()->type.layout));
    if (ir::is_product(op)) {
      for (int i : {0, 1})
        if (!exchanges_operands(op) && !op.operands[size_t(i)]->type.is_place())
          need(op, size_t(i), operand_of_product(op, i));
      need(op, 2, *op.result()->type.layout);
    } else if (op.opcode == Opcode::Gather) {
      need(op, 1, *op.result()->type.layout);
    } else if (is_memory(op)) {
      if (op.operands[0]->type.is_scalar()) return;
      const LinearLayout layout = *layout_of(op.operands[0]);
      op.set(ir::attr::vector, std::min(vector_of(op, layout), most_at_once(op, target_)));
      if (op.opcode == Opcode::Load) note_repeats(op);
      for (size_t i = 0; i < op.operands.size(); ++i) need(op, i, layout);
      for (auto& r : op.results) r->type.layout = intern(layout);
    } else if (op.has(ir::Control)) {
      hand_on(op);
      for (auto& region : op.regions) materialise(*region);
    } else if (op.has(ir::Terminator)) {
      hand_on(op);
    } else if (!op.results.empty() && op.result()->type.is_tile()) {
      if (auto needed = operand_layout(op, *op.result()->type.layout))
        for (size_t i = 0; i < op.operands.size(); ++i) need(op, i, *needed);
    }
  }

  /// What a control op or a terminator hands on, in the layouts of what receives it.
  void hand_on(Op& op) {
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (const Value* receiver = ir::receiver(op, i); receiver && receiver->type.is_tile())
        need(op, i, *layout_of(receiver));
  }

  /// Elements an access covers: as many as are contiguous in memory and in a thread's registers.
  int vector_of(const Op& op, const LinearLayout& layout) const {
    int best = 1;
    for (int axis = 0; axis < op.operands[0]->type.rank(); ++axis)
      best = std::max(best, std::min(layout.contiguous_registers(axis), width_of(op, axis)));
    return best;
  }

  /// Lengths of runs of elements of a load that are one element of memory, as scales of blocks are.
  std::vector<int64_t> repeats_of(const Op& load) const {
    std::vector<int64_t> runs = pointers_.at(&load).constancy;
    for (const Value* v : {load.operand(1), load.operand(2)})
      for (size_t axis = 0; v && axis < runs.size(); ++axis)
        runs[axis] = std::min(runs[axis], axis_.info(v).constancy[axis]);
    return runs;
  }
  void note_repeats(Op& load) const {
    load.attrs.erase(std::string(ir::attr::repeats));
    if (load.get(ir::attr::volatile_)) return;
    std::vector<int64_t> runs = repeats_of(load);
    if (std::any_of(runs.begin(), runs.end(), [](int64_t run) { return run > 1; }))
      load.set(ir::attr::repeats, std::move(runs));
  }

  Func& func_;
  const Target& target_;
  AxisAnalysis axis_;
  const CostInputs inputs_;
  const LaunchValues values_;
  int blocks_ = 1;  ///< of the cluster, that tiles are divided over
  std::vector<Op*> products_, memory_;
  std::unordered_map<const Op*, AxisInfo> pointers_;        ///< of memory ops on tiles, where their masks are true
  std::unordered_map<const Op*, std::vector<int>> widths_;  ///< of them, by axis: what an instruction can cover
  std::map<Group, std::vector<Op*>> groups_;
  std::map<Group, LayoutRef> group_layouts_;
  std::unordered_map<const Value*, LinearLayout> loaded_operands_;  ///< of products: how their threads hold them
  std::map<Shape, std::set<int>> combined_axes_;
  std::unordered_map<const Value*, std::vector<Op*>> users_;
  std::unordered_map<const Value*, Value*> twins_;
  std::unordered_map<const Value*, LayoutRef> layouts_;
  std::deque<Value*> queue_;
  std::map<std::string, LayoutRef> interned_;
  std::map<std::pair<Value*, const LinearLayout*>, Value*> converted_;
};

}  // namespace

void passes::assign_layouts(Func& func, PassContext& context) { Assigner(func, context.target).run(); }

}  // namespace tegula
