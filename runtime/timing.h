// Time of device work, by events on the stream it runs on.
#pragma once

#include <vector>

#include "runtime/base/function.h"
#include "runtime/device.h"

namespace tegula {

struct TimingOptions {
  int warmup = 3;         ///< runs before those that count
  int runs = 20;          ///< runs that count; at least 1
  bool flush_l2 = false;  ///< write twice the L2 cache before each run, so that every run starts with cold data
  StreamHandle stream = nullptr;
};

struct Timing {
  double median_ms = 0;
  double min_ms = 0;
  double max_ms = 0;
  std::vector<double> runs_ms;  ///< in order of running
};

/// The middle value (the mean of the two middle ones of an even count). `values` must not be empty.
double median(std::vector<double> values);

/// Times `work()`, which must put its work on options.stream. On a GPU all runs are queued before the first is waited
/// for, so host time shows only where a run is shorter than its launch. Throws DeviceError if a run fails.
Timing time_on_device(Device& device, FunctionRef<void()> work, const TimingOptions& options = {});

}  // namespace tegula
