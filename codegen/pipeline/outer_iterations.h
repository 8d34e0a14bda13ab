// A loop around a loop: the rounds of a persistent program.
#pragma once

#include <memory>
#include <unordered_set>

#include "codegen/pipeline/loop_values.h"

namespace tegula {

/// Knows of each round, and of the next one, the scalars that say where its tile lies. Divisions are often among these,
/// so that the loop carries them from two rounds before.
class OuterIterations {
 public:
  /// Those of the loop that the For `inner` stands in; null if its loads `loads` cannot run `ahead` iterations ahead
  /// into the next round: `inner` must do nothing but sum up dots of what these load, they must follow from the round
  /// by pure ops, and no store of a round may reach what they read (pointers of different parameters are taken not to
  /// overlap). Its lower bound and its step must be constants, and no round known to have fewer iterations than that.
  static std::unique_ptr<OuterIterations> of(ir::Op& inner, const std::vector<ir::Op*>& loads, LoopSources& sources,
                                             int64_t ahead);

  /// Makes the loop carry the scalars, before anything below is asked for. What is made of them stands before the inner
  /// loop.
  void carry_scalars();

  ir::Op& loop() const { return loop_; }
  const ir::Block& body() const { return *loop_.regions[0]; }
  /// A scalar that says which round it is.
  bool is_scalar_of_round(const ir::Value* v) const { return next_.contains(v); }
  /// Whether a value of the body may differ from round to round.
  bool varies(const ir::Value* v) const { return varying_.contains(v); }
  const ir::ValueMap& first() const { return first_; }  ///< of the first round, before the loop
  const ir::ValueMap& next() const { return next_; }    ///< of the next round, in the body
  ir::Value* first_exists() const { return first_exists_; }
  ir::Value* next_exists() const { return next_exists_; }

 private:
  OuterIterations(ir::Op& loop, ir::Op& inner) : loop_(loop), inner_(inner) {}

  std::vector<ir::Value*> find_scalars();
  bool follow_from_round(const std::vector<ir::Op*>& loads, LoopSources& sources) const;

  ir::Op& loop_;
  ir::Op& inner_;
  ir::ValueMap first_, next_;
  std::unordered_set<const ir::Value*> varying_;
  ir::Value *first_exists_ = nullptr, *next_exists_ = nullptr;
};

}  // namespace tegula
