// The outer iterations of a persistent program, whose inner loop continues its stream of loads from one to the next.
#pragma once

#include <memory>
#include <unordered_set>

#include "codegen/pipeline/loop_values.h"

namespace tegula {

/// Provides the scalars that locate the tile of the current and of the next outer iteration. Since divisions are often
/// among them, the loop carries them from two iterations before.
class OuterIterations {
 public:
  /// Those of the loop that the For `inner` stands in; null if its loads `loads` cannot run `ahead` iterations ahead
  /// into the next outer iteration: `inner` must do nothing but sum up dots of what these load, they must follow from
  /// its number by pure ops, and no store of an outer iteration may reach what they read (pointers of different
  /// parameters are taken not to overlap). Its lower bound and its step must be constants, and no outer iteration known
  /// to have fewer iterations than that.
  static std::unique_ptr<OuterIterations> of(ir::Op& inner, const std::vector<ir::Op*>& loads, LoopSources& sources,
                                             int64_t ahead);

  /// Makes the loop carry the scalars; call it before the functions below. It inserts ops before the inner loop.
  void carry_scalars();

  ir::Op& loop() const { return loop_; }
  const ir::Block& body() const { return *loop_.regions[0]; }
  /// Whether the value is one of the scalars that identify the outer iteration.
  bool is_scalar_of_iteration(const ir::Value* v) const { return next_.contains(v); }
  /// Whether a value of the body may differ between outer iterations.
  bool varies(const ir::Value* v) const { return varying_.contains(v); }
  const ir::ValueMap& first() const { return first_; }  ///< of the first outer iteration, before the loop
  const ir::ValueMap& next() const { return next_; }    ///< of the next one, in the body
  ir::Value* first_exists() const { return first_exists_; }
  ir::Value* next_exists() const { return next_exists_; }

 private:
  OuterIterations(ir::Op& loop, ir::Op& inner) : loop_(loop), inner_(inner) {}

  std::vector<ir::Value*> find_scalars();
  bool follow_from_outer(const std::vector<ir::Op*>& loads, LoopSources& sources) const;

  ir::Op& loop_;
  ir::Op& inner_;
  ir::ValueMap first_, next_;
  std::unordered_set<const ir::Value*> varying_;
  ir::Value *first_exists_ = nullptr, *next_exists_ = nullptr;
};

}  // namespace tegula
