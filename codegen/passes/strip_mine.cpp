// Computes tiles that are much too large for the registers, or with which much is computed, part by part.
//
// A program that loads tiles of hundreds of elements a thread, computes with them and stores them would keep most of
// them in memory, in code that is as long as the tiles are large. With fewer elements, but hundreds of ops, registers
// may hold a tile, yet the code is compiled slowly and is longer than the instruction cache. Where its rows (or
// columns) have nothing to do with each other, it goes over them in a loop, whose tiles have as many rows as fit:
//
//   rows = arange 0..64                             for first = 0, 4, ..., 60:
//   y = exp(load(x + rows * 4096 + columns))   ->     rows = first + arange 0..4
//   store(out + rows * 4096 + columns, y)             y = exp(load(x + rows * 4096 + columns))
//                                                     store(out + rows * 4096 + columns, y)
//
// Which axes go together, and whether an op needs more of one than its own element, AxisClasses says. What has no such
// axis is computed once, ahead of the loop. Where elements are combined along each axis of large tiles, a loop adds up
// all parts, and another one computes what follows from the sum (PartLoops).
//
// The language orders what a program does in memory. So all that a program writes must be divided, and rows must not
// write what other rows access: bases of what is written are those of no other access, unless it has the very same
// pointers, none of which is another row's too, divided alike, and stands in no loop. Programs that order memory, that
// print, assert, or multiply matrices stay as they are.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/global_order.h"
#include "codegen/analysis/op_cost.h"
#include "codegen/analysis/pointer_base.h"
#include "codegen/analysis/repeated_addresses.h"
#include "codegen/passes/axis_classes.h"
#include "codegen/passes/index_parts.h"
#include "codegen/passes/part_loops.h"
#include "codegen/passes/passes.h"

namespace tegula {

using namespace ir;

namespace {

// A tile of kTooMany elements a thread or more does not fit registers, whatever its type. A part should have kWanted
// elements a thread, which registers hold beside some other tiles like it, and has at most kMost. Where such a tile is
// needed before and after elements are combined along all its axes, it is loaded twice: threads would write most of it
// to memory and load that again.
constexpr int64_t kTooMany = 512, kWanted = 64, kMost = 256;
// Code of kLongCode instructions a thread or more, which fills half of the instruction cache, is too long. How many
// elements a part should have nevertheless:
constexpr double kLongCode = 1 << 12;
constexpr int64_t kLeastOfThread = 16;
// Elements of a part along the axis of neighbours in memory; bytes of them, where parts would be too large so.
constexpr int64_t kLeastContiguous = 64, kLeastBytes = 32;

// A program's accesses to global memory.
struct Access {
  const Op* op;
  const Value* base;  // null: not known
  bool writes, in_loop;
};

bool is_in_loop(const Op& op) {
  for (const Op* around = op.parent->parent; around; around = around->parent->parent)
    if (around->info().loops()) return true;
  return false;
}

// All of them; nullopt where an op does more than to access memory.
std::optional<std::vector<Access>> accesses_of(const Func& func) {
  std::vector<Access> accesses;
  std::vector<const Value*> written;
  bool understood = !orders_memory(func.body, written);
  walk(func.body, [&](const Op& op) {
    const bool writes = op.opcode == Opcode::Store || op.opcode == Opcode::AtomicRmw;
    if (writes || op.opcode == Opcode::Load)
      accesses.push_back({&op, pointer_base(op.operands[0]), writes, is_in_loop(op)});
    else
      understood &= !op.has(Writes) && !op.has(ReadsGlobal) && !is_product(op);
  });
  if (!understood) return std::nullopt;
  return accesses;
}

// Accesses, one of which writes, through the same pointers: they must be divided alike.
using Pairs = std::vector<std::pair<const Op*, const Op*>>;

// Whether rows may be computed one after the other, if these pairs are divided alike; nullopt where they may not.
// Writes that have no rows stay in order.
std::optional<Pairs> find_pairs(const std::vector<Access>& accesses) {
  GlobalOrder order(1);
  Pairs pairs;
  for (const Access& a : accesses) {
    if (!a.writes) continue;
    if (a.in_loop && order.is_scattered(a.op->operands[0])) return std::nullopt;
    for (const Access& b : accesses) {
      if (a.op == b.op || (a.base && b.base && a.base != b.base)) continue;
      if (b.writes && a.op->operands[0]->type.is_scalar() && b.op->operands[0]->type.is_scalar()) continue;
      if (a.op->operands[0] != b.op->operands[0] || a.in_loop || b.in_loop) return std::nullopt;
      pairs.emplace_back(a.op, b.op);
    }
  }
  return pairs;
}

class StripMine {
 public:
  explicit StripMine(Func& func) : func_(func), threads_(32 * func.num_warps()) {}

