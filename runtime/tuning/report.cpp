#include "runtime/tuning/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tegula {

namespace {

constexpr size_t kColumns = 9;
using Row = std::array<std::string, kColumns>;

template <class T>
std::string known(T value, bool is_known) {
  return is_known ? fmt::format("{}", value) : "-";
}

}  // namespace

std::string tuning_table(std::vector<TuningResult> results, std::string_view winner) {
  using Status = TuningResult::Status;
  std::stable_sort(results.begin(), results.end(), [](const TuningResult& a, const TuningResult& b) {
    return std::pair(a.status, a.median_us()) < std::pair(b.status, b.median_us());
  });
  double best = INFINITY;
  for (const TuningResult& r : results)
    if (r.config == winner || (winner.empty() && r.status == Status::Timed)) best = std::min(best, r.median_us());

  std::vector<Row> rows = {{"config", "us", "spread", "of best", "model us", "registers", "spilled", "shared", ""}};
  for (const TuningResult& r : results) {
    bool timed = !r.times_us.empty();
    double median = r.median_us(), spread = 0;
    if (timed) {
      auto sorted = r.times_us;
      std::sort(sorted.begin(), sorted.end());
      spread = (sorted[sorted.size() * 3 / 4] - sorted[sorted.size() / 4]) / median;
    }
    std::string note(to_string(r.status));
    if (r.config == winner)
      note = "best";
    else if (r.status == Status::Timed)
      note.clear();
    if (!r.reason.empty()) {
      std::string reason = r.reason.substr(0, r.reason.find('\n'));
      note += (note.empty() ? "" : ": ") + (reason.size() > 100 ? reason.substr(0, 97) + "..." : reason);
    }
    rows.push_back(
        {r.config, timed ? fmt::format("{:.2f}", median) : "-", timed ? fmt::format("{:.1f} %", 100 * spread) : "-",
         timed && best < INFINITY ? fmt::format("{:.3f}", median / best) : "-",
         r.predicted_us > 0 ? fmt::format("{:.1f}", r.predicted_us) : "-", known(r.registers, r.registers >= 0),
         known(r.spill_bytes, r.spill_bytes >= 0), known(r.shared_bytes, r.shared_bytes >= 0), note});
  }
  std::array<size_t, kColumns> width{};
  for (const Row& row : rows)
    for (size_t i = 0; i < kColumns; ++i) width[i] = std::max(width[i], row[i].size());
  std::string out;
  for (const Row& row : rows) {
    std::string line = fmt::format("{:<{}}", row[0], width[0]);
    for (size_t i = 1; i + 1 < kColumns; ++i) line += fmt::format("  {:>{}}", row[i], width[i]);
    line += "  " + row.back();
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

}  // namespace tegula
