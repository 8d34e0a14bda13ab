// Layouts that suit memory ops: lanes along the contiguous axis with up to 16 bytes a thread, or a thread for each run
// of elements that are one and the same in memory. Ops with the same shape and fastest axis share one layout, so that a
// row kernel needs no conversion; copies to shared memory, whose data never meets registers, have their own.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/launch_values.h"
#include "codegen/analysis/layout_price.h"
#include "codegen/analysis/usual_distance.h"
#include "codegen/ir/ir.h"
#include "codegen/target/target.h"

namespace tegula {

/// Whether the op accesses global memory through its first operand, pointers.
bool accesses_memory(const ir::Op& op);
/// The mask of such an op; null if it has none.
const ir::Value* mask_of(const ir::Op& op);

/// The memory ops of a function whose pointers are tiles.
class MemoryLayouts {
 public:
  MemoryLayouts(ir::Func& func, const Target& target);

  /// Registers an op; call it for all ops in order. Of ops that do not access memory it notes what matters for layouts.
  void add(ir::Op& op);
  /// Tiles are to be divided over `blocks` blocks of the cluster.
  void divide(int blocks) { blocks_ = blocks; }
  /// Computes the layouts of all groups. It relies on facts about values that later changes of the function may
  /// invalidate.
  void find_all();

  const std::vector<ir::Op*>& ops() const { return ops_; }
  /// The layout of the op's group.
  LayoutRef layout_of(const ir::Op& op) { return layout_of(group_of(op)); }
  /// The axis along which its elements are contiguous in memory, or nearest to each other.
  int fastest_axis(const ir::Op& op) const { return group_of(op).fastest_axis; }
  /// The layout for tiles that nothing else determines: that of a group of their shape, if there is one.
  LayoutRef default_of(const ir::Shape& shape);
  /// The same, if threads hold elements that follow each other in rows; else one in which they do.
  LayoutRef along_rows(const ir::Shape& shape);
  /// A coalesced layout with the last axis fastest, divided over `blocks` blocks.
  LinearLayout plain(const ir::Shape& shape, int blocks) const;
  /// `layout` itself, or if blocks divide the tile, a layout in which each block holds all of it.
  LinearLayout whole_in_each_block(const LinearLayout& layout) const;

  /// How often the op runs, as far as it can be estimated.
  double times(const ir::Op& op) const;
  /// The number of elements along the axis that one access of a thread can cover.
  int width_of(const ir::Op& op, int axis) const { return widths_.at(&op)[size_t(axis)]; }
  Access access_of(const ir::Op& op, int axis) const;
  /// Records in the op's attributes how it accesses memory in that layout: the elements of one access, and for loads
  /// the runs of elements that are one and the same in memory.
  void note_accesses(ir::Op& op, const LinearLayout& layout) const;

 private:
  // Ops that share a layout.
  struct Group {
    ir::Shape shape;
    int fastest_axis;
    bool copies;
    auto operator<=>(const Group&) const = default;
  };
  // Elements that a thread holds side by side along an axis.
  struct Run {
    int axis, length;
    bool operator==(const Run&) const = default;
  };
  // Accesses of several ops that are alike.
  struct Accesses {
    Access access;
    double times;  // how often they run, together
  };

  Group group_of(const ir::Op& op) const;
  LayoutRef layout_of(const Group& group);
  int find_width(const ir::Op& op, int axis) const;
  LinearLayout find_layout(const Group& group) const;
  std::vector<Run> repeated_runs(const std::vector<ir::Op*>& ops, int fastest, int64_t most) const;
  std::vector<Accesses> accesses_of(const std::vector<ir::Op*>& ops, int axis) const;
  static int widest(const std::vector<Accesses>& all);
  static double price_of(const std::vector<Accesses>& all, const LinearLayout& layout, int held);
  bool comes_from(const ir::Value* places, int axis, bool (*is_origin)(const ir::Op&)) const;
  bool is_scattered(const ir::Value* places, int axis) const;
  bool is_counted(const ir::Value* places, int axis) const;
  double price_of_reductions(const Group& group, const LinearLayout& layout) const;
  std::vector<int> fewer_lanes(const Group& group, int width) const;
  LinearLayout thread_layout(const ir::Shape& shape, const std::vector<int>& order, const std::vector<Run>& held,
                             int num_blocks, int most_lanes = 32) const;
  std::vector<int64_t> repeats_of(const ir::Op& load) const;
  bool is_alignment_promised(const ir::Op& op, size_t axis, int width) const;

  const ir::Func& func_;
  const Target& target_;
  AxisAnalysis axis_;
  UsualDistances usual_;
  std::optional<AxisAnalysis> without_promises_;  // of a program that promises something
  const CostInputs inputs_;
  const LaunchValues values_;
  int blocks_ = 1;
  std::vector<ir::Op*> ops_;
  std::unordered_map<const ir::Op*, AxisInfo> pointers_;        // of ops, where their masks are true
  std::unordered_map<const ir::Op*, std::vector<int>> orders_;  // of ops: axes, the fastest first
  std::unordered_map<const ir::Op*, std::vector<int>> widths_;  // of ops, by axis: what an instruction can cover
  std::map<Group, std::vector<ir::Op*>> groups_;
  std::map<Group, LayoutRef> layouts_;
  std::map<ir::Shape, std::set<int>> combined_axes_;  // along which tiles of a shape are reduced, scanned or sorted
  std::map<ir::Shape, std::vector<const ir::Op*>> reductions_;
  std::set<ir::Shape> not_reduced_alone_;  // shapes of tiles that are scanned, sorted or multiplied
};

}  // namespace tegula
