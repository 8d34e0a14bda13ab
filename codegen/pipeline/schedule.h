// Which ops of a loop may run iterations ahead, or beside each other.
#pragma once

#include <vector>

#include "codegen/ir/ir.h"

namespace tegula {

/// What a loop's body consists of, as far as ops of different iterations may run beside each other.
struct LoopSchedule {
  std::vector<ir::Op*> indices;  ///< loads to registers that say where others load: issued one iteration further ahead
  std::vector<ir::Op*> loads;    ///< to registers, issued iterations ahead
  std::vector<ir::Op*> copies;   ///< to shared memory, issued iterations ahead
  std::vector<ir::Op*> stores;   ///< of an iteration's values into places that its products read

  /// The first product, if it runs beside the program.
  ir::Op* product = nullptr;
  /// Whether it is the only one and the loop does nothing but carry its sums: they may stay in flight from one
  /// iteration to the next.
  bool sums_up = false;
};

/// The loop's body must be laid out, with its operands staged and nothing of it pipelined.
LoopSchedule schedule_of(const ir::Op& loop);

/// What waits for a product that runs beside the program, in its block; null if nothing does.
ir::Op* wait_of(const ir::Op& product);

}  // namespace tegula
