// The cost model: predicts the time of a launch from tile IR, to rank configurations before any is compiled and to say
// what bounds a kernel. It needs no LLVM: with the passes that assign layouts, an estimate takes 0.5 ms for a row
// kernel and 2.5 ms for a product.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "codegen/ir/ir.h"
#include "codegen/target/target.h"
#include "runtime/device.h"

namespace tegula {

/// Execution counts of loops and branches, by source location: how often each was reached, and its iterations or how
/// often the first region of a branch was taken.
struct ControlCounts {
  struct Count {
    double entered = 0, went = 0;
  };
  using Place = std::tuple<const std::string*, int, int>;  ///< file, line, column
  std::map<Place, Count> at;

  void add(const Loc& loc, double went) {
    Count& count = at[{loc.file, loc.line, loc.column}];
    ++count.entered, count.went += went;
  }
  /// The mean number of iterations, or the share of times that the branch was taken; nullopt if the location is not
  /// known.
  std::optional<double> average(const Loc& loc) const {
    const auto found = at.find({loc.file, loc.line, loc.column});
    if (found == at.end() || found->second.entered == 0) return std::nullopt;
    return found->second.went / found->second.entered;
  }
};

/// What is known about the launch besides the kernel.
struct CostInputs {
  int64_t programs = 1;  ///< of the whole grid
  /// The grid, if a sample of its programs is to be examined; otherwise all programs are taken to be like the first
  /// one.
  std::optional<std::array<int64_t, 3>> grid = {};
  const DeviceInfo* device =
      nullptr;  ///< number of SMs and memory rate; null or an emulator: the target's usual device
  /// Values of integer arguments, for trip counts of loops.
  std::map<std::string, int64_t, std::less<>> arguments = {};
  /// Sizes in bytes of the arrays that pointer arguments point to, where they are known: no more than that comes from
  /// memory.
  std::map<std::string, int64_t, std::less<>> array_bytes = {};
  int64_t extent = 4096;  ///< of integer arguments whose value is not known
  int64_t trips = 8;      ///< of loops whose bounds come from memory, and of `while`
  /// The bytes that the whole launch moves, if they have been counted; otherwise they are estimated.
  struct Moved {
    double memory = 0;  ///< from and to memory
    double l2 = 0;      ///< between the multiprocessors and the L2 cache
  };
  std::optional<Moved> moved = {};
  std::optional<int> programs_per_sm = {};  ///< where the code is known; else by estimated registers
  std::optional<int64_t> spill_bytes = {};  ///< a thread, likewise
  /// Execution counts of programs that were followed, used where the arguments alone do not determine a loop or branch.
  const ControlCounts* control = nullptr;
};

struct CostEstimate {
  // One program. Masks are taken to hold everywhere; elements that a broadcast repeats count once.
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
  int64_t bytes_shared = 0;  ///< of bytes_read: at addresses that all programs share, so from the L2 cache
  int64_t flops = 0;         ///< outside of dots; an fma is two
  int64_t special = 0;       ///< of flops: exponentials, divisions, roots and the like
  int64_t dot_flops = 0;     ///< of dots
  int registers = 0;         ///< a thread; beyond register_limit they are spilled
  int register_limit = 255;  ///< by maxnreg and by the size of the register file
  int64_t shared_bytes = 0;
  int threads = 0;

  // The launch.
  int programs_per_sm = 0;  ///< resident at the same time; 0: does not fit
  double waves = 0;
  double instructions = 0;          ///< of warps, all programs'
  double special_instructions = 0;  ///< of these, those of the special function units
  double bytes_in_flight = 0;       ///< an SM, while loads of all resident programs are on their way
  double bytes_needed = 0;          ///< the same, to keep memory busy (Little's law)
  double predicted_us = 0;          ///< infinity if it does not fit
  double memory_us = 0, compute_us = 0, latency_us = 0;  ///< what each would take alone
  double behind_us = 0;                                  ///< of the last program, which finishes what all have begun
  std::string bound;                                     ///< "memory", "compute", "latency", "does not fit"
  /// A sentence on the bound with its figures.
  std::string text;

  bool spills() const { return registers > register_limit; }
};

/// `func` has its layouts (stage LaidOut; lay_out() in codegen/compile.h gives it them).
CostEstimate estimate_cost(const ir::Func& func, const Target& target, const CostInputs& inputs);

}  // namespace tegula
