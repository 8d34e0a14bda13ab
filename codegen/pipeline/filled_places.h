// Places whose slots warps that copy fill: where a loop's body uses them, where they are allocated, who reads which
// slot.
#pragma once

#include <utility>
#include <vector>

#include "codegen/ir/ir.h"

namespace tegula {

/// Where a body begins to read a place and where it is done.
struct Span {
  ir::Op *first, *last;
};
/// The products that read it are waited for in the body.
Span span_of_uses(const ir::Block& body, const ir::Value* place);

/// Readers of the place take its slot.
void read_slot(ir::Block& body, ir::Value* place, ir::Value* slot);

/// The allocs of what the copies fill stand before an op of another block, unless it is taken back.
class MovedAllocs {
 public:
  MovedAllocs(const std::vector<ir::Op*>& copies, ir::Op& where);
  ~MovedAllocs();
  void keep() { moved_.clear(); }

 private:
  std::vector<std::pair<ir::Op*, ir::Op*>> moved_;  // the op that each stood before
};

}  // namespace tegula
