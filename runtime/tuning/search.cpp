#include "runtime/tuning/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/base/error.h"
#include "runtime/base/processors.h"
#include "runtime/timing.h"

namespace tegula {

namespace {

using Status = TuningResult::Status;

constexpr int kFirstRuns = 3;     ///< enough to see that a candidate is hopeless
constexpr int kRuns = 3;          ///< behind them, that go into a race with others
constexpr int kRunsAlone = 9;     ///< likewise where another process or another day compares
constexpr int kHeat = 3;          ///< rounds of a race after which the slow ones leave
constexpr size_t kFinalists = 4;  ///< left after the second heat at most
constexpr int kFinalRounds = 15;  ///< samples of each for the test, fewer where runs take long
constexpr int kFewestRounds = 9;
constexpr double kNearInFirstHeat = 1.08,
                 kNear = 1.03;       ///< medians of those that stay are within this factor of the best
constexpr double kNearBefore = 1.1;  ///< likewise those known from before that take part

int runs_in(double ms, double run_us, int least, int most) {
  return std::clamp(int(1000 * ms / std::max(run_us, 1.0)), least, most);
}

/// Prepares candidates in the background; callers take those that are ready, in order.
class Preparation {
 public:
  Preparation(std::vector<size_t> order, const std::function<PreparedCandidate(size_t)>& prepare, int threads,
              uint64_t turn)
      : order_(std::move(order)), prepare_(prepare), turn_(turn) {
    if (threads <= 0) threads = int(processors());
    threads = std::min(threads, int(order_.size()));
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Preparation() {
    next_ = order_.size();
    for (std::thread& t : threads_) t.join();
  }
  Preparation(const Preparation&) = delete;

  /// The first of the candidates that are ready, with its number; waits for one, and gives none when all were taken.
  std::optional<std::pair<size_t, PreparedCandidate>> take() {
    std::unique_lock lock(mutex_);
    if (taken_ == order_.size()) return std::nullopt;
    ++taken_;
    ready_.wait(lock, [&] { return !done_.empty(); });
    auto first = done_.extract(done_.begin());
    return std::pair(first.key(), std::move(first.mapped()));
  }
  /// Nothing more is taken.
  void end() {
    std::lock_guard lock(mutex_);
    taken_ = order_.size();
  }

 private:
  void work() {
    for (size_t i; (i = next_++) < order_.size();) {
      PreparedCandidate out;
      try {
        ProcessorSlot slot(turn_);
        out = prepare_(order_[i]);
      } catch (const std::exception& e) {
        out.facts.status = Status::Failed;
        out.facts.reason = e.what();
      } catch (...) {
        out.facts.status = Status::Failed;
        out.facts.reason = "unknown exception";
      }
      std::lock_guard lock(mutex_);
      done_.emplace(order_[i], std::move(out));
      ready_.notify_all();
    }
  }

  const std::vector<size_t> order_;
  const std::function<PreparedCandidate(size_t)>& prepare_;
  const uint64_t turn_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  std::condition_variable ready_;
  std::map<size_t, PreparedCandidate> done_;
  size_t taken_ = 0;
  std::vector<std::thread> threads_;
};

class Search {
 public:
  Search(const std::vector<std::string>& configs, const std::vector<double>& predicted_us,
         const std::function<PreparedCandidate(size_t)>& prepare,
         const std::function<void(const TuningResult&)>& finished, const SearchOptions& options)
      : prepare_(prepare), finished_(finished), options_(options) {
    for (size_t i = 0; i < configs.size(); ++i)
      candidates_.push_back({configs[i], i < predicted_us.size() ? predicted_us[i] : 0,
                             i < options.surely_spills.size() ? options.surely_spills[i] : ""});
  }

