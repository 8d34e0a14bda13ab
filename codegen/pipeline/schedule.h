// Which ops of a loop may run iterations ahead, and which may overlap with ops of other iterations.
#pragma once

#include <vector>

#include "codegen/ir/ir.h"

namespace tegula {

/// The ops of a loop's body that may overlap with other iterations.
struct LoopSchedule {
  std::vector<ir::Op*> indices;  ///< loads to registers that say where others load: issued one iteration further ahead
  std::vector<ir::Op*> loads;    ///< to registers, issued iterations ahead
  std::vector<ir::Op*> copies;   ///< to shared memory, issued iterations ahead
  std::vector<ir::Op*> stores;   ///< of an iteration's values into places that its products read

  /// The first product, if it runs beside the program.
  ir::Op* product = nullptr;
  /// Whether it is the only product and the loop only accumulates its sums, so that they may stay in flight from one
  /// iteration to the next.
  bool sums_up = false;
  /// The same of a product whose first operand each iteration computes in registers, of which sums_up is false: the
  /// next one computes in the same registers. So it is waited for in the iteration, or multiplied in halves.
  bool has_fragments = false;
  /// Of these: whether it is multiplied in halves (multiply_in_halves), where warps of their own copy.
  bool in_halves = false;
  /// Whether sums stay in flight, where warps of their own copy.
  bool keeps_sums() const { return sums_up || in_halves; }
};

/// The schedule of a laid-out loop whose operands are staged and of which nothing is pipelined yet.
LoopSchedule schedule_of(const ir::Op& loop);

/// The op that waits for a product that runs beside the program, in the product's block; null if there is none.
ir::Op* wait_of(const ir::Op& product);

}  // namespace tegula