  /// Whether there are tiles to divide, and rows are apart.
  bool is_wanted() {
    if (most_of_thread({}, 1) < kTooMany) {
      large_ = 2 * kLeastOfThread, sizes_ = {{kLeastOfThread, kLeastOfThread, false}};
      if (most_of_thread({}, 1) < large_ || code_length({}, 1) < kLongCode) return false;
    }
    const auto accesses = accesses_of(func_);
    if (!accesses) return false;
    const auto pairs = find_pairs(*accesses);
    if (pairs) pairs_ = *pairs;
    return pairs.has_value();
  }

  void run() {
    AxisClasses classes(func_);
    AxisAnalysis axes(func_);
    const bool may_add_up = large_ == kTooMany && pairs_.empty();
    for (const bool adds_up : {false, true})
      for (const Size& size : sizes_) {
        if (adds_up && !may_add_up) return;
        std::unordered_set<size_t> tried;
        for (const Axis& axis : axes_of_large_tiles())
          if (const size_t found = classes.find(axis);
              tried.insert(found).second && divide(classes, axes, found, size, adds_up))
            return;
      }
  }

 private:
  // Elements of a thread that a part should have, and may have; whether it may have few along what lies in memory.
  struct Size {
    int64_t wanted, most;
    bool short_runs;
  };

  // Tiles that registers hold as such: not those of indices, which mostly differ by constants.
  std::vector<const Value*> held_tiles() const {
    std::vector<const Value*> tiles;
    walk(func_.body, [&](const Op& op) {
      const Value* v = op.opcode == Opcode::Load                                      ? op.result()
                       : op.opcode == Opcode::Store || op.opcode == Opcode::AtomicRmw ? op.operand(1)
                       : op.opcode == Opcode::Reduce                                  ? op.operand(0)
                                                                                      : nullptr;
      if (v && v->type.is_tile()) tiles.push_back(v);
    });
    return tiles;
  }

  int64_t most_of_thread(const DividedTiles& divided, int64_t parts) const {
    int64_t most = 0;
    for (const Value* v : held_tiles())
      most = std::max(most, v->type.num_elements() / (divided.contains(v) ? parts : 1) / threads_);
    return most;
  }

  // Instructions of a thread, as the code has them: those of a loop count once.
  double code_length(const DividedTiles& divided, int64_t parts) const {
    double length = 0;
    walk(func_.body, [&](const Op& op) {
      const Value* v = largest_tile(op);
      if (!v) return;
      const int64_t elements = v->type.num_elements() / (divided.contains(v) ? parts : 1);
      length += slots_of_element(op) * double(std::max<int64_t>(1, elements / threads_));
    });
    return length;
  }

  bool is_large(const Value* v) const { return v->type.num_elements() >= large_ * threads_; }
  std::vector<Axis> axes_of_large_tiles() const {
    std::vector<Axis> axes;
    for (const Value* v : held_tiles())
      if (is_large(v))
        for (int axis = 0; axis < v->type.rank(); ++axis) axes.push_back({v, axis});
    return axes;
  }

