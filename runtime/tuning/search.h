// Finds the fastest of many candidates with few measurements. Knows nothing of kernels: what it needs done, it is given
// as functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/function.h"
#include "runtime/tuning/tuning_store.h"

namespace tegula {

/// A candidate made ready to be timed.
struct PreparedCandidate {
  TuningResult facts;  ///< registers, spills, shared memory; or Status::Failed with the reason
  /// Device times of so many runs in microseconds, each with a cold L2 cache, on the device of a worker. Throws Error.
  /// Null for a failed one.
  std::function<std::vector<double>(int runs, int worker)> time;
  int launches = 1;  ///< in a run, whose time is that of one of them
};

/// A candidate that may take the place of another one.
struct SearchCandidate {
  std::string config;
  double predicted_us = 0;
  std::string surely_spills = {};  ///< why; empty: it does not
};

struct SearchOptions {
  int compile_threads = 0;  ///< 0: one a core
  uint64_t turn = 0;        ///< of the processors (ProcessorSlot)
  double warmup_ms = 5;
  double rep_ms = 20;          ///< device time for a candidate in the running
  double hopeless = 1.25;      ///< a candidate whose best run is this factor above the best median is given up
  double significance = 0.05;  ///< chance that any of the others replaces an incumbent that is as fast
  std::string incumbent;       ///< config that was chosen before: keeps its place unless beaten; empty: none
  /// Why a candidate surely spills, beside `configs`; empty text: it does not, empty list: none does. Such a candidate
  /// is not prepared unless all spill, since it is those that take the assembler longest.
  std::vector<std::string> surely_spills = {};
  /// Further candidates, best guess first, of which in the place of each one that fails or spills one is prepared, as
  /// many as there are others at most. Asked for once, when the first one is needed; null: there are none.
  Function<std::vector<SearchCandidate>()> reserve;
  /// What the search ends with. Time: nothing is chosen, and spilling candidates are left. Compare: the best few are
  /// timed in turn again even if all were known, as processes have timed them on GPUs of their own.
  enum class End { Time, Choose, Compare } end = End::Choose;
  int workers = 1;  ///< devices of one kind that share the work; worker 0 is the calling thread
  /// Told of each candidate when it is finished, and of the number still to come, which begins anew where some of the
  /// reserve take the place of others. Null: nobody.
  Function<void(const TuningResult&, size_t left)> progress;
};

struct SearchOutcome {
  std::vector<TuningResult> results;  ///< one a candidate, in the order given, those of the reserve that took part last
  int best = -1;                      ///< index in results; -1 when none could be timed
  int timed = 0;                      ///< how many were timed in this search (not known before)
};

/// Times the candidates and picks one.
///
/// `configs`: canonical texts, best guess first (the model's order), `predicted_us` beside them or empty. `known`:
/// results from before, which are not measured again. `prepare` gets a candidate's number, behind those of `configs`
/// that of one of the reserve, and is called from several threads; each worker times on a
/// thread of its own what is ready, in order, while other candidates are still being prepared; then those that are not
/// hopeless, or the best few of several workers', run in turn on worker 0 alone, and the fastest is taken, unless an
/// incumbent is not slower beyond doubt. A candidate that spills is timed only if all spill. `finished` is called with
/// each new result at once, so that it can be stored, and like `progress` by one thread at a time; what they throw ends
/// the search.
SearchOutcome search(const std::vector<std::string>& configs, const std::vector<double>& predicted_us,
                     const std::vector<TuningResult>& known,
                     const std::function<PreparedCandidate(size_t candidate)>& prepare,
                     const std::function<void(const TuningResult&)>& finished, const SearchOptions& options);

/// Whether samples `a` are smaller than samples `b` at the given level: one-sided Mann-Whitney U test, with the normal
/// approximation and correction for ties.
bool significantly_smaller(const std::vector<double>& a, const std::vector<double>& b, double level);

}  // namespace tegula
