// The configurations that a launch may run with, what each needs, and the time that the cost model predicts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dsl/kernel_state.h"

namespace tegula::dsl {

/// A launch whose configuration is to be chosen.
struct TunedLaunch {
  detail::KernelState& state;
  Device& device;
  detail::GridRef grid;
  const LaunchOptions& options;
  std::span<const Arg> args;
  std::vector<ArgType> types;
  uint64_t turn;  ///< of the processors (ProcessorSlot)
};

/// One configuration of one launch, with everything that a launch needs.
struct Candidate {
  LaunchOptions options;  ///< all constexprs given
  Config config;          ///< the same as a configuration
  Config declared;        ///< as it was given: without what the launch and heuristics add
  std::vector<ArgType> types;
  std::string id;  ///< canonical text, and for a kernel without text the digest of its tile IR
  Grid grid;
  std::string no_grid;        ///< why the grid function gave none
  std::string unusable;       ///< why no tile IR is made of it, found while ranking
  size_t number = 0;          ///< among all candidates, in the order of the configurations
  double predicted_us = 0;    ///< infinity: it is not usable
  bool only_bounded = false;  ///< so far `predicted_us` is a bound of what the model says, which may be more
  std::string surely_spills;  ///< why
  std::string code;           ///< equal for candidates that become the same code in the same grid; empty: not known
};

/// Two classes of values are tuned apart, multiples of 16 and others: values that matter more are in the key.
std::vector<ArgType> tuned_types(std::vector<ArgType> types);

/// The kernel's configurations that pruning leaves, without duplicates. Calls the configurations' hooks. Throws
/// LaunchError if none is left.
std::vector<Candidate> candidates_of(const TunedLaunch& launch);

/// Computes the grids by the user's function, which only the launching thread may call.
void make_grids(const TunedLaunch& launch, std::vector<Candidate>& candidates);

/// Which of the ranked candidates are needed. Of those that become the same code the first one counts.
struct Wanted {
  size_t most = 0;    ///< the first so many at most; 0: all
  double within = 0;  ///< of these the ones that take so many times the first one's time at most; 0: whatever they take
  size_t fewest = 0;  ///< but so many at least
  std::string besides = {};  ///< and the one of this id, wherever it is

  bool is_all() const { return most == 0 && within <= 0; }
};

/// Computes the grids and sorts the candidates by the predicted time, the fastest first. Those that are not wanted may
/// be ranked by a bound of their time (only_bounded), which takes a fraction of the work: they come behind those that
/// are wanted.
void rank(const TunedLaunch& launch, std::vector<Candidate>& candidates, const Wanted& wanted = {});
/// Predicts and sorts those that are ranked by a bound, and others among them anew.
void rank_bounded(const TunedLaunch& launch, std::span<Candidate> candidates);

/// Computes the grids and returns the first candidate that can be made ready on the device, which the launch then finds
/// done, from number `first` on and wrapping around; the very first one if there is none.
const Candidate& first_that_works(const TunedLaunch& launch, std::vector<Candidate>& candidates, size_t first);

}  // namespace tegula::dsl
