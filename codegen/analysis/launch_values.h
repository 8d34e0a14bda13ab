// What is known of scalars once the arguments of a launch are: trip counts, and which values programs share.
#pragma once

#include <array>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/cost.h"
#include "codegen/ir/ir.h"

namespace tegula {

class LaunchValues {
 public:
  /// All three must outlive it.
  LaunchValues(const ir::Func& func, const AxisAnalysis& axis, const CostInputs& inputs);

  /// From now on this program's values are asked for; before, the first one's.
  void set_program(const std::array<int64_t, 3>& program) { program_ = program; }
  /// And those of this one of the groups of warps that run it; before, of the first one.
  void set_group(int64_t group) { group_ = group; }
  /// How often the region of a `for`, a `while` or copy_warps runs in the program: where that cannot be told, as often
  /// as programs that were followed ran it, else inputs.trips.
  double trips(const ir::Op& loop) const;
  /// Of a `for` whose number decides how often loops within run, or which branch is taken: its values in the program,
  /// if they are few; else none.
  std::vector<int64_t> deciding_numbers(const ir::Op& loop);
  /// From now on the loop's number has this value; nullopt: it is not known.
  void set_number(const ir::Op& loop, std::optional<int64_t> value);
  /// Which region of an `if` runs as the launch's arguments and the numbers that are set decide; nullopt if they do
  /// not.
  std::optional<int> branch(const ir::Op& op) const;
  /// How often of all times region `i` of an `if` runs whose branch() is not known, as programs that were followed say;
  /// 1 where there were none.
  double share_taken(const ir::Op& op, int i) const;
  /// Whether these make a mask hold nowhere; false for no mask, and if they do not decide it.
  bool is_off(const ir::Value* mask) const;
  /// Whether the value may differ from program to program.
  bool depends_on_program(const ir::Value* v) const { return dependent_.contains(v); }

  /// The scalar's value in the program, if it is known.
  std::optional<int64_t> integer(const ir::Value* v, int depth = 0) const;

 private:
  /// Whether what is known decides branches: arguments' values that are guessed do not.
  bool decides() const { return !numbers_.empty() || !inputs_.arguments.empty(); }
  void find_dependent(const ir::Block& block);

  const ir::Func& func_;
  const AxisAnalysis& axis_;
  const CostInputs& inputs_;
  std::array<int64_t, 3> program_{};
  int64_t group_ = 0;
  std::unordered_set<const ir::Value*> dependent_;
  std::unordered_map<const ir::Value*, int64_t> numbers_;  ///< of loops
};

}  // namespace tegula
