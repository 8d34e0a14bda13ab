// In which order threads and engines get to shared memory, and threads to what they store to global memory
// (global_order.h): barriers serve both.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "codegen/analysis/shared_plan.h"
#include "codegen/ir/ir.h"
#include "runtime/base/diag.h"

namespace tegula {

/// What the accesses to shared memory still need. Memory is written by threads (shared_store, scratch) and by copies;
/// it is read by threads and by products that run beside the program. Between a write of one thread and an access of
/// another a barrier stands, one for the asynchronous proxy where a product reads; a copy is waited for before it is
/// read, a product before its operands are written again.
struct SharedHazards {
  /// Ops that must not start before earlier accesses of other threads have completed: they need a barrier ahead. True:
  /// one that the asynchronous proxy is ordered by too.
  std::unordered_map<const ir::Op*, bool> barrier_before;
  /// Of these, barriers of all blocks that run the program.
  std::unordered_set<const ir::Op*> whole_program;
  /// What no barrier mends: an access to what a copy or a product under way uses.
  std::vector<std::pair<const ir::Op*, std::string>> errors;
};

/// Follows the program, loops until nothing changes. Slots of a shared_alloc that a loop takes in turn are told apart
/// where their indices begin as constants and move on by one slot an iteration; but not from those that a loop used
/// that is over.
SharedHazards find_shared_hazards(const ir::Func& func, const SharedPlan& plan);

/// Whether the function has all barriers it needs (Stage::Ordered). Reports what it lacks.
bool verify_order(const ir::Func& func, Diagnostics& diags);

}  // namespace tegula
