// Places whose slots copy_warps fill: where a loop's body uses them, where they are allocated, who reads which slot.
#pragma once

#include <utility>
#include <vector>

#include "codegen/ir/ir.h"

namespace tegula {

/// The first op of a body that reads a place, and the op after which the place is no longer needed.
struct Span {
  ir::Op *first, *last;
};
/// The span of a place in `body`, which must wait for the products that read it.
Span span_of_uses(const ir::Block& body, const ir::Value* place);

/// Makes the readers of the place read `slot` instead.
void read_slot(ir::Block& body, ir::Value* place, ir::Value* slot);

/// Moves the shared_allocs of the copies' places before an op of another block; the move can be undone.
class MovedAllocs {
 public:
  MovedAllocs(const std::vector<ir::Op*>& copies, ir::Op& where);
  ~MovedAllocs();
  void keep() { moved_.clear(); }

 private:
  std::vector<std::pair<ir::Op*, ir::Op*>> moved_;  // the op that each stood before
};

}  // namespace tegula
