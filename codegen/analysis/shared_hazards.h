// Hazards in shared memory, between threads and asynchronous engines, and between threads in global memory
// (global_order.h), since the same barriers order both.
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

/// The synchronisation that accesses to shared memory still lack. Threads (shared_store, scratch) and copies write it;
/// threads and products that run beside the program read it. A write of one thread and an access of another need a
/// barrier between them, one that includes the asynchronous proxy if a product reads. A copy must have been waited for
/// before its data is read, and a product before its operands are overwritten.
struct SharedHazards {
  /// Ops that need a barrier before them, since they must not start before earlier accesses of other threads have
  /// completed. True: the barrier must order the asynchronous proxy too.
  std::unordered_map<const ir::Op*, bool> barrier_before;
  /// Those that need a barrier of all blocks that run the program.
  std::unordered_set<const ir::Op*> whole_program;
  /// Errors that no barrier can repair: an access to memory that a copy or product under way uses.
  std::vector<std::pair<const ir::Op*, std::string>> errors;
};

/// A data-flow analysis that follows loops to a fixed point. It distinguishes the slots of a shared_alloc that a loop
/// takes in turn if their indices begin as constants and advance by one slot an iteration; it does not distinguish them
/// from slots that an earlier loop used.
SharedHazards find_shared_hazards(const ir::Func& func, const SharedPlan& plan);

/// Whether the function has all barriers that it needs (Stage::Ordered). Reports the ones it lacks.
bool verify_order(const ir::Func& func, Diagnostics& diags);

}  // namespace tegula
