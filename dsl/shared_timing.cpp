#include "dsl/shared_timing.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

namespace tegula::dsl {

namespace {

// What a process measures next. Others leave it alone while the claims are held.
struct Share {
  std::vector<std::string> configs;
  std::vector<TuningStore::Claim> claims;
  bool others_measure = false;  // some of those without a result
};

// Some of those without a result that no other process measures, few enough that all processes get some.
Share claim_some(const SharedTiming& timing, int processes) {
  Share share;
  std::vector<std::string> open = timing.without_result();
  const size_t most = std::max<size_t>(1, open.size() / (2 * size_t(processes)));
  for (const std::string& config : open) {
    if (share.configs.size() == most) break;
    if (auto claim = timing.store.try_claim(timing.problem, config)) {
      share.claims.push_back(std::move(*claim));
      share.configs.push_back(config);
    } else {
      share.others_measure = true;
    }
  }
  // What another process has finished since the results were read is no longer open.
  open = timing.without_result();
  std::erase_if(share.configs,
                [&](const std::string& config) { return std::ranges::find(open, config) == open.end(); });
  if (share.configs.empty() && !open.empty()) share.others_measure = true;
  return share;
}

}  // namespace

void measure_beside_others(const SharedTiming& timing, int processes) {
  while (!timing.is_chosen()) {
    const Share share = claim_some(timing, processes);
    if (!share.configs.empty())
      timing.measure(share.configs);
    else if (share.others_measure)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    else
      return;
  }
}

}  // namespace tegula::dsl
