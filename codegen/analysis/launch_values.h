// Values of scalars, given the arguments of a launch: trip counts, branches, and which values programs have in common.
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

/// Programs from all over the grid, which stand for the others: which branches are taken and how often loops run may
/// follow from a program's number.
std::vector<std::array<int64_t, 3>> sample_of_programs(const CostInputs& inputs);

/// Whether a branch on `condition` is taken by the last program to come alone, as an atomic operation tells it: it
/// finishes what all have begun.
bool follows_from_ticket(const ir::Value* condition);

class LaunchValues {
 public:
  /// All three must outlive it.
  LaunchValues(const ir::Func& func, const AxisAnalysis& axis, const CostInputs& inputs);

  /// Later queries are about this program; without it, about the first one.
  void set_program(const std::array<int64_t, 3>& program) { program_ = program; }
  /// Later queries are about this group of the program's warps; without it, about the first one.
  void set_group(int64_t group) { group_ = group; }
  /// How often the region of a `for`, a `while` or copy_warps runs in the program. If the arguments do not determine
  /// it, as often as in the programs that were followed, otherwise inputs.trips. Where nothing is known of the launch
  /// and programs differ, the first one, which often does nothing, speaks for no other: at least inputs.trips.
  double trips(const ir::Op& loop) const;
  /// The values of a `for`'s induction variable in the program, if they determine trip counts or branches within the
  /// loop and are few; otherwise empty.
  std::vector<int64_t> deciding_numbers(const ir::Op& loop);
  /// Sets the loop's induction variable for later queries; nullopt: not known.
  void set_number(const ir::Op& loop, std::optional<int64_t> value);
  /// Calls act(region, times) for what the loop runs in the program: once for each deciding number, which is set
  /// meanwhile, or else for each region with its trips().
  template <class Act>
  void for_each_iteration(const ir::Op& loop, const Act& act) {
    const std::vector<int64_t> numbers = deciding_numbers(loop);
    for (const int64_t number : numbers) {
      set_number(loop, number);
      act(*loop.regions[0], 1.0);
    }
    if (!numbers.empty()) return set_number(loop, std::nullopt);
    for (const auto& region : loop.regions) act(*region, trips(loop));
  }
  /// The region of an `if` that runs, given the launch's arguments and the induction variables that are set; nullopt if
  /// these do not determine it.
  std::optional<int> branch(const ir::Op& op) const;
  /// The share of executions in which region `i` of an `if` runs whose branch() is not known, as counted in the
  /// programs that were followed; 1 if there were none.
  double share_taken(const ir::Op& op, int i) const;
  /// Whether the known values make the mask false everywhere. False if there is no mask or they do not determine it.
  bool is_off(const ir::Value* mask) const;
  /// Whether the value may differ from program to program.
  bool depends_on_program(const ir::Value* v) const { return dependent_.contains(v); }

  /// The scalar's value in the program, if it is known.
  std::optional<int64_t> integer(const ir::Value* v) const { return integer(v, program_); }

 private:
  using Program = std::array<int64_t, 3>;
  using Found = std::unordered_map<const ir::Value*, std::optional<int64_t>>;
  std::optional<int64_t> integer(const ir::Value* v, const Program& program) const {
    Found found;
    return integer(v, program, 0, found);
  }
  /// `depth` steps away from what was asked for.
  std::optional<int64_t> integer(const ir::Value* v, const Program& program, int depth, Found& found) const;
  std::optional<int64_t> find_integer(const ir::Value* v, const Program& program, int depth, Found& found) const;
  /// trips() of a `for` in the program, if the launch's arguments determine it.
  std::optional<double> counted_trips(const ir::Op& loop, const Program& program) const;
  /// Whether branches may be decided at all: not from guessed arguments.
  bool decides() const { return !numbers_.empty() || !inputs_.arguments.empty(); }
  void find_dependent(const ir::Block& block);

  const ir::Func& func_;
  const AxisAnalysis& axis_;
  const CostInputs& inputs_;
  Program program_{};
  int64_t group_ = 0;
  std::unordered_set<const ir::Value*> dependent_;
  std::unordered_map<const ir::Value*, int64_t> numbers_;  ///< of loops
};

}  // namespace tegula
