// Common-subexpression elimination.
#pragma once

#include <cstddef>
#include <vector>

#include "codegen/ir/ir.h"

namespace tegula {

/// The pure ops without regions that are available during a walk through nested blocks in order: those of the current
/// block and of the enclosing ones.
class EqualOps {
 public:
  /// To be called before and after a region of `owner` is visited (null: the function's body). The region of a
  /// reduction or scan is scalar code of its own, which uses no value from outside.
  void enter(const ir::Op* owner);
  void leave();

  /// The result of an available op that computes the same as `op`; null if there is none, and `op` is available from
  /// now on. Two ops are the same if they have equal opcodes, operands (in any order if the op is commutative),
  /// attributes (floats compared by their bits, so that 0.0 and -0.0 differ and a NaN equals itself) and result types,
  /// layouts included.
  ir::Value* find_or_add(const ir::Op& op);

 private:
  /// Ops by a hash over what makes them the same. One table for all of them: a node for each would take longer than to
  /// find it.
  class Table {
   public:
    /// Calls `is_it` with the ops of this hash until it returns true for one, which is returned; null: for none.
    template <class IsIt>
    const ir::Op* find(size_t hash, IsIt is_it) const;
    void add(size_t hash, const ir::Op* op);

   private:
    struct Entry {
      size_t hash;
      const ir::Op* op = nullptr;  ///< null: the place is free
    };
    std::vector<Entry> entries_;  ///< each at the place that its hash says, or behind it
    size_t size_ = 0;
  };
  struct Scope {
    bool closed;  ///< nothing outside of it is in sight
    Table ops;
  };
  std::vector<Scope> scopes_;
};

}  // namespace tegula
