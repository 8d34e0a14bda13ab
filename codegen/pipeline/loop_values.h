// Values that loops carry, and values of other iterations than the one at hand.
#pragma once

#include <unordered_set>
#include <vector>

#include "codegen/ir/builder.h"

namespace tegula {

/// The block that a value is defined in.
inline ir::Block* home(const ir::Value* v) { return v->def ? v->def->parent : v->block; }

/// Whether all elements are the constant 0; -0 is not.
bool is_zero(const ir::Value* v);

/// A tile of the shape and layout of `like` whose every element is the scalar.
ir::Value* splat_as(ir::Builder& build, ir::Value* scalar, const ir::Type& like);

/// Makes the For loop carry one more value; the caller appends what the body yields for it. Returns the body's.
ir::Value* carry(ir::Op& loop, ir::Value* init);

/// Room for `slots` tiles of the type of `tile`, whose elements along the axis `contiguous` are to lie side by side
/// (-1: as those that are put there do).
ir::Value* alloc_place(ir::Builder& builder, const ir::Type& tile, int64_t slots, int contiguous = -1);
/// The place number `index` of a shared_alloc.
ir::Value* slot_of(ir::Builder& builder, ir::Value* buffer, ir::Value* index);
/// Lets the body yield, for a number that the loop carries, the next one of `slots`, round and round. Returns that one.
ir::Value* rotate(ir::Op& loop, ir::Value* index, int64_t slots);

/// Recomputes values with some inputs substituted. They must follow from these by pure ops.
class Replay {
 public:
  /// `known` has what stands for some values, arguments of blocks above all. Values of `blocks` are recomputed, those
  /// of `around` only where they follow from something in `known`; all others stay as they are.
  Replay(ir::Builder& build, std::vector<const ir::Block*> blocks, ir::ValueMap known,
         std::vector<const ir::Block*> around = {})
      : build_(build), blocks_(std::move(blocks)), around_(std::move(around)), values_(std::move(known)) {}

  /// Null for null.
  ir::Value* operator()(ir::Value* v);

 private:
  ir::Builder& build_;
  std::vector<const ir::Block*> blocks_, around_;
  ir::ValueMap values_;
};

/// What values of a For loop's body follow from by pure ops.
class LoopSources {
 public:
  /// `reach`: queues() that hold values of so many iterations to come count as the iteration; of 0 none do.
  explicit LoopSources(const ir::Op& loop, int reach = 0) : body_(*loop.regions[0]), reach_(reach) {}
  /// What the loads `ahead` give counts as what they load from.
  LoopSources(const ir::Op& loop, std::unordered_set<const ir::Op*> ahead) : LoopSources(loop) {
    ahead_ = std::move(ahead);
  }

  /// Nothing but values of before the loop; the iteration too, which is the induction variable and steadily growing
  /// values; or something else.
  enum class Source { Invariant, Iteration, Other };
  Source of(const ir::Value* v);

  /// For a carried value p whose next one is p + d with d invariant: the op that adds; otherwise null.
  const ir::Op* growth(const ir::Value* arg);
  /// What is added.
  ir::Value* step(const ir::Value* arg);
  /// For a carried value whose next one is another carried value, and so on: all of these, itself first. Number k is
  /// what the first one will be k iterations later.
  std::vector<ir::Value*> queue(const ir::Value* arg) const;

 private:
  const ir::Block& body_;
  int reach_;
  std::unordered_set<const ir::Op*> ahead_;
  std::unordered_map<const ir::Value*, Source> sources_;
};

}  // namespace tegula
