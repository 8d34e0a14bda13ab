// Register pressure of a thread, estimated from laid-out tile IR: which values are live at the same time.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/launch_values.h"
#include "codegen/ir/ir.h"
#include "codegen/target/target.h"

namespace tegula {

/// The number of elements of a tile that a thread holds, without copies.
int64_t held_elements(const ir::Type& type);

/// The limit of registers a thread: the least of what the register file, the instruction set and maxnreg allow.
int register_limit(const ir::Func& func, const Target& target);

class RegisterPressure {
 public:
  /// All three must outlive it.
  RegisterPressure(const ir::Func& func, const AxisAnalysis& axis, const LaunchValues& values);

  struct Peak {
    int words = 0;     ///< 32-bit registers at the place that takes most of them
    double times = 1;  ///< how often a program comes there
  };
  Peak peak();
  /// The peak if these values are computed element by element where they are used, so that none is live as a whole.
  Peak peak_without(const std::unordered_set<const ir::Value*>& values);

  /// How many registers an index or pointer tile takes if elements that differ by a constant share one, the constant
  /// being part of the instruction. Other values take one for each register of their layout.
  int64_t distinct_registers(const ir::Value* v);

 private:
  class Live;

  /// held_elements() of a type of the function.
  int64_t held(const ir::Type& type);
  int64_t distinct_of_argument(const ir::Value* v);
  int64_t distinct_of_result(const ir::Value* v);
  int64_t different(const ir::Value* v);
  void find_streamed(const ir::Block& block);
  void find_waves(const ir::Op& product);
  int registers(const ir::Value* v);
  const ir::Value* variable(const ir::Value* v) const;
  void note_peak(int words, double times);
  void walk_live(const ir::Block& block, Live& live, double times);
  void walk_regions(const ir::Op& op, const std::vector<const ir::Value*>& begun, Live& live, double times);

  const ir::Func& func_;
  const AxisAnalysis& axis_;
  const LaunchValues& values_;
  std::unordered_map<const ir::Value*, std::vector<const ir::Op*>> users_;  // once for each operand
  std::unordered_set<const ir::Value*> streamed_, fragments_;
  std::unordered_map<const ir::Op*, std::vector<const ir::Value*>> made_of_;  // of what conversions take
  std::unordered_map<const ir::Value*, int64_t> distinct_;
  std::unordered_map<const LinearLayout*, int64_t> held_;
  std::unordered_map<const ir::Value*, int> wave_;  // registers of values that are there wave by wave
  Peak peak_;
};

}  // namespace tegula
