// What tuning measures: of a problem, what became of each candidate.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tegula {

/// What is tuned, and where.
struct TuningProblem {
  std::string kernel;  ///< readable name, and digest of its source: "softmax_kernel 8f0c..."
  std::string key;     ///< types and key values of the arguments: "*f32 *f32 i32 i32 | cols=4096"
  std::string gpu;     ///< "NVIDIA H200"
  std::string driver;  ///< versions of the driver and of the compiler
  bool operator==(const TuningProblem&) const;
};

/// What became of a candidate.
struct TuningResult {
  enum class Status {
    Timed,    ///< `times_us` holds its runs
    Stopped,  ///< timed too slow to go on: the few runs are in `times_us`
    Spilled,  ///< dropped: registers spilled (never timed unless all candidates spill)
    Failed,   ///< did not compile, link or launch: `reason` says why
  };
  std::string config;  ///< canonical text
  Status status = Status::Timed;
  std::string reason;  ///< why it was dropped; empty for a timed one
  std::vector<double> times_us;
  double predicted_us = 0;  ///< the model's; 0: none
  int registers = -1;       ///< a thread; -1: not known
  int spill_bytes = -1;
  int64_t shared_bytes = -1;
  int64_t measured_at = 0;  ///< seconds since 1970; set by the store when 0

  double median_us() const;  ///< infinity when nothing was timed
};

std::string_view to_string(TuningResult::Status status);

}  // namespace tegula
