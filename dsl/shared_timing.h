// Timing that the processes of a job share, each on a GPU of its own.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/function.h"
#include "runtime/tuning/tuning_store.h"

namespace tegula::dsl {

/// Configurations of one problem, whose results stand in the store.
struct SharedTiming {
  TuningStore& store;
  const TuningProblem& problem;
  tegula::FunctionRef<bool()> is_chosen;                               ///< a process has chosen among them
  tegula::FunctionRef<std::vector<std::string>()> without_result;      ///< best guess first
  tegula::FunctionRef<void(const std::vector<std::string>&)> measure;  ///< stores the results
};

/// Measures configurations beside the other processes that a launcher started: each process takes those that no other
/// has begun, and waits for the rest, which it takes over from a process that ends. All results are in the store
/// afterwards, but for those of processes that came too late to share. `processes`: how many there are.
void measure_beside_others(const SharedTiming& timing, int processes);

}  // namespace tegula::dsl
