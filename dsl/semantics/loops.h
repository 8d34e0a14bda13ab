// Loops, as both front ends build them: the arguments of range(), and For and While ops whose variables are handed from
// iteration to iteration. A front end says which variables there are and runs the regions; types are decided here.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dsl/semantics/sema.h"

namespace tegula::dsl {

/// A value and where it stands in the source.
struct Placed {
  Val value;
  Loc loc = {};
};

/// The arguments of a range.
struct Range {
  std::string function = "range";  ///< as messages call it
  bool compile_time = false;       ///< run-time values are refused
  bool warns_of_zero = false;      ///< a step of 0 is a warning, as Triton compiles it; the loop is left out
  Placed lower = {Int(0)}, upper = {}, step = {Int(1)};
  std::optional<Placed> num_stages = {};
  std::optional<Placed> warp_specialize = {};  ///< whether warps of their own copy; none: as the launch says
  std::optional<Placed> unroll = {};           ///< iterations without a branch; none: the compiler decides

  /// Whether each bound has a value; false after an error in one of them.
  bool is_known() const;
  int64_t stages() const { return num_stages->value.as<Int>().clamped(); }
};
/// Reports what no range can have: bounds that are no integers, a step of 0, a number of stages out of its range, a
/// warp_specialize that is no bool, an unroll that is no integer. Bools become integers otherwise, options of None
/// none. False after an error.
bool check_range(Sema& s, Range& range);

/// Lower bound, upper bound and step of a range that is known, as values of one type, in which iterations are counted:
/// int64 if a bound asks for it, else int32.
struct Bounds {
  ir::Value *lower, *upper, *step;
  Elem index;  ///< what the loop's variable is, in which the three meet: uint32 where one is
};
Bounds range_bounds(Sema& s, const Range& range);
/// The loop's variable in the iteration that has been counted so.
Val index_at(Sema& s, const Bounds& bounds, const Val& counter);
/// Whether the range has an iteration that is counted so, as an int1.
Val counter_in_range(Sema& s, const Range& range, const Bounds& bounds, const Val& counter);
/// The index of the last iteration; without any iteration `before`, where that has its type, else the lower bound.
Val last_index(Sema& s, const Range& range, const Val& before);

/// What the iterations of a loop may change: a name of the language, a Tile of C++.
struct Variable {
  std::string subject;    ///< as messages call it: "'acc'"
  Val before;             ///< a number, a run-time value or made of such parts; poison: it has none after an error
  std::string name = {};  ///< of its values
};

/// What a variable holds at the end of a region.
struct AtEnd {
  Val value;
  Loc loc = {};               ///< of the last assignment
  std::string unusable = {};  ///< why it has no value; empty if it has one
};

/// A For or While under construction. What its regions leave as it was stays outside of the op.
class Loop {
 public:
  /// A For over the range, of one iteration if that is not known.
  Loop(Sema& s, const Range& range, std::vector<Variable> variables);
  /// A While.
  Loop(Sema& s, std::vector<Variable> variables);

  /// Code is made in the test of a While, or in the body, from now on. The variables' values there.
  std::vector<Val> enter_test();
  std::vector<Val> enter_body();
  /// The variable of a For, in the body.
  Val index() const { return index_; }
  /// Ends the test; a null condition is one after an error.
  void end_test(ir::Value* holds, const std::vector<AtEnd>& ends);
  /// Ends the body, and code is made after the loop from now on. The variables' values there: those before the loop
  /// where no region changes them.
  std::vector<Val> end_body(const std::vector<AtEnd>& ends);
  /// Where code goes on after the op.
  const ir::Builder& outside() const { return outside_; }

 private:
  void create(ir::Opcode opcode, std::vector<ir::Value*> operands, ir::Attrs attrs);
  std::vector<Val> enter(ir::Block& region);
  void end_region(ir::Opcode terminator, std::vector<ir::Value*> operands, const std::vector<AtEnd>& ends);
  std::vector<ir::Value*> next_values(const Variable& variable, const Val& inside, const AtEnd& end);

  Sema& s_;
  Loc loc_;
  std::vector<Variable> variables_;
  ir::Op* op_ = nullptr;
  ir::Builder outside_;
  std::optional<Bounds> bounds_;  ///< of a For whose range is known
  Val index_;
  std::vector<Val> inside_;  ///< of the region that code is made in
};

}  // namespace tegula::dsl
