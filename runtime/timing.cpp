#include "runtime/timing.h"

#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/memory.h"
#include "runtime/stream.h"

namespace tegula {

double median(std::vector<double> values) {
  TEGULA_CHECK(!values.empty(), "median of nothing");
  auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

Timing time_on_device(Device& device, FunctionRef<void()> work, const TimingOptions& options) {
  TEGULA_CHECK(options.runs > 0, "{} runs to time", options.runs);
  Buffer scratch;
  if (options.flush_l2 && device.info().l2_bytes > 0) scratch = Buffer(device, size_t(2 * device.info().l2_bytes));
  for (int i = 0; i < options.warmup; ++i) work();

  std::vector<Event> starts, stops;
  for (int i = 0; i < options.runs; ++i) {
    starts.emplace_back(device);
    stops.emplace_back(device);
  }
  for (int i = 0; i < options.runs; ++i) {
    scratch.fill(uint8_t(i), options.stream);
    starts[i].record(options.stream);
    work();
    stops[i].record(options.stream);
  }
  device.synchronize(options.stream);

  Timing timing;
  for (int i = 0; i < options.runs; ++i) timing.runs_ms.push_back(stops[i].ms_since(starts[i]));
  timing.median_ms = median(timing.runs_ms);
  auto [low, high] = std::minmax_element(timing.runs_ms.begin(), timing.runs_ms.end());
  timing.min_ms = *low;
  timing.max_ms = *high;
  return timing;
}

}  // namespace tegula
