// What is known of scalars once the arguments of a launch are: trip counts, and which values programs share.
#pragma once

#include <optional>
#include <unordered_set>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/cost.h"
#include "codegen/ir/ir.h"

namespace tegula {

class LaunchValues {
 public:
  /// All three must outlive it.
  LaunchValues(const ir::Func& func, const AxisAnalysis& axis, const CostInputs& inputs);

  /// How often the region of a `for`, a `while` or copy_warps runs in program 0; inputs.trips where that cannot be
  /// told.
  double trips(const ir::Op& loop) const;
  /// Whether the value may differ from program to program.
  bool depends_on_program(const ir::Value* v) const { return dependent_.contains(v); }

 private:
  /// The scalar's value in program 0, if it is known.
  std::optional<int64_t> integer(const ir::Value* v, int depth = 0) const;
  void find_dependent(const ir::Block& block);

  const ir::Func& func_;
  const AxisAnalysis& axis_;
  const CostInputs& inputs_;
  std::unordered_set<const ir::Value*> dependent_;
};

}  // namespace tegula
