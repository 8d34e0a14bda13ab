// Common-subexpression elimination.
#pragma once

#include <cstddef>
#include <unordered_map>
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
  struct Scope {
    bool closed;                                         ///< nothing outside of it is in sight
    std::unordered_multimap<size_t, const ir::Op*> ops;  ///< by what makes them the same
  };
  std::vector<Scope> scopes_;
};

}  // namespace tegula