  SearchOutcome run(const std::vector<TuningResult>& known) {
    size_t begun = candidates_.size();
    measure_from(0, begun, known);
    // As many again at most: where nothing works, as after an error of the device, what is behind them does not either.
    size_t most = 2 * begun;
    for (size_t replaced = 0; options_.reserve && begun < most;) {
      const size_t missing = count_missing() - replaced;
      if (missing == 0) break;
      if (replaced == 0) std::ranges::move(options_.reserve(), std::back_inserter(candidates_));
      most = std::min(most, candidates_.size());
      const size_t end = std::min(begun + missing, most);
      replaced += missing;
      measure_from(begun, end, known);
      begun = end;
    }
    if (options_.end == SearchOptions::End::Time) return std::move(out_);
    spilling_ = std::none_of(out_.results.begin(), out_.results.end(),
                             [&](const TuningResult& r) { return in_the_running(r); });
    if (spilling_)
      for (size_t i = 0; i < out_.results.size(); ++i) {
        if (out_.results[i].status != Status::Spilled) continue;
        PreparedCandidate candidate{out_.results[i], {}};
        candidate.facts.status = Status::Timed;
        candidate.facts.measured_at = 0;
        candidate.time = [&, i](int runs, int worker) {
          if (!spilled_[i]) spilled_[i] = prepare_(i).time;  // known from before
          return spilled_[i](runs, worker);
        };
        time(i, candidate, 0);
        candidate.facts.reason += "; timed since all candidates spill";
        finish(i, std::move(candidate.facts));
      }
    decide();
    return std::move(out_);
  }

 private:
  // Prepares and times the candidates from `begin` to `end` that are not known.
  void measure_from(size_t begin, size_t end, const std::vector<TuningResult>& known) {
    out_.results.resize(end);
    std::vector<size_t> todo, put_off;
    for (size_t i = begin; i < end; ++i) {
      auto it =
          std::find_if(known.begin(), known.end(), [&](const auto& r) { return r.config == candidates_[i].config; });
      if (it == known.end() && !candidates_[i].surely_spills.empty()) {
        out_.results[i].status = Status::Spilled;
        out_.results[i].reason = candidates_[i].surely_spills;
        put_off.push_back(i);
      } else if (it == known.end()) {
        todo.push_back(i);
      } else {
        out_.results[i] = *it;
      }
    }
    left_ = todo.size() + put_off.size();
    for (size_t i : put_off) measure(i, {out_.results[i], {}}, 0);
    Preparation preparation(todo, prepare_, options_.compile_threads, options_.turn);
    std::exception_ptr error;
    auto work = [&](int worker) {
      try {
        while (auto next = preparation.take()) measure(next->first, std::move(next->second), worker);
      } catch (...) {
        preparation.end();
        std::lock_guard lock(mutex_);
        if (!error) error = std::current_exception();
      }
    };
    std::vector<std::thread> others;
    for (int w = 1; w < options_.workers; ++w) others.emplace_back(work, w);
    work(0);
    for (std::thread& t : others) t.join();
    if (error) std::rethrow_exception(error);
  }

  // How many candidates others may take the place of.
  size_t count_missing() const {
    return size_t(std::ranges::count_if(
        out_.results, [](const TuningResult& r) { return r.status == Status::Failed || r.status == Status::Spilled; }));
  }

  void measure(size_t i, PreparedCandidate candidate, int worker) {
    TuningResult& facts = candidate.facts;
    facts.config = candidates_[i].config;
    if (candidates_[i].predicted_us != 0) facts.predicted_us = candidates_[i].predicted_us;
    if (!std::isfinite(facts.predicted_us)) facts.predicted_us = 0;
    if (facts.status == Status::Timed && facts.spill_bytes > 0) {
      facts.status = Status::Spilled;
      facts.reason = fmt::format("{} bytes of registers spilled a thread", facts.spill_bytes);
      std::lock_guard lock(mutex_);
      spilled_[i] = std::move(candidate.time);
    } else if (facts.status == Status::Timed) {
      time(i, candidate, worker);
    }
    finish(i, std::move(facts));
  }

  /// A candidate that spills, though timed once for want of others, gives way to any that does not.
  bool in_the_running(const TuningResult& r) const {
    return r.status == Status::Timed && !r.times_us.empty() && (spilling_ || r.spill_bytes <= 0);
  }

  double best_median() {
    std::lock_guard lock(mutex_);
    double best = INFINITY;
    for (const TuningResult& r : out_.results)
      if (in_the_running(r)) best = std::min(best, r.median_us());
    return best;
  }

