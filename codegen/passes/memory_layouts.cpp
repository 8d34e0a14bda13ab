#include "codegen/passes/memory_layouts.h"

#include <algorithm>
#include <bit>
#include <climits>
#include <unordered_set>

#include "codegen/analysis/axis_runs.h"
#include "codegen/analysis/mask_runs.h"
#include "codegen/analysis/op_cost.h"
#include "codegen/analysis/shared_plan.h"
#include "codegen/layout/axis_order.h"
#include "codegen/layout/makers.h"

namespace tegula {

using ir::Op;
using ir::Opcode;
using ir::Shape;
using ir::Value;

bool accesses_memory(const Op& op) {
  return op.opcode == Opcode::Load || op.opcode == Opcode::Store || op.opcode == Opcode::AtomicRmw ||
         op.opcode == Opcode::AsyncCopy;
}

const Value* mask_of(const Op& op) { return op.operand(op.opcode == Opcode::Load ? 1 : 2); }

namespace {

// Elements of one instruction at most: atomic sums of floats come in vectors or, those of 16 bits, in pairs; other
// atomics one by one.
int most_at_once(const Op& op, const Target& target) {
  if (op.opcode != Opcode::AtomicRmw) return INT_MAX;
  const ir::Type& type = op.operands[1]->type;
  if (op.get(ir::attr::kind) != "add" || !type.is_float() || type.bits() > 32) return 1;
  if (target.has(Feature::AtomicVector)) return 128 / type.bits();
  return type.elem == Elem::F16 || (type.elem == Elem::BF16 && target.has(Feature::AtomicBf16)) ? 2 : 1;
}

}  // namespace

MemoryLayouts::MemoryLayouts(ir::Func& func, const Target& target)
    : func_(func), target_(target), axis_(func), usual_(axis_), values_(func, axis_, inputs_) {
  if (has_promises(func)) without_promises_.emplace(func, AxisPremises{.promises = false});
}

void MemoryLayouts::add(Op& op) {
  if (accesses_memory(op)) {
    const Value* ptr = op.operands[0];
    op.set(ir::attr::vector, 1);
    if (!ptr->type.is_tile()) return;
    pointers_[&op] = axis_.info(ptr, mask_of(op));
    orders_[&op] = fastest_axes(pointers_.at(&op), usual_.of(ptr));
    for (int axis = 0; axis < ptr->type.rank(); ++axis) widths_[&op].push_back(find_width(op, axis));
    ops_.push_back(&op), groups_[group_of(op)].push_back(&op);
  }
  if (op.info().combines()) combined_axes_[op.operands[0]->type.shape].insert(int(op.get(ir::attr::axis)));
  if (op.opcode == Opcode::Reduce) reductions_[op.operands[0]->type.shape].push_back(&op);
  if (op.opcode == Opcode::Sort || op.info().combines_in_order()) not_reduced_alone_.insert(op.operands[0]->type.shape);
  if (ir::is_product(op)) not_reduced_alone_.insert(op.result()->type.shape);
  if (op.opcode == Opcode::Sort) combined_axes_[op.operands[0]->type.shape].insert(op.operands[0]->type.rank() - 1);
}

void MemoryLayouts::find_all() {
  for (const auto& group : groups_) layout_of(group.first);
}

MemoryLayouts::Group MemoryLayouts::group_of(const Op& op) const {
  return {op.operands[0]->type.shape, orders_.at(&op)[0], op.opcode == Opcode::AsyncCopy};
}

LayoutRef MemoryLayouts::layout_of(const Group& group) {
  LayoutRef& layout = layouts_[group];
  if (!layout) layout = std::make_shared<LinearLayout>(find_layout(group));
  return layout;
}

// No thread holds more than kMostHeld elements side by side.
static constexpr int kMostHeld = 16;

// The cheapest of the layouts in which a thread holds some elements along the fastest axis, perhaps a run of another.
LinearLayout MemoryLayouts::find_layout(const Group& group) const {
  const std::vector<Op*>& ops = groups_.at(group);
  const Shape& shape = group.shape;
  const std::vector<int>& order = orders_.at(ops[0]);
  int64_t elements = ops[0]->operands[0]->type.num_elements();
  const int64_t threads = 32 * func_.num_warps() * blocks_;
  const int64_t limit = std::min(block_of(shape[order[0]]), std::max<int64_t>(1, elements / threads));
  int least = 1;
  for (const Op* op : ops)
    if (op->opcode == Opcode::AsyncCopy)
      least = std::max(least, kLeastCopyBytes / elem_bytes(op->operands[0]->type.elem));
  LinearLayout best = thread_layout(shape, order, {{order[0], least}}, blocks_);
  const std::vector<Accesses> accesses = accesses_of(ops, order[0]);
  // Of a large tile what counts is that a thread holds few copies of elements. Which of several groups of a shape gives
  // its layout to what is reduced is not known here.
  const bool is_only_one =
      std::count_if(groups_.begin(), groups_.end(), [&](const auto& other) { return other.first.shape == shape; }) == 1;
  const bool with_reductions = is_only_one && elements / threads <= kMostHeld;
  auto price_with = [&](const LinearLayout& layout, int width) {
    return price_of(accesses, layout, width) + (with_reductions ? price_of_reductions(group, layout) : 0);
  };
  double best_price = price_with(best, least);
  int best_width = least;
  auto consider = [&](LinearLayout tried, int width, bool is_plain) {
    const double price = price_with(tried, width);
    if (price < best_price) best = std::move(tried), best_price = price, best_width = is_plain ? width : 0;
  };
  auto holding = [&](const std::vector<Run>& held) { return thread_layout(shape, order, held, blocks_); };
  // For the sake of reductions a thread holds no more side by side than an instruction accesses.
  const bool reduces = with_reductions && price_of_reductions(group, best) > 0;
  const int64_t most = reduces ? widest(accesses) : kMostHeld;
  for (int held = 2 * least; held <= std::min(limit, most); held *= 2)
    consider(holding({{order[0], held}}), held, true);
  for (const Run& run : repeated_runs(ops, order[0], elements / threads)) {
    consider(holding({run}), 1, true);
    for (int width = 2; width <= std::min<int64_t>(limit, elements / threads / run.length); width *= 2)
      consider(holding({{order[0], width}, run}), width, false);
  }
  if (!with_reductions) best_price += price_of_reductions(group, best);
  for (const int lanes : fewer_lanes(group, best_width)) {
    LinearLayout tried = thread_layout(shape, order, {{order[0], best_width}}, blocks_, lanes);
    const double price = price_of(accesses, tried, best_width) + price_of_reductions(group, tried);
    if (price < best_price) best = std::move(tried), best_price = price;
  }
  return best;
}

// Fewer lanes than could share a row, all numbers of them that are worth a try: for rows that are reduced more often
// than they are accessed, as where a loop multiplies them by one row after the other, if nothing else makes tiles of
// their shape. The lanes still take whole lines of memory, and no two warps share a row. (Rows that are reduced only as
// often as they are loaded wait longer for memory than their sums take.)
std::vector<int> MemoryLayouts::fewer_lanes(const Group& group, int width) const {
  constexpr int kLanes = 32, kLineBytes = 128;
  const Shape& shape = group.shape;
  const auto axes = combined_axes_.find(shape);
  if (shape.size() != 2 || blocks_ > 1 || width == 0 || group.copies || not_reduced_alone_.contains(shape)) return {};
  if (axes == combined_axes_.end() || axes->second != std::set<int>{group.fastest_axis}) return {};
  int bytes = 1;
  double accessed = 1, reduced = 0;
  for (const Op* op : groups_.at(group)) {
    bytes = std::max(bytes, elem_bytes(op->operands[0]->type.elem));
    accessed = std::max(accessed, times(*op));
  }
  if (const auto reductions = reductions_.find(shape); reductions != reductions_.end())
    for (const Op* op : reductions->second) reduced = std::max(reduced, times(*op));
  if (reduced <= accessed) return {};
  const int64_t rows = block_of(shape[size_t(1 - group.fastest_axis)]);
  std::vector<int> found;
  for (int lanes = kLanes / 2; lanes * width * bytes >= kLineBytes; lanes /= 2)
    if (rows * lanes >= int64_t(kLanes) * func_.num_warps()) found.push_back(lanes);
  return found;
}

// What reductions of rows, along the group's fastest axis, take in such a layout, in issue slots of a warp: for each
// row that a thread has elements of, what lanes and then warps exchange and combine; and a thread's work on each of its
// elements along a row, which is the same for all of its rows. Nothing where other ops than memory's determine the
// layout of what is reduced.
double MemoryLayouts::price_of_reductions(const Group& group, const LinearLayout& layout) const {
  constexpr double kShuffle = 5, kElement = 2;
  const auto found = reductions_.find(group.shape);
  if (found == reductions_.end() || group.copies || not_reduced_alone_.contains(group.shape)) return 0;
  double price = 0;
  for (const Op* op : found->second) {
    const int axis = int(op->get(ir::attr::axis));
    if (axis != group.fastest_axis) continue;
    const double held = double(layout.remove_zero_registers().in_size(Dim::Register));
    const double along = double(int64_t(1) << bits_along(layout, Dim::Register, axis).size());
    const double steps =
        double(bits_along(layout, Dim::Lane, axis).size() + bits_along(layout, Dim::Warp, axis).size());
    const double step = double(op->operands.size()) * kShuffle + slots_of_element(*op) - 1;
    price += times(*op) * (held / along * steps * step + along * kElement);
  }
  return price;
}

// The different runs of elements that the ops' loads take from one and the same place in memory, along other axes than
// `fastest`: a thread that holds such a run loads it once. A thread holds `most` elements at most.
std::vector<MemoryLayouts::Run> MemoryLayouts::repeated_runs(const std::vector<Op*>& ops, int fastest,
                                                             int64_t most) const {
  std::vector<Run> runs;
  for (const Op* op : ops) {
    if (op->opcode != Opcode::Load || op->get(ir::attr::volatile_)) continue;
    const std::vector<int64_t> repeats = repeats_of(*op);
    for (int axis = 0; axis < int(repeats.size()); ++axis) {
      const int64_t extent = block_of(op->operands[0]->type.shape[size_t(axis)]);
      const int64_t length = std::bit_floor(
          uint64_t(std::max<int64_t>(1, std::min({repeats[size_t(axis)], most, extent, int64_t(kMostHeld)}))));
      const Run run{axis, int(length)};
      if (axis != fastest && length > 1 && std::find(runs.begin(), runs.end(), run) == runs.end()) runs.push_back(run);
    }
  }
  return runs;
}

// The accesses of memory ops, those alike together, but for those that take the same in all layouts.
std::vector<MemoryLayouts::Accesses> MemoryLayouts::accesses_of(const std::vector<Op*>& ops, int axis) const {
  std::vector<Accesses> all;
  for (const Op* op : ops) {
    const bool counted = op->opcode == Opcode::Store && is_counted(op->operands[0], axis);
    if (!counted && is_scattered(op->operands[0], axis)) continue;
    Access access = access_of(*op, axis);
    if (counted)
      access.width = 1, access.runs[size_t(axis)] = {access.bytes, op->operands[0]->type.shape[size_t(axis)]};
    const auto found = std::find_if(all.begin(), all.end(), [&](const Accesses& a) { return a.access == access; });
    if (found == all.end())
      all.push_back({access, times(*op)});
    else
      found->times += times(*op);
  }
  return all;
}

// The most elements along the axis that an instruction covers.
int MemoryLayouts::widest(const std::vector<Accesses>& all) {
  int width = 1;
  for (const Accesses& alike : all) width = std::max(width, alike.access.width);
  return width;
}

// What accesses take in one layout, in which a thread holds `held` neighbours along the axis at a time.
double MemoryLayouts::price_of(const std::vector<Accesses>& all, const LinearLayout& layout, int held) {
  double price = 0;
  for (const auto& [alike, times] : all) {
    Access access = alike;
    access.width = std::min(held, access.width);
    price += times * access_price(layout, access);
  }
  return price;
}

// Whether places whose neighbours along the axis are apart are computed from the results of such ops. Each value is
// looked at once, however many ways lead to it: in ciphers every value goes into several others.
bool MemoryLayouts::comes_from(const Value* places, int axis, bool (*is_origin)(const Op&)) const {
  std::unordered_set<const Value*> seen;
  std::vector<const Value*> open{places};
  while (!open.empty()) {
    const Value* v = open.back();
    open.pop_back();
    if (!v || !v->type.is_tile() || !v->def || !seen.insert(v).second) continue;
    const AxisInfo& facts = axis_.info(v);
    if (facts.contiguity[size_t(axis)] > 1 || facts.constancy[size_t(axis)] > 1) continue;
    if (is_origin(*v->def)) return true;
    if (v->def->has(ir::Elementwise)) open.insert(open.end(), v->def->operands.begin(), v->def->operands.end());
  }
  return false;
}

// Whether the places of neighbours along the axis follow from data, as those of loaded indices do.
bool MemoryLayouts::is_scattered(const Value* places, int axis) const {
  return comes_from(places, axis,
                    [](const Op& op) { return op.opcode == Opcode::Load || op.info().combines_in_order(); });
}

// Whether places follow each other from several beginnings on, which a gather gives, as those of a counting sort:
// mostly side by side.
bool MemoryLayouts::is_counted(const Value* places, int axis) const {
  return comes_from(places, axis, [](const Op& op) { return op.opcode == Opcode::Gather; });
}

int MemoryLayouts::find_width(const Op& op, int axis) const {
  const Value* mask = mask_of(op);
  const AxisInfo& pointers = pointers_.at(&op);
  const int bytes = elem_bytes(op.operands[0]->type.elem);
  if (op.opcode != Opcode::Load && op.opcode != Opcode::Store)
    return access_width(pointers, bytes, mask ? &axis_.info(mask) : nullptr, size_t(axis));
  const KnownOfAccess known{pointers, axis_};
  if (!mask || !without_promises_) return masked_access_width(known, known, bytes, mask, size_t(axis));
  const AxisInfo without = without_promises_->info(op.operands[0], mask);
  return masked_access_width(known, {without, *without_promises_}, bytes, mask, size_t(axis));
}

Access MemoryLayouts::access_of(const Op& op, int axis) const {
  const Value* pointers = op.operands[0];
  const int bytes = elem_bytes(pointers->type.elem);
  const AxisInfo& info = pointers_.at(&op);
  Access access{{}, axis, std::min(width_of(op, axis), most_at_once(op, target_)), bytes, op.opcode == Opcode::Load};
  for (size_t i = 0; i < info.contiguity.size(); ++i) access.runs.push_back(longest_run(info, i, bytes));
  if (access.is_load && !op.get(ir::attr::volatile_)) access.repeats = repeats_of(op);
  return access;
}

double MemoryLayouts::times(const Op& op) const {
  double times = 1;
  for (const Op* loop = op.parent->parent; loop; loop = loop->parent->parent)
    if (loop->opcode != Opcode::If) times *= values_.trips(*loop);
  return times;
}

// Lanes along the fastest axes. Warps too, unless the other axes can take all of them and reductions stay inside a
// warp so. (Where warps must share a row anyway, dividing the rows as well gains nothing, and what belongs to a
// column would be loaded by more threads.) The same goes for blocks, which divide the tile ahead of warps.
LinearLayout MemoryLayouts::thread_layout(const Shape& shape, const std::vector<int>& order,
                                          const std::vector<Run>& held, int num_blocks, int most_lanes) const {
  std::vector<int> registers(shape.size(), 1), lanes(shape.size(), 1), warps(shape.size(), 1), blocks(shape.size(), 1);
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
  const int64_t lanes_along = std::min<int64_t>(left[order[0]], most_lanes);
  lanes[order[0]] = int(lanes_along), left[order[0]] /= lanes_along;
  if (order.size() == 1)
    lanes[order[0]] *= int(32 / lanes_along);
  else
    spread(lanes, {order.begin() + 1, order.end()}, 32 / lanes_along);
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

LayoutRef MemoryLayouts::default_of(const Shape& shape) {
  for (const auto& [group, ops] : groups_)
    if (group.shape == shape) return layout_of(group);
  return std::make_shared<LinearLayout>(plain(shape, blocks_));
}

LayoutRef MemoryLayouts::along_rows(const Shape& shape) {
  LayoutRef layout = default_of(shape);
  if (layout->contiguous_registers(int(shape.size()) - 1) > 1) return layout;
  return std::make_shared<LinearLayout>(plain(shape, blocks_));
}

LinearLayout MemoryLayouts::plain(const Shape& shape, int num_blocks) const {
  std::vector<int> order;
  for (int axis = int(shape.size()); axis-- > 0;) order.push_back(axis);
  int64_t elements = 1;
  for (int64_t extent : shape) elements *= extent;
  const int64_t threads = 32 * func_.num_warps() * num_blocks;
  int per_thread = int(std::bit_floor(uint64_t(std::clamp<int64_t>(elements / threads, 1, 4))));
  return thread_layout(shape, order, {{order[0], per_thread}}, num_blocks);
}

LinearLayout MemoryLayouts::whole_in_each_block(const LinearLayout& layout) const {
  return layout.in_bits(Dim::Block) ? plain(layout.tile_shape(), 1) : layout;
}

// Lengths of runs of elements of a load that are one element of memory, as scales of blocks are.
std::vector<int64_t> MemoryLayouts::repeats_of(const Op& load) const {
  const AxisInfo::PerAxis& equal = pointers_.at(&load).constancy;
  std::vector<int64_t> runs(equal.begin(), equal.end());
  for (const Value* v : {load.operand(1), load.operand(2)})
    for (size_t axis = 0; v && axis < runs.size(); ++axis)
      runs[axis] = std::min(runs[axis], axis_.info(v).constancy[axis]);
  return runs;
}

// Whether addresses of `width` elements along the axis are aligned by a promise alone, where a mask may end within
// them.
bool MemoryLayouts::is_alignment_promised(const Op& op, size_t axis, int width) const {
  const Value *pointers = op.operands[0], *mask = mask_of(op);
  if (!without_promises_ || !mask || axis_.info(mask).constancy[axis] >= width) return false;
  return without_promises_->info(pointers, mask).divisibility[axis] < width * elem_bytes(pointers->type.elem);
}

void MemoryLayouts::note_accesses(Op& op, const LinearLayout& layout) const {
  int side_by_side = 1, along = 0;  // in memory and in a thread's registers
  for (int axis = 0; axis < op.operands[0]->type.rank(); ++axis) {
    const int width = std::min(layout.contiguous_registers(axis), width_of(op, axis));
    if (width > side_by_side) side_by_side = width, along = axis;
  }
  op.set(ir::attr::vector, std::min(side_by_side, most_at_once(op, target_)));
  if (op.opcode == Opcode::Load || op.opcode == Opcode::Store) {
    op.attrs.erase(std::string(ir::attr::alignment_promised));
    if (is_alignment_promised(op, size_t(along), side_by_side)) op.set(ir::attr::alignment_promised, true);
  }
  if (op.opcode != Opcode::Load) return;
  op.attrs.erase(std::string(ir::attr::repeats));
  if (op.get(ir::attr::volatile_)) return;
  std::vector<int64_t> runs = repeats_of(op);
  if (std::any_of(runs.begin(), runs.end(), [](int64_t run) { return run > 1; }))
    op.set(ir::attr::repeats, std::move(runs));
}

}  // namespace tegula
