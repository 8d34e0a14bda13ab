// What a launch costs and why: bytes and operations, occupancy, what limits each access, the bound and a predicted
// time.
//
//   Explanation e = explain(kernel, {rows}, {.constexprs = {{"BLOCK", 1024}}}, args);
//   std::puts(e.text().c_str());
//
// Traffic is counted from the addresses that the programs touch (codegen/explain/traffic.h), not estimated. Nothing is
// run unless a GPU is to time the launch; pointers may be any addresses where no data decides what the kernel touches.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dsl/kernel.h"

namespace tegula {

namespace detail {
struct ExplainedLaunch;
}

struct ExplainOptions {
  std::string target = {};   ///< a row of targets.def; empty: that of the device, else sm_90a
  Device* device = nullptr;  ///< where the arguments' data lies; null: nowhere
  bool measure = false;      ///< on a GPU: launch and time it as well, several times; results must bear that
};

/// Bytes are those of the whole launch unless said otherwise.
struct Explanation {
  struct Array {
    std::string name;
    int64_t read = 0, written = 0;  ///< through the L2 cache
    int64_t from_memory = 0, to_memory = 0;
  };
  struct Access {
    std::string place;  ///< "file:line:column"
    std::string what, array;
    int bytes = 0;          ///< of one instruction of a thread; of bulk copies and stores those of a box
    double efficiency = 1;  ///< bytes asked for by bytes of the sectors that they lie in
    std::string limit;      ///< what keeps it from 16 bytes; empty: nothing
  };
  struct Loop {
    std::string place;
    int stages = 1;
    std::string by;            ///< what moves its data; empty: loads to registers
    std::string why_not_more;  ///< empty: nobody asked for more
  };
  struct Unit {
    std::string name;  ///< "fp32", "special functions", "tensor cores, f16"
    double operations = 0;
    double peak = 0;       ///< a second, of the target
    double intensity = 0;  ///< operations a byte from or to memory
    double ridge = 0;      ///< the intensity from which on the unit, and not memory, is the limit
  };

  std::string kernel, config, target;
  int64_t programs = 0, counted_programs = 0;

  int64_t read = 0, written = 0, from_memory = 0, to_memory = 0, useful_read = 0, useful_written = 0;
  std::vector<Array> arrays;
  std::vector<Access> accesses;
  std::vector<std::string> assumptions;  ///< of the counts

  std::vector<Unit> units;
  double instructions = 0, special_instructions = 0;  ///< of warps, estimated; the latter of the special function units

  int threads = 0;     ///< of a program
  int registers = -1;  ///< a thread's, by ptxas or the driver; else as estimated
  bool registers_estimated = true;
  int spill_bytes = -1;      ///< a thread's; -1: not known
  int64_t shared_bytes = 0;  ///< of a program
  int programs_per_sm = 0;
  double occupancy = 0;  ///< warps resident of those that could be
  std::string occupancy_limit;
  double waves = 0;
  std::vector<std::string> bank_conflicts;
  int shared_accesses = 0;
  std::vector<Loop> loops;

  std::string bound;  ///< "memory", "compute", "latency", "launch", "does not fit"
  std::string bound_text;
  double predicted_us = 0;
  double memory_us = 0, compute_us = 0, latency_us = 0;
  double bandwidth = 0;  ///< bytes a second that a copy reaches
  std::optional<double> measured_us;
  std::string why_measured_differs;  ///< empty: it does not, or nothing was measured

  std::shared_ptr<const detail::ExplainedLaunch> launch;  ///< what advise_fusion() asks

  std::string text() const;
  std::string json() const;
  /// The roofline plot as SVG: the roofs of the units, and the kernel below them.
  std::string roofline_svg() const;
};

/// Throws CompileError, LaunchError, DeviceError.
Explanation explain(const Kernel& kernel, detail::GridRef grid, const LaunchOptions& options, std::span<const Arg> args,
                    const ExplainOptions& how = {});
inline Explanation explain(const Kernel& kernel, Grid grid, const LaunchOptions& options, std::span<const Arg> args,
                           const ExplainOptions& how = {}) {
  return explain(kernel, detail::GridRef(grid), options, args, how);
}

/// If the environment variable TEGULA_EXPLAIN names a file, appends the launch's explanation to it as a line of JSON,
/// or a line with the `error` if the launch cannot be explained. Launches call it when they make a kernel ready.
void explain_if_asked(const Kernel& kernel, Device& device, Grid grid, const LaunchOptions& options,
                      std::span<const Arg> args) noexcept;

/// The advice whether consecutive kernels should be fused into one.
struct FusionAdvice {
  struct Rule {
    int number;
    std::string question;
    bool speaks_for_fusion;
    std::string figures;
  };
  std::vector<Rule> rules;  ///< in the order in which they are asked
  bool fuse = false;
  std::string verdict;
  int64_t separate_bytes = 0, fused_bytes = 0;  ///< from and to memory

  std::string text() const;
  std::string json() const;
};
/// Advises on fusing `launches`, which run one after another on one target. Arrays are identified by their addresses.
/// `kept`: arrays that are read after the sequence although kernels of it read them.
FusionAdvice advise_fusion(std::span<const Explanation> launches, std::span<const uint64_t> kept = {});

namespace detail {
/// {"kernel": ..., "error": ...}
std::string json_of_failure(const std::string& kernel, const std::string& error);
}  // namespace detail

}  // namespace tegula