  // Divides into the fewest parts that leave a thread as few elements of a tile as wanted, else into as many parts as
  // can be. What else the program writes is divided likewise, along axes of the same length. With `adds_up` elements
  // are combined along the axis.
  bool divide(AxisClasses& classes, const AxisAnalysis& axes, size_t found, const Size& size, bool adds_up) {
    DividedTiles divided;
    const int64_t extent = extent_of(classes, found);
    if (extent == 0 || !add(classes, found, adds_up, divided)) return false;
    std::vector<size_t> all = {found};
    walk(func_.body, [&](const Op& op) {
      if (!op.has(WritesGlobal)) return;
      const Value* pointers = op.operand(0);
      for (int axis = 0; axis < pointers->type.rank() && !divided.contains(pointers); ++axis)
        if (const size_t other = classes.find({pointers, axis});
            extent_of(classes, other) == extent && add(classes, other, adds_up, divided))
          all.push_back(other);
    });
    if (!is_sound(divided, adds_up)) return false;
    const int64_t least = least_extent(axes, divided, size.short_runs);
    const auto can_divide = [&](int64_t parts) {
      return classes.can_divide(found, parts, least, adds_up) && std::all_of(all.begin(), all.end(), [&](size_t other) {
               return classes.can_divide(other, parts, 1, adds_up);
             });
    };
    int64_t parts = 1;
    while (can_divide(2 * parts) && most_of_thread(divided, parts) > size.wanted) parts *= 2;
    if (parts == 1 || most_of_thread(divided, parts) > size.most) return false;
    if (large_ < kTooMany && 2 * code_length(divided, parts) > code_length({}, 1)) return false;
    PartLoops loops(func_, std::move(divided));
    if (adds_up && !loops.can_add_up()) return false;
    loops.write(parts, extent);
    return true;
  }

  // Of the ranges that number the axes of a class, else of its axes; 0 where they differ.
  static int64_t extent_of(AxisClasses& classes, size_t found) {
    const auto is_range = [](const Axis& axis) { return axis.of->def && axis.of->def->opcode == Opcode::Arange; };
    const std::vector<Axis>& members = classes.members(found);
    const bool has_ranges = std::any_of(members.begin(), members.end(), is_range);
    int64_t extent = 0;
    for (const Axis& axis : members) {
      if (has_ranges && !is_range(axis)) continue;
      const int64_t here = axis.of->type.shape[size_t(axis.number)];
      if (extent != 0 && here != extent) return 0;
      extent = here;
    }
    return extent;
  }

  // False where the axes cannot be divided, or one of their tiles is along another axis.
  static bool add(AxisClasses& classes, size_t found, bool adds_up, DividedTiles& divided) {
    if (!classes.can_divide(found, 1, 1, adds_up)) return false;
    const std::vector<Axis>& members = classes.members(found);
    if (std::any_of(members.begin(), members.end(), [&](const Axis& axis) { return divided.contains(axis.of); }))
      return false;
    for (const Axis& axis : members) divided[axis.of] = axis.number;
    return true;
  }

  // Whether all that is written is divided, and alike where pointers are the same, which parts then do not share. What
  // is not divided can wait for the last loop where there are several.
  bool is_sound(const DividedTiles& divided, bool adds_up) const {
    bool sound = true;
    walk(func_.body, [&](const Op& op) {
      if (op.has(WritesGlobal)) sound &= adds_up || divided.contains(op.operand(0));
    });
    return sound && std::all_of(pairs_.begin(), pairs_.end(), [&](const auto& pair) {
             const auto a = divided.find(pair.first->operand(0)), b = divided.find(pair.second->operand(0));
             return a != divided.end() && b != divided.end() && a->second == b->second &&
                    !may_repeat_along(a->first, a->second);
           });
  }

  // Of a part along which large tiles lie in memory.
  int64_t least_extent(const AxisAnalysis& axes, const DividedTiles& divided, bool short_runs) const {
    int64_t least = 1;
    for (const auto& [v, axis] : divided)
      if (v->type.pointer && is_large(v) && axes.info(v).contiguity[size_t(axis)] > 1)
        least = std::max(least, short_runs ? kLeastBytes / elem_bytes(v->type.elem) : kLeastContiguous);
    return least;
  }

  Func& func_;
  const int64_t threads_;
  int64_t large_ = kTooMany;  // elements of a thread from which on tiles are divided
  std::vector<Size> sizes_ = {{kWanted, kWanted, false}, {kWanted, kMost, false}, {kMost, kMost, true}};
  Pairs pairs_;
};

}  // namespace

void passes::strip_mine(Func& func, PassContext& context) {
  if (func.num_ctas() > 1) return;
  StripMine strips(func);
  if (!strips.is_wanted()) return;
  part_users(func);
  strips.run();
  canonicalize(func, context);
}

}  // namespace tegula
