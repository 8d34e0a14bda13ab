// The loads of a loop as a stream that runs ahead of the loop's iterations.
#pragma once

#include <functional>

#include "codegen/pipeline/loop_values.h"
#include "codegen/pipeline/outer_iterations.h"

namespace tegula {

/// Issues the loads of iteration after iteration, beginning before the loop. With OuterIterations the loop is part of
/// the body of another one, and after its last iteration the first one in the next outer iteration follows: then it
/// has as many iterations as loads run ahead at least, and in those beyond its own no mask holds.
class LoadStream {
 public:
  /// Scalars: whether there is the iteration, and, with OuterIterations, whether there is its outer iteration: one that
  /// does not exist in an outer iteration that does has zeros.
  struct Exists {
    ir::Value* iteration;
    ir::Value* outer = nullptr;
  };
  /// Issues a load of one iteration: its operands there are what `values` gives.
  using Access = std::function<void(ir::Builder&, ir::Op& load, Replay& values, const Exists& exists)>;

  /// The loads follow from the loop's iterations, as `sources` tells, with a reach of `ahead` at least; they run
  /// `ahead` >= 1 of these ahead.
  /// `never_negative`: what is known of the induction variable, and holds for those of iterations ahead too.
  LoadStream(ir::Op& loop, std::vector<ir::Op*> loads, LoopSources& sources, bool never_negative, int ahead,
             OuterIterations* outer = nullptr);

  /// The loads of the first `ahead` iterations, at `build` before the loop (with OuterIterations: before the loop
  /// around it). With OuterIterations the loop's upper bound becomes what gives it so many iterations. `behind` is
  /// called after each iteration's with its number.
  void begin(ir::Builder& build, const Access& access, const std::function<void(int)>& behind);
  /// Those of the iteration that is `ahead` on, at `build` in the body.
  void go_on(ir::Builder& build, const Access& access);

 private:
  // The values that stand for an iteration.
  struct Iteration {
    int number;              // counted from the loop's first one before the loop, from the one at hand in it
    ir::Value* at;           // the induction variable
    ir::ValueMap carried;    // of growing values; of pointers that are split: the scalar
    ir::ValueMap outer;      // of scalars of the iteration of the loop around
    ir::Value* of_an_outer;  // whether there is such an iteration of the loop around
  };
  // A tile of pointers to a tile of offsets, the same in all iterations of the loop around, from a scalar pointer.
  struct Split {
    ir::Value* base;
    ir::Value* offsets;
    ir::Value* step;
  };

  void find_parts();
  ir::Value* init_of(const ir::Value* arg) const;
  ir::Value* queued(const ir::Value* arg, const Iteration& it, bool inside) const;
  void split_pointers(ir::Builder& before);
  void lengthen_iterations();
  bool splits(const ir::Value* pointers) const;
  std::vector<ir::Value**> parts(Iteration& it) const;
  ir::Value* in_width(ir::Builder& build, ir::Value* x) const;
  Iteration start(ir::Builder& build, Replay& replay, ir::Value* of_an_outer) const;
  Iteration next(ir::Builder& build, const Iteration& it, Replay& replay) const;
  Iteration coming_in_outer() const;
  Iteration wrapped(ir::Builder& build, const Iteration& it) const;
  ir::Value* induction_of(ir::Builder& build, const Iteration& it) const;
  Replay replay(ir::Builder& build, const Iteration& it, bool inside) const;
  void issue(ir::Builder& build, const Iteration& it, Replay& replay, const Access& access) const;

  ir::Op& loop_;
  ir::Block& body_;
  std::vector<ir::Op*> loads_;
  LoopSources& sources_;
  bool never_negative_;
  int ahead_;
  OuterIterations* outer_;
  ir::Value* upper_;                        // the loop's own bound
  std::vector<const ir::Value*> growing_;   // carried values that the loads follow from
  std::vector<const ir::Value*> queued_;    // and those that the loop holds for iterations to come
  std::vector<const ir::Value*> of_outer_;  // scalars of the loop around that they follow from
  std::unordered_map<const ir::Value*, Split> split_;
  Iteration coming_;  // without a loop around: the one whose loads the loop begins with
};

}  // namespace tegula