  /// Fills in facts.times_us, or says why there are none.
  void time(size_t i, PreparedCandidate& candidate, int worker) {
    TuningResult& r = candidate.facts;
    try {
      std::vector<double> first = candidate.time(kFirstRuns, worker);
      double typical = median(first);
      double quickest = *std::min_element(first.begin(), first.end());
      {
        std::lock_guard lock(mutex_);
        ++out_.timed;
      }
      if (double best = best_median(); quickest > options_.hopeless * best) {
        r.status = Status::Stopped;
        r.reason = fmt::format("{:.2f} times the best so far", quickest / best);
        r.times_us = std::move(first);
        return;
      }
      auto runs = [&](double ms, int least, int most) {
        return runs_in(ms, typical * candidate.launches, least, most);
      };
      const int warmup = runs(options_.warmup_ms, 0, 5) - kFirstRuns;  // the first ones were warm-up too
      if (warmup > 0) candidate.time(warmup, worker);
      r.times_us = candidate.time(apart_ ? runs(options_.rep_ms, 5, kRunsAlone) : kRuns, worker);
      std::lock_guard lock(mutex_);
      timers_[i] = std::move(candidate.time);
      run_us_[i] = typical * candidate.launches;
    } catch (const std::exception& e) {
      r.status = Status::Failed;
      r.reason = e.what();
      r.times_us.clear();
    }
  }

  void finish(size_t i, TuningResult result) {
    std::lock_guard lock(mutex_);
    out_.results[i] = std::move(result);
    if (ended_) return;
    ended_ = true;  // unless the functions return
    if (finished_) finished_(out_.results[i]);
    if (left_ > 0) --left_;
    if (options_.progress) options_.progress(out_.results[i], left_);
    ended_ = false;
  }

  /// Those that were timed now, and the incumbent and the best few of those known from before, are timed in turn, so
  /// that what drifts (clocks, temperature) hits all of them alike.
  void decide() {
    std::vector<size_t> timed;
    for (size_t i = 0; i < out_.results.size(); ++i)
      if (in_the_running(out_.results[i])) timed.push_back(i);
    if (timed.empty()) return;
    std::stable_sort(timed.begin(), timed.end(),
                     [&](size_t a, size_t b) { return out_.results[a].median_us() < out_.results[b].median_us(); });
    const double best = out_.results[timed[0]].median_us();
    size_t known = 0;
    std::vector<size_t> entrants;
    for (size_t i : timed) {
      const double us = out_.results[i].median_us();
      if (is_incumbent(i) || (!apart_ && timers_.contains(i) ? us <= options_.hopeless * best
                                                             : us <= kNearBefore * best && known++ < kFinalists))
        entrants.push_back(i);
    }
    out_.best = int(timed[0]);
    const bool again = out_.timed > 0 || options_.end == SearchOptions::End::Compare;
    if (again && entrants.size() > 1) race(std::move(entrants));
  }

  // Rounds of one run of each entrant. Times of the same candidate drift by more between its turn and another one's
  // than what is to be told apart: of each heat the slow ones leave, by what the rounds say alone.
  void race(std::vector<size_t> entrants) {
    std::erase_if(entrants, [&](size_t i) { return !can_run(i); });
    if (entrants.empty()) return;
    double longest_us = 0;
    for (size_t i : entrants) longest_us = std::max(longest_us, run_us_[i]);
    const int rounds = runs_in(options_.rep_ms, longest_us, kFewestRounds, kFinalRounds);
    std::map<size_t, std::vector<double>> samples;
    std::vector<size_t> left = entrants;
    try {
      for (int round = 0; round < rounds && (left.size() > 1 || round < kHeat); ++round) {
        for (size_t k = 0; k < left.size(); ++k) {
          size_t i = left[round % 2 ? left.size() - 1 - k : k];
          for (double us : timers_[i](1, 0)) samples[i].push_back(us);
        }
        if ((round + 1) % kHeat == 0) end_heat(left, samples, round < kHeat);
      }
    } catch (const std::exception&) {
      return;  // what was measured before decides
    }
    out_.best = int(winner(std::move(left), samples));
    for (size_t i : entrants) {
      out_.results[i].times_us = samples[i];
      out_.results[i].measured_at = 0;  // now
      if (finished_) finished_(out_.results[i]);
    }
  }

  bool can_run(size_t i) {
    try {
      if (timers_.contains(i)) return true;
      PreparedCandidate candidate = prepare_(i);  // known from before
      run_us_[i] = out_.results[i].median_us() * candidate.launches;
      timers_[i] = std::move(candidate.time);
      return bool(timers_[i]);
    } catch (const std::exception&) {
      return false;  // it worked before: its row stays, but it cannot win
    }
  }

