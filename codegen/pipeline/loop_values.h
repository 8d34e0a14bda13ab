// Values that loops carry, and the values of iterations other than the current one.
#pragma once

#include <unordered_set>
#include <vector>

#include "codegen/ir/builder.h"

namespace tegula {

/// The block that a value is defined in.
inline ir::Block* home(const ir::Value* v) { return v->def ? v->def->parent : v->block; }

/// Whether all elements are the constant +0.
bool is_zero(const ir::Value* v);

/// A tile of the shape and layout of `like` whose every element is the scalar.
ir::Value* splat_as(ir::Builder& build, ir::Value* scalar, const ir::Type& like);

/// Makes a For carry one more value and returns the argument of its body. The caller appends the operand of the body's
/// yield.
ir::Value* carry(ir::Op& loop, ir::Value* init);

/// Allocates places for `slots` tiles of the type of `tile`, whose elements are to be contiguous along the axis
/// `contiguous` (-1: along the axis of what is stored there).
ir::Value* alloc_place(ir::Builder& builder, const ir::Type& tile, int64_t slots, int contiguous = -1);
/// The place number `index` of a shared_alloc.
ir::Value* slot_of(ir::Builder& builder, ir::Value* buffer, ir::Value* index);
/// Makes the body yield, for the slot number `index` that the loop carries, the next one of `slots` in rotation.
/// Returns the next one.
ir::Value* rotate(ir::Op& loop, ir::Value* index, int64_t slots);

/// Recomputes values with some inputs substituted. They must follow from these by pure ops.
class Replay {
 public:
  /// `known` maps values, above all block arguments, to their substitutes. Values of `blocks` are recomputed; those of
  /// `around` only if they depend on a substituted value; all others are used as they are.
  Replay(ir::Builder& build, std::vector<const ir::Block*> blocks, ir::ValueMap known,
         std::vector<const ir::Block*> around = {})
      : build_(build), blocks_(std::move(blocks)), around_(std::move(around)), values_(std::move(known)) {}

  /// The substitute of a value; null for null.
  ir::Value* operator()(ir::Value* v);

 private:
  ir::Builder& build_;
  std::vector<const ir::Block*> blocks_, around_;
  ir::ValueMap values_;
};

/// What the values in the body of a For depend on, through pure ops.
class LoopSources {
 public:
  /// `reach`: a carried value whose queue() has that many later values counts as part of the iteration; with 0 none
  /// does.
  explicit LoopSources(const ir::Op& loop, int reach = 0) : body_(*loop.regions[0]), reach_(reach) {}
  /// The results of the loads `ahead` count as depending on what their addresses depend on.
  LoopSources(const ir::Op& loop, std::unordered_set<const ir::Op*> ahead) : LoopSources(loop) {
    ahead_ = std::move(ahead);
  }

  /// Invariant: only values from before the loop. Iteration: also the induction variable and values that grow steadily.
  /// Other: anything else.
  enum class Source { Invariant, Iteration, Other };
  Source of(const ir::Value* v);

  /// For a carried value p whose next value is p + d with an invariant d, the op that adds; null for others.
  const ir::Op* growth(const ir::Value* arg);
  /// The d of growth().
  ir::Value* step(const ir::Value* arg);
  /// For a carried value whose next value is another carried value, and so on: all of these, the value itself first.
  /// Number k has the value that the first one will have k iterations later.
  std::vector<ir::Value*> queue(const ir::Value* arg) const;

 private:
  const ir::Block& body_;
  int reach_;
  std::unordered_set<const ir::Op*> ahead_;
  std::unordered_map<const ir::Value*, Source> sources_;
};

}  // namespace tegula
