// The loads of a loop as a sequence that runs ahead of its iterations.
#pragma once

#include <functional>

#include "codegen/pipeline/loop_values.h"
#include "codegen/pipeline/outer_iterations.h"

namespace tegula {

/// Issues the loads of iteration after iteration, beginning before the loop. With OuterIterations the loop is part of
/// the body of another one, and behind the last iteration of a round the first one of the next round follows: then a
/// round has as many iterations as loads run ahead at least, and in those beyond its own no mask holds.
class LoadStream {
 public:
  /// Scalars: whether there is the iteration, and, with OuterIterations, whether there is its round: one that does not
  /// exist in a round that does has zeros.
  struct Exists {
    ir::Value* iteration;
    ir::Value* round = nullptr;
  };
  /// Issues a load of one iteration: its operands there are what `values` gives.
  using Access = std::function<void(ir::Builder&, ir::Op& load, Replay& values, const Exists& exists)>;

  /// The loads follow from the loop's iterations, as `sources` tells; they run `ahead` >= 1 of these ahead.
  /// `never_negative`: what is known of the induction variable, and holds for those of iterations ahead too.
  LoadStream(ir::Op& loop, std::vector<ir::Op*> loads, LoopSources& sources, bool never_negative, int ahead,
             OuterIterations* rounds = nullptr);

  /// The loads of the first `ahead` iterations, at `build` before the loop (with OuterIterations: before the loop
  /// around it). With OuterIterations the loop's upper bound becomes what gives a round its iterations. `behind` is
  /// called after each iteration's with its number.
  void begin(ir::Builder& build, const Access& access, const std::function<void(int)>& behind);
  /// Those of the iteration that is `ahead` on, at `build` in the body.
  void go_on(ir::Builder& build, const Access& access);

 private:
  // The values that stand for an iteration.
  struct Iteration {
    ir::Value* at;          // the induction variable
    ir::ValueMap carried;   // of growing values; of pointers that are split: the scalar
    ir::ValueMap round;     // of scalars of the round
    ir::Value* of_a_round;  // whether there is such a round
  };
  // A tile of pointers to a tile of offsets, the same in all rounds, from a scalar pointer.
  struct Split {
    ir::Value* base;
    ir::Value* offsets;
    ir::Value* step;
  };

  void find_parts();
  ir::Value* init_of(const ir::Value* arg) const;
  void split_pointers(ir::Builder& before);
  void lengthen_rounds();
  bool splits(const ir::Value* pointers) const;
  std::vector<ir::Value**> parts(Iteration& it) const;
  ir::Value* in_width(ir::Builder& build, ir::Value* x) const;
  Iteration start(ir::Builder& build, Replay& replay, ir::Value* of_a_round) const;
  Iteration next(ir::Builder& build, const Iteration& it, Replay& replay) const;
  Iteration coming_in_round() const;
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
  OuterIterations* rounds_;
  ir::Value* upper_;                        // the loop's own bound
  std::vector<const ir::Value*> growing_;   // carried values that the loads follow from
  std::vector<const ir::Value*> of_round_;  // scalars of the round that they follow from
  std::unordered_map<const ir::Value*, Split> split_;
  Iteration coming_;  // without rounds: the one whose loads the loop begins with
};

}  // namespace tegula