  // Leaves those that may win.
  void end_heat(std::vector<size_t>& left, const std::map<size_t, std::vector<double>>& samples, bool first) {
    std::vector<size_t> order = left;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return median(samples.at(a)) < median(samples.at(b)); });
    const double limit = (first ? kNearInFirstHeat : kNear) * median(samples.at(order[0]));
    if (!first && order.size() > kFinalists) order.resize(kFinalists);
    std::erase_if(left, [&](size_t i) {
      return !is_incumbent(i) &&
             (median(samples.at(i)) > limit || std::find(order.begin(), order.end(), i) == order.end());
    });
  }

  // An incumbent loses its place only to one that is faster beyond doubt.
  size_t winner(std::vector<size_t> left, const std::map<size_t, std::vector<double>>& samples) const {
    std::stable_sort(left.begin(), left.end(),
                     [&](size_t a, size_t b) { return median(samples.at(a)) < median(samples.at(b)); });
    const auto incumbent = std::find_if(left.begin(), left.end(), [&](size_t i) { return is_incumbent(i); });
    if (incumbent == left.end()) return left[0];
    const double level =
        options_.significance / double(std::max<size_t>(1, left.size() - 1));  // Bonferroni's correction
    for (size_t i : left)
      if (significantly_smaller(samples.at(i), samples.at(*incumbent), level)) return i;
    return *incumbent;
  }

  bool is_incumbent(size_t i) const { return candidates_[i].config == options_.incumbent; }

  std::vector<SearchCandidate> candidates_;  // those of the reserve too, once they were asked for
  const std::function<PreparedCandidate(size_t)>& prepare_;
  const std::function<void(const TuningResult&)>& finished_;
  const SearchOptions& options_;
  /// On several GPUs, where each candidate has the times of one: only the best few are compared on one GPU.
  const bool apart_ = options_.end == SearchOptions::End::Time || options_.workers > 1;

  using Timer = std::function<std::vector<double>(int runs, int worker)>;
  std::mutex mutex_;  ///< guards what follows while workers run
  SearchOutcome out_;
  size_t left_ = 0;
  bool ended_ = false;               ///< by what a function of the caller threw: nothing more is told
  bool spilling_ = false;            ///< all spill: these are timed then
  std::map<size_t, Timer> timers_;   ///< of those in the running
  std::map<size_t, double> run_us_;  ///< of the same: what a run takes
  std::map<size_t, Timer> spilled_;  ///< of those that spill
};

}  // namespace

SearchOutcome search(const std::vector<std::string>& configs, const std::vector<double>& predicted_us,
                     const std::vector<TuningResult>& known,
                     const std::function<PreparedCandidate(size_t candidate)>& prepare,
                     const std::function<void(const TuningResult&)>& finished, const SearchOptions& options) {
  return Search(configs, predicted_us, prepare, finished, options).run(known);
}

bool significantly_smaller(const std::vector<double>& a, const std::vector<double>& b, double level) {
  double m = double(a.size()), n = double(b.size());
  if (a.empty() || b.empty()) return false;
  std::vector<std::pair<double, bool>> all;
  for (double x : a) all.emplace_back(x, true);
  for (double x : b) all.emplace_back(x, false);
  std::sort(all.begin(), all.end());
  double rank_sum = 0, ties = 0;
  for (size_t i = 0; i < all.size();) {
    size_t j = i;
    while (j < all.size() && all[j].first == all[i].first) ++j;
    double rank = double(i + j + 1) / 2, count = double(j - i);  // the mean of ranks i + 1 to j
    ties += count * count * count - count;
    for (size_t k = i; k < j; ++k) rank_sum += all[k].second ? rank : 0;
    i = j;
  }
  double u = rank_sum - m * (m + 1) / 2;  // small when a is smaller
  double total = m + n;
  double variance = m * n / 12 * (total + 1 - ties / (total * (total - 1)));
  if (variance <= 0) return false;
  double z = (u + 0.5 - m * n / 2) / std::sqrt(variance);
  return 0.5 * std::erfc(-z / std::sqrt(2.0)) < level;
}

}  // namespace tegula
