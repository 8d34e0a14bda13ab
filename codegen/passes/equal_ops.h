// Merging of ops that compute the same.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "codegen/ir/ir.h"

namespace tegula {

/// The pure ops without regions that a walk through nested blocks, in order, has met and that are still in sight: those
/// of the block it is in and of the blocks around.
class EqualOps {
 public:
  /// Around the visit of the block of an op's region (null: the function's body). The region of an op that combines is
  /// scalar code of its own, which sees nothing from outside.
  void enter(const ir::Op* owner);
  void leave();

  /// The result of an op in sight that computes the same, which may stand for this one's; null if there is none: from
  /// now on `op` is it. Same are opcode, operands (in any order for a commutative op), attributes (floats by their
  /// bits, so that 0.0 and -0.0 differ and a NaN equals itself), and the result's type, layout included.
  ir::Value* find_or_add(const ir::Op& op);

 private:
  struct Scope {
    bool closed;                                         ///< nothing outside of it is in sight
    std::unordered_multimap<size_t, const ir::Op*> ops;  ///< by what makes them the same
  };
  std::vector<Scope> scopes_;
};

}  // namespace tegula
